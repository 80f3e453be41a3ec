//! How long it takes to read a version.

use divan::{Bencher, black_box};
use windlass_version::Version;

fn main() {
    divan::main();
}

#[divan::bench(args = ["v1.31.4", "v1.32.0-rc.1", "v1.31.4+vendor.12", "v1.31.0-alpha.1+foo.2-bar.1"])]
fn parse(bencher: Bencher<'_, '_>, text: &str) {
    bencher.bench(|| Version::parse(black_box(text)));
}

#[divan::bench]
fn compare_builds(bencher: Bencher<'_, '_>) {
    let (a, b) = (Version::parse("v1.31.4+vendor.12"), Version::parse("v1.31.4+vendor.13"));
    bencher.bench(|| match (&a, &b) {
        (Ok(a), Ok(b)) => Some(black_box(a).compare(black_box(b))),
        _ => None,
    });
}
