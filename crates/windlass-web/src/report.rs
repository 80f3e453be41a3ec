//! `windlass simulate upgrade -o html`: one page for a change ticket. It has no scripts and loads nothing.

use std::fmt::Write as _;

use windlass_simulate::UpgradeReport;

use crate::STYLE;
use crate::chart::{Timeline, gantt, lanes};
use crate::html::{clock, escaped, heading, minors};

/// What a page is about.
pub struct Ticket<'a> {
    /// The cluster, as a user calls it.
    pub cluster: &'a str,
    /// The target.
    pub to: &'a str,
    /// What happens.
    pub report: &'a UpgradeReport,
}

impl Ticket<'_> {
    /// The page.
    pub fn render(&self) -> String {
        let report = self.report;
        let title = format!("{} to {}", self.cluster, self.to);
        let mut page = String::new();
        // Writing to a String does not fail.
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>Upgrade of {title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<header><h1>Upgrade of {cluster}</h1>\
             <p>to <strong>{to}</strong>, simulated with the real controllers. Nothing was changed.</p></header>\n<main>\n",
            title = escaped(&title),
            cluster = escaped(self.cluster),
            to = escaped(self.to),
        );
        page.push_str(&sections(report));
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }
}

/// What a report says, section by section.
pub(crate) fn sections(report: &UpgradeReport) -> String {
    let timeline = Timeline::of(report);
    let mut page = String::new();
    page.push_str(&summary(report));
    if let Some(stopped) = &report.stopped {
        let _ = writeln!(
            page,
            "<section class=\"stop\" id=\"stopped\"><h2>It stops after {}</h2><p><strong>{}</strong>: {}</p></section>",
            clock(stopped.at_seconds),
            escaped(&stopped.reason),
            escaped(&stopped.waits_for)
        );
    }
    let _ = writeln!(
        page,
        "<section id=\"lanes\"><h2>Versions and skew</h2><p>The control plane is the ceiling; kubelets stay in the shaded \
         band. At worst {} behind.</p>{}</section>",
        minors(report.worst_skew),
        lanes(&timeline)
    );
    let _ = writeln!(page, "<section id=\"machines\"><h2>Machines</h2>{}</section>", gantt(&timeline));
    page.push_str(&operations(report));
    page.push_str(&hooks(report));
    page.push_str(&insights(report));
    page.push_str(&notes(report));
    page
}

fn summary(report: &UpgradeReport) -> String {
    let machines = report.machines;
    let tiles = [
        ("takes", clock(report.virtual_seconds)),
        ("operations", report.operations.len().to_string()),
        ("machines created", machines.created.to_string()),
        ("machines deleted", machines.deleted.to_string()),
        ("updated in place", machines.updated_in_place.to_string()),
        ("hooks called", report.hooks.len().to_string()),
        ("worst skew", minors(report.worst_skew)),
    ];
    let estimate = report.estimate.map(|estimate| {
        [("P50 of runs", clock(estimate.p50_seconds)), ("P95 of runs", clock(estimate.p95_seconds))]
    });
    let tiles = tiles.into_iter().chain(estimate.into_iter().flatten());
    let tiles: Vec<(&str, String)> = tiles.collect();
    let tiles: String =
        tiles.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>")).collect();
    format!("<dl class=\"tiles\">{tiles}</dl>\n")
}

fn operations(report: &UpgradeReport) -> String {
    let mut rows = String::new();
    for (number, operation) in (1..).zip(&report.operations) {
        let _ = writeln!(
            rows,
            "<tr class=\"operation\"><th scope=\"row\">{number}</th><td>{}</td><td>{}</td><td>{}</td><td></td></tr>",
            clock(operation.start_seconds),
            clock(operation.end_seconds),
            escaped(&heading(operation))
        );
        for machine in &operation.machines {
            let _ = writeln!(
                rows,
                "<tr><th scope=\"row\"></th><td>{}</td><td>{}</td><td><span class=\"{}\">{}</span> {}</td><td>{}</td></tr>",
                clock(machine.start_seconds),
                clock(machine.end_seconds),
                machine.action,
                machine.action,
                escaped(&machine.name),
                escaped(machine.reason.as_deref().unwrap_or_default())
            );
        }
    }
    format!(
        "<section id=\"operations\"><h2>Operations</h2><table><thead><tr><th scope=\"col\">#</th><th scope=\"col\">Start</th>\
         <th scope=\"col\">End</th><th scope=\"col\">What</th><th scope=\"col\">Why</th></tr></thead><tbody>\n{rows}</tbody></table>\
         </section>\n"
    )
}

fn hooks(report: &UpgradeReport) -> String {
    if report.hooks.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for call in &report.hooks {
        let wait = match call.retry_after_seconds {
            0 => String::new(),
            seconds => format!("asks to wait {}", clock(u64::from(seconds))),
        };
        let _ = writeln!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{wait}</td></tr>",
            clock(call.at_seconds),
            escaped(&call.to_string()),
            escaped(&call.handler)
        );
    }
    format!(
        "<section id=\"hooks\"><h2>Hooks</h2><table><thead><tr><th scope=\"col\">At</th><th scope=\"col\">Hook</th>\
         <th scope=\"col\">Handler</th><th scope=\"col\">Answer</th></tr></thead><tbody>\n{rows}</tbody></table></section>\n"
    )
}

/// What stands in the way.
pub(crate) fn insights(report: &UpgradeReport) -> String {
    if report.insights.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for insight in &report.insights {
        let _ = writeln!(
            rows,
            "<tr class=\"{level}\"><td>{level}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            insight.id,
            escaped(&insight.object),
            escaped(&insight.evidence),
            escaped(&insight.remedy),
            level = insight.level
        );
    }
    format!(
        "<section id=\"insights\"><h2>Insights</h2><table><thead><tr><th scope=\"col\">Level</th><th scope=\"col\">What</th>\
         <th scope=\"col\">Where</th><th scope=\"col\">Seen</th><th scope=\"col\">Remedy</th></tr></thead><tbody>\n{rows}</tbody>\
         </table></section>\n"
    )
}

fn notes(report: &UpgradeReport) -> String {
    if report.warnings.is_empty() {
        return String::new();
    }
    let items: String = report.warnings.iter().map(|note| format!("<li>{}</li>\n", escaped(note))).collect();
    format!("<section id=\"assumptions\"><h2>Assumed</h2><ul>\n{items}</ul></section>\n")
}
