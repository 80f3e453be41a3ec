//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are not for connections: the store, logs, calls of extensions and webhooks, workload clusters.
const RESERVE: u64 = 256;

/// Raises the limit as far as the process may, and tells how many connections there can be.
///
/// The limit that most systems begin with, 1024, is for programs that use `select`.
pub(super) fn connections(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, limit = limit.current, "the limit of open files cannot be raised");
    }
    let possible = possible(getrlimit(Resource::Nofile).current);
    if possible < wanted {
        tracing::warn!(
            connections = possible,
            wanted,
            "fewer connections are accepted than intended, because the limit of open files is low"
        );
    }
    possible.min(wanted)
}

/// How many connections fit under a limit; absent means that there is none.
fn possible(limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    // With a very low limit some connections are better than none.
    usize::try_from(limit.saturating_sub(RESERVE).max(limit / 4)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_not_for_connections() {
        assert_eq!(possible(None), usize::MAX);
        assert_eq!(possible(Some(1024)), 768);
        assert_eq!(possible(Some(100)), 25);
        connections(16);
        assert_eq!(getrlimit(Resource::Nofile).current, getrlimit(Resource::Nofile).maximum);
    }
}
