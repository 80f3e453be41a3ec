//! Verbs with which a person steers an upgrade: each is one small change of the Cluster, which kubectl can make as well.

use std::fmt;
use std::str::FromStr;

use kube_core::ResourceExt;
use serde_json::{Map, Value, json};
use windlass_api::cluster::{Cluster, TemplateMeta, Topology};
use windlass_api::names::{
    APPROVED_ANNOTATION, DISABLE_UPDATE_VERSION_CHECK_ANNOTATION, HOLD_ANNOTATION, HOLD_AT_ANNOTATION,
    PIN_ANNOTATION,
};
use windlass_patch::pointer;
use windlass_version::Version;

use crate::topology::{Entry, MAX_APPROVALS, Steering, StepName, WorkerKind, WrittenPin};

/// What a person wants of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Go to a version: begin an upgrade, or give one that runs another target.
    Target(Version),
    /// Start nothing new, for a reason that is shown.
    Hold {
        /// The reason; may be empty.
        reason: String,
    },
    /// Do not let the control plane leave a version.
    HoldAt(Version),
    /// Go back to a version below that of a step that no machine came up with: admission does not check the change.
    Abort(Version),
    /// Let admission check changes of the version again.
    Recheck,
    /// Take holds away.
    Resume,
    /// Let a step start.
    Approve(StepName),
    /// Keep a worker group at a version.
    Pin {
        /// Which group.
        group: EntryName,
        /// The version.
        to: Version,
        /// Whether the pin is an annotation, as for CRDs that do not have the field. One that is there keeps its form.
        as_annotation: bool,
    },
    /// Let a worker group take part in upgrades again.
    Unpin {
        /// Which group.
        group: EntryName,
    },
}

/// An entry of a topology, as it is named on a command line: `md-0`, or `MachinePool/mp-0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryName {
    /// Its kind, if it is given.
    pub kind: Option<WorkerKind>,
    /// `name` of the entry in the topology, not that of its object.
    pub name: String,
}

impl FromStr for EntryName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kinds = [WorkerKind::MachineDeployment, WorkerKind::MachinePool];
        match text.split_once('/') {
            None => Ok(Self { kind: None, name: text.to_owned() }),
            Some((kind, name)) => {
                let kind = kinds.into_iter().find(|known| known.name() == kind);
                let kind = kind.ok_or_else(|| {
                    format!("{text:?} is not accepted, a name, MachineDeployment/NAME or MachinePool/NAME is")
                })?;
                Ok(Self { kind: Some(kind), name: name.to_owned() })
            }
        }
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{kind}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl EntryName {
    /// The entry of a topology that is meant.
    ///
    /// # Errors
    ///
    /// When there is none, or one of each kind.
    pub fn find<'a>(&self, topology: &'a Topology) -> Result<Entry<'a>, NoChange> {
        let all = Entry::all(topology);
        let is_meant =
            |entry: &&Entry<'_>| entry.name == self.name && self.kind.is_none_or(|kind| kind == entry.kind);
        let found: Vec<&Entry<'_>> = all.iter().filter(is_meant).collect();
        match found.as_slice() {
            [entry] => Ok(**entry),
            [] => {
                let names = all.iter().map(|entry| format!("{}/{}", entry.kind, entry.name)).collect();
                Err(NoChange::NoEntry { name: self.to_string(), names })
            }
            _ => Err(NoChange::TwoEntries { name: self.name.clone() }),
        }
    }
}

/// A change of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The patch.
    pub patch: Value,
    /// What kind of patch it is.
    pub kind: PatchKind,
    namespace: String,
    name: String,
}

/// A kind of patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// A JSON merge patch.
    Merge,
    /// A JSON Patch, for items of lists: a merge patch replaces lists as a whole.
    Json,
}

impl PatchKind {
    /// What kubectl calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Json => "json",
        }
    }
}

/// Why a verb changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoChange {
    /// The Cluster is not made from a class.
    #[error("Cluster {name} has no topology: its parts are upgraded one by one")]
    NoTopology {
        /// The name of the Cluster.
        name: String,
    },
    /// It is so already.
    #[error("{0}")]
    Already(String),
    /// There are as many approvals as are read.
    #[error(
        "{MAX_APPROVALS} approvals are there already; remove old ones from annotation {APPROVED_ANNOTATION}"
    )]
    TooManyApprovals,
    /// The topology has no such entry.
    #[error("there is no worker group {name} in the topology, there are: {}", names.join(", "))]
    NoEntry {
        /// The name.
        name: String,
        /// Those that there are.
        names: Vec<String>,
    },
    /// The topology has an entry of this name in both lists.
    #[error(
        "{name} is a MachineDeployment and a MachinePool: name one of MachineDeployment/{name} and MachinePool/{name}"
    )]
    TwoEntries {
        /// The name.
        name: String,
    },
}

impl Change {
    /// What a verb changes about a Cluster.
    ///
    /// # Errors
    ///
    /// When there is nothing to change.
    pub fn of(verb: &Verb, cluster: &Cluster) -> Result<Self, NoChange> {
        let name = cluster.name_any();
        let Some(topology) = &cluster.spec.topology else { return Err(NoChange::NoTopology { name }) };
        let annotations = cluster.metadata.annotations.as_ref();
        let annotation = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        let already = |what: String| Err(NoChange::Already(what));
        let patch = match verb {
            Verb::Target(version) if topology.version == version.to_string() => {
                return already(format!("the target of Cluster {name} is {version} already"));
            }
            Verb::Target(version) => json!({"spec": {"topology": {"version": version.to_string()}}}),
            Verb::Abort(version) => json!({
                "metadata": {"annotations": {DISABLE_UPDATE_VERSION_CHECK_ANNOTATION: ""}},
                "spec": {"topology": {"version": version.to_string()}},
            }),
            Verb::Recheck => annotate([(DISABLE_UPDATE_VERSION_CHECK_ANNOTATION, None)]),
            Verb::Hold { reason } if annotation(HOLD_ANNOTATION) == Some(reason) => {
                return already(format!("Cluster {name} is held already"));
            }
            Verb::Hold { reason } => annotate([(HOLD_ANNOTATION, Some(reason.clone()))]),
            Verb::HoldAt(version) if annotation(HOLD_AT_ANNOTATION) == Some(&version.to_string()) => {
                return already(format!("Cluster {name} is held at {version} already"));
            }
            Verb::HoldAt(version) => annotate([(HOLD_AT_ANNOTATION, Some(version.to_string()))]),
            Verb::Resume => {
                let held =
                    [HOLD_ANNOTATION, HOLD_AT_ANNOTATION].into_iter().filter(|key| annotation(key).is_some());
                let held: Vec<(&str, Option<String>)> = held.map(|key| (key, None)).collect();
                if held.is_empty() {
                    return already(format!("Cluster {name} is not held"));
                }
                annotate(held)
            }
            Verb::Approve(step) => {
                let (steering, _) = Steering::read(annotations);
                let mut approved = steering.approved;
                if approved.len() >= MAX_APPROVALS {
                    return Err(NoChange::TooManyApprovals);
                }
                if !approved.insert(step.to_string()) {
                    return already(format!("{step} of Cluster {name} is approved already"));
                }
                let all: Vec<String> = approved.into_iter().collect();
                annotate([(APPROVED_ANNOTATION, Some(all.join(",")))])
            }
            Verb::Pin { group, to, as_annotation } => {
                let entry = group.find(topology)?;
                let is_there = entry.written_pins().iter().any(|pin| pin.version == to.to_string());
                if is_there && entry.written_pins().len() == 1 {
                    return already(format!(
                        "{} {} of Cluster {name} is pinned to {to} already",
                        entry.kind, entry.name
                    ));
                }
                pin_patch(&entry, to, *as_annotation)
            }
            Verb::Unpin { group } => {
                let entry = group.find(topology)?;
                if entry.written_pins().is_empty() {
                    return already(format!("{} {} of Cluster {name} is not pinned", entry.kind, entry.name));
                }
                unpin_patch(&entry)
            }
        };
        let kind = if patch.is_array() { PatchKind::Json } else { PatchKind::Merge };
        let namespace = cluster.metadata.namespace.clone().unwrap_or_default();
        Ok(Self { patch, kind, namespace, name })
    }
}

/// Where an entry is, and a test that it is still there: others may change the list meanwhile.
fn place(entry: &Entry<'_>) -> (String, Value) {
    let path = format!("/spec/topology/workers/{}s/{}", entry.kind.field(), entry.index);
    let test = json!({"op": "test", "path": format!("{path}/name"), "value": entry.name});
    (path, test)
}

fn pin_patch(entry: &Entry<'_>, to: &Version, as_annotation: bool) -> Value {
    let (path, test) = place(entry);
    let written = entry.written_pins();
    let is_field = |pin: &WrittenPin<'_>| pin.field == "version";
    let (mut field, mut annotation) =
        (written.iter().any(is_field), written.iter().any(|pin| !is_field(pin)));
    if !field && !annotation {
        (field, annotation) = (!as_annotation, as_annotation);
    }
    let mut operations = vec![test];
    let to = to.to_string();
    if field {
        operations.push(json!({"op": "add", "path": format!("{path}/version"), "value": to}));
    }
    if annotation {
        let TemplateMeta { labels, annotations, .. } = entry.metadata;
        // What is empty is absent, and nothing can be added below it.
        operations.push(match (labels.is_empty(), annotations.is_empty()) {
            (true, true) => {
                let value = json!({"annotations": {PIN_ANNOTATION: to}});
                json!({"op": "add", "path": format!("{path}/metadata"), "value": value})
            }
            (false, true) => {
                let path = format!("{path}/metadata/annotations");
                json!({"op": "add", "path": path, "value": {PIN_ANNOTATION: to}})
            }
            (_, false) => json!({"op": "add", "path": annotation_path(&path), "value": to}),
        });
    }
    Value::Array(operations)
}

fn unpin_patch(entry: &Entry<'_>) -> Value {
    let (path, test) = place(entry);
    let remove = |pin: &WrittenPin<'_>| {
        let field = if pin.field == "version" { format!("{path}/version") } else { annotation_path(&path) };
        json!({"op": "remove", "path": field})
    };
    Value::Array(std::iter::once(test).chain(entry.written_pins().iter().map(remove)).collect())
}

fn annotation_path(entry: &str) -> String {
    let mut path = format!("{entry}/metadata/annotations");
    pointer::push(&mut path, PIN_ANNOTATION);
    path
}

fn annotate<'a>(values: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Value {
    let values: Map<String, Value> =
        values.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    json!({"metadata": {"annotations": values}})
}

/// The kubectl command that makes the change.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The only character with a meaning between single quotes.
        let patch = self.patch.to_string().replace('\'', r"'\''");
        let kind = self.kind.name();
        write!(f, "kubectl -n {} patch cluster {} --type {kind} -p '{patch}'", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(annotations: Value) -> Cluster {
        serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "c1", "annotations": annotations},
            "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.32.0"}},
        }))
        .unwrap()
    }

    #[test]
    fn each_verb_is_one_small_patch_and_a_command_of_kubectl() {
        let v = |text: &str| text.parse().unwrap();
        let approve = |step: &str| Verb::Approve(step.parse().unwrap());
        for (verb, annotations, expected) in [
            (Verb::Target(v("v1.33.0")), json!({}), r#"{"spec":{"topology":{"version":"v1.33.0"}}}"#),
            (
                Verb::Hold { reason: "it's late".to_owned() },
                json!({}),
                r#"{"metadata":{"annotations":{"upgrade.windlass.dev/hold":"it'\''s late"}}}"#,
            ),
            (
                Verb::HoldAt(v("v1.31.0")),
                json!({}),
                r#"{"metadata":{"annotations":{"upgrade.windlass.dev/hold-at":"v1.31.0"}}}"#,
            ),
            (
                Verb::Resume,
                json!({"upgrade.windlass.dev/hold": "", "other": "x"}),
                r#"{"metadata":{"annotations":{"upgrade.windlass.dev/hold":null}}}"#,
            ),
            (
                approve("workers/v1.32.0"),
                json!({"upgrade.windlass.dev/approved": "control-plane/v1.32.0"}),
                r#"{"metadata":{"annotations":{"upgrade.windlass.dev/approved":"control-plane/v1.32.0,workers/v1.32.0"}}}"#,
            ),
        ] {
            let change = Change::of(&verb, &cluster(annotations)).unwrap();
            assert_eq!(
                change.to_string(),
                format!("kubectl -n default patch cluster c1 --type merge -p '{expected}'")
            );
        }
    }

    #[test]
    fn a_pin_changes_its_entry_and_nothing_else() {
        let metadata = |annotations: Value| json!({"labels": {"a": "b"}, "annotations": annotations});
        for (entry, verb, expected) in [
            (json!({}), "field", r#"{"op":"add","path":"@/version","value":"v1.31.0"}"#),
            (
                json!({}),
                "annotation",
                r#"{"op":"add","path":"@/metadata","value":{"annotations":{"upgrade.windlass.dev/version":"v1.31.0"}}}"#,
            ),
            (
                json!({"metadata": metadata(json!({}))}),
                "annotation",
                r#"{"op":"add","path":"@/metadata/annotations","value":{"upgrade.windlass.dev/version":"v1.31.0"}}"#,
            ),
            // What is there keeps its form.
            (
                json!({"metadata": metadata(json!({"upgrade.windlass.dev/version": "v1.30.0"}))}),
                "field",
                r#"{"op":"add","path":"@/metadata/annotations/upgrade.windlass.dev~1version","value":"v1.31.0"}"#,
            ),
            (
                json!({"version": "v1.30.0"}),
                "annotation",
                r#"{"op":"add","path":"@/version","value":"v1.31.0"}"#,
            ),
            (json!({"version": "v1.30.0"}), "unpin", r#"{"op":"remove","path":"@/version"}"#),
            (
                json!({"metadata": metadata(json!({"upgrade.windlass.dev/version": "v1.30.0"}))}),
                "unpin",
                r#"{"op":"remove","path":"@/metadata/annotations/upgrade.windlass.dev~1version"}"#,
            ),
        ] {
            let mut cluster = json!(cluster(json!({})));
            let mut pinned = json!({"class": "w", "name": "batch"});
            pinned.as_object_mut().unwrap().extend(entry.as_object().unwrap().clone());
            let other = json!({"class": "w", "name": "web"});
            cluster["spec"]["topology"]["workers"] = json!({"machineDeployments": [other, pinned]});
            let before = cluster.clone();
            let parsed: Cluster = serde_json::from_value(cluster).unwrap();
            let (group, to) = ("batch".parse().unwrap(), "v1.31.0".parse().unwrap());
            let verb = match verb {
                "unpin" => Verb::Unpin { group },
                form => Verb::Pin { group, to, as_annotation: form == "annotation" },
            };
            let change = Change::of(&verb, &parsed).unwrap();
            let at = "/spec/topology/workers/machineDeployments/1";
            let expected = format!(
                r#"[{{"op":"test","path":"{at}/name","value":"batch"}},{}]"#,
                expected.replace('@', at)
            );
            assert_eq!((change.patch.to_string(), change.kind), (expected, PatchKind::Json));
            assert!(change.to_string().contains("--type json -p '["), "{change}");
            let patch = windlass_patch::JsonPatch::parse(windlass_patch::Dialect::ApiServer, &change.patch);
            let after: Cluster = serde_json::from_value(patch.unwrap().apply(&before).unwrap()).unwrap();
            let pins = crate::topology::pin::written(after.spec.topology.as_ref().unwrap());
            let expected: &[&str] =
                if matches!(verb, Verb::Unpin { .. }) { &[] } else { &["MachineDeployment batch v1.31.0"] };
            assert_eq!(pins, expected);
        }
    }

    #[test]
    fn what_is_so_already_is_said() {
        let approve = Verb::Approve("workers/v1.32.0".parse().unwrap());
        for (verb, annotations, said) in [
            (
                Verb::Target("v1.32.0".parse().unwrap()),
                json!({}),
                "the target of Cluster c1 is v1.32.0 already",
            ),
            (Verb::Resume, json!({}), "Cluster c1 is not held"),
            (
                approve,
                json!({"upgrade.windlass.dev/approved": "workers/v1.32.0"}),
                "workers/v1.32.0 of Cluster c1 is approved already",
            ),
        ] {
            let refused = Change::of(&verb, &cluster(annotations)).unwrap_err();
            assert_eq!(refused.to_string(), said);
        }
        assert!(matches!(Change::of(&Verb::Resume, &Cluster::default()), Err(NoChange::NoTopology { .. })));
    }
}
