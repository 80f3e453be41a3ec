//! ClusterClasses.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_api::cluster::{
    Cluster, ClusterClass, ClusterClassPatch, JsonPatchOperation, TemplateReference,
};
use windlass_version::{Distance, Version};

use super::{Verdict, is_dns_subdomain};
use crate::topology::gotemplate::{MissingKey, Template, render};

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
    for (index, patch) in class.spec.patches.iter().enumerate() {
        check_patch(patch, index, &class.spec.patches[..index], &mut verdict);
    }
    check_use(class, used, &mut verdict);
    verdict
}

/// Checks that a class may be deleted: nobody uses it.
pub fn validate_class_deletion(name: &str, clusters: &[Cluster]) -> Verdict {
    let mut verdict = Verdict::default();
    if !clusters.is_empty() {
        let names: Vec<&str> =
            clusters.iter().filter_map(|cluster| cluster.metadata.name.as_deref()).collect();
        verdict.refuse(
            "metadata.name",
            format!("{name} cannot be deleted while Clusters use it: {}", names.join(", ")),
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
                        "{version} is not newer than {previous} before it, the list goes from old to new"
                    ),
                );
            }
            match previous.minor().distance_to(version.minor()) {
                Distance::Forward(2..) => verdict.refuse(
                    field,
                    format!(
                        "{version} leaves out {}: control planes cannot skip minors, add a version of it",
                        previous.minor().next()
                    ),
                ),
                Distance::OtherMajor => verdict.refuse(
                    field,
                    format!("{version} has another major than {previous}: no upgrade leads there"),
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
            verdict.refuse(format!("{field}.name"), "must be the name of a template");
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
            verdict.refuse(field, "must not be empty");
        } else if !seen.insert(class) {
            verdict.refuse(field, format!("{class:?} is used twice, names of classes must differ"));
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
        Err(error) => verdict.refuse(field, error.to_string()),
        Ok(name) if !is_dns_subdomain(&name) => verdict.refuse(
            field,
            format!("it makes names such as {name:?}, lower case letters, digits and dashes are accepted"),
        ),
        Ok(_) => {}
    }
}

fn check_patch(patch: &ClusterClassPatch, index: usize, before: &[ClusterClassPatch], verdict: &mut Verdict) {
    let field = format!("spec.patches[{index}]");
    if patch.name.is_empty() || before.iter().any(|other| other.name == patch.name) {
        verdict.refuse(
            format!("{field}.name"),
            format!("{:?} is not accepted, a name of its own is", patch.name),
        );
    }
    if patch.external.is_some() != patch.definitions.is_empty() {
        verdict.refuse(field.as_str(), "either definitions or external must be set");
    }
    if !patch.enabled_if.is_empty()
        && let Err(error) = Template::parse(&patch.enabled_if)
    {
        verdict.refuse(format!("{field}.enabledIf"), error.to_string());
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
                "must select something: controlPlane, infrastructureCluster, machineDeploymentClass or \
                 machinePoolClass",
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
            if let Some(from) = from
                && let Err(error) = Template::parse(&from.template)
            {
                verdict.refuse(format!("{field}.valueFrom.template"), error.to_string());
            }
        }
    }
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
                format!("{} must stay, Cluster {name} has it", topology.version),
            );
        }
        for entry in &topology.workers.machine_deployments {
            if !workers.machine_deployments.iter().any(|class| class.class == entry.class) {
                verdict.refuse(
                    "spec.workers.machineDeployments",
                    format!("class {:?} must stay, Cluster {name} uses it", entry.class),
                );
            }
        }
        for entry in &topology.workers.machine_pools {
            if !workers.machine_pools.iter().any(|class| class.class == entry.class) {
                verdict.refuse(
                    "spec.workers.machinePools",
                    format!("class {:?} must stay, Cluster {name} uses it", entry.class),
                );
            }
        }
    }
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
}
