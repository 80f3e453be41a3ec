//! `windlass serve`, `backup` and `restore` as processes.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn windlass(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).current_dir(directory);
    command
}

fn ran(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = windlass(directory, arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// A server on a port of the system's choice, ended when it goes out of scope.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut child = windlass(directory, &arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("Ready: https://").unwrap().to_owned();
        Self { child, address }
    }

    fn signal(&mut self, name: &str) -> std::process::ExitStatus {
        let signal = format!("-{name}");
        let sent = Command::new("kill").args([&signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_says_when_it_is_ready_and_stops_when_it_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Running::start(directory.path(), &["--in-memory", "--kubeconfig-out", "kubeconfig"]);
    let kubeconfig = std::fs::read_to_string(directory.path().join("kubeconfig")).unwrap();
    assert!(kubeconfig.contains(&format!("https://{}", server.address)), "{kubeconfig}");
    let mode = std::fs::metadata(directory.path().join("kubeconfig")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut plain = TcpStream::connect(&server.address).unwrap();
    plain.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // A reset is as good as an alert.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "nothing is served without TLS");
    assert_eq!(server.signal("TERM").code(), Some(0));
}

#[test]
fn the_kinds_of_cluster_api_are_installed_at_the_start_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--data-dir", "data", "--cluster-api"];
    let mut server = Running::start(directory.path(), &arguments);
    assert_eq!(server.signal("TERM").code(), Some(0));
    let mut server = Running::start(directory.path(), &arguments);
    assert_eq!(server.signal("TERM").code(), Some(0), "what is there already is no problem");
}

#[test]
fn a_data_directory_is_private_has_one_server_and_is_backed_up_while_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let server = Running::start(path, &["--data-dir", "data"]);
    let mode = std::fs::metadata(path.join("data")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    let (code, _, error) = ran(path, &["serve", "--data-dir", "data", "--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(1));
    assert!(error.contains(&format!("is in use by process {}", server.child.id())), "{error}");

    let (code, said, error) = ran(path, &["backup", "--data-dir", "data", "running"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(said.starts_with("Backed up ") && said.contains(" objects at revision "), "{said}");
    let (code, _, error) = ran(path, &["restore", "--data-dir", "data", "--replace", "running"]);
    assert_eq!(code, Some(1), "a server runs");
    assert!(error.contains("is in use"), "{error}");
}

#[test]
fn after_a_kill_everything_is_there_and_a_backup_is_restored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut server = Running::start(path, &["--data-dir", "data"]);
    assert_eq!(ran(path, &["backup", "--data-dir", "data", "running"]).0, Some(0));
    server.signal("KILL");
    let (code, _, error) = ran(path, &["backup", "--data-dir", "data", "killed"]);
    assert_eq!(code, Some(0), "{error}");
    let read = |name: &str| std::fs::read(path.join(name)).unwrap();
    assert_eq!(read("running"), read("killed"));

    let (code, _, error) = ran(path, &["restore", "--data-dir", "data", "running"]);
    assert_eq!(code, Some(1), "there is a store");
    assert!(error.contains("has a store in it already"), "{error}");
    assert_eq!(ran(path, &["restore", "--data-dir", "data", "--replace", "running"]).0, Some(0));
    assert_eq!(ran(path, &["restore", "--data-dir", "other", "running"]).0, Some(0));
    let _again = Running::start(path, &["--data-dir", "other"]);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::create_dir(path.join("crds")).unwrap();
    std::fs::create_dir(path.join("empty")).unwrap();
    std::fs::write(path.join("crds/a.yaml"), "kind: ConfigMap\nmetadata: {name: x}\n").unwrap();
    std::fs::write(path.join("text"), "no backup").unwrap();
    let serve = ["serve", "--in-memory", "--listen", "127.0.0.1:0"];
    for (arguments, code, says) in [
        (
            &[&serve[..], &["--crds", "crds"]].concat()[..],
            2,
            "crds/a.yaml: expected CustomResourceDefinitions",
        ),
        (&[&serve[..], &["--crds", "empty"]].concat(), 2, "empty has no .yaml, .yml or .json file"),
        (&[&serve[..], &["--crds", "none"]].concat(), 2, "cannot read none"),
        (&[&serve[..], &["--data-dir", "data"]].concat(), 2, "cannot be used with"),
        (&["serve", "--in-memory", "--listen", "nowhere"], 2, "invalid socket address"),
        (&["serve", "--data-dir", "crds/a.yaml"], 1, "cannot make crds/a.yaml"),
        (&["backup", "--data-dir", "none", "b"], 1, "none is not a data directory"),
        (&["restore", "--data-dir", "data", "text"], 1, "text"),
    ] {
        let (got, stdout, stderr) = ran(path, arguments);
        assert_eq!(got, Some(code), "{arguments:?}: {stdout}{stderr}");
        assert!(stderr.contains(says), "{arguments:?}: {stderr}");
    }
}
