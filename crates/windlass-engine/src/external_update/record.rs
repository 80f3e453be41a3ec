//! What external updaters said, as it is written down.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What external updaters said about an update. Written as an annotation of the owner of the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The [fingerprint](super::fingerprint) of what they were asked for.
    pub desired: String,
    /// Who has accepted.
    pub accepted: Option<Acceptance>,
    /// Who has refused, in the order of the answers.
    pub refused: Vec<Refusal>,
}

/// An external updater has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// Full name of the handler.
    pub by: String,
    /// What it said.
    pub reason: String,
    /// The machines that it was asked about.
    pub machines: BTreeSet<String>,
    /// When it wants to be asked again.
    pub ask_again: Option<Timestamp>,
    /// It was not reached since, which its failure policy ignores: it is not asked before this.
    pub not_before: Option<Timestamp>,
}

/// An external updater does not accept, or no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Full name of the handler.
    pub by: String,
    /// What it said.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// How it was registered then: who is registered anew is asked anew.
    pub registration: String,
}

impl Record {
    /// Reads the value of an annotation; none if it has another form.
    pub fn from_annotation(value: &str) -> Option<Self> {
        let wire: Wire = serde_json::from_str(value).ok()?;
        let time = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let accepted = wire.accepted.map(|accepted| Acceptance {
            by: accepted.by,
            reason: accepted.reason,
            machines: accepted.machines,
            ask_again: time(accepted.ask_again),
            not_before: time(accepted.not_before),
        });
        let refused = wire.refused.into_iter().filter_map(|refused| {
            let at = refused.at.parse().ok()?;
            Some(Refusal { by: refused.by, reason: refused.reason, at, registration: refused.registration })
        });
        Some(Self { desired: wire.desired, accepted, refused: refused.collect() })
    }

    /// The value of an annotation.
    pub fn to_annotation(&self) -> String {
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let wire = Wire {
            desired: self.desired.clone(),
            accepted: self.accepted.clone().map(|accepted| WireAcceptance {
                by: accepted.by,
                reason: accepted.reason,
                machines: accepted.machines,
                ask_again: time(accepted.ask_again),
                not_before: time(accepted.not_before),
            }),
            refused: self
                .refused
                .iter()
                .map(|refused| WireRefusal {
                    by: refused.by.clone(),
                    reason: refused.reason.clone(),
                    at: refused.at.to_string(),
                    registration: refused.registration.clone(),
                })
                .collect(),
        };
        // Texts and lists of texts always serialise.
        serde_json::to_string(&wire).unwrap_or_default()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason.as_str() {
            "" => write!(f, "{} refuses, without a reason", self.by),
            reason => write!(f, "{} refuses: {reason}", self.by),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    desired: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepted: Option<WireAcceptance>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<WireRefusal>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireAcceptance {
    by: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    machines: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ask_again: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRefusal {
    by: String,
    #[serde(default)]
    reason: String,
    at: String,
    #[serde(default)]
    registration: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let record = Record {
            desired: "d".to_owned(),
            accepted: Some(Acceptance {
                by: "a.x".to_owned(),
                reason: "on it".to_owned(),
                machines: BTreeSet::from(["m1".to_owned()]),
                ask_again: Some(at(30)),
                not_before: Some(at(40)),
            }),
            refused: vec![Refusal {
                by: "b.x".to_owned(),
                reason: String::new(),
                at: at(5),
                registration: "r".to_owned(),
            }],
        };
        assert_eq!(Record::from_annotation(&record.to_annotation()), Some(record.clone()));
        assert_eq!(record.refused[0].to_string(), "b.x refuses, without a reason");
        let empty = Record::default();
        assert_eq!(empty.to_annotation(), r#"{"desired":""}"#);
        assert_eq!(Record::from_annotation(&empty.to_annotation()), Some(empty));
        for other in ["", "yes", "[]", r#"{"accepted":{}}"#] {
            assert_eq!(Record::from_annotation(other), None, "{other}");
        }
    }
}
