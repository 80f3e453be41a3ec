//! When two bootstrap configurations are the same.
//!
//! The first Machine of a control plane gets an *init* configuration, all others a *join* configuration, both made from
//! one `kubeadmConfigSpec`. Comparing them literally would roll out the first Machine for ever, so both sides are first
//! brought into one form. Fields that kubeadm reads only once (endpoint, discovery), or that changed their default in
//! history, are levelled too.

use serde_json::{Map, Value, json};
use windlass_version::{Minor, Version};

/// Which of the two configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For the Machine that starts the cluster.
    Init,
    /// For all others.
    Join,
}

/// The configuration of a new Machine: `kubeadmConfigSpec` with the part that it does not need removed.
///
/// `clusterConfiguration` stays in both forms: a joining Machine learns from it whether etcd is external.
pub fn for_machine(spec: &Value, form: Form, version: &str) -> Value {
    let mut config = as_map(spec);
    match form {
        Form::Init => {
            config.remove("joinConfiguration");
            config.entry("initConfiguration").or_insert_with(|| json!({}));
        }
        Form::Join => {
            config.remove("initConfiguration");
            let join = child(&mut config, "joinConfiguration");
            child(join, "controlPlane");
        }
    }
    default_feature_gates(&mut config, version);
    Value::Object(config)
}

/// The fields in which the configuration of a Machine differs from what the control plane wants, as dotted paths.
pub fn differences(current: &Value, wanted: &Value, version: &str) -> Vec<String> {
    let join = compare(current, &for_machine(wanted, Form::Join, version), Form::Join);
    if join.is_empty() || !is_init(current) {
        return join;
    }
    // The init and join halves of a specification may legitimately say different things.
    let init = compare(current, &for_machine(wanted, Form::Init, version), Form::Init);
    if init.is_empty() { init } else { join }
}

/// Whether this is the configuration of the Machine that started the cluster.
pub fn is_init(config: &Value) -> bool {
    config.pointer("/joinConfiguration/controlPlane").is_none() && config.get("initConfiguration").is_some()
}

/// Both sides in the form in which they are compared: first the current one, then the wanted one.
pub fn normalised(current: &Value, wanted: &Value, form: Form) -> (Value, Value) {
    let (mut current, mut wanted) = (as_map(current), as_map(wanted));
    if form == Form::Join && is_init(&Value::Object(current.clone())) {
        init_to_join(&mut current, &wanted);
    }
    // kubeadm reads these from the running cluster, not from the configuration of a Machine.
    for field in ["controlPlaneEndpoint", "dns"] {
        let value = wanted.get("clusterConfiguration").and_then(|cluster| cluster.get(field)).cloned();
        match value {
            Some(value) => {
                child(&mut current, "clusterConfiguration").insert(field.to_owned(), value);
            }
            None => {
                if let Some(Value::Object(cluster)) = current.get_mut("clusterConfiguration") {
                    cluster.remove(field);
                }
            }
        }
    }
    for side in [&mut current, &mut wanted] {
        apply_historical_defaults(side);
        if let Some(Value::Object(join)) = side.get_mut("joinConfiguration") {
            join.remove("discovery");
        }
        for configuration in ["initConfiguration", "joinConfiguration"] {
            if let Some(Value::Object(timeouts)) =
                side.get_mut(configuration).and_then(|configuration| configuration.get_mut("timeouts"))
            {
                timeouts.remove("controlPlaneComponentHealthCheckSeconds");
            }
        }
    }
    (pruned(Value::Object(current)), pruned(Value::Object(wanted)))
}

fn compare(current: &Value, wanted: &Value, form: Form) -> Vec<String> {
    let (current, wanted) = normalised(current, wanted, form);
    let mut fields = Vec::new();
    collect_differences(&current, &wanted, &mut String::new(), &mut fields);
    fields
}

/// Rewrites an init configuration as the join configuration that the same Machine would have got.
fn init_to_join(config: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let Some(Value::Object(mut init)) = config.remove("initConfiguration") else { return };
    let mut join = Map::new();
    for field in ["timeouts", "patches", "skipPhases", "nodeRegistration"] {
        if let Some(value) = init.remove(field) {
            join.insert(field.to_owned(), value);
        }
    }
    let mut control_plane = Map::new();
    if let Some(endpoint) = init.remove("localAPIEndpoint") {
        control_plane.insert("localAPIEndpoint".to_owned(), endpoint);
    }
    join.insert("controlPlane".to_owned(), Value::Object(control_plane));
    if let Some(path) = wanted.get("joinConfiguration").and_then(|join| join.get("caCertPath")) {
        join.insert("caCertPath".to_owned(), path.clone());
    }
    config.insert("joinConfiguration".to_owned(), Value::Object(join));
}

/// Defaults that older releases wrote into objects, and newer ones do not.
fn apply_historical_defaults(config: &mut Map<String, Value>) {
    let format = config.entry("format").or_insert(Value::Null);
    if is_empty(format) {
        *format = json!("cloud-config");
    }
    for configuration in ["initConfiguration", "joinConfiguration"] {
        if let Some(Value::Object(configuration)) = config.get_mut(configuration) {
            let policy =
                child(configuration, "nodeRegistration").entry("imagePullPolicy").or_insert(Value::Null);
            if is_empty(policy) {
                *policy = json!("IfNotPresent");
            }
        }
    }
}

/// kubeadm of these minors needs the kubelet of a control plane Machine to talk to its own API server, or an upgrade
/// breaks the skew policy in between: the gate is on unless the user decided otherwise.
fn default_feature_gates(config: &mut Map<String, Value>, version: &str) {
    const GATE: &str = "ControlPlaneKubeletLocalMode";
    const FIRST: Minor = Minor { major: 1, minor: 31 };
    const REMOVED: Minor = Minor { major: 1, minor: 36 };
    let Ok(version) = Version::parse(version) else { return };
    if version.minor() < FIRST || version.minor() >= REMOVED {
        return;
    }
    child(child(config, "clusterConfiguration"), "featureGates").entry(GATE).or_insert(Value::Bool(true));
}

fn child<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(key).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("the value was made an object in the lines before"),
    }
}

fn as_map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Absent, null and empty are one and the same in these specifications, with one exception: without `taints` a Node
/// gets those of a control plane, and with an empty list it gets none.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| (key, pruned(value)))
                .filter(|(key, value)| !is_empty(value) || (key == "taints" && value.is_array()))
                .collect(),
        ),
        // Items keep their places: an empty item of a list is still an item.
        Value::Array(items) => Value::Array(items.into_iter().map(pruned).collect()),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn collect_differences(left: &Value, right: &Value, path: &mut String, fields: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let length = path.len();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                collect_differences(
                    left.get(key).unwrap_or(&Value::Null),
                    right.get(key).unwrap_or(&Value::Null),
                    path,
                    fields,
                );
                path.truncate(length);
            }
        }
        _ if left != right => fields.push(path.clone()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_were_made_from_a_specification_do_not_differ_from_it() {
        for spec in [
            json!({}),
            json!({"clusterConfiguration": {"apiServer": {"extraArgs": [{"name": "v", "value": "2"}]}}}),
            json!({"initConfiguration": {"nodeRegistration": {"name": "n"}},
                   "joinConfiguration": {"nodeRegistration": {"name": "n"}}}),
            // The two halves say different things.
            json!({"initConfiguration": {"nodeRegistration": {"name": "a"}},
                   "joinConfiguration": {"nodeRegistration": {"name": "b"}, "caCertPath": "/ca"}}),
            json!({"clusterConfiguration": {"featureGates": {"ControlPlaneKubeletLocalMode": false}}}),
        ] {
            for version in ["v1.30.0", "v1.31.0", "v1.36.0"] {
                for form in [Form::Init, Form::Join] {
                    let machine = for_machine(&spec, form, version);
                    assert_eq!(differences(&machine, &spec, version), [""; 0], "{form:?} {version} {spec}");
                }
            }
        }
    }

    #[test]
    fn what_changed_is_named() {
        let spec = json!({"clusterConfiguration": {"etcd": {"local": {"imageTag": "3.5"}}}, "files": [{"path": "/a"}]});
        let machine = for_machine(&spec, Form::Join, "v1.30.0");
        let changed = json!({"clusterConfiguration": {"etcd": {"local": {"imageTag": "3.6"}}}, "files": [],
                             "ntp": {"enabled": true}});
        assert_eq!(
            differences(&machine, &changed, "v1.30.0"),
            ["clusterConfiguration.etcd.local.imageTag", "files", "ntp"]
        );
    }

    #[test]
    fn empty_and_absent_and_historical_defaults_are_the_same() {
        let machine = json!({
            "format": "cloud-config", "files": [], "ntp": {}, "verbosity": null,
            "joinConfiguration": {
                "controlPlane": {"localAPIEndpoint": {}},
                "nodeRegistration": {"imagePullPolicy": "IfNotPresent"},
                "discovery": {"bootstrapToken": {"token": "secret"}},
                "timeouts": {"controlPlaneComponentHealthCheckSeconds": 240},
            },
            "clusterConfiguration": {"controlPlaneEndpoint": "10.0.0.1:6443", "dns": {"imageTag": "v1"}},
        });
        assert_eq!(differences(&machine, &json!({"joinConfiguration": {}}), "v1.30.0"), [""; 0]);
        assert_eq!(
            differences(&machine, &json!({"format": "ignition"}), "v1.30.0"),
            ["format"],
            "a value that is not the default still counts"
        );
    }

    #[test]
    fn no_taints_are_not_the_same_as_nothing_said_about_taints() {
        let machine = for_machine(&json!({}), Form::Join, "v1.30.0");
        let spec = json!({"joinConfiguration": {"nodeRegistration": {"taints": []}}});
        assert_eq!(differences(&machine, &spec, "v1.30.0"), ["joinConfiguration.nodeRegistration.taints"]);
    }

    #[test]
    fn the_kubelet_of_a_control_plane_uses_its_own_api_server_in_the_minors_that_know_the_gate() {
        let gate = |version: &str, spec: Value| {
            for_machine(&spec, Form::Join, version)
                .pointer("/clusterConfiguration/featureGates/ControlPlaneKubeletLocalMode")
                .cloned()
        };
        for (version, expected) in [
            ("v1.30.9", None),
            ("v1.31.0", Some(json!(true))),
            ("v1.35.2", Some(json!(true))),
            ("v1.36.0", None),
            ("latest", None),
        ] {
            assert_eq!(gate(version, json!({})), expected, "{version}");
        }
        let decided =
            json!({"clusterConfiguration": {"featureGates": {"ControlPlaneKubeletLocalMode": false}}});
        assert_eq!(gate("v1.33.0", decided), Some(json!(false)));
    }

    #[test]
    fn the_form_of_a_configuration_is_told_by_what_it_has() {
        assert!(is_init(&for_machine(&json!({}), Form::Init, "v1.30.0")));
        assert!(!is_init(&for_machine(&json!({"initConfiguration": {}}), Form::Join, "v1.30.0")));
        assert!(!is_init(&json!({})));
    }
}
