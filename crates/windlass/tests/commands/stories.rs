//! Plays the stories of `tests/stories`, each compared with its committed output. `cargo xtask bless` rewrites it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What a story prints, and how it ends if that is not well.
fn played(story: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["simulate", "script"])
        .arg(story)
        .output()
        .unwrap();
    let (out, error) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    match output.status.code() {
        Some(0) => out + &error,
        code => format!("{out}{error}exit code {code:?}\n"),
    }
}

#[test]
fn stories_print_what_they_are_said_to() {
    let is_blessed = std::env::var("TRYCMD").is_ok_and(|value| value == "overwrite");
    let folder = std::fs::read_dir("tests/stories").unwrap().map(|entry| entry.unwrap().path());
    let mut stories: Vec<PathBuf> =
        folder.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    stories.sort();
    assert!(stories.len() >= 20, "only {} stories were found", stories.len());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let differing: Vec<String> = std::thread::scope(|scope| {
        let shares = (0..workers).map(|worker| stories.iter().skip(worker).step_by(workers));
        let threads: Vec<_> = shares
            .map(|share| {
                scope.spawn(move || {
                    let differs = share.filter_map(|story| {
                        let (found, golden) = (played(story), story.with_extension("out"));
                        if is_blessed {
                            std::fs::write(&golden, &found).unwrap();
                        }
                        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
                        (found != expected).then(|| format!("{} prints\n{found}", story.display()))
                    });
                    differs.collect::<Vec<String>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(differing.is_empty(), "not as committed:\n{}", differing.join("\n"));
}
