//! The built-in kinds, one line each. They are kept as they come: nothing runs pods here.

use std::sync::Arc;

use windlass_api::api_version;
use windlass_store as store;

use super::columns;
use super::jsonpath::JsonPath;
use super::resource::{
    Behaviour, Conversion, Resource, ScalePaths, Selectable, Strategy, Subresource, Verbs,
};
use crate::machinery::builtin_shape;
use crate::machinery::types::catalogue;

/// One line of the table.
struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    flags: &'static [Flag],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    /// Has no namespace.
    Cluster,
    /// Has a status subresource.
    Status,
    /// Can be scaled.
    Scale,
    /// Counts generations.
    Generation,
    /// Is in the category `all`.
    All,
    /// An update of a missing object creates it.
    Upsert,
    /// Names may have any character.
    FreeNames,
    /// Only asked, never kept.
    Question,
    ReadOnly,
    Has(Behaviour),
}

use Flag::{All, Cluster, FreeNames, Generation, Has, Question, ReadOnly, Scale, Status, Upsert};

const fn row(
    (group, version): (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    flags: &'static [Flag],
) -> Row {
    Row { group, version, kind, plural, short_names, flags }
}

const CORE: (&str, &str) = ("", "v1");
const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const AUTHENTICATION: (&str, &str) = ("authentication.k8s.io", "v1");
const AUTHORIZATION: (&str, &str) = ("authorization.k8s.io", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row(CORE, "ComponentStatus", "componentstatuses", &["cs"], &[Cluster, ReadOnly, Has(Behaviour::ComponentStatus)]),
    row(CORE, "ConfigMap", "configmaps", &["cm"], &[]),
    row(CORE, "Endpoints", "endpoints", &["ep"], &[Upsert]),
    row(CORE, "Event", "events", &["ev"], &[Upsert, Has(Behaviour::Event)]),
    row(CORE, "LimitRange", "limitranges", &["limits"], &[Upsert]),
    row(CORE, "Namespace", "namespaces", &["ns"], &[Cluster, Status, Has(Behaviour::Namespace)]),
    row(CORE, "Node", "nodes", &["no"], &[Cluster, Status]),
    row(CORE, "PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"], &[Status]),
    row(CORE, "PersistentVolume", "persistentvolumes", &["pv"], &[Cluster, Status]),
    row(CORE, "Pod", "pods", &["po"], &[All, Status, Generation]),
    row(CORE, "PodTemplate", "podtemplates", &[], &[Generation]),
    row(CORE, "ReplicationController", "replicationcontrollers", &["rc"], &[All, Status, Scale, Generation]),
    row(CORE, "ResourceQuota", "resourcequotas", &["quota"], &[Status]),
    row(CORE, "Secret", "secrets", &[], &[Has(Behaviour::Secret)]),
    row(CORE, "ServiceAccount", "serviceaccounts", &["sa"], &[]),
    row(CORE, "Service", "services", &["svc"], &[All, Status, Upsert, Has(Behaviour::Service)]),
    row(ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", &[], &[Cluster, Generation]),
    row(ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", &[], &[Cluster, Generation]),
    row(("apiextensions.k8s.io", "v1"), "CustomResourceDefinition", "customresourcedefinitions", &["crd", "crds"],
        &[Cluster, Status, Generation, Has(Behaviour::Crd)]),
    row(("apiregistration.k8s.io", "v1"), "APIService", "apiservices", &[], &[Cluster, Status]),
    row(APPS, "ControllerRevision", "controllerrevisions", &[], &[]),
    row(APPS, "DaemonSet", "daemonsets", &["ds"], &[All, Status, Generation]),
    row(APPS, "Deployment", "deployments", &["deploy"], &[All, Status, Scale, Generation]),
    row(APPS, "ReplicaSet", "replicasets", &["rs"], &[All, Status, Scale, Generation]),
    row(APPS, "StatefulSet", "statefulsets", &["sts"], &[All, Status, Scale, Generation]),
    row(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", &[], &[Cluster, Question]),
    row(AUTHENTICATION, "TokenReview", "tokenreviews", &[], &[Cluster, Question]),
    row(AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", &[], &[Question]),
    row(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", &[], &[Cluster, Question]),
    row(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", &[], &[Cluster, Question]),
    row(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", &[], &[Cluster, Question]),
    row(("autoscaling", "v2"), "HorizontalPodAutoscaler", "horizontalpodautoscalers", &["hpa"], &[All, Status]),
    row(BATCH, "CronJob", "cronjobs", &["cj"], &[All, Status, Generation]),
    row(BATCH, "Job", "jobs", &[], &[All, Status, Generation]),
    row(("certificates.k8s.io", "v1"), "CertificateSigningRequest", "certificatesigningrequests", &["csr"],
        &[Cluster, Status, Has(Behaviour::CertificateRequest)]),
    row(("coordination.k8s.io", "v1"), "Lease", "leases", &[], &[Upsert]),
    row(("discovery.k8s.io", "v1"), "EndpointSlice", "endpointslices", &[], &[Generation]),
    row(("events.k8s.io", "v1"), "Event", "events", &["ev"], &[Upsert, Has(Behaviour::Event)]),
    row(("networking.k8s.io", "v1"), "Ingress", "ingresses", &["ing"], &[Status, Generation]),
    row(("networking.k8s.io", "v1"), "NetworkPolicy", "networkpolicies", &["netpol"], &[Generation]),
    row(("policy", "v1"), "PodDisruptionBudget", "poddisruptionbudgets", &["pdb"], &[Status, Generation]),
    row(RBAC, "ClusterRoleBinding", "clusterrolebindings", &[], &[Cluster, Upsert, FreeNames]),
    row(RBAC, "ClusterRole", "clusterroles", &[], &[Cluster, Upsert, FreeNames]),
    row(RBAC, "RoleBinding", "rolebindings", &[], &[Upsert, FreeNames]),
    row(RBAC, "Role", "roles", &[], &[Upsert, FreeNames]),
    row(("scheduling.k8s.io", "v1"), "PriorityClass", "priorityclasses", &["pc"], &[Cluster, Generation]),
    row(STORAGE, "CSIDriver", "csidrivers", &[], &[Cluster]),
    row(STORAGE, "CSINode", "csinodes", &[], &[Cluster]),
    row(STORAGE, "CSIStorageCapacity", "csistoragecapacities", &[], &[]),
    row(STORAGE, "StorageClass", "storageclasses", &["sc"], &[Cluster]),
    row(STORAGE, "VolumeAttachment", "volumeattachments", &[], &[Cluster, Status]),
];

/// What field selectors may ask of built-in kinds.
#[rustfmt::skip]
const SELECTABLE: &[(&str, &[&str])] = &[
    ("certificatesigningrequests", &["spec.signerName"]),
    ("events", &["involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type"]),
    ("namespaces", &["status.phase", "name"]),
    ("nodes", &["spec.unschedulable"]),
    ("pods", &["spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName"]),
    ("secrets", &["type"]),
    ("replicasets", &["status.replicas"]),
    ("jobs", &["status.successful"]),
];

/// All built-in resources.
pub(super) fn resources() -> Vec<Resource> {
    TABLE.iter().enumerate().filter_map(|(index, row)| resource(row, index)).collect()
}

fn resource(row: &Row, index: usize) -> Option<Resource> {
    let has = |flag: Flag| row.flags.contains(&flag);
    let behaviour = row.flags.iter().find_map(|flag| match flag {
        Has(behaviour) => Some(*behaviour),
        Question => Some(Behaviour::Review),
        _ => None,
    });
    let verbs = match () {
        () if has(Question) => Verbs::CreateOnly,
        () if has(ReadOnly) => Verbs::ReadOnly,
        () => Verbs::All,
    };
    let behaviour = behaviour.unwrap_or(Behaviour::Plain);
    // Events are kept once, as those of the core group.
    let is_other_event = row.group == "events.k8s.io";
    let group = if row.group.is_empty() || is_other_event { "core" } else { row.group };
    Some(Resource {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        short_names: row.short_names.iter().map(ToString::to_string).collect(),
        categories: if has(All) { vec!["all".to_owned()] } else { Vec::new() },
        namespaced: !has(Cluster),
        verbs,
        subresources: subresources(row),
        behaviour,
        strategy: Strategy {
            custom: false,
            generation: has(Generation),
            create_on_update: has(Upsert),
            free_names: has(FreeNames) || row.kind == "APIService",
        },
        schema: None,
        type_id: catalogue().kind(&api_version::join(row.group, row.version), row.kind),
        shape: Arc::new(builtin_shape(&api_version::join(row.group, row.version), row.kind)),
        columns: columns::columns(row.plural),
        selectable: selectable(row.plural),
        storage: store::Resource::new(&format!("{group}/{}", row.plural)).ok()?,
        storage_version: row.version.to_owned(),
        conversion: if is_other_event { Conversion::Events } else { Conversion::Relabel },
        since: 0,
        encoding: index as u64,
        terminating: false,
        deprecation: None,
        openapi: None,
    })
}

fn subresources(row: &Row) -> Vec<Subresource> {
    let mut subresources = Vec::new();
    if row.flags.contains(&Status) {
        subresources.push(Subresource::Status);
    }
    let scale_paths = || {
        Some(ScalePaths {
            spec_replicas: JsonPath::parse(".spec.replicas").ok()?,
            status_replicas: JsonPath::parse(".status.replicas").ok()?,
            selector: JsonPath::parse(".spec.selector").ok(),
        })
    };
    if row.flags.contains(&Scale) {
        subresources.extend(scale_paths().map(Subresource::Scale));
    }
    match row.plural {
        "namespaces" => subresources.push(Subresource::Finalize),
        "certificatesigningrequests" => subresources.push(Subresource::Approval),
        "serviceaccounts" => subresources.push(Subresource::Token),
        "pods" => subresources.extend([Subresource::Eviction, Subresource::EphemeralContainers]),
        _ => {}
    }
    subresources
}

fn selectable(plural: &str) -> Vec<Selectable> {
    let fields = SELECTABLE.iter().find(|(name, _)| *name == plural).map_or(&[][..], |(_, fields)| fields);
    let field = |field: &&str| {
        let path = match *field {
            "name" => JsonPath::parse(".metadata.name"),
            "source" => JsonPath::parse(".source.component"),
            field => JsonPath::parse(field),
        };
        // A flag that is not there is off.
        let absent = if matches!(*field, "spec.unschedulable" | "spec.hostNetwork") { "false" } else { "" };
        Some(Selectable { name: field.to_string(), path: path.ok()?, absent })
    };
    fields.iter().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_becomes_a_resource() {
        assert_eq!(resources().len(), TABLE.len());
        for resource in resources() {
            assert!(resource.type_id.is_some(), "{resource:?} has no type");
        }
        for (plural, fields) in SELECTABLE {
            assert_eq!(selectable(plural).len(), fields.len(), "{plural}");
        }
    }
}
