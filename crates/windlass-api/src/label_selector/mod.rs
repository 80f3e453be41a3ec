//! Label selectors: which labels an object must have.
//!
//! A selector is a list of requirements that must all hold. It is made from the form in objects
//! ([`Selector::compile`]) or from the form in queries ([`Selector::parse`]); what it selects is decided here, once.

mod label;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::Value;

pub use self::label::{is_label_key, is_label_value, label_key_problems, label_value_problems};
pub use self::text::ParseError;

/// A selector that has been checked and is ready to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Matching);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matching {
    Nothing,
    All(Vec<Requirement>),
}

/// What one label must fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// How its value is compared.
    pub operator: Operator,
}

/// How the value of a label is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label is there and has one of these values.
    In(BTreeSet<String>),
    /// The label is absent, or has none of these values.
    NotIn(BTreeSet<String>),
    /// The label is there, whatever its value.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is a number greater than this. Only queries can say so.
    GreaterThan(i64),
    /// The value is a number less than this. Only queries can say so.
    LessThan(i64),
}

impl Selector {
    /// Makes a selector from the form in objects. `None` selects nothing, an empty selector everything; mixing the two
    /// up either hides an extension or lets it see everything.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the selector.
    pub fn compile(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else { return Ok(Self(Matching::Nothing)) };
        let mut violations = Vec::new();
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            let field = format!("matchLabels[{key}]");
            violations
                .extend(check_key(key).map(|problem| SelectorViolation { field: field.clone(), problem }));
            violations.extend(check_value(value).map(|problem| SelectorViolation { field, problem }));
            let operator = Operator::In(BTreeSet::from([value.clone()]));
            requirements.push(Requirement { key: key.clone(), operator });
        }
        for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
            match compile_expression(expression) {
                Ok(requirement) => requirements.push(requirement),
                Err(found) => violations.extend(found.into_iter().map(|(field, problem)| {
                    SelectorViolation { field: format!("matchExpressions[{index}].{field}"), problem }
                })),
            }
        }
        if violations.is_empty() { Ok(Self::all_of(requirements)) } else { Err(SelectorError { violations }) }
    }

    fn all_of(requirements: Vec<Requirement>) -> Self {
        Self(Matching::All(requirements))
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

    /// What it requires. A selector of nothing has no requirements, as one of everything: see
    /// [`is_nothing`](Self::is_nothing).
    pub fn requirements(&self) -> &[Requirement] {
        match &self.0 {
            Matching::Nothing => &[],
            Matching::All(requirements) => requirements,
        }
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_labels(|key| labels.get(key).map(String::as_str))
    }

    /// Whether an object is selected.
    pub fn matches_object(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.matches_labels(|key| labels?.get(key)?.as_str())
    }

    fn matches_labels<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.0 {
            Matching::Nothing => false,
            Matching::All(requirements) => {
                requirements.iter().all(|requirement| requirement.operator.matches(label(&requirement.key)))
            }
        }
    }
}

impl Operator {
    /// Whether it holds for the value of a label; `None` if the label is absent.
    fn matches(&self, label: Option<&str>) -> bool {
        let number = || label.and_then(|label| label.parse::<i64>().ok());
        match self {
            Self::In(values) => label.is_some_and(|label| values.contains(label)),
            Self::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
            Self::Exists => label.is_some(),
            Self::DoesNotExist => label.is_none(),
            Self::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Self::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Written as `kubectl` takes it: `app=web,tier in (a,b),!canary`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nothing() {
            return f.write_str("<nothing>");
        }
        if self.is_everything() {
            return f.write_str("<everything>");
        }
        for (index, requirement) in self.requirements().iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let key = &self.key;
        match &self.operator {
            Operator::In(values) if values.len() == 1 => write!(f, "{key}={}", list(values)),
            Operator::In(values) => write!(f, "{key} in ({})", list(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Operator::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

/// A selector of an object that breaks rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError {
    /// All of them, in the order of the fields.
    pub violations: Vec<SelectorViolation>,
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let violations: Vec<String> = self.violations.iter().map(ToString::to_string).collect();
        f.write_str(&violations.join("; "))
    }
}

impl std::error::Error for SelectorError {}

/// A rule that a selector breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct SelectorViolation {
    /// Path of the field, relative to the selector.
    pub field: String,
    /// What is wrong with it.
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
    let values = values.as_deref().unwrap_or(&[]);
    let mut problems = FieldProblems::new();
    problems.extend(check_key(key).map(|problem| ("key".to_owned(), problem)));
    for (index, value) in values.iter().enumerate() {
        problems.extend(check_value(value).map(|problem| (format!("values[{index}]"), problem)));
    }
    let set = || values.iter().cloned().collect();
    let (operator, problem) = match operator.as_str() {
        "In" => (Operator::In(set()), values.is_empty().then_some(SelectorProblem::ValuesMissing)),
        "NotIn" => (Operator::NotIn(set()), values.is_empty().then_some(SelectorProblem::ValuesMissing)),
        "Exists" => (Operator::Exists, (!values.is_empty()).then_some(SelectorProblem::ValuesForbidden)),
        "DoesNotExist" => {
            (Operator::DoesNotExist, (!values.is_empty()).then_some(SelectorProblem::ValuesForbidden))
        }
        other => {
            problems.push(("operator".to_owned(), SelectorProblem::Operator(other.to_owned())));
            return Err(problems);
        }
    };
    problems.extend(problem.map(|problem| ("values".to_owned(), problem)));
    if problems.is_empty() { Ok(Requirement { key: key.clone(), operator }) } else { Err(problems) }
}

fn check_key(key: &str) -> Option<SelectorProblem> {
    (!is_label_key(key)).then(|| SelectorProblem::Key(key.to_owned()))
}

fn check_value(value: &str) -> Option<SelectorProblem> {
    (!is_label_value(value)).then(|| SelectorProblem::Value(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn compile(selector: Value) -> Result<Selector, SelectorError> {
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

    /// Each case in the form of objects and in the form of queries: both must make the same requirements.
    #[test]
    fn every_operator_selects_as_kubernetes_does_in_either_form() {
        let expressions = |expressions: Value| json!({"matchExpressions": expressions});
        let cases = [
            // selectors, matches {}, matches {env: dev}, matches {env: prod}, matches {env: prod, team: a}
            (json!({}), "", [true, true, true, true]),
            (json!({"matchLabels": {"env": "prod"}}), "env=prod", [false, false, true, true]),
            (json!({"matchLabels": {"env": "prod"}}), "env == prod", [false, false, true, true]),
            (json!({"matchLabels": {"env": ""}}), "env=", [false, false, false, false]),
            (
                json!({"matchLabels": {"env": "prod", "team": "a"}}),
                "env=prod,team=a",
                [false, false, false, true],
            ),
            (
                expressions(json!([{"key": "env", "operator": "In", "values": ["dev", "qa"]}])),
                "env in (qa,dev)",
                [false, true, false, false],
            ),
            (
                expressions(json!([{"key": "env", "operator": "In", "values": ["dev", ""]}])),
                "env in (dev,)",
                [false, true, false, false],
            ),
            (
                expressions(json!([{"key": "env", "operator": "NotIn", "values": ["dev", "qa"]}])),
                "env notin (dev, qa)",
                [true, false, true, true],
            ),
            (
                expressions(json!([{"key": "env", "operator": "NotIn", "values": ["dev"]}])),
                "env!=dev",
                [true, false, true, true],
            ),
            (expressions(json!([{"key": "env", "operator": "Exists"}])), "env", [false, true, true, true]),
            (
                expressions(json!([{"key": "env", "operator": "DoesNotExist"}])),
                "!env",
                [true, false, false, false],
            ),
            (
                json!({
                    "matchLabels": {"env": "prod"},
                    "matchExpressions": [{"key": "team", "operator": "DoesNotExist", "values": []}],
                }),
                "env=prod,!team",
                [false, false, true, false],
            ),
            (
                expressions(json!([
                    {"key": "team", "operator": "Exists"},
                    {"key": "env", "operator": "NotIn", "values": ["dev"]},
                ])),
                "team,env notin (dev)",
                [false, false, false, true],
            ),
        ];
        let namespaces = [
            labels(&[]),
            labels(&[("env", "dev")]),
            labels(&[("env", "prod")]),
            labels(&[("env", "prod"), ("team", "a")]),
        ];
        for (wire, text, expected) in cases {
            let selector = compile(wire.clone()).unwrap();
            assert_eq!(selector.is_everything(), wire == json!({}));
            assert_eq!([0, 1, 2, 3].map(|i| selector.matches(&namespaces[i])), expected, "{wire}");
            let objects = namespaces.each_ref().map(|labels| json!({"metadata": {"labels": labels}}));
            assert_eq!(objects.each_ref().map(|object| selector.matches_object(object)), expected, "{wire}");
            assert_eq!(Selector::parse(text).as_ref(), Ok(&selector), "{text}");
            if !selector.is_everything() {
                assert_eq!(Selector::parse(&selector.to_string()), Ok(selector), "{text}");
            }
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
        .unwrap_err()
        .violations;
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
