//! The examples of the SDK as processes.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use windlass_conformance::{Operation, OperationError, Operations, Target};

/// An example that runs. Killed when it is dropped, by its id.
pub(crate) struct Example {
    pub(crate) target: Target,
    name: String,
    arguments: Vec<String>,
    address: String,
    child: Mutex<Child>,
}

impl Example {
    /// Starts an example, and takes address and certificate from the manifest that it prints.
    pub(crate) async fn start(name: &str, arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let mut child = spawn(name, "127.0.0.1:0", &arguments);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut url, mut ca) = (None, None);
        while let (Some(line), true) = (lines.next_line().await.unwrap(), url.is_none() || ca.is_none()) {
            if let Some(value) = line.trim().strip_prefix("url: ") {
                url = Some(value.to_owned());
            } else if let Some(bundle) = line.trim().strip_prefix("caBundle: ") {
                ca = Some(STANDARD.decode(bundle).unwrap());
            }
        }
        let url = url.unwrap();
        let address = url.strip_prefix("https://").unwrap().to_owned();
        let target = Target::new(url).with_ca_bundle(ca.unwrap());
        Self { target, name: name.to_owned(), arguments, address, child: Mutex::new(child) }
    }
}

impl Operations for Example {
    fn supports(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Terminate | Operation::Start)
    }

    fn perform(
        &self,
        operation: Operation,
    ) -> Pin<Box<dyn Future<Output = Result<(), OperationError>> + Send + '_>> {
        Box::pin(async move {
            let mut child = self.child.lock().await;
            match operation {
                Operation::Terminate => {
                    let id = child.id().unwrap().to_string();
                    let killed = Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
                    assert!(killed.success());
                }
                _ => {
                    // The port is free when the old process is gone.
                    child.wait().await.unwrap();
                    *child = spawn(&self.name, &self.address, &self.arguments);
                }
            }
            Ok(())
        })
    }
}

fn spawn(name: &str, address: &str, arguments: &[String]) -> Child {
    Command::new(binary(name))
        .args(["--listen", address])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// The binary of an example. `cargo test` builds the examples of the packages it tests only, so that they may
/// be missing or old here; then they are built, once.
fn binary(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let examples = BUILT.get_or_init(|| {
        // <target>/<profile>/deps/<this test> and <target>/<profile>/examples/<example>
        let this = std::env::current_exe().unwrap();
        let profile = this.parent().and_then(Path::parent).unwrap();
        let examples = profile.join("examples");
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../windlass-extension");
        let sources = newest(&package.join("src")).max(newest(&package.join("examples")));
        let built = ["approve-upgrade", "upgrade-plan", "in-place-updater"]
            .map(|name| std::fs::metadata(examples.join(name)).and_then(|file| file.modified()).ok());
        if built.iter().any(|built| *built < sources) {
            build(profile);
        }
        examples
    });
    examples.join(name)
}

fn build(profile: &Path) {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "windlass-extension", "--examples", "--target-dir"]);
    cargo.arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "the examples of windlass-extension do not build");
}

fn newest(directory: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let times = entries.map(|entry| {
        let path = entry.path();
        if path.is_dir() { newest(&path) } else { entry.metadata().and_then(|file| file.modified()).ok() }
    });
    times.max().flatten()
}
