//! Draining a Node: which pods have to go, which may stay, and what a drain waits on.

use std::collections::BTreeSet;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::drain_rules::Behavior;

/// Label of pods that says what a drain does with them: `skip`, `wait-completed`; goes before MachineDrainRules, to which
/// anything else leaves the pod.
pub const DRAIN_LABEL: &str = "cluster.x-k8s.io/drain";
/// Annotation of pods that a kubelet made from a file of its own. Those cannot be evicted.
pub const MIRROR_POD_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// How long a pod on a Node that does not answer may be terminating before the drain no longer waits for it: its
/// kubelet will never confirm.
const UNREACHABLE_GRACE: SignedDuration = SignedDuration::from_secs(1);

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    /// The namespace of the pod, in the workload cluster.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod on the Node, as far as a drain looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Which one.
    pub name: PodName,
    /// Kind and name of its controller.
    pub controller: Option<(String, String)>,
    /// It was made by the kubelet.
    pub mirror: bool,
    /// It has run to its end.
    pub finished: bool,
    /// When it is or was supposed to be gone, if it is terminating.
    pub terminating: Option<Timestamp>,
    /// Value of [`DRAIN_LABEL`].
    pub drain_label: Option<String>,
    /// What the MachineDrainRule says that counts for it.
    pub rule: Option<Behavior>,
}

impl Pod {
    /// The label goes before the rule, and a pod that neither speaks of is evicted among the first of order 0.
    fn behavior(&self) -> Behavior {
        match self.drain_label.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("skip") => Behavior::Skip,
            Some("wait-completed") => Behavior::WaitCompleted,
            _ => self.rule.unwrap_or(Behavior::Drain { order: 0 }),
        }
    }

    /// Pods of a lower order are gone before anything is done about those of a higher one.
    fn order(&self) -> i32 {
        match self.behavior() {
            Behavior::Drain { order } => order,
            Behavior::Skip | Behavior::WaitCompleted => 0,
        }
    }
}

/// What a drain does with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It stays: the kubelet made it.
    StaysMirror,
    /// It stays: its DaemonSet would put it back at once.
    StaysDaemonSet,
    /// It stays: a label or a rule says so.
    StaysByRule,
    /// It is terminating on a Node that does not answer; its kubelet will not confirm that it is gone.
    Given,
    /// It has to be evicted.
    Evict,
    /// It is terminating.
    AwaitDeletion,
    /// A label or a rule says to let it finish.
    AwaitCompletion,
}

/// What a drain has to do, and what it waits on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainPlan {
    /// To be evicted now.
    pub evict: Vec<PodName>,
    /// Terminating.
    pub await_deletion: Vec<PodName>,
    /// Running to their end.
    pub await_completion: Vec<PodName>,
    /// To be evicted when all others are gone: their order is higher.
    pub later: Vec<PodName>,
}

impl DrainPlan {
    /// Whether nothing is left to do or to wait for.
    pub fn is_done(&self) -> bool {
        // Pods that come later come after others.
        self.evict.is_empty() && self.await_deletion.is_empty() && self.await_completion.is_empty()
    }
}

/// The DaemonSets of a cluster, by namespace and name.
pub type DaemonSets = BTreeSet<(String, String)>;

/// Decides what to do with each pod of a Node.
///
/// `answers` is whether the kubelet of the Node is known to be alive.
pub fn plan(pods: &[Pod], daemon_sets: &DaemonSets, answers: bool, now: Timestamp) -> DrainPlan {
    let mut plan = DrainPlan::default();
    let stays = [Fate::StaysMirror, Fate::StaysDaemonSet, Fate::StaysByRule, Fate::Given];
    let left: Vec<(&Pod, Fate)> = pods
        .iter()
        .map(|pod| (pod, fate(pod, daemon_sets, answers, now)))
        .filter(|(_, fate)| !stays.contains(fate))
        .collect();
    let first = left.iter().map(|(pod, _)| pod.order()).min().unwrap_or(0);
    for (pod, fate) in left {
        let list = match fate {
            // What terminates already is waited for in its turn, too.
            _ if pod.order() > first => &mut plan.later,
            Fate::AwaitDeletion => &mut plan.await_deletion,
            Fate::AwaitCompletion => &mut plan.await_completion,
            _ => &mut plan.evict,
        };
        list.push(pod.name.clone());
    }
    plan.later.sort();
    plan.evict.sort();
    plan.await_deletion.sort();
    plan.await_completion.sort();
    plan
}

/// Decides what to do with one pod.
pub fn fate(pod: &Pod, daemon_sets: &DaemonSets, answers: bool, now: Timestamp) -> Fate {
    if pod.mirror {
        return Fate::StaysMirror;
    }
    let behavior = pod.behavior();
    if behavior == Behavior::Skip {
        return Fate::StaysByRule;
    }
    if let Some((kind, name)) = &pod.controller {
        // A pod whose DaemonSet is gone comes back no more, and one that has ended is not put back.
        let exists = daemon_sets.contains(&(pod.name.namespace.clone(), name.clone()));
        if kind == "DaemonSet" && exists && !pod.finished {
            return Fate::StaysDaemonSet;
        }
    }
    match pod.terminating {
        Some(since) if !answers && now.duration_since(since) >= UNREACHABLE_GRACE => Fate::Given,
        Some(_) => Fate::AwaitDeletion,
        None if behavior == Behavior::WaitCompleted && !pod.finished => Fate::AwaitCompletion,
        None if behavior == Behavior::WaitCompleted => Fate::StaysByRule,
        None => Fate::Evict,
    }
}

/// What became of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The pod terminates, or is gone already.
    Accepted,
    /// A disruption budget does not allow it now.
    Refused {
        /// What the API server said.
        message: String,
    },
    /// It went wrong in another way.
    Failed {
        /// What the API server said.
        message: String,
    },
}

/// Where a drain is after a round of evictions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainProgress {
    /// Terminating.
    pub await_deletion: Vec<PodName>,
    /// Running to their end.
    pub await_completion: Vec<PodName>,
    /// Refused by a disruption budget, and what it said.
    pub refused: Vec<(PodName, String)>,
    /// Failed to be evicted, and why.
    pub failed: Vec<(PodName, String)>,
    /// To be evicted when all others are gone.
    pub later: Vec<PodName>,
}

impl DrainProgress {
    /// Where a drain is after what became of the evictions of its plan.
    pub fn after(plan: DrainPlan, evictions: Vec<(PodName, Eviction)>) -> Self {
        let mut progress = Self {
            await_deletion: plan.await_deletion,
            await_completion: plan.await_completion,
            later: plan.later,
            ..Self::default()
        };
        for (pod, eviction) in evictions {
            match eviction {
                Eviction::Accepted => progress.await_deletion.push(pod),
                Eviction::Refused { message } => progress.refused.push((pod, message)),
                Eviction::Failed { message } => progress.failed.push((pod, message)),
            }
        }
        progress.await_deletion.sort();
        progress
    }
}

/// How many pods a line names.
const NAMES_PER_LINE: usize = 3;

impl fmt::Display for DrainProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = Vec::new();
        let mut say = |pods: Vec<&PodName>, what: &str| {
            if pods.is_empty() {
                return;
            }
            let more = pods.len().saturating_sub(NAMES_PER_LINE);
            let names: Vec<String> = pods.iter().take(NAMES_PER_LINE).map(ToString::to_string).collect();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let plural = if pods.len() > 1 { "s" } else { "" };
            lines.push(format!("* Pod{plural} {}{more}: {what}", names.join(", ")));
        };
        for (list, fallback) in
            [(&self.refused, "refused by a PodDisruptionBudget"), (&self.failed, "failed")]
        {
            let messages: BTreeSet<&str> = list.iter().map(|(_, message)| message.as_str()).collect();
            for message in messages {
                let pods = list.iter().filter(|(_, said)| said == message).map(|(pod, _)| pod).collect();
                let colon = if message.is_empty() { "" } else { ": " };
                say(pods, &format!("eviction {fallback}{colon}{message}"));
            }
        }
        say(self.await_deletion.iter().collect(), "terminating");
        say(self.await_completion.iter().collect(), "running to completion");
        say(self.later.iter().collect(), "to be evicted when those before are gone");
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(name: &str) -> Pod {
        Pod {
            name: PodName { namespace: "default".to_owned(), name: name.to_owned() },
            controller: None,
            mirror: false,
            finished: false,
            terminating: None,
            drain_label: None,
            rule: None,
        }
    }

    fn of_daemon_set(name: &str, set: &str) -> Pod {
        Pod { controller: Some(("DaemonSet".to_owned(), set.to_owned())), ..pod(name) }
    }

    #[test]
    fn each_pod_meets_its_fate() {
        let sets = DaemonSets::from([("default".to_owned(), "proxy".to_owned())]);
        let labelled = |label: &str| Pod { drain_label: Some(label.to_owned()), ..pod("p") };
        let ruled = |rule: Behavior| Pod { rule: Some(rule), ..pod("p") };
        let gone_soon = Pod { terminating: Some(at(90)), ..pod("p") };
        let cases = [
            (pod("p"), true, Fate::Evict),
            (Pod { mirror: true, ..pod("p") }, true, Fate::StaysMirror),
            (of_daemon_set("p", "proxy"), true, Fate::StaysDaemonSet),
            (of_daemon_set("p", "gone"), true, Fate::Evict),
            (Pod { finished: true, ..of_daemon_set("p", "proxy") }, true, Fate::Evict),
            (labelled("skip"), true, Fate::StaysByRule),
            (labelled("Skip"), true, Fate::StaysByRule),
            (labelled("wait-completed"), true, Fate::AwaitCompletion),
            (Pod { finished: true, ..labelled("wait-completed") }, true, Fate::StaysByRule),
            (labelled("drain"), true, Fate::Evict),
            (ruled(Behavior::Skip), true, Fate::StaysByRule),
            (ruled(Behavior::WaitCompleted), true, Fate::AwaitCompletion),
            (Pod { finished: true, ..ruled(Behavior::WaitCompleted) }, true, Fate::StaysByRule),
            (ruled(Behavior::Drain { order: 3 }), true, Fate::Evict),
            // The label goes before the rule.
            (Pod { rule: Some(Behavior::Drain { order: 0 }), ..labelled("skip") }, true, Fate::StaysByRule),
            (Pod { rule: Some(Behavior::Skip), ..labelled("wait-completed") }, true, Fate::AwaitCompletion),
            (Pod { rule: Some(Behavior::Skip), ..labelled("drain") }, true, Fate::StaysByRule),
            // What is never evicted anyway is not evicted because of a rule.
            (Pod { mirror: true, ..ruled(Behavior::Drain { order: 0 }) }, true, Fate::StaysMirror),
            (gone_soon.clone(), true, Fate::AwaitDeletion),
            (gone_soon.clone(), false, Fate::Given),
            (Pod { terminating: Some(at(120)), ..pod("p") }, false, Fate::AwaitDeletion),
        ];
        for (pod, answers, expected) in cases {
            assert_eq!(fate(&pod, &sets, answers, at(100)), expected, "{pod:?}");
        }
    }

    #[test]
    fn a_drain_is_done_when_only_pods_that_stay_are_left() {
        let sets = DaemonSets::from([("default".to_owned(), "proxy".to_owned())]);
        let stays = [of_daemon_set("a", "proxy"), Pod { mirror: true, ..pod("b") }];
        assert!(plan(&stays, &sets, true, at(0)).is_done());
        assert!(!plan(&[pod("c")], &sets, true, at(0)).is_done());
    }

    #[test]
    fn pods_of_a_higher_order_wait_until_those_of_a_lower_one_are_gone() {
        let ordered = |name: &str, order| Pod { rule: Some(Behavior::Drain { order }), ..pod(name) };
        let waited = Pod { rule: Some(Behavior::WaitCompleted), ..pod("job") };
        let names = |pods: &[PodName]| pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>();
        let mut pods = vec![ordered("last", 7), pod("web"), waited, ordered("early", -1)];
        let mut rounds = Vec::new();
        loop {
            let plan = plan(&pods, &DaemonSets::new(), true, at(0));
            if plan.is_done() {
                break;
            }
            rounds.push((names(&plan.evict), names(&plan.await_deletion), names(&plan.await_completion)));
            // What is evicted terminates, what terminates is gone, what is waited for finishes.
            pods.retain(|pod| !plan.await_deletion.contains(&pod.name));
            for pod in &mut pods {
                if plan.evict.contains(&pod.name) {
                    pod.terminating = Some(at(30));
                }
                pod.finished |= plan.await_completion.contains(&pod.name);
            }
        }
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let round = |evict: &[&str], deletion: &[&str], completion: &[&str]| {
            (strings(evict), strings(deletion), strings(completion))
        };
        assert_eq!(
            rounds,
            [
                round(&["early"], &[], &[]),
                round(&[], &["early"], &[]),
                round(&["web"], &[], &["job"]),
                round(&[], &["web"], &[]),
                round(&["last"], &[], &[]),
                round(&[], &["last"], &[]),
            ]
        );
    }

    #[test]
    fn progress_names_what_refuses() {
        let plan = plan(&[pod("a"), pod("b"), pod("c"), pod("d"), pod("e")], &DaemonSets::new(), true, at(0));
        let budget = Eviction::Refused { message: "needs 2 healthy pods".to_owned() };
        let evictions = plan.evict.clone().into_iter().enumerate();
        let evictions =
            evictions.map(|(n, pod)| (pod, if n == 0 { Eviction::Accepted } else { budget.clone() }));
        let evictions = evictions.collect();
        assert_eq!(
            DrainProgress::after(plan, evictions).to_string(),
            "* Pods default/b, default/c, default/d and 1 more: eviction refused by a PodDisruptionBudget: needs 2 \
             healthy pods\n* Pod default/a: terminating"
        );
    }
}
