//! Variables and patches of a ClusterClass.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kind::{AnyObject, choice, resource_struct};

resource_struct! {
    /// A variable that Clusters give a value to.
    #[schemars(extend("required" = ["name", "required", "schema"]))]
    pub struct ClusterClassVariable {
        /// Name of the variable.
        #[schemars(length(min = 1, max = 256))]
        pub name: String,
        /// Whether a value must be given.
        pub required: Option<bool>,
        /// Labels and annotations in their form before v1beta2. Kept as they came.
        #[serde(rename = "deprecatedV1Beta1Metadata")]
        #[schemars(schema_with = "crate::described::labels_and_annotations")]
        pub deprecated_v1beta1_metadata: Option<AnyObject>,
        /// What its value must look like.
        pub schema: VariableSchema,
    }
}

resource_struct! {
    /// What the value of a variable must look like.
    #[schemars(extend("required" = ["openAPIV3Schema"]))]
    pub struct VariableSchema {
        /// An OpenAPI schema, as a CustomResourceDefinition has it. Kept as it came.
        #[serde(rename = "openAPIV3Schema")]
        #[schemars(schema_with = "crate::described::open_api_schema")]
        pub open_api_v3_schema: AnyObject,
    }
}

resource_struct! {
    /// A change to templates: either inline, or by an extension.
    #[schemars(extend("required" = ["name"]))]
    pub struct ClusterClassPatch {
        /// Name of the patch.
        #[schemars(length(min = 1, max = 256))]
        pub name: String,
        /// What it is for.
        #[schemars(length(min = 1, max = 1024))]
        pub description: String,
        /// A Go template that must render to `true` for the patch to apply.
        #[schemars(length(min = 1, max = 256))]
        pub enabled_if: String,
        /// What is changed, inline.
        #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
        pub definitions: Vec<PatchDefinition>,
        /// Who changes, if not inline.
        pub external: Option<ExternalPatchDefinition>,
    }
}

resource_struct! {
    /// Changes to templates that are selected.
    #[schemars(extend("required" = ["selector", "jsonPatches"]))]
    pub struct PatchDefinition {
        /// Which templates.
        pub selector: PatchSelector,
        /// What is changed.
        #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
        pub json_patches: Vec<JsonPatch>,
    }
}

resource_struct! {
    /// Which templates a patch changes.
    #[derive(Eq)]
    #[schemars(extend("required" = ["apiVersion", "kind", "matchResources"]))]
    pub struct PatchSelector {
        /// Group and version of the template.
        #[schemars(length(min = 1, max = 317))]
        pub api_version: String,
        /// Kind of the template.
        #[schemars(length(min = 1, max = 63), regex(pattern = crate::crds::KIND))]
        pub kind: String,
        /// Where in the class the template stands.
        pub match_resources: PatchSelectorMatch,
    }
}

resource_struct! {
    /// Where in the class a template stands: one of these.
    #[derive(Eq)]
    pub struct PatchSelectorMatch {
        /// In the control plane.
        pub control_plane: Option<bool>,
        /// In the infrastructure.
        pub infrastructure_cluster: Option<bool>,
        /// In one of these classes of MachineDeployments.
        pub machine_deployment_class: Option<PatchSelectorNames>,
        /// In one of these classes of MachinePools.
        pub machine_pool_class: Option<PatchSelectorNames>,
    }
}

resource_struct! {
    /// Names of classes; a `*` may stand alone, first or last.
    #[derive(Eq)]
    pub struct PatchSelectorNames {
        /// The names.
        #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub names: Vec<String>,
    }
}

choice! {
    /// What a JSON patch does.
    pub enum JsonPatchOperation {
        /// Adds.
        Add = "add",
        /// Replaces.
        Replace = "replace",
        /// Removes.
        Remove = "remove",
    }
}

resource_struct! {
    /// One step of a JSON patch.
    #[schemars(extend("required" = ["op", "path"]))]
    pub struct JsonPatch {
        /// What is done.
        pub op: JsonPatchOperation,
        /// Where; must be below `/spec`.
        #[schemars(length(min = 1, max = 512))]
        pub path: String,
        /// With what.
        pub value: Option<Value>,
        /// With what, computed.
        pub value_from: Option<JsonPatchValue>,
    }
}

resource_struct! {
    /// A value that is computed: one of these.
    #[derive(Eq)]
    pub struct JsonPatchValue {
        /// The value of this variable, or of a field of it.
        #[schemars(length(min = 1, max = 256))]
        pub variable: String,
        /// A Go template that renders to YAML.
        #[schemars(length(min = 1, max = 10240))]
        pub template: String,
    }
}

resource_struct! {
    /// Extensions that change templates.
    #[derive(Eq)]
    pub struct ExternalPatchDefinition {
        /// `<handler>.<ExtensionConfig>` of the GeneratePatches hook.
        #[schemars(length(min = 1, max = 512))]
        pub generate_patches_extension: String,
        /// `<handler>.<ExtensionConfig>` of the ValidateTopology hook.
        #[schemars(length(min = 1, max = 512))]
        pub validate_topology_extension: String,
        /// `<handler>.<ExtensionConfig>` of the DiscoverVariables hook.
        #[schemars(length(min = 1, max = 512))]
        pub discover_variables_extension: String,
        /// Sent with every call.
        pub settings: BTreeMap<String, String>,
    }
}
