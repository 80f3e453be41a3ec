//! What the core reads of a provider's objects, and where: the contract.
//!
//! Providers bring their own kinds. The core knows of them only their group, kind and name, and a few fields whose
//! paths depend on the version of the contract that the CustomResourceDefinition says it keeps. Nothing here fails:
//! a field of the wrong type counts as absent, because the object is another party's.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::conditions::ConditionStatus;
use windlass_version::Version;

/// The version of the contract that a provider's kind keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Contract {
    /// `cluster.x-k8s.io/v1beta1`: booleans at the top of `status`.
    V1Beta1,
    /// `cluster.x-k8s.io/v1beta2`: `status.initialization`, conditions of the usual form.
    V1Beta2,
}

impl Contract {
    /// Which API version of a kind to use, and the contract it keeps, from the labels of its CRD.
    ///
    /// The value of a label lists API versions joined with underscores; the newest wins. The newer contract is
    /// preferred. Nothing if the CRD names neither.
    pub fn of_crd(labels: &BTreeMap<String, String>) -> Option<(Self, String)> {
        [Self::V1Beta2, Self::V1Beta1].into_iter().find_map(|contract| {
            let versions = labels.get(contract.label())?.split('_').filter(|version| !version.is_empty());
            Some((contract, versions.max_by(|a, b| compare_api_versions(a, b))?.to_owned()))
        })
    }

    /// The contract that one API version of a kind keeps, from the labels of its CRD: that of the label that lists it.
    /// A class may use a kind at an older version than everything else does.
    pub fn of_version(labels: &BTreeMap<String, String>, version: &str) -> Option<Self> {
        let lists = |contract: &Self| {
            labels
                .get(contract.label())
                .is_some_and(|listed| listed.split('_').any(|listed| listed == version))
        };
        [Self::V1Beta2, Self::V1Beta1].into_iter().find(lists)
    }

    /// The label of CRDs that lists the API versions which keep this contract.
    pub fn label(self) -> &'static str {
        match self {
            Self::V1Beta1 => "cluster.x-k8s.io/v1beta1",
            Self::V1Beta2 => "cluster.x-k8s.io/v1beta2",
        }
    }

    /// Where a control plane has the reference to its infrastructure machine template, as a JSON pointer.
    pub fn machine_template_infrastructure_ref(self) -> &'static str {
        match self {
            Self::V1Beta1 => "/spec/machineTemplate/infrastructureRef",
            Self::V1Beta2 => "/spec/machineTemplate/spec/infrastructureRef",
        }
    }

    /// Where a control plane has readiness gates, taints and deletion timeouts of its Machines.
    pub fn machine_template_spec(self) -> &'static str {
        match self {
            Self::V1Beta1 => "/spec/machineTemplate",
            Self::V1Beta2 => "/spec/machineTemplate/spec",
        }
    }

    fn pick<'a>(self, object: &'a Value, v1beta1: &str, v1beta2: &str) -> Option<&'a Value> {
        object.pointer(match self {
            Self::V1Beta1 => v1beta1,
            Self::V1Beta2 => v1beta2,
        })
    }
}

/// Compares API versions as Kubernetes orders them: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then anything else
/// by name.
pub fn compare_api_versions(a: &str, b: &str) -> Ordering {
    fn key(version: &str) -> Option<(u8, u32, u32)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(digits);
        let major = major.parse().ok()?;
        let (rank, minor) = match stage {
            "" => (2, "0"),
            _ => match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
                (Some(minor), _) => (1, minor),
                (_, Some(minor)) => (0, minor),
                _ => return None,
            },
        };
        Some((rank, major, minor.parse().ok()?))
    }
    match (key(a), key(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        // Names that are no versions count backwards: the first one wins.
        (None, None) => b.cmp(a),
    }
}

/// The condition `Ready` of a provider's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadyReport {
    /// The object has none.
    Absent,
    /// The object has one.
    Reported {
        /// `status` of the condition.
        status: ConditionStatus,
        /// Its reason; empty if it has none.
        reason: String,
        /// Its message; empty if it has none.
        message: String,
    },
    /// The object has one that makes no sense.
    Invalid {
        /// The status it has instead of `True`, `False` or `Unknown`.
        status: String,
    },
}

/// Reads the condition `Ready` of any provider's object.
pub fn ready(object: &Value, contract: Contract) -> ReadyReport {
    // A provider that keeps the older contract may have conditions of the new form already, in a place of their own.
    let new_form = match contract {
        Contract::V1Beta1 => object.pointer("/status/v1beta2/conditions"),
        Contract::V1Beta2 => None,
    };
    let conditions = new_form.or_else(|| object.pointer("/status/conditions")).and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let Some(ready) = ready else { return ReadyReport::Absent };
    let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
    let status = match ready["status"].as_str() {
        Some("True") => ConditionStatus::True,
        Some("False") => ConditionStatus::False,
        Some("Unknown") => ConditionStatus::Unknown,
        _ => return ReadyReport::Invalid { status: text("status") },
    };
    ReadyReport::Reported { status, reason: text("reason"), message: text("message") }
}

/// What the core reads of an infrastructure cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfrastructureCluster {
    /// The infrastructure is there.
    pub provisioned: bool,
    /// Where the control plane is reached, once known.
    pub endpoint: Option<(String, i32)>,
    /// Where machines can be placed, by name.
    pub failure_domains: BTreeMap<String, FailureDomain>,
    /// Condition `Ready`.
    pub ready: ReadyReport,
}

/// A place for machines that fails on its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureDomain {
    /// Whether control plane machines may be placed here.
    pub control_plane: bool,
    /// Whatever else the provider says about it.
    pub attributes: BTreeMap<String, String>,
}

/// Reads an infrastructure cluster.
pub fn infrastructure_cluster(object: &Value, contract: Contract) -> InfrastructureCluster {
    let host = text(object, "/spec/controlPlaneEndpoint/host");
    let port = integer(object, "/spec/controlPlaneEndpoint/port").filter(|port| *port != 0);
    let domain = |value: &Value| FailureDomain {
        control_plane: value["controlPlane"].as_bool().unwrap_or_default(),
        attributes: texts(value.get("attributes")),
    };
    let failure_domains = match object.pointer("/status/failureDomains") {
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(|value| Some((value["name"].as_str()?.to_owned(), domain(value))))
            .collect(),
        Some(Value::Object(map)) => map.iter().map(|(name, value)| (name.clone(), domain(value))).collect(),
        _ => BTreeMap::new(),
    };
    InfrastructureCluster {
        provisioned: flag(contract.pick(object, "/status/ready", "/status/initialization/provisioned")),
        endpoint: host.zip(port),
        failure_domains,
        ready: ready(object, contract),
    }
}

/// What the core reads of an infrastructure machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfrastructureMachine {
    /// The machine is there. Once seen, it counts for ever.
    pub provisioned: bool,
    /// How the Node of this machine will say which machine it is. Mandatory once provisioned.
    pub provider_id: Option<String>,
    /// Where the machine is reached: type and address.
    pub addresses: Vec<(String, String)>,
    /// Where the machine was placed.
    pub failure_domain: Option<String>,
    /// A `spec.failureDomain` of older providers; it overrides that of the Machine's spec.
    pub legacy_failure_domain: Option<String>,
    /// Whether the machine may be taken away at any time.
    pub interruptible: bool,
    /// Condition `Ready`.
    pub ready: ReadyReport,
}

/// Reads an infrastructure machine.
pub fn infrastructure_machine(object: &Value, contract: Contract) -> InfrastructureMachine {
    let addresses = object.pointer("/status/addresses").and_then(Value::as_array).into_iter().flatten();
    let address =
        |value: &Value| Some((value["type"].as_str()?.to_owned(), value["address"].as_str()?.to_owned()));
    InfrastructureMachine {
        provisioned: flag(contract.pick(object, "/status/ready", "/status/initialization/provisioned")),
        provider_id: text(object, "/spec/providerID"),
        addresses: addresses.filter_map(address).collect(),
        failure_domain: text(object, "/status/failureDomain"),
        legacy_failure_domain: text(object, "/spec/failureDomain"),
        interruptible: flag(object.pointer("/status/interruptible")),
        ready: ready(object, contract),
    }
}

/// What the core reads of an infrastructure machine pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfrastructureMachinePool {
    /// The pool is there.
    pub provisioned: bool,
    /// How the Nodes of the pool will say which machine they are.
    pub provider_ids: Vec<String>,
    /// How many machines the pool has, if it says so.
    pub replicas: Option<i32>,
    /// The kind of the objects for each of its machines, if it makes such objects.
    pub machine_kind: Option<String>,
    /// Condition `Ready`.
    pub ready: ReadyReport,
}

/// Reads an infrastructure machine pool.
pub fn infrastructure_machine_pool(object: &Value, contract: Contract) -> InfrastructureMachinePool {
    let ids = object.pointer("/spec/providerIDList").and_then(Value::as_array).into_iter().flatten();
    InfrastructureMachinePool {
        provisioned: flag(contract.pick(object, "/status/ready", "/status/initialization/provisioned")),
        provider_ids: ids.filter_map(|id| id.as_str().map(str::to_owned)).collect(),
        replicas: integer(object, "/status/replicas"),
        machine_kind: text(object, "/status/infrastructureMachineKind"),
        ready: ready(object, contract),
    }
}

/// What the core reads of a bootstrap config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapConfig {
    /// The data that makes a machine a Node is there.
    pub data_secret_created: bool,
    /// The Secret that holds it.
    pub data_secret_name: Option<String>,
    /// Condition `Ready`.
    pub ready: ReadyReport,
}

/// Reads a bootstrap config.
pub fn bootstrap_config(object: &Value, contract: Contract) -> BootstrapConfig {
    let created = contract.pick(object, "/status/ready", "/status/initialization/dataSecretCreated");
    BootstrapConfig {
        data_secret_created: flag(created),
        data_secret_name: text(object, "/status/dataSecretName"),
        ready: ready(object, contract),
    }
}

/// What the core reads of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlane {
    /// The version it should have.
    pub version: Option<String>,
    /// The versions its machines have, lowest first; empty before the first one is there.
    pub observed_versions: Vec<String>,
    /// How many machines it should have; nothing for control planes without machines.
    pub replicas: Option<i32>,
    /// How many it has.
    pub status_replicas: Option<i32>,
    /// How many of them are ready.
    pub ready_replicas: Option<i32>,
    /// How many of them are available.
    pub available_replicas: Option<i32>,
    /// How many of them are as the spec wants them.
    pub up_to_date_replicas: Option<i32>,
    /// Selects its machines.
    pub selector: Option<String>,
    /// Its API server has answered once.
    pub initialized: bool,
    /// It has no machines that the core knows of.
    pub externally_managed: bool,
    /// Where the API server is reached, if the control plane decides that.
    pub endpoint: Option<(String, i32)>,
    /// Condition `Ready`.
    pub ready: ReadyReport,
}

/// Reads a control plane.
pub fn control_plane(object: &Value, contract: Contract) -> ControlPlane {
    let versions = object.pointer("/status/versions").and_then(Value::as_array).into_iter().flatten();
    let mut observed_versions: Vec<String> =
        versions.filter_map(|entry| entry["version"].as_str().map(str::to_owned)).collect();
    if observed_versions.is_empty() {
        observed_versions.extend(text(object, "/status/version"));
    }
    let status_replicas = integer(object, "/status/replicas");
    let (available_replicas, up_to_date_replicas) = match contract {
        Contract::V1Beta1 => {
            // A provider that says nothing of them has none.
            let unavailable = integer(object, "/status/unavailableReplicas").unwrap_or(0);
            let available =
                integer(object, "/spec/replicas").map(|all| all.saturating_sub(unavailable).max(0));
            (available, integer(object, "/status/updatedReplicas"))
        }
        Contract::V1Beta2 => {
            (integer(object, "/status/availableReplicas"), integer(object, "/status/upToDateReplicas"))
        }
    };
    let initialized =
        contract.pick(object, "/status/initialized", "/status/initialization/controlPlaneInitialized");
    let host = text(object, "/spec/controlPlaneEndpoint/host");
    ControlPlane {
        version: text(object, "/spec/version"),
        observed_versions,
        replicas: integer(object, "/spec/replicas"),
        status_replicas,
        ready_replicas: integer(object, "/status/readyReplicas"),
        available_replicas,
        up_to_date_replicas,
        selector: text(object, "/status/selector"),
        initialized: flag(initialized),
        externally_managed: flag(object.pointer("/status/externalManagedControlPlane")),
        endpoint: host.zip(integer(object, "/spec/controlPlaneEndpoint/port").filter(|port| *port != 0)),
        ready: ready(object, contract),
    }
}

impl ControlPlane {
    /// No machine has reported a version yet.
    pub fn is_provisioning(&self) -> bool {
        self.observed_versions.is_empty()
    }

    /// A machine is still at an older version than the spec wants.
    pub fn is_upgrading(&self) -> bool {
        let Some(wanted) = self.version.as_deref().and_then(|version| Version::parse(version).ok()) else {
            return false;
        };
        let observed = self.observed_versions.iter().filter_map(|version| Version::parse(version).ok());
        observed.into_iter().any(|version| wanted.compare(&version).is_progress())
    }
}

fn text(object: &Value, pointer: &str) -> Option<String> {
    object.pointer(pointer)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn integer(object: &Value, pointer: &str) -> Option<i32> {
    object.pointer(pointer)?.as_i64()?.try_into().ok()
}

fn flag(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool).unwrap_or_default()
}

fn texts(value: Option<&Value>) -> BTreeMap<String, String> {
    let map = value.and_then(Value::as_object).into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn the_newest_version_of_the_newest_contract_is_used() {
        let cases = [
            (vec![("cluster.x-k8s.io/v1beta2", "v1beta2_v1beta3")], Some((Contract::V1Beta2, "v1beta3"))),
            (vec![("cluster.x-k8s.io/v1beta2", "v1beta10_v1beta9")], Some((Contract::V1Beta2, "v1beta10"))),
            (vec![("cluster.x-k8s.io/v1beta2", "v1_v2alpha1_v1beta9")], Some((Contract::V1Beta2, "v1"))),
            (
                vec![("cluster.x-k8s.io/v1beta1", "v1beta2"), ("cluster.x-k8s.io/v1beta2", "v1beta1")],
                Some((Contract::V1Beta2, "v1beta1")),
            ),
            (vec![("cluster.x-k8s.io/v1beta1", "v1alpha4_v1beta1")], Some((Contract::V1Beta1, "v1beta1"))),
            (vec![("cluster.x-k8s.io/v1beta2", "")], None),
            (vec![("other", "v1")], None),
        ];
        for (pairs, expected) in cases {
            let expected = expected.map(|(contract, version)| (contract, version.to_owned()));
            assert_eq!(Contract::of_crd(&labels(&pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_machine_is_read_by_either_contract() {
        let new = json!({
            "spec": {"providerID": "p://1"},
            "status": {"initialization": {"provisioned": true}, "failureDomain": "a",
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": 3}],
                "conditions": [{"type": "Ready", "status": "False", "reason": "Slow", "message": "no disk"}]},
        });
        let machine = infrastructure_machine(&new, Contract::V1Beta2);
        assert!(machine.provisioned);
        assert_eq!(machine.provider_id.as_deref(), Some("p://1"));
        assert_eq!(machine.addresses, [("InternalIP".to_owned(), "10.0.0.1".to_owned())]);
        assert_eq!(machine.failure_domain.as_deref(), Some("a"));
        let reported = ReadyReport::Reported {
            status: ConditionStatus::False,
            reason: "Slow".to_owned(),
            message: "no disk".to_owned(),
        };
        assert_eq!(machine.ready, reported);
        assert!(!infrastructure_machine(&new, Contract::V1Beta1).provisioned);

        let old = json!({"spec": {"failureDomain": "b"}, "status": {"ready": true,
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let machine = infrastructure_machine(&old, Contract::V1Beta1);
        assert!(machine.provisioned && machine.provider_id.is_none());
        assert_eq!(machine.legacy_failure_domain.as_deref(), Some("b"));
        assert!(!infrastructure_machine(&old, Contract::V1Beta2).provisioned);
    }

    #[test]
    fn a_condition_that_makes_no_sense_is_quoted() {
        let object = json!({"status": {"conditions": [{"type": "Ready", "status": "Maybe"}]}});
        assert_eq!(ready(&object, Contract::V1Beta2), ReadyReport::Invalid { status: "Maybe".to_owned() });
        assert_eq!(ready(&json!({"status": {"conditions": {}}}), Contract::V1Beta2), ReadyReport::Absent);
    }

    #[test]
    fn failure_domains_are_a_list_or_a_map() {
        let list =
            json!({"status": {"failureDomains": [{"name": "a", "controlPlane": true}, {"name": "b"}]}});
        let map = json!({"status": {"failureDomains": {"a": {"controlPlane": true}, "b": {}}}});
        let list = infrastructure_cluster(&list, Contract::V1Beta2);
        assert_eq!(list.failure_domains, infrastructure_cluster(&map, Contract::V1Beta1).failure_domains);
        assert!(list.failure_domains["a"].control_plane && !list.failure_domains["b"].control_plane);
    }

    #[test]
    fn a_version_keeps_the_contract_of_the_label_that_lists_it() {
        let labels =
            [("cluster.x-k8s.io/v1beta1", "v1alpha4_v1beta1"), ("cluster.x-k8s.io/v1beta2", "v1beta2")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        for (version, contract) in
            [("v1beta2", Some(Contract::V1Beta2)), ("v1beta1", Some(Contract::V1Beta1)), ("v1", None)]
        {
            assert_eq!(Contract::of_version(&labels, version), contract, "{version}");
        }
    }

    #[test]
    fn a_control_plane_upgrades_as_long_as_one_version_is_behind() {
        let of = |versions: &[&str]| {
            let versions: Vec<Value> = versions.iter().map(|version| json!({"version": version})).collect();
            control_plane(
                &json!({"spec": {"version": "v1.31.0", "replicas": 3}, "status": {"versions": versions}}),
                Contract::V1Beta2,
            )
        };
        assert!(of(&[]).is_provisioning() && !of(&[]).is_upgrading());
        assert!(of(&["v1.30.0", "v1.31.0"]).is_upgrading());
        assert!(!of(&["v1.31.0"]).is_upgrading() && !of(&["v1.31.0"]).is_provisioning());

        let old = json!({"spec": {"version": "v1.31.0", "replicas": 3}, "status": {"version": "v1.30.0", "initialized": true,
            "replicas": 4, "unavailableReplicas": 1, "updatedReplicas": 2}});
        let old = control_plane(&old, Contract::V1Beta1);
        assert!(old.initialized && old.is_upgrading());
        assert_eq!((old.available_replicas, old.up_to_date_replicas), (Some(2), Some(2)));
    }
}
