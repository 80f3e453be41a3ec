//! The etcd of a workload cluster, one member for each control plane machine.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_etcd::MemoryEtcd;

use super::WorkloadError;

/// The members. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    etcd: MemoryEtcd,
    /// Machines whose member was started. One that was removed since does not come back: its data are of no use any more.
    started: BTreeSet<String>,
}

impl Members {
    /// The etcd as it is now.
    pub(super) fn ensemble(&self) -> MemoryEtcd {
        self.state().etcd.clone()
    }

    /// Starts the member of a machine, as kubeadm does. Where no member runs, it begins a new etcd: nothing is left of the old.
    pub(super) fn join(&self, machine: &str) -> Result<(), WorkloadError> {
        let mut state = self.state();
        let is_member = state.etcd.members().iter().any(|member| member.name == machine);
        if state.started.contains(machine) && !is_member {
            return Ok(());
        }
        if !is_member && state.etcd.is_down() {
            state.etcd = MemoryEtcd::new();
        }
        let joined = state.etcd.join(machine);
        joined.map_err(|refusal| WorkloadError::Etcd { member: machine.to_owned(), refusal })?;
        state.started.insert(machine.to_owned());
        Ok(())
    }

    /// Ends the member of a machine that goes. If nobody has removed it before, it is still one, and counts.
    pub(super) fn leave(&self, machine: &str) {
        let mut state = self.state();
        state.etcd.stop(machine);
        state.started.remove(machine);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use windlass_etcd::EtcdClient;

    use super::*;

    fn names(members: &Members) -> Vec<String> {
        let mut names: Vec<String> =
            members.ensemble().members().into_iter().map(|member| member.name).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_member_that_was_removed_does_not_come_back() {
        let members = Members::default();
        for machine in ["a", "b"] {
            members.join(machine).unwrap();
        }
        let etcd = members.ensemble();
        let client = EtcdClient::new(etcd.channel("b"));
        let id = client.members().await.unwrap().into_iter().find(|member| member.name == "a").unwrap().id;
        client.remove(id).await.unwrap();
        members.join("a").unwrap();
        assert_eq!(names(&members), ["b"]);
    }

    #[test]
    fn a_machine_that_goes_leaves_its_member_behind_unless_that_was_removed() {
        let members = Members::default();
        for machine in ["a", "b", "c"] {
            members.join(machine).unwrap();
        }
        members.leave("c");
        assert_eq!(names(&members), ["a", "b", "c"]);
        members.leave("b");
        assert!(members.join("d").is_err(), "one of three is no majority");
        members.leave("a");
        members.join("e").unwrap();
        assert_eq!(names(&members), ["e"], "nothing was left, and another etcd began");
    }
}
