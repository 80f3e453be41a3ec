//! `windlass completion` and `windlass man`: what shells and `man` know of the command line. Both are made from the command line
//! itself, so they cannot be behind it.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Cli;
use crate::exit::Failure;
use crate::output;

/// How the program is called.
const NAME: &str = "windlass";

/// Print the script that lets a shell complete commands, flags and their values
#[derive(Args)]
#[command(after_help = "\
Examples:
  source <(windlass completion bash)                                        this bash only
  windlass completion bash > /etc/bash_completion.d/windlass                every bash
  windlass completion zsh > \"${fpath[1]}/_windlass\"                         zsh
  windlass completion fish > ~/.config/fish/completions/windlass.fish       fish
  windlass completion powershell | Out-String | Invoke-Expression           this PowerShell only")]
pub(crate) struct CompletionCommand {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual page, or write those of all commands
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass man | man -l -
  windlass man --directory /usr/local/share/man/man1        then: man windlass-plan")]
pub(crate) struct ManCommand {
    /// Write a page for every command into this directory, which is made if need be
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

pub(crate) fn completion(command: &CompletionCommand) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut Cli::command(), NAME, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

pub(crate) fn man(command: &ManCommand) -> Result<(), Failure> {
    let Some(directory) = &command.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        return output::print(&String::from_utf8_lossy(&page));
    };
    let cannot = |error: std::io::Error| {
        Failure::Failed(format!("cannot write manual pages into {}: {error}", directory.display()))
    };
    std::fs::create_dir_all(directory).map_err(cannot)?;
    clap_mangen::generate_to(Cli::command(), directory).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    /// Shells and roff have characters of their own that `output::print` must leave alone.
    #[test]
    fn scripts_and_pages_have_nothing_to_escape() {
        let mut texts = Vec::new();
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), NAME, &mut script);
            texts.push(String::from_utf8(script).unwrap());
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).unwrap();
        texts.push(String::from_utf8(page).unwrap());
        for text in texts {
            let unprintable = |c: char| !matches!(c, '\n' | '\t') && windlass_api::is_unprintable(c);
            assert!(!text.contains(unprintable), "{text}");
        }
    }
}
