//! How a command ends: the exit codes are a contract with users' scripts.

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::output;

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Exit code 1: something outside went wrong.
    Failed(String),
    /// Exit code 2: the arguments or the files they name are not valid.
    Invalid(String),
    /// Exit code 3: everything was understood, and refused.
    Refused(String),
    /// As [`Failure::Invalid`] or [`Failure::Refused`], but what is wrong was already printed.
    Printed(u8),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(format!("cannot write the output: {error}"))
    }
}

/// Prints a failure, if there is one, and turns the outcome into an exit code.
pub(crate) fn report(outcome: Result<(), Failure>) -> ExitCode {
    let (code, message) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Printed(code)) => return ExitCode::from(code),
        Err(Failure::Failed(message)) => (1, message),
        Err(Failure::Invalid(message)) => (2, message),
        Err(Failure::Refused(message)) => (3, message),
    };
    let style = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    // Nothing is left to tell the user with if standard error is gone too.
    let _ = writeln!(anstream::stderr(), "{style}error:{style:#} {}", output::message(&message));
    ExitCode::from(code)
}
