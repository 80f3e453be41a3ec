//! One webhook of a configuration, and what it wants to be asked about.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::admission::Review;
use crate::machinery::LabelSelector;

pub(super) struct Hook {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) timeout: Duration,
    /// Whether a write fails if the webhook cannot be asked.
    pub(super) fails_closed: bool,
    /// Whether asking has no effects that a dry run must not have.
    pub(super) allows_dry_run: bool,
    rules: Vec<Value>,
    namespaces: Value,
    objects: Value,
}

/// Where a webhook is.
#[derive(Debug, Clone, Default)]
pub(super) struct Target {
    /// Empty if the configuration names a service instead, which nothing runs here.
    pub(super) url: String,
    /// The certificates to trust, as PEM.
    pub(super) ca_bundle: Vec<u8>,
}

/// How long a webhook may take that does not say how long.
const DEFAULT_TIMEOUT: u64 = 10;

/// The longest time that a webhook may take.
const MAX_TIMEOUT: u64 = 30;

impl Hook {
    pub(super) fn read(webhook: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let bundle = STANDARD.decode(text(&webhook["clientConfig"]["caBundle"])).unwrap_or_default();
        let timeout = webhook["timeoutSeconds"].as_u64().unwrap_or(DEFAULT_TIMEOUT).clamp(1, MAX_TIMEOUT);
        Self {
            name: text(&webhook["name"]),
            target: Target { url: text(&webhook["clientConfig"]["url"]), ca_bundle: bundle },
            timeout: Duration::from_secs(timeout),
            fails_closed: webhook["failurePolicy"] != "Ignore",
            allows_dry_run: matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            rules: webhook["rules"].as_array().cloned().unwrap_or_default(),
            namespaces: webhook["namespaceSelector"].clone(),
            objects: webhook["objectSelector"].clone(),
        }
    }

    /// Whether it has a say in a write.
    pub(super) fn is_asked(
        &self,
        review: &Review<'_>,
        object: &Value,
        namespace: Option<&BTreeMap<String, String>>,
    ) -> bool {
        self.rules.iter().any(|rule| covers(rule, review))
            && self.selects_namespace(review, object, namespace)
            && (selects(&self.objects, &labels(object))
                || review.old.is_some_and(|old| selects(&self.objects, &labels(old))))
    }

    fn selects_namespace(
        &self,
        review: &Review<'_>,
        object: &Value,
        namespace: Option<&BTreeMap<String, String>>,
    ) -> bool {
        match namespace {
            Some(labels) if !review.namespace.is_empty() => selects(&self.namespaces, labels),
            _ if review.resource == "namespaces" => selects(&self.namespaces, &labels(object)),
            _ => true,
        }
    }
}

fn covers(rule: &Value, review: &Review<'_>) -> bool {
    let has = |field: &str, wanted: &str| {
        let values = rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        values.into_iter().any(|value| value == "*" || value == wanted)
    };
    let resource = match review.subresource {
        "" => review.resource.to_owned(),
        subresource => format!("{}/{subresource}", review.resource),
    };
    let any_subresource = format!("{}/*", review.resource);
    let scope = match rule["scope"].as_str() {
        Some("Cluster") => review.namespace.is_empty(),
        Some("Namespaced") => !review.namespace.is_empty(),
        _ => true,
    };
    // A plain `*` means all resources but not their subresources.
    let is_covered = match review.subresource {
        "" => has("resources", &resource) || contains(rule, "*/*"),
        _ => contains(rule, &resource) || contains(rule, &any_subresource) || contains(rule, "*/*"),
    };
    scope
        && has("operations", review.operation.as_str())
        && has("apiGroups", review.group)
        && has("apiVersions", review.version)
        && is_covered
}

fn contains(rule: &Value, resource: &str) -> bool {
    rule["resources"].as_array().is_some_and(|resources| resources.iter().any(|known| known == resource))
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Whether a selector in its object form selects labels. One that makes no sense selects everything: it is
/// safer to ask once too often.
fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut terms = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        terms.push(format!("{key}={}", text(value)));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let values: Vec<String> = expression["values"].as_array().into_iter().flatten().map(text).collect();
        let values = values.join(",");
        terms.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("Exists") => key,
            _ => format!("!{key}"),
        });
    }
    LabelSelector::parse(&terms.join(","))
        .map_or(true, |selector| selector.matches(|label| labels.get(label).map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::Operation;
    use crate::identity::Identity;

    #[test]
    fn a_webhook_is_asked_about_what_its_rules_and_selectors_cover() {
        let user = Identity::admin();
        let review = Review {
            operation: Operation::Create,
            group: "demo.test",
            version: "v1",
            resource: "widgets",
            kind: "Widget",
            subresource: "",
            namespace: "default",
            name: "w",
            user: &user,
            old: None,
            dry_run: false,
        };
        let hook = |rule: Value, objects: Value, namespaces: Value| {
            Hook::read(&json!({"name": "h", "rules": [rule], "objectSelector": objects,
                "namespaceSelector": namespaces}))
        };
        let rule = json!({"operations": ["CREATE"], "apiGroups": ["demo.test"], "apiVersions": ["*"],
            "resources": ["widgets"]});
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        let team = BTreeMap::from([("team".to_owned(), "x".to_owned())]);
        let with = |change: &dyn Fn(&mut Value)| {
            let mut rule = rule.clone();
            change(&mut rule);
            rule
        };
        let not_x = json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]});
        let cases = [
            (rule.clone(), Value::Null, Value::Null, true),
            (with(&|rule| rule["operations"] = json!(["DELETE"])), Value::Null, Value::Null, false),
            (with(&|rule| rule["resources"] = json!(["*"])), Value::Null, Value::Null, true),
            (with(&|rule| rule["resources"] = json!(["widgets/status"])), Value::Null, Value::Null, false),
            (with(&|rule| rule["scope"] = json!("Cluster")), Value::Null, Value::Null, false),
            (rule.clone(), json!({"matchLabels": {"a": "b"}}), Value::Null, true),
            (rule.clone(), json!({"matchLabels": {"a": "c"}}), Value::Null, false),
            (rule.clone(), Value::Null, not_x, false),
        ];
        for (rule, objects, namespaces, asked) in cases {
            let description = format!("{rule} {objects} {namespaces}");
            assert_eq!(
                hook(rule, objects, namespaces).is_asked(&review, &object, Some(&team)),
                asked,
                "{description}"
            );
        }
    }
}
