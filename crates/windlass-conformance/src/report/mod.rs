//! What came out of a test, as a value. How it is printed is in the modules below.

mod json;
mod junit;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use windlass_api::hooks::ClusterClassVariable;

use crate::check::{CheckId, Finding, Level};

/// What came out of a test of an extension or of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What kind of test it was.
    pub kind: ReportKind,
    /// What was tested: a URL or a file.
    pub target: String,
    /// One result per check, in the order of the catalogue.
    pub results: Vec<CheckResult>,
    /// Variables that DiscoverVariables handlers answered, by handler: the baseline of the next test.
    pub variables: BTreeMap<String, Vec<ClusterClassVariable>>,
}

impl Report {
    /// 1 if there is a finding of level error, else 0.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.findings().any(|finding| finding.level() == Level::Error))
    }

    /// All findings, in the order of the checks.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.results.iter().flat_map(|result| &result.findings)
    }

    /// The result of one check.
    pub fn result(&self, check: CheckId) -> Option<&CheckResult> {
        self.results.iter().find(|result| result.check == check)
    }

    /// How many of what.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for finding in self.findings() {
            match finding.level() {
                Level::Error => summary.errors += 1,
                Level::Warning => summary.warnings += 1,
                Level::Info => summary.infos += 1,
            }
        }
        for result in &self.results {
            match result.status() {
                Status::Passed => summary.passed += 1,
                Status::Skipped => summary.skipped += 1,
                Status::Found(_) => summary.failed += 1,
            }
        }
        summary
    }

    /// The report as plain text: one line per check, then every finding with its consequence and fix.
    pub fn to_table(&self) -> String {
        table::render(self)
    }

    /// The report as JSON. Fields are added over time, never renamed or removed:
    ///
    /// - `kind` (`extension-test` or `extension-lint`), `target`, `exitCode`
    /// - `summary`: `errors`, `warnings` and `infos` count findings; `passed`, `failed` and `skipped` checks
    /// - `checks[]`: `id`, `group`, `title`, `status` (`passed`, `skipped`, `info`, `warning` or `error`),
    ///   `subjects[]`, `skipped` with `reason` and `optIn`, `findings[]` with `rule`, `level`, `subject`,
    ///   `observed`, `consequence` and `fix`
    /// - `variables`: definitions that were discovered, by handler, left out if there are none
    pub fn to_json(&self) -> String {
        json::render(self)
    }

    /// The report as JUnit XML: one test case per check, failed by findings of level error.
    pub fn to_junit(&self) -> String {
        junit::render(self)
    }
}

/// What kind of test a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportKind {
    /// A live extension.
    ExtensionTest,
    /// A manifest.
    ExtensionLint,
}

impl ReportKind {
    /// The name as reports print it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ExtensionTest => "extension-test",
            Self::ExtensionLint => "extension-lint",
        }
    }
}

/// What came out of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// Which check.
    pub check: CheckId,
    /// What was looked at, sorted.
    pub subjects: Vec<String>,
    /// What is wrong, sorted by rule and subject.
    pub findings: Vec<Finding>,
    /// Set if nothing was looked at.
    pub skipped: Option<Skipped>,
}

impl CheckResult {
    /// The outcome in one word.
    pub fn status(&self) -> Status {
        match self.findings.iter().map(Finding::level).max() {
            Some(level) => Status::Found(level),
            None if self.skipped.is_some() => Status::Skipped,
            None => Status::Passed,
        }
    }
}

/// The outcome of a check in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing is wrong.
    Passed,
    /// Nothing was looked at.
    Skipped,
    /// Something was found; this is the worst.
    Found(Level),
}

impl Status {
    /// The word as reports print it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Found(level) => level.as_str(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a check did not run, and how to make it run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Why.
    pub reason: String,
    /// What to do to have it checked; `None` if there is nothing to do.
    pub opt_in: Option<String>,
}

/// How many of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Findings of level error.
    pub errors: usize,
    /// Findings of level warning.
    pub warnings: usize,
    /// Findings of level info.
    pub infos: usize,
    /// Checks that passed.
    pub passed: usize,
    /// Checks with findings.
    pub failed: usize,
    /// Checks that were skipped.
    pub skipped: usize,
}

/// Collects what checks find while they run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<CheckId, Entry>,
    left_out: BTreeSet<CheckId>,
}

#[derive(Debug, Default)]
struct Entry {
    subjects: BTreeSet<String>,
    findings: BTreeMap<(crate::check::Rule, String), String>,
    skipped: Option<Skipped>,
}

impl Ledger {
    /// A ledger that takes nothing down about these checks.
    pub(crate) fn leaving_out(left_out: BTreeSet<CheckId>) -> Self {
        Self { left_out, ..Self::default() }
    }

    /// Whether a check was left out, so that the work for it can be saved.
    pub(crate) fn leaves_out(&self, check: CheckId) -> bool {
        self.left_out.contains(&check)
    }

    /// Notes that a check looked at something.
    pub(crate) fn looked_at(&mut self, check: CheckId, subject: impl Into<String>) {
        if self.leaves_out(check) {
            return;
        }
        self.entries.entry(check).or_default().subjects.insert(subject.into());
    }

    /// Notes a finding. Of several on the same rule and subject the first stays: they are the same defect.
    pub(crate) fn found(&mut self, finding: Finding) {
        if self.leaves_out(finding.check()) {
            return;
        }
        let entry = self.entries.entry(finding.check()).or_default();
        entry.subjects.insert(finding.subject.clone());
        entry.findings.entry((finding.rule, finding.subject)).or_insert(finding.observed);
    }

    /// Notes why a check does not run. Has no effect on a check that looked at something.
    pub(crate) fn skip(&mut self, check: CheckId, reason: impl Into<String>, opt_in: Option<&str>) {
        if self.leaves_out(check) {
            return;
        }
        let skipped = Skipped { reason: reason.into(), opt_in: opt_in.map(str::to_owned) };
        self.entries.entry(check).or_default().skipped.get_or_insert(skipped);
    }

    /// The results of these checks. One that nothing was noted about counts as skipped for `otherwise`.
    pub(crate) fn into_results(
        mut self,
        checks: impl IntoIterator<Item = CheckId>,
        otherwise: &str,
    ) -> Vec<CheckResult> {
        let result = |check: CheckId| {
            let entry = self.entries.remove(&check).unwrap_or_default();
            let skipped = if entry.subjects.is_empty() {
                let reason =
                    if self.left_out.contains(&check) { "left out by the options" } else { otherwise };
                let unreached = || Skipped { reason: reason.to_owned(), opt_in: None };
                Some(entry.skipped.unwrap_or_else(unreached))
            } else {
                None
            };
            let findings = entry
                .findings
                .into_iter()
                .map(|((rule, subject), observed)| Finding { rule, subject, observed })
                .collect();
            CheckResult { check, subjects: entry.subjects.into_iter().collect(), findings, skipped }
        };
        checks.into_iter().map(result).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::check::Rule;

    /// A report with one of everything, texts that need escaping included.
    pub(crate) fn sample() -> Report {
        let mut ledger = Ledger::default();
        ledger.looked_at(CheckId::T1, "https://h.example");
        ledger.found(Finding::new(Rule::CertificateExpiring, "https://h.example", "expires in 3 days"));
        ledger.found(Finding::new(
            Rule::BadHandlerName,
            "Gate <1> & \"2\"",
            "name \"Gate <1> & \\\"2\\\"\" has a \u{1b} in it",
        ));
        ledger.found(Finding::new(Rule::TimeoutLong, "gate (BeforeClusterUpgrade)", "timeoutSeconds is 20"));
        ledger.skip(CheckId::C1, "no hook was opted into", Some("--hooks BeforeClusterUpgrade"));
        let checks = [CheckId::T1, CheckId::T2, CheckId::D2, CheckId::D3, CheckId::C1, CheckId::A5];
        Report {
            kind: ReportKind::ExtensionTest,
            target: "https://h.example".to_owned(),
            results: ledger.into_results(checks, "not reached"),
            variables: BTreeMap::new(),
        }
    }

    #[test]
    fn only_errors_change_the_exit_code() {
        let mut report = sample();
        assert_eq!(report.exit_code(), 1);
        for result in &mut report.results {
            result.findings.retain(|finding| finding.level() != Level::Error);
        }
        assert_eq!(report.exit_code(), 0);
        assert_eq!(report.summary().warnings, 1);
    }

    #[test]
    fn results_follow_the_catalogue_and_say_why_they_are_missing() {
        let report = sample();
        let statuses: Vec<(&str, &str)> =
            report.results.iter().map(|result| (result.check.as_str(), result.status().as_str())).collect();
        assert_eq!(
            statuses,
            [
                ("T1", "passed"),
                ("T2", "warning"),
                ("D2", "error"),
                ("D3", "info"),
                ("C1", "skipped"),
                ("A5", "skipped")
            ]
        );
        assert_eq!(report.results[5].skipped.as_ref().unwrap().reason, "not reached");
        assert_eq!(
            report.summary(),
            Summary { errors: 1, warnings: 1, infos: 1, passed: 1, failed: 3, skipped: 2 }
        );
    }

    #[test]
    fn the_same_defect_is_reported_once_and_beats_a_skip() {
        let mut ledger = Ledger::default();
        ledger.skip(CheckId::D4, "reason", None);
        ledger.found(Finding::new(Rule::BadFailurePolicy, "a", "first"));
        ledger.found(Finding::new(Rule::BadFailurePolicy, "a", "second"));
        let results = ledger.into_results([CheckId::D4], "");
        assert_eq!(results[0].findings, [Finding::new(Rule::BadFailurePolicy, "a", "first")]);
        assert_eq!(results[0].skipped, None);
    }
}
