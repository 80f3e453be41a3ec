//! Annotations that make things go wrong on purpose, on a DevMachine, a DevMachinePool or, for all of its machines, on a
//! DevCluster. A template passes them on to what is made from it.

use std::collections::BTreeMap;

/// The kubelet version that a machine runs. Written when its Node registers; an extension that updates a machine in place writes
/// another one, and the Node follows.
pub const KUBELET_VERSION_ANNOTATION: &str = "inmemory.infrastructure.cluster.x-k8s.io/kubelet-version";
/// The version of the Machine that the machine was brought to last. When the Machine has another one, and no update of it is
/// under way, an update in place is done.
pub const MACHINE_VERSION_ANNOTATION: &str = "inmemory.infrastructure.cluster.x-k8s.io/machine-version";
/// The machine is never provisioned; the value says why.
pub const FAIL_PROVISIONING_ANNOTATION: &str = "inmemory.infrastructure.cluster.x-k8s.io/fail-provisioning";
/// The Node registers and never becomes ready; the value says why.
pub const NEVER_READY_ANNOTATION: &str = "inmemory.infrastructure.cluster.x-k8s.io/never-ready";
/// A pod on the Node never terminates.
pub const DRAIN_NEVER_ENDS_ANNOTATION: &str = "inmemory.infrastructure.cluster.x-k8s.io/drain-never-ends";
/// Versions, joined with commas, of which there is no machine image.
pub const MISSING_IMAGES_ANNOTATION: &str = "inmemory.infrastructure.cluster.x-k8s.io/missing-images";

/// Knobs of the groups of a cluster, on its DevCluster: JSON with the annotations above and their values, by the groups of
/// [`group_of`](crate::group_of).
pub const GROUP_KNOBS_ANNOTATION: &str = "inmemory.infrastructure.cluster.x-k8s.io/group-knobs";
/// The name of the Node of a machine, where it is not that of the machine.
pub const NODE_NAME_ANNOTATION: &str = "inmemory.infrastructure.cluster.x-k8s.io/node-name";

/// What goes wrong with a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knobs {
    /// It is never provisioned, for this reason.
    pub fail_provisioning: Option<String>,
    /// Its Node is never ready, for this reason.
    pub never_ready: Option<String>,
    /// A pod on its Node never terminates.
    pub drain_never_ends: bool,
    /// Versions of which there is no image.
    pub missing_images: Vec<String>,
}

impl Knobs {
    /// Reads the knobs of a machine: its own, where it has none those of its group, and where that has none those of its
    /// DevCluster.
    pub fn of(
        machine: &BTreeMap<String, String>,
        group: Option<&str>,
        cluster: &BTreeMap<String, String>,
    ) -> Self {
        let groups = cluster.get(GROUP_KNOBS_ANNOTATION);
        let mut groups: BTreeMap<String, BTreeMap<String, String>> =
            groups.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let of_group = group.and_then(|group| groups.remove(group)).unwrap_or_default();
        let get = |key: &str| machine.get(key).or_else(|| of_group.get(key)).or_else(|| cluster.get(key));
        let images = get(MISSING_IMAGES_ANNOTATION).map(String::as_str).unwrap_or_default();
        Self {
            fail_provisioning: get(FAIL_PROVISIONING_ANNOTATION)
                .map(|why| or_default(why, "out of capacity")),
            never_ready: get(NEVER_READY_ANNOTATION).map(|why| or_default(why, "container runtime is down")),
            drain_never_ends: get(DRAIN_NEVER_ENDS_ANNOTATION).is_some(),
            missing_images: images.split(',').map(|version| version.trim().to_owned()).collect(),
        }
    }

    /// Why a machine of a version is never provisioned: a word for programs, and a sentence.
    pub fn provisioning_failure(&self, version: &str) -> Option<(&'static str, String)> {
        if let Some(why) = &self.fail_provisioning {
            return Some(("ProvisioningFailed", why.clone()));
        }
        let missing = !version.is_empty() && self.missing_images.iter().any(|missing| missing == version);
        missing.then(|| ("ImageNotFound", format!("there is no machine image for {version}")))
    }
}

fn or_default(text: &str, default: &str) -> String {
    if text.is_empty() { default.to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn a_machine_overrides_its_cluster() {
        let cluster =
            annotations(&[(MISSING_IMAGES_ANNOTATION, "v1.31.0, v1.32.0"), (NEVER_READY_ANNOTATION, "x")]);
        let machine = annotations(&[(MISSING_IMAGES_ANNOTATION, "v1.33.0")]);
        let own = Knobs::of(&machine, None, &cluster);
        assert_eq!(own.provisioning_failure("v1.32.0"), None);
        assert_eq!(own.never_ready.as_deref(), Some("x"));
        let inherited = Knobs::of(&annotations(&[]), None, &cluster);
        assert_eq!(
            inherited.provisioning_failure("v1.32.0").map(|(reason, _)| reason),
            Some("ImageNotFound")
        );
        assert_eq!(inherited.provisioning_failure(""), None);
    }

    #[test]
    fn a_group_overrides_its_cluster_and_no_other_group() {
        let of_web = format!("{{\"web\": {{\"{NEVER_READY_ANNOTATION}\": \"of the group\"}}}}");
        let cluster = annotations(&[(NEVER_READY_ANNOTATION, "of all"), (GROUP_KNOBS_ANNOTATION, &of_web)]);
        let reason =
            |machine: &[(&str, &str)], group| Knobs::of(&annotations(machine), group, &cluster).never_ready;
        assert_eq!(reason(&[], Some("web")).as_deref(), Some("of the group"));
        assert_eq!(reason(&[], Some("db")).as_deref(), Some("of all"));
        assert_eq!(reason(&[(NEVER_READY_ANNOTATION, "its own")], Some("web")).as_deref(), Some("its own"));
    }

    #[test]
    fn a_failure_without_a_reason_gets_one() {
        let knobs = Knobs::of(&annotations(&[(FAIL_PROVISIONING_ANNOTATION, "")]), None, &BTreeMap::new());
        let failure = knobs.provisioning_failure("v1.30.0");
        assert_eq!(failure, Some(("ProvisioningFailed", "out of capacity".to_owned())));
    }
}
