//! What components of the control plane and kubelets have in common: arguments, environments, durations.

use std::time::Duration;

use serde_json::{Map, Value};
use windlass_api::GoDuration;

use super::ApiVersion;

/// Brings the arguments and environments of a component into the form of an API version.
pub(super) fn convert_component(component: &mut Map<String, Value>, api: ApiVersion) {
    convert_arguments(component, "extraArgs", api);
    if api == ApiVersion::V1Beta3 {
        component.remove("extraEnvs");
    }
}

/// Arguments are a list in v1beta4, so that one can be given twice, and a map in v1beta3, where the last one counts.
pub(super) fn convert_arguments(object: &mut Map<String, Value>, field: &str, api: ApiVersion) {
    if api == ApiVersion::V1Beta4 {
        return;
    }
    let Some(Value::Array(arguments)) = object.get(field) else { return };
    let by_name: Map<String, Value> = arguments
        .iter()
        .filter_map(|argument| {
            let name = argument.get("name")?.as_str()?.to_owned();
            Some((name, argument.get("value").cloned().unwrap_or_else(|| "".into())))
        })
        .collect();
    object.insert(field.to_owned(), Value::Object(by_name));
}

/// The timeouts of v1beta4: `discoverySeconds: 90` becomes `discovery: 1m30s`.
pub(super) fn timeouts(seconds: &Map<String, Value>) -> Map<String, Value> {
    let timeouts = seconds.iter().filter_map(|(name, seconds)| {
        Some((name.strip_suffix("Seconds")?.to_owned(), duration(seconds.as_u64()?).into()))
    });
    timeouts.collect()
}

/// So many seconds, as Go writes them.
pub(super) fn duration(seconds: u64) -> String {
    GoDuration::from(Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (seconds, written) in
            [(0, "0s"), (45, "45s"), (240, "4m0s"), (3_661, "1h1m1s"), (31_536_000, "8760h0m0s")]
        {
            assert_eq!(duration(seconds), written);
        }
    }

    #[test]
    fn arguments_become_a_map_whose_last_value_counts() {
        let arguments =
            json!([{"name": "v", "value": "1"}, {"name": "feature-gates"}, {"name": "v", "value": "4"}]);
        let mut object = Map::from_iter([("extraArgs".to_owned(), arguments.clone())]);
        convert_arguments(&mut object, "extraArgs", ApiVersion::V1Beta4);
        assert_eq!(object["extraArgs"], arguments);
        convert_arguments(&mut object, "extraArgs", ApiVersion::V1Beta3);
        assert_eq!(object["extraArgs"], json!({"feature-gates": "", "v": "4"}));
    }
}
