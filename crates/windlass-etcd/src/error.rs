//! What can go wrong between a call and its answer.

use std::fmt;
use std::time::Duration;

use crate::wire::Malformed;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// There is no connection to the member, or it broke.
    #[error("{method}: {why}")]
    Connection {
        /// The call.
        method: &'static str,
        /// What happened to it.
        why: ConnectionError,
    },
    /// The member took too long. Whether it does what it was asked is unknown.
    #[error("{method}: no answer within {} s", .after.as_secs())]
    TimedOut {
        /// The call.
        method: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// The member refused.
    #[error("{method}: {refusal}")]
    Refused {
        /// The call.
        method: &'static str,
        /// Why.
        refusal: Refusal,
    },
    /// The answer is not one of etcd.
    #[error("{method}: the answer is not one of etcd: {why}")]
    Malformed {
        /// The call.
        method: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

impl EtcdError {
    /// Why the member refused, if it did.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    pub(crate) fn malformed(method: &'static str, why: Malformed) -> Self {
        Self::Malformed { method, why: why.to_string() }
    }
}

/// Why there is no connection to a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// Nothing listens there.
    #[error("nothing listens at {0}")]
    Refused(String),
    /// TLS was not agreed on.
    #[error("TLS: {0}")]
    Tls(String),
    /// The certificates to identify with, or to trust, cannot be used.
    #[error("certificates: {0}")]
    Certificates(String),
    /// It took too long.
    #[error("no connection within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(String),
}

/// Why a member did not do what it was asked, by the words that etcd has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Only the leader can do this.
    NotLeader,
    /// There is no leader: too few members answer.
    NoLeader,
    /// A member with this identifier is not there, or no longer.
    MemberNotFound,
    /// The members could not agree in time: too few of them answer.
    TimedOut,
    /// Too few members answer for one of them to be taken away.
    Unhealthy,
    /// Too few members were ever started for the change.
    NotEnoughStarted,
    /// The learner has not caught up with the leader.
    LearnerNotReady,
    /// The member votes already.
    NotALearner,
    /// There is a learner already; etcd takes one at a time.
    TooManyLearners,
    /// A member with this address is there already.
    PeerUrlExists,
    /// The member was added already: with the same address, within the same second.
    MemberExists,
    /// The member cannot become the leader: it does not vote, or is not there.
    BadLeaderTransferee,
    /// A learner does not answer this.
    LearnerDoesNotAnswer,
    /// The member knows no such call.
    Unimplemented,
    /// Something else.
    Other {
        /// The status of gRPC.
        code: u16,
        /// The words of etcd.
        message: String,
    },
}

/// Status numbers of gRPC.
pub(crate) mod code {
    pub(crate) const OK: u16 = 0;
    pub(crate) const UNKNOWN: u16 = 2;
    pub(crate) const NOT_FOUND: u16 = 5;
    pub(crate) const FAILED_PRECONDITION: u16 = 9;
    pub(crate) const UNIMPLEMENTED: u16 = 12;
    pub(crate) const UNAVAILABLE: u16 = 14;
}

/// The words of etcd for each refusal, and the status that goes with them.
const WORDS: [(Refusal, u16, &str); 13] = [
    (Refusal::NotLeader, code::FAILED_PRECONDITION, "etcdserver: not leader"),
    (Refusal::NoLeader, code::UNAVAILABLE, "etcdserver: no leader"),
    (Refusal::MemberNotFound, code::NOT_FOUND, "etcdserver: member not found"),
    (Refusal::TimedOut, code::UNAVAILABLE, "etcdserver: request timed out"),
    (Refusal::Unhealthy, code::UNAVAILABLE, "etcdserver: unhealthy cluster"),
    (
        Refusal::NotEnoughStarted,
        code::FAILED_PRECONDITION,
        "etcdserver: re-configuration failed due to not enough started members",
    ),
    (
        Refusal::LearnerNotReady,
        code::FAILED_PRECONDITION,
        "etcdserver: can only promote a learner member which is in sync with leader",
    ),
    (Refusal::NotALearner, code::FAILED_PRECONDITION, "etcdserver: can only promote a learner member"),
    (Refusal::TooManyLearners, code::FAILED_PRECONDITION, "etcdserver: too many learner members in cluster"),
    (Refusal::PeerUrlExists, code::FAILED_PRECONDITION, "etcdserver: Peer URLs already exists"),
    (Refusal::MemberExists, code::FAILED_PRECONDITION, "etcdserver: member ID already exist"),
    (Refusal::BadLeaderTransferee, code::FAILED_PRECONDITION, "etcdserver: bad leader transferee"),
    (Refusal::LearnerDoesNotAnswer, code::FAILED_PRECONDITION, "etcdserver: rpc not supported for learner"),
];

impl Refusal {
    /// Told apart by the words alone: the status of some has changed between releases.
    pub(crate) fn of(status: u16, message: &str) -> Self {
        if let Some((refusal, ..)) = WORDS.iter().find(|(_, _, words)| *words == message) {
            return refusal.clone();
        }
        match status {
            code::UNIMPLEMENTED => Self::Unimplemented,
            code => Self::Other { code, message: message.to_owned() },
        }
    }

    pub(crate) fn status(&self) -> (u16, &str) {
        match self {
            Self::Unimplemented => (code::UNIMPLEMENTED, "unknown method"),
            Self::Other { code, message } => (*code, message),
            known => WORDS
                .iter()
                .find(|(refusal, ..)| refusal == known)
                .map_or((code::UNKNOWN, ""), |(_, code, words)| (*code, *words)),
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status() {
            (code, "") => write!(f, "status {code}"),
            (_, message) => f.write_str(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_with_words_of_its_own_is_told_by_them() {
        for (refusal, code, words) in WORDS {
            assert_eq!(Refusal::of(code, words), refusal);
            assert_eq!(Refusal::of(code::UNKNOWN, words), refusal, "whatever the status");
            assert_eq!(refusal.status(), (code, words));
        }
        let other = Refusal::of(8, "etcdserver: mvcc: database space exceeded");
        assert_eq!(other.to_string(), "etcdserver: mvcc: database space exceeded");
        assert_eq!(Refusal::of(code::UNIMPLEMENTED, "unknown service"), Refusal::Unimplemented);
        assert_eq!(Refusal::of(13, "").to_string(), "status 13");
    }
}
