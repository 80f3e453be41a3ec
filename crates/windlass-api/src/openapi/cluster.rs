//! Schema of Cluster, `cluster.x-k8s.io/v1beta2`.

use super::kubernetes::{CONDITIONS, INT_OR_STRING, JSON, OBJECT_META, TYPE_META};
use super::machine::{DELETION_TIMEOUTS, LEGACY_STATUS, READINESS_GATES};
use super::schema::Type::{Bool, Inline, Int32, Int64, ListAtomic, ListMap, Ref, Text};
use super::schema::{Component, Field, Package, Shape, TEXTS, Type, always, optional, pointer, required};

const fn named(name: &'static str) -> Type {
    Ref(Package::Cluster, name)
}

const VARIABLES: Type = ListMap(&named("ClusterVariable"), &["name"]);

pub(super) const COMPONENTS: &[Component] = &[
    Component {
        package: Package::Cluster,
        name: "Cluster",
        description: "A Kubernetes cluster.",
        shape: Shape::Fields(&[
            TYPE_META,
            &[
                optional("metadata", OBJECT_META, "Metadata of the object."),
                required("spec", named("ClusterSpec"), "The desired state."),
                optional("status", named("ClusterStatus"), "The observed state."),
            ],
        ]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterSpec",
        description: "The desired state of a Cluster.",
        shape: Shape::Fields(&[&[
            pointer("paused", Bool, "Whether nothing that belongs to the Cluster is reconciled."),
            optional("clusterNetwork", named("ClusterNetwork"), "The network."),
            optional("controlPlaneEndpoint", named("APIEndpoint"), "Where the control plane is reached."),
            optional("controlPlaneRef", named("ContractVersionedObjectReference"), "The control plane."),
            optional("infrastructureRef", named("ContractVersionedObjectReference"), "The infrastructure."),
            optional("topology", named("Topology"), "What a ClusterClass makes the Cluster from."),
            optional(
                "availabilityGates",
                ListMap(&named("ClusterAvailabilityGate"), &["conditionType"]),
                "Further conditions that availability depends on.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterNetwork",
        description: "The network of a Cluster.",
        shape: Shape::Fields(&[&[
            optional("apiServerPort", Int32, "Port of the API server."),
            optional("services", named("NetworkRanges"), "Addresses of Services."),
            optional("pods", named("NetworkRanges"), "Addresses of Pods."),
            optional("serviceDomain", Text, "Domain of Services."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "NetworkRanges",
        description: "Ranges of addresses.",
        shape: Shape::Fields(&[&[required("cidrBlocks", ListAtomic(&Text), "CIDR blocks.")]]),
    },
    Component {
        package: Package::Cluster,
        name: "APIEndpoint",
        description: "Where a control plane is reached.",
        shape: Shape::Fields(&[&[
            optional("host", Text, "Name or address."),
            optional("port", Int32, "Port."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterAvailabilityGate",
        description: "A condition of a Cluster that its availability depends on.",
        shape: Shape::Fields(&[&[
            required("conditionType", Text, "Type of the condition."),
            optional("polarity", Text, "Positive (the default) if True is good, Negative if False is."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "Topology",
        description: "What a ClusterClass makes a Cluster from.",
        shape: Shape::Fields(&[&[
            required("classRef", named("ClusterClassRef"), "The ClusterClass."),
            required("version", Text, "The Kubernetes version. A change of it starts an upgrade."),
            optional("controlPlane", named("ControlPlaneTopology"), "The control plane."),
            optional("workers", named("WorkersTopology"), "The workers."),
            optional("variables", VARIABLES, "Values of the variables of the ClusterClass."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterClassRef",
        description: "A ClusterClass.",
        shape: Shape::Fields(&[&[
            required("name", Text, "Name of the ClusterClass."),
            optional("namespace", Text, "Namespace of the ClusterClass, if not that of the Cluster."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterVariable",
        description: "A variable with its value.",
        shape: Shape::Fields(&[&[
            required("name", Text, "Name of the variable."),
            required("value", JSON, "Any JSON that fits the schema of the variable."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ControlPlaneTopology",
        description: "The control plane of a topology.",
        shape: Shape::Fields(&[&[
            optional(
                "metadata",
                named("ObjectMeta"),
                "Labels and annotations of the control plane and its Machines.",
            ),
            pointer("replicas", Int32, "How many Machines there shall be."),
            optional("healthCheck", named("ControlPlaneTopologyHealthCheck"), "When a Machine is replaced."),
            optional(
                "deletion",
                named("ControlPlaneTopologyMachineDeletionSpec"),
                "How Machines are deleted.",
            ),
            optional("taints", ListMap(&named("MachineTaint"), &["key", "effect"]), "Taints of the Nodes."),
            optional("readinessGates", READINESS_GATES, "Further conditions that readiness depends on."),
            optional("rollout", named("ControlPlaneTopologyRolloutSpec"), "How changes are rolled out."),
            optional("variables", named("ControlPlaneVariables"), "Variables for the control plane only."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ControlPlaneTopologyRolloutSpec",
        description: "How changes of the control plane are rolled out.",
        shape: Shape::Fields(&[&[optional(
            "after",
            super::kubernetes::TIME,
            "Machines created before this time are replaced.",
        )]]),
    },
    Component {
        package: Package::Cluster,
        name: "ControlPlaneTopologyHealthCheck",
        description: "When a Machine of the control plane is replaced.",
        shape: Shape::Fields(&[&[
            pointer("enabled", Bool, "Whether there is a health check; if absent, the ClusterClass decides."),
            optional(
                "checks",
                named("ControlPlaneTopologyHealthCheckChecks"),
                "What makes a Machine unhealthy.",
            ),
            optional(
                "remediation",
                named("ControlPlaneTopologyHealthCheckRemediation"),
                "What happens then.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ControlPlaneTopologyHealthCheckChecks",
        description: "What makes a Machine of the control plane unhealthy.",
        shape: Shape::Fields(&[HEALTH_CHECKS]),
    },
    Component {
        package: Package::Cluster,
        name: "ControlPlaneTopologyHealthCheckRemediation",
        description: "What happens with an unhealthy Machine of the control plane.",
        shape: Shape::Fields(&[&[
            optional(
                "triggerIf",
                named("ControlPlaneTopologyHealthCheckRemediationTriggerIf"),
                "When anything happens at all.",
            ),
            optional(
                "templateRef",
                named("MachineHealthCheckRemediationTemplateReference"),
                REMEDIATION_TEMPLATE,
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ControlPlaneTopologyHealthCheckRemediationTriggerIf",
        description: "How many Machines may be unhealthy for remediation to happen.",
        shape: Shape::Fields(&[TRIGGER_IF]),
    },
    Component {
        package: Package::Cluster,
        name: "ControlPlaneTopologyMachineDeletionSpec",
        description: "How Machines of the control plane are deleted.",
        shape: Shape::Fields(&[DELETION_TIMEOUTS]),
    },
    Component {
        package: Package::Cluster,
        name: "ControlPlaneVariables",
        description: "Variables for the control plane only.",
        shape: Shape::Fields(&[&[optional(
            "overrides",
            VARIABLES,
            "Values that go before those of the Cluster.",
        )]]),
    },
    Component {
        package: Package::Cluster,
        name: "UnhealthyNodeCondition",
        description: "A condition of a Node that makes its Machine unhealthy after a while.",
        shape: Shape::Fields(&[UNHEALTHY_CONDITION]),
    },
    Component {
        package: Package::Cluster,
        name: "UnhealthyMachineCondition",
        description: "A condition of a Machine that makes it unhealthy after a while.",
        shape: Shape::Fields(&[UNHEALTHY_CONDITION]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineHealthCheckRemediationTemplateReference",
        description: "A template from which an object is made that remediates a Machine.",
        shape: Shape::Fields(&[&[
            required("kind", Text, "Kind of the template."),
            required("name", Text, "Name of the template."),
            required("apiVersion", Text, "Group and version of the template."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "WorkersTopology",
        description: "The workers of a topology. Upgrades take them in the order of the lists.",
        shape: Shape::Fields(&[&[
            optional(
                "machineDeployments",
                ListMap(&named("MachineDeploymentTopology"), &["name"]),
                "Workers that are Machines.",
            ),
            optional(
                "machinePools",
                ListMap(&named("MachinePoolTopology"), &["name"]),
                "Workers that are pools.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeploymentTopology",
        description: "A MachineDeployment of a topology.",
        shape: Shape::Fields(&[&[
            optional(
                "metadata",
                named("ObjectMeta"),
                "Labels and annotations of the MachineDeployment and its Machines.",
            ),
            required("class", Text, "Which class of the ClusterClass it is made from."),
            required("name", Text, "Name within the topology."),
            optional("failureDomain", Text, "The failure domain that Machines are created in."),
            pointer("replicas", Int32, "How many Machines there shall be. If absent, an autoscaler decides."),
            optional(
                "healthCheck",
                named("MachineDeploymentTopologyHealthCheck"),
                "When a Machine is replaced.",
            ),
            optional(
                "deletion",
                named("MachineDeploymentTopologyMachineDeletionSpec"),
                "How Machines are deleted.",
            ),
            optional("taints", ListMap(&named("MachineTaint"), &["key", "effect"]), "Taints of the Nodes."),
            pointer("minReadySeconds", Int32, "How long a Machine must be ready to count as available."),
            optional("readinessGates", READINESS_GATES, "Further conditions that readiness depends on."),
            optional("rollout", named("MachineDeploymentTopologyRolloutSpec"), "How changes are rolled out."),
            optional(
                "variables",
                named("MachineDeploymentVariables"),
                "Variables for this MachineDeployment only.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeploymentTopologyHealthCheck",
        description: "When a Machine of a MachineDeployment is replaced.",
        shape: Shape::Fields(&[&[
            pointer("enabled", Bool, "Whether there is a health check; if absent, the ClusterClass decides."),
            optional(
                "checks",
                named("MachineDeploymentTopologyHealthCheckChecks"),
                "What makes a Machine unhealthy.",
            ),
            optional(
                "remediation",
                named("MachineDeploymentTopologyHealthCheckRemediation"),
                "What happens then.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeploymentTopologyHealthCheckChecks",
        description: "What makes a Machine of a MachineDeployment unhealthy.",
        shape: Shape::Fields(&[HEALTH_CHECKS]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeploymentTopologyHealthCheckRemediation",
        description: "What happens with an unhealthy Machine of a MachineDeployment.",
        shape: Shape::Fields(&[&[
            pointer("maxInFlight", INT_OR_STRING, "How many Machines are remediated at the same time."),
            optional(
                "triggerIf",
                named("MachineDeploymentTopologyHealthCheckRemediationTriggerIf"),
                "When anything happens at all.",
            ),
            optional(
                "templateRef",
                named("MachineHealthCheckRemediationTemplateReference"),
                REMEDIATION_TEMPLATE,
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeploymentTopologyHealthCheckRemediationTriggerIf",
        description: "How many Machines may be unhealthy for remediation to happen.",
        shape: Shape::Fields(&[TRIGGER_IF]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeploymentTopologyMachineDeletionSpec",
        description: "How Machines of a MachineDeployment are deleted.",
        shape: Shape::Fields(&[
            &[optional("order", Text, "Which go first: Random (the default), Newest or Oldest.")],
            DELETION_TIMEOUTS,
        ]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeploymentTopologyRolloutSpec",
        description: "How changes of a MachineDeployment are rolled out.",
        shape: Shape::Fields(&[&[
            optional("after", super::kubernetes::TIME, "Machines created before this time are replaced."),
            optional(
                "strategy",
                named("MachineDeploymentTopologyRolloutStrategy"),
                "How Machines are replaced.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeploymentTopologyRolloutStrategy",
        description: "How Machines of a MachineDeployment are replaced.",
        shape: Shape::Fields(&[&[
            required("type", Text, "RollingUpdate or OnDelete."),
            optional(
                "rollingUpdate",
                named("MachineDeploymentTopologyRolloutStrategyRollingUpdate"),
                "Limits of a rolling update.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeploymentTopologyRolloutStrategyRollingUpdate",
        description: "Limits of a rolling update.",
        shape: Shape::Fields(&[&[
            pointer(
                "maxUnavailable",
                INT_OR_STRING,
                "How many Machines may be missing; a percentage is rounded down.",
            ),
            pointer(
                "maxSurge",
                INT_OR_STRING,
                "How many Machines may be too many; a percentage is rounded up.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeploymentVariables",
        description: "Variables for one MachineDeployment only.",
        shape: Shape::Fields(&[&[optional(
            "overrides",
            VARIABLES,
            "Values that go before those of the Cluster.",
        )]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachinePoolTopology",
        description: "A MachinePool of a topology.",
        shape: Shape::Fields(&[&[
            optional("metadata", named("ObjectMeta"), "Labels and annotations of the MachinePool."),
            required("class", Text, "Which class of the ClusterClass it is made from."),
            required("name", Text, "Name within the topology."),
            optional("failureDomains", ListAtomic(&Text), "Failure domains that Machines are created in."),
            optional(
                "deletion",
                named("MachinePoolTopologyMachineDeletionSpec"),
                "How Machines are deleted.",
            ),
            optional("taints", ListMap(&named("MachineTaint"), &["key", "effect"]), "Taints of the Nodes."),
            pointer("minReadySeconds", Int32, "How long a Machine must be ready to count as available."),
            pointer("replicas", Int32, "How many Machines there shall be. If absent, an autoscaler decides."),
            optional("variables", named("MachinePoolVariables"), "Variables for this MachinePool only."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachinePoolTopologyMachineDeletionSpec",
        description: "How Machines of a MachinePool are deleted.",
        shape: Shape::Fields(&[DELETION_TIMEOUTS]),
    },
    Component {
        package: Package::Cluster,
        name: "MachinePoolVariables",
        description: "Variables for one MachinePool only.",
        shape: Shape::Fields(&[&[optional(
            "overrides",
            VARIABLES,
            "Values that go before those of the Cluster.",
        )]]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterStatus",
        description: "The observed state of a Cluster.",
        shape: Shape::Fields(&[&[
            optional("conditions", CONDITIONS, "Conditions."),
            optional(
                "initialization",
                named("ClusterInitializationStatus"),
                "How far provisioning has come.",
            ),
            pointer("controlPlane", named("ClusterControlPlaneStatus"), "The control plane."),
            pointer("workers", named("WorkersStatus"), "The workers."),
            optional(
                "failureDomains",
                ListMap(&named("FailureDomain"), &["name"]),
                "Failure domains of the infrastructure.",
            ),
            optional("phase", Text, "A summary for people."),
            optional("observedGeneration", Int64, "Generation that was looked at."),
            pointer("deprecated", named("ClusterDeprecatedStatus"), "What a later version removes."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterInitializationStatus",
        description: "How far provisioning of a Cluster has come. Never goes back.",
        shape: Shape::Fields(&[&[
            pointer("infrastructureProvisioned", Bool, "Whether the infrastructure is there."),
            pointer("controlPlaneInitialized", Bool, "Whether the API server accepts requests."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterControlPlaneStatus",
        description: "The observed state of the control plane.",
        shape: Shape::Fields(&[MACHINES_STATUS]),
    },
    Component {
        package: Package::Cluster,
        name: "WorkersStatus",
        description: "The observed state of the workers.",
        shape: Shape::Fields(&[MACHINES_STATUS]),
    },
    Component {
        package: Package::Cluster,
        name: "FailureDomain",
        description: "A part of the infrastructure that fails as a whole.",
        shape: Shape::Fields(&[&[
            required("name", Text, "Name of the failure domain."),
            pointer("controlPlane", Bool, "Whether it is suitable for the control plane."),
            optional("attributes", TEXTS, "What else the infrastructure says about it."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterDeprecatedStatus",
        description: "What a later version removes from the status of a Cluster.",
        shape: Shape::Fields(&[&[pointer(
            "v1beta1",
            named("ClusterV1Beta1DeprecatedStatus"),
            "What v1beta1 had.",
        )]]),
    },
    Component {
        package: Package::Cluster,
        name: "ClusterV1Beta1DeprecatedStatus",
        description: "What v1beta1 had in the status of a Cluster.",
        shape: Shape::Fields(&[LEGACY_STATUS]),
    },
];

const REMEDIATION_TEMPLATE: &str =
    "From what the object is made that remediates. If absent, the owner of the Machine does.";

const HEALTH_CHECKS: &[Field] = &[
    pointer(
        "nodeStartupTimeoutSeconds",
        Int32,
        "How long a Machine may take to become a Node; 0 is forever.",
    ),
    optional(
        "unhealthyNodeConditions",
        ListAtomic(&named("UnhealthyNodeCondition")),
        "Conditions of the Node.",
    ),
    optional(
        "unhealthyMachineConditions",
        ListAtomic(&named("UnhealthyMachineCondition")),
        "Conditions of the Machine.",
    ),
];

const UNHEALTHY_CONDITION: &[Field] = &[
    required("type", Text, "Type of the condition."),
    required("status", Text, "Status that makes it unhealthy: True, False or Unknown."),
    required("timeoutSeconds", Int32, "How long the condition must have had the status."),
];

const TRIGGER_IF: &[Field] = &[
    pointer("unhealthyLessThanOrEqualTo", INT_OR_STRING, "At most this many."),
    optional("unhealthyInRange", Text, "A range such as [3-5]; goes before the other field."),
];

const MACHINES_STATUS: &[Field] = &[
    pointer("desiredReplicas", Int32, "How many Machines there shall be."),
    pointer("replicas", Int32, "How many Machines there are."),
    pointer("upToDateReplicas", Int32, "How many Machines are up to date."),
    pointer("readyReplicas", Int32, "How many Machines are ready."),
    pointer("availableReplicas", Int32, "How many Machines are available."),
    optional(
        "versions",
        ListMap(
            &Inline(&[
                always("version", Text, "A Kubernetes version."),
                pointer("replicas", Int32, "How many Machines have it."),
            ]),
            &["version"],
        ),
        "Which versions there are.",
    ),
    optional(
        "upgradePlan",
        ListAtomic(&Inline(&[always("version", Text, "A Kubernetes version.")])),
        "The versions that remain on the way to the target, the target included.",
    ),
];
