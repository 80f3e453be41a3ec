//! A short, deterministic run of the fuzz targets in `fuzz/`, on inputs put together from pieces that
//! versions are made of.

#[path = "../../../fuzz/src/parse_version.rs"]
#[expect(unreachable_pub, reason = "public in the fuzz package")]
mod parse_version;
#[path = "../../../fuzz/src/plan_check.rs"]
#[expect(
    unreachable_pub,
    clippy::expect_used,
    reason = "public in the fuzz package, where a panic is the finding"
)]
mod plan_check;

use windlass_random::Generator;

fn pick<'a>(random: &mut Generator, pieces: &[&'a str]) -> &'a str {
    pieces[random.usize(..pieces.len())]
}

/// Up to so many of the pieces, one after the other.
fn text(random: &mut Generator, pieces: &[&str], most: usize) -> String {
    (0..random.usize(..most)).map(|_| pick(random, pieces)).collect()
}

#[test]
fn parsing_survives_twenty_thousand_odd_texts() {
    const PIECES: &[&str] = &[
        "v",
        "1",
        "0",
        "30",
        ".",
        ".",
        "-",
        "+",
        "rc",
        "alpha",
        "_",
        " ",
        "\n",
        "é",
        "18446744073709551616",
        "00",
    ];
    let mut series = Generator::with_seed(0x5eed);
    let mut readable = 0;
    for _ in 0..20_000 {
        let text = text(&mut series, PIECES, 12);
        readable += usize::from(windlass_version::Version::parse(&text).is_ok());
        parse_version::run(text.as_bytes());
    }
    assert!(readable > 100, "the pieces should make versions now and then, made {readable}");
}

#[test]
fn planning_survives_ten_thousand_odd_requests() {
    const VERSIONS: &[&str] = &[
        "v1.29.0",
        "v1.30.0",
        "v1.30.1",
        "v1.31.0",
        "v1.31.0+a",
        "v1.31.0+b",
        "v1.32.0-rc.1",
        "v1.32.0",
        "v1.33.0",
        "v1.34.0",
        "v2.30.0",
        "x",
        "v1.18446744073709551615.0",
    ];
    let mut series = Generator::with_seed(0xcafe);
    let mut planned = 0;
    for _ in 0..10_000 {
        let line = |series: &mut Generator, most: usize| {
            let mut words: Vec<&str> = (0..series.usize(..most)).map(|_| pick(series, VERSIONS)).collect();
            if series.usize(..4) > 0 {
                words.sort_unstable();
                words.dedup();
            }
            words.join(" ")
        };
        let (from, to) = (pick(&mut series, VERSIONS), pick(&mut series, VERSIONS));
        let (workers, chain, stops) = (line(&mut series, 3), line(&mut series, 7), line(&mut series, 4));
        let list = if series.bool() { line(&mut series, 13) } else { String::new() };
        let input = [from, &workers, to, &chain, &stops, &list].join("\n");
        plan_check::run(input.as_bytes());
        planned += usize::from(from < to);
    }
    assert!(planned > 1000);
}
