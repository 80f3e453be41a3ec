//! Whether objects are what is desired.

use serde_json::{Map, Value, json};
use windlass_api::cluster::{Machine, MachineSpec};
use windlass_api::hooks::MachineObjects;

use crate::hash;

/// Whether an object has become what a template wants, which was made from another template before. What neither of them
/// mentions belongs to others, such as the provider.
pub fn is_reached(before: Option<&Value>, wanted: &Value, present: Option<&Value>) -> bool {
    let nothing = Map::new();
    // A template without a spec wants nothing.
    let fields = if wanted.is_null() { Some(&nothing) } else { wanted.as_object() };
    match (fields, present) {
        (Some(wanted), Some(Value::Object(present))) => {
            let before = before.and_then(Value::as_object);
            let reached = wanted.iter().all(|(key, wanted)| {
                is_reached(before.and_then(|before| before.get(key)), wanted, present.get(key))
            });
            let mut taken_away = before.into_iter().flatten().filter(|(key, _)| !wanted.contains_key(*key));
            reached && taken_away.all(|(key, _)| present.get(key).is_none_or(is_empty))
        }
        // Nothing and an empty value are the same to an API.
        (_, None) => is_empty(wanted),
        (_, Some(present)) => wanted == present,
    }
}

/// One of the objects of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// `spec` of the template that it was made from, if that is still there.
    pub before: Option<&'a Value>,
    /// `spec` of the template that it shall be as.
    pub wanted: &'a Value,
    /// Its own `spec`.
    pub present: Option<&'a Value>,
}

/// Whether a worker is what a template wants, in its objects and on its Node.
pub fn has_reached(machine: &Machine, wanted: &MachineSpec, parts: &[Part<'_>]) -> bool {
    let kubelet = machine.status.node_info.as_ref().map_or("", |info| info.kubelet_version.as_str());
    let version = wanted.version.as_str();
    machine.spec.version == version
        && (version.is_empty() || kubelet == version)
        // A template that does not care leaves the machine where it is.
        && (wanted.failure_domain.is_empty() || machine.spec.failure_domain == wanted.failure_domain)
        && parts.iter().all(|part| is_reached(part.before, part.wanted, part.present))
}

/// Nothing, and what says nothing.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// A short text for what is desired, by which it is told from what was desired before.
pub fn fingerprint(desired: &MachineObjects) -> String {
    let specs =
        [Some(&desired.machine), Some(&desired.infrastructure_machine), desired.bootstrap_config.as_ref()]
            .map(|object| {
                object.map(|object| {
                    json!([object.kind(), object.pointer("/metadata/annotations"), object.spec()])
                })
            });
    digest(&json!(specs))
}

/// A short text for how an external updater is registered, by which it is told from how it was registered before.
pub fn digest(registration: &Value) -> String {
    format!("{:016x}", hash::long(registration.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use windlass_api::Object;

    use super::*;

    #[test]
    fn an_object_is_what_its_new_template_wants_and_nothing_of_the_old_one() {
        let old = json!({"size": "small", "files": [{"path": "/a"}], "net": {"mtu": 1500, "dhcp": true}});
        let new = json!({"size": "large", "net": {"mtu": 9000}, "labels": {}});
        for (present, expected) in [
            (json!({"size": "large", "net": {"mtu": 9000}}), true),
            // What the provider wrote stays.
            (json!({"size": "large", "net": {"mtu": 9000, "mac": "x"}, "providerID": "p"}), true),
            (json!({"size": "large", "files": [], "net": {"mtu": 9000}}), true),
            (json!({"size": "small", "net": {"mtu": 9000}}), false),
            (json!({"size": "large", "net": {"mtu": 1500}}), false),
            (json!({"size": "large", "net": {"mtu": 9000, "dhcp": true}}), false),
            (json!({"size": "large", "net": {"mtu": 9000}, "files": [{"path": "/a"}]}), false),
            (json!({"net": {"mtu": 9000}}), false),
            (json!({}), false),
        ] {
            assert_eq!(is_reached(Some(&old), &new, Some(&present)), expected, "{present}");
        }
        assert!(is_reached(None, &json!({}), None));
        // A template without a spec wants nothing, whatever the provider writes.
        assert!(is_reached(Some(&old), &Value::Null, Some(&json!({"providerID": "p"}))));
        assert!(!is_reached(Some(&old), &Value::Null, Some(&json!({"size": "small"}))));
        assert!(!is_reached(None, &json!({"a": 1}), None));
        // Lists are compared as a whole: it is unknown which of their items belong to whom.
        assert!(!is_reached(None, &json!({"a": [1]}), Some(&json!({"a": [1, 2]}))));
    }

    #[test]
    fn a_worker_is_done_when_its_objects_and_its_node_are() {
        let machine = |version: &str, kubelet: &str, domain: &str| -> Machine {
            serde_json::from_value(json!({
                "metadata": {"name": "m"}, "spec": {"version": version, "failureDomain": domain},
                "status": {"nodeInfo": {"kubeletVersion": kubelet}},
            }))
            .unwrap()
        };
        let wanted = |domain: &str| -> MachineSpec {
            serde_json::from_value(json!({"version": "v1.33.1", "failureDomain": domain})).unwrap()
        };
        let (size, small) = (json!({"size": "large"}), json!({"size": "small"}));
        for (machine, domain, present, expected) in [
            (machine("v1.33.1", "v1.33.1", "a"), "", &size, true),
            (machine("v1.33.1", "v1.33.1", "a"), "a", &size, true),
            (machine("v1.33.1", "v1.33.1", "a"), "b", &size, false),
            (machine("v1.33.0", "v1.33.1", "a"), "", &size, false),
            (machine("v1.33.1", "v1.33.0", "a"), "", &size, false),
            (machine("v1.33.1", "", "a"), "", &size, false),
            (machine("v1.33.1", "v1.33.1", "a"), "", &small, false),
        ] {
            let part = Part { before: None, wanted: &size, present: Some(present) };
            assert_eq!(has_reached(&machine, &wanted(domain), &[part]), expected, "{machine:?} {domain}");
        }
    }

    #[test]
    fn what_is_desired_has_one_fingerprint() {
        let desired = |version: &str, template: &str| MachineObjects {
            machine: Object::try_from(json!({"kind": "Machine", "spec": {"version": version}})).unwrap(),
            infrastructure_machine: Object::try_from(
                json!({"kind": "DevMachine", "metadata": {"annotations": {"from": template}}, "spec": {}}),
            )
            .unwrap(),
            bootstrap_config: None,
        };
        let one = fingerprint(&desired("v1.33.0", "t"));
        assert_eq!(one, fingerprint(&desired("v1.33.0", "t")));
        assert_ne!(one, fingerprint(&desired("v1.33.1", "t")));
        assert_ne!(one, fingerprint(&desired("v1.33.0", "u")));
    }
}
