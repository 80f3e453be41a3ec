//! The columns that people see of built-in kinds.

mod network;
mod nodes;
mod pods;
mod storage;
mod workloads;

use jiff::Timestamp;
use serde_json::Value;

use super::jsonpath::JsonPath;
use super::resource::{Cell, Column};
use crate::time;

/// One column of a built-in kind.
struct Spec {
    name: &'static str,
    ty: &'static str,
    source: Source,
    /// Whether only `-o wide` shows it.
    wide: bool,
}

/// Where its content comes from.
#[derive(Clone, Copy)]
enum Source {
    /// The value at a path; empty if there is none.
    Path(&'static str),
    /// The number at a path; 0 if there is none.
    Number(&'static str),
    /// The number of entries at a path.
    Count(&'static str),
    /// How long ago the time at a path was.
    Age(&'static str),
    /// Whatever a function makes of the object.
    Made(fn(&Value, Timestamp) -> Value),
}

const fn text(name: &'static str, path: &'static str) -> Spec {
    Spec { name, ty: "string", source: Source::Path(path), wide: false }
}

const fn number(name: &'static str, path: &'static str) -> Spec {
    Spec { name, ty: "integer", source: Source::Number(path), wide: false }
}

const fn count(name: &'static str, path: &'static str) -> Spec {
    Spec { name, ty: "integer", source: Source::Count(path), wide: false }
}

const fn age(name: &'static str, path: &'static str) -> Spec {
    Spec { name, ty: "string", source: Source::Age(path), wide: false }
}

const fn made(name: &'static str, make: fn(&Value, Timestamp) -> Value) -> Spec {
    Spec { name, ty: "string", source: Source::Made(make), wide: false }
}

const fn wide(spec: Spec) -> Spec {
    Spec { wide: true, ..spec }
}

const AGE: Spec = age("Age", ".metadata.creationTimestamp");

/// A time that is shown as it is.
const CREATED: Spec = Spec { name: "Created At", ty: "date", ..text("", ".metadata.creationTimestamp") };

/// The columns of each kind, after its name. A kind that has a `Name` here does not start with it.
#[rustfmt::skip]
static COLUMNS: &[(&str, &[Spec])] = &[
    ("apiservices", &[made("Service", network::api_service), made("Available", network::api_available), AGE]),
    ("certificatesigningrequests", &[AGE, text("SignerName", ".spec.signerName"), text("Requestor", ".spec.username"),
        made("RequestedDuration", nodes::requested_duration), made("Condition", nodes::request_conditions)]),
    ("clusterrolebindings", BINDING), ("rolebindings", BINDING),
    ("clusterroles", &[CREATED]), ("roles", &[CREATED]), ("customresourcedefinitions", &[CREATED]),
    ("componentstatuses", &[made("Status", nodes::component_status), made("Message", nodes::component_message),
        made("Error", nodes::component_error)]),
    ("configmaps", &[count("Data", ".data"), AGE]),
    ("controllerrevisions", &[made("Controller", workloads::controller), number("Revision", ".revision"), AGE]),
    ("cronjobs", &[text("Schedule", ".spec.schedule"), made("Timezone", workloads::time_zone),
        made("Suspend", workloads::suspended), count("Active", ".status.active"),
        made("Last Schedule", workloads::last_schedule), AGE, wide(made("Containers", workloads::containers)),
        wide(made("Images", workloads::images)), wide(made("Selector", workloads::selector))]),
    ("csidrivers", &[made("AttachRequired", storage::attach_required), made("PodInfoOnMount", storage::pod_info),
        made("StorageCapacity", storage::capacity_tracked), made("Modes", storage::modes), AGE]),
    ("csinodes", &[count("Drivers", ".spec.drivers"), AGE]),
    ("csistoragecapacities", &[text("StorageClassName", ".storageClassName"), text("Capacity", ".capacity"), AGE]),
    ("daemonsets", &[number("Desired", ".status.desiredNumberScheduled"),
        number("Current", ".status.currentNumberScheduled"), number("Ready", ".status.numberReady"),
        number("Up-to-date", ".status.updatedNumberScheduled"), number("Available", ".status.numberAvailable"),
        made("Node Selector", workloads::node_selector), AGE, CONTAINERS, IMAGES, SELECTOR]),
    ("deployments", &[made("Ready", workloads::ready), number("Up-to-date", ".status.updatedReplicas"),
        number("Available", ".status.availableReplicas"), AGE, CONTAINERS, IMAGES, SELECTOR]),
    ("endpoints", &[made("Endpoints", network::endpoints), AGE]),
    ("endpointslices", &[text("AddressType", ".addressType"), made("Ports", network::slice_ports),
        made("Endpoints", network::slice_endpoints), AGE]),
    ("events", &[made("Last Seen", nodes::last_seen), text("Type", ".type"), text("Reason", ".reason"),
        made("Object", nodes::involved), wide(text("Subobject", ".involvedObject.fieldPath")),
        wide(made("Source", nodes::event_source)), made("Message", nodes::event_message),
        wide(made("First Seen", nodes::first_seen)), wide(made("Count", nodes::event_count)),
        wide(text("Name", ".metadata.name"))]),
    ("horizontalpodautoscalers", &[made("Reference", workloads::scale_target), number("MinPods", ".spec.minReplicas"),
        number("MaxPods", ".spec.maxReplicas"), number("Replicas", ".status.currentReplicas"), AGE]),
    ("ingresses", &[made("Class", network::ingress_class), made("Hosts", network::ingress_hosts),
        made("Address", network::ingress_address), made("Ports", network::ingress_ports), AGE]),
    ("jobs", &[made("Status", workloads::job_status), made("Completions", workloads::completions),
        made("Duration", workloads::duration), AGE, CONTAINERS, IMAGES, SELECTOR]),
    ("leases", &[text("Holder", ".spec.holderIdentity"), AGE]),
    ("limitranges", &[CREATED]),
    ("mutatingwebhookconfigurations", &[count("Webhooks", ".webhooks"), AGE]),
    ("validatingwebhookconfigurations", &[count("Webhooks", ".webhooks"), AGE]),
    ("namespaces", &[text("Status", ".status.phase"), AGE]),
    ("networkpolicies", &[made("Pod-Selector", network::pod_selector), AGE]),
    ("nodes", &[made("Status", nodes::status), made("Roles", nodes::roles), AGE,
        text("Version", ".status.nodeInfo.kubeletVersion"), wide(made("Internal-IP", nodes::internal_ip)),
        wide(made("External-IP", nodes::external_ip)), wide(made("OS-Image", nodes::os_image)),
        wide(made("Kernel-Version", nodes::kernel_version)), wide(made("Container-Runtime", nodes::runtime))]),
    ("persistentvolumeclaims", &[made("Status", storage::claim_status), text("Volume", ".spec.volumeName"),
        text("Capacity", ".status.capacity.storage"), made("Access Modes", storage::claim_modes),
        text("StorageClass", ".spec.storageClassName"), made("VolumeAttributesClass", storage::attributes_class), AGE,
        wide(made("VolumeMode", storage::volume_mode))]),
    ("persistentvolumes", &[text("Capacity", ".spec.capacity.storage"), made("Access Modes", storage::volume_modes),
        text("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"), made("Status", storage::volume_status),
        made("Claim", storage::claim), text("StorageClass", ".spec.storageClassName"),
        made("VolumeAttributesClass", storage::attributes_class), text("Reason", ".status.reason"), AGE,
        wide(made("VolumeMode", storage::volume_mode))]),
    ("poddisruptionbudgets", &[made("Min Available", pods::min_available),
        made("Max Unavailable", pods::max_unavailable), number("Allowed Disruptions", ".status.disruptionsAllowed"),
        AGE]),
    ("pods", &[made("Ready", pods::ready), made("Status", pods::status), made("Restarts", pods::restarts), AGE,
        wide(made("IP", pods::ip)), wide(made("Node", pods::node)), wide(made("Nominated Node", pods::nominated)),
        wide(made("Readiness Gates", pods::gates))]),
    ("podtemplates", &[made("Containers", workloads::containers), made("Images", workloads::images),
        made("Pod Labels", workloads::template_labels)]),
    ("priorityclasses", &[number("Value", ".value"), made("Global-Default", storage::global_default), AGE,
        text("PreemptionPolicy", ".preemptionPolicy")]),
    ("replicasets", REPLICAS), ("replicationcontrollers", REPLICAS),
    ("resourcequotas", &[made("Request", pods::quota_requests), made("Limit", pods::quota_limits), AGE]),
    ("secrets", &[text("Type", ".type"), count("Data", ".data"), AGE]),
    ("serviceaccounts", &[count("Secrets", ".secrets"), AGE]),
    ("services", &[text("Type", ".spec.type"), made("Cluster-IP", network::cluster_ip),
        made("External-IP", network::external_ip), made("Port(s)", network::ports), AGE,
        wide(made("Selector", network::service_selector))]),
    ("statefulsets", &[made("Ready", workloads::ready), AGE, CONTAINERS, IMAGES]),
    ("storageclasses", &[text("Provisioner", ".provisioner"), made("ReclaimPolicy", storage::reclaim_policy),
        made("VolumeBindingMode", storage::binding_mode), made("AllowVolumeExpansion", storage::expansion), AGE]),
    ("volumeattachments", &[text("Attacher", ".spec.attacher"), text("PV", ".spec.source.persistentVolumeName"),
        text("Node", ".spec.nodeName"), made("Attached", storage::attached), AGE]),
];

const CONTAINERS: Spec = wide(made("Containers", workloads::containers));
const IMAGES: Spec = wide(made("Images", workloads::images));
const SELECTOR: Spec = wide(made("Selector", workloads::selector));

const REPLICAS: &[Spec] = &[
    number("Desired", ".spec.replicas"),
    number("Current", ".status.replicas"),
    number("Ready", ".status.readyReplicas"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const BINDING: &[Spec] = &[
    made("Role", nodes::role),
    AGE,
    wide(made("Users", nodes::bound_users)),
    wide(made("Groups", nodes::bound_groups)),
    wide(made("ServiceAccounts", nodes::bound_accounts)),
];

/// The columns of a built-in kind, by the plural of its name.
pub(super) fn columns(plural: &str) -> Vec<Column> {
    let own = COLUMNS.iter().find(|(name, _)| *name == plural).map_or(&[AGE][..], |(_, columns)| columns);
    own.iter().filter_map(column).collect()
}

fn column(spec: &Spec) -> Option<Column> {
    let parse = |path: &str| JsonPath::parse(path).ok();
    let cell = match spec.source {
        Source::Path(path) => Cell::Path(parse(path)?),
        Source::Number(path) => Cell::Number(parse(path)?),
        Source::Count(path) => Cell::Count(parse(path)?),
        Source::Age(path) => Cell::Age(parse(path)?),
        Source::Made(make) => Cell::Made(make),
    };
    let format = if spec.name == "Name" { "name" } else { "" };
    Some(Column {
        name: spec.name.to_owned(),
        ty: spec.ty.to_owned(),
        format: format.to_owned(),
        description: String::new(),
        priority: i64::from(spec.wide),
        cell,
    })
}

/// The text at a path of names, empty if there is none.
fn at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A text, or `<none>` if it says nothing.
fn or_none(text: impl Into<String>) -> Value {
    match text.into() {
        text if text.is_empty() => "<none>".into(),
        text => text.into(),
    }
}

/// The elements of a list; none if there is no list.
fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn number_at(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// How long ago a time was.
fn age_of(since: &str, now: Timestamp) -> Value {
    match since {
        "" => "<unknown>".into(),
        since => time::parse(since).map_or_else(|| "<invalid>".into(), |since| time::age(since, now).into()),
    }
}

/// Labels as a selector: `a=b,c=d`.
fn labels(map: Option<&Value>) -> String {
    let labels = map.and_then(Value::as_object).into_iter().flatten();
    let pairs = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

/// A label selector in its object form as one line.
fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    let mut terms: Vec<String> =
        Some(labels(selector.get("matchLabels"))).filter(|text| !text.is_empty()).into_iter().collect();
    for expression in items(selector, "/matchExpressions") {
        let key = at(expression, "/key");
        let values: Vec<&str> = items(expression, "/values").filter_map(Value::as_str).collect();
        terms.push(match at(expression, "/operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_can_be_made() {
        for (plural, specs) in COLUMNS {
            assert_eq!(columns(plural).len(), specs.len(), "{plural}");
        }
        assert_eq!(columns("unheardof").len(), 1);
    }
}
