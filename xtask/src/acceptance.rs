//! Acceptance checks whose scripts are not part of this repository. They run where they stand beside the checkout, in
//! `../shared/acceptance`; what they check is covered by tests of the repository too.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::run::{self, Task, root, say};
use crate::tools::Tool;

/// Any kubectl will do.
pub(crate) const KUBECTL: Tool = Tool { program: "kubectl", package: "kubernetes-client" };

/// Runs a script.
type Check = fn(&Path) -> Task;

/// Every check, by the name of its script.
const CHECKS: [(&str, Check); 4] =
    [("plan", plan), ("kubectl", kubectl), ("upstream-manifests", upstream_manifests), ("kube-rs", kube_rs)];

/// Runs the checks that are there, and says at the end how many were left out.
pub(crate) fn checks() -> Task {
    let folder = root().join("../shared/acceptance");
    let (present, missing): (Vec<_>, Vec<_>) =
        CHECKS.into_iter().partition(|(name, _)| folder.join(name).exists());
    for (name, check) in &present {
        check(&folder.join(name))?;
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    say(&match names.as_slice() {
        [] => format!("xtask: all {} acceptance checks have passed", CHECKS.len()),
        names => format!(
            "xtask: {} of {} acceptance checks have passed; {} left out, not beside this checkout: {}",
            present.len(),
            CHECKS.len(),
            names.len(),
            names.join(", ")
        ),
    });
    Ok(())
}

/// Runs the planner's cases.
fn plan(script: &Path) -> Task {
    Tool { program: "python3", package: "python3" }.ensure()?;
    let windlass = windlass()?;
    run::program("python3", &[&script.to_string_lossy(), &windlass.to_string_lossy()])
}

/// Drives the embedded API with kubectl. Any kubectl will do, Debian's 1.20 too.
fn kubectl(script: &Path) -> Task {
    KUBECTL.ensure()?;
    let server = Server::start(&["serve", "--in-memory"])?;
    run::program("bash", &[&script.to_string_lossy(), &server.kubeconfig.to_string_lossy()])
}

/// Applies Cluster API's own manifests. Needs Python's PyYAML.
fn upstream_manifests(script: &Path) -> Task {
    KUBECTL.ensure()?;
    Tool { program: "python3", package: "python3-yaml" }.ensure()?;
    let data = target_directory().join(format!("acceptance-{}", std::process::id()));
    let server = Server::start(&["up", "--log-level", "error", "--data-dir", &data.to_string_lossy()])?;
    let done = run::program("python3", &[&script.to_string_lossy(), &server.kubeconfig.to_string_lossy()]);
    drop(server);
    // It is below target/: leftovers do no harm.
    let _ = std::fs::remove_dir_all(data);
    done
}

/// Runs kube-rs's own integration tests against the embedded API. Builds kube-rs first, which takes minutes.
fn kube_rs(script: &Path) -> Task {
    Tool { program: "python3", package: "python3" }.ensure()?;
    let server = Server::start(&["serve", "--in-memory"])?;
    run::program("bash", &[&script.to_string_lossy(), &server.kubeconfig.to_string_lossy()])
}

pub(crate) fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The program as the tests have it. Built beside one of its tests: alone it would be built with fewer features of other
/// crates, and those once more.
pub(crate) fn windlass() -> Result<PathBuf, String> {
    run::cargo(&["test", "--quiet", "--workspace", "--locked", "--no-run", "--test", "readme"])?;
    Ok(target_directory().join("debug/windlass"))
}

/// `windlass serve` or `windlass up`, on a port of the system's choice, ended when it goes out of scope.
struct Server {
    child: Child,
    kubeconfig: PathBuf,
}

impl Server {
    fn start(arguments: &[&str]) -> Result<Self, String> {
        let kubeconfig = target_directory().join(format!("acceptance-{}.kubeconfig", std::process::id()));
        let mut child = Command::new(windlass()?)
            .args(arguments)
            .args(["--listen", "127.0.0.1:0", "--kubeconfig-out"])
            .arg(&kubeconfig)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("windlass {}: {error}", arguments.join(" ")))?;
        let mut line = String::new();
        let said = child.stdout.as_mut().map(|out| BufReader::new(out).read_line(&mut line));
        let server = Self { child, kubeconfig };
        match said {
            Some(Ok(_)) if line.starts_with("Ready:") => Ok(server),
            _ => Err(format!("windlass {} did not get ready: {line:?}", arguments.join(" "))),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove(&self.kubeconfig);
    }
}

fn remove(file: &Path) {
    // It is below target/: leftovers do no harm.
    let _ = std::fs::remove_file(file);
}
