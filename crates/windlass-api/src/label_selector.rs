//! Label selectors: which labels an object must have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::hooks::wire::{open_enum, wire_struct};

wire_struct! {
    /// A label selector as it is written in objects. All its parts must hold.
    ///
    /// An empty selector selects everything, an absent one nothing; see [`Selector::compile`].
    #[derive(Default, Eq)]
    pub struct LabelSelector {
        /// Labels with the value they must have.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub match_labels: BTreeMap<String, String>,
        /// Further requirements.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub match_expressions: Vec<LabelSelectorRequirement>,
    }
}

wire_struct! {
    /// What must hold for one label.
    #[derive(Default, Eq)]
    pub struct LabelSelectorRequirement {
        /// The label.
        pub key: String,
        /// How its value is compared.
        pub operator: LabelSelectorOperator,
        /// What it is compared with.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub values: Vec<String>,
    }
}

open_enum! {
    /// How the value of a label is compared.
    pub enum LabelSelectorOperator {
        /// The label is there and has one of the values.
        In = "In",
        /// The label is not there, or has none of the values.
        NotIn = "NotIn",
        /// The label is there.
        Exists = "Exists",
        /// The label is not there.
        DoesNotExist = "DoesNotExist",
    }
}

/// A selector that has been checked and is ready to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Matching);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matching {
    Nothing,
    All(Vec<Requirement>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Exists(String),
    DoesNotExist(String),
}

impl Selector {
    /// Checks a selector. `None` compiles to a selector that matches nothing, an empty one to a selector
    /// that matches everything; mixing the two up either hides an extension or lets it see everything.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the selector.
    pub fn compile(selector: Option<&LabelSelector>) -> Result<Self, Vec<SelectorViolation>> {
        let Some(selector) = selector else { return Ok(Self(Matching::Nothing)) };
        let mut violations = Vec::new();
        let mut requirements = Vec::new();
        for (key, value) in &selector.match_labels {
            let field = format!("matchLabels[{key}]");
            violations
                .extend(check_key(key).map(|problem| SelectorViolation { field: field.clone(), problem }));
            violations.extend(check_value(value).map(|problem| SelectorViolation { field, problem }));
            requirements.push(Requirement::In(key.clone(), BTreeSet::from([value.clone()])));
        }
        for (index, expression) in selector.match_expressions.iter().enumerate() {
            match compile_expression(expression) {
                Ok(requirement) => requirements.push(requirement),
                Err(found) => violations.extend(found.into_iter().map(|(field, problem)| {
                    SelectorViolation { field: format!("matchExpressions[{index}].{field}"), problem }
                })),
            }
        }
        if violations.is_empty() { Ok(Self(Matching::All(requirements))) } else { Err(violations) }
    }

    /// A selector that matches everything.
    pub const fn everything() -> Self {
        Self(Matching::All(Vec::new()))
    }

    /// Whether labels do not matter, so that there is no need to look them up.
    pub fn is_everything(&self) -> bool {
        matches!(&self.0, Matching::All(requirements) if requirements.is_empty())
    }

    /// Whether no labels match.
    pub fn is_nothing(&self) -> bool {
        matches!(self.0, Matching::Nothing)
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match &self.0 {
            Matching::Nothing => false,
            Matching::All(requirements) => requirements.iter().all(|requirement| match requirement {
                Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
                Requirement::NotIn(key, values) => {
                    labels.get(key).is_none_or(|value| !values.contains(value))
                }
                Requirement::Exists(key) => labels.contains_key(key),
                Requirement::DoesNotExist(key) => !labels.contains_key(key),
            }),
        }
    }
}

/// Written as `kubectl` takes it: `app=web,tier in (a,b),!canary`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requirements = match &self.0 {
            Matching::Nothing => return f.write_str("<nothing>"),
            Matching::All(requirements) if requirements.is_empty() => return f.write_str("<everything>"),
            Matching::All(requirements) => requirements,
        };
        let list =
            |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        for (index, requirement) in requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match requirement {
                Requirement::In(key, values) if values.len() == 1 => write!(f, "{key}={}", list(values))?,
                Requirement::In(key, values) => write!(f, "{key} in ({})", list(values))?,
                Requirement::NotIn(key, values) => write!(f, "{key} notin ({})", list(values))?,
                Requirement::Exists(key) => write!(f, "{key}")?,
                Requirement::DoesNotExist(key) => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

/// A rule that a selector breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct SelectorViolation {
    /// Where, relative to the selector.
    pub field: String,
    /// What.
    pub problem: SelectorProblem,
}

/// What can be wrong with a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorProblem {
    /// Not a name that a label can have.
    #[error("{0:?} is not a label key")]
    Key(String),
    /// Not a value that a label can have.
    #[error("{0:?} is not a label value")]
    Value(String),
    /// An operator that does not exist.
    #[error("unknown operator {0:?}")]
    Operator(String),
    /// `In` and `NotIn` compare with something.
    #[error("must be set when operator is In or NotIn")]
    ValuesMissing,
    /// `Exists` and `DoesNotExist` compare with nothing.
    #[error("must not be set when operator is Exists or DoesNotExist")]
    ValuesForbidden,
}

type FieldProblems = Vec<(String, SelectorProblem)>;

fn compile_expression(expression: &LabelSelectorRequirement) -> Result<Requirement, FieldProblems> {
    let LabelSelectorRequirement { key, operator, values } = expression;
    let mut problems = FieldProblems::new();
    problems.extend(check_key(key).map(|problem| ("key".to_owned(), problem)));
    for (index, value) in values.iter().enumerate() {
        problems.extend(check_value(value).map(|problem| (format!("values[{index}]"), problem)));
    }
    let values_problem = match operator {
        LabelSelectorOperator::In | LabelSelectorOperator::NotIn => {
            values.is_empty().then_some(SelectorProblem::ValuesMissing)
        }
        LabelSelectorOperator::Exists | LabelSelectorOperator::DoesNotExist => {
            (!values.is_empty()).then_some(SelectorProblem::ValuesForbidden)
        }
        LabelSelectorOperator::Unknown(_) => None,
    };
    problems.extend(values_problem.map(|problem| ("values".to_owned(), problem)));
    let set = || values.iter().cloned().collect();
    let requirement = match operator {
        LabelSelectorOperator::In => Requirement::In(key.clone(), set()),
        LabelSelectorOperator::NotIn => Requirement::NotIn(key.clone(), set()),
        LabelSelectorOperator::Exists => Requirement::Exists(key.clone()),
        LabelSelectorOperator::DoesNotExist => Requirement::DoesNotExist(key.clone()),
        LabelSelectorOperator::Unknown(text) => {
            problems.push(("operator".to_owned(), SelectorProblem::Operator(text.clone())));
            return Err(problems);
        }
    };
    if problems.is_empty() { Ok(requirement) } else { Err(problems) }
}

/// Whether a text can be the key of a label, an annotation or a taint: a name, optionally after a DNS subdomain and a
/// slash.
pub fn is_label_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    is_label_name(name) && prefix.is_none_or(is_dns_subdomain)
}

/// Whether a text can be the value of a label or a taint: empty, or like the name of a label.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

fn check_key(key: &str) -> Option<SelectorProblem> {
    (!is_label_key(key)).then(|| SelectorProblem::Key(key.to_owned()))
}

fn check_value(value: &str) -> Option<SelectorProblem> {
    (!is_label_value(value)).then(|| SelectorProblem::Value(value.to_owned()))
}

fn is_label_name(text: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
        && text.chars().all(|c| alphanumeric(c) || matches!(c, '-' | '_' | '.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(inner) && part.ends_with(inner) && part.chars().all(|c| inner(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn compile(selector: Value) -> Result<Selector, Vec<SelectorViolation>> {
        Selector::compile(Some(&serde_json::from_value(selector).unwrap()))
    }

    #[test]
    fn absent_selects_nothing_and_empty_selects_everything() {
        let absent = Selector::compile(None).unwrap();
        let empty = compile(json!({})).unwrap();
        for labels in [labels(&[]), labels(&[("a", "b")])] {
            assert!(!absent.matches(&labels));
            assert!(empty.matches(&labels));
        }
        assert!(absent.is_nothing() && !absent.is_everything());
        assert!(empty.is_everything() && !empty.is_nothing());
        assert_eq!(empty, Selector::everything());
        assert_eq!(compile(json!({"matchLabels": null, "matchExpressions": null})).unwrap(), empty);
    }

    #[test]
    fn every_operator_selects_as_kubernetes_does() {
        let cases = [
            // selector, matches {}, matches {env: dev}, matches {env: prod}, matches {env: prod, team: a}
            (json!({"matchLabels": {"env": "prod"}}), [false, false, true, true]),
            (json!({"matchLabels": {"env": "prod", "team": "a"}}), [false, false, false, true]),
            (
                json!({"matchExpressions": [{"key": "env", "operator": "In", "values": ["dev", "qa"]}]}),
                [false, true, false, false],
            ),
            (
                json!({"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["dev", "qa"]}]}),
                [true, false, true, true],
            ),
            (json!({"matchExpressions": [{"key": "env", "operator": "Exists"}]}), [false, true, true, true]),
            (
                json!({"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}),
                [true, false, false, false],
            ),
            (
                json!({
                    "matchLabels": {"env": "prod"},
                    "matchExpressions": [{"key": "team", "operator": "DoesNotExist"}],
                }),
                [false, false, true, false],
            ),
        ];
        let namespaces = [
            labels(&[]),
            labels(&[("env", "dev")]),
            labels(&[("env", "prod")]),
            labels(&[("env", "prod"), ("team", "a")]),
        ];
        for (wire, expected) in cases {
            let selector = compile(wire.clone()).unwrap();
            assert!(!selector.is_everything());
            assert_eq!([0, 1, 2, 3].map(|i| selector.matches(&namespaces[i])), expected, "{wire}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_reported_with_its_place() {
        let long = "x".repeat(64);
        let violations = compile(json!({
            "matchLabels": {"-a": "ok", "b": "not ok", "UPPER.example/name": "", "example.com/c": long},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "", "operator": "Like", "values": ["-"]},
                {"key": "a/b/c", "operator": "DoesNotExist"},
                {"key": "fine", "operator": "NotIn", "values": ["", "x_y.z-1"]},
            ],
        }))
        .unwrap_err();
        let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "matchLabels[-a]: \"-a\" is not a label key".to_owned(),
                "matchLabels[UPPER.example/name]: \"UPPER.example/name\" is not a label key".to_owned(),
                "matchLabels[b]: \"not ok\" is not a label value".to_owned(),
                format!("matchLabels[example.com/c]: \"{long}\" is not a label value"),
                "matchExpressions[0].values: must be set when operator is In or NotIn".to_owned(),
                "matchExpressions[1].values: must not be set when operator is Exists or DoesNotExist"
                    .to_owned(),
                "matchExpressions[2].key: \"\" is not a label key".to_owned(),
                "matchExpressions[2].values[0]: \"-\" is not a label value".to_owned(),
                "matchExpressions[2].operator: unknown operator \"Like\"".to_owned(),
                "matchExpressions[3].key: \"a/b/c\" is not a label key".to_owned(),
            ]
        );
    }

    #[test]
    fn a_selector_prints_as_kubectl_takes_it() {
        let selector = compile(json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "env", "operator": "NotIn", "values": ["dev"]},
                {"key": "gpu", "operator": "Exists"},
                {"key": "canary", "operator": "DoesNotExist"},
            ],
        }))
        .unwrap();
        assert_eq!(selector.to_string(), "app=web,tier in (a,b),env notin (dev),gpu,!canary");
        assert_eq!(Selector::everything().to_string(), "<everything>");
        assert_eq!(Selector::compile(None).unwrap().to_string(), "<nothing>");
    }

    proptest! {
        #[test]
        fn operators_and_their_opposites_never_agree(
            key in "[ab]", values in prop::collection::vec("[xyz]", 1..3), label in prop::option::of("[xyz]"),
        ) {
            let labels: BTreeMap<String, String> = label.map(|value| ("a".to_owned(), value)).into_iter().collect();
            for (operator, opposite, values) in [("In", "NotIn", values), ("Exists", "DoesNotExist", vec![])] {
                let matches = |operator: &str| {
                    let wire = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
                    compile(wire).unwrap().matches(&labels)
                };
                prop_assert_ne!(matches(operator), matches(opposite));
            }
        }
    }
}
