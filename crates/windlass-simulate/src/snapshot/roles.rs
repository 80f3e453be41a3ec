//! Which kinds of providers play which part, and which kind of the in-memory provider stands in for each.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_api::api_version;
use windlass_api::names::{
    BOOTSTRAP_GROUP, CLONED_FROM_GROUP_KIND_ANNOTATION, INFRASTRUCTURE_API_VERSION, INFRASTRUCTURE_GROUP,
};

use super::rebuild::NotRebuilt;
use super::{group_of, title};

/// The part that a kind of infrastructure plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Cluster,
    ClusterTemplate,
    Machine,
    MachineTemplate,
    Pool,
    PoolTemplate,
}

impl Role {
    /// The kind that stands in.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Cluster => "DevCluster",
            Self::ClusterTemplate => "DevClusterTemplate",
            Self::Machine => "DevMachine",
            Self::MachineTemplate => "DevMachineTemplate",
            Self::Pool => "DevMachinePool",
            Self::PoolTemplate => "DevMachinePoolTemplate",
        }
    }

    /// The part of what is made from a template.
    fn of_instances(self) -> Option<Self> {
        match self {
            Self::ClusterTemplate => Some(Self::Cluster),
            Self::MachineTemplate => Some(Self::Machine),
            Self::PoolTemplate => Some(Self::Pool),
            _ => None,
        }
    }
}

/// The parts of all kinds of infrastructure in a snapshot, by group and kind. Nothing is told by how a kind is called: what
/// counts is which field refers to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roles(BTreeMap<(String, String), Role>);

impl Roles {
    /// Finds the parts.
    ///
    /// # Errors
    ///
    /// When machines are bootstrapped by something else than kubeadm.
    pub(super) fn of(objects: &[Value]) -> Result<Self, NotRebuilt> {
        let mut roles = Self::default();
        for object in objects {
            let spec = &object["spec"];
            let template = &spec["template"]["spec"];
            match object["kind"].as_str().unwrap_or_default() {
                "Cluster" => roles.add(&spec["infrastructureRef"], Role::Cluster),
                "ClusterClass" => roles.add_class(object)?,
                "KubeadmControlPlane" => {
                    roles.add(&spec["machineTemplate"]["spec"]["infrastructureRef"], Role::MachineTemplate);
                }
                "MachineDeployment" | "MachineSet" => {
                    kubeadm(object, &template["bootstrap"]["configRef"])?;
                    roles.add(&template["infrastructureRef"], Role::MachineTemplate);
                }
                "MachinePool" => {
                    kubeadm(object, &template["bootstrap"]["configRef"])?;
                    roles.add(&template["infrastructureRef"], Role::Pool);
                }
                "Machine" => {
                    kubeadm(object, &spec["bootstrap"]["configRef"])?;
                    roles.add(&spec["infrastructureRef"], Role::Machine);
                }
                _ => {}
            }
        }
        Ok(roles)
    }

    fn add_class(&mut self, class: &Value) -> Result<(), NotRebuilt> {
        let spec = &class["spec"];
        self.add(&spec["infrastructure"]["templateRef"], Role::ClusterTemplate);
        let machines = &spec["controlPlane"]["machineInfrastructure"];
        self.add(&machines["templateRef"], Role::MachineTemplate);
        let workers = [("machineDeployments", Role::MachineTemplate), ("machinePools", Role::PoolTemplate)];
        for (list, role) in workers {
            for group in spec["workers"][list].as_array().into_iter().flatten() {
                kubeadm(class, &group["bootstrap"]["templateRef"])?;
                self.add(&group["infrastructure"]["templateRef"], role);
            }
        }
        Ok(())
    }

    fn add(&mut self, reference: &Value, role: Role) {
        let Some((group, kind)) = group_kind(reference) else { return };
        if let (Some(made), Some(role)) = (kind.strip_suffix("Template"), role.of_instances()) {
            self.0.entry((group.to_owned(), made.to_owned())).or_insert(role);
        }
        self.0.entry((group.to_owned(), kind.to_owned())).or_insert(role);
    }

    /// The part that an object plays, if it is of a provider of infrastructure.
    pub(super) fn role(&self, object: &Value) -> Option<Role> {
        let kind = object["kind"].as_str()?;
        self.0.get(&(group_of(object).to_owned(), kind.to_owned())).copied()
    }

    /// The kinds for which others stand in.
    pub(super) fn replaced(&self) -> impl Iterator<Item = (&str, Role)> {
        let all = self.0.iter().filter(|((group, kind), role)| !is_ours(group, kind, **role));
        all.map(|((_, kind), role)| (kind.as_str(), *role))
    }

    /// Whether an object is replaced by a stand-in.
    pub(super) fn replaces(&self, object: &Value) -> Option<Role> {
        let kind = object["kind"].as_str()?;
        self.role(object).filter(|role| !is_ours(group_of(object), kind, *role))
    }

    /// Renames the kinds that are replaced wherever an object names them: in itself, in references, in owners, in the selectors of
    /// patches, and in what it says it was cloned from.
    pub(super) fn rename(&self, object: &mut Value) {
        let is_replaced = self.replaces(object).is_some();
        self.rename_in(object);
        if is_replaced
            && let Some(managers) =
                object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut)
        {
            for manager in managers {
                manager["apiVersion"] = json!(INFRASTRUCTURE_API_VERSION);
            }
        }
        if let Some(Value::String(cloned)) = object
            .pointer_mut("/metadata/annotations")
            .and_then(|all| all.get_mut(CLONED_FROM_GROUP_KIND_ANNOTATION))
            && let Some((kind, group)) = cloned.split_once('.')
            && let Some(role) = self.0.get(&(group.to_owned(), kind.to_owned()))
        {
            *cloned = format!("{}.{INFRASTRUCTURE_GROUP}", role.kind());
        }
    }

    fn rename_in(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                let named = named(map);
                let role = named.and_then(|(group, kind)| self.0.get(&(group.to_owned(), kind.to_owned())));
                if let Some(role) = role {
                    map.insert("kind".to_owned(), json!(role.kind()));
                    for (field, name) in
                        [("apiVersion", INFRASTRUCTURE_API_VERSION), ("apiGroup", INFRASTRUCTURE_GROUP)]
                    {
                        if let Some(found) = map.get_mut(field) {
                            *found = json!(name);
                        }
                    }
                }
                map.values_mut().for_each(|value| self.rename_in(value));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename_in(item)),
            _ => {}
        }
    }
}

/// Whether a kind is the in-memory provider's own.
fn is_ours(group: &str, kind: &str, role: Role) -> bool {
    group == INFRASTRUCTURE_GROUP && kind == role.kind()
}

/// What a reference, or an object, names.
fn group_kind(reference: &Value) -> Option<(&str, &str)> {
    reference.as_object().and_then(named)
}

fn named(reference: &Map<String, Value>) -> Option<(&str, &str)> {
    let kind = reference.get("kind")?.as_str()?;
    let group = reference.get("apiGroup").and_then(Value::as_str);
    let of_version = || reference.get("apiVersion")?.as_str().map(api_version::group);
    Some((group.or_else(of_version)?, kind))
}

/// Machines are bootstrapped by kubeadm, or by data that is there.
fn kubeadm(object: &Value, reference: &Value) -> Result<(), NotRebuilt> {
    match group_kind(reference) {
        Some((group, kind)) if group != BOOTSTRAP_GROUP || !kind.starts_with("KubeadmConfig") => {
            Err(NotRebuilt::Bootstrap { kind: kind.to_owned(), of: title(object) })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> Value {
        let reference = |kind: &str| {
            json!({"templateRef": {"kind": kind, "name": "t",
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1"}})
        };
        let bootstrap = json!({"templateRef": {"kind": "KubeadmConfigTemplate", "name": "b",
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2"}});
        json!({"kind": "ClusterClass", "metadata": {"name": "k", "namespace": "n"}, "spec": {
            "infrastructure": reference("AcmeFleetTemplate"),
            "controlPlane": {"machineInfrastructure": reference("AcmeBoxTemplate")},
            "workers": {"machineDeployments": [{"bootstrap": bootstrap, "infrastructure": reference("AcmeBoxTemplate")}],
                "machinePools": [{"bootstrap": bootstrap, "infrastructure": reference("AcmeHeapTemplate")}]},
            "patches": [{"definitions": [{"selector": {"kind": "AcmeBoxTemplate",
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "matchResources": {"controlPlane": true}}}]}]}})
    }

    #[test]
    fn parts_are_told_by_references_and_not_by_names() {
        let roles = Roles::of(&[class()]).unwrap();
        let kinds: Vec<(&str, &str)> = roles.replaced().map(|(kind, role)| (kind, role.kind())).collect();
        assert_eq!(
            kinds,
            [
                ("AcmeBox", "DevMachine"),
                ("AcmeBoxTemplate", "DevMachineTemplate"),
                ("AcmeFleet", "DevCluster"),
                ("AcmeFleetTemplate", "DevClusterTemplate"),
                ("AcmeHeap", "DevMachinePool"),
                ("AcmeHeapTemplate", "DevMachinePoolTemplate"),
            ]
        );
    }

    #[test]
    fn kinds_are_renamed_wherever_they_are_named() {
        let mut class = class();
        let roles = Roles::of(std::slice::from_ref(&class)).unwrap();
        roles.rename(&mut class);
        let selector = &class["spec"]["patches"][0]["definitions"][0]["selector"];
        assert_eq!(selector["kind"], "DevMachineTemplate");
        assert_eq!(selector["apiVersion"], INFRASTRUCTURE_API_VERSION);
        assert_eq!(class["spec"]["infrastructure"]["templateRef"]["kind"], "DevClusterTemplate");
        let mut machine = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "AcmeBox",
            "metadata": {"name": "m", "annotations":
                {CLONED_FROM_GROUP_KIND_ANNOTATION: "AcmeBoxTemplate.infrastructure.cluster.x-k8s.io"},
                "managedFields": [{"manager": "x", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1"}]}});
        roles.rename(&mut machine);
        assert_eq!(machine["kind"], "DevMachine");
        assert_eq!(machine["metadata"]["managedFields"][0]["apiVersion"], INFRASTRUCTURE_API_VERSION);
        let cloned = &machine["metadata"]["annotations"][CLONED_FROM_GROUP_KIND_ANNOTATION];
        assert_eq!(cloned, "DevMachineTemplate.infrastructure.cluster.x-k8s.io");
    }

    #[test]
    fn another_bootstrap_than_kubeadm_is_refused() {
        let machine = json!({"kind": "Machine", "metadata": {"name": "m", "namespace": "n"}, "spec": {
            "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "TalosConfig", "name": "t"}}}});
        let refused = Roles::of(&[machine]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Machine n/m is bootstrapped by a TalosConfig, and only kubeadm can be simulated"
        );
    }

    #[test]
    fn a_version_alone_is_one_of_the_core_group() {
        // As v1beta1 refers to objects.
        let machine = json!({"kind": "Machine", "metadata": {"name": "m", "namespace": "n"}, "spec": {
            "bootstrap": {"configRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "boot"}}}});
        let refused = Roles::of(&[machine]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Machine n/m is bootstrapped by a ConfigMap, and only kubeadm can be simulated"
        );
    }
}
