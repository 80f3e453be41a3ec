//! What the tasks need beside a Rust toolchain, and how it gets here.

use std::process::{Command, Stdio};

use crate::run::{self, Task, root, say};

/// Version of cargo-deny that the configuration in deny.toml is written for.
const CARGO_DENY: &str = "0.20.2";

/// Runs the dependency audit, installing cargo-deny below `target/` first if it is not there.
///
/// Licences, duplicates and sources are decided by the lock file alone. Advisories come from a database
/// that is fetched; where the network does not let it through, that part says so and is left out.
pub(crate) fn cargo_deny() -> Task {
    let tools = root().join("target/tools");
    let binary = tools.join("bin/cargo-deny");
    let wanted = format!("cargo-deny {CARGO_DENY}");
    let installed = Command::new(&binary).arg("--version").output();
    if !installed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == wanted) {
        let (package, tools) = (format!("cargo-deny@{CARGO_DENY}"), tools.to_string_lossy());
        // It reads a lock file once: what it takes to build counts, not how fast it is or how it is debugged.
        let quick = [("CARGO_PROFILE_DEV_DEBUG", "none")];
        run::with_env(&quick, &["install", "--locked", "--debug", "--force", "--root", &tools, &package])?;
    }
    let binary = binary.to_string_lossy();
    run::program(&binary, &["--all-features", "check", "bans", "licenses", "sources"])?;
    let advisories = ["--all-features", "check", "advisories"];
    say(&format!("$ {binary} {}", advisories.join(" ")));
    let output = Command::new(&*binary)
        .args(advisories)
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo deny: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else if text.contains("failed to fetch advisory database") {
        say("xtask: advisories were NOT checked: their database cannot be fetched from here");
        Ok(())
    } else {
        say(text.trim_end());
        Err("cargo deny check advisories".to_owned())
    }
}

/// Any Chromium will do.
pub(crate) const CHROMIUM: Tool = Tool { program: "chromium", package: "chromium" };

/// A program that a task calls, and the Debian package that brings it.
pub(crate) struct Tool {
    /// Name of the program.
    pub(crate) program: &'static str,
    /// Name of the package.
    pub(crate) package: &'static str,
}

impl Tool {
    /// Makes sure the program is there: installs its package as root, says what to install otherwise.
    pub(crate) fn ensure(&self) -> Task {
        if self.present() {
            return Ok(());
        }
        let Self { program, package } = self;
        let root_user = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
        if !root_user || !(Tool { program: "apt-get", package: "apt" }).present() {
            return Err(format!("{program} is needed: install Debian's package {package} or its like"));
        }
        run::program("apt-get", &["update", "--quiet"])?;
        run::program("apt-get", &["install", "--quiet", "--yes", "--no-install-recommends", package])
    }

    fn present(&self) -> bool {
        let mut probe = Command::new("sh");
        probe.args(["-c", &format!("command -v {}", self.program)]).stdout(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }
}
