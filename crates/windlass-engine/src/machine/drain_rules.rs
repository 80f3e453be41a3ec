//! MachineDrainRules: which of them counts for a pod.
//!
//! Rules go by their names: the first that selects the Machine and the pod counts, and a pod that none selects is evicted.

use std::collections::BTreeMap;

use kube_core::ResourceExt;
use windlass_api::cluster::{MachineDrainRule, MachineDrainRuleDrainBehavior};
use windlass_api::label_selector::{Selector, SelectorError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// What a rule says about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// It is evicted when pods of a lower order are gone.
    Drain {
        /// Pods of a lower order go first.
        order: i32,
    },
    /// It stays.
    Skip,
    /// It is waited for, never evicted.
    WaitCompleted,
}

/// The rules that count for one Machine, in the order of their names.
#[derive(Debug, Default)]
pub struct DrainRules(Vec<(Behavior, Pods)>);

/// Which pods a rule selects: by their own labels and those of their namespaces. Empty is all.
type Pods = Vec<(Selector, Selector)>;

/// A rule that cannot be followed.
#[derive(Debug, thiserror::Error)]
#[error("MachineDrainRule {rule}: {field}: {why}")]
pub struct BadRule {
    /// Name of the rule.
    pub rule: String,
    /// The field.
    pub field: String,
    /// What is wrong with it.
    pub why: SelectorError,
}

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

impl DrainRules {
    /// The rules that select a Machine, of all in its namespace.
    ///
    /// # Errors
    ///
    /// [`BadRule`]: a selector makes no sense. What it was meant to protect is not known, so that nothing may be drained.
    pub fn of_machine<'a>(
        rules: impl IntoIterator<Item = &'a MachineDrainRule>,
        machine: &Labels,
        cluster: &Labels,
    ) -> Result<Self, BadRule> {
        let mut rules: Vec<&MachineDrainRule> = rules.into_iter().collect();
        rules.sort_by_key(|rule| rule.name_any());
        let mut found = Vec::new();
        for rule in rules {
            let bad = |field: String, why| BadRule { rule: rule.name_any(), field, why };
            let mut selected = rule.spec.machines.is_empty();
            for (index, one) in rule.spec.machines.iter().enumerate() {
                let field = |name| format!("spec.machines[{index}].{name}");
                let of_machine = compile(one.selector.as_ref()).map_err(|why| bad(field("selector"), why))?;
                let of_cluster = compile(one.cluster_selector.as_ref())
                    .map_err(|why| bad(field("clusterSelector"), why))?;
                selected |= of_machine.matches(machine) && of_cluster.matches(cluster);
            }
            let mut pods = Pods::new();
            for (index, one) in rule.spec.pods.iter().enumerate() {
                let field = |name| format!("spec.pods[{index}].{name}");
                let of_pod = compile(one.selector.as_ref()).map_err(|why| bad(field("selector"), why))?;
                let of_namespace = compile(one.namespace_selector.as_ref())
                    .map_err(|why| bad(field("namespaceSelector"), why))?;
                pods.push((of_pod, of_namespace));
            }
            if selected {
                found.push((behavior(rule), pods));
            }
        }
        Ok(Self(found))
    }

    /// Whether labels of namespaces count, so that they have to be read.
    pub fn look_at_namespaces(&self) -> bool {
        self.0.iter().flat_map(|(_, pods)| pods).any(|(_, namespace)| !namespace.is_everything())
    }

    /// What the first rule that selects a pod says about it.
    pub fn of_pod(&self, pod: &Labels, namespace: &Labels) -> Option<Behavior> {
        let selects = |pods: &Pods| {
            let fits = |(of_pod, of_namespace): &(Selector, Selector)| {
                of_pod.matches(pod) && of_namespace.matches(namespace)
            };
            pods.is_empty() || pods.iter().any(fits)
        };
        self.0.iter().find(|(_, pods)| selects(pods)).map(|(behavior, _)| *behavior)
    }
}

/// Unlike elsewhere, a selector that is absent selects everything.
fn compile(selector: Option<&LabelSelector>) -> Result<Selector, SelectorError> {
    match selector {
        Some(selector) => Selector::compile(Some(selector)),
        None => Ok(Selector::everything()),
    }
}

fn behavior(rule: &MachineDrainRule) -> Behavior {
    match rule.spec.drain.behavior {
        MachineDrainRuleDrainBehavior::Skip => Behavior::Skip,
        MachineDrainRuleDrainBehavior::WaitCompleted => Behavior::WaitCompleted,
        // The schema lets no other word in.
        MachineDrainRuleDrainBehavior::Drain | MachineDrainRuleDrainBehavior::Unknown(_) => {
            Behavior::Drain { order: rule.spec.drain.order.unwrap_or(0) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn rule(name: &str, spec: Value) -> MachineDrainRule {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    fn of(rules: &[MachineDrainRule]) -> DrainRules {
        let (machine, cluster) = (labels(&[("os", "linux")]), labels(&[("stage", "production")]));
        DrainRules::of_machine(rules, &machine, &cluster).unwrap()
    }

    #[test]
    fn a_rule_counts_for_machines_that_one_of_its_selectors_fits_in_both_parts() {
        let drain = json!({"behavior": "Skip"});
        let fits = |machines: Value| {
            let mut spec = json!({"drain": drain});
            if !machines.is_null() {
                spec["machines"] = machines;
            }
            of(&[rule("r", spec)]).of_pod(&labels(&[]), &labels(&[])).is_some()
        };
        let os = |os: &str| json!({"matchLabels": {"os": os}});
        let stage = |stage: &str| json!({"matchLabels": {"stage": stage}});
        assert!(fits(Value::Null), "none is all");
        assert!(fits(json!([{"selector": os("linux")}])));
        assert!(fits(json!([{"clusterSelector": stage("production")}])));
        assert!(fits(json!([{"selector": {}}])), "an empty selector is all");
        assert!(!fits(json!([{"selector": os("linux"), "clusterSelector": stage("test")}])), "both parts");
        assert!(fits(json!([{"selector": os("windows")}, {"selector": os("linux")}])), "one of them");
    }

    #[test]
    fn the_first_rule_by_name_that_selects_a_pod_counts() {
        let app = |app: &str| json!([{"selector": {"matchLabels": {"app": app}}}]);
        let rules = of(&[
            rule("c-all", json!({"drain": {"behavior": "Drain", "order": 5}})),
            rule("b-db", json!({"drain": {"behavior": "WaitCompleted"}, "pods": app("db")})),
            rule(
                "a-db",
                json!({"drain": {"behavior": "Skip"}, "pods": [{
                    "selector": {"matchLabels": {"app": "db"}},
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prod"}},
                }]}),
            ),
        ]);
        let (db, web) = (labels(&[("app", "db")]), labels(&[("app", "web")]));
        let namespace = |name: &str| labels(&[("kubernetes.io/metadata.name", name)]);
        assert_eq!(rules.of_pod(&db, &namespace("prod")), Some(Behavior::Skip));
        assert_eq!(rules.of_pod(&db, &namespace("test")), Some(Behavior::WaitCompleted));
        assert_eq!(rules.of_pod(&web, &namespace("prod")), Some(Behavior::Drain { order: 5 }));
        assert!(rules.look_at_namespaces());
        assert_eq!(DrainRules::default().of_pod(&db, &namespace("prod")), None);
    }

    #[test]
    fn a_rule_that_makes_no_sense_is_named() {
        let expression = json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]});
        let bad = rule("r", json!({"drain": {"behavior": "Skip"}, "pods": [{"selector": expression}]}));
        let said = DrainRules::of_machine(&[bad], &labels(&[]), &labels(&[])).unwrap_err().to_string();
        assert!(said.starts_with("MachineDrainRule r: spec.pods[0].selector: "), "{said}");
    }
}
