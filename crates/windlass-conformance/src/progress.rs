//! What a test says while it runs.

use std::fmt;

use crate::check::Group;

/// Something that happens during a test.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The checks of a group begin.
    Group(Group),
    /// Discovery answered with this many handlers.
    Discovered {
        /// How many.
        handlers: usize,
    },
    /// A handler is being called with synthetic objects.
    Calling {
        /// The handler with its hook.
        handler: String,
        /// What is tried.
        purpose: &'static str,
    },
    /// Something that takes longer: a large upload, polling, a restart.
    Waiting(&'static str),
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => write!(f, "checking {group}"),
            Self::Discovered { handlers: 1 } => f.write_str("discovered 1 handler"),
            Self::Discovered { handlers } => write!(f, "discovered {handlers} handlers"),
            Self::Calling { handler, purpose } => write!(f, "calling {handler}: {purpose}"),
            Self::Waiting(what) => f.write_str(what),
        }
    }
}

/// Where progress goes. Any `Fn(&Progress)` will do.
pub trait ProgressSink: Sync {
    /// Takes one step.
    fn report(&self, progress: &Progress);
}

impl<F: Fn(&Progress) + Sync> ProgressSink for F {
    fn report(&self, progress: &Progress) {
        self(progress);
    }
}
