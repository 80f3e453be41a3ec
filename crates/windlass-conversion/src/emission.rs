//! What is not printed: absent fields, as Go leaves them out.
//!
//! Clients of v1beta1 send structs with nothing in them (`infrastructureRef: {}`), which the schemas of v1beta2 refuse.

use serde_json::Value;

use crate::path::Fields;

/// Objects in which every name and value is the user's, or another program's.
const FREE: &[&str] = &[
    "annotations",
    "attributes",
    "backend",
    "extraArgs",
    "failureDomains",
    "featureGates",
    "kubeletExtraArgs",
    "labels",
    "matchLabels",
    "nodeInfo",
    "openAPIV3Schema",
    "settings",
    "value",
];

/// Fields for which empty is not the same as absent, some only in certain parents.
const MEANT_EMPTY: &[(Option<&str>, &str)] = &[
    (None, "selector"),
    (None, "clusterSelector"),
    (None, "namespaceSelector"),
    (None, "extraEnvs"),
    // Required in conditions, also if there is nothing to say.
    (Some("conditions"), "message"),
    (Some("joinConfiguration"), "controlPlane"),
    (Some("nodeRegistration"), "taints"),
];

/// Removes fields that are null, `""`, `{}` or `[]`, and those that become so.
pub(crate) fn tidy(name: &str, value: &mut Value) {
    match value {
        Value::Object(fields) => tidy_fields(name, fields),
        // Elements stay: their number may matter.
        Value::Array(elements) => elements.iter_mut().for_each(|element| tidy(name, element)),
        _ => {}
    }
}

fn tidy_fields(parent: &str, fields: &mut Fields) {
    fields.retain(|name, value| {
        if FREE.contains(&name.as_str()) {
            return name == "value" || !is_nothing(value);
        }
        tidy(name, value);
        let meant = MEANT_EMPTY
            .iter()
            .any(|(place, field)| field == name && place.is_none_or(|place| place == parent));
        !is_nothing(value) || meant && !value.is_null()
    });
}

/// Whether Go would leave it out.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn structs_with_nothing_in_them_vanish_and_what_is_the_users_stays() {
        let mut spec = json!({
            "infrastructureRef": {},
            "controlPlaneEndpoint": {"host": ""},
            "selector": {},
            "template": {"metadata": {"creationTimestamp": null}, "spec": {"bootstrap": {"configRef": null}}},
            "topology": {"variables": [{"name": "a", "value": ""}, {"name": "b", "value": {}}, {}], "controlPlane": {}},
            "joinConfiguration": {"controlPlane": {"localAPIEndpoint": {}}, "nodeRegistration": {"taints": []}},
            "metadata": {"labels": {"empty": ""}, "annotations": {}},
        });
        tidy("spec", &mut spec);
        assert_eq!(
            spec,
            json!({
                "selector": {},
                "topology": {"variables": [{"name": "a", "value": ""}, {"name": "b", "value": {}}, {}]},
                "joinConfiguration": {"controlPlane": {}, "nodeRegistration": {"taints": []}},
                "metadata": {"labels": {"empty": ""}},
            })
        );
    }
}
