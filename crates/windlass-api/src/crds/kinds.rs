//! The table of kinds: short names and columns as users of Cluster API know them.

use serde_json::Value;

use super::crd::{Column, Extras, Scale, manifest};
use crate::addons::{ClusterResourceSet, ClusterResourceSetBinding};
use crate::bootstrap::{KubeadmConfig, KubeadmConfigTemplate};
use crate::cluster::{
    Cluster, ClusterClass, Machine, MachineDeployment, MachineDrainRule, MachineHealthCheck, MachinePool,
    MachineSet,
};
use crate::control_plane::{KubeadmControlPlane, KubeadmControlPlaneTemplate};
use crate::infrastructure::{
    DevCluster, DevClusterTemplate, DevMachine, DevMachinePool, DevMachinePoolTemplate, DevMachineTemplate,
};
use crate::ipam::{IPAddress, IPAddressClaim};
use crate::runtime::ExtensionConfig;

/// The CRDs of all kinds of this crate.
pub(super) fn manifests() -> Vec<Value> {
    let fixed = |short_names, columns| Extras { short_names, columns, scale: Scale::Fixed };
    let template = fixed(&[], &[AGE]);
    let of_class = fixed(&[], &[OWNING_CLASS, AGE]);
    let group = |short_names, columns| Extras { short_names, columns, scale: Scale::ReplicasAndSelector };
    vec![
        manifest::<Cluster>(fixed(&["cl"], CLUSTER)),
        manifest::<ClusterClass>(fixed(&["cc"], CLUSTER_CLASS)),
        manifest::<MachineDeployment>(group(&["md"], MACHINE_DEPLOYMENT)),
        manifest::<MachineSet>(group(&["ms"], MACHINE_SET)),
        manifest::<Machine>(fixed(&["ma"], MACHINE)),
        manifest::<MachinePool>(Extras {
            short_names: &["mp"],
            columns: MACHINE_POOL,
            scale: Scale::Replicas,
        }),
        manifest::<MachineHealthCheck>(fixed(&["mhc", "mhcs"], MACHINE_HEALTH_CHECK)),
        manifest::<MachineDrainRule>(fixed(&[], MACHINE_DRAIN_RULE)),
        manifest::<ClusterResourceSet>(fixed(&[], CLUSTER_RESOURCE_SET)),
        manifest::<ClusterResourceSetBinding>(fixed(&[], &[IN_CLUSTER, AGE])),
        manifest::<IPAddress>(fixed(&[], &[ADDRESS, POOL_NAME, POOL_KIND, AGE])),
        manifest::<IPAddressClaim>(fixed(&[], &[POOL_NAME, POOL_KIND, AGE])),
        manifest::<KubeadmControlPlane>(group(&["kcp"], KUBEADM_CONTROL_PLANE)),
        manifest::<KubeadmControlPlaneTemplate>(of_class),
        manifest::<KubeadmConfig>(fixed(&[], KUBEADM_CONFIG)),
        manifest::<KubeadmConfigTemplate>(fixed(&[], &[OWNING_CLASS, OWNING_CLUSTER, AGE])),
        manifest::<ExtensionConfig>(fixed(&["ext"], EXTENSION_CONFIG)),
        manifest::<DevCluster>(fixed(&[], DEV_CLUSTER)),
        manifest::<DevClusterTemplate>(template),
        manifest::<DevMachine>(fixed(&[], DEV_MACHINE)),
        manifest::<DevMachineTemplate>(template),
        manifest::<DevMachinePool>(fixed(&[], DEV_MACHINE_POOL)),
        manifest::<DevMachinePoolTemplate>(template),
    ]
}

const fn text(name: &'static str, path: &'static str, description: &'static str) -> Column {
    Column { name, type_: "string", path, description, wide: false }
}

const fn number(name: &'static str, path: &'static str, description: &'static str) -> Column {
    Column { name, type_: "integer", path, description, wide: false }
}

const fn wide(column: Column) -> Column {
    Column { wide: true, ..column }
}

const AGE: Column = Column {
    name: "Age",
    type_: "date",
    path: ".metadata.creationTimestamp",
    description: "Time since it was created",
    wide: false,
};
const PAUSED: Column = wide(text(
    "Paused",
    r#".status.conditions[?(@.type=="Paused")].status"#,
    "Whether nothing is done with it",
));
const AVAILABLE: Column = text(
    "Available",
    r#".status.conditions[?(@.type=="Available")].status"#,
    "Whether it does what it is for",
);
const READY: Column =
    text("Ready", r#".status.conditions[?(@.type=="Ready")].status"#, "Whether everything about it is good");
const UP_TO_DATE: Column = text(
    "Up-to-date",
    r#".status.conditions[?(@.type=="UpToDate")].status"#,
    "Whether it is as its owner wants it",
);
const PHASE: Column = text("Phase", ".status.phase", "How far it is");
const IN_CLUSTER: Column = text("Cluster", ".spec.clusterName", "Its Cluster");
const LABELLED_CLUSTER: Column =
    text("Cluster", r".metadata.labels['cluster\.x-k8s\.io/cluster-name']", "Its Cluster");
const OWNING_CLASS: Column = text(
    "ClusterClass",
    r#".metadata.ownerReferences[?(@.kind=="ClusterClass")].name"#,
    "The class that it belongs to",
);
const OWNING_CLUSTER: Column =
    text("Cluster", r#".metadata.ownerReferences[?(@.kind=="Cluster")].name"#, "Its Cluster");
const FAILURE_DOMAIN: Column =
    text("Failure domain", ".status.failureDomain", "The failure domain that it is in");
const PROVISIONED: Column =
    text("Provisioned", ".status.initialization.provisioned", "Whether the infrastructure is there");
const DESIRED: Column = number("Desired", ".spec.replicas", "How many Machines there shall be");
const CURRENT: Column = number("Current", ".status.replicas", "How many Machines there are");
const READY_COUNT: Column = number("Ready", ".status.readyReplicas", "How many Machines are ready");
const AVAILABLE_COUNT: Column =
    number("Available", ".status.availableReplicas", "How many Machines are available");
const UP_TO_DATE_COUNT: Column =
    number("Up-to-date", ".status.upToDateReplicas", "How many Machines are up to date");

const CLUSTER: &[Column] = &[
    text("ClusterClass", ".spec.topology.classRef.name", "What it is made from"),
    AVAILABLE,
    number(
        "CP Desired",
        ".status.controlPlane.desiredReplicas",
        "How many control plane Machines there shall be",
    ),
    wide(number("CP Current", ".status.controlPlane.replicas", "How many control plane Machines there are")),
    wide(number(
        "CP Ready",
        ".status.controlPlane.readyReplicas",
        "How many control plane Machines are ready",
    )),
    number(
        "CP Available",
        ".status.controlPlane.availableReplicas",
        "How many control plane Machines are available",
    ),
    number(
        "CP Up-to-date",
        ".status.controlPlane.upToDateReplicas",
        "How many control plane Machines are up to date",
    ),
    number("W Desired", ".status.workers.desiredReplicas", "How many worker Machines there shall be"),
    wide(number("W Current", ".status.workers.replicas", "How many worker Machines there are")),
    wide(number("W Ready", ".status.workers.readyReplicas", "How many worker Machines are ready")),
    number("W Available", ".status.workers.availableReplicas", "How many worker Machines are available"),
    number("W Up-to-date", ".status.workers.upToDateReplicas", "How many worker Machines are up to date"),
    PAUSED,
    PHASE,
    AGE,
    text("Version", ".spec.topology.version", "The Kubernetes version it shall have"),
];

const CLUSTER_CLASS: &[Column] = &[
    PAUSED,
    text(
        "Variables Ready",
        r#".status.conditions[?(@.type=="VariablesReady")].status"#,
        "Whether its variables are known and agree",
    ),
    AGE,
];

const MACHINE_DEPLOYMENT: &[Column] = &[
    IN_CLUSTER,
    AVAILABLE,
    DESIRED,
    CURRENT,
    READY_COUNT,
    AVAILABLE_COUNT,
    UP_TO_DATE_COUNT,
    PAUSED,
    PHASE,
    AGE,
    text("Version", ".spec.template.spec.version", "The Kubernetes version its Machines shall have"),
];

const MACHINE_SET: &[Column] = &[
    IN_CLUSTER,
    DESIRED,
    CURRENT,
    READY_COUNT,
    AVAILABLE_COUNT,
    UP_TO_DATE_COUNT,
    PAUSED,
    AGE,
    text("Version", ".spec.template.spec.version", "The Kubernetes version of its Machines"),
];

const MACHINE: &[Column] = &[
    IN_CLUSTER,
    text("Node Name", ".status.nodeRef.name", "Its Node"),
    wide(text("Provider ID", ".spec.providerID", "Its identity with the infrastructure")),
    FAILURE_DOMAIN,
    READY,
    AVAILABLE,
    UP_TO_DATE,
    wide(text("Internal-IP", r#".status.addresses[?(@.type=="InternalIP")].address"#, "Its address inside")),
    wide(text("External-IP", r#".status.addresses[?(@.type=="ExternalIP")].address"#, "Its address outside")),
    wide(text("OS-Image", ".status.nodeInfo.osImage", "Its operating system")),
    wide(text("Kernel-Version", ".status.nodeInfo.kernelVersion", "Its kernel")),
    wide(text("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion", "Its container runtime")),
    PAUSED,
    PHASE,
    AGE,
    text("Version", ".spec.version", "The Kubernetes version it shall have"),
];

const MACHINE_POOL: &[Column] = &[
    IN_CLUSTER,
    DESIRED,
    CURRENT,
    READY_COUNT,
    AVAILABLE_COUNT,
    UP_TO_DATE_COUNT,
    PAUSED,
    PHASE,
    AGE,
    text("Version", ".spec.template.spec.version", "The Kubernetes version its instances shall have"),
];

const MACHINE_HEALTH_CHECK: &[Column] = &[
    IN_CLUSTER,
    number("Replicas", ".status.expectedMachines", "How many Machines it looks at"),
    number("Healthy", ".status.currentHealthy", "How many of them are healthy"),
    PAUSED,
    AGE,
];

const MACHINE_DRAIN_RULE: &[Column] = &[
    text("Behavior", ".spec.drain.behavior", "What a drain does with the Pods"),
    text("Order", ".spec.drain.order", "Pods of a lower order go first"),
    AGE,
];

const CLUSTER_RESOURCE_SET: &[Column] = &[
    text(
        "Applied",
        r#".status.conditions[?(@.type=="ResourcesApplied")].status"#,
        "Whether everything is in all Clusters that it selects",
    ),
    PAUSED,
    AGE,
];

const ADDRESS: Column = text("Address", ".spec.address", "The address");
const POOL_NAME: Column = text("Pool Name", ".spec.poolRef.name", "The pool");
const POOL_KIND: Column = text("Pool Kind", ".spec.poolRef.kind", "Kind of the pool");

const KUBEADM_CONTROL_PLANE: &[Column] = &[
    LABELLED_CLUSTER,
    AVAILABLE,
    DESIRED,
    CURRENT,
    READY_COUNT,
    AVAILABLE_COUNT,
    UP_TO_DATE_COUNT,
    PAUSED,
    Column {
        type_: "boolean",
        ..text(
            "Initialized",
            ".status.initialization.controlPlaneInitialized",
            "Whether the API server accepts requests",
        )
    },
    AGE,
    text("Version", ".spec.version", "The Kubernetes version its Machines shall have"),
];

const KUBEADM_CONFIG: &[Column] = &[
    LABELLED_CLUSTER,
    text(
        "Data secret created",
        ".status.initialization.dataSecretCreated",
        "Whether the bootstrap data are there",
    ),
    PAUSED,
    AGE,
];

const EXTENSION_CONFIG: &[Column] = &[
    PAUSED,
    text(
        "Discovered",
        r#".status.conditions[?(@.type=="Discovered")].status"#,
        "Whether its handlers are known",
    ),
    AGE,
];

const DEV_CLUSTER: &[Column] = &[LABELLED_CLUSTER, PROVISIONED, AGE];

const DEV_MACHINE: &[Column] = &[
    LABELLED_CLUSTER,
    text("Machine", r#".metadata.ownerReferences[?(@.kind=="Machine")].name"#, "Its Machine"),
    wide(text("Provider ID", ".spec.providerID", "Its identity")),
    FAILURE_DOMAIN,
    wide(text("IP", r#".status.addresses[?(@.type=="InternalIP")].address"#, "Its address inside")),
    PAUSED,
    PROVISIONED,
    AGE,
];

const DEV_MACHINE_POOL: &[Column] = &[
    LABELLED_CLUSTER,
    number("Instances", ".status.replicas", "How many instances there are"),
    PROVISIONED,
    AGE,
];
