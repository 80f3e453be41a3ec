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

impl Form {
    const fn other(self) -> Self {
        match self {
            Self::Init => Self::Join,
            Self::Join => Self::Init,
        }
    }

    /// The part of a configuration that only this form has.
    const fn part(self) -> &'static str {
        match self {
            Self::Init => "initConfiguration",
            Self::Join => "joinConfiguration",
        }
    }
}

/// The configuration of a new Machine: `kubeadmConfigSpec` with the part that it does not need removed.
///
/// `clusterConfiguration` stays in both forms: a joining Machine learns from it whether etcd is external. What is empty is
/// left out, because upstream's schemas refuse it, with one exception: `joinConfiguration.controlPlane` says by being
/// there that the Machine joins a control plane.
pub fn for_machine(spec: &Value, form: Form, version: &str) -> Value {
    let mut config = as_map(spec);
    config.remove(form.other().part());
    default_feature_gates(&mut config, version);
    // A text may be empty on purpose: the value of an argument.
    let mut config = as_map(&without(Value::Object(config), &|value| !value.is_string() && is_empty(value)));
    if form == Form::Join {
        child(child(&mut config, "joinConfiguration"), "controlPlane");
    }
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

/// Whether this is the configuration of the Machine that started the cluster: it joins no control plane. Nothing else
/// tells; without settings of its own it has no `initConfiguration` at all.
pub fn is_init(config: &Value) -> bool {
    config.pointer("/joinConfiguration/controlPlane").is_none()
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
        // kubeadm never reads it, but a timeout that older releases had for both was written to both.
        side.remove(form.other().part());
        apply_historical_defaults(side, form);
        if let Some(Value::Object(join)) = side.get_mut("joinConfiguration") {
            join.remove("discovery");
        }
        if let Some(Value::Object(timeouts)) =
            side.get_mut(form.part()).and_then(|configuration| configuration.get_mut("timeouts"))
        {
            timeouts.remove("controlPlaneComponentHealthCheckSeconds");
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
    let mut init = config.remove("initConfiguration").map(|init| as_map(&init)).unwrap_or_default();
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
fn apply_historical_defaults(config: &mut Map<String, Value>, form: Form) {
    let format = config.entry("format").or_insert(Value::Null);
    if is_empty(format) {
        *format = json!("cloud-config");
    }
    let registration = child(child(config, form.part()), "nodeRegistration");
    let policy = registration.entry("imagePullPolicy").or_insert(Value::Null);
    if is_empty(policy) {
        *policy = json!("IfNotPresent");
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
    without(value, &is_empty)
}

/// Leaves out fields, from the inside out.
fn without(value: Value, is_left_out: &dyn Fn(&Value) -> bool) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| (key, without(value, is_left_out)))
                .filter(|(key, value)| !is_left_out(value) || (key == "taints" && value.is_array()))
                .collect(),
        ),
        // Items keep their places: an empty item of a list is still an item.
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| without(item, is_left_out)).collect())
        }
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
        assert!(is_init(&for_machine(
            &json!({"joinConfiguration": {"controlPlane": {}}}),
            Form::Init,
            "v1.30.0"
        )));
        assert!(!is_init(&for_machine(&json!({"initConfiguration": {}}), Form::Join, "v1.30.0")));
        assert!(is_init(&json!({})));
    }

    #[test]
    fn what_is_empty_is_not_written() {
        let spec = json!({"clusterConfiguration": {"apiServer": {"extraArgs": []}}, "initConfiguration": {},
            "ntp": {"servers": null},
            "joinConfiguration": {"nodeRegistration": {"taints": []}}, "files": []});
        assert_eq!(for_machine(&spec, Form::Init, "v1.30.0"), json!({}));
        assert_eq!(
            for_machine(&spec, Form::Join, "v1.30.0"),
            json!({"joinConfiguration": {"controlPlane": {}, "nodeRegistration": {"taints": []}}}),
            "no taints are something"
        );
        let arguments =
            json!({"clusterConfiguration": {"scheduler": {"extraArgs": [{"name": "v", "value": ""}]}}});
        assert_eq!(for_machine(&arguments, Form::Init, "v1.30.0"), arguments, "and so is an empty value");
    }

    #[test]
    fn machines_that_releases_of_upstream_made_are_up_to_date() {
        let gate = json!({"featureGates": {"ControlPlaneKubeletLocalMode": true}});
        let node = json!({"kubeletExtraArgs": [{"name": "v", "value": "2"}]});
        let old_node =
            json!({"kubeletExtraArgs": [{"name": "v", "value": "2"}], "imagePullPolicy": "IfNotPresent"});
        let empty = json!({});
        let nodes = json!({"initConfiguration": {"nodeRegistration": node}, "joinConfiguration": {"nodeRegistration": node}});
        for (machine, wanted) in [
            // The first Machine without init settings, since 1.11.
            (json!({"clusterConfiguration": gate}), &empty),
            (json!({"clusterConfiguration": gate, "joinConfiguration": {"controlPlane": {}}}), &empty),
            // The same of 1.10, whose webhook stored defaults.
            (
                json!({"clusterConfiguration": gate, "format": "cloud-config",
                    "initConfiguration": {"localAPIEndpoint": {}, "nodeRegistration": {"imagePullPolicy": "IfNotPresent"}}}),
                &empty,
            ),
            (
                json!({"clusterConfiguration": gate, "format": "cloud-config", "joinConfiguration": {
                    "controlPlane": {}, "discovery": {"bootstrapToken": {"token": "t"}},
                    "nodeRegistration": {"imagePullPolicy": "IfNotPresent"}}}),
                &empty,
            ),
            // A timeout of 1.10 is in both parts after its conversion.
            (
                json!({"clusterConfiguration": gate,
                    "initConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 600}},
                    "joinConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 600}}}),
                &empty,
            ),
            (
                json!({"clusterConfiguration": gate,
                    "initConfiguration": {"timeouts": {"controlPlaneComponentHealthCheckSeconds": 600}},
                    "joinConfiguration": {"controlPlane": {}, "timeouts": {"controlPlaneComponentHealthCheckSeconds": 600}}}),
                &empty,
            ),
            // Settings of the Node.
            (json!({"clusterConfiguration": gate, "initConfiguration": {"nodeRegistration": node}}), &nodes),
            (
                json!({"clusterConfiguration": gate, "format": "cloud-config",
                    "joinConfiguration": {"controlPlane": {}, "nodeRegistration": old_node}}),
                &nodes,
            ),
        ] {
            assert_eq!(differences(&machine, wanted, "v1.33.0"), [""; 0], "{machine}");
        }
    }

    #[test]
    fn the_first_machine_is_still_replaced_when_its_settings_change() {
        let machine = json!({"initConfiguration": {"nodeRegistration": {"name": "a"}}});
        let wanted = json!({"initConfiguration": {"nodeRegistration": {"name": "b"}},
            "joinConfiguration": {"nodeRegistration": {"name": "b"}}});
        assert_eq!(differences(&machine, &wanted, "v1.30.0"), ["joinConfiguration.nodeRegistration.name"]);
        let machine = json!({});
        assert_eq!(differences(&machine, &wanted, "v1.30.0"), ["joinConfiguration.nodeRegistration.name"]);
    }
}
