//! External patches: generated, checked, in order with inline ones, with variables of their own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_api::bootstrap::KubeadmConfigTemplate;
use windlass_api::cluster::{Cluster, ClusterClass};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::DevMachineTemplate;
use windlass_extension::hooks::{
    ClusterClassVariable, DiscoverVariables, DiscoverVariablesRequest, DiscoverVariablesResponse,
    GeneratePatches, GeneratePatchesRequest, GeneratePatchesResponse, GeneratePatchesResponseItem,
    HookResponse, Patch, ValidateTopology, ValidateTopologyRequest, ValidateTopologyResponse,
};
use windlass_extension::templates::patch_templates;
use windlass_extension::{Context, Extension};
use windlass_hooks::transport::InProcess;
use windlass_simulate::{TopologyManifests, World, key};

use crate::recorder::{config, options};

const LONG: Duration = Duration::from_secs(3600);

#[derive(Clone, Default)]
pub(crate) struct Patcher {
    generated: Arc<Mutex<Option<GeneratePatchesRequest>>>,
    validated: Arc<Mutex<Option<ValidateTopologyRequest>>>,
    /// Why the topology is not valid, if it is not.
    objection: Arc<Mutex<Option<String>>>,
    /// A patch that is answered with instead, if there is one.
    instead: Arc<Mutex<Option<Instead>>>,
}

/// A patch, and the uid that it is for if that is none of the request.
type Instead = (Option<String>, Patch);

impl Patcher {
    pub(crate) fn extension(&self) -> Extension {
        let (generator, validator) = (self.clone(), self.clone());
        Extension::new("patcher")
            .on(DiscoverVariables, "variables", |_: Context, _: DiscoverVariablesRequest| async {
                let schema = json!({"openAPIV3Schema": {"type": "string", "default": "stable"}});
                let variable: ClusterClassVariable =
                    serde_json::from_value(json!({"name": "channel", "required": false, "schema": schema}))
                        .unwrap();
                DiscoverVariablesResponse {
                    variables: vec![variable],
                    ..DiscoverVariablesResponse::success()
                }
            })
            .on(GeneratePatches, "generate", move |_: Context, request: GeneratePatchesRequest| {
                std::future::ready(generator.generate(&request))
            })
            .on(ValidateTopology, "validate", move |_: Context, request: ValidateTopologyRequest| {
                *validator.validated.lock().unwrap() = Some(request);
                std::future::ready(match validator.objection.lock().unwrap().clone() {
                    Some(why) => ValidateTopologyResponse::failure(why),
                    None => ValidateTopologyResponse::success(),
                })
            })
            .build()
            .unwrap()
    }

    fn generate(&self, request: &GeneratePatchesRequest) -> GeneratePatchesResponse {
        *self.generated.lock().unwrap() = Some(request.clone());
        if let Some((uid, patch)) = self.instead.lock().unwrap().clone() {
            let Patch { patch_type, patch } = patch;
            let uid = uid.unwrap_or_else(|| request.items[0].uid.clone());
            let items = vec![GeneratePatchesResponseItem { uid, patch_type, patch }];
            return GeneratePatchesResponse { items, ..GeneratePatchesResponse::success() };
        }
        let mut response = patch_templates(request, |template| {
            let channel: String = template.variables().typed("channel")?;
            let cluster: String = template.variables().typed("builtin.cluster.name")?;
            if template.holder().field_path == "spec.controlPlaneRef" {
                let commands = "/spec/template/spec/kubeadmConfigSpec/preKubeadmCommands";
                let mut all = template.object().pointer(commands).unwrap().as_array().unwrap().clone();
                all.push(json!(format!("external {channel} {cluster}")));
                template.set(commands, Value::Array(all))?;
            }
            Ok(())
        });
        // The infrastructure of workers gets a label, and a kind that nobody asked for.
        let workers = request.items.iter().find(|item| {
            item.holder_reference.kind == "MachineDeployment"
                && item.holder_reference.field_path == "spec.template.spec.infrastructureRef"
        });
        if let Some(item) = workers {
            let merge = json!({"kind": "Other", "metadata": {"labels": {"team": "a"}}});
            let Patch { patch_type, patch } = Patch::json_merge_patch(&merge);
            response.items.push(GeneratePatchesResponseItem { uid: item.uid.clone(), patch_type, patch });
        }
        response
    }
}

fn inline(name: &str, op: &str, path: &str, value: Value) -> Value {
    json!({"name": name, "definitions": [{
        "selector": {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
            "matchResources": {"controlPlane": true}},
        "jsonPatches": [{"op": op, "path": path, "value": value}]}]})
}

pub(crate) fn manifests() -> Vec<Value> {
    let mut objects = TopologyManifests::new("c1", "v1.30.0", 1).machine_deployment("web", 1).objects();
    let commands = "/spec/template/spec/kubeadmConfigSpec/preKubeadmCommands";
    let class = objects.iter_mut().find(|object| object["kind"] == "ClusterClass").unwrap();
    class["spec"]["variables"] = json!([{"name": "image", "required": false,
        "schema": {"openAPIV3Schema": {"type": "string", "default": "small"}}}]);
    class["spec"]["patches"] = json!([
        inline("first", "add", commands, json!(["inline before"])),
        {"name": "external", "external": {"generatePatchesExtension": "generate.patcher",
            "validateTopologyExtension": "validate.patcher", "discoverVariablesExtension": "variables.patcher",
            "settings": {"mode": "strict"}}},
        inline("last", "add", &format!("{commands}/-"), json!("inline after")),
    ]);
    objects
}

async fn world(patcher: &Patcher) -> World {
    let transport = InProcess::new();
    transport.add("patcher", patcher.extension());
    let world = World::begin(options(1, &transport)).await.unwrap();
    world.apply_object(&config("patcher")).await.unwrap();
    world.apply_objects(&manifests()).await.unwrap();
    world
}

fn failure(world: &World) -> String {
    let conditions = world.get::<Cluster>(&key("c1")).unwrap().status.conditions;
    let found = conditions.into_iter().find(|found| found.type_ == "TopologyReconciled");
    found.filter(|found| found.reason == "ReconcileFailed").map(|found| found.message).unwrap_or_default()
}

fn control_plane_commands(world: &World) -> Option<Value> {
    let control_plane = world.list::<KubeadmControlPlane>().pop()?;
    Some(json!(control_plane)["spec"]["kubeadmConfigSpec"]["preKubeadmCommands"].clone())
}

#[tokio::test(start_paused = true)]
async fn patches_are_applied_in_the_order_of_the_class_and_checked_at_the_end() {
    let patcher = Patcher::default();
    let mut world = world(&patcher).await;
    let made = |world: &World| {
        control_plane_commands(world).is_some() && world.list::<KubeadmConfigTemplate>().len() == 2
    };
    world.run_until("the objects are made", LONG, made).await.unwrap();
    let expected = json!(["inline before", "external stable c1", "inline after"]);
    assert_eq!(control_plane_commands(&world), Some(expected.clone()));
    let labelled: Vec<DevMachineTemplate> = world
        .list::<DevMachineTemplate>()
        .into_iter()
        .filter(|template| {
            template.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key("team"))
        })
        .collect();
    assert_eq!(labelled.len(), 1, "labels of templates may be changed, kinds may not");

    let class = world.get::<ClusterClass>(&key("quick")).unwrap();
    let origin = |name: &str| {
        let found = class.status.variables.iter().find(|variable| variable.name == name);
        found.map(|variable| variable.definitions[0].from.clone())
    };
    assert_eq!(
        (origin("channel").as_deref(), origin("image").as_deref()),
        (Some("external"), Some("inline"))
    );
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    assert_eq!(cluster.spec.topology.unwrap().version, "v1.30.0");

    let request = json!(patcher.generated.lock().unwrap().clone().unwrap());
    assert_eq!(request["settings"], json!({"mode": "strict"}));
    let names: Vec<&str> = request["variables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["channel", "builtin"], "variables of the class are for its inline patches");
    let holders: Vec<String> = request["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let holder = &item["holderReference"];
            format!("{} {}", holder["kind"].as_str().unwrap(), holder["fieldPath"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        holders,
        [
            "Cluster spec.infrastructureRef",
            "Cluster spec.controlPlaneRef",
            "KubeadmControlPlane spec.machineTemplate.spec.infrastructureRef",
            "MachineDeployment spec.template.spec.bootstrap.configRef",
            "MachineDeployment spec.template.spec.infrastructureRef",
        ]
    );
    let commands = "/object/spec/template/spec/kubeadmConfigSpec/preKubeadmCommands";
    assert_eq!(request["items"][1].pointer(commands), Some(&json!(["inline before"])));
    let builtin = &request["items"][3]["variables"][0];
    assert_eq!(builtin["name"], "builtin");
    assert_eq!(builtin["value"]["machineDeployment"]["topologyName"], "web");
    assert_eq!(builtin["value"].get("cluster"), None, "that is the same for all templates");
    let validated = json!(patcher.validated.lock().unwrap().clone().unwrap());
    assert_eq!(validated["items"][1].pointer(commands), Some(&expected));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_of_a_topology_that_an_extension_objects_to() {
    let patcher = Patcher::default();
    *patcher.objection.lock().unwrap() = Some("three zones are needed".to_owned());
    let mut world = world(&patcher).await;
    world.run_until("the objection is told", LONG, |world| !failure(world).is_empty()).await.unwrap();
    let told = failure(&world);
    assert!(told.contains("patch \"external\": ") && told.contains("three zones are needed"), "{told}");
    assert!(world.list::<KubeadmControlPlane>().is_empty());
    *patcher.objection.lock().unwrap() = None;
    let made = |world: &World| failure(world).is_empty() && control_plane_commands(world).is_some();
    world.run_until("the objects are made", LONG, made).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn patches_that_cannot_be_applied_are_told_with_their_place() {
    let impossible = Patch::json_patch(&json!([{"op": "remove", "path": "/spec/none"}]));
    let absent = Patch::json_patch(&json!([{"op": "replace", "path": "/spec/absent", "value": 1}]));
    let harmless = Patch::json_merge_patch(&json!({}));
    for (uid, patch, parts) in [
        // As Cluster API and `windlass extension test` have it, unlike the API server.
        (
            None,
            absent,
            [
                "handler \"generate.patcher\": answered a patch that cannot be used: DevClusterTemplate quick: ",
                "operation at index 0 (replace \"/spec/absent\"): there is no field \"absent\"",
            ],
        ),
        (
            None,
            impossible,
            [
                "handler \"generate.patcher\": answered a patch that cannot be used: DevClusterTemplate quick: ",
                "/spec/none",
            ],
        ),
        (
            Some("made-up".to_owned()),
            harmless,
            [
                "handler \"generate.patcher\": answered a patch that cannot be used: uid \"made-up\"",
                "none of the request's items",
            ],
        ),
    ] {
        let patcher = Patcher::default();
        *patcher.instead.lock().unwrap() = Some((uid, patch));
        let mut world = world(&patcher).await;
        world.run_until("the mistake is told", LONG, |world| !failure(world).is_empty()).await.unwrap();
        let told = failure(&world);
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        assert!(told.starts_with("patch \"external\": ") && told.contains("; tried again after "), "{told}");
        assert!(world.list::<KubeadmControlPlane>().is_empty());
        *patcher.instead.lock().unwrap() = None;
        let made = |world: &World| control_plane_commands(world).is_some();
        world.run_until("the objects are made", LONG, made).await.unwrap();
    }
}
