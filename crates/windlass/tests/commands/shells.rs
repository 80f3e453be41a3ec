//! Completions in the shells that people have, and manual pages as `man` reads them. PowerShell is in no package registry that the
//! tests reach: its script is made, not loaded.
use std::process::{Command, Stdio};

fn windlass(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a shell prints when it runs a program, without the configuration of the user.
fn said(shell: &str, arguments: &[&str], program: &str) -> String {
    let output = Command::new(shell).args(arguments).arg(program).stdin(Stdio::null()).output();
    let output =
        output.unwrap_or_else(|error| panic!("{shell} is needed, cargo xtask test installs it: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{shell}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn script(shell: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    // The name that zsh looks for.
    let file = directory.path().join("_windlass");
    std::fs::write(&file, windlass(&["completion", shell])).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (directory, file)
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let (_directory, file) = script("bash");
    let completed = |words: &[&str]| {
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let line = words.join(" ");
        said(
            "bash",
            &["--norc", "--noprofile", "-c"],
            &format!(
                "source {file}; COMP_WORDS=({line} ''); COMP_CWORD={}; COMP_LINE='{line}'; COMP_POINT={}; \
                 [ -n '{last}' ] && unset 'COMP_WORDS[-1]'; _windlass windlass '{last}' '{before}'; \
                 printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                words.len() - 1,
                line.len(),
            ),
        )
    };
    assert_eq!(completed(&["windlass", "pl"]), "plan\n");
    assert_eq!(completed(&["windlass", "simulate", "scr"]), "script\n");
    assert!(completed(&["windlass", "plan", "--wor"]).contains("--workers"));
    assert_eq!(completed(&["windlass", "version", "--output", "y"]), "yaml\n");
}

#[test]
fn fish_completes_commands_flags_and_values() {
    let (_directory, file) = script("fish");
    let completed = |line: &str| {
        let home = tempfile::tempdir().unwrap();
        let program =
            format!("set -x HOME {}; source {file}; complete --do-complete '{line}'", home.path().display());
        said("fish", &["--no-config", "-c"], &program)
    };
    assert!(completed("windlass pl").starts_with("plan\t"));
    assert!(completed("windlass simulate scr").starts_with("script\t"));
    assert!(completed("windlass plan --wor").contains("--workers"));
    assert!(completed("windlass version --output y").starts_with("yaml"));
}

#[test]
fn zsh_loads_the_completion_and_knows_whose_it_is() {
    let (directory, _file) = script("zsh");
    let program = format!(
        "fpath=({} $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[windlass]; autoload +X -Uz _windlass; \
         whence -w _windlass; zsh -n {}/_windlass && print parsed",
        directory.path().display(),
        directory.path().display(),
    );
    assert_eq!(said("zsh", &["-f", "-c"], &program), "_windlass\n_windlass: function\nparsed\n");
}

#[test]
fn every_shell_has_a_script_and_every_command_a_manual_page() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(windlass(&["completion", shell]).contains("simulate"), "{shell}");
    }
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    windlass(&["man", "--directory", pages.to_str().unwrap()]);
    for command in
        ["", "-plan", "-plan-check", "-simulate-upgrade", "-up", "-upgrade-hold", "-extension-test"]
    {
        let page = std::fs::read_to_string(pages.join(format!("windlass{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}: {page}");
    }
    assert!(windlass(&["man"]).contains(".TH windlass 1"));
}
