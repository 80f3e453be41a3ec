//! Templates as Go renders them: every row of `cases.json` was rendered by Go's text/template with Sprig's hermetic
//! functions, as Cluster API renders the patches of a ClusterClass.

#![expect(clippy::expect_used, reason = "a failing helper fails the test")]

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_gotemplate::{MissingKey, functions, refused_functions, render};

fn cases() -> Value {
    serde_json::from_str(include_str!("cases.json")).expect("the cases are JSON")
}

fn names(list: &Value) -> BTreeSet<&str> {
    list.as_array().expect("a list").iter().map(|name| name.as_str().expect("a string")).collect()
}

#[test]
fn templates_render_as_in_go() {
    let file = cases();
    let mut wrong = Vec::new();
    let rows = file["cases"].as_array().expect("a list");
    for row in rows {
        let template = row["template"].as_str().expect("a string");
        let differs = row["differs"] == true;
        let expected = if differs { &row["here"] } else { &row["go"] };
        let found = render(template, &file["data"], MissingKey::NoValue);
        if found.as_deref().ok() != expected.as_str() {
            wrong.push(format!("{template}\n  expected {expected}\n  found    {found:?}"));
        }
        // A row that no longer differs is in the wrong place.
        if differs && row["here"] == row["go"] {
            wrong.push(format!("{template} is no difference"));
        }
    }
    assert!(rows.len() > 400);
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn every_function_of_sprig_is_there_or_refused() {
    let file = cases();
    let (hermetic, all) = (names(&file["hermetic"]), names(&file["all"]));
    assert_eq!(hermetic.len(), 194);
    let here: BTreeSet<&str> = functions().collect();
    let refused: BTreeSet<&str> = refused_functions().map(|(name, _)| name).collect();
    assert_eq!(here.len(), functions().count(), "a name is there twice");
    for name in &all {
        assert!(here.contains(name) != refused.contains(name), "{name} is either there or refused");
    }
    // What is refused of the hermetic functions depends on the clock or on chance.
    let lost: Vec<&str> = hermetic.difference(&here).copied().collect();
    assert_eq!(
        lost,
        [
            "ago",
            "bcrypt",
            "encryptAES",
            "genCA",
            "genCAWithKey",
            "genPrivateKey",
            "genSelfSignedCert",
            "genSelfSignedCertWithKey",
            "genSignedCert",
            "genSignedCertWithKey",
            "htpasswd",
            "randInt",
            "shuffle",
        ]
    );
    // Beyond Sprig there are Go's own functions, and one that upstream does not have.
    let more: Vec<&str> = here.difference(&all).copied().collect();
    assert_eq!(
        more,
        [
            "and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or",
            "print", "printf", "println", "toYaml", "urlquery",
        ]
    );
}

#[test]
fn every_function_is_called_by_a_row() {
    let file = cases();
    let called: BTreeSet<&str> = file["cases"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|row| row["template"].as_str())
        .flat_map(|template| template.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect();
    let untested: Vec<&str> = functions().filter(|name| !called.contains(name)).collect();
    assert_eq!(untested, [""; 0]);
}
