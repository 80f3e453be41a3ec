//! The fields of every kind, read from a file.

use serde_json::Value;

const V1BETA1: &str = include_str!("v1beta1.yaml");
const V1BETA2: &str = include_str!("v1beta2.yaml");

/// Fields of v1beta2 that v1beta1 does not have and shows all the same: nothing is lost, and no client reads them.
const SHOWN: [&str; 2] = ["DevMachine.status.failureDomain", "DevMachineTemplate.status"];

pub(crate) struct Shapes(Value);

impl Shapes {
    pub(crate) fn of(version: &str) -> Self {
        let text = if version == "v1beta2" { V1BETA2 } else { V1BETA1 };
        Self(serde_saphyr::from_str(text).unwrap())
    }

    /// `spec` and `status` of a kind.
    pub(crate) fn kind(&self, kind: &str) -> &Value {
        &self.0["kinds"][kind]
    }

    /// What a name stands for, if it is not the name of a type.
    pub(crate) fn resolve<'v>(&'v self, shape: &'v Value) -> &'v Value {
        shape.as_str().and_then(|name| self.0["shared"].get(name)).unwrap_or(shape)
    }

    /// A field of an object that its kind does not have.
    pub(crate) fn unknown_field(&self, kind: &str, object: &Value) -> Option<String> {
        ["spec", "status"].into_iter().find_map(|part| {
            self.unknown(&self.kind(kind)[part], object.get(part)?, format!("{kind}.{part}"))
        })
    }

    fn unknown(&self, shape: &Value, value: &Value, path: String) -> Option<String> {
        if SHOWN.contains(&path.as_str()) {
            return None;
        }
        match (self.resolve(shape), value) {
            (Value::Object(known), Value::Object(fields)) => fields.iter().find_map(|(name, value)| {
                let path = format!("{path}.{name}");
                match known.get(name).or_else(|| known.get("*")) {
                    Some(shape) => self.unknown(shape, value, path),
                    None if SHOWN.contains(&path.as_str()) => None,
                    None => Some(path),
                }
            }),
            (Value::Array(element), Value::Array(values)) => {
                values.iter().find_map(|value| self.unknown(&element[0], value, format!("{path}[]")))
            }
            (Value::Null, _) => Some(path),
            (Value::String(_), _) => None,
            // A map where the other version has a list.
            _ => Some(path),
        }
    }
}

/// Every kind with its older version.
pub(crate) fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.iter().map(|(kind, _, older)| (*kind, *older))
}

pub(crate) fn group(kind: &str) -> &'static str {
    KINDS.iter().find(|(name, ..)| *name == kind).unwrap().1
}

const KINDS: [(&str, &str, &str); 21] = [
    ("Cluster", "cluster.x-k8s.io", "v1beta1"),
    ("ClusterClass", "cluster.x-k8s.io", "v1beta1"),
    ("MachineDeployment", "cluster.x-k8s.io", "v1beta1"),
    ("MachineSet", "cluster.x-k8s.io", "v1beta1"),
    ("Machine", "cluster.x-k8s.io", "v1beta1"),
    ("MachinePool", "cluster.x-k8s.io", "v1beta1"),
    ("MachineHealthCheck", "cluster.x-k8s.io", "v1beta1"),
    ("MachineDrainRule", "cluster.x-k8s.io", "v1beta1"),
    ("ClusterResourceSet", "addons.cluster.x-k8s.io", "v1beta1"),
    ("ClusterResourceSetBinding", "addons.cluster.x-k8s.io", "v1beta1"),
    ("KubeadmConfig", "bootstrap.cluster.x-k8s.io", "v1beta1"),
    ("KubeadmConfigTemplate", "bootstrap.cluster.x-k8s.io", "v1beta1"),
    ("KubeadmControlPlane", "controlplane.cluster.x-k8s.io", "v1beta1"),
    ("KubeadmControlPlaneTemplate", "controlplane.cluster.x-k8s.io", "v1beta1"),
    ("ExtensionConfig", "runtime.cluster.x-k8s.io", "v1alpha1"),
    ("DevCluster", "infrastructure.cluster.x-k8s.io", "v1beta1"),
    ("DevClusterTemplate", "infrastructure.cluster.x-k8s.io", "v1beta1"),
    ("DevMachine", "infrastructure.cluster.x-k8s.io", "v1beta1"),
    ("DevMachineTemplate", "infrastructure.cluster.x-k8s.io", "v1beta1"),
    ("IPAddress", "ipam.cluster.x-k8s.io", "v1beta1"),
    ("IPAddressClaim", "ipam.cluster.x-k8s.io", "v1beta1"),
];
