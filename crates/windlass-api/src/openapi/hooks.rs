//! Schemas of the requests and responses themselves.

use super::kubernetes::{JSON, RAW_EXTENSION, TYPE_META};
use super::schema::Type::{Bool, Bytes, Inline, Int32, List, ListMap, OneOf, Ref, Text};
use super::schema::{Component, Field, Package, Shape, TEXTS, Type, always, optional, pointer, required};

const fn named(name: &'static str) -> Type {
    Ref(Package::Hooks, name)
}

const fn component(
    name: &'static str,
    description: &'static str,
    groups: &'static [&'static [Field]],
) -> Component {
    Component { package: Package::Hooks, name, description, shape: Shape::Fields(groups) }
}

const SETTINGS: &[Field] = &[optional("settings", TEXTS, "Settings of the extension.")];

const STATUS: &[Field] = &[
    always("status", OneOf(&["Failure", "Success"]), "Whether the extension could do what it was asked."),
    optional(
        "message",
        Text,
        "Why not, or what a blocking extension waits for. The same for the same situation.",
    ),
];

const RETRY: &[Field] = &[always(
    "retryAfterSeconds",
    Int32,
    "0 lets the caller go on; more makes it wait and call again after about that long.",
)];

const CLUSTER: &[Field] = &[always("cluster", Ref(Package::Cluster, "Cluster"), "The Cluster.")];

const FROM_TO: &[Field] = &[
    always("fromKubernetesVersion", Text, "The current version."),
    always("toKubernetesVersion", Text, "The version to be reached."),
];

const REACHED: &[Field] = &[always("kubernetesVersion", Text, "The version that was reached.")];

const PLAN: &[Field] = &[
    optional(
        "controlPlaneUpgrades",
        List(&named("UpgradeStepInfo")),
        "Versions that the control plane still goes through, the target included.",
    ),
    optional(
        "workersUpgrades",
        List(&named("UpgradeStepInfo")),
        "Versions that the workers still go through, the target included.",
    ),
    optional(
        "upgradePlan",
        Inline(&[
            optional("controlPlane", List(&Text), "The same as controlPlaneUpgrades."),
            optional("workers", List(&Text), "The same as workersUpgrades."),
        ]),
        "The same two lists in another form.",
    ),
];

const AFFECTS_AVAILABILITY: &[Field] = &[pointer(
    "affectsAvailability",
    Bool,
    "Whether Machines serve nobody while they are updated. Absent means that they do not.",
)];

const VARIABLES: Field =
    optional("variables", List(&named("Variable")), "Variables that hold for every item.");

const MACHINE_OBJECTS: &[Field] = &[
    required("machine", Ref(Package::Cluster, "Machine"), "The Machine."),
    required("infrastructureMachine", RAW_EXTENSION, "Its infrastructure."),
    optional("bootstrapConfig", RAW_EXTENSION, "Its bootstrap config, if it has one."),
];

pub(super) const COMPONENTS: &[Component] = &[
    component("DiscoveryRequest", "Asks for the handlers of an extension.", &[TYPE_META]),
    component(
        "DiscoveryResponse",
        "The handlers of an extension.",
        &[
            TYPE_META,
            STATUS,
            &[optional(
                "handlers",
                ListMap(&named("ExtensionHandler"), &["name"]),
                "The handlers. One that the caller cannot use makes it refuse all of them.",
            )],
        ],
    ),
    component(
        "ExtensionHandler",
        "A handler of an extension.",
        &[&[
            always("name", Text, "An RFC 1123 label, unique among all handlers of the extension."),
            always("requestHook", named("GroupVersionHook"), "Which hook it handles."),
            pointer("timeoutSeconds", Int32, "How long the caller waits, 0 to 30. 0 and absence mean 10."),
            pointer(
                "failurePolicy",
                Text,
                "Fail (the default), or Ignore to count a call that does not get through as a success.",
            ),
        ]],
    ),
    component(
        "GroupVersionHook",
        "A hook.",
        &[&[
            always("apiVersion", Text, "Group and version of the hook."),
            always("hook", Text, "Name of the hook in CamelCase."),
        ]],
    ),
    component(
        "BeforeClusterCreateRequest",
        "The request of BeforeClusterCreate.",
        &[TYPE_META, SETTINGS, CLUSTER],
    ),
    component(
        "BeforeClusterCreateResponse",
        "The response of BeforeClusterCreate.",
        &[TYPE_META, STATUS, RETRY],
    ),
    component(
        "AfterControlPlaneInitializedRequest",
        "The request of AfterControlPlaneInitialized.",
        &[TYPE_META, SETTINGS, CLUSTER],
    ),
    component(
        "AfterControlPlaneInitializedResponse",
        "The response of AfterControlPlaneInitialized. Cannot make the caller wait.",
        &[TYPE_META, STATUS],
    ),
    component(
        "BeforeClusterUpgradeRequest",
        "The request of BeforeClusterUpgrade.",
        &[TYPE_META, SETTINGS, CLUSTER, FROM_TO, PLAN],
    ),
    component(
        "BeforeClusterUpgradeResponse",
        "The response of BeforeClusterUpgrade.",
        &[TYPE_META, STATUS, RETRY],
    ),
    component(
        "BeforeControlPlaneUpgradeRequest",
        "The request of BeforeControlPlaneUpgrade.",
        &[TYPE_META, SETTINGS, CLUSTER, FROM_TO, PLAN],
    ),
    component(
        "BeforeControlPlaneUpgradeResponse",
        "The response of BeforeControlPlaneUpgrade.",
        &[TYPE_META, STATUS, RETRY],
    ),
    component(
        "AfterControlPlaneUpgradeRequest",
        "The request of AfterControlPlaneUpgrade.",
        &[TYPE_META, SETTINGS, CLUSTER, REACHED, PLAN],
    ),
    component(
        "AfterControlPlaneUpgradeResponse",
        "The response of AfterControlPlaneUpgrade.",
        &[TYPE_META, STATUS, RETRY],
    ),
    component(
        "BeforeWorkersUpgradeRequest",
        "The request of BeforeWorkersUpgrade.",
        &[TYPE_META, SETTINGS, CLUSTER, FROM_TO, PLAN],
    ),
    component(
        "BeforeWorkersUpgradeResponse",
        "The response of BeforeWorkersUpgrade.",
        &[TYPE_META, STATUS, RETRY],
    ),
    component(
        "AfterWorkersUpgradeRequest",
        "The request of AfterWorkersUpgrade.",
        &[TYPE_META, SETTINGS, CLUSTER, REACHED, PLAN],
    ),
    component(
        "AfterWorkersUpgradeResponse",
        "The response of AfterWorkersUpgrade. At the target version the retry time is ignored.",
        &[TYPE_META, STATUS, RETRY],
    ),
    component(
        "AfterClusterUpgradeRequest",
        "The request of AfterClusterUpgrade.",
        &[TYPE_META, SETTINGS, CLUSTER, REACHED],
    ),
    component(
        "AfterClusterUpgradeResponse",
        "The response of AfterClusterUpgrade.",
        &[TYPE_META, STATUS, RETRY],
    ),
    component(
        "BeforeClusterDeleteRequest",
        "The request of BeforeClusterDelete.",
        &[TYPE_META, SETTINGS, CLUSTER],
    ),
    component(
        "BeforeClusterDeleteResponse",
        "The response of BeforeClusterDelete.",
        &[TYPE_META, STATUS, RETRY],
    ),
    component(
        "UpgradeStepInfo",
        "A step of an upgrade.",
        &[&[required("version", Text, "The version that the step leads to.")]],
    ),
    component(
        "GenerateUpgradePlanRequest",
        "The request of GenerateUpgradePlan.",
        &[
            TYPE_META,
            SETTINGS,
            &[
                required("cluster", Ref(Package::Cluster, "Cluster"), "The Cluster to be upgraded."),
                optional("fromKubernetesVersion", Text, "The same as fromControlPlaneKubernetesVersion."),
                required("fromControlPlaneKubernetesVersion", Text, "Version of the control plane."),
                optional(
                    "fromWorkersKubernetesVersion",
                    Text,
                    "Oldest version among the workers; absent if there are none.",
                ),
                required("toKubernetesVersion", Text, "The version that everything shall reach."),
            ],
        ],
    ),
    component(
        "GenerateUpgradePlanResponse",
        "The response of GenerateUpgradePlan.",
        &[
            TYPE_META,
            STATUS,
            &[
                optional(
                    "controlPlaneUpgrades",
                    List(&named("UpgradeStep")),
                    "Steps of the control plane. Empty only if it is at the target already.",
                ),
                optional(
                    "workersUpgrades",
                    List(&named("UpgradeStep")),
                    "Steps of the workers. If empty, the caller works out the fewest.",
                ),
            ],
        ],
    ),
    component(
        "UpgradeStep",
        "A step of an upgrade.",
        &[&[required("version", Text, "The version that the step leads to.")]],
    ),
    component(
        "CanUpdateMachineRequest",
        "The request of CanUpdateMachine.",
        &[
            TYPE_META,
            SETTINGS,
            &[
                required("current", named("CanUpdateMachineRequestObjects"), "The Machine as it is."),
                required("desired", named("CanUpdateMachineRequestObjects"), "The Machine as it shall be."),
            ],
        ],
    ),
    component("CanUpdateMachineRequestObjects", "A Machine and what belongs to it.", &[MACHINE_OBJECTS]),
    component(
        "CanUpdateMachineResponse",
        "The response of CanUpdateMachine: what the extension can change in place.",
        &[
            TYPE_META,
            STATUS,
            &[
                optional("machinePatch", named("Patch"), "Patch of the spec of the Machine."),
                optional(
                    "infrastructureMachinePatch",
                    named("Patch"),
                    "Patch of the spec of the infrastructure.",
                ),
                optional(
                    "bootstrapConfigPatch",
                    named("Patch"),
                    "Patch of the spec of the bootstrap config.",
                ),
            ],
            AFFECTS_AVAILABILITY,
        ],
    ),
    component(
        "CanUpdateMachineSetRequest",
        "The request of CanUpdateMachineSet.",
        &[
            TYPE_META,
            SETTINGS,
            &[
                required("current", named("CanUpdateMachineSetRequestObjects"), "The old MachineSet."),
                required("desired", named("CanUpdateMachineSetRequestObjects"), "The new MachineSet."),
            ],
        ],
    ),
    component(
        "CanUpdateMachineSetRequestObjects",
        "A MachineSet and its templates.",
        &[&[
            required("machineSet", Ref(Package::Cluster, "MachineSet"), "The MachineSet."),
            required("infrastructureMachineTemplate", RAW_EXTENSION, "Template of the infrastructure."),
            optional(
                "bootstrapConfigTemplate",
                RAW_EXTENSION,
                "Template of the bootstrap config, if there is one.",
            ),
        ]],
    ),
    component(
        "CanUpdateMachineSetResponse",
        "The response of CanUpdateMachineSet: what the extension can change in place.",
        &[
            TYPE_META,
            STATUS,
            &[
                optional("machineSetPatch", named("Patch"), "Patch of spec.template.spec of the MachineSet."),
                optional(
                    "infrastructureMachineTemplatePatch",
                    named("Patch"),
                    "Patch of spec.template.spec of the infrastructure template.",
                ),
                optional(
                    "bootstrapConfigTemplatePatch",
                    named("Patch"),
                    "Patch of spec.template.spec of the bootstrap config template.",
                ),
            ],
            AFFECTS_AVAILABILITY,
        ],
    ),
    component(
        "UpdateMachineRequest",
        "The request of UpdateMachine.",
        &[
            TYPE_META,
            SETTINGS,
            &[required("desired", named("UpdateMachineRequestObjects"), "The Machine as it shall be.")],
        ],
    ),
    component("UpdateMachineRequestObjects", "A Machine and what belongs to it.", &[MACHINE_OBJECTS]),
    component(
        "UpdateMachineResponse",
        "The response of UpdateMachine. With a retry time the update is under way, without one it is done.",
        &[TYPE_META, STATUS, RETRY],
    ),
    component(
        "ExternalUpdateRequest",
        "The request of ExternalUpdate.",
        &[
            TYPE_META,
            SETTINGS,
            CLUSTER,
            &[
                always("owner", named("UpdateOwner"), "Who owns the Machines and asks for the update."),
                always(
                    "machines",
                    List(&Ref(Package::Cluster, "Machine")),
                    "The Machines that are not as desired yet, as they are.",
                ),
                required(
                    "desired",
                    named("ExternalUpdateRequestObjects"),
                    "What each of them, its infrastructure and its bootstrap config shall be. They have no names.",
                ),
            ],
        ],
    ),
    component("ExternalUpdateRequestObjects", "A Machine and what belongs to it.", &[MACHINE_OBJECTS]),
    component(
        "UpdateOwner",
        "A MachineDeployment or a control plane.",
        &[&[
            always("apiVersion", Text, "Group and version of the object."),
            always("kind", Text, "Kind of the object."),
            always("namespace", Text, "Namespace of the object."),
            always("name", Text, "Name of the object."),
        ]],
    ),
    component(
        "ExternalUpdateResponse",
        "The response of ExternalUpdate. With a retry time the caller asks again after it; a refusal then withdraws what \
         was accepted.",
        &[
            TYPE_META,
            STATUS,
            RETRY,
            &[
                always("accepted", Bool, "Whether the extension takes over the update."),
                optional("reason", Text, "Why not, or what it is doing. Shown to people."),
            ],
        ],
    ),
    component(
        "Patch",
        "A patch of an object.",
        &[&[
            required("patchType", Text, "JSONPatch or JSONMergePatch."),
            required("patch", Bytes, "The patch, a JSON document."),
        ]],
    ),
    component(
        "GeneratePatchesRequest",
        "The request of GeneratePatches.",
        &[
            TYPE_META,
            SETTINGS,
            &[
                VARIABLES,
                always("items", List(&named("GeneratePatchesRequestItem")), "The templates to be patched."),
            ],
        ],
    ),
    component(
        "GeneratePatchesRequestItem",
        "A template to be patched.",
        &[&[
            always("uid", Text, "Ties a patch to its template. New in every request."),
            always("holderReference", named("HolderReference"), "The object that refers to the template."),
            always("object", RAW_EXTENSION, "The template."),
            optional("variables", List(&named("Variable")), "Variables that hold for this template only."),
        ]],
    ),
    component(
        "GeneratePatchesResponse",
        "The response of GeneratePatches.",
        &[
            TYPE_META,
            STATUS,
            &[optional(
                "items",
                List(&named("GeneratePatchesResponseItem")),
                "Patches, applied in this order. A template that needs no change needs none.",
            )],
        ],
    ),
    component(
        "GeneratePatchesResponseItem",
        "A patch of a template.",
        &[&[
            always("uid", Text, "Which template; must be from the request."),
            always("patchType", Text, "JSONPatch or JSONMergePatch."),
            always("patch", Bytes, "The patch, a JSON document."),
        ]],
    ),
    component(
        "HolderReference",
        "The object that refers to a template, and where.",
        &[&[
            always("apiVersion", Text, "Group and version of the object."),
            always("kind", Text, "Kind of the object."),
            always("namespace", Text, "Namespace of the object."),
            always("name", Text, "Name of the object."),
            always("fieldPath", Text, "Path of the field that refers to the template."),
        ]],
    ),
    component(
        "Variable",
        "A variable with its value.",
        &[&[always("name", Text, "Name of the variable."), always("value", JSON, "Any JSON.")]],
    ),
    component(
        "ValidateTopologyRequest",
        "The request of ValidateTopology.",
        &[
            TYPE_META,
            SETTINGS,
            &[
                VARIABLES,
                always(
                    "items",
                    List(&named("ValidateTopologyRequestItem")),
                    "The templates, with all patches applied.",
                ),
            ],
        ],
    ),
    component(
        "ValidateTopologyRequestItem",
        "A template to be validated.",
        &[&[
            always("holderReference", named("HolderReference"), "The object that refers to the template."),
            always("object", RAW_EXTENSION, "The template."),
            optional("variables", List(&named("Variable")), "Variables that hold for this template only."),
        ]],
    ),
    component(
        "ValidateTopologyResponse",
        "The response of ValidateTopology. A failure means that the topology is not valid.",
        &[TYPE_META, STATUS],
    ),
    component("DiscoverVariablesRequest", "The request of DiscoverVariables.", &[TYPE_META, SETTINGS]),
    component(
        "DiscoverVariablesResponse",
        "The response of DiscoverVariables.",
        &[
            TYPE_META,
            STATUS,
            &[optional(
                "variables",
                List(&Ref(Package::Cluster, "ClusterClassVariable")),
                "The variables that the extension defines.",
            )],
        ],
    ),
];
