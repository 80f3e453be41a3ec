//! One webhook of a configuration, and what it wants to be asked about.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::service::ServiceReference;
use crate::admission::Review;
use crate::machinery::{Cause, Condition, ConditionError};
use crate::selection::selects;

pub(super) struct Hook {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) timeout: Duration,
    /// Whether a write fails if the webhook cannot be asked.
    pub(super) fails_closed: bool,
    /// Whether asking has no effects that a dry run must not have.
    pub(super) allows_dry_run: bool,
    /// Whether it wants to see again what others have changed since it was asked.
    pub(super) reinvoked: bool,
    /// Whether its rules are also about other versions of what they name.
    equivalent: bool,
    conditions: Vec<Result<Condition, ConditionError>>,
    rules: Vec<Value>,
    namespaces: Value,
    objects: Value,
}

/// Where a webhook is.
#[derive(Debug, Clone, Default)]
pub(super) struct Target {
    pub(super) place: Place,
    /// The certificates to trust, as PEM.
    pub(super) ca_bundle: Vec<u8>,
}

/// How a configuration says where a webhook is.
#[derive(Debug, Clone, Default)]
pub(super) enum Place {
    /// Not at all.
    #[default]
    Nowhere,
    Url(String),
    /// A service, and the path to ask for there.
    Service(ServiceReference, String),
}

/// What conditions may look at.
const VARIABLES: [&str; 3] = ["object", "oldObject", "request"];

/// How long a webhook may take that does not say how long.
const DEFAULT_TIMEOUT: u64 = 10;

/// The longest time that a webhook may take.
const MAX_TIMEOUT: u64 = 30;

impl Hook {
    pub(super) fn read(webhook: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let timeout = webhook["timeoutSeconds"].as_u64().unwrap_or(DEFAULT_TIMEOUT).clamp(1, MAX_TIMEOUT);
        Self {
            name: text(&webhook["name"]),
            target: Target::read(&webhook["clientConfig"]),
            timeout: Duration::from_secs(timeout),
            fails_closed: webhook["failurePolicy"] != "Ignore",
            allows_dry_run: matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            reinvoked: webhook["reinvocationPolicy"] == "IfNeeded",
            equivalent: webhook["matchPolicy"] != "Exact",
            conditions: conditions(webhook).map(|text| Condition::compile(text, &VARIABLES)).collect(),
            rules: webhook["rules"].as_array().cloned().unwrap_or_default(),
            namespaces: webhook["namespaceSelector"].clone(),
            objects: webhook["objectSelector"].clone(),
        }
    }

    /// Whether it has a say in a write, and in which version it wants to see the object: in that of the
    /// request if its rules have it, or else in another of `versions` if it does not mind.
    pub(super) fn asked_in<'v>(
        &self,
        review: &Review<'v>,
        versions: &[&'v str],
        object: &Value,
        namespace: Option<&BTreeMap<String, String>>,
    ) -> Option<&'v str> {
        let selected = self.selects_namespace(review, object, namespace)
            && (selects(&self.objects, &labels(object))
                || review.old.is_some_and(|old| selects(&self.objects, &labels(old))));
        let others = versions.iter().copied().filter(|_| self.equivalent);
        let mut candidates = std::iter::once(review.version).chain(others).filter(|_| selected);
        candidates.find(|version| self.rules.iter().any(|rule| covers(rule, review, version)))
    }

    /// Whether its conditions hold. One that is false settles it; otherwise one that fails does.
    pub(super) fn conditions_hold(
        &self,
        object: &Value,
        old: &Value,
        request: &Value,
    ) -> Result<bool, ConditionError> {
        let mut failed = None;
        for condition in &self.conditions {
            let holds = match condition {
                Ok(condition) => {
                    condition.holds(&[("object", object), ("oldObject", old), ("request", request)])
                }
                Err(error) => Err(error.clone()),
            };
            match holds {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(true), Err)
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

impl Target {
    pub(super) fn read(config: &Value) -> Self {
        let text = |name: &str| config[name].as_str().unwrap_or_default().to_owned();
        let place = match (text("url"), ServiceReference::read(&config["service"])) {
            (url, _) if !url.is_empty() => Place::Url(url),
            (_, Some((reference, path))) => Place::Service(reference, path),
            _ => Place::Nowhere,
        };
        Self { place, ca_bundle: STANDARD.decode(text("caBundle")).unwrap_or_default() }
    }
}

fn conditions(webhook: &Value) -> impl Iterator<Item = &str> {
    let conditions = webhook["matchConditions"].as_array().into_iter().flatten();
    conditions.map(|condition| condition["expression"].as_str().unwrap_or_default())
}

/// What is wrong with a configuration of webhooks.
pub(crate) fn check(configuration: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, webhook) in configuration["webhooks"].as_array().into_iter().flatten().enumerate() {
        let at = format!("webhooks[{index}]");
        let config = &webhook["clientConfig"];
        if config["url"].is_string() == config["service"].is_object() {
            let detail = "exactly one of url or service is required";
            causes.push(Cause::required(format!("{at}.clientConfig"), detail));
        }
        for (index, text) in conditions(webhook).enumerate() {
            if let Err(error) = Condition::compile(text, &VARIABLES) {
                let field = format!("{at}.matchConditions[{index}].expression");
                causes.push(Cause::invalid(field, &text.into(), error.to_string()));
            }
        }
    }
    causes
}

fn covers(rule: &Value, review: &Review<'_>, version: &str) -> bool {
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
        && has("apiVersions", version)
        && is_covered
}

fn contains(rule: &Value, resource: &str) -> bool {
    rule["resources"].as_array().is_some_and(|resources| resources.iter().any(|known| known == resource))
}

fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
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
            let version = hook(rule, objects, namespaces).asked_in(&review, &[], &object, Some(&team));
            assert_eq!(version, asked.then_some("v1"), "{description}");
        }
        for (policy, version) in [("Equivalent", Some("v2")), ("Exact", None)] {
            let rule = with(&|rule| rule["apiVersions"] = json!(["v2"]));
            let hook = Hook::read(&json!({"rules": [rule], "matchPolicy": policy}));
            assert_eq!(hook.asked_in(&review, &["v1", "v2"], &object, Some(&team)), version, "{policy}");
        }
    }

    #[test]
    fn a_condition_that_is_false_counts_more_than_one_that_fails() {
        let hold = |texts: &[&str]| {
            let conditions: Vec<Value> = texts.iter().map(|text| json!({"expression": text})).collect();
            let hook = Hook::read(&json!({"matchConditions": conditions}));
            hook.conditions_hold(&json!({"a": 1}), &Value::Null, &json!({"dryRun": false}))
        };
        assert_eq!(hold(&[]), Ok(true));
        assert_eq!(hold(&["object.a == 1", "!request.dryRun"]), Ok(true));
        assert_eq!(hold(&["object.b == 1", "oldObject != null"]), Ok(false));
        assert!(hold(&["object.b == 1", "true"]).is_err());
        assert!(hold(&["object..b"]).is_err());
    }

    #[test]
    fn a_configuration_that_cannot_work_is_refused() {
        let check = |webhook: Value| {
            let causes = check(&json!({"webhooks": [webhook]}));
            causes.into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        assert_eq!(check(json!({"clientConfig": {"url": "https://x"}})), Vec::<String>::new());
        assert_eq!(check(json!({"clientConfig": {}})), ["webhooks[0].clientConfig"]);
        let both = json!({"clientConfig": {"service": {}}, "matchConditions": [{"expression": "1 +"}]});
        assert_eq!(check(both), ["webhooks[0].matchConditions[0].expression"]);
    }
}
