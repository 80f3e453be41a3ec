//! Decoding of requests and responses as tolerant as that of Go, and no more.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error, IntoDeserializer, Unexpected, Visitor};
use serde_json::{Map, Value};

use super::HookResponse;

/// Decodes a request or a response.
///
/// Better than `serde_json` alone in two ways: of a repeated field the last counts instead of being an error,
/// and an array is an error instead of being taken for a list of fields.
///
/// # Errors
///
/// When the text is not exactly one JSON value, or something has the wrong type.
pub fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    decode_value(serde_json::from_slice(json)?)
}

/// Decodes a request or a response from JSON that has been parsed already, for callers who want to look at the
/// text first or to ignore what comes after it.
///
/// # Errors
///
/// When something has the wrong type.
pub fn decode_value<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    T::deserialize(Json { value, any_case: false })
}

/// Decodes a response and takes names of fields in any case, as clients written in Go do.
///
/// Only fields of the contract are matched this way; of several spellings of one, the right one counts. Keys
/// of embedded objects and of variables are data and stay as they are.
///
/// # Errors
///
/// When the text is not exactly one JSON value, or something has the wrong type.
pub fn decode_lenient<R: HookResponse>(json: &[u8]) -> Result<R, serde_json::Error> {
    R::deserialize(Json { value: serde_json::from_slice(json)?, any_case: true })
}

/// A JSON value from which structs are read by name only.
struct Json {
    value: Value,
    any_case: bool,
}

impl<'de> Deserializer<'de> for Json {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let any_case = self.any_case;
        match self.value {
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.into_iter().map(|value| Self { value, any_case }));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(fields) => visit_fields(fields, any_case, visitor),
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self.value {
            Value::Object(fields) if self.any_case => {
                visit_fields(with_known_names(fields, known), self.any_case, visitor)
            }
            Value::Object(fields) => visit_fields(fields, self.any_case, visitor),
            Value::Array(_) => Err(Self::Error::invalid_type(Unexpected::Seq, &visitor)),
            scalar => scalar.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, serde_json::Error> for Json {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

fn visit_fields<'de, V: Visitor<'de>>(
    fields: Map<String, Value>,
    any_case: bool,
    visitor: V,
) -> Result<V::Value, serde_json::Error> {
    let fields = fields.into_iter().map(|(key, value)| (key, Json { value, any_case }));
    let mut fields = MapDeserializer::new(fields);
    let value = visitor.visit_map(&mut fields)?;
    fields.end()?;
    Ok(value)
}

/// Gives fields the spelling of the contract. A field that is spelt right wins over one that is not.
fn with_known_names(fields: Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let (right, other): (Vec<_>, Vec<_>) =
        fields.into_iter().partition(|(key, _)| known.contains(&key.as_str()));
    let mut named = Map::new();
    for (key, value) in other {
        let name = known.iter().find(|name| name.eq_ignore_ascii_case(&key));
        named.insert(name.map_or(key, |&name| name.to_owned()), value);
    }
    named.extend(right);
    named
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hooks::{
        BeforeClusterUpgradeRequest, BeforeClusterUpgradeResponse, CanUpdateMachineResponse,
        DiscoverVariablesResponse, DiscoveryResponse, Hook, Patch, ResponseStatus,
    };

    #[test]
    fn field_names_count_in_any_case() {
        let response: BeforeClusterUpgradeResponse =
            decode_lenient(br#"{"Status":"Success","RetryAfterSeconds":5,"MESSAGE":"wait","Other":{}}"#)
                .unwrap();
        assert_eq!(response.status, ResponseStatus::Success);
        assert_eq!(response.message, "wait");
        assert_eq!(response.retry_after_seconds, 5);
        let strict: BeforeClusterUpgradeResponse = serde_json::from_str(r#"{"Status":"Success"}"#).unwrap();
        assert_eq!(strict.status, ResponseStatus::default());
    }

    #[test]
    fn nested_fields_count_in_any_case() {
        let response: DiscoveryResponse = decode_lenient(
            br#"{"status":"Success","HANDLERS":[{"Name":"a","RequestHook":{"ApiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","Hook":"UpdateMachine"},"TimeoutSeconds":null}]}"#,
        )
        .unwrap();
        assert_eq!(response.handlers[0].name, "a");
        assert_eq!(response.handlers[0].request_hook.resolve(), Ok(Hook::UpdateMachine));
        assert_eq!(response.handlers[0].timeout_seconds, None);
    }

    #[test]
    fn keys_that_are_data_keep_their_case() {
        let wire = json!({
            "status": "Success",
            "Variables": [{"name": "a", "schema": {"OpenAPIV3Schema": {"Type": "object", "properties": {"Name": {}}}}}],
        });
        let response: DiscoverVariablesResponse = decode_lenient(wire.to_string().as_bytes()).unwrap();
        assert_eq!(
            Value::from(response.variables[0].schema.open_api_v3_schema.clone()),
            json!({"Type": "object", "properties": {"Name": {}}})
        );
    }

    #[test]
    fn of_repeated_fields_the_last_counts_and_the_right_spelling_wins() {
        let last: BeforeClusterUpgradeResponse =
            decode_lenient(br#"{"status":"Failure","status":"Success"}"#).unwrap();
        assert_eq!(last.status, ResponseStatus::Success);
        let right: BeforeClusterUpgradeResponse =
            decode_lenient(br#"{"Status":"Failure","status":"Success","STATUS":"Failure"}"#).unwrap();
        assert_eq!(right.status, ResponseStatus::Success);
        assert!(
            serde_json::from_str::<BeforeClusterUpgradeResponse>(r#"{"status":"","status":""}"#).is_err()
        );
    }

    #[test]
    fn patches_are_found_in_any_case() {
        let response: CanUpdateMachineResponse = decode_lenient(
            br#"{"status":"Success","MachinePatch":{"PatchType":"JSONMergePatch","Patch":{"spec":{"X":1}}}}"#,
        )
        .unwrap();
        assert_eq!(response.machine_patch, Some(Patch::json_merge_patch(&json!({"spec": {"X": 1}}))));
    }

    #[test]
    fn exact_decoding_differs_from_lenient_only_in_case() {
        let wire = br#"{"Status":"Failure","retryAfterSeconds":1,"retryAfterSeconds":2,"unknown":[]}"#;
        let exact: BeforeClusterUpgradeResponse = decode(wire).unwrap();
        assert_eq!((exact.status.as_str(), exact.retry_after_seconds), ("", 2));
        let lenient: BeforeClusterUpgradeResponse = decode_lenient(wire).unwrap();
        assert_eq!((lenient.status.as_str(), lenient.retry_after_seconds), ("Failure", 2));
    }

    #[test]
    fn requests_with_a_plan_decode() {
        let wire = br#"{"cluster":{"kind":"Cluster"},"toKubernetesVersion":"v1.33.0","workersUpgrades":[{"version":"v1.33.0"}]}"#;
        let request: BeforeClusterUpgradeRequest = decode(wire).unwrap();
        assert_eq!(request, serde_json::from_slice(wire).unwrap());
        assert_eq!(request.upgrade_plan.workers, ["v1.33.0"]);
    }

    #[test]
    fn wrong_types_are_errors() {
        for wire in [
            "[]",
            r#"["BeforeClusterUpgradeResponse","hooks","Success","",5]"#,
            "null",
            "5",
            "{",
            "",
            "{} {}",
            r#"{"status":1}"#,
            r#"{"retryAfterSeconds":"5"}"#,
            r#"{"retryAfterSeconds":3000000000}"#,
            r#"{"retryAfterSeconds":1.5}"#,
        ] {
            assert!(decode::<BeforeClusterUpgradeResponse>(wire.as_bytes()).is_err(), "{wire}");
            assert!(decode_lenient::<BeforeClusterUpgradeResponse>(wire.as_bytes()).is_err(), "{wire}");
        }
        let nested = br#"{"handlers":[["name",["hooks","Discovery"]]]}"#;
        assert!(decode::<DiscoveryResponse>(nested).is_err());
        assert!(decode::<BeforeClusterUpgradeRequest>(b"[]").is_err());
    }
}
