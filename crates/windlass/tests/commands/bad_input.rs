//! Input that no text file can show: huge, deep, not UTF-8, a closed pipe. Never a panic.
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn windlass(arguments: &[&OsStr]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

fn plan(arguments: &[&str]) -> Command {
    let ends = ["plan", "--from", "v1.29.0", "--to", "v1.30.0"];
    windlass(&ends.iter().chain(arguments).map(OsStr::new).collect::<Vec<_>>())
}

/// A file of that content which is gone when the test is over.
struct File(PathBuf);

impl File {
    fn with(name: &str, content: &[u8]) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::File::create(&path).unwrap().write_all(content).unwrap();
        Self(path)
    }

    fn as_str(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn refused(command: &mut Command, code: i32, says: &str) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(code), "{stdout}{stderr}");
    assert!(stdout.contains(says) || stderr.contains(says), "{stdout}{stderr}");
    assert!(stderr.len() < 2000, "the message is {} bytes long", stderr.len());
}

#[test]
fn ten_megabytes_of_manifest_are_refused_by_size() {
    let file = File::with("huge.yaml", "# \n".repeat(3_500_000).as_bytes());
    refused(&mut plan(&["--class", file.as_str()]), 2, "is larger than 3072 KiB");
    let plans = ["plan", "diff", file.as_str(), file.as_str()];
    refused(&mut windlass(&plans.map(OsStr::new)), 2, "is larger than 3072 KiB");
}

#[test]
fn a_manifest_with_a_hundred_thousand_versions_is_refused_by_count() {
    let versions: String = (0..100_000).map(|patch| format!("  - v1.30.{patch}\n")).collect();
    let class = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nspec:\n  kubernetesVersions:\n";
    let file = File::with("many.yaml", (class.to_owned() + &versions).as_bytes());
    refused(&mut plan(&["--class", file.as_str(), "-o", "json"]), 2, "has 100000 entries, 100 are allowed");
}

#[test]
fn a_hundred_thousand_levels_are_refused() {
    let file = File::with("deep.yaml", "[".repeat(100_000).as_bytes());
    refused(&mut plan(&["--class", file.as_str()]), 2, "not valid YAML");
    let plans = ["plan", "diff", file.as_str(), file.as_str()];
    refused(&mut windlass(&plans.map(OsStr::new)), 2, "not a plan printed with -o json");
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_place() {
    let file = File::with("binary.yaml", b"kind: \xff\xfe");
    refused(&mut plan(&["--class", file.as_str()]), 2, "invalid UTF-8 at byte 6");
    let argument = OsString::from_vec(vec![b'v', 0xff]);
    let arguments = [OsStr::new("plan"), OsStr::new("--from"), &argument];
    refused(&mut windlass(&arguments), 2, "invalid UTF-8");
}

#[test]
fn a_long_list_of_versions_as_an_argument_is_refused_by_count() {
    let versions: Vec<String> = (0..10_000).map(|patch| format!("v1.30.{patch}")).collect();
    refused(&mut plan(&["--versions", &versions.join(",")]), 2, "has 10000 entries, 100 are allowed");
}

#[test]
fn a_plan_with_too_many_operations_is_refused() {
    let operation = r#"{"kind":"ControlPlane","from":"1.1.1","to":"1.1.2","skew":0,"hooks":[],"reason":""}"#;
    let operations = vec![operation; 4001].join(",");
    let document = format!(
        r#"{{"from":"1.1.1","workersFrom":{{}},"to":"1.1.2","source":"list","controlPlane":[],"workers":{{}},
            "operations":[{operations}],"worstSkew":0,"inputHash":""}}"#
    );
    let file = File::with("long.json", document.as_bytes());
    let plans = ["plan", "diff", file.as_str(), file.as_str()];
    refused(&mut windlass(&plans.map(OsStr::new)), 2, "4001 operations, at most 4000 can be compared");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = plan(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn colour_is_for_terminals_and_can_be_turned_off() {
    let escapes = |command: &mut Command| command.output().unwrap().stdout.contains(&0x1b);
    assert!(!escapes(&mut plan(&[])), "a pipe is not a terminal");
    assert!(escapes(plan(&[]).env("CLICOLOR_FORCE", "1")), "forced");
    assert!(!escapes(plan(&[]).env("CLICOLOR_FORCE", "0").env("NO_COLOR", "1")));
    assert!(!escapes(plan(&["-o", "json"]).env("CLICOLOR_FORCE", "1")), "documents have no colour");
}
