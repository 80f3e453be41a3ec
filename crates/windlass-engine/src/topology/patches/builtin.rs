//! The variables that exist without being defined: what the topology knows about itself.

use serde_json::{Map, Value, json};
use windlass_api::cluster::{Cluster, ClusterNetwork, NetworkRanges, TemplateMeta};
use windlass_api::names::REPEATS_THE_OBJECT;
use windlass_version::Version;

use crate::topology::observed::WorkerKind;

/// Makes the built-in variables of one Cluster.
///
/// During a chained upgrade `builtin.cluster.topology.version` is the final version, while those of the control plane
/// and of worker groups are the versions they have in this step.
#[derive(Clone, Debug)]
pub struct Builtins<'a> {
    cluster: &'a Cluster,
}

/// What is known of a control plane or a worker group.
#[derive(Clone, Copy, Debug)]
pub struct GroupBuiltins<'a> {
    /// The version it shall have.
    pub version: &'a Version,
    /// The name of the object, as templates see it.
    pub name: &'a str,
    /// How many machines it shall have.
    pub replicas: Option<i32>,
    /// Labels and annotations that the topology gives it.
    pub metadata: &'a TemplateMeta,
    /// Name of the infrastructure object or template.
    pub infrastructure_name: Option<&'a str>,
}

impl<'a> Builtins<'a> {
    /// For a Cluster.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self { cluster }
    }

    /// For templates that belong to the whole cluster.
    pub fn of_cluster(&self) -> Value {
        let cluster = self.cluster;
        let metadata = &cluster.metadata;
        let mut fields = json!({
            "name": metadata.name.as_deref().unwrap_or_default(),
            "namespace": metadata.namespace.as_deref().unwrap_or_default(),
            "uid": metadata.uid.as_deref().unwrap_or_default(),
            "metadata": meta(
                metadata.labels.as_ref().into_iter().flatten(),
                metadata.annotations.iter().flatten().filter(|(key, _)| !REPEATS_THE_OBJECT.contains(&key.as_str())),
            ),
            "network": network(&cluster.spec.cluster_network),
        });
        if let Some(topology) = &cluster.spec.topology {
            let namespace = match topology.class_ref.namespace.as_str() {
                "" => metadata.namespace.as_deref().unwrap_or_default(),
                namespace => namespace,
            };
            fields["topology"] = json!({
                "version": topology.version,
                "class": topology.class_ref.name,
                "classNamespace": namespace,
                "classRef": {"name": topology.class_ref.name, "namespace": namespace},
            });
        }
        json!({ "cluster": fields })
    }

    /// For templates of the control plane.
    pub fn of_control_plane(&self, group: GroupBuiltins<'_>) -> Value {
        let mut fields = fields(group);
        if let Some(name) = group.infrastructure_name {
            fields["machineTemplate"] = json!({"infrastructureRef": {"name": name}});
        }
        self.with("controlPlane", fields)
    }

    /// For templates of a worker group.
    pub fn of_workers(
        &self,
        kind: WorkerKind,
        group: GroupBuiltins<'_>,
        topology_name: &str,
        class: &str,
        bootstrap_name: &str,
    ) -> Value {
        let mut fields = fields(group);
        fields["topologyName"] = json!(topology_name);
        fields["class"] = json!(class);
        fields["bootstrap"] = json!({"configRef": {"name": bootstrap_name}});
        if let Some(name) = group.infrastructure_name {
            fields["infrastructureRef"] = json!({"name": name});
        }
        self.with(kind.field(), fields)
    }

    fn with(&self, part: &str, fields: Value) -> Value {
        let mut all = self.of_cluster();
        all[part] = fields;
        all
    }
}

fn fields(group: GroupBuiltins<'_>) -> Value {
    let GroupBuiltins { version, name, replicas, metadata, .. } = group;
    let mut fields = json!({
        "version": version.to_string(),
        "name": name,
        "metadata": meta(metadata.labels.iter(), metadata.annotations.iter()),
    });
    if let Some(replicas) = replicas {
        fields["replicas"] = json!(replicas);
    }
    fields
}

fn meta<'a>(
    labels: impl Iterator<Item = (&'a String, &'a String)>,
    annotations: impl Iterator<Item = (&'a String, &'a String)>,
) -> Value {
    let map = |entries: &mut dyn Iterator<Item = (&'a String, &'a String)>| -> Map<String, Value> {
        entries.map(|(key, value)| (key.clone(), json!(value))).collect()
    };
    let (mut labels, mut annotations) = (labels, annotations);
    json!({"labels": map(&mut labels), "annotations": map(&mut annotations)})
}

fn network(network: &ClusterNetwork) -> Value {
    let mut fields = Map::new();
    let mut ranges = |name: &str, ranges: Option<&NetworkRanges>| {
        if let Some(ranges) = ranges {
            fields.insert(name.to_owned(), json!(ranges.cidr_blocks));
        }
    };
    ranges("services", network.services.as_ref());
    ranges("pods", network.pods.as_ref());
    if !network.service_domain.is_empty() {
        fields.insert("serviceDomain".to_owned(), json!(network.service_domain));
    }
    Value::Object(fields)
}
