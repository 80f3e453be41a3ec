//! A `windlass up` that ends when the test does, and kubectl beside it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// `windlass up` on a port of the system's choice.
pub(crate) struct Up {
    child: Child,
    pub(crate) address: String,
    pub(crate) kubeconfig: PathBuf,
    directory: PathBuf,
}

pub(crate) fn windlass(directory: &Path, arguments: &[&str]) -> Command {
    // Another build of the program may be named, which need not be the one that is compiled for tests.
    let program = std::env::var("WINDLASS_PROGRAM");
    let mut command = Command::new(program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_windlass")));
    command.args(arguments).current_dir(directory).env_remove("WINDLASS_CONFIG");
    command
}

impl Up {
    /// On the data directory `data`; warnings and worse go to where the test's do.
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Self {
        let usual = ["up", "--data-dir", "data", "--listen", "127.0.0.1:0", "--log-level", "error"];
        let child = windlass(directory, &[&usual, arguments].concat()).stdout(Stdio::piped()).spawn();
        Self::ready(child.unwrap(), directory)
    }

    /// Waits until it says that it is ready.
    pub(crate) fn ready(mut child: Child, directory: &Path) -> Self {
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut next = |prefix: &str| {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            line.trim().strip_prefix(prefix).unwrap_or_else(|| panic!("{prefix} in {line:?}")).to_owned()
        };
        let address = next("Ready: https://");
        let kubeconfig = directory.join(next("Kubeconfig: "));
        Self { child, address, kubeconfig, directory: directory.to_owned() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&mut self, name: &str) -> ExitStatus {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap()
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        // What kubectl finds out about a server it keeps in the home directory, by address; ports come back.
        let home = self.directory.join("home");
        command.args(arguments).env("KUBECONFIG", &self.kubeconfig).env("HOME", home);
        command.current_dir(&self.directory);
        command
    }

    /// What kubectl prints; it must succeed.
    pub(crate) fn says(&self, arguments: &[&str]) -> String {
        self.says_after(arguments, "")
    }

    /// What kubectl prints when it is given some input; it must succeed.
    pub(crate) fn says_after(&self, arguments: &[&str], input: &str) -> String {
        let mut child = self
            .kubectl(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl is needed: cargo xtask test installs it");
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {arguments:?}: {out}{err}");
        out.into_owned()
    }

    /// Asks until the answer is right.
    pub(crate) fn until(&self, limit: Duration, arguments: &[&str], right: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let said = self.says(arguments);
            if right(&said) {
                return said;
            }
            assert!(begun.elapsed() < limit, "kubectl {arguments:?} still says {said}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn example(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}
