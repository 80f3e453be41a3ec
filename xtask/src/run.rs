//! Runs commands, saying which.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a task comes to: nothing, or what failed.
pub(crate) type Task = Result<(), String>;

/// The root of the workspace, where every command runs. Asked of cargo at run time: a target directory may be
/// shared by several checkouts.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&here).parent().unwrap_or(Path::new(".")).to_owned()
}

/// Prints a line on standard error, where it keeps its place among the output of the commands.
pub(crate) fn say(line: &str) {
    // A task goes on if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Runs cargo.
pub(crate) fn cargo(arguments: &[&str]) -> Task {
    with_env(&[], arguments)
}

/// Runs cargo with additional environment variables.
pub(crate) fn with_env(environment: &[(&str, &str)], arguments: &[&str]) -> Task {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut cargo = Command::new(cargo);
    // Cargo tells us about our own package. Build scripts that look at such variables would run again whenever it is not
    // us who calls cargo, and all that depends on them would be built again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    command(cargo.args(arguments).envs(environment.iter().copied()), "cargo", arguments)
}

/// Runs any command.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Task {
    command(Command::new(name).args(arguments), name, arguments)
}

fn command(command: &mut Command, name: &str, arguments: &[&str]) -> Task {
    let line = format!("{name} {}", arguments.join(" "));
    say(&format!("$ {line}"));
    match command.current_dir(root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line}: {status}")),
        Err(error) => Err(format!("{line}: {error}")),
    }
}
