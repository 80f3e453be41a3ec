//! Volumes and where they come from.

use jiff::Timestamp;
use serde_json::Value;

use super::{at, items};

fn flag(object: &Value, pointer: &str, absent: bool) -> Value {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(absent).into()
}

fn or_unset(text: &str) -> Value {
    if text.is_empty() { "<unset>".into() } else { text.into() }
}

/// `ReadWriteOnce` as `RWO`.
fn modes_at(object: &Value, pointer: &str) -> Value {
    let short = items(object, pointer).filter_map(Value::as_str).map(|mode| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        other => other,
    });
    short.collect::<Vec<_>>().join(",").into()
}

fn phase(object: &Value) -> Value {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".into();
    }
    at(object, "/status/phase").into()
}

pub(super) fn claim_status(claim: &Value, _: Timestamp) -> Value {
    phase(claim)
}

pub(super) fn claim_modes(claim: &Value, _: Timestamp) -> Value {
    // What a claim has got counts only once it is bound.
    modes_at(claim, if at(claim, "/spec/volumeName").is_empty() { "" } else { "/status/accessModes" })
}

pub(super) fn volume_status(volume: &Value, _: Timestamp) -> Value {
    phase(volume)
}

pub(super) fn volume_modes(volume: &Value, _: Timestamp) -> Value {
    modes_at(volume, "/spec/accessModes")
}

pub(super) fn claim(volume: &Value, _: Timestamp) -> Value {
    match (at(volume, "/spec/claimRef/namespace"), at(volume, "/spec/claimRef/name")) {
        (_, "") => "".into(),
        (namespace, name) => format!("{namespace}/{name}").into(),
    }
}

pub(super) fn attributes_class(object: &Value, _: Timestamp) -> Value {
    or_unset(at(object, "/spec/volumeAttributesClassName"))
}

pub(super) fn volume_mode(object: &Value, _: Timestamp) -> Value {
    or_unset(at(object, "/spec/volumeMode"))
}

pub(super) fn reclaim_policy(class: &Value, _: Timestamp) -> Value {
    match at(class, "/reclaimPolicy") {
        "" => "Delete".into(),
        policy => policy.into(),
    }
}

pub(super) fn binding_mode(class: &Value, _: Timestamp) -> Value {
    match at(class, "/volumeBindingMode") {
        "" => "Immediate".into(),
        mode => mode.into(),
    }
}

pub(super) fn expansion(class: &Value, _: Timestamp) -> Value {
    flag(class, "/allowVolumeExpansion", false)
}

pub(super) fn attached(attachment: &Value, _: Timestamp) -> Value {
    flag(attachment, "/status/attached", false)
}

pub(super) fn attach_required(driver: &Value, _: Timestamp) -> Value {
    flag(driver, "/spec/attachRequired", true)
}

pub(super) fn pod_info(driver: &Value, _: Timestamp) -> Value {
    flag(driver, "/spec/podInfoOnMount", false)
}

pub(super) fn capacity_tracked(driver: &Value, _: Timestamp) -> Value {
    flag(driver, "/spec/storageCapacity", false)
}

pub(super) fn modes(driver: &Value, _: Timestamp) -> Value {
    let modes: Vec<&str> = items(driver, "/spec/volumeLifecycleModes").filter_map(Value::as_str).collect();
    if modes.is_empty() { "Persistent".into() } else { modes.join(",").into() }
}

pub(super) fn global_default(class: &Value, _: Timestamp) -> Value {
    flag(class, "/globalDefault", false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_shows_its_modes_once_it_is_bound() {
        let mut claim = json!({"spec": {}, "status": {"phase": "Pending", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}});
        assert_eq!(claim_modes(&claim, Timestamp::UNIX_EPOCH), "");
        claim["spec"]["volumeName"] = "v".into();
        assert_eq!(claim_modes(&claim, Timestamp::UNIX_EPOCH), "RWO,ROX");
        assert_eq!(claim_status(&claim, Timestamp::UNIX_EPOCH), "Pending");
        assert_eq!(volume_mode(&claim, Timestamp::UNIX_EPOCH), "<unset>");
    }
}
