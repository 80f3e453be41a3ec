//! Topology mutation: external patches of a ClusterClass, their validation and their variables.

use std::collections::BTreeMap;

use serde_json::Value;

use super::wire::{hook_request, hook_response, hook_types, wire_struct};
use super::{PatchDocument, PatchType};
use crate::object::Object;

hook_types! {
    /// Patches for the templates of a topology.
    GeneratePatches(GeneratePatchesRequest) -> GeneratePatchesResponse;
    /// Whether the patched templates of a topology are valid.
    ValidateTopology(ValidateTopologyRequest) -> ValidateTopologyResponse;
    /// Which variables an external patch defines.
    DiscoverVariables(DiscoverVariablesRequest) -> DiscoverVariablesResponse;
}

hook_request! {
    /// Asks for patches of templates. Sent on every reconcile of the topology, so the answer must be quick
    /// and must not depend on the order of the items or on their uids.
    pub struct GeneratePatchesRequest for GeneratePatches {
        /// Variables that hold for every item.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub variables: Vec<Variable>,
        /// The templates.
        pub items: Vec<GeneratePatchesRequestItem>,
    }
}

wire_struct! {
    /// A template to be patched.
    #[derive(Default)]
    pub struct GeneratePatchesRequestItem {
        /// Ties a patch to its template. Random, and new in every request.
        pub uid: String,
        /// The object that refers to the template.
        pub holder_reference: HolderReference,
        /// The template.
        pub object: Object,
        /// Variables that hold for this template only; they go before those of the request.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub variables: Vec<Variable>,
    }
}

hook_response! {
    /// Patches of templates. A template that needs no change needs no item.
    pub struct GeneratePatchesResponse for GeneratePatches {
        /// The patches. Several for one template are applied in this order.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub items: Vec<GeneratePatchesResponseItem>,
    }
}

wire_struct! {
    /// A patch of a template. Only `spec` and the labels and annotations of the template change; whatever
    /// else it touches is dropped without a word.
    #[derive(Default, Eq)]
    pub struct GeneratePatchesResponseItem {
        /// Which template. One that was not in the request makes the caller fail.
        pub uid: String,
        /// JSONPatch or JSONMergePatch.
        pub patch_type: PatchType,
        /// The patch, a JSON document.
        pub patch: PatchDocument,
    }
}

hook_request! {
    /// Asks whether the templates, with all patches of all extensions applied, are valid.
    pub struct ValidateTopologyRequest for ValidateTopology {
        /// Variables that hold for every item.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub variables: Vec<Variable>,
        /// The templates.
        pub items: Vec<ValidateTopologyRequestItem>,
    }
}

wire_struct! {
    /// A template to be validated.
    #[derive(Default)]
    pub struct ValidateTopologyRequestItem {
        /// The object that refers to the template.
        pub holder_reference: HolderReference,
        /// The template.
        pub object: Object,
        /// Variables that hold for this template only; they go before those of the request.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub variables: Vec<Variable>,
    }
}

hook_response! {
    /// A failure means that the topology is not valid; the message says why.
    pub struct ValidateTopologyResponse for ValidateTopology {}
}

hook_request! {
    /// Asks which variables an external patch defines. Answers are kept for minutes.
    pub struct DiscoverVariablesRequest for DiscoverVariables {}
}

hook_response! {
    /// The variables that an external patch defines.
    pub struct DiscoverVariablesResponse for DiscoverVariables {
        /// The variables. A name that another patch defines differently stops all Clusters of the class.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub variables: Vec<ClusterClassVariable>,
    }
}

wire_struct! {
    /// A variable with its value.
    #[derive(Default, Eq)]
    pub struct Variable {
        /// Name of the variable. `builtin` holds what the caller knows about the Cluster itself.
        pub name: String,
        /// Any JSON.
        pub value: Value,
    }
}

wire_struct! {
    /// The object that refers to a template, and where.
    #[derive(Default, Eq, Hash)]
    pub struct HolderReference {
        /// Group and version of the object.
        pub api_version: String,
        /// Kind of the object.
        pub kind: String,
        /// Namespace of the object.
        pub namespace: String,
        /// Name of the object.
        pub name: String,
        /// Path of the field that refers to the template, for example `spec.infrastructureRef`.
        pub field_path: String,
    }
}

wire_struct! {
    /// Definition of a variable.
    #[derive(Default)]
    #[schemars(extend("required" = ["name", "required", "schema"]))]
    pub struct ClusterClassVariable {
        /// Name of the variable.
        #[schemars(length(min = 1))]
        pub name: String,
        /// Whether a Cluster must set it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub required: Option<bool>,
        /// Labels and annotations, which nothing reads; upstream will remove them.
        #[serde(rename = "deprecatedV1Beta1Metadata", skip_serializing_if = "Option::is_none")]
        pub deprecated_v1beta1_metadata: Option<ClusterClassVariableMetadata>,
        /// Which values are valid.
        pub schema: VariableSchema,
    }
}

wire_struct! {
    /// Labels and annotations of a variable.
    #[derive(Default, Eq)]
    pub struct ClusterClassVariableMetadata {
        /// Labels that v1beta1 had here.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub labels: BTreeMap<String, String>,
        /// Annotations that v1beta1 had here.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub annotations: BTreeMap<String, String>,
    }
}

wire_struct! {
    /// The schema of a variable.
    #[derive(Default, Eq)]
    pub struct VariableSchema {
        /// An OpenAPI v3 schema in the dialect of CustomResourceDefinitions, kept as it came.
        #[serde(rename = "openAPIV3Schema")]
        pub open_api_v3_schema: Object,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_golden_patches_are_read_and_written_unchanged() {
        let wire = concat!(
            r#"{"status":"Success","items":[{"uid":"3f0c1d1e-0000-4000-8000-000000000001","patchType":"JSONPatch","#,
            r#""patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvdGVtcGxhdGUvc3BlYy94IiwidmFsdWUiOjF9XQ=="}]}"#
        );
        let response: GeneratePatchesResponse = serde_json::from_str(wire).unwrap();
        let patch = &response.items[0].patch;
        assert_eq!(
            patch.to_json().unwrap(),
            json!([{"op": "add", "path": "/spec/template/spec/x", "value": 1}])
        );
        assert_eq!(serde_json::to_string(&response).unwrap(), wire);
    }

    #[test]
    fn items_of_a_request_are_written_even_if_there_are_none() {
        assert_eq!(
            serde_json::to_string(&ValidateTopologyRequest::default()).unwrap(),
            r#"{"kind":"ValidateTopologyRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","items":[]}"#
        );
        let request: GeneratePatchesRequest =
            serde_json::from_str(r#"{"items":null,"variables":null}"#).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"items":[]}"#);
    }

    #[test]
    fn a_request_is_written_in_the_order_of_the_contract() {
        let variable = Variable { name: "imageRepository".to_owned(), value: json!("registry.example") };
        let holder_reference = HolderReference {
            api_version: "cluster.x-k8s.io/v1beta2".to_owned(),
            kind: "Cluster".to_owned(),
            namespace: "ns1".to_owned(),
            name: "c1".to_owned(),
            field_path: "spec.infrastructureRef".to_owned(),
        };
        let item = GeneratePatchesRequestItem {
            uid: "1".to_owned(),
            holder_reference: holder_reference.clone(),
            object: Object::try_from(json!({"kind": "DevClusterTemplate"})).unwrap(),
            variables: vec![variable.clone()],
        };
        let request =
            GeneratePatchesRequest { variables: vec![variable], items: vec![item], ..Default::default() };
        let wire = concat!(
            r#"{"kind":"GeneratePatchesRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","#,
            r#""variables":[{"name":"imageRepository","value":"registry.example"}],"#,
            r#""items":[{"uid":"1","holderReference":{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","#,
            r#""namespace":"ns1","name":"c1","fieldPath":"spec.infrastructureRef"},"#,
            r#""object":{"kind":"DevClusterTemplate"},"#,
            r#""variables":[{"name":"imageRepository","value":"registry.example"}]}]}"#
        );
        assert_eq!(serde_json::to_string(&request).unwrap(), wire);
        assert_eq!(serde_json::from_str::<GeneratePatchesRequest>(wire).unwrap(), request);
    }

    #[test]
    fn a_variable_definition_keeps_its_schema() {
        let wire = concat!(
            r#"{"status":"Success","variables":[{"name":"size","required":false,"#,
            r#""deprecatedV1Beta1Metadata":{"labels":{"a":"b"}},"#,
            r#""schema":{"openAPIV3Schema":{"enum":[1,2],"type":"integer","x-new":{}}}}]}"#
        );
        let response: DiscoverVariablesResponse = serde_json::from_str(wire).unwrap();
        assert_eq!(response.variables[0].required, Some(false));
        assert_eq!(serde_json::to_string(&response).unwrap(), wire);
    }
}
