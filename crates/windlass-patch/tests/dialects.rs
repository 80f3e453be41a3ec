//! The table of cases in `data/json_patch.json`, run in both dialects.
//!
//! What the table says that a dialect makes of a case is what its original makes of it: the results were
//! written down from runs of both Go libraries, whose versions the table names. Where we do something else on
//! purpose, the case says so in `fixed`.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_patch::{Dialect, JsonPatch, json_patch, merge_patch};

#[derive(Deserialize)]
struct Table {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    document: Value,
    patch: Value,
    api_server: Outcome,
    cluster_api: Outcome,
    #[serde(default)]
    fixed: Option<Fixed>,
}

/// What we make of a case instead.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fixed {
    api_server: Option<Outcome>,
    cluster_api: Option<Outcome>,
    because: String,
}

#[derive(Deserialize, Debug, PartialEq, Clone)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    Becomes(Value),
    Refused,
    /// The original crashes; we refuse.
    Panics,
}

impl Case {
    fn expected(&self, dialect: Dialect) -> Outcome {
        let fixed = self.fixed.as_ref();
        let (original, fixed) = match dialect {
            Dialect::ApiServer => (&self.api_server, fixed.and_then(|fixed| fixed.api_server.clone())),
            Dialect::ClusterApi => (&self.cluster_api, fixed.and_then(|fixed| fixed.cluster_api.clone())),
        };
        match fixed.unwrap_or_else(|| original.clone()) {
            Outcome::Panics => Outcome::Refused,
            outcome => outcome,
        }
    }
}

fn table() -> Vec<Case> {
    let table: Table = serde_json::from_str(include_str!("data/json_patch.json")).unwrap();
    table.cases
}

fn outcome(dialect: Dialect, document: &Value, patch: &Value) -> Outcome {
    match JsonPatch::parse(dialect, patch).and_then(|patch| patch.apply(document)) {
        Ok(patched) => Outcome::Becomes(patched),
        Err(_) => Outcome::Refused,
    }
}

#[test]
fn every_case_comes_out_as_in_the_original_of_its_dialect() {
    let cases = table();
    assert!(cases.len() > 130, "{} cases", cases.len());
    for case in &cases {
        for dialect in [Dialect::ApiServer, Dialect::ClusterApi] {
            let found = outcome(dialect, &case.document, &case.patch);
            assert_eq!(found, case.expected(dialect), "{}, {dialect:?}", case.name);
        }
    }
}

#[test]
fn the_dialects_differ_in_these_cases_and_no_others() {
    let differ: Vec<String> = table()
        .into_iter()
        .filter(|case| case.expected(Dialect::ApiServer) != case.expected(Dialect::ClusterApi))
        .map(|case| case.name)
        .collect();
    assert_eq!(
        differ,
        [
            "add at the root",
            "add a list at the root",
            "add without value",
            "replace a missing field",
            "replace a missing field below an object",
            "replace without value",
            "move to the root",
            "copy a missing field",
            "copy the root",
            "copy to the root",
        ]
    );
}

#[test]
fn what_is_fixed_differs_from_the_original_and_says_why() {
    for case in table() {
        let Some(fixed) = case.fixed else { continue };
        assert!(!fixed.because.is_empty(), "{}", case.name);
        assert_ne!(fixed.api_server, Some(case.api_server), "{}", case.name);
        assert_ne!(fixed.cluster_api, Some(case.cluster_api), "{}", case.name);
    }
}

/// Any JSON, with keys that need escaping and few distinct leaves, so that values often share parts.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..4_i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[ab/~0-2]{0,2}", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_json_patch_leads_from_one_value_to_the_other(from in any_json(), to in any_json()) {
        // A document is an object or a list.
        let (from, to) = (json!({"value": from}), json!({"value": to}));
        let patch = json_patch::between(&from, &to);
        for dialect in [Dialect::ApiServer, Dialect::ClusterApi] {
            prop_assert_eq!(outcome(dialect, &from, &patch), Outcome::Becomes(to.clone()));
        }
        prop_assert_eq!(json_patch::between(&to, &to), json!([]));
    }

    #[test]
    fn a_merge_patch_leads_from_one_value_to_the_other(from in any_json(), to in any_json()) {
        match merge_patch::between(&from, &to) {
            Ok(Some(patch)) => prop_assert_eq!(&merge_patch::apply(&from, &patch).unwrap(), &to),
            Ok(None) => prop_assert_eq!(&from, &to),
            Err(refused) => prop_assert_eq!(to.pointer(&refused.path), Some(&Value::Null)),
        }
    }
}
