//! Stand-ins for the infrastructure of real providers: what matters of it, as the in-memory provider keeps it.

use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachinePool};
use windlass_api::conditions::{BOOTSTRAP_CONFIG_READY, NODE_READY};
use windlass_api::names::CONTROL_PLANE_LABEL;
use windlass_engine::condition;
use windlass_engine::machine_set::is_updating;
use windlass_inmemory::knobs::{
    KUBELET_VERSION_ANNOTATION, MACHINE_VERSION_ANNOTATION, NEVER_READY_ANNOTATION, NODE_NAME_ANNOTATION,
};
use windlass_inmemory::{
    CLUSTER_FINALIZER, INSTANCES_ANNOTATION, Instance, Instances, MACHINE_FINALIZER, POOL_FINALIZER, Part,
};

/// When a machine began to start that is up: so long ago that it is up however long machines take.
const LONG_AGO: Timestamp = Timestamp::constant(-2_000_000_000, 0);

/// The infrastructure of a Cluster. Its endpoint stays what it is: the workload cluster in memory answers there.
pub(super) fn cluster(mut stand_in: Value, cluster: Option<&Cluster>) -> Value {
    stand_in["metadata"]["finalizers"] = json!([CLUSTER_FINALIZER]);
    let provisioned =
        cluster.is_some_and(|cluster| cluster.status.initialization.infrastructure_provisioned == Some(true));
    let domains = cluster.map(|cluster| json!(cluster.status.failure_domains)).unwrap_or_default();
    let endpoint = cluster.map(|cluster| &cluster.spec.control_plane_endpoint).filter(|found| found.is_set());
    if let Some(endpoint) = endpoint {
        stand_in["spec"]["controlPlaneEndpoint"] = json!(endpoint);
    }
    let mut status = json!({"conditions": [ready(&stand_in, provisioned)]});
    if provisioned {
        status["initialization"] = json!({"provisioned": true});
    }
    if domains.as_array().is_some_and(|domains| !domains.is_empty()) {
        status["failureDomains"] = domains;
    }
    stand_in["status"] = status;
    stand_in
}

/// The infrastructure of a Machine: its identity, its Node, its version, how far it is.
pub(super) fn machine(mut stand_in: Value, machine: Option<&Machine>) -> Value {
    stand_in["metadata"]["finalizers"] = json!([MACHINE_FINALIZER]);
    let Some(machine) = machine else {
        stand_in["status"] = json!({});
        return stand_in;
    };
    if !machine.spec.provider_id.is_empty() {
        stand_in["spec"]["providerID"] = json!(machine.spec.provider_id);
    }
    let status = &machine.status;
    let provisioned = status.initialization.infrastructure_provisioned == Some(true);
    let node = status.node_ref.as_ref();
    if let Some(node) = node {
        let running = status.node_info.as_ref().map(|info| info.kubelet_version.as_str());
        let running = running.filter(|version| !version.is_empty()).unwrap_or(&machine.spec.version);
        // An update in place has changed the Machine already; the kubelet follows at its end.
        let brought_to = if is_updating(machine) { running } else { machine.spec.version.as_str() };
        let annotations = &mut stand_in["metadata"]["annotations"];
        annotations[KUBELET_VERSION_ANNOTATION] = json!(running);
        annotations[MACHINE_VERSION_ANNOTATION] = json!(brought_to);
        annotations[NODE_NAME_ANNOTATION] = json!(node.name);
        if let Some(found) = condition::find(&status.conditions, NODE_READY).filter(|it| it.status == "False")
        {
            annotations[NEVER_READY_ANNOTATION] = json!(found.message);
        }
    }
    let control_plane = machine.labels().contains_key(CONTROL_PLANE_LABEL);
    let started = match node {
        Some(_) => Some(LONG_AGO),
        // Without bootstrap data it has not begun.
        None => machine.spec.bootstrap.data_secret_name.as_ref().and_then(|_| began(machine)),
    };
    let since = machine.metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default();
    let mut conditions: Vec<Value> = Vec::new();
    if node.is_some() {
        let parts = Part::of_machine(control_plane).map(|part| part.condition());
        conditions.extend(parts.map(|part| condition_of(part, "Provisioned", true, since)));
        conditions.push(condition_of("Ready", "Ready", true, since));
    }
    let mut found = json!({"conditions": conditions, "addresses": status.addresses});
    if provisioned {
        found["initialization"] = json!({"provisioned": true});
    }
    if !machine.spec.failure_domain.is_empty() {
        found["failureDomain"] = json!(machine.spec.failure_domain);
    }
    if let Some(started) = started {
        found["backend"] = json!({"inMemory": {"started": started.to_string()}});
    }
    stand_in["status"] = found;
    stand_in
}

/// When the infrastructure of a Machine began to start, as far as its status tells.
fn began(machine: &Machine) -> Option<Timestamp> {
    let ready = condition::find(&machine.status.conditions, BOOTSTRAP_CONFIG_READY);
    let ready = ready.filter(|found| found.status == "True").map(|found| found.last_transition_time.0);
    ready.or_else(|| machine.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// The infrastructure of a MachinePool: its instances, with their identities, Nodes and versions.
pub(super) fn pool(mut stand_in: Value, pool: Option<&MachinePool>) -> Value {
    stand_in["metadata"]["finalizers"] = json!([POOL_FINALIZER]);
    let Some(pool) = pool else {
        stand_in["status"] = json!({});
        return stand_in;
    };
    let ids = &pool.spec.provider_id_list;
    stand_in["spec"]["providerIDList"] = json!(ids);
    // From old to new: the status counts them and does not say which.
    let mut versions = pool.status.versions.iter().flat_map(|running| {
        let count = usize::try_from(running.replicas.unwrap_or_default()).unwrap_or_default();
        std::iter::repeat_n(running.version.clone(), count)
    });
    let instances: Vec<Instance> = (0..ids.len())
        .map(|index| {
            let node = pool.status.node_refs.get(index).and_then(|node| node.name.clone());
            Instance {
                name: node.unwrap_or_else(|| format!("{}-{index}", pool.name_any())),
                version: versions.next().unwrap_or_else(|| pool.spec.template.spec.version.clone()),
                started: LONG_AGO,
                provider_id: Some(ids[index].clone()),
            }
        })
        .collect();
    let statuses: Vec<Value> = instances
        .iter()
        .map(|instance| {
            json!({"instanceName": instance.name, "version": instance.version, "ready": true,
                "providerID": instance.provider_id})
        })
        .collect();
    let count = instances.len();
    // Names of instances to come are apart from those that are there.
    let prefix = format!("{}-", stand_in["metadata"]["name"].as_str().unwrap_or_default());
    let numbers =
        instances.iter().filter_map(|instance| instance.name.strip_prefix(&prefix)?.parse::<u64>().ok());
    let next = numbers.max().map_or(0, |number| number + 1);
    let record = Instances { next, instances };
    stand_in["metadata"]["annotations"][INSTANCES_ANNOTATION] =
        json!(serde_json::to_string(&record).unwrap_or_default());
    let provisioned = pool.status.initialization.infrastructure_provisioned == Some(true);
    let mut status =
        json!({"conditions": [ready(&stand_in, provisioned)], "replicas": count, "instances": statuses});
    if provisioned {
        status["initialization"] = json!({"provisioned": true});
        status["ready"] = json!(true);
    }
    stand_in["status"] = status;
    stand_in
}

fn ready(object: &Value, is_ready: bool) -> Value {
    let created = object["metadata"]["creationTimestamp"].as_str().and_then(|time| time.parse().ok());
    condition_of("Ready", if is_ready { "Ready" } else { "NotReady" }, is_ready, created.unwrap_or_default())
}

fn condition_of(type_: &str, reason: &str, is_true: bool, since: Timestamp) -> Value {
    let status = if is_true { "True" } else { "False" };
    let since = since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": since})
}
