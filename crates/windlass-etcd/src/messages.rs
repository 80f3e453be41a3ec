//! Requests and answers of etcd (package `etcdserverpb`), with the fields that are looked at here.

use crate::wire::{Field, Malformed, Value, message};

/// Paths of the calls.
pub(crate) mod method {
    pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
    pub(crate) const MEMBER_LIST: &str = "/etcdserverpb.Cluster/MemberList";
    pub(crate) const MEMBER_ADD: &str = "/etcdserverpb.Cluster/MemberAdd";
    pub(crate) const MEMBER_PROMOTE: &str = "/etcdserverpb.Cluster/MemberPromote";
    pub(crate) const MEMBER_REMOVE: &str = "/etcdserverpb.Cluster/MemberRemove";
    pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
    pub(crate) const ALARM: &str = "/etcdserverpb.Maintenance/Alarm";
    pub(crate) const MOVE_LEADER: &str = "/etcdserverpb.Maintenance/MoveLeader";
}

message! {
    pub(crate) struct ResponseHeader {
        1 => cluster_id: u64,
        2 => member_id: u64,
    }
}

message! {
    pub(crate) struct Member {
        1 => id: u64,
        2 => name: String,
        3 => peer_urls: Vec<String>,
        4 => client_urls: Vec<String>,
        5 => is_learner: bool,
    }
}

message! {
    pub(crate) struct MemberListRequest {
        1 => linearizable: bool,
    }
}

message! {
    pub(crate) struct MemberListResponse {
        1 => header: Option<ResponseHeader>,
        2 => members: Vec<Member>,
    }
}

message! {
    pub(crate) struct MemberAddRequest {
        1 => peer_urls: Vec<String>,
        2 => is_learner: bool,
    }
}

message! {
    pub(crate) struct MemberAddResponse {
        1 => header: Option<ResponseHeader>,
        2 => member: Option<Member>,
        3 => members: Vec<Member>,
    }
}

message! {
    /// Of a removal and of a promotion.
    pub(crate) struct MemberRequest {
        1 => id: u64,
    }
}

message! {
    pub(crate) struct StatusRequest {}
}

message! {
    pub(crate) struct StatusResponse {
        1 => header: Option<ResponseHeader>,
        2 => version: String,
        3 => db_size: u64,
        4 => leader: u64,
        8 => errors: Vec<String>,
        10 => is_learner: bool,
    }
}

message! {
    pub(crate) struct AlarmRequest {
        1 => action: u64,
        2 => member_id: u64,
        3 => alarm: AlarmKind,
    }
}

message! {
    pub(crate) struct AlarmMember {
        1 => member_id: u64,
        2 => alarm: AlarmKind,
    }
}

message! {
    pub(crate) struct AlarmResponse {
        1 => header: Option<ResponseHeader>,
        2 => alarms: Vec<AlarmMember>,
    }
}

message! {
    pub(crate) struct MoveLeaderRequest {
        1 => target_id: u64,
    }
}

message! {
    pub(crate) struct MoveLeaderResponse {
        1 => header: Option<ResponseHeader>,
    }
}

message! {
    pub(crate) struct RangeRequest {
        1 => key: Vec<u8>,
        3 => limit: u64,
        7 => serializable: bool,
        9 => count_only: bool,
    }
}

message! {
    pub(crate) struct RangeResponse {
        1 => header: Option<ResponseHeader>,
        4 => count: u64,
    }
}

/// What a member raises an alarm about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// No alarm.
    #[default]
    None,
    /// Its database is as large as it may be: etcd takes no more writes.
    NoSpace,
    /// Its data differs from that of the others.
    Corrupt,
    /// One that newer releases have.
    Other(u64),
}

impl AlarmKind {
    const fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::NoSpace => 1,
            Self::Corrupt => 2,
            Self::Other(number) => number,
        }
    }
}

impl std::fmt::Display for AlarmKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("NONE"),
            Self::NoSpace => f.write_str("NOSPACE"),
            Self::Corrupt => f.write_str("CORRUPT"),
            Self::Other(number) => write!(f, "{number}"),
        }
    }
}

impl Field for AlarmKind {
    fn put(&self, field: u32, out: &mut Vec<u8>) {
        self.number().put(field, out);
    }

    fn take(&mut self, value: Value<'_>) -> Result<Option<()>, Malformed> {
        let mut number = 0;
        let taken = number.take(value)?;
        *self = match number {
            0 => Self::None,
            1 => Self::NoSpace,
            2 => Self::Corrupt,
            number => Self::Other(number),
        };
        Ok(taken)
    }
}
