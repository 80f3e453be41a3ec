//! Developer tasks. `cargo xtask` is the front door of the project; CI uses the same commands.

mod acceptance;
mod crds;
mod figures;
mod real;
mod run;
mod tools;

use std::process::ExitCode;

use run::{Task, cargo, say};
use tools::Tool;

const USAGE: &str = "\
usage: cargo xtask TASK

  check   formatting, clippy and documentation with warnings denied, dependency audit
  test    every test; installs what they need first
  bench   every benchmark; prints figures (docs/benchmarks.md says how to read them)
  figures [--binary FILE]
          start to ready, memory and processor time of windlass up, length of the demo; part of bench
  kills [--binary FILE]
          windlass up is killed 50 times while 20 clusters are upgraded and others write; part of accept
  worlds [--runs N] [--seed S] [--minutes M]
          plays random worlds with everything that can go wrong, and shortens the story of each finding; 1 000 from seed 0
  previews [--runs N] [--seed S]
          compares previews of random topologies with what then happens; 200 from seed 0, every fourth in mid-upgrade
  real [NAME...]
          a kube-apiserver with etcd, built from their modules the first time, and everything that is tested on it
  picture docs/demo.svg, from a real run of windlass demo
  accept  what takes long: kills, and the acceptance checks beside the checkout (says how many are left out)
  compare-crds DIR [--looser]
          what objects written for the CustomResourceDefinitions in DIR would miss here; --looser: what they refuse and we take
  bless   rewrites the expected output of scenarios, stories and snapshots: review the diff
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["check"] => check(),
        ["test"] => test(),
        ["bench", rest @ ..] => bench(rest),
        ["figures"] => figures::of(None, &acceptance::target_directory()),
        ["figures", "--binary", file] => figures::of(Some(file), &acceptance::target_directory()),
        ["kills"] => kills(None),
        ["kills", "--binary", file] => kills(Some(file)),
        ["worlds", rest @ ..] => example("worlds", rest),
        ["previews", rest @ ..] => example("previews", rest),
        ["real", names @ ..] => real::run(names),
        ["picture"] => picture(),
        ["compare-crds", directory] => crds::compare(directory, false),
        ["compare-crds", directory, "--looser"] => crds::compare(directory, true),
        ["bless"] => bless(),
        ["accept"] => accept(),
        _ => {
            say(USAGE.trim_end());
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            say(&format!("xtask: {failed}"));
            ExitCode::FAILURE
        }
    }
}

fn check() -> Task {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"])?;
    run::with_env(&[("RUSTDOCFLAGS", "--deny warnings")], &["doc", "--workspace", "--no-deps", "--locked"])?;
    tools::cargo_deny()
}

fn test() -> Task {
    // windlass up is tested with the one, pages with the other.
    acceptance::KUBECTL.ensure()?;
    tools::CHROMIUM.ensure()?;
    // Completions are loaded into them.
    for shell in ["zsh", "fish"] {
        Tool { program: shell, package: shell }.ensure()?;
    }
    // Reads what machines boot from.
    Tool { program: "cloud-init", package: "cloud-init" }.ensure()?;
    cargo(&["test", "--workspace", "--locked"])
}

fn accept() -> Task {
    kills(None)?;
    acceptance::checks()
}

/// The test that every run of the tests has with fewer clusters, of a binary that is there or one with optimisations.
fn kills(binary: Option<&str>) -> Task {
    let windlass = figures::program(binary, &acceptance::target_directory())?;
    let environment = [("WINDLASS_KILL_CLUSTERS", "20"), ("WINDLASS_PROGRAM", &*windlass.to_string_lossy())];
    let test = ["test", "--workspace", "--locked", "--test", "up", "--", "kills", "--nocapture"];
    run::with_env(&environment, &test)
}

/// As many random worlds, or previews of them, as wanted. The tests play the first few.
fn example(name: &str, options: &[&str]) -> Task {
    let program = ["run", "--release", "--locked", "--package", "windlass-simulate", "--example", name, "--"];
    cargo(&program.iter().chain(options).copied().collect::<Vec<_>>())
}

fn bench(filter: &[&str]) -> Task {
    let mut arguments = vec!["bench", "--workspace", "--locked"];
    if !filter.is_empty() {
        arguments.push("--");
        arguments.extend(filter);
        return cargo(&arguments);
    }
    cargo(&arguments)?;
    figures::of(None, &acceptance::target_directory())
}

fn picture() -> Task {
    let windlass = acceptance::windlass()?;
    run::program(&windlass.to_string_lossy(), &["demo", "--seed", "1", "--picture", "docs/demo.svg"])
}

fn bless() -> Task {
    let blessing = [("TRYCMD", "overwrite"), ("INSTA_UPDATE", "always")];
    run::with_env(&blessing, &["test", "--workspace", "--locked"])
}
