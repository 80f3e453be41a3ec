//! What a Machine wants its Node to look like: labels, annotations and taints.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Taint};
use kube_core::ResourceExt;
use serde_json::{Map, Value, json};
use windlass_api::cluster::{Machine, TaintPropagation};
use windlass_api::names::{CLUSTER_NAME_LABEL, OUTDATED_REVISION_TAINT};

/// On a Node: the namespace of its Cluster.
pub const CLUSTER_NAMESPACE_ANNOTATION: &str = "cluster.x-k8s.io/cluster-namespace";
/// On a Node: its Machine.
pub const MACHINE_ANNOTATION: &str = "cluster.x-k8s.io/machine";
/// On a Node: the kind of its Machine's controller.
pub const OWNER_KIND_ANNOTATION: &str = "cluster.x-k8s.io/owner-kind";
/// On a Node: the name of its Machine's controller.
pub const OWNER_NAME_ANNOTATION: &str = "cluster.x-k8s.io/owner-name";
/// On a Node: the labels that came from its Machine, so that they can be taken away again.
pub const LABELS_FROM_MACHINE_ANNOTATION: &str = "cluster.x-k8s.io/labels-from-machine";
/// On a Node: the taints that came from its Machine, so that they can be taken away again.
pub const TAINTS_FROM_MACHINE_ANNOTATION: &str = "cluster.x-k8s.io/taints-from-machine";
/// Label of Nodes that may be taken away at any time.
pub const INTERRUPTIBLE_LABEL: &str = "cluster.x-k8s.io/interruptible";
/// Taint that keeps pods away until the labels of the Machine are on the Node.
pub const UNINITIALIZED_TAINT: &str = "node.cluster.x-k8s.io/uninitialized";

/// What a Machine says about its Node besides its own spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeContext {
    /// The Machine belongs to an old revision of its MachineDeployment.
    pub outdated: bool,
    /// The infrastructure may be taken away at any time.
    pub interruptible: bool,
}

/// What has to change on a Node, as a merge patch; nothing if it is as it should be.
///
/// The patch replaces the whole list of taints, so it has to be written with the version of the Node that was read.
pub fn changes(machine: &Machine, node: &Node, context: NodeContext) -> Option<Value> {
    let mut metadata = Map::new();
    let has = node.metadata.annotations.clone().unwrap_or_default();
    let labels = labels(machine, node, &has, context);
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
    let (taints, ours) = taints(machine, node, &has, context);
    let annotations: Map<String, Value> = annotations(machine, ours)
        .into_iter()
        .filter(|(key, value)| has.get(key) != Some(value))
        .map(|(key, value)| (key, Value::String(value)))
        .collect();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    let mut patch = Map::new();
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if let Some(taints) = taints {
        patch.insert("spec".to_owned(), json!({"taints": taints}));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The labels of a Machine that belong on its Node.
fn belongs_on_node(label: &str) -> bool {
    let (domain, _) = label.split_once('/').unwrap_or(("", label));
    let is = |wanted: &str| domain == wanted || domain.ends_with(&format!(".{wanted}"));
    domain == "node-role.kubernetes.io" || is("node-restriction.kubernetes.io") || is("node.cluster.x-k8s.io")
}

fn wanted_labels(machine: &Machine) -> BTreeMap<&str, &str> {
    let labels = machine.metadata.labels.iter().flatten();
    labels
        .filter(|(key, _)| belongs_on_node(key))
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

fn labels(
    machine: &Machine,
    node: &Node,
    annotations: &BTreeMap<String, String>,
    context: NodeContext,
) -> Map<String, Value> {
    let wanted = wanted_labels(machine);
    let has = node.metadata.labels.clone().unwrap_or_default();
    let mut changes = Map::new();
    for label in listed(annotations.get(LABELS_FROM_MACHINE_ANNOTATION)) {
        if !wanted.contains_key(label) && has.contains_key(label) {
            changes.insert(label.to_owned(), Value::Null);
        }
    }
    for (key, value) in wanted {
        if has.get(key).map(String::as_str) != Some(value) {
            changes.insert(key.to_owned(), value.into());
        }
    }
    if context.interruptible && !has.contains_key(INTERRUPTIBLE_LABEL) {
        changes.insert(INTERRUPTIBLE_LABEL.to_owned(), "".into());
    }
    changes
}

fn annotations(machine: &Machine, taints: String) -> BTreeMap<String, String> {
    let name = machine.name_any();
    let labels: Vec<&str> = wanted_labels(machine).into_keys().collect();
    let mut wanted = BTreeMap::from([
        (CLUSTER_NAME_LABEL.to_owned(), machine.spec.cluster_name.clone()),
        (CLUSTER_NAMESPACE_ANNOTATION.to_owned(), machine.metadata.namespace.clone().unwrap_or_default()),
        (MACHINE_ANNOTATION.to_owned(), name),
        (LABELS_FROM_MACHINE_ANNOTATION.to_owned(), labels.join(",")),
        (TAINTS_FROM_MACHINE_ANNOTATION.to_owned(), taints),
    ]);
    let owners = machine.metadata.owner_references.iter().flatten();
    if let Some(owner) = owners.into_iter().find(|owner| owner.controller == Some(true)) {
        wanted.insert(OWNER_KIND_ANNOTATION.to_owned(), owner.kind.clone());
        wanted.insert(OWNER_NAME_ANNOTATION.to_owned(), owner.name.clone());
    }
    wanted
}

/// The taints if they have to change, and which of them came from the Machine.
fn taints(
    machine: &Machine,
    node: &Node,
    annotations: &BTreeMap<String, String>,
    context: NodeContext,
) -> (Option<Vec<Taint>>, String) {
    let recorded = annotations.get(TAINTS_FROM_MACHINE_ANNOTATION);
    let before: BTreeSet<&str> = listed(recorded).collect();
    let has = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let name = |key: &str, effect: &str| format!("{key}:{effect}");
    let mut wanted = Vec::new();
    for taint in &machine.spec.taints {
        let id = name(&taint.key, taint.effect.as_str());
        // What is put there once is not put there again after it was removed.
        let once = taint.propagation == TaintPropagation::OnInitialization;
        if !(once && recorded.is_some()) {
            let value = Some(taint.value.clone()).filter(|value| !value.is_empty());
            wanted.push((
                id,
                Taint { effect: taint.effect.to_string(), key: taint.key.clone(), time_added: None, value },
            ));
        }
    }
    let once =
        machine.spec.taints.iter().filter(|taint| taint.propagation == TaintPropagation::OnInitialization);
    let once: BTreeSet<String> = once.map(|taint| name(&taint.key, taint.effect.as_str())).collect();
    let kept = has.iter().filter(|taint| {
        let id = name(&taint.key, &taint.effect);
        let ours = before.contains(id.as_str()) && !once.contains(&id);
        let special = [UNINITIALIZED_TAINT, OUTDATED_REVISION_TAINT].contains(&taint.key.as_str());
        !special && !ours && !wanted.iter().any(|(wanted, _)| *wanted == id)
    });
    let mut taints: Vec<Taint> = kept.cloned().collect();
    let mut ours: BTreeSet<String> = wanted.iter().map(|(id, _)| id.clone()).collect();
    ours.extend(before.iter().filter(|id| once.contains(**id)).map(ToString::to_string));
    taints.extend(wanted.into_iter().map(|(_, taint)| taint));
    if context.outdated {
        let effect = "PreferNoSchedule".to_owned();
        taints.push(Taint { effect, key: OUTDATED_REVISION_TAINT.to_owned(), time_added: None, value: None });
    }
    let same = |a: &[Taint], b: &[Taint]| {
        let set = |taints: &[Taint]| -> BTreeSet<(String, String, Option<String>)> {
            let parts =
                taints.iter().map(|taint| (taint.key.clone(), taint.effect.clone(), taint.value.clone()));
            parts.collect()
        };
        set(a) == set(b)
    };
    let changed = (!same(&taints, &has)).then_some(taints);
    (changed, ours.into_iter().collect::<Vec<_>>().join(","))
}

fn listed(text: Option<&String>) -> impl Iterator<Item = &str> {
    text.map(String::as_str).unwrap_or_default().split(',').filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(spec: Value, labels: Value) -> Machine {
        let mut spec = spec;
        spec["clusterName"] = "c1".into();
        serde_json::from_value(
            json!({"metadata": {"name": "m1", "namespace": "ns", "labels": labels}, "spec": spec}),
        )
        .unwrap()
    }

    /// Applies the changes of one round to a Node.
    fn round(machine: &Machine, node: Node, context: NodeContext) -> Node {
        let Some(patch) = changes(machine, &node, context) else { return node };
        let mut value = serde_json::to_value(node).unwrap();
        windlass_patch::merge_patch::apply_to(&mut value, &patch);
        serde_json::from_value(value).unwrap()
    }

    fn taints(node: &Node) -> Vec<String> {
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        taints.iter().map(|taint| taint.key.clone()).collect()
    }

    #[test]
    fn labels_of_nodes_come_and_go_with_those_of_the_machine() {
        let labels =
            json!({"node-role.kubernetes.io/gpu": "", "a.node.cluster.x-k8s.io/b": "c", "other": "x"});
        let with = machine(json!({}), labels);
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"own": "y"}}})).unwrap();
        let node = round(&with, node, NodeContext::default());
        let has = node.metadata.labels.clone().unwrap();
        let keys: Vec<&str> = has.keys().map(String::as_str).collect();
        assert_eq!(keys, ["a.node.cluster.x-k8s.io/b", "node-role.kubernetes.io/gpu", "own"]);
        assert_eq!(changes(&with, &node, NodeContext::default()), None, "nothing is left to do");

        let without = machine(json!({}), json!({}));
        let node = round(&without, node, NodeContext::default());
        assert_eq!(node.metadata.labels.unwrap().into_keys().collect::<Vec<_>>(), ["own"]);
    }

    #[test]
    fn taints_of_the_machine_are_kept_and_those_of_others_left_alone() {
        let of = |propagation: &str| {
            let taint = json!({"key": "t", "effect": "NoSchedule", "propagation": propagation});
            machine(json!({"taints": [taint]}), json!({}))
        };
        let fresh = || -> Node {
            let taints = json!([{"key": UNINITIALIZED_TAINT, "effect": "NoSchedule"},
                {"key": "cordon", "effect": "NoExecute"}]);
            serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"taints": taints}})).unwrap()
        };
        for (propagation, after_removal) in
            [("Always", vec!["cordon", "t"]), ("OnInitialization", vec!["cordon"])]
        {
            let machine = of(propagation);
            let mut node = round(&machine, fresh(), NodeContext::default());
            assert_eq!(taints(&node), ["cordon", "t"], "{propagation}");
            assert_eq!(changes(&machine, &node, NodeContext::default()), None, "{propagation}");
            node.spec.as_mut().unwrap().taints.as_mut().unwrap().retain(|taint| taint.key != "t");
            assert_eq!(
                taints(&round(&machine, node, NodeContext::default())),
                after_removal,
                "{propagation}"
            );
        }
        let node = round(&of("Always"), fresh(), NodeContext::default());
        let none = machine(json!({}), json!({}));
        assert_eq!(taints(&round(&none, node, NodeContext::default())), ["cordon"]);
    }

    #[test]
    fn an_old_revision_is_marked_as_long_as_it_is_one() {
        let machine = machine(json!({}), json!({}));
        let outdated = NodeContext { outdated: true, ..NodeContext::default() };
        let node = round(&machine, Node::default(), outdated);
        assert_eq!(taints(&node), [OUTDATED_REVISION_TAINT]);
        assert_eq!(changes(&machine, &node, outdated), None);
        assert!(taints(&round(&machine, node, NodeContext::default())).is_empty());
    }
}
