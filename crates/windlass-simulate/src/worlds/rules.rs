//! What controllers may do to machines at the moment at which they do it: limits of rollouts, the quorum of etcd, and that
//! nothing is replaced where the user said so.
//!
//! Written without a look at the controllers, from the objects alone. The rules about versions are those of
//! [`Chronicle`](crate::Chronicle).

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, RolloutStrategyType};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{
    CONTROL_PLANE_LABEL, ROLLOUT_FALLBACK_ANNOTATION, ROLLOUT_STRATEGY_ANNOTATION,
    TOPOLOGY_DEPLOYMENT_NAME_LABEL,
};

use super::draw::Freedoms;
use crate::recorder::{Observer, Written};

/// How many machines there may be too many: the default of groups and control planes, which tales leave as it is unless
/// they change any field.
const SURGE: usize = 1;

/// Checks the machines of a tale after every write.
pub(super) struct Rules {
    freedoms: Freedoms,
    /// The control plane under no name.
    parts: BTreeMap<Option<String>, Part>,
    machines: BTreeMap<String, Member>,
    /// The Cluster is on its way out, and everything with it.
    is_leaving: bool,
}

#[derive(Default)]
struct Part {
    replicas: usize,
    /// The most that were wanted since there were no more than wanted.
    peak: usize,
    /// No machine of it may be replaced.
    is_kept: bool,
}

#[derive(Clone)]
struct Member {
    part: Option<String>,
    /// It has a Node: if it is of the control plane, a member of etcd.
    has_joined: bool,
    is_available: bool,
    /// Its member of etcd is well.
    is_sound: bool,
    is_leaving: bool,
}

impl Rules {
    pub(super) fn new(freedoms: Freedoms) -> Self {
        Self { freedoms, parts: BTreeMap::new(), machines: BTreeMap::new(), is_leaving: false }
    }

    fn part(&mut self, name: Option<String>, replicas: Option<i32>, is_kept: bool, is_gone: bool) {
        if is_gone {
            self.parts.remove(&name);
            return;
        }
        let part = self.parts.entry(name.clone()).or_default();
        part.replicas = replicas.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or_default();
        part.peak = part.peak.max(part.replicas);
        part.is_kept = is_kept;
        self.settle(&name);
    }

    fn of(&self, part: &Option<String>) -> impl Iterator<Item = &Member> {
        self.machines.values().filter(move |member| member.part == *part)
    }

    /// With no more machines than wanted, what was wanted before does not count any more.
    fn settle(&mut self, name: &Option<String>) {
        let there = self.of(name).filter(|member| !member.is_leaving).count();
        if let Some(part) = self.parts.get_mut(name).filter(|part| there <= part.replicas) {
            part.peak = part.replicas;
        }
    }

    fn machine(&mut self, machine: &Machine, is_gone: bool) -> Result<(), String> {
        let (name, labels) = (machine.name_any(), machine.labels());
        let part = match labels.contains_key(CONTROL_PLANE_LABEL) {
            true => None,
            false => Some(labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).cloned().unwrap_or_default()),
        };
        if is_gone {
            let before = self.machines.remove(&name);
            self.settle(&part);
            return match before.filter(|before| part.is_none() && before.has_joined && self.guards()) {
                Some(_) => self.quorum(),
                None => Ok(()),
            };
        }
        let is = |condition: &str| {
            machine.status.conditions.iter().any(|has| has.type_ == condition && has.status == "True")
        };
        let member = Member {
            part: part.clone(),
            has_joined: machine.status.node_ref.is_some(),
            is_available: is("Available"),
            is_sound: is("EtcdMemberHealthy"),
            is_leaving: machine.metadata.deletion_timestamp.is_some(),
        };
        let before = self.machines.insert(name.clone(), member.clone());
        let checked = match &before {
            _ if self.is_leaving => Ok(()),
            None => self.created(&part),
            Some(before) if member.is_leaving && !before.is_leaving => self.leaving(&name, before),
            Some(_) => Ok(()),
        };
        self.settle(&part);
        checked.map_err(|rule| format!("{}: {rule}", part.as_deref().unwrap_or("control plane")))
    }

    fn created(&self, name: &Option<String>) -> Result<(), String> {
        let Some(part) = self.parts.get(name).filter(|_| !self.freedoms.any_field) else { return Ok(()) };
        // Machines that a user deleted are replaced before they are gone.
        let counted = self.of(name).filter(|member| self.freedoms.counts_machines || !member.is_leaving);
        let (there, most) = (counted.count(), part.peak + SURGE);
        if there > most {
            return Err(format!("{there} machines, and at most {most} are allowed"));
        }
        if part.is_kept && self.freedoms.counts_machines && there > part.replicas {
            return Err("a machine is replaced although the strategy is External".to_owned());
        }
        Ok(())
    }

    fn leaving(&self, name: &str, before: &Member) -> Result<(), String> {
        let others: Vec<&Member> =
            self.machines.iter().filter(|(other, _)| *other != name).map(|(_, member)| member).collect();
        let of_part = others.iter().filter(|member| member.part == before.part);
        if before.part.is_none() {
            let mut members = of_part.filter(|member| member.has_joined);
            return match before.has_joined && self.guards() && members.any(|member| member.is_leaving) {
                true => Err("two members of etcd leave at the same time".to_owned()),
                false => Ok(()),
            };
        }
        let Some(part) = self.parts.get(&before.part) else { return Ok(()) };
        let available = of_part.filter(|member| member.is_available && !member.is_leaving).count();
        if self.freedoms.counts_machines && before.is_available && available < part.replicas {
            return Err(format!("{available} machines are left available of {}", part.replicas));
        }
        Ok(())
    }

    /// Whether the control plane is to keep its quorum.
    fn guards(&self) -> bool {
        self.freedoms.keeps_quorum && !self.is_leaving
    }

    /// Whether the members that are left when one is gone can agree. Not when it begins to go: conditions of the others may be
    /// older than what the control plane then knows of them.
    fn quorum(&self) -> Result<(), String> {
        let members: Vec<&Member> = self.of(&None).filter(|member| member.has_joined).collect();
        let sound = members.iter().filter(|member| member.is_sound).count();
        match sound * 2 > members.len() {
            true => Ok(()),
            false => Err(format!("{sound} of {} members of etcd are well when one is gone", members.len())),
        }
    }
}

impl Observer for Rules {
    fn observe(&mut self, written: &Written<'_>) -> Result<(), String> {
        let is_gone = written.is_deletion();
        if let Some(machine) = written.object::<Machine>() {
            return self.machine(&machine, is_gone);
        }
        if let Some(cluster) = written.object::<Cluster>() {
            self.is_leaving = cluster.metadata.deletion_timestamp.is_some() && !is_gone;
        } else if let Some(found) = written.object::<KubeadmControlPlane>() {
            self.part(None, found.spec.replicas, false, is_gone);
        } else if let Some(found) = written.object::<MachineDeployment>()
            && let Some(name) = found.labels().get(TOPOLOGY_DEPLOYMENT_NAME_LABEL)
        {
            let strategy = &found.spec.rollout.strategy;
            let says = |annotation: &str| found.annotations().contains_key(annotation);
            let is_kept = match strategy.type_ {
                RolloutStrategyType::External => strategy.fallback_rolling.is_none(),
                _ => says(ROLLOUT_STRATEGY_ANNOTATION) && !says(ROLLOUT_FALLBACK_ANNOTATION),
            };
            self.part(Some(name.clone()), found.spec.replicas, is_kept, is_gone);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const STRICT: Freedoms = Freedoms { counts_machines: true, any_field: false, keeps_quorum: true };

    /// A machine of a group, or of the control plane, with these conditions; what is capitalised is one, the rest is `leaving`
    /// and `unborn`.
    fn machine(name: &str, part: Option<&str>, is: &[&str]) -> Machine {
        let labels = match part {
            None => json!({CONTROL_PLANE_LABEL: ""}),
            Some(part) => json!({TOPOLOGY_DEPLOYMENT_NAME_LABEL: part}),
        };
        let conditions: Vec<Value> = is
            .iter()
            .filter(|word| word.starts_with(char::is_uppercase))
            .map(|word| json!({"type": word, "status": "True", "reason": "R", "lastTransitionTime": "1970-01-01T00:00:00Z"}))
            .collect();
        let mut object = json!({"apiVersion": Machine::API_VERSION, "kind": Machine::KIND,
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"clusterName": "w", "version": "v1.31.0"}, "status": {"conditions": conditions}});
        if is.contains(&"leaving") {
            object["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        if !is.contains(&"unborn") {
            object["status"]["nodeRef"] = json!({"name": name});
        }
        serde_json::from_value(object).unwrap()
    }

    fn rules(freedoms: Freedoms, parts: &[(Option<&str>, i32)]) -> Rules {
        let mut rules = Rules::new(freedoms);
        for (name, replicas) in parts {
            rules.part(name.map(str::to_owned), Some(*replicas), false, false);
        }
        rules
    }

    #[test]
    fn a_member_of_etcd_goes_only_while_the_others_are_well() {
        let mut rules = rules(STRICT, &[(None, 1)]);
        let sound = ["EtcdMemberHealthy"];
        rules.machine(&machine("old", None, &sound), false).unwrap();
        rules.machine(&machine("new", None, &[]), false).unwrap();
        rules.machine(&machine("old", None, &["leaving"]), false).unwrap();
        let problem = rules.machine(&machine("old", None, &["leaving"]), true).unwrap_err();
        assert_eq!(problem, "0 of 1 members of etcd are well when one is gone");

        let mut rules = self::rules(STRICT, &[(None, 3)]);
        for name in ["a", "b", "c"] {
            rules.machine(&machine(name, None, &sound), false).unwrap();
        }
        rules.machine(&machine("a", None, &["leaving"]), false).unwrap();
        let problem = rules.machine(&machine("b", None, &["leaving"]), false).unwrap_err();
        assert_eq!(problem, "control plane: two members of etcd leave at the same time");
        rules.is_leaving = true;
        rules.machine(&machine("c", None, &["leaving"]), false).unwrap();
    }

    #[test]
    fn a_rollout_keeps_its_limits() {
        let group = Some("md0");
        let mut rules = rules(STRICT, &[(group, 1)]);
        rules.machine(&machine("a", group, &["Available"]), false).unwrap();
        rules.machine(&machine("b", group, &["unborn"]), false).unwrap();
        let problem = rules.machine(&machine("c", group, &["unborn"]), false).unwrap_err();
        assert_eq!(problem, "md0: 3 machines, and at most 2 are allowed");
        let problem = rules.machine(&machine("a", group, &["Available", "leaving"]), false).unwrap_err();
        assert_eq!(problem, "md0: 0 machines are left available of 1");
    }

    #[test]
    fn a_group_that_shrinks_may_have_had_more() {
        let group = Some("md0");
        let freedoms = Freedoms { counts_machines: false, ..STRICT };
        let mut rules = rules(freedoms, &[(group, 2)]);
        for name in ["a", "b"] {
            rules.machine(&machine(name, group, &[]), false).unwrap();
        }
        rules.part(group.map(str::to_owned), Some(1), false, false);
        rules.machine(&machine("c", group, &[]), false).unwrap();
        for name in ["b", "c"] {
            rules.machine(&machine(name, group, &["leaving"]), false).unwrap();
        }
        rules.machine(&machine("d", group, &[]), false).unwrap();
        let problem = rules.machine(&machine("e", group, &[]), false).unwrap_err();
        assert_eq!(problem, "md0: 3 machines, and at most 2 are allowed", "it had come to rest in between");
    }

    #[test]
    fn no_machine_is_replaced_under_external() {
        let group = Some("edge");
        let mut rules = Rules::new(STRICT);
        rules.part(group.map(str::to_owned), Some(1), true, false);
        rules.machine(&machine("a", group, &[]), false).unwrap();
        let problem = rules.machine(&machine("b", group, &[]), false).unwrap_err();
        assert_eq!(problem, "edge: a machine is replaced although the strategy is External");
    }
}
