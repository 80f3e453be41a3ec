//! ClusterClasses.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_api::RegisteredName;
use windlass_api::cluster::{
    Cluster, ClusterClass, ClusterClassPatch, JsonPatchOperation, TemplateReference,
};
use windlass_api::dns_label::is_rfc1123_subdomain;
use windlass_version::{Distance, Version};

use super::Verdict;
use super::machines::{
    check_annotated_strategy, check_health_check, check_metadata, check_strategy, check_taints,
};
use crate::topology::Entry;
use windlass_gotemplate::{MissingKey, Template, TemplateError, render};

/// Clusters that use a class.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassUse<'a> {
    /// The class as it is stored; nothing if it is created.
    pub old: Option<&'a ClusterClass>,
    /// The Clusters.
    pub clusters: &'a [Cluster],
}

/// Checks a class. Schemas of variables are not looked at here.
pub fn validate_class(class: &ClusterClass, used: ClassUse<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    check_versions(&class.spec.kubernetes_versions, &mut verdict);
    check_references(class, &mut verdict);
    check_names(class, &mut verdict);
    check_machines(class, &mut verdict);
    let external = class.spec.upgrade.external.as_ref();
    if let Some(handler) = external.map(|external| external.generate_upgrade_plan_extension.as_str()) {
        check_handler("spec.upgrade.external.generateUpgradePlanExtension", handler, &mut verdict);
    }
    for (index, patch) in class.spec.patches.iter().enumerate() {
        check_patch(patch, index, class, &mut verdict);
    }
    check_use(class, used, &mut verdict);
    verdict
}

/// Checks that a class may be deleted: no Cluster uses it.
pub fn validate_class_deletion(name: &str, clusters: &[Cluster]) -> Verdict {
    let mut verdict = Verdict::default();
    if !clusters.is_empty() {
        let names: Vec<&str> =
            clusters.iter().filter_map(|cluster| cluster.metadata.name.as_deref()).collect();
        verdict.refuse(
            "metadata.name",
            format!(
                "{name} cannot be deleted while Clusters use it: {}; deletion is accepted when none does",
                names.join(", ")
            ),
        );
    }
    verdict
}

fn check_versions(versions: &[String], verdict: &mut Verdict) {
    let mut previous: Option<Version> = None;
    for (index, text) in versions.iter().enumerate() {
        let field = format!("spec.kubernetesVersions[{index}]");
        let version = match Version::parse(text) {
            Ok(version) => version,
            Err(error) => {
                verdict.refuse(field, format!("{error}; a version such as v1.33.0 is accepted"));
                continue;
            }
        };
        if let Some(previous) = &previous {
            if !version.compare(previous).is_progress() {
                verdict.refuse(
                    field.as_str(),
                    format!(
                        "{version} is not newer than {previous} before it: the list goes from old to new, a newer \
                         version is accepted"
                    ),
                );
            }
            match previous.minor().distance_to(version.minor()) {
                Distance::Forward(2..) => verdict.refuse(
                    field,
                    format!(
                        "{version} leaves out {}: control planes cannot skip minors, a version of it is accepted here",
                        previous.minor().next()
                    ),
                ),
                Distance::OtherMajor => verdict.refuse(
                    field,
                    format!(
                        "{version} has another major than {previous}: no upgrade leads there, {}.x is accepted",
                        previous.minor().next()
                    ),
                ),
                Distance::Forward(_) | Distance::Back(_) => {}
            }
        }
        previous = Some(version);
    }
}

fn check_references(class: &ClusterClass, verdict: &mut Verdict) {
    let spec = &class.spec;
    let mut check = |field: String, reference: &TemplateReference| {
        if reference.name.is_empty() {
            verdict.refuse(format!("{field}.name"), "is empty, the name of a template is accepted");
        }
        if !reference.kind.ends_with("Template") {
            let kind = &reference.kind;
            verdict.refuse(
                format!("{field}.kind"),
                format!("{kind:?} is not accepted, a kind that ends in Template is"),
            );
        }
        if reference.group().is_empty() {
            verdict.refuse(
                format!("{field}.apiVersion"),
                format!("{:?} is not accepted, <group>/<version> is", reference.api_version),
            );
        }
    };
    check("spec.infrastructure.templateRef".to_owned(), &spec.infrastructure.template_ref);
    check("spec.controlPlane.templateRef".to_owned(), &spec.control_plane.template_ref);
    if let Some(machines) = &spec.control_plane.machine_infrastructure {
        check("spec.controlPlane.machineInfrastructure.templateRef".to_owned(), &machines.template_ref);
    }
    for (index, group) in spec.workers.machine_deployments.iter().enumerate() {
        let field = format!("spec.workers.machineDeployments[{index}]");
        check(format!("{field}.bootstrap.templateRef"), &group.bootstrap.template_ref);
        check(format!("{field}.infrastructure.templateRef"), &group.infrastructure.template_ref);
    }
    for (index, group) in spec.workers.machine_pools.iter().enumerate() {
        let field = format!("spec.workers.machinePools[{index}]");
        check(format!("{field}.bootstrap.templateRef"), &group.bootstrap.template_ref);
        check(format!("{field}.infrastructure.templateRef"), &group.infrastructure.template_ref);
    }
}

fn check_names(class: &ClusterClass, verdict: &mut Verdict) {
    let workers = &class.spec.workers;
    unique(
        "machineDeployments",
        workers.machine_deployments.iter().map(|group| group.class.as_str()),
        verdict,
    );
    unique("machinePools", workers.machine_pools.iter().map(|group| group.class.as_str()), verdict);
    check_naming("spec.infrastructure.naming.template", &class.spec.infrastructure.naming.template, verdict);
    check_naming("spec.controlPlane.naming.template", &class.spec.control_plane.naming.template, verdict);
    for (index, group) in workers.machine_deployments.iter().enumerate() {
        let field = format!("spec.workers.machineDeployments[{index}].naming.template");
        check_naming(&field, &group.naming.template, verdict);
    }
    for (index, group) in workers.machine_pools.iter().enumerate() {
        let field = format!("spec.workers.machinePools[{index}].naming.template");
        check_naming(&field, &group.naming.template, verdict);
    }
}

fn unique<'a>(list: &str, classes: impl Iterator<Item = &'a str>, verdict: &mut Verdict) {
    let mut seen = BTreeSet::new();
    for (index, class) in classes.enumerate() {
        let field = format!("spec.workers.{list}[{index}].class");
        if class.is_empty() {
            verdict.refuse(field, "is empty, a name that no other class has is accepted");
        } else if !seen.insert(class) {
            verdict.refuse(
                field,
                format!("{class:?} is used twice, a name that no other class has is accepted"),
            );
        }
    }
}

/// A naming template is tried on names as they are: what it makes must be a name.
fn check_naming(field: &str, template: &str, verdict: &mut Verdict) {
    if template.is_empty() {
        return;
    }
    let data = json!({
        "cluster": {"name": "cluster"}, "random": "a1b2c",
        "machineDeployment": {"topologyName": "group"}, "machinePool": {"topologyName": "group"},
    });
    match render(template, &data, MissingKey::Refuse) {
        Err(error) => verdict.refuse(
            field,
            format!("{error}; a template such as {{{{ .cluster.name }}}}-{{{{ .random }}}} is accepted"),
        ),
        Ok(name) if !is_rfc1123_subdomain(&name) => verdict.refuse(
            field,
            format!("it makes names such as {name:?}, lower case letters, digits and dashes are accepted"),
        ),
        Ok(_) => {}
    }
}

/// A handler is named as the status of its ExtensionConfig shows it.
fn check_handler(field: &str, handler: &str, verdict: &mut Verdict) {
    if !handler.is_empty()
        && let Err(error) = handler.parse::<RegisteredName>()
    {
        verdict.refuse(field, format!("{error}; a name such as plan.my-extension is accepted"));
    }
}

/// What classes of machines say about them.
fn check_machines(class: &ClusterClass, verdict: &mut Verdict) {
    let control_plane = &class.spec.control_plane;
    check_metadata("spec.controlPlane.metadata", &control_plane.metadata, verdict);
    check_taints("spec.controlPlane.taints", &control_plane.taints, verdict);
    if let Some(check) = &control_plane.health_check {
        let (trigger_if, template) = (&check.remediation.trigger_if, check.remediation.template_ref.as_ref());
        let field = "spec.controlPlane.healthCheck";
        check_health_check(field, &check.checks, trigger_if, template, verdict);
        if control_plane.machine_infrastructure.is_none() {
            verdict.refuse(field, "is accepted only together with spec.controlPlane.machineInfrastructure");
        }
    }
    for (index, group) in class.spec.workers.machine_deployments.iter().enumerate() {
        let field = format!("spec.workers.machineDeployments[{index}]");
        check_metadata(&format!("{field}.metadata"), &group.metadata, verdict);
        check_taints(&format!("{field}.taints"), &group.taints, verdict);
        let annotations = Some(&group.metadata.annotations);
        let strategy = group.rollout.strategy.as_ref();
        check_annotated_strategy(&format!("{field}.metadata"), annotations, strategy, verdict);
        if let Some(strategy) = strategy {
            check_strategy(&format!("{field}.rollout.strategy"), strategy, verdict);
        }
        if let Some(check) = &group.health_check {
            let (trigger_if, template) =
                (&check.remediation.trigger_if, check.remediation.template_ref.as_ref());
            check_health_check(&format!("{field}.healthCheck"), &check.checks, trigger_if, template, verdict);
        }
    }
    for (index, group) in class.spec.workers.machine_pools.iter().enumerate() {
        let field = format!("spec.workers.machinePools[{index}]");
        check_metadata(&format!("{field}.metadata"), &group.metadata, verdict);
        check_taints(&format!("{field}.taints"), &group.taints, verdict);
    }
}

fn check_patch(patch: &ClusterClassPatch, index: usize, class: &ClusterClass, verdict: &mut Verdict) {
    let field = format!("spec.patches[{index}]");
    let before = class.spec.patches.iter().take(index);
    if patch.name.is_empty() || before.into_iter().any(|other| other.name == patch.name) {
        verdict.refuse(
            format!("{field}.name"),
            format!("{:?} is not accepted, a name of its own is", patch.name),
        );
    }
    if patch.external.is_some() != patch.definitions.is_empty() {
        verdict.refuse(field.as_str(), "one of definitions and external is accepted, not both and not none");
    }
    if let Some(external) = &patch.external {
        let (generate, validate) =
            (&external.generate_patches_extension, &external.validate_topology_extension);
        let discover = &external.discover_variables_extension;
        if generate.is_empty() && validate.is_empty() {
            verdict.refuse(
                format!("{field}.external"),
                "says nothing to do, generatePatchesExtension and validateTopologyExtension are accepted",
            );
        }
        check_handler(&format!("{field}.external.generatePatchesExtension"), generate, verdict);
        check_handler(&format!("{field}.external.validateTopologyExtension"), validate, verdict);
        check_handler(&format!("{field}.external.discoverVariablesExtension"), discover, verdict);
    }
    if !patch.enabled_if.is_empty()
        && let Err(error) = Template::parse(&patch.enabled_if)
    {
        verdict.refuse(format!("{field}.enabledIf"), unreadable(&error));
    }
    for (number, definition) in patch.definitions.iter().enumerate() {
        let field = format!("{field}.definitions[{number}]");
        let resources = &definition.selector.match_resources;
        let selects = resources.control_plane == Some(true)
            || resources.infrastructure_cluster == Some(true)
            || resources.machine_deployment_class.is_some()
            || resources.machine_pool_class.is_some();
        if !selects {
            verdict.refuse(
                format!("{field}.selector.matchResources"),
                "selects nothing; controlPlane, infrastructureCluster, machineDeploymentClass and machinePoolClass \
                 are accepted",
            );
        }
        for (number, step) in definition.json_patches.iter().enumerate() {
            let field = format!("{field}.jsonPatches[{number}]");
            if step.path != "/spec" && !step.path.starts_with("/spec/") {
                verdict.refuse(
                    format!("{field}.path"),
                    format!("{:?} is not accepted, a path below /spec is", step.path),
                );
            }
            let from = step.value_from.as_ref();
            let given = usize::from(step.value.is_some())
                + from.map_or(0, |from| {
                    usize::from(!from.variable.is_empty()) + usize::from(!from.template.is_empty())
                });
            let needed = usize::from(step.op != JsonPatchOperation::Remove);
            if given != needed {
                let accepted = if needed == 0 {
                    "no value"
                } else {
                    "one of value, valueFrom.variable and valueFrom.template"
                };
                verdict.refuse(field.as_str(), format!("{accepted} is accepted for {}", step.op));
            }
            let root = |path: &str| path.split(['.', '[']).next().unwrap_or_default().to_owned();
            if let Some(name) = from.filter(|from| !from.variable.is_empty()).map(|from| root(&from.variable))
                && name != "builtin"
                && !class.spec.variables.iter().any(|variable| variable.name == name)
            {
                let known: Vec<&str> =
                    class.spec.variables.iter().map(|variable| variable.name.as_str()).collect();
                let known = [known.as_slice(), &["builtin"]].concat().join(", ");
                verdict.refuse(
                    format!("{field}.valueFrom.variable"),
                    format!("{name:?} is not defined in spec.variables, {known} are accepted"),
                );
            }
            if let Some(from) = from
                && let Err(error) = Template::parse(&from.template)
            {
                verdict.refuse(format!("{field}.valueFrom.template"), unreadable(&error));
            }
        }
    }
}

/// What is wrong with a template of a patch.
fn unreadable(error: &TemplateError) -> String {
    format!("{error}; a template such as {{{{ .variable }}}} is accepted")
}

/// What Clusters use cannot be taken away from them.
fn check_use(class: &ClusterClass, used: ClassUse<'_>, verdict: &mut Verdict) {
    let (versions, workers) = (&class.spec.kubernetes_versions, &class.spec.workers);
    for cluster in used.clusters {
        let Some(topology) = &cluster.spec.topology else { continue };
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        if !versions.is_empty() && !versions.contains(&topology.version) {
            verdict.refuse(
                "spec.kubernetesVersions",
                format!(
                    "{0} must stay, Cluster {name} has it; a list with {0} is accepted",
                    topology.version
                ),
            );
        }
        for entry in Entry::all(topology) {
            let pinned = entry
                .written_pins()
                .into_iter()
                .find(|pin| !versions.is_empty() && !versions.iter().any(|version| version == pin.version));
            if let Some(pin) = pinned {
                verdict.refuse(
                    "spec.kubernetesVersions",
                    format!(
                        "{0} must stay, {1} {2} of Cluster {name} is pinned to it; a list with {0} is accepted",
                        pin.version, entry.kind, entry.name
                    ),
                );
            }
        }
        for entry in &topology.workers.machine_deployments {
            if !workers.machine_deployments.iter().any(|class| class.class == entry.class) {
                verdict.refuse(
                    "spec.workers.machineDeployments",
                    format!(
                        "class {:?} must stay, Cluster {name} uses it; a list with it is accepted",
                        entry.class
                    ),
                );
            }
        }
        for entry in &topology.workers.machine_pools {
            if !workers.machine_pools.iter().any(|class| class.class == entry.class) {
                verdict.refuse(
                    "spec.workers.machinePools",
                    format!(
                        "class {:?} must stay, Cluster {name} uses it; a list with it is accepted",
                        entry.class
                    ),
                );
            }
        }
    }
    check_used_health_checks(class, used, verdict);
    let Some(old) = used.old else { return };
    let mut same = |field: &str, old: &TemplateReference, new: &TemplateReference| {
        if !used.clusters.is_empty() && (old.group(), &old.kind) != (new.group(), &new.kind) {
            verdict.refuse(
                field,
                format!("a {} of {} is accepted while Clusters use the class", old.kind, old.group()),
            );
        }
    };
    same(
        "spec.infrastructure.templateRef",
        &old.spec.infrastructure.template_ref,
        &class.spec.infrastructure.template_ref,
    );
    same(
        "spec.controlPlane.templateRef",
        &old.spec.control_plane.template_ref,
        &class.spec.control_plane.template_ref,
    );
    if let (Some(old), Some(new)) =
        (&old.spec.control_plane.machine_infrastructure, &class.spec.control_plane.machine_infrastructure)
    {
        let field = "spec.controlPlane.machineInfrastructure.templateRef";
        same(field, &old.template_ref, &new.template_ref);
    }
    for (index, group) in workers.machine_deployments.iter().enumerate() {
        let old = old.spec.workers.machine_deployments.iter().find(|old| old.class == group.class);
        if let Some(old) = old {
            let field = format!("spec.workers.machineDeployments[{index}].infrastructure.templateRef");
            same(&field, &old.infrastructure.template_ref, &group.infrastructure.template_ref);
        }
    }
    for (index, group) in workers.machine_pools.iter().enumerate() {
        let old = old.spec.workers.machine_pools.iter().find(|old| old.class == group.class);
        if let Some(old) = old {
            let field = format!("spec.workers.machinePools[{index}].infrastructure.templateRef");
            same(&field, &old.infrastructure.template_ref, &group.infrastructure.template_ref);
        }
    }
}

/// A Cluster that asks for a health check and says nothing about it has the one of the class.
fn check_used_health_checks(class: &ClusterClass, used: ClassUse<'_>, verdict: &mut Verdict) {
    for cluster in used.clusters {
        let Some(topology) = &cluster.spec.topology else { continue };
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let relies = topology.control_plane.health_check.as_ref().is_some_and(|check| {
            check.enabled == Some(true)
                && check.checks == Default::default()
                && check.remediation == Default::default()
        });
        if relies && class.spec.control_plane.health_check.is_none() {
            verdict.refuse(
                "spec.controlPlane.healthCheck",
                format!("must stay, Cluster {name} relies on it; any health check is accepted"),
            );
        }
        for entry in &topology.workers.machine_deployments {
            let relies = entry.health_check.as_ref().is_some_and(|check| {
                check.enabled == Some(true)
                    && check.checks == Default::default()
                    && check.remediation == Default::default()
            });
            let groups = &class.spec.workers.machine_deployments;
            let group = groups.iter().enumerate().find(|(_, group)| group.class == entry.class);
            if let Some((index, group)) = group
                && relies
                && group.health_check.is_none()
            {
                verdict.refuse(
                    format!("spec.workers.machineDeployments[{index}].healthCheck"),
                    format!(
                        "must stay, {} of Cluster {name} relies on it; any health check is accepted",
                        entry.name
                    ),
                );
            }
        }
    }
}
