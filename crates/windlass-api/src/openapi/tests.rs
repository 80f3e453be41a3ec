use std::collections::BTreeSet;

use super::*;
use crate::hooks::*;

const HOOKS: &str = "sigs.k8s.io.cluster-api.api.runtime.hooks.v1alpha1";

/// `required` of every component of the hooks, as the contract lists them. The rest require nothing.
const REQUIRED: &[(&str, &[&str])] = &[
    ("AfterClusterUpgradeRequest", &["cluster", "kubernetesVersion"]),
    ("AfterClusterUpgradeResponse", &["status", "retryAfterSeconds"]),
    ("AfterControlPlaneInitializedRequest", &["cluster"]),
    ("AfterControlPlaneInitializedResponse", &["status"]),
    ("AfterControlPlaneUpgradeRequest", &["cluster", "kubernetesVersion"]),
    ("AfterControlPlaneUpgradeResponse", &["status", "retryAfterSeconds"]),
    ("AfterWorkersUpgradeRequest", &["cluster", "kubernetesVersion"]),
    ("AfterWorkersUpgradeResponse", &["status", "retryAfterSeconds"]),
    ("BeforeClusterCreateRequest", &["cluster"]),
    ("BeforeClusterCreateResponse", &["status", "retryAfterSeconds"]),
    ("BeforeClusterDeleteRequest", &["cluster"]),
    ("BeforeClusterDeleteResponse", &["status", "retryAfterSeconds"]),
    ("BeforeClusterUpgradeRequest", &["cluster", "fromKubernetesVersion", "toKubernetesVersion"]),
    ("BeforeClusterUpgradeResponse", &["status", "retryAfterSeconds"]),
    ("BeforeControlPlaneUpgradeRequest", &["cluster", "fromKubernetesVersion", "toKubernetesVersion"]),
    ("BeforeControlPlaneUpgradeResponse", &["status", "retryAfterSeconds"]),
    ("BeforeWorkersUpgradeRequest", &["cluster", "fromKubernetesVersion", "toKubernetesVersion"]),
    ("BeforeWorkersUpgradeResponse", &["status", "retryAfterSeconds"]),
    ("CanUpdateMachineRequest", &["current", "desired"]),
    ("CanUpdateMachineRequestObjects", &["machine", "infrastructureMachine"]),
    ("CanUpdateMachineResponse", &["status"]),
    ("CanUpdateMachineSetRequest", &["current", "desired"]),
    ("CanUpdateMachineSetRequestObjects", &["machineSet", "infrastructureMachineTemplate"]),
    ("CanUpdateMachineSetResponse", &["status"]),
    ("DiscoverVariablesRequest", &[]),
    ("DiscoverVariablesResponse", &["status"]),
    ("DiscoveryRequest", &[]),
    ("DiscoveryResponse", &["status"]),
    ("ExtensionHandler", &["name", "requestHook"]),
    ("ExternalUpdateRequest", &["cluster", "owner", "machines", "desired"]),
    ("ExternalUpdateRequestObjects", &["machine", "infrastructureMachine"]),
    ("ExternalUpdateResponse", &["status", "retryAfterSeconds", "accepted"]),
    ("GeneratePatchesRequest", &["items"]),
    ("GeneratePatchesRequestItem", &["uid", "holderReference", "object"]),
    ("GeneratePatchesResponse", &["status"]),
    ("GeneratePatchesResponseItem", &["uid", "patchType", "patch"]),
    ("GenerateUpgradePlanRequest", &["cluster", "fromControlPlaneKubernetesVersion", "toKubernetesVersion"]),
    ("GenerateUpgradePlanResponse", &["status"]),
    ("GroupVersionHook", &["apiVersion", "hook"]),
    ("HolderReference", &["apiVersion", "kind", "namespace", "name", "fieldPath"]),
    ("Patch", &["patchType", "patch"]),
    ("UpdateMachineRequest", &["desired"]),
    ("UpdateMachineRequestObjects", &["machine", "infrastructureMachine"]),
    ("UpdateMachineResponse", &["status", "retryAfterSeconds"]),
    ("UpdateOwner", &["apiVersion", "kind", "namespace", "name"]),
    ("UpgradeStep", &["version"]),
    ("UpgradeStepInfo", &["version"]),
    ("ValidateTopologyRequest", &["items"]),
    ("ValidateTopologyRequestItem", &["holderReference", "object"]),
    ("ValidateTopologyResponse", &["status"]),
    ("Variable", &["name", "value"]),
];

fn schemas() -> Map<String, Value> {
    document("test")["components"]["schemas"].as_object().unwrap().clone()
}

fn hook_schema(name: &str) -> Value {
    schemas()[&format!("{HOOKS}.{name}")].clone()
}

/// Every `$ref` below a value.
fn references(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| match value {
                Value::String(target) if key == "$ref" => BTreeSet::from([target.clone()]),
                other => references(other),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn the_document_says_what_it_is() {
    let document = document("v9.9.9");
    assert_eq!(document["openapi"], "3.0.0");
    assert_eq!(document["info"]["title"], "Cluster API - Runtime SDK");
    assert_eq!(document["info"]["version"], "v9.9.9");
    assert_eq!(
        document["info"]["license"],
        json!({"name": "Apache 2.0", "url": "http://www.apache.org/licenses/LICENSE-2.0.html"})
    );
    assert_eq!(
        document.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["components", "info", "openapi", "paths"]
    );
}

#[test]
fn keys_are_in_alphabetical_order() {
    fn check(value: &Value) {
        match value {
            Value::Object(fields) => {
                assert!(fields.keys().is_sorted(), "{:?}", fields.keys());
                fields.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    check(&document("test"));
}

#[test]
fn every_hook_has_one_operation() {
    let document = document("test");
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), Hook::ALL.len());
    for hook in Hook::ALL {
        let tail = if hook == Hook::Discovery { "" } else { "/{name}" };
        let segment = hook.name().to_lowercase();
        let item = &paths[&format!("/hooks.runtime.cluster.x-k8s.io/v1alpha1/{segment}{tail}")];
        assert_eq!(item.as_object().unwrap().keys().collect::<Vec<_>>(), ["post"]);
        let operation = &item["post"];
        assert_eq!(operation["operationId"], format!("hooksRuntimeClusterV1alpha1{hook}"));
        assert_eq!(operation["tags"], json!([hook.tag().as_str()]));
        assert_eq!(operation.get("deprecated"), None);
        let content = |kind: &str| json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{HOOKS}.{hook}{kind}")}}});
        assert_eq!(operation["requestBody"], json!({"content": content("Request")}));
        let responses = operation["responses"].as_object().unwrap();
        assert_eq!(responses.keys().collect::<Vec<_>>(), ["200"]);
        assert_eq!(responses["200"]["content"], content("Response"));
        for prose in [&operation["summary"], &operation["description"], &responses["200"]["description"]] {
            assert!(prose.as_str().is_some_and(|text| !text.is_empty()), "{hook}");
        }
    }
}

#[test]
fn only_discovery_has_no_handler_in_its_path() {
    let document = document("test");
    for (path, item) in document["paths"].as_object().unwrap() {
        let parameters = item["post"].get("parameters");
        if path.ends_with("/discovery") {
            assert_eq!(parameters, None);
        } else {
            let parameter = &parameters.unwrap()[0];
            assert_eq!(
                (&parameter["name"], &parameter["in"], &parameter["required"], &parameter["schema"]),
                (&json!("name"), &json!("path"), &json!(true), &json!({"type": "string"}))
            );
        }
    }
}

#[test]
fn references_and_components_are_the_same_set() {
    let document = document("test");
    let referred = references(&document);
    let defined: BTreeSet<String> =
        schemas().keys().map(|name| format!("#/components/schemas/{name}")).collect();
    assert_eq!(referred, defined);
}

#[test]
fn every_row_of_the_tables_is_used() {
    use super::names::{KNOWN_OBJECTS, LISTS, NAMES, OF_CLUSTER_GROUP};

    let schemas = schemas();
    let components: BTreeSet<&str> = schemas.keys().filter_map(|name| name.rsplit('.').next()).collect();
    let places: BTreeSet<String> = schemas
        .iter()
        .flat_map(|(name, schema)| {
            let component = name.rsplit('.').next().unwrap();
            let fields = schema["properties"].as_object().into_iter().flatten();
            fields.map(move |(field, _)| format!("{component}.{field}"))
        })
        .collect();
    for (_, at, name) in NAMES {
        assert!(places.iter().any(|place| place.ends_with(at)), "{at}");
        let end = name.strip_prefix('*').unwrap_or(name);
        assert!(components.iter().any(|component| component.ends_with(end)), "{name}");
    }
    for at in KNOWN_OBJECTS.iter().map(|(at, _)| at).chain(LISTS.iter().map(|(at, ..)| at)) {
        assert!(places.iter().any(|place| place.ends_with(at)), "{at}");
    }
    for name in OF_CLUSTER_GROUP {
        assert!(components.contains(name), "{name}");
    }
}

#[test]
fn every_component_and_every_field_says_what_it_is() {
    for (name, schema) in schemas() {
        let describes = |schema: &Value| schema["description"].as_str().is_some_and(|text| !text.is_empty());
        assert!(describes(&schema), "{name}");
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            assert!(describes(schema), "{name}.{field}");
            let text = schema["description"].as_str().unwrap();
            assert!(!text.contains("[`") && !text.contains('\n'), "{name}.{field}: {text}");
        }
    }
}

#[test]
fn components_are_named_after_their_go_types() {
    let schemas = schemas();
    for name in [
        "sigs.k8s.io.cluster-api.api.runtime.hooks.v1alpha1.BeforeClusterUpgradeRequest",
        "sigs.k8s.io.cluster-api.api.core.v1beta2.Cluster",
        "sigs.k8s.io.cluster-api.api.core.v1beta2.Machine",
        "sigs.k8s.io.cluster-api.api.core.v1beta2.MachineSet",
        "sigs.k8s.io.cluster-api.api.core.v1beta2.ClusterClassVariable",
        "k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        "k8s.io.apimachinery.pkg.runtime.RawExtension",
        "k8s.io.apimachinery.pkg.util.intstr.IntOrString",
        "k8s.io.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
        "k8s.io.api.core.v1.NodeSystemInfo",
    ] {
        assert!(schemas.contains_key(name), "{name}");
    }
    for absent in ["CommonRequest", "CommonResponse", "CommonRetryResponse", "Builtins"] {
        assert!(!schemas.contains_key(&format!("{HOOKS}.{absent}")), "{absent}");
    }
}

#[test]
fn required_fields_are_those_of_the_contract() {
    let ours: Vec<(String, Value)> = schemas()
        .into_iter()
        .filter_map(|(name, schema)| {
            let name = name.strip_prefix(HOOKS)?.strip_prefix('.')?.to_owned();
            Some((name, schema.get("required").cloned().unwrap_or_else(|| json!([]))))
        })
        .collect();
    let contract: Vec<(String, Value)> =
        REQUIRED.iter().map(|&(name, required)| (name.to_owned(), json!(required))).collect();
    assert_eq!(ours, contract);
}

#[test]
fn required_fields_exist_and_lists_of_them_are_not_empty() {
    for (name, schema) in schemas() {
        if let Some(required) = schema.get("required") {
            let required = required.as_array().unwrap();
            assert!(!required.is_empty(), "{name}");
            for field in required {
                assert!(schema["properties"].get(field.as_str().unwrap()).is_some(), "{name}.{field}");
            }
        }
    }
}

#[test]
fn fields_follow_the_conventions_of_generated_schemas() {
    let response = hook_schema("BeforeClusterUpgradeResponse");
    let status = &response["properties"]["status"];
    assert_eq!(status["enum"], json!(["Failure", "Success"]));
    assert_eq!(status.get("default"), None, "the empty text is not one of the values");
    let retry = &response["properties"]["retryAfterSeconds"];
    assert_eq!((&retry["type"], &retry["format"]), (&json!("integer"), &json!("int32")));
    assert_eq!(retry["default"], 0);
    assert_eq!(response["properties"]["message"].get("default"), None);

    let handlers = &hook_schema("DiscoveryResponse")["properties"]["handlers"];
    assert_eq!(handlers["x-kubernetes-list-type"], "map");
    assert_eq!(handlers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(handlers["items"].get("default"), None, "a handler has required fields");
    let spec = &schemas()["sigs.k8s.io.cluster-api.api.core.v1beta2.Cluster"]["properties"]["spec"];
    assert_eq!(spec["default"], json!({}));
    let settings = &hook_schema("BeforeClusterUpgradeRequest")["properties"]["settings"];
    assert_eq!(settings["additionalProperties"], json!({"default": "", "type": "string"}));
    assert_eq!(hook_schema("HolderReference")["properties"]["name"]["default"], "");

    let patch = &hook_schema("Patch")["properties"];
    assert_eq!((&patch["patch"]["type"], &patch["patch"]["format"]), (&json!("string"), &json!("byte")));
    assert_eq!(patch["patchType"].get("enum"), None);
    assert_eq!(hook_schema("ExtensionHandler")["properties"]["failurePolicy"].get("enum"), None);

    let item = &hook_schema("GeneratePatchesRequestItem")["properties"];
    assert_eq!(item["object"].get("default"), None);
    assert_eq!(hook_schema("Variable")["properties"]["value"].get("default"), None);
    assert_eq!(schemas()["k8s.io.apimachinery.pkg.runtime.RawExtension"]["type"], "object");
}

#[test]
fn a_reference_never_has_siblings() {
    fn check(value: &Value) {
        match value {
            Value::Object(fields) => {
                assert!(!fields.contains_key("$ref") || fields.len() == 1, "{value}");
                fields.values().for_each(check);
            }
            Value::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    check(&document("test"));
}

/// A value that has every field of a schema. References are followed only so far, because some schemas
/// contain themselves.
fn sample(schemas: &Map<String, Value>, schema: &Value, depth: usize) -> Value {
    let target = schema.get("$ref").or_else(|| schema["allOf"].get(0)?.get("$ref"));
    if let Some(target) = target {
        let name = target.as_str().unwrap().strip_prefix("#/components/schemas/").unwrap();
        return if depth == 0 { json!({}) } else { sample(schemas, &schemas[name], depth - 1) };
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {
            let mut fields = Map::new();
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                fields.insert(name.clone(), sample(schemas, field, depth));
            }
            if let Some(value) = schema.get("additionalProperties") {
                fields.insert("key".to_owned(), sample(schemas, value, depth));
            }
            Value::Object(fields)
        }
        Some("array") => json!([sample(schemas, &schema["items"], depth)]),
        Some("string") if schema.get("format") == Some(&json!("byte")) => json!("e30="),
        Some("string") => schema.get("enum").map_or(json!("text"), |values| values[0].clone()),
        Some("integer") => json!(1),
        Some("boolean") => json!(true),
        _ => json!("anything"),
    }
}

/// Checks that the types and the schemas of a hook have the same fields.
fn check_types<H: HookType>() {
    fn check<T: serde::Serialize + serde::de::DeserializeOwned>(schemas: &Map<String, Value>, kind: String) {
        let schema = &schemas[&format!("{HOOKS}.{kind}")];
        let full = sample(schemas, schema, 4);
        let read: T = decode(full.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), full, "{kind}: a field of the schema is lost");
        let known: BTreeSet<&str> = full.as_object().unwrap().keys().map(String::as_str).collect();
        let misspelt = ["boostrapConfigPatch", "boostrapConfigTemplatePatch"];
        for field in known_fields::<T>().into_iter().filter(|field| !misspelt.contains(field)) {
            assert!(known.contains(field), "{kind}: {field} is not in the schema");
        }
    }
    let schemas = schemas();
    check::<H::Request>(&schemas, H::HOOK.request_kind());
    check::<H::Response>(&schemas, H::HOOK.response_kind());
}

/// The fields that a type reads, as far as it tells: one that contains flattened fields does not.
fn known_fields<T: serde::de::DeserializeOwned>() -> Vec<&'static str> {
    struct Probe<'a>(&'a mut Vec<&'static str>);

    impl<'de> serde::Deserializer<'de> for Probe<'_> {
        type Error = serde::de::value::Error;

        fn deserialize_any<V: serde::de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(serde::de::Error::custom("only fields are asked for"))
        }

        fn deserialize_struct<V: serde::de::Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            self.0.extend(fields);
            self.deserialize_any(visitor)
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut fields = Vec::new();
    let _ = T::deserialize(Probe(&mut fields));
    fields
}

#[test]
fn types_and_schemas_have_the_same_fields() {
    check_types::<Discovery>();
    check_types::<BeforeClusterCreate>();
    check_types::<AfterControlPlaneInitialized>();
    check_types::<BeforeClusterUpgrade>();
    check_types::<BeforeControlPlaneUpgrade>();
    check_types::<AfterControlPlaneUpgrade>();
    check_types::<BeforeWorkersUpgrade>();
    check_types::<AfterWorkersUpgrade>();
    check_types::<AfterClusterUpgrade>();
    check_types::<BeforeClusterDelete>();
    check_types::<GeneratePatches>();
    check_types::<ValidateTopology>();
    check_types::<DiscoverVariables>();
    check_types::<GenerateUpgradePlan>();
    check_types::<CanUpdateMachine>();
    check_types::<CanUpdateMachineSet>();
    check_types::<UpdateMachine>();
    check_types::<ExternalUpdate>();
}
