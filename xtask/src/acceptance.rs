//! Acceptance checks that stand beside the checkout, in `../shared/acceptance`.

use std::path::PathBuf;

use crate::run::{self, Task, root, say};
use crate::tools::Tool;

/// Runs the planner's acceptance cases against the debug binary, where they are present.
pub(crate) fn plan() -> Task {
    let Some(script) = present("plan") else { return Ok(()) };
    Tool { program: "python3", package: "python3" }.ensure()?;
    run::cargo(&["build", "--quiet", "--package", "windlass", "--locked"])?;
    let windlass = target_directory().join("debug/windlass");
    run::program("python3", &[&script.to_string_lossy(), &windlass.to_string_lossy()])
}

fn present(name: &str) -> Option<PathBuf> {
    let script = root().join("../shared/acceptance").join(name);
    if script.exists() {
        return Some(script);
    }
    say(&format!("xtask: acceptance check {name} is left out: it is not beside this checkout"));
    None
}

fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
