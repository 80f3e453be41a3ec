//! The transcript in the README, run as it stands there in a clean directory, and what it prints compared.

use std::path::Path;
use std::process::Command;

/// Between the output of one command and the next.
const MARK: &str = "@@@@";

/// The commands of a transcript, each with what it prints.
fn transcript(readme: &str) -> Vec<(String, String)> {
    let block = readme.split("```shell-session\n").nth(1).unwrap().split("```").next().unwrap();
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.to_owned(), String::new())),
            None => commands.last_mut().unwrap().1.push_str(&format!("{line}\n")),
        }
    }
    commands
}

/// One script of all commands. What runs in the background is waited for until it has said what comes next, and ended.
fn script(commands: &[(String, String)]) -> String {
    let mut script = "set -e\ntrap 'kill $UP' EXIT\n".to_owned();
    for (command, _) in commands {
        match command.strip_suffix(" &") {
            Some(command) => script.push_str(&format!(
                "{command} > up.log 2>&1 & UP=$!\n\
                 until grep -q '^Next:' up.log; do kill -0 $UP; sleep 0.1; done\ncat up.log\n"
            )),
            None => script.push_str(&format!("{command}\n")),
        }
        script.push_str(&format!("echo {MARK}\n"));
    }
    script
}

fn copy_examples(directory: &Path) {
    std::fs::create_dir(directory.join("examples")).unwrap();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for entry in std::fs::read_dir(examples).unwrap() {
        let file = entry.unwrap();
        std::fs::copy(file.path(), directory.join("examples").join(file.file_name())).unwrap();
    }
}

#[test]
fn the_transcript_prints_what_it_says() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let commands = transcript(&readme);
    assert!(commands.len() > 8, "{commands:?}");
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    std::fs::create_dir(&home).unwrap();
    copy_examples(directory.path());
    let binaries = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("sh")
        .args(["-c", &script(&commands)])
        .current_dir(directory.path())
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env("HOME", &home)
        .env_remove("XDG_DATA_HOME")
        // Somebody else may have the usual port.
        .env("WINDLASS_LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap().replace(home.to_str().unwrap(), "/home/you");
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed: Vec<&str> = said.split(&format!("{MARK}\n")).collect();
    for (at, (command, expected)) in commands.iter().enumerate() {
        let got = printed.get(at).copied().unwrap_or_default();
        let (got, expected) = (comparable(got), comparable(expected));
        assert_eq!(got, expected, "\n$ {command}\n{problem}");
    }
    assert!(output.status.success(), "{problem}");
}

/// Leaves out what is another on every machine: ports, secrets, and whether kubectl names the namespace of what it deletes.
fn comparable(text: &str) -> Vec<String> {
    let changing = ["Ready: https://127.0.0.1:", "Page: http://127.0.0.1:"];
    let lines = text.lines().map(|line| match changing.into_iter().find(|prefix| line.starts_with(prefix)) {
        Some(prefix) => prefix.to_owned(),
        None => line.trim_end().replace(" from default namespace", ""),
    });
    lines.collect()
}
