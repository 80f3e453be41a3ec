//! Reports as plain text for a terminal.

use std::fmt::Write;

use super::{Report, Skipped, Status};

/// One line per check that ran, grouped; those that did not, by why; findings, worst first; the totals.
pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(report, &mut out);
    out
}

fn write(report: &Report, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{}", clean(&report.target))?;
    let mut group = None;
    for result in report.results.iter().filter(|result| result.status() != Status::Skipped) {
        if group != Some(result.check.group()) {
            group = Some(result.check.group());
            writeln!(out, "\n{}", result.check.group())?;
        }
        writeln!(out, "  {:<4}{:<9}{}", result.check, result.status(), result.check.title())?;
    }
    write_skipped(report, out)?;

    let mut findings: Vec<_> = report.findings().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level()));
    for finding in findings {
        writeln!(out, "\n{} {} {}", finding.level(), finding.check(), clean(&finding.subject))?;
        writeln!(out, "  observed:    {}", clean(&finding.observed))?;
        writeln!(out, "  consequence: {}", finding.consequence())?;
        writeln!(out, "  fix:         {}", finding.fix())?;
    }

    let summary = report.summary();
    writeln!(
        out,
        "\n{}, {}, {}; {} passed, {} skipped",
        counted(summary.errors, "error"),
        counted(summary.warnings, "warning"),
        counted(summary.infos, "info"),
        counted(summary.passed, "check"),
        summary.skipped,
    )
}

/// Many checks are left out for one and the same reason, which is said once.
fn write_skipped(report: &Report, out: &mut String) -> std::fmt::Result {
    let mut reasons: Vec<(&Skipped, Vec<&str>)> = Vec::new();
    for result in &report.results {
        let Some(skipped) = result.skipped.as_ref().filter(|_| result.status() == Status::Skipped) else {
            continue;
        };
        match reasons.iter_mut().find(|(reason, _)| *reason == skipped) {
            Some((_, checks)) => checks.push(result.check.as_str()),
            None => reasons.push((skipped, vec![result.check.as_str()])),
        }
    }
    if !reasons.is_empty() {
        writeln!(out, "\nnot checked")?;
    }
    for (skipped, checks) in reasons {
        for line in checks.chunks(CHECKS_PER_LINE) {
            writeln!(out, "  {}", line.join(" "))?;
        }
        write!(out, "      {}", clean(&skipped.reason))?;
        match &skipped.opt_in {
            Some(opt_in) => writeln!(out, "\n      to check: {}", clean(opt_in))?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

/// Keeps a line of names within the width of a terminal.
const CHECKS_PER_LINE: usize = 20;

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Text from an extension must not move the cursor or colour the terminal of the user who tests it.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' => '␤',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::report::tests::sample;

    #[test]
    fn a_table_shows_checks_then_findings_then_totals() {
        insta::assert_snapshot!(super::render(&sample()));
    }
}
