//! Plays the stories of `tests/live` with an example extension that runs as a process of its own, behind HTTPS, each compared
//! with its committed output. `cargo xtask bless` rewrites it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// An example that runs. Killed when it is dropped, by its id.
struct Example {
    child: Child,
    config: String,
}

impl Example {
    /// Starts an example on a port of the system's choice, and makes the object that registers it from what it prints.
    fn start(name: &str, approvals: &Path) -> Self {
        let binary = binary(name);
        assert!(binary.exists(), "{} is built with all tests: cargo test --workspace", binary.display());
        let mut child = Command::new(binary)
            .args(["--listen", "127.0.0.1:0", "--approvals"])
            .arg(approvals)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut after = |prefix: &str| {
            let line = lines.find(|line| line.as_ref().unwrap().trim().starts_with(prefix)).unwrap().unwrap();
            line.trim().trim_start_matches(prefix).to_owned()
        };
        let url = after("url: ");
        let ca = String::from_utf8(STANDARD.decode(after("caBundle: ")).unwrap()).unwrap();
        let config = windlass_extension::extension_config(name, &url, Some(&ca));
        Self { child, config }
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn binary(name: &str) -> PathBuf {
    // target/debug/deps/<this test> and target/debug/examples/<example>
    let this = std::env::current_exe().unwrap();
    this.parent().and_then(Path::parent).unwrap().join("examples").join(name)
}

#[test]
fn a_real_extension_behind_https_holds_an_upgrade_until_it_approves() {
    let story = Path::new("tests/live/approve-upgrade.txt");
    let folder = tempfile::tempdir().unwrap();
    let example = Example::start("approve-upgrade", folder.path());
    std::fs::write(folder.path().join("extension.yaml"), &example.config).unwrap();
    let copy = folder.path().join("approve-upgrade.txt");
    std::fs::copy(story, &copy).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["simulate", "script", "--live-extensions"])
        .arg(&copy)
        .output()
        .unwrap();
    let found = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let golden = story.with_extension("out");
    if std::env::var("TRYCMD").is_ok_and(|value| value == "overwrite") {
        std::fs::write(&golden, &found).unwrap();
    }
    assert_eq!(output.status.code(), Some(0), "{found}");
    assert_eq!(found, std::fs::read_to_string(&golden).unwrap(), "not as committed");
}
