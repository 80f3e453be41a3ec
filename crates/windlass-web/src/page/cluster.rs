//! One cluster: lanes over time, machines, steps, hooks, what is waited on, events.

use std::fmt::Write as _;

use jiff::Timestamp;
use windlass_controllers::fleet::ClusterView;
use windlass_engine::describe::StepState;
use windlass_engine::progress::{Verdict, passed};
use windlass_simulate::UpgradeReport;

use super::{Parts, about, age, document, roughly, tiles, verdict};
use crate::chart::{Timeline, gantt, lanes};
use crate::forecast::Foretold;
use crate::html::{clock, escaped, minors};
use crate::report::{insights, sections};

/// The frame of the page, whose parts are filled in.
pub(crate) fn frame(namespace: &str, name: &str) -> String {
    let (namespace, name) = (escaped(namespace), escaped(name));
    let section = |id: &str, title: &str| {
        format!("<section aria-label=\"{title}\"><h2>{title}</h2><div id=\"{id}\"></div></section>\n")
    };
    format!(
        "<header><p><a href=\"/\" id=\"back\">All clusters</a></p><h1>{namespace}/{name} <span id=\"verdict\"></span></h1>\
         <p id=\"trouble\" role=\"alert\"></p><p id=\"announce\" role=\"status\" class=\"unseen\"></p></header>\n<main>\n\
         <div id=\"summary\"></div>\n<div id=\"waiting\"></div>\n<div id=\"insights\"></div>\n{}{}{}{}{}\
         <section aria-label=\"What if\"><h2>What if</h2><form method=\"get\" action=\"/what-if/{namespace}/{name}\"><label>Upgrade to \
         <span id=\"targets\"></span></label> <button>Simulate</button></form><p>Runs the real controllers on a copy in \
         memory. Nothing is changed.</p></section>\n</main>",
        section("lanes", "Versions and skew"),
        section("steps", "Plan"),
        section("machines", "Machines"),
        section("hooks", "Hooks"),
        section("events", "Events"),
    )
}

/// The parts of the page.
pub(crate) fn cluster(view: &ClusterView, foretold: Option<&Foretold>) -> Parts {
    let mut parts = Parts::default();
    let described = &view.described;
    let progress = &described.progress;
    let is_upgrading = described.upgrade.is_some();
    parts.set("verdict", verdict(progress.verdict));
    parts.set("summary", summary(view));
    parts.set("waiting", waiting(view));
    // A forecast counts from when the cluster was read; what has passed since is drawn as past.
    let shifted = foretold.map(|foretold| later(foretold, view));
    let timeline = Timeline {
        lanes: &view.record.lanes,
        operations: &view.record.operations,
        until: view.record.now_seconds,
        hooks: Vec::new(),
        forecast: shifted.as_ref().filter(|_| is_upgrading),
    };
    let foretold = match (&timeline.forecast, is_upgrading) {
        (Some(_), _) => " Past is solid, what is to come dashed: a simulation from where the cluster is.",
        (None, true) => " What is to come is being simulated.",
        (None, false) => "",
    };
    parts.set(
        "lanes",
        format!(
            "<p>The control plane is the ceiling; kubelets stay in the shaded band. At worst {} behind.{foretold}</p>{}",
            minors(progress.worst_skew),
            lanes(&timeline)
        ),
    );
    parts.set("machines", gantt(&timeline));
    parts.set("steps", steps(view));
    parts.set("hooks", hooks(view));
    parts.set("events", events(view));
    // A cluster that is not upgraded has none: what stands in the way depends on the target.
    let report = timeline.forecast;
    parts.set("insights", report.map(insights).unwrap_or_default());
    parts.set("targets", choices(&view.targets, described.version.as_deref()));
    parts
}

/// A forecast, from now on instead of from when its cluster was read.
fn later(foretold: &Foretold, view: &ClusterView) -> UpgradeReport {
    let now = Timestamp::from_second(view.record.began.0.as_second())
        .ok()
        .and_then(|began| i64::try_from(view.record.now_seconds).ok().map(|passed| (began, passed)))
        .and_then(|(began, passed)| Timestamp::from_second(began.as_second() + passed).ok());
    let gone = now.map_or(0, |now| passed(foretold.taken, now));
    let mut report = foretold.report.as_ref().clone();
    let shift = |seconds: &mut u64| *seconds = seconds.saturating_sub(gone);
    for lane in &mut report.lanes {
        lane.points.iter_mut().for_each(|point| shift(&mut point.at_seconds));
        // What was at the same time is the last of it.
        let mut points: Vec<_> = std::mem::take(&mut lane.points);
        points.reverse();
        points.dedup_by_key(|point| point.at_seconds);
        points.reverse();
        lane.points = points;
    }
    for operation in &mut report.operations {
        operation.machines.retain(|machine| machine.end_seconds > gone);
        for machine in &mut operation.machines {
            shift(&mut machine.start_seconds);
            shift(&mut machine.end_seconds);
        }
    }
    shift(&mut report.virtual_seconds);
    report
}

fn summary(view: &ClusterView) -> String {
    let described = &view.described;
    let progress = &described.progress;
    let version = described.version.as_deref().map(escaped).unwrap_or_default();
    let mut all: Vec<(&str, String)> = Vec::new();
    match &described.upgrade {
        None => all.push(("version", version)),
        Some(upgrade) => {
            all.push(("from", upgrade.from.as_deref().map(escaped).unwrap_or_default()));
            all.push(("to", escaped(&upgrade.to)));
            all.push(("step", format!("{} of {}", progress.step, progress.steps)));
        }
    }
    all.push(("machines", format!("{} of {}", progress.machines_done, progress.machines)));
    if let Some(began) = &progress.began {
        all.push(("elapsed", age(began.0)));
    }
    if let Some(left) = progress.left {
        all.push(("left (P50)", about(left.p50_seconds)));
        all.push(("left (P95)", about(left.p95_seconds)));
    }
    all.push(("skew", minors(progress.skew)));
    all.push(("worst skew", minors(progress.worst_skew)));
    let told = match progress.samples {
        0 => "<p class=\"note\">No machine tells how long it took: 5 minutes are assumed, 20 at most.</p>"
            .to_owned(),
        count => format!("<p class=\"note\">Times as {count} machines of this cluster took.</p>"),
    };
    tiles(&all) + if progress.left.is_some() { &told } else { "" }
}

fn waiting(view: &ClusterView) -> String {
    let Some(waiting) = &view.described.waiting_on else { return String::new() };
    let class = if view.described.progress.verdict == Verdict::Progressing { "wait" } else { "wait stop" };
    let mut text = format!(
        "<section class=\"{class}\" aria-label=\"Waiting on\"><h2>Waiting on {}</h2><p>for {}</p><ul>",
        escaped(&waiting.wait.what),
        age(waiting.wait.since.0)
    );
    for evidence in &waiting.evidence {
        // Writing to a String does not fail.
        let _ = write!(text, "<li>{}</li>", escaped(evidence));
    }
    text.push_str("</ul>");
    if let Some(command) = &waiting.command {
        let _ = write!(text, "<p>To let it go on: <code>{}</code></p>", escaped(command));
    }
    text + "</section>"
}

fn steps(view: &ClusterView) -> String {
    let Some(upgrade) = &view.described.upgrade else {
        return "<p>No upgrade is under way.</p>".to_owned();
    };
    let mut text = "<ol class=\"steps\">".to_owned();
    for step in &upgrade.steps {
        let (class, word) = match step.state {
            StepState::Done => ("done", "done"),
            StepState::Running => ("running", "running"),
            StepState::ToCome => ("coming", "to come"),
        };
        let count = match (step.machines_done, step.machines) {
            (Some(done), Some(all)) => format!(", {done} of {all} machines"),
            _ => String::new(),
        };
        let time = match (step.state, step.elapsed_seconds, step.left) {
            (StepState::Done, Some(took), _) => format!("took {}", clock(took)),
            (StepState::Running, _, Some(left)) => {
                let since = step.started.as_ref().map(|started| format!("for {}, ", age(started.0)));
                format!("{}{} left", since.unwrap_or_default(), about(left.p50_seconds))
            }
            (StepState::ToCome, _, Some(left)) => roughly(left.p50_seconds),
            _ => String::new(),
        };
        let _ = write!(
            text,
            "<li class=\"{class}\"><span class=\"state\">{word}</span> {} to {}{count} <span class=\"soft\">{time}</span></li>",
            escaped(&step.part),
            escaped(&step.version)
        );
    }
    text + "</ol>"
}

/// What is still to be called, and what was told of hooks.
fn hooks(view: &ClusterView) -> String {
    let mut text = String::new();
    let pending = &view.described.pending_hooks;
    match pending.is_empty() {
        true => text.push_str("<p>No hook is to be called.</p>"),
        false => {
            let names: String = pending.iter().map(|hook| format!("<li>{}</li>", escaped(hook))).collect();
            let _ = write!(text, "<p>To be called:</p><ul class=\"rail\">{names}</ul>");
        }
    }
    let told: Vec<_> = view.events.iter().filter(|event| event.reason.contains("Hook")).collect();
    if !told.is_empty() {
        text.push_str(
            "<table><thead><tr><th scope=\"col\">Ago</th><th scope=\"col\">What</th></tr></thead><tbody>",
        );
        for event in told {
            let _ = write!(text, "<tr><td>{}</td><td>{}</td></tr>", age(event.at.0), escaped(&event.message));
        }
        text.push_str("</tbody></table>");
    }
    text
}

fn events(view: &ClusterView) -> String {
    if view.events.is_empty() {
        return "<p>Nothing was told of it.</p>".to_owned();
    }
    let mut text = "<table><thead><tr><th scope=\"col\">Ago</th><th scope=\"col\">Reason</th><th scope=\"col\">What</th></tr>\
        </thead><tbody>"
        .to_owned();
    for event in &view.events {
        let class = if event.level == "Warning" { " class=\"warning\"" } else { "" };
        let _ = write!(
            text,
            "<tr{class}><td>{}</td><td>{}</td><td>{}</td></tr>",
            age(event.at.0),
            escaped(&event.reason),
            escaped(&event.message)
        );
    }
    text + "</tbody></table>"
}

/// Versions that may be chosen; with none known, any can be typed.
fn choices(targets: &[String], now: Option<&str>) -> String {
    if targets.is_empty() {
        return "<input name=\"to\" required placeholder=\"v1.34.0\" size=\"10\">".to_owned();
    }
    let mut text = "<select name=\"to\">".to_owned();
    for target in targets {
        let selected = if Some(target.as_str()) == now { " selected" } else { "" };
        let target = escaped(target);
        let _ = write!(text, "<option{selected}>{target}</option>");
    }
    text + "</select>"
}

/// The page of another target.
pub(crate) fn what_if(
    namespace: &str,
    name: &str,
    to: &str,
    report: &Result<UpgradeReport, String>,
) -> String {
    let title = format!("{namespace}/{name} to {to}");
    let (namespace, name) = (escaped(namespace), escaped(name));
    let content = match report {
        Ok(report) => sections(report),
        Err(why) => {
            format!("<section class=\"stop\"><h2>It would not be done</h2><p>{}</p></section>", escaped(why))
        }
    };
    let body = format!(
        "<header><p><a href=\"/clusters/{namespace}/{name}\">{namespace}/{name}</a></p><h1>What if {}</h1>\
         <p>Simulated from where the cluster is. Nothing was changed.</p></header>\n<main>\n{content}</main>",
        escaped(to)
    );
    document(&title, &body)
}
