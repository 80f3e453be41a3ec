//! Flags, environment variables, the config file, and what is refused.

use std::path::Path;
use std::process::{Output, Stdio};

use crate::process::{Up, windlass};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_second_one_on_the_same_data_or_port_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(directory.path(), &[]);
    let port = windlass(directory.path(), &["up", "--in-memory", "--listen", &up.address]).output().unwrap();
    assert_eq!(port.status.code(), Some(1));
    let said = text(&port.stderr);
    assert!(
        said.contains("Address already in use") && said.contains("with port 0 a port that is free"),
        "{said}"
    );
    let second = windlass(directory.path(), &["up", "--data-dir", "data"]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = text(&second.stderr);
    assert!(said.contains(&format!("is in use by process {}", up.id())), "{said}");
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file =
        "dataDir: from-file\nlisten: 127.0.0.1:0\ncontrollers: [machine]\nlogFormat: json\nlogLevel: debug\n";
    std::fs::write(directory.path().join("windlass.yaml"), file).unwrap();
    let start = |arguments: &[&str], environment: &[(&str, &str)]| {
        let mut command = windlass(directory.path(), &[&["up"], arguments].concat());
        command.envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Up::ready(command.spawn().unwrap(), directory.path())
    };
    let up = start(&["--config", "windlass.yaml"], &[]);
    assert_eq!(up.kubeconfig, directory.path().join("from-file/kubeconfig"));
    let from_file = [("WINDLASS_CONFIG", "windlass.yaml")];
    let environment = [from_file[0], ("WINDLASS_DATA_DIR", "from-environment")];
    let up = start(&[], &environment);
    assert_eq!(up.kubeconfig, directory.path().join("from-environment/kubeconfig"));
    let up = start(&["--data-dir", "from-flag", "--kubeconfig-out", "k"], &environment);
    assert_eq!(up.kubeconfig, directory.path().join("k"));
    assert!(directory.path().join("from-flag/store").is_dir());
    let listens = std::fs::read_to_string(&up.kubeconfig).unwrap();
    assert!(listens.contains(&up.address), "{listens}");
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("unknown.yaml"), "datadir: x\n").unwrap();
    std::fs::write(directory.path().join("broken.yaml"), "listen: [\n").unwrap();
    for (arguments, code, says) in [
        (&["--controllers", "machines"][..], 2, "there is no controller \"machines\"; there are topology"),
        (&["--controllers", "-machine"], 2, "begin it with *"),
        (&["--config", "unknown.yaml"], 2, "datadir"),
        (&["--config", "broken.yaml"], 2, "broken.yaml: expected"),
        (&["--config", "none.yaml"], 2, "cannot read none.yaml"),
        (&["--log-level", "x=y"], 2, "log level \"x=y\" is not understood"),
        (&["--in-memory", "--data-dir", "data"], 2, "cannot be used with"),
        (&["--in-memory", "--listen", "192.0.2.1:1"], 1, "cannot listen on 192.0.2.1:1"),
    ] {
        let Output { status, stdout, stderr } =
            windlass(directory.path(), &[&["up"], arguments].concat()).output().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}: {}{}", text(&stdout), text(&stderr));
        assert!(text(&stderr).contains(says), "{arguments:?}: {}", text(&stderr));
    }
}

/// A copy of a data directory.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, target) = (entry.as_ref().unwrap().path(), to.join(entry.as_ref().unwrap().file_name()));
        if entry.is_dir() {
            copy(&entry, &target);
        } else {
            std::fs::copy(&entry, &target).unwrap();
        }
    }
}

#[test]
fn data_that_cannot_be_used_are_left_alone_and_it_is_said_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let mut up = Up::start(directory.path(), &[]);
    assert_eq!(up.signal("TERM").code(), Some(0));
    let store = "store/objects.db";
    let read = |file: &Path| std::fs::read(file).unwrap();
    let header = |mut bytes: Vec<u8>, line: &[u8]| {
        bytes[..line.len()].copy_from_slice(line);
        bytes
    };
    /// What becomes of the bytes of a file.
    type Change<'a> = &'a dyn Fn(Vec<u8>) -> Vec<u8>;
    let cases: [(&str, Change<'_>, &str, &str); 4] = [
        (store, &|bytes| header(bytes, b"windlass-store format 7\n"), "has format 7", "a newer windlass"),
        (
            store,
            &|bytes| header(bytes, b"#!/bin/sh\n"),
            "is damaged: it does not start as",
            "windlass restore",
        ),
        (store, &|bytes| bytes[..bytes.len() / 2].to_vec(), "is damaged", "windlass restore --replace"),
        ("pki/ca.key", &|_| b"nonsense".to_vec(), "ca.key is damaged", "remove the directory"),
    ];
    for (number, (file, change, says, advises)) in cases.into_iter().enumerate() {
        let data = directory.path().join(number.to_string());
        copy(&directory.path().join("data"), &data);
        let changed = change(read(&data.join(file)));
        std::fs::write(data.join(file), &changed).unwrap();
        let output = windlass(directory.path(), &["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&data)
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(says) && said.contains(advises), "{says}, {advises}: {said}");
        assert!(read(&data.join(file)) == changed, "{says}: it was changed");
    }
}
