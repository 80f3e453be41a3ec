//! Server-side apply, told in cases: `cases/*.txt`.
//!
//! ```text
//! case NAME                begins with no object
//! apply M JSON             M applies; `apply!` forces; JSON is the spec, or `object JSON` the object
//! status M JSON            M applies to /status; `status!` forces; JSON is the status
//! update M JSON            M replaces the spec, or creates the object
//! patch M JSON             M merges a patch into the spec, or `object JSON` into the object
//! conflicts M PATH...      the apply before it failed, because M owns these paths
//! error TEXT               the apply before it failed with this text
//! spec JSON                what the spec is now; `object JSON` what the object is, without its identity
//! owners M PATH...         who owns what, one line for each entry, all of them; `owners none`
//! ```
//!
//! Paths are relative to `.spec`; `.` is the spec itself, and `^.status.x` starts at the root. An
//! entry of an updater is written `M/update`, one of the status endpoint `M@status`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on stops")]

mod laws;
mod scenario;
mod versions;

use std::fs;
use std::path::Path;

use scenario::{Scenario, parse};

#[test]
fn every_case_ends_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apply/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut cases = 0;
    for file in files {
        for case in parse(&fs::read_to_string(&file).unwrap()) {
            let name = format!("{}: {}", file.file_stem().unwrap().to_string_lossy(), case.name);
            Scenario::new(&name).run(&case.steps);
            cases += 1;
        }
    }
    assert!(cases >= 60, "only {cases} cases");
}
