//! Members of etcd, asked by etcd's own protocol.
//!
//! A member has the name of its Node. Which member is asked does not matter for a list, which a majority agrees on; the
//! leadership is handed over by the leader alone, and no member removes itself.

use std::sync::Arc;

use kube::{Resource, ResourceExt};
use windlass_api::cluster::Machine;
use windlass_api::conditions::ETCD_MEMBER_HEALTHY;
use windlass_engine::condition;
use windlass_engine::control_plane::EtcdMember;
use windlass_etcd::{EtcdClient, EtcdError, Member, MemberId};
use windlass_runtime::ObjectKey;

use super::{ControlPlaneError, ControlPlaneReconciler, Scope};
use crate::workload::NoAnswer;

/// Why etcd did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EtcdTrouble {
    /// There is no way to a member.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] EtcdError),
    /// No Machine has a Node, which a member would run on.
    #[error("there is no member that could be asked")]
    NoMember,
    /// The last member cannot go.
    #[error("it is the last member")]
    LastMember,
    /// It was removed, and is still there.
    #[error("it was removed, and is still a member")]
    StillThere,
    /// It leads, and no other member could be made the leader.
    #[error("it leads, and no other member could be made the leader{}", .last.as_ref().map(|error| format!(": {error}")).unwrap_or_default())]
    NoSuccessor {
        /// What the last one that was tried answered.
        last: Option<EtcdError>,
    },
}

/// The Nodes whose members may be asked, in this order: those of Machines that stay before those that go, and of these first
/// the ones whose member was healthy.
pub(super) fn nodes(machines: &[Arc<Machine>]) -> Vec<String> {
    let mut joined: Vec<(bool, bool, String)> = machines
        .iter()
        .filter_map(|machine| {
            let node = machine.status.node_ref.as_ref()?.name.clone();
            let is_deleting = machine.meta().deletion_timestamp.is_some();
            let was_healthy = condition::is_true(&machine.status.conditions, ETCD_MEMBER_HEALTHY);
            (!node.is_empty()).then_some((is_deleting, !was_healthy, node))
        })
        .collect();
    joined.sort();
    joined.into_iter().map(|(_, _, node)| node).collect()
}

impl ControlPlaneReconciler {
    /// All members with their alarms, as the first one that answers tells them.
    pub(super) async fn etcd_members(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
    ) -> Result<Vec<EtcdMember>, EtcdTrouble> {
        let mut last = EtcdTrouble::NoMember;
        for node in nodes(machines) {
            match self.list_with_alarms(scope, &node).await {
                Ok(members) => return Ok(members),
                Err(trouble) => last = trouble,
            }
        }
        Err(last)
    }

    async fn list_with_alarms(&self, scope: &Scope<'_>, node: &str) -> Result<Vec<EtcdMember>, EtcdTrouble> {
        let client = self.etcd_client(scope, node).await?;
        let members = client.members().await?;
        let alarms = client.alarms().await?;
        let member = |member: Member| {
            let own = alarms.iter().filter(|alarm| alarm.member == member.id);
            let alarms = own.map(|alarm| alarm.kind.to_string()).collect();
            EtcdMember { id: member.id.0, name: member.name, learner: member.is_learner, alarms }
        };
        Ok(members.into_iter().map(member).collect())
    }

    /// Hands the leadership over to the first of the successors that takes it, if the member on a Node has it.
    pub(super) async fn hand_over(
        &self,
        scope: &Scope<'_>,
        node: &str,
        successors: &[String],
    ) -> Result<(), ControlPlaneError> {
        self.try_hand_over(scope, node, successors).await.map_err(|why| failed(node, why))
    }

    async fn try_hand_over(
        &self,
        scope: &Scope<'_>,
        node: &str,
        successors: &[String],
    ) -> Result<(), EtcdTrouble> {
        // Another one is asked who leads: the member of a broken machine does not answer, and leads nothing then.
        let (client, members) = self.others(scope, node, successors).await?;
        let named = |name: &str| members.iter().find(|member| member.name == name).map(|member| member.id);
        let Some(own) = named(node) else { return Ok(()) };
        if client.status().await?.leader != Some(own) {
            return Ok(());
        }
        let leader = self.etcd_client(scope, node).await?;
        let mut last = None;
        for id in successors.iter().filter_map(|name| named(name)) {
            match leader.move_leader(id).await {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        Err(EtcdTrouble::NoSuccessor { last })
    }

    /// Removes a member, and sees that it is gone. `node` is the Node that it ran on, which is not asked, and may be none.
    pub(super) async fn remove_member(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        node: Option<&str>,
        is_it: impl Fn(&Member) -> bool + Send + Sync,
    ) -> Result<(), ControlPlaneError> {
        let others: Vec<String> =
            nodes(machines).into_iter().filter(|other| Some(other.as_str()) != node).collect();
        let removed = self.try_remove(scope, &others, is_it).await;
        removed.map_err(|why| failed(node.unwrap_or("without a Machine"), why))
    }

    async fn try_remove(
        &self,
        scope: &Scope<'_>,
        others: &[String],
        is_it: impl Fn(&Member) -> bool + Send + Sync,
    ) -> Result<(), EtcdTrouble> {
        let (client, members) = self.others(scope, "", others).await?;
        let find = |members: &[Member]| -> Option<MemberId> {
            members.iter().find(|member| is_it(member)).map(|member| member.id)
        };
        // What was removed before a crash needs nothing.
        let Some(id) = find(&members) else { return Ok(()) };
        if members.len() == 1 {
            return Err(EtcdTrouble::LastMember);
        }
        client.remove(id).await?;
        match find(&client.members().await?) {
            None => Ok(()),
            Some(_) => Err(EtcdTrouble::StillThere),
        }
    }

    /// A client to the first of these Nodes, other than one, whose member lists all members.
    async fn others(
        &self,
        scope: &Scope<'_>,
        except: &str,
        nodes: &[String],
    ) -> Result<(EtcdClient, Vec<Member>), EtcdTrouble> {
        let mut last = EtcdTrouble::NoMember;
        for node in nodes.iter().filter(|node| *node != except) {
            match self.listing(scope, node).await {
                Ok(found) => return Ok(found),
                Err(trouble) => last = trouble,
            }
        }
        Err(last)
    }

    async fn listing(&self, scope: &Scope<'_>, node: &str) -> Result<(EtcdClient, Vec<Member>), EtcdTrouble> {
        let client = self.etcd_client(scope, node).await?;
        let members = client.members().await?;
        Ok((client, members))
    }

    async fn etcd_client(&self, scope: &Scope<'_>, node: &str) -> Result<EtcdClient, NoAnswer> {
        let cluster = ObjectKey::new(scope.namespace(), scope.cluster_name());
        self.workload.etcd(&cluster, node).await.map(EtcdClient::new)
    }
}

fn failed(member: &str, why: EtcdTrouble) -> ControlPlaneError {
    ControlPlaneError::EtcdMember { member: member.to_owned(), why }
}

/// Who is which Machine's Node.
pub(super) fn node_of(machines: &[Arc<Machine>], name: &str) -> Option<String> {
    let machine = machines.iter().find(|machine| machine.name_any() == name)?;
    machine.status.node_ref.as_ref().map(|node| node.name.clone()).filter(|node| !node.is_empty())
}
