//! Schemas of Machine and MachineSet, `cluster.x-k8s.io/v1beta2`.

use super::kubernetes::{CONDITIONS, LABEL_SELECTOR, LEGACY_CONDITIONS, OBJECT_META, TIME, TYPE_META};
use super::schema::Type::{Bool, Int32, Int64, ListAtomic, ListMap, Ref, Text};
use super::schema::{Component, Field, Package, Shape, TEXTS, Type, always, optional, pointer, required};

const fn named(name: &'static str) -> Type {
    Ref(Package::Cluster, name)
}

pub(super) const READINESS_GATES: Type = ListMap(&named("MachineReadinessGate"), &["conditionType"]);

/// How long the steps of deleting a Machine may take.
pub(super) const DELETION_TIMEOUTS: &[Field] = &[
    pointer("nodeDrainTimeoutSeconds", Int32, "How long draining the Node may take; 0 is forever."),
    pointer(
        "nodeVolumeDetachTimeoutSeconds",
        Int32,
        "How long detaching the volumes of the Node may take; 0 is forever.",
    ),
    pointer("nodeDeletionTimeoutSeconds", Int32, "How long deleting the Node is tried; 0 is forever."),
];

pub(super) const COMPONENTS: &[Component] = &[
    Component {
        package: Package::Cluster,
        name: "Machine",
        description: "A machine that hosts a Node. Requests carry only its identity, labels, annotations and spec.",
        shape: Shape::Fields(&[
            TYPE_META,
            &[
                optional("metadata", OBJECT_META, "Metadata of the object."),
                required("spec", named("MachineSpec"), "The desired state."),
                optional("status", named("MachineStatus"), "The observed state."),
            ],
        ]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineSpec",
        description: "The desired state of a Machine.",
        shape: Shape::Fields(&[&[
            required("clusterName", Text, "The Cluster that the Machine belongs to."),
            required("bootstrap", named("Bootstrap"), "How the Machine becomes a Node."),
            required("infrastructureRef", named("ContractVersionedObjectReference"), "The infrastructure."),
            optional("version", Text, "The Kubernetes version."),
            optional("providerID", Text, "The identity that the infrastructure and the Node both report."),
            optional("failureDomain", Text, "The failure domain that the Machine is created in."),
            pointer("minReadySeconds", Int32, "How long the Machine must be ready to count as available."),
            optional("readinessGates", READINESS_GATES, "Further conditions that readiness depends on."),
            optional("deletion", named("MachineDeletionSpec"), "How the Machine is deleted."),
            optional(
                "taints",
                ListMap(&named("MachineTaint"), &["key", "effect"]),
                "Taints of the Node that are managed here. The Node may have others.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "Bootstrap",
        description: "How a Machine becomes a Node.",
        shape: Shape::Fields(&[&[
            optional(
                "configRef",
                named("ContractVersionedObjectReference"),
                "The bootstrap config, if there is one.",
            ),
            pointer(
                "dataSecretName",
                Text,
                "The Secret with the bootstrap data. Until it is set, the Machine waits.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ContractVersionedObjectReference",
        description: "An object in the same namespace. Its version follows from the contract.",
        shape: Shape::Fields(&[&[
            required("kind", Text, "Kind of the object."),
            required("name", Text, "Name of the object."),
            required("apiGroup", Text, "Group of the object."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineReadinessGate",
        description: "A condition of a Machine that its readiness depends on.",
        shape: Shape::Fields(&[&[
            required("conditionType", Text, "Type of the condition."),
            optional("polarity", Text, "Positive (the default) if True is good, Negative if False is."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeletionSpec",
        description: "How a Machine is deleted.",
        shape: Shape::Fields(&[DELETION_TIMEOUTS]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineTaint",
        description: "A taint of a Node.",
        shape: Shape::Fields(&[&[
            required("key", Text, "Key of the taint."),
            optional("value", Text, "Value of the taint."),
            required("effect", Text, "NoSchedule, PreferNoSchedule or NoExecute."),
            required(
                "propagation",
                Text,
                "Always to keep it on the Node, OnInitialization to put it there once.",
            ),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineStatus",
        description: "The observed state of a Machine.",
        shape: Shape::Fields(&[&[
            optional("conditions", CONDITIONS, "Conditions."),
            optional(
                "initialization",
                named("MachineInitializationStatus"),
                "How far provisioning has come.",
            ),
            optional("nodeRef", named("MachineNodeReference"), "The Node, once there is one."),
            pointer("nodeInfo", Ref(Package::Core, "NodeSystemInfo"), "What the Node reports about itself."),
            optional("lastUpdated", TIME, "When the phase last changed."),
            optional("addresses", ListAtomic(&named("MachineAddress")), "Addresses of the Machine."),
            optional("phase", Text, "A summary for people."),
            optional("certificatesExpiryDate", TIME, "When certificates of a control plane Machine expire."),
            optional("observedGeneration", Int64, "Generation that was looked at."),
            pointer("deletion", named("MachineDeletionStatus"), "How far deletion has come."),
            pointer("deprecated", named("MachineDeprecatedStatus"), "What a later version removes."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineInitializationStatus",
        description: "How far provisioning of a Machine has come. Never goes back.",
        shape: Shape::Fields(&[&[
            pointer("infrastructureProvisioned", Bool, "Whether the infrastructure is there."),
            pointer("bootstrapDataSecretCreated", Bool, "Whether the bootstrap data are there."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineNodeReference",
        description: "The Node of a Machine.",
        shape: Shape::Fields(&[&[required("name", Text, "Name of the Node.")]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineAddress",
        description: "An address of a Machine.",
        shape: Shape::Fields(&[&[
            required("type", Text, "Hostname, ExternalIP, InternalIP, ExternalDNS or InternalDNS."),
            required("address", Text, "The address."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeletionStatus",
        description: "How far deletion of a Machine has come.",
        shape: Shape::Fields(&[&[
            optional("nodeDrainStartTime", TIME, "When draining began."),
            optional("waitForNodeVolumeDetachStartTime", TIME, "When waiting for volumes began."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineDeprecatedStatus",
        description: "What a later version removes from the status of a Machine.",
        shape: Shape::Fields(&[&[pointer(
            "v1beta1",
            named("MachineV1Beta1DeprecatedStatus"),
            "What v1beta1 had.",
        )]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineV1Beta1DeprecatedStatus",
        description: "What v1beta1 had in the status of a Machine.",
        shape: Shape::Fields(&[LEGACY_STATUS]),
    },
    Component {
        package: Package::Cluster,
        name: "Condition",
        description: "A condition in the form it had before v1beta2.",
        shape: Shape::Fields(&[&[
            always("type", Text, "Which aspect."),
            always("status", Text, "Whether it holds: True, False or Unknown."),
            optional("severity", Text, "How bad it is that it does not hold: Error, Warning or Info."),
            optional("lastTransitionTime", TIME, "When the status last changed."),
            optional("reason", Text, "A word for programs that says why."),
            optional("message", Text, "A sentence for people that says why."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineSet",
        description: "Machines made from one template. Requests carry only its identity, labels, annotations and spec.",
        shape: Shape::Fields(&[
            TYPE_META,
            &[
                optional("metadata", OBJECT_META, "Metadata of the object."),
                required("spec", named("MachineSetSpec"), "The desired state."),
                optional("status", named("MachineSetStatus"), "The observed state."),
            ],
        ]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineSetSpec",
        description: "The desired state of a MachineSet.",
        shape: Shape::Fields(&[&[
            required("clusterName", Text, "The Cluster that the MachineSet belongs to."),
            pointer("replicas", Int32, "How many Machines there shall be."),
            required("selector", LABEL_SELECTOR, "Which Machines belong to the MachineSet."),
            required("template", named("MachineTemplateSpec"), "What its Machines are made from."),
            optional("machineNaming", named("MachineNamingSpec"), "How its Machines are named."),
            optional("deletion", named("MachineSetDeletionSpec"), "Which Machines go first."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineTemplateSpec",
        description: "What Machines are made from.",
        shape: Shape::Fields(&[&[
            optional("metadata", named("ObjectMeta"), "Labels and annotations of the Machines."),
            required("spec", named("MachineSpec"), "The desired state of the Machines."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "ObjectMeta",
        description: "Labels and annotations of objects that are made from a template.",
        shape: Shape::Fields(&[&[
            optional("labels", TEXTS, "Labels."),
            optional("annotations", TEXTS, "Annotations."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineNamingSpec",
        description: "How Machines are named.",
        shape: Shape::Fields(&[&[optional(
            "template",
            Text,
            "A Go template that must contain a random part.",
        )]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineSetDeletionSpec",
        description: "Which Machines of a MachineSet go first when it shrinks.",
        shape: Shape::Fields(&[&[optional("order", Text, "Random (the default), Newest or Oldest.")]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineSetStatus",
        description: "The observed state of a MachineSet.",
        shape: Shape::Fields(&[&[
            optional("conditions", CONDITIONS, "Conditions."),
            optional("selector", Text, "The selector as text, for autoscalers."),
            pointer("replicas", Int32, "How many Machines there are."),
            pointer("readyReplicas", Int32, "How many Machines are ready."),
            pointer("availableReplicas", Int32, "How many Machines are available."),
            pointer("upToDateReplicas", Int32, "How many Machines are up to date."),
            optional("observedGeneration", Int64, "Generation that was looked at."),
            pointer("deprecated", named("MachineSetDeprecatedStatus"), "What a later version removes."),
        ]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineSetDeprecatedStatus",
        description: "What a later version removes from the status of a MachineSet.",
        shape: Shape::Fields(&[&[pointer(
            "v1beta1",
            named("MachineSetV1Beta1DeprecatedStatus"),
            "What v1beta1 had.",
        )]]),
    },
    Component {
        package: Package::Cluster,
        name: "MachineSetV1Beta1DeprecatedStatus",
        description: "What v1beta1 had in the status of a MachineSet.",
        shape: Shape::Fields(&[
            LEGACY_STATUS,
            &[
                optional("fullyLabeledReplicas", Int32, "How many Machines have all labels of the template."),
                optional("readyReplicas", Int32, "How many Machines have a Node that is ready."),
                optional("availableReplicas", Int32, "How many Machines have been ready for long enough."),
            ],
        ]),
    },
];

/// What the status of every object had in v1beta1.
pub(super) const LEGACY_STATUS: &[Field] = &[
    optional("conditions", LEGACY_CONDITIONS, "Conditions in the form they had before v1beta2."),
    pointer("failureReason", Text, "A word for a failure that does not go away by itself."),
    pointer("failureMessage", Text, "A sentence for a failure that does not go away by itself."),
];
