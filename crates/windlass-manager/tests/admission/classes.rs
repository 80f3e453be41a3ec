//! ClusterClasses.

use serde_json::{Value, json};

use crate::api::{Case, Change, Expected, check_all};
use crate::objects::{class, cluster, with, without};

use Expected::{Accepted, Refused, RefusedBySchemaToo};

fn broken(rule: &'static str, pointer: &str, value: Value, expected: Expected) -> Case {
    Case { rule, given: vec![], change: Change::Create(with(&class(), pointer, value)), expected }
}

fn versions(rule: &'static str, versions: &[&str], expected: Expected) -> Case {
    broken(rule, "/spec/kubernetesVersions", json!(versions), expected)
}

#[tokio::test]
async fn versions_go_from_old_to_new_and_leave_no_minor_out() {
    check_all(vec![
        versions("several patches of a minor", &["v1.30.0", "v1.30.3", "v1.31.0"], Accepted),
        versions("pre-releases and builds", &["v1.30.0-rc.0", "v1.30.0", "v1.30.0+a", "v1.30.0+b"], Accepted),
        versions(
            "not a version",
            &["v1.30.0", "latest"],
            Refused("spec.kubernetesVersions[1]", "a version such as v1.33.0 is accepted"),
        ),
        versions(
            "back",
            &["v1.30.0", "v1.29.0"],
            Refused("spec.kubernetesVersions[1]", "the list goes from old to new"),
        ),
        versions(
            "twice",
            &["v1.30.0", "v1.30.0"],
            Refused("spec.kubernetesVersions[1]", "v1.30.0 is not newer than v1.30.0 before it"),
        ),
        versions(
            "back by a pre-release",
            &["v1.30.0-rc.1", "v1.30.0-rc.0"],
            Refused("spec.kubernetesVersions[1]", "the list goes from old to new"),
        ),
        versions(
            "a minor is left out",
            &["v1.30.0", "v1.32.0"],
            Refused("spec.kubernetesVersions[1]", "v1.32.0 leaves out v1.31"),
        ),
        versions(
            "another major",
            &["v1.30.0", "v2.0.0"],
            Refused("spec.kubernetesVersions[1]", "has another major"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_class_refers_to_templates_by_names_that_can_be_used() {
    let reference = |kind: &str, name: &str| json!({"apiVersion": "x.y/v1", "kind": kind, "name": name});
    let md = "/spec/workers/machineDeployments/0";
    let naming = |template: &str| json!({"template": template});
    check_all(vec![
        Case { rule: "a good class", given: vec![], change: Change::Create(class()), expected: Accepted },
        broken(
            "kinds are of templates",
            "/spec/infrastructure/templateRef",
            reference("DevCluster", "t"),
            RefusedBySchemaToo("spec.infrastructure.templateRef.kind", "a kind that ends in Template is"),
        ),
        broken(
            "templates have names",
            "/spec/controlPlane/templateRef",
            reference("KTemplate", ""),
            RefusedBySchemaToo("spec.controlPlane.templateRef.name", "the name of a template is accepted"),
        ),
        broken(
            "templates have a group",
            &format!("{md}/infrastructure/templateRef/apiVersion"),
            json!("v1"),
            RefusedBySchemaToo(
                "spec.workers.machineDeployments[0].infrastructure.templateRef.apiVersion",
                "<group>/<version> is",
            ),
        ),
        broken(
            "classes of workers have names",
            &format!("{md}/class"),
            json!(""),
            RefusedBySchemaToo(
                "spec.workers.machineDeployments[0].class",
                "a name that no other class has is accepted",
            ),
        ),
        broken(
            "classes of workers have their own names",
            "/spec/workers/machinePools",
            json!([
                class()["spec"]["workers"]["machinePools"][0],
                class()["spec"]["workers"]["machinePools"][0]
            ]),
            RefusedBySchemaToo(
                "spec.workers.machinePools[1].class",
                "a name that no other class has is accepted",
            ),
        ),
        broken(
            "objects are named",
            &format!("{md}/naming"),
            naming("{{ .cluster.name }}-{{ .machineDeployment.topologyName }}-{{ .random }}"),
            Accepted,
        ),
        broken(
            "names that know nothing",
            "/spec/infrastructure/naming",
            naming("{{ .radnom }}"),
            Refused("spec.infrastructure.naming.template", "there is no key \"radnom\""),
        ),
        broken(
            "names that are none",
            "/spec/controlPlane/naming",
            naming("UP_{{ .random }}"),
            Refused(
                "spec.controlPlane.naming.template",
                "lower case letters, digits and dashes are accepted",
            ),
        ),
        broken(
            "a planner is named with its extension",
            "/spec/upgrade",
            json!({"external": {"generateUpgradePlanExtension": "plan.ext1"}}),
            Accepted,
        ),
        broken(
            "a planner without its extension",
            "/spec/upgrade",
            json!({"external": {"generateUpgradePlanExtension": "plan"}}),
            Refused(
                "spec.upgrade.external.generateUpgradePlanExtension",
                "a name such as plan.my-extension is accepted",
            ),
        ),
        broken(
            "taints of a class",
            &format!("{md}/taints"),
            json!([{"key": "a/b/c", "effect": "NoSchedule", "propagation": "Always"}]),
            Refused(
                "spec.workers.machineDeployments[0].taints[0].key",
                "a name, or a domain, a slash and a name, is",
            ),
        ),
        broken(
            "labels of a class",
            "/spec/workers/machinePools/0/metadata",
            json!({"labels": {"a": "b c"}}),
            Refused("spec.workers.machinePools[0].metadata.labels[a]", "up to 63 letters"),
        ),
        broken(
            "External of a class",
            &format!("{md}/rollout"),
            json!({"strategy": {"type": "External", "fallbackRolling": {"maxSurge": "lots"}}}),
            Refused(
                "spec.workers.machineDeployments[0].rollout.strategy.fallbackRolling.maxSurge",
                "a number such as 1 or a percentage such as 20% is",
            ),
        ),
        broken(
            "rollouts of a class",
            &format!("{md}/rollout"),
            json!({"strategy": {"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}}),
            Refused(
                "spec.workers.machineDeployments[0].rollout.strategy.rollingUpdate",
                "is not accepted with type OnDelete; remove it, or use type RollingUpdate",
            ),
        ),
        broken(
            "health checks of a class",
            "/spec/controlPlane/healthCheck",
            json!({"checks": {"nodeStartupTimeoutSeconds": 1}}),
            Refused("spec.controlPlane.healthCheck.checks.nodeStartupTimeoutSeconds", "0 or at least 30 is"),
        ),
        Case {
            rule: "health checks look at machines",
            given: vec![],
            change: Change::Create(with(
                &without(&class(), "/spec/controlPlane", "machineInfrastructure"),
                "/spec/controlPlane/healthCheck",
                json!({"checks": {"nodeStartupTimeoutSeconds": 60}}),
            )),
            expected: Refused(
                "spec.controlPlane.healthCheck",
                "is accepted only together with spec.controlPlane.machineInfrastructure",
            ),
        },
    ])
    .await;
}

#[tokio::test]
async fn variables_and_patches_of_a_class() {
    let variable = |name: &str, schema: Value| json!([{"name": name, "required": false, "schema": {"openAPIV3Schema": schema}}]);
    let selector = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachineTemplate",
        "matchResources": {"controlPlane": true}});
    let inline =
        |steps: Value| json!([{"name": "p", "definitions": [{"selector": selector, "jsonPatches": steps}]}]);
    let external = |names: Value| json!([{"name": "p", "external": names}]);
    let patches = "/spec/patches";
    check_all(vec![
        broken(
            "a schema that is none",
            "/spec/variables",
            variable("a", json!({"type": "strnig"})),
            Refused("spec.variables[0].schema.openAPIV3Schema.type", "strnig"),
        ),
        broken(
            "builtin is taken",
            "/spec/variables",
            variable("builtin", json!({"type": "string"})),
            Refused("spec.variables[0].name", "is reserved, another name is accepted"),
        ),
        broken(
            "patches from variables and templates",
            patches,
            inline(json!([
                {"op": "add", "path": "/spec/a", "valueFrom": {"variable": "image"}},
                {"op": "add", "path": "/spec/b", "valueFrom": {"variable": "builtin.cluster.name"}},
                {"op": "add", "path": "/spec/c", "valueFrom": {"template": "{{ .image }}"}},
                {"op": "replace", "path": "/spec/d", "value": 1}, {"op": "remove", "path": "/spec/e"}])),
            Accepted,
        ),
        broken(
            "patches change the spec",
            patches,
            inline(json!([{"op": "add", "path": "/metadata/labels", "value": {}}])),
            Refused("spec.patches[0].definitions[0].jsonPatches[0].path", "a path below /spec is"),
        ),
        broken(
            "patches have a value",
            patches,
            inline(json!([{"op": "add", "path": "/spec/a"}])),
            Refused(
                "spec.patches[0].definitions[0].jsonPatches[0]",
                "one of value, valueFrom.variable and valueFrom.template is accepted for add",
            ),
        ),
        broken(
            "removal has none",
            patches,
            inline(json!([{"op": "remove", "path": "/spec/a", "value": 1}])),
            Refused("spec.patches[0].definitions[0].jsonPatches[0]", "no value is accepted for remove"),
        ),
        broken(
            "patches use variables that exist",
            patches,
            inline(json!([{"op": "add", "path": "/spec/a", "valueFrom": {"variable": "colour.red"}}])),
            Refused(
                "spec.patches[0].definitions[0].jsonPatches[0].valueFrom.variable",
                "image, zone, builtin are accepted",
            ),
        ),
        broken(
            "templates that cannot be read",
            patches,
            inline(json!([{"op": "add", "path": "/spec/a", "valueFrom": {"template": "{{ if }}"}}])),
            Refused("spec.patches[0].definitions[0].jsonPatches[0].valueFrom.template", "a value is missing"),
        ),
        broken(
            "functions that do not exist",
            patches,
            inline(json!([{"op": "add", "path": "/spec/a", "valueFrom": {"template": "a: b\n{{ .image | uper }}"}}])),
            Refused(
                "spec.patches[0].definitions[0].jsonPatches[0].valueFrom.template",
                "line 2: function \"uper\" does not exist",
            ),
        ),
        broken(
            "functions that depend on chance",
            patches,
            inline(json!([{"op": "add", "path": "/spec/a", "valueFrom": {"template": "{{ randAlpha 5 }}"}}])),
            Refused(
                "spec.patches[0].definitions[0].jsonPatches[0].valueFrom.template",
                "function \"randAlpha\" is not available: it depends on chance",
            ),
        ),
        broken(
            "templates that nothing defines",
            patches,
            inline(json!([{"op": "add", "path": "/spec/a", "valueFrom": {"template": "{{ template \"labels\" . }}"}}])),
            Refused(
                "spec.patches[0].definitions[0].jsonPatches[0].valueFrom.template",
                "template \"labels\" is not defined",
            ),
        ),
        broken(
            "conditions that depend on the clock",
            patches,
            with(
                &inline(json!([{"op": "remove", "path": "/spec/a"}])),
                "/0/enabledIf",
                json!("{{ if .image }}{{ now }}{{ end }}"),
            ),
            Refused("spec.patches[0].enabledIf", "function \"now\" is not available: it depends on the time of day"),
        ),
        broken(
            "names that depend on the environment",
            "/spec/controlPlane/naming",
            json!({"template": "{{ .cluster.name }}-{{ env \"HOME\" }}"}),
            Refused("spec.controlPlane.naming.template", "function \"env\" is not available"),
        ),
        broken(
            "conditions as upstream's quick start has them",
            patches,
            with(
                &inline(json!([{"op": "remove", "path": "/spec/a"}])),
                "/0/enabledIf",
                json!("{{ semverCompare \"< v1.25-0\" .builtin.controlPlane.version }}"),
            ),
            Accepted,
        ),
        broken(
            "conditions that cannot be read",
            patches,
            with(&inline(json!([{"op": "remove", "path": "/spec/a"}])), "/0/enabledIf", json!("{{ .a")),
            Refused("spec.patches[0].enabledIf", "{{ is not closed"),
        ),
        broken(
            "patches select something",
            patches,
            with(
                &inline(json!([{"op": "remove", "path": "/spec/a"}])),
                "/0/definitions/0/selector/matchResources",
                json!({}),
            ),
            RefusedBySchemaToo("spec.patches[0].definitions[0].selector.matchResources", "selects nothing"),
        ),
        broken(
            "patches are inline or external",
            patches,
            json!([{"name": "p"}]),
            Refused("spec.patches[0]", "one of definitions and external is accepted"),
        ),
        broken(
            "patches have their own names",
            patches,
            json!([
                external(json!({"generatePatchesExtension": "g.ext1"}))[0],
                external(json!({"generatePatchesExtension": "g.ext1"}))[0]
            ]),
            RefusedBySchemaToo("spec.patches[1].name", "a name of its own is"),
        ),
        broken(
            "external patches",
            patches,
            external(json!({"generatePatchesExtension": "g.ext1", "validateTopologyExtension": "v.ext1",
                "discoverVariablesExtension": "d.ext1"})),
            Accepted,
        ),
        broken(
            "external patches do something",
            patches,
            external(json!({"discoverVariablesExtension": "d.ext1"})),
            Refused(
                "spec.patches[0].external",
                "generatePatchesExtension and validateTopologyExtension are accepted",
            ),
        ),
        broken(
            "external patches name their extension",
            patches,
            external(json!({"generatePatchesExtension": "g"})),
            Refused(
                "spec.patches[0].external.generatePatchesExtension",
                "a name such as plan.my-extension is accepted",
            ),
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_clusters_use_stays_in_their_class() {
    let checked = || {
        let checks = json!({"checks": {"nodeStartupTimeoutSeconds": 60}});
        with(
            &with(&class(), "/spec/workers/machineDeployments/0/healthCheck", checks.clone()),
            "/spec/controlPlane/healthCheck",
            checks,
        )
    };
    let relying = |pointer: &str| with(&cluster("v1.31.0"), pointer, json!({"enabled": true}));
    let used = |rule, new: Value, expected| Case {
        rule,
        given: vec![class(), cluster("v1.31.0")],
        change: Change::Update(new),
        expected,
    };
    let relied = |rule, cluster: Value, expected| Case {
        rule,
        given: vec![checked(), cluster],
        change: Change::Update(class()),
        expected,
    };
    let kind = json!("OtherTemplate");
    check_all(vec![
        used(
            "versions that nobody has",
            with(&class(), "/spec/kubernetesVersions", json!(["v1.31.0"])),
            Accepted,
        ),
        used(
            "versions that somebody has",
            with(&class(), "/spec/kubernetesVersions", json!(["v1.32.0"])),
            Refused("spec.kubernetesVersions", "v1.31.0 must stay, Cluster c1 has it"),
        ),
        used("no list at all", without(&class(), "/spec", "kubernetesVersions"), Accepted),
        used(
            "classes of MachineDeployments",
            with(&class(), "/spec/workers/machineDeployments/0/class", json!("other")),
            Refused("spec.workers.machineDeployments", "class \"default\" must stay, Cluster c1 uses it"),
        ),
        used(
            "classes of MachinePools",
            without(&class(), "/spec/workers", "machinePools"),
            Refused("spec.workers.machinePools", "class \"default\" must stay, Cluster c1 uses it"),
        ),
        Case {
            rule: "classes that nobody uses",
            given: vec![class()],
            change: Change::Update(without(&class(), "/spec/workers", "machinePools")),
            expected: Accepted,
        },
        used(
            "the kind of infrastructure",
            with(&class(), "/spec/infrastructure/templateRef/kind", kind.clone()),
            Refused(
                "spec.infrastructure.templateRef",
                "a DevClusterTemplate of infrastructure.cluster.x-k8s.io is accepted",
            ),
        ),
        used(
            "the kind of control plane",
            with(&class(), "/spec/controlPlane/templateRef/kind", kind.clone()),
            Refused("spec.controlPlane.templateRef", "is accepted while Clusters use the class"),
        ),
        used(
            "the kind of the control plane's machines",
            with(&class(), "/spec/controlPlane/machineInfrastructure/templateRef/kind", kind.clone()),
            Refused("spec.controlPlane.machineInfrastructure.templateRef", "a DevMachineTemplate of"),
        ),
        used(
            "the kind of workers",
            with(
                &class(),
                "/spec/workers/machineDeployments/0/infrastructure/templateRef/kind",
                kind.clone(),
            ),
            Refused(
                "spec.workers.machineDeployments[0].infrastructure.templateRef",
                "a DevMachineTemplate of",
            ),
        ),
        used(
            "the kind of pools",
            with(&class(), "/spec/workers/machinePools/0/infrastructure/templateRef/kind", kind.clone()),
            Refused("spec.workers.machinePools[0].infrastructure.templateRef", "a DevMachinePoolTemplate of"),
        ),
        used(
            "another template of the same kind",
            with(&class(), "/spec/workers/machineDeployments/0/infrastructure/templateRef/name", json!("t2")),
            Accepted,
        ),
        relied("health checks that nobody relies on", cluster("v1.31.0"), Accepted),
        relied(
            "health checks of workers",
            relying("/spec/topology/workers/machineDeployments/0/healthCheck"),
            Refused(
                "spec.workers.machineDeployments[0].healthCheck",
                "must stay, web of Cluster c1 relies on it",
            ),
        ),
        relied(
            "health checks of control planes",
            relying("/spec/topology/controlPlane/healthCheck"),
            Refused("spec.controlPlane.healthCheck", "must stay, Cluster c1 relies on it"),
        ),
        Case {
            rule: "a class that is used",
            given: vec![class(), cluster("v1.31.0")],
            change: Change::Delete(class()),
            expected: Refused("metadata.name", "quick cannot be deleted while Clusters use it: c1"),
        },
        Case {
            rule: "a class that is not",
            given: vec![class()],
            change: Change::Delete(class()),
            expected: Accepted,
        },
    ])
    .await;
}
