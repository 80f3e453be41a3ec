//! Evicting: a deletion that disruption budgets have a say in.

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use super::Call;
use super::delete::DeleteOptions;
use crate::api::{Failure, Status};
use crate::machinery::LabelSelector;
use crate::response::Reply;

impl Call {
    /// Deletes a pod, unless a disruption budget says that none may go now. Nothing here counts pods, so a budget
    /// without a status says nothing.
    pub(super) async fn evict(&self, _body: &Bytes) -> Result<Reply, Failure> {
        let found = self.find(self.name())?;
        let pod = self.resource.value(&found)?;
        if let Some(budget) = self.budget_against(&pod)? {
            let message =
                format!("cannot evict the pod: disruption budget {budget} allows no disruption now");
            return Err(Failure::too_many_requests(&message));
        }
        self.remove(self.name(), &DeleteOptions::default()).await?;
        Ok(Reply::json(StatusCode::CREATED, Status::success(None).to_json()))
    }

    /// The first budget that does not let a pod go.
    fn budget_against(&self, pod: &Value) -> Result<Option<String>, Failure> {
        // Pods that do not run do not count.
        if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending")) {
            return Ok(None);
        }
        let Some(budgets) = self.registry.get("policy", "v1", "poddisruptionbudgets") else {
            return Ok(None);
        };
        let snapshot = self.server.store.snapshot();
        for object in snapshot.list(&budgets.scope(Some(&self.namespace))) {
            let budget = budgets.value(object)?;
            let exhausted =
                budget["status"]["disruptionsAllowed"].as_i64().is_some_and(|allowed| allowed <= 0);
            if exhausted && selects(&budget["spec"]["selector"], pod) {
                return Ok(Some(object.key().name().to_owned()));
            }
        }
        Ok(None)
    }
}

/// Whether a selector as objects have it matches an object. One that is absent matches nothing, an empty one all.
fn selects(selector: &Value, object: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let mut terms: Vec<String> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        terms.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values = values.join(",");
        terms.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    LabelSelector::parse(&terms.join(",")).is_ok_and(|selector| selector.matches_object(object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_of_objects_match_labels() {
        let pod = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        let cases = [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (
                json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}]}),
                true,
            ),
            (json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}), false),
            (json!({"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}), true),
            (json!({"matchExpressions": [{"key": "other", "operator": "Exists"}]}), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(selects(&selector, &pod), expected, "{selector}");
        }
    }
}
