//! Stopping and starting what is tested, which only its owner can do.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::process::Stdio;

use tokio::process::Command;

/// Something that the owner of an extension does during a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Ask the extension to stop, as Kubernetes does: SIGTERM. Returns as soon as it was asked.
    Terminate,
    /// Start the extension again, at the same address. Returns as soon as it was asked.
    Start,
    /// Take other extensions down that run beside this one.
    StopSiblings,
    /// Bring the others back.
    StartSiblings,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "terminate the extension",
            Self::Start => "start the extension",
            Self::StopSiblings => "stop sibling extensions",
            Self::StartSiblings => "start sibling extensions",
        })
    }
}

/// Does what a test asks for. Checks that need an operation that is not supported are skipped.
pub trait Operations: Send + Sync {
    /// Whether the operation can be done at all.
    fn supports(&self, operation: Operation) -> bool;

    /// Does it.
    fn perform(
        &self,
        operation: Operation,
    ) -> Pin<Box<dyn Future<Output = Result<(), OperationError>> + Send + '_>>;
}

/// An operation that did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not {operation}: {reason}")]
pub struct OperationError {
    /// Which.
    pub operation: Operation,
    /// Why.
    pub reason: String,
}

/// Operations as shell commands, for example `kubectl rollout restart ...`.
///
/// A command that must leave a process behind has to put it into the background itself.
#[derive(Clone, Debug, Default)]
pub struct ShellCommands {
    /// Command of [`Operation::Terminate`].
    pub terminate: Option<String>,
    /// Command of [`Operation::Start`].
    pub start: Option<String>,
    /// Command of [`Operation::StopSiblings`].
    pub stop_siblings: Option<String>,
    /// Command of [`Operation::StartSiblings`].
    pub start_siblings: Option<String>,
}

impl ShellCommands {
    fn command(&self, operation: Operation) -> Option<&String> {
        match operation {
            Operation::Terminate => self.terminate.as_ref(),
            Operation::Start => self.start.as_ref(),
            Operation::StopSiblings => self.stop_siblings.as_ref(),
            Operation::StartSiblings => self.start_siblings.as_ref(),
        }
    }
}

impl Operations for ShellCommands {
    fn supports(&self, operation: Operation) -> bool {
        self.command(operation).is_some()
    }

    fn perform(
        &self,
        operation: Operation,
    ) -> Pin<Box<dyn Future<Output = Result<(), OperationError>> + Send + '_>> {
        Box::pin(async move {
            let error = |reason: String| OperationError { operation, reason };
            let command = self.command(operation).ok_or_else(|| error("no command given".to_owned()))?;
            // Output is dropped: a process in the background that keeps a pipe open would stop us here.
            let status = Command::new("sh")
                .args(["-c", command])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .await
                .map_err(|failed| error(failed.to_string()))?;
            if status.success() { Ok(()) } else { Err(error(format!("command ended with {status}"))) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commands_succeed_or_say_how_they_ended() {
        let commands = ShellCommands {
            terminate: Some("exit 3".to_owned()),
            start: Some("true".to_owned()),
            ..Default::default()
        };
        assert_eq!(commands.perform(Operation::Start).await, Ok(()));
        let error = commands.perform(Operation::Terminate).await.unwrap_err();
        assert_eq!(error.to_string(), "could not terminate the extension: command ended with exit status: 3");
        assert!(!commands.supports(Operation::StopSiblings));
        assert!(commands.perform(Operation::StopSiblings).await.is_err());
    }
}
