//! Schemas of Kubernetes itself, as far as the objects in hook requests use them.

use super::schema::Type::{Bool, Int64, List, ListAtomic, ListMap, ListSet, Ref, Text};
use super::schema::{Component, Field, Package, Shape, TEXTS, Type, always, optional, pointer};

pub(super) const OBJECT_META: Type = Ref(Package::Meta, "ObjectMeta");
pub(super) const CONDITIONS: Type = ListMap(&Ref(Package::Meta, "Condition"), &["type"]);
pub(super) const TIME: Type = Ref(Package::Meta, "Time");
pub(super) const LABEL_SELECTOR: Type = Ref(Package::Meta, "LabelSelector");
pub(super) const INT_OR_STRING: Type = Ref(Package::IntOrString, "IntOrString");
pub(super) const JSON: Type = Ref(Package::ApiExtensions, "JSON");
pub(super) const RAW_EXTENSION: Type = Ref(Package::Runtime, "RawExtension");

/// What identifies the type of an object; first in every object, request and response.
pub(super) const TYPE_META: &[Field] = &[
    optional("kind", Text, "Name of the type, in CamelCase."),
    optional("apiVersion", Text, "Group and version of the type."),
];

pub(super) const COMPONENTS: &[Component] = &[
    Component {
        package: Package::Meta,
        name: "ObjectMeta",
        description: "What every object has, whatever its type.",
        shape: Shape::Fields(&[&[
            optional("name", Text, "Unique among the objects of a type in a namespace. Never changes."),
            optional("generateName", Text, "Beginning of a name that the API server completes."),
            optional("namespace", Text, "The namespace that the name is unique in."),
            optional("selfLink", Text, "No longer set."),
            optional("uid", Text, "Unique over time, unlike the name."),
            optional("resourceVersion", Text, "Changes with every write. To be compared for equality only."),
            optional("generation", Int64, "Counts changes of the desired state."),
            optional("creationTimestamp", TIME, "When the object was created."),
            pointer("deletionTimestamp", TIME, "When the object was asked to go away."),
            pointer("deletionGracePeriodSeconds", Int64, "How long the object may take to go away."),
            optional("labels", TEXTS, "Keys and values that objects are selected by."),
            optional("annotations", TEXTS, "Keys and values that tools keep with the object."),
            optional(
                "ownerReferences",
                ListMap(&Ref(Package::Meta, "OwnerReference"), &["uid"]),
                "Objects whose deletion brings about the deletion of this one.",
            ),
            optional("finalizers", ListSet(&Text), "What must be done before the object goes away."),
            optional(
                "managedFields",
                ListAtomic(&Ref(Package::Meta, "ManagedFieldsEntry")),
                "Who wrote which fields. Never sent to extensions.",
            ),
        ]]),
    },
    Component {
        package: Package::Meta,
        name: "OwnerReference",
        description: "An owner of an object, in the same namespace or without one.",
        shape: Shape::Fields(&[&[
            always("apiVersion", Text, "Group and version of the owner."),
            always("kind", Text, "Kind of the owner."),
            always("name", Text, "Name of the owner."),
            always("uid", Text, "UID of the owner."),
            pointer("controller", Bool, "Whether this owner manages the object. At most one does."),
            pointer(
                "blockOwnerDeletion",
                Bool,
                "Whether the owner waits for this object in foreground deletion.",
            ),
        ]]),
    },
    Component {
        package: Package::Meta,
        name: "ManagedFieldsEntry",
        description: "Fields that one manager wrote.",
        shape: Shape::Fields(&[&[
            optional("manager", Text, "Who wrote them."),
            optional("operation", Text, "Apply or Update."),
            optional("apiVersion", Text, "Version in which they were written."),
            pointer("time", TIME, "When this entry last changed."),
            optional("fieldsType", Text, "Format of the set of fields: FieldsV1."),
            pointer("fieldsV1", Ref(Package::Meta, "FieldsV1"), "The set of fields."),
            optional("subresource", Text, "Subresource through which they were written."),
        ]]),
    },
    Component {
        package: Package::Meta,
        name: "FieldsV1",
        description: "A set of fields, as a tree of path elements.",
        shape: Shape::AnyObject,
    },
    Component {
        package: Package::Meta,
        name: "Time",
        description: "A point in time, RFC 3339.",
        shape: Shape::Time,
    },
    Component {
        package: Package::Meta,
        name: "Condition",
        description: "One aspect of the state of an object.",
        shape: Shape::Fields(&[&[
            always("type", Text, "Which aspect."),
            always("status", Text, "Whether it holds: True, False or Unknown."),
            optional("observedGeneration", Int64, "Generation of the object that was looked at."),
            always("lastTransitionTime", TIME, "When the status last changed."),
            always("reason", Text, "A word for programs that says why."),
            always("message", Text, "A sentence for people that says why."),
        ]]),
    },
    Component {
        package: Package::Meta,
        name: "LabelSelector",
        description: "Which labels an object must have. All parts must hold; an empty selector selects everything.",
        shape: Shape::Fields(&[&[
            optional("matchLabels", TEXTS, "Labels and the value they must have."),
            optional(
                "matchExpressions",
                ListAtomic(&Ref(Package::Meta, "LabelSelectorRequirement")),
                "Further requirements.",
            ),
        ]]),
    },
    Component {
        package: Package::Meta,
        name: "LabelSelectorRequirement",
        description: "What must hold for one label.",
        shape: Shape::Fields(&[&[
            always("key", Text, "The label."),
            always("operator", Text, "In, NotIn, Exists or DoesNotExist."),
            optional("values", ListAtomic(&Text), "What the label is compared with, for In and NotIn."),
        ]]),
    },
    Component {
        package: Package::Core,
        name: "NodeSystemInfo",
        description: "What a Node reports about its machine and its software.",
        shape: Shape::Fields(&[&[
            always("machineID", Text, "Identity from the operating system."),
            always("systemUUID", Text, "Identity from the hardware."),
            always("bootID", Text, "Identity that changes with every boot."),
            always("kernelVersion", Text, "Version of the kernel."),
            always("osImage", Text, "Name of the operating system."),
            always("containerRuntimeVersion", Text, "Name and version of the container runtime."),
            always("kubeletVersion", Text, "Version of the kubelet."),
            always("kubeProxyVersion", Text, "Deprecated; no longer reliable."),
            always("operatingSystem", Text, "Family of the operating system."),
            always("architecture", Text, "Architecture of the processor."),
            pointer("swap", Ref(Package::Core, "NodeSwapStatus"), "Swap memory."),
        ]]),
    },
    Component {
        package: Package::Core,
        name: "NodeSwapStatus",
        description: "Swap memory of a Node.",
        shape: Shape::Fields(&[&[pointer("capacity", Int64, "Size in bytes.")]]),
    },
    Component {
        package: Package::ApiExtensions,
        name: "JSON",
        description: "Any JSON value.",
        shape: Shape::Anything,
    },
    Component {
        package: Package::Runtime,
        name: "RawExtension",
        description: "A Kubernetes object of any type, with apiVersion and kind.",
        shape: Shape::AnyObject,
    },
    Component {
        package: Package::IntOrString,
        name: "IntOrString",
        description: "A number, or a percentage such as 25%.",
        shape: Shape::IntOrString,
    },
];

/// Conditions in the form they had before v1beta2.
pub(super) const LEGACY_CONDITIONS: Type = List(&Ref(Package::Cluster, "Condition"));
