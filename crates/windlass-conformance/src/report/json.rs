//! Reports as JSON, a stable contract: fields are added, never renamed or removed.

use serde::Serialize;
use windlass_api::hooks::ClusterClassVariable;

use super::{Report, ReportKind, Summary};
use crate::check::{CheckId, Group, Level, Rule};

use std::collections::BTreeMap;

pub(super) fn render(report: &Report) -> String {
    let checks = report
        .results
        .iter()
        .map(|result| CheckDocument {
            id: result.check,
            group: result.check.group(),
            title: result.check.title(),
            status: result.status().as_str(),
            subjects: &result.subjects,
            skipped: result.skipped.as_ref().map(|skipped| SkippedDocument {
                reason: &skipped.reason,
                opt_in: skipped.opt_in.as_deref(),
            }),
            findings: result
                .findings
                .iter()
                .map(|finding| FindingDocument {
                    rule: finding.rule,
                    level: finding.level(),
                    subject: &finding.subject,
                    observed: &finding.observed,
                    consequence: finding.consequence(),
                    fix: finding.fix(),
                })
                .collect(),
        })
        .collect();
    let document = Document {
        kind: report.kind,
        target: &report.target,
        exit_code: report.exit_code(),
        summary: report.summary(),
        checks,
        variables: &report.variables,
    };
    // Only texts, numbers and maps with text keys: there is nothing that JSON cannot hold.
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

/// A report.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    kind: ReportKind,
    target: &'a str,
    exit_code: u8,
    summary: Summary,
    checks: Vec<CheckDocument<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    variables: &'a BTreeMap<String, Vec<ClusterClassVariable>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckDocument<'a> {
    id: CheckId,
    group: Group,
    title: &'a str,
    status: &'a str,
    subjects: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<SkippedDocument<'a>>,
    findings: Vec<FindingDocument<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SkippedDocument<'a> {
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    opt_in: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FindingDocument<'a> {
    rule: Rule,
    level: Level,
    subject: &'a str,
    observed: &'a str,
    consequence: &'a str,
    fix: &'a str,
}

#[cfg(test)]
mod tests {
    use crate::report::tests::sample;

    #[test]
    fn json_has_stable_names() {
        let json = super::render(&sample());
        assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
        insta::assert_snapshot!(json);
    }
}
