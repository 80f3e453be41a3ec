//! An etcd in this process: it answers the same messages as a real one, and keeps its rules about members and majorities.
//! It stores nothing.

mod ensemble;

use std::fmt;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower::Service;

use crate::channel::Channel;
use crate::client::{Member, MemberId};
use crate::error::{ConnectionError, Refusal};
use crate::grpc;
use crate::messages::{
    self, AlarmKind, AlarmMember, AlarmRequest, AlarmResponse, MemberAddRequest, MemberAddResponse,
    MemberListRequest, MemberListResponse, MemberRequest, MoveLeaderRequest, MoveLeaderResponse,
    RangeRequest, RangeResponse, ResponseHeader, StatusResponse, method,
};
use crate::wire::Message;
use ensemble::Ensemble;

/// The release that members claim to be.
const VERSION: &str = "3.6.16";

/// An etcd in this process. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct MemoryEtcd {
    ensemble: Arc<Mutex<Ensemble>>,
}

impl MemoryEtcd {
    /// An etcd without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a member and starts it, as `kubeadm join` does; the first one begins the cluster. One that is a member already
    /// is started.
    ///
    /// # Errors
    ///
    /// If too few of the others run.
    pub fn join(&self, name: &str) -> Result<MemberId, Refusal> {
        self.ensemble().join(name)
    }

    /// Ends the process of a member, which it remains.
    pub fn stop(&self, name: &str) {
        let mut ensemble = self.ensemble();
        if let Some(id) = ensemble.named(name) {
            ensemble.set_running(id, false);
        }
    }

    /// Whether no member runs.
    pub fn is_down(&self) -> bool {
        !self.ensemble().runs()
    }

    /// Makes a member raise an alarm.
    pub fn raise(&self, name: &str, alarm: AlarmKind) {
        self.set_alarm(name, alarm, true);
    }

    /// Ends an alarm of a member.
    pub fn disarm(&self, name: &str, alarm: AlarmKind) {
        self.set_alarm(name, alarm, false);
    }

    fn set_alarm(&self, name: &str, alarm: AlarmKind, is_raised: bool) {
        let mut ensemble = self.ensemble();
        if let Some(id) = ensemble.named(name) {
            ensemble.set_alarm(id, alarm, is_raised);
        }
    }

    /// All members.
    pub fn members(&self) -> Vec<Member> {
        self.ensemble().list().into_iter().map(Member::from).collect()
    }

    /// The name of the leader, if there is one.
    pub fn leader(&self) -> Option<String> {
        let ensemble = self.ensemble();
        let leader = ensemble.leader()?;
        ensemble.list().into_iter().find(|member| member.id == leader.0).map(|member| member.name)
    }

    /// A way to the member with this name. It leads nowhere while the member does not run, or is none.
    pub fn channel(&self, name: &str) -> Channel {
        Channel::new(Listener { ensemble: Arc::clone(&self.ensemble), name: name.into() })
    }

    fn ensemble(&self) -> MutexGuard<'_, Ensemble> {
        self.ensemble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryEtcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ensemble().list().iter().map(|member| &member.name)).finish()
    }
}

/// The client port of one member.
#[derive(Clone)]
struct Listener {
    ensemble: Arc<Mutex<Ensemble>>,
    name: Arc<str>,
}

impl Service<Request<Bytes>> for Listener {
    type Response = Response<Bytes>;
    type Error = ConnectionError;
    type Future = Ready<Result<Response<Bytes>, ConnectionError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let mut ensemble = self.ensemble.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(id) = ensemble.named(&self.name).filter(|id| ensemble.is_running(*id)) else {
            return ready(Err(ConnectionError::Refused(format!("etcd member {}", self.name))));
        };
        let answer = match grpc::framed(request.body()) {
            Ok(message) => answer(&mut ensemble, id, request.uri().path(), &message),
            Err(_) => Err(Refusal::Other { code: 13, message: "malformed message".to_owned() }),
        };
        ready(Ok(grpc::response(answer)))
    }
}

/// What a member answers to a call.
fn answer(ensemble: &mut Ensemble, id: MemberId, path: &str, message: &[u8]) -> Result<Vec<u8>, Refusal> {
    let header = Some(ResponseHeader { cluster_id: 1, member_id: id.0 });
    if ensemble.is_learner(id) && path != method::STATUS {
        return Err(Refusal::LearnerDoesNotAnswer);
    }
    match path {
        method::STATUS => {
            let leader = ensemble.leader().map_or(0, |leader| leader.0);
            let own = ensemble.alarms().into_iter().filter(|alarm| alarm.member == id);
            let mut errors: Vec<String> =
                own.map(|alarm| format!("memberID:{} alarm:{} ", alarm.member.0, alarm.kind)).collect();
            if leader == 0 {
                errors.push("etcdserver: no leader".to_owned());
            }
            let (version, is_learner) = (VERSION.to_owned(), ensemble.is_learner(id));
            Ok(StatusResponse { header, version, db_size: 20480, leader, errors, is_learner }.encode())
        }
        method::MEMBER_LIST => {
            if read::<MemberListRequest>(message)?.linearizable {
                ensemble.agree()?;
            }
            Ok(MemberListResponse { header, members: ensemble.list() }.encode())
        }
        method::MEMBER_ADD => {
            let MemberAddRequest { peer_urls, is_learner } = read(message)?;
            let added = ensemble.add(peer_urls, is_learner)?;
            let members = ensemble.list();
            let member: Option<messages::Member> =
                members.iter().find(|member| member.id == added.0).cloned();
            Ok(MemberAddResponse { header, member, members }.encode())
        }
        method::MEMBER_PROMOTE => {
            ensemble.promote(MemberId(read::<MemberRequest>(message)?.id))?;
            Ok(MemberListResponse { header, members: ensemble.list() }.encode())
        }
        method::MEMBER_REMOVE => {
            ensemble.remove(MemberId(read::<MemberRequest>(message)?.id))?;
            Ok(MemberListResponse { header, members: ensemble.list() }.encode())
        }
        method::ALARM => {
            const GET: u64 = 0;
            if read::<AlarmRequest>(message)?.action != GET {
                return Err(Refusal::Unimplemented);
            }
            ensemble.agree()?;
            let alarms = ensemble.alarms().into_iter();
            let alarms = alarms.map(|alarm| AlarmMember { member_id: alarm.member.0, alarm: alarm.kind });
            Ok(AlarmResponse { header, alarms: alarms.collect() }.encode())
        }
        method::MOVE_LEADER => {
            ensemble.move_leader(id, MemberId(read::<MoveLeaderRequest>(message)?.target_id))?;
            Ok(MoveLeaderResponse { header }.encode())
        }
        method::RANGE => {
            if !read::<RangeRequest>(message)?.serializable {
                ensemble.agree()?;
            }
            Ok(RangeResponse { header, count: 0 }.encode())
        }
        _ => Err(Refusal::Unimplemented),
    }
}

fn read<M: Message>(message: &[u8]) -> Result<M, Refusal> {
    M::decode(message).map_err(|why| Refusal::Other { code: 13, message: why.to_string() })
}
