//! What of a template needs a rollout, and what does not.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_api::cluster::{MachineDeployment, MachineSpec, MachineTemplateSpec};
use windlass_api::identity::{Incomplete, name_of, uid_of};

use crate::hash;
use crate::machine_set::{RANDOM_ALPHABET, RANDOM_LENGTH};

/// Whether machines of one template are machines of the other: the same version, failure domain, bootstrap and
/// infrastructure. Everything else (labels, annotations, timeouts, gates, taints) is changed on machines as they are.
pub fn same_machines(one: &MachineTemplateSpec, other: &MachineTemplateSpec) -> bool {
    let fields = |spec: &MachineSpec| {
        (
            spec.version.clone(),
            spec.failure_domain.clone(),
            spec.bootstrap.clone(),
            spec.infrastructure_ref.clone(),
        )
    };
    fields(&one.spec) == fields(&other.spec)
}

/// The name of a new MachineSet, and the label that its machines have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshSet {
    /// Its name: that of the MachineDeployment, cut if it is long, and five characters.
    pub name: String,
    /// The value of label `machine-template-hash`.
    pub hash: String,
}

/// Names the next MachineSet of a MachineDeployment.
///
/// The name follows from the template and the revision, so that two decisions from the same facts, for example before
/// and after a crash, name the same MachineSet and do not create two. `taken` has the names that cannot be used.
///
/// # Errors
///
/// The MachineDeployment does not say which one it is.
pub fn fresh_set(
    deployment: &MachineDeployment,
    revision: u64,
    taken: &BTreeSet<String>,
) -> Result<FreshSet, Incomplete> {
    let (name, uid) = (name_of(deployment)?, uid_of(deployment)?);
    let hash = template_hash(&deployment.spec.template);
    // A name has 63 characters at most, because it becomes the value of a label.
    let base = name.get(..name.len().min(57)).unwrap_or(name);
    let mut salt = 0u32;
    loop {
        let suffix = suffix(format!("{uid}/{hash}/{revision}/{salt}").as_bytes());
        let name = format!("{base}-{suffix}");
        if !taken.contains(&name) {
            return Ok(FreshSet { name, hash: format!("{hash}-{suffix}") });
        }
        salt += 1;
    }
}

/// A short number for everything in a template that needs a rollout.
fn template_hash(template: &MachineTemplateSpec) -> u32 {
    let MachineSpec { version, failure_domain, bootstrap, infrastructure_ref, .. } = &template.spec;
    let fields = json!([version, failure_domain, bootstrap, infrastructure_ref]).to_string();
    hash::short(&fields)
}

fn suffix(of: &[u8]) -> String {
    let base = RANDOM_ALPHABET.len() as u64;
    let digits = (0..RANDOM_LENGTH).scan(hash::long(of), |rest, _| {
        let digit = *rest % base;
        *rest /= base;
        Some(char::from(RANDOM_ALPHABET[usize::try_from(digit).unwrap_or(0)]))
    });
    digits.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(name: &str, spec: Value) -> MachineDeployment {
        let template = json!({"spec": spec});
        serde_json::from_value(
            json!({"metadata": {"name": name, "uid": "u1"}, "spec": {"template": template}}),
        )
        .unwrap()
    }

    #[test]
    fn a_rollout_is_for_version_failure_domain_bootstrap_and_infrastructure() {
        let base = || {
            json!({
                "clusterName": "c", "version": "v1.31.0", "failureDomain": "a",
                "bootstrap": {"configRef": {"kind": "KubeadmConfigTemplate", "name": "b", "apiGroup": "g"}},
                "infrastructureRef": {"kind": "DevMachineTemplate", "name": "i", "apiGroup": "g"},
            })
        };
        let one = deployment("md", base()).spec.template;
        for (pointer, value, same) in [
            ("/version", json!("v1.31.1"), false),
            ("/failureDomain", json!("b"), false),
            ("/bootstrap/configRef/name", json!("b2"), false),
            ("/bootstrap", json!({"dataSecretName": "s"}), false),
            ("/infrastructureRef/name", json!("i2"), false),
            ("/clusterName", json!("d"), true),
        ] {
            let mut spec = base();
            *spec.pointer_mut(pointer).unwrap() = value;
            let other = deployment("md", spec).spec.template;
            assert_eq!(same_machines(&one, &other), same, "{pointer}");
            assert_eq!(template_hash(&one) == template_hash(&other), same, "{pointer}");
        }
        let mut spec = base();
        for (field, value) in [
            ("providerID", json!("p")),
            ("minReadySeconds", json!(5)),
            ("readinessGates", json!([{"conditionType": "x"}])),
            ("deletion", json!({"nodeDrainTimeoutSeconds": 3})),
            ("taints", json!([{"key": "k", "effect": "NoSchedule", "propagation": "Always"}])),
        ] {
            spec[field] = value;
        }
        let mut other = deployment("md", spec).spec.template;
        other.metadata.labels.insert("a".to_owned(), "b".to_owned());
        assert!(same_machines(&one, &other));
    }

    #[test]
    fn the_same_facts_name_the_same_machine_set() {
        let md = deployment(&"m".repeat(70), json!({"version": "v1.31.0"}));
        let one = fresh_set(&md, 1, &BTreeSet::new()).unwrap();
        assert_eq!(one, fresh_set(&md, 1, &BTreeSet::new()).unwrap());
        assert_eq!(one.name.len(), 63);
        let (_, suffix) = one.name.rsplit_once('-').unwrap();
        assert_eq!(one.hash, format!("{}-{suffix}", template_hash(&md.spec.template)));
        // Another revision, another template, a name that is taken: another MachineSet.
        let newer = deployment(&"m".repeat(70), json!({"version": "v1.32.0"}));
        let taken = BTreeSet::from([one.name.clone()]);
        for other in [
            fresh_set(&md, 2, &BTreeSet::new()),
            fresh_set(&newer, 1, &BTreeSet::new()),
            fresh_set(&md, 1, &taken),
        ] {
            assert_ne!(other.unwrap().name, one.name);
        }
    }
}
