//! Calls to one member of an etcd.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::channel::Channel;
use crate::error::EtcdError;
use crate::grpc::{self, NoMessage};
use crate::messages::{
    self, AlarmKind, AlarmRequest, AlarmResponse, MemberAddRequest, MemberAddResponse, MemberListRequest,
    MemberListResponse, MemberRequest, MoveLeaderRequest, MoveLeaderResponse, RangeRequest, RangeResponse,
    StatusRequest, StatusResponse, method,
};
use crate::wire::Message;

/// How long a call may take. A member that has lost its leader answers within a few seconds that it has none.
const PATIENCE: Duration = Duration::from_secs(15);

/// Identifies a member for as long as it is one. Printed as etcd prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A member of an etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its identifier.
    pub id: MemberId,
    /// Its name; empty as long as it was added and has never been started.
    pub name: String,
    /// Where other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; empty as long as it has never been started.
    pub client_urls: Vec<String>,
    /// It does not vote yet.
    pub is_learner: bool,
}

impl From<messages::Member> for Member {
    fn from(member: messages::Member) -> Self {
        let messages::Member { id, name, peer_urls, client_urls, is_learner } = member;
        Self { id: MemberId(id), name, peer_urls, client_urls, is_learner }
    }
}

/// How a member says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The member that answered.
    pub member: MemberId,
    /// Its release.
    pub version: String,
    /// The leader, if it knows one.
    pub leader: Option<MemberId>,
    /// It does not vote yet.
    pub is_learner: bool,
    /// Size of its database in bytes.
    pub db_size: u64,
    /// What it finds wrong with itself: alarms, or that it has no leader.
    pub errors: Vec<String>,
}

/// An alarm of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// The member.
    pub member: MemberId,
    /// What about.
    pub kind: AlarmKind,
}

/// Speaks to one member. Made for one set of calls: when the last clone goes, the connection is closed.
#[derive(Clone, Debug)]
pub struct EtcdClient {
    channel: Channel,
    patience: Duration,
}

impl EtcdClient {
    /// A client that speaks through a channel.
    pub fn new(channel: Channel) -> Self {
        Self { channel, patience: PATIENCE }
    }

    /// With another limit on how long a call may take.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How the member is, as far as it knows itself. It answers also without a leader.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub async fn status(&self) -> Result<Status, EtcdError> {
        let answer: StatusResponse = self.call(method::STATUS, &StatusRequest::default()).await?;
        let member = answer.header.map(|header| header.member_id).unwrap_or_default();
        Ok(Status {
            member: MemberId(member),
            version: answer.version,
            leader: (answer.leader != 0).then_some(MemberId(answer.leader)),
            is_learner: answer.is_learner,
            db_size: answer.db_size,
            errors: answer.errors,
        })
    }

    /// All members, as a majority of them knows it: the list fails where there is none.
    ///
    /// # Errors
    ///
    /// If the member does not answer, or has no leader.
    pub async fn members(&self) -> Result<Vec<Member>, EtcdError> {
        let request = MemberListRequest { linearizable: true };
        let answer: MemberListResponse = self.call(method::MEMBER_LIST, &request).await?;
        Ok(answer.members.into_iter().map(Member::from).collect())
    }

    /// Adds a member that does not vote. It is to be promoted when it has caught up.
    ///
    /// # Errors
    ///
    /// If etcd refuses: there is a learner already, for one.
    pub async fn add_learner(&self, peer_url: &str) -> Result<Member, EtcdError> {
        let request = MemberAddRequest { peer_urls: vec![peer_url.to_owned()], is_learner: true };
        let answer: MemberAddResponse = self.call(method::MEMBER_ADD, &request).await?;
        answer.member.map(Member::from).ok_or_else(|| EtcdError::Malformed {
            method: method::MEMBER_ADD,
            why: "it does not say which member was added".to_owned(),
        })
    }

    /// Makes a learner a member that votes.
    ///
    /// # Errors
    ///
    /// [`Refusal::LearnerNotReady`](crate::Refusal::LearnerNotReady) until it has caught up with the leader.
    pub async fn promote(&self, member: MemberId) -> Result<(), EtcdError> {
        let request = MemberRequest { id: member.0 };
        self.call::<_, MemberListResponse>(method::MEMBER_PROMOTE, &request).await.map(drop)
    }

    /// Removes a member. It must not be asked of the member itself, which stops when it is removed.
    ///
    /// # Errors
    ///
    /// If etcd refuses. Whether the member was removed is unknown after any other error: list the members.
    pub async fn remove(&self, member: MemberId) -> Result<(), EtcdError> {
        let request = MemberRequest { id: member.0 };
        self.call::<_, MemberListResponse>(method::MEMBER_REMOVE, &request).await.map(drop)
    }

    /// Alarms of all members.
    ///
    /// # Errors
    ///
    /// If the member does not answer.
    pub async fn alarms(&self) -> Result<Vec<Alarm>, EtcdError> {
        let answer: AlarmResponse = self.call(method::ALARM, &AlarmRequest::default()).await?;
        let alarms = answer.alarms.into_iter();
        Ok(alarms.map(|alarm| Alarm { member: MemberId(alarm.member_id), kind: alarm.alarm }).collect())
    }

    /// Makes another member the leader. Only the leader does this.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotLeader`](crate::Refusal::NotLeader) from all other members.
    pub async fn move_leader(&self, to: MemberId) -> Result<(), EtcdError> {
        let request = MoveLeaderRequest { target_id: to.0 };
        self.call::<_, MoveLeaderResponse>(method::MOVE_LEADER, &request).await.map(drop)
    }

    /// Whether a majority of the members answers, through this one: a read that all of them must agree on.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub async fn health(&self) -> Result<(), EtcdError> {
        let request =
            RangeRequest { key: b"health".to_vec(), limit: 1, count_only: true, ..RangeRequest::default() };
        self.call::<_, RangeResponse>(method::RANGE, &request).await.map(drop)
    }

    /// A call with a message that is encoded already, for what there is no function for.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub async fn unary(&self, method: &'static str, message: &[u8]) -> Result<Bytes, EtcdError> {
        let exchange = self.channel.clone().oneshot(grpc::request(method, message));
        let answer = timeout(self.patience, exchange).await;
        let answer = answer.map_err(|_| EtcdError::TimedOut { method, after: self.patience })?;
        let answer = answer.map_err(|why| EtcdError::Connection { method, why })?;
        grpc::message(answer).map_err(|no_message| match no_message {
            NoMessage::Refused(refusal) => EtcdError::Refused { method, refusal },
            NoMessage::Malformed(why) => EtcdError::Malformed { method, why },
        })
    }

    async fn call<Q: Message, A: Message>(&self, method: &'static str, request: &Q) -> Result<A, EtcdError> {
        let answer = self.unary(method, &request.encode()).await?;
        A::decode(&answer).map_err(|why| EtcdError::malformed(method, why))
    }
}
