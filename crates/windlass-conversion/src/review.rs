//! What a conversion webhook is asked and answers: `ConversionReview` of `apiextensions.k8s.io/v1`.

use serde_json::{Value, json};

use crate::convert::{Contracts, convert};

/// Why something is not a review that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Another kind, or another version of it.
    #[error("not a ConversionReview of apiextensions.k8s.io/v1")]
    NotAReview,
    /// There is no request, or no `uid`, `desiredAPIVersion` or `objects` in it.
    #[error("{0} is missing")]
    Missing(&'static str),
}

/// Answers a review: all objects converted, in their order, or the first problem. Objects may be of several versions.
///
/// # Errors
///
/// When it is no review. That an object cannot be converted is an answer.
pub fn review(review: &Value, contracts: &dyn Contracts) -> Result<Value, Malformed> {
    if review["apiVersion"] != "apiextensions.k8s.io/v1" || review["kind"] != "ConversionReview" {
        return Err(Malformed::NotAReview);
    }
    let request = &review["request"];
    let uid = request["uid"].as_str().ok_or(Malformed::Missing("request.uid"))?;
    let desired =
        request["desiredAPIVersion"].as_str().ok_or(Malformed::Missing("request.desiredAPIVersion"))?;
    let objects = request["objects"].as_array().ok_or(Malformed::Missing("request.objects"))?;
    let converted = objects.iter().map(|object| {
        convert(object.clone(), desired, contracts).map_err(|error| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
            let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
            let separator = if namespace.is_empty() { "" } else { "/" };
            format!("{kind} {namespace}{separator}{name} cannot be converted to {desired}: {error}")
        })
    });
    let response = match converted.collect::<Result<Vec<Value>, String>>() {
        Ok(converted) => {
            json!({"uid": uid, "convertedObjects": converted, "result": {"status": "Success"}})
        }
        Err(message) => {
            json!({"uid": uid, "convertedObjects": [], "result": {"status": "Failure", "message": message}})
        }
    };
    Ok(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}))
}
