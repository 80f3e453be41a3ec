//! Reports as JUnit XML, which CI systems show as tests.

use std::fmt::Write;

use super::{CheckResult, Report, Status};
use crate::check::{Finding, Group, Level};

/// One suite per group and one case per check. Findings of level error fail a case; others are its output,
/// because a CI system knows no warnings and a guideline should not stop a pipeline.
pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(report, &mut out);
    out
}

fn write(report: &Report, out: &mut String) -> std::fmt::Result {
    let (failures, skipped) = count(report.results.iter());
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        out,
        r#"<testsuites name="windlass {}" tests="{}" failures="{failures}" errors="0" skipped="{skipped}">"#,
        report.kind.as_str(),
        report.results.len(),
    )?;
    for group in Group::ALL {
        let of_group = || report.results.iter().filter(move |result| result.check.group() == group);
        let tests = of_group().count();
        if tests == 0 {
            continue;
        }
        let (failures, skipped) = count(of_group());
        writeln!(
            out,
            r#"  <testsuite name="{group}" hostname="{}" tests="{tests}" failures="{failures}" errors="0" skipped="{skipped}">"#,
            escape(&report.target),
        )?;
        for result in of_group() {
            write_case(result, out)?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

fn write_case(result: &CheckResult, out: &mut String) -> std::fmt::Result {
    let name = format!("{} {}", result.check, result.check.title());
    write!(out, r#"    <testcase classname="windlass.{}" name="{}""#, result.check.group(), escape(&name))?;
    if result.status() == Status::Passed {
        return writeln!(out, "/>");
    }
    writeln!(out, ">")?;
    if let (Status::Skipped, Some(skipped)) = (result.status(), &result.skipped) {
        let opt_in = skipped.opt_in.as_ref().map(|how| format!(" (to check it: {how})")).unwrap_or_default();
        writeln!(out, r#"      <skipped message="{}"/>"#, escape(&format!("{}{opt_in}", skipped.reason)))?;
    }
    for finding in result.findings.iter().filter(|finding| finding.level() == Level::Error) {
        writeln!(
            out,
            r#"      <failure type="{}" message="{}">{}</failure>"#,
            finding.rule,
            escape(&format!("{}: {}", finding.subject, finding.observed)),
            escape(&describe(finding)),
        )?;
    }
    let others: Vec<String> =
        result.findings.iter().filter(|finding| finding.level() != Level::Error).map(describe).collect();
    if !others.is_empty() {
        writeln!(out, "      <system-out>{}</system-out>", escape(&others.join("\n")))?;
    }
    writeln!(out, "    </testcase>")
}

fn count<'a>(results: impl Iterator<Item = &'a CheckResult>) -> (usize, usize) {
    results.fold((0, 0), |(failures, skipped), result| match result.status() {
        Status::Found(Level::Error) => (failures + 1, skipped),
        Status::Skipped => (failures, skipped + 1),
        _ => (failures, skipped),
    })
}

fn describe(finding: &Finding) -> String {
    format!(
        "{} {}: {}\nconsequence: {}\nfix: {}",
        finding.level(),
        finding.subject,
        finding.observed,
        finding.consequence(),
        finding.fix()
    )
}

/// Escapes for text and attributes. Characters that XML 1.0 cannot hold at all are replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Inside an attribute a raw line break would be read back as a space.
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::report::tests::sample;

    #[test]
    fn junit_is_xml_that_a_parser_reads_back() {
        let xml = super::render(&sample());
        insta::assert_snapshot!(xml);
        let document = roxmltree::Document::parse(&xml).unwrap();
        let cases: Vec<_> = document.descendants().filter(|node| node.has_tag_name("testcase")).collect();
        assert_eq!(cases.len(), 6);
        let failure = document.descendants().find(|node| node.has_tag_name("failure")).unwrap();
        let message = failure.attribute("message").unwrap();
        assert!(message.starts_with("Gate <1> & \"2\": name"), "{message}");
        assert!(message.contains('\u{fffd}'), "a control character is replaced");
        assert_eq!(document.descendants().filter(|node| node.has_tag_name("skipped")).count(), 2);
        assert_eq!(document.root_element().attribute("failures"), Some("1"));
    }
}
