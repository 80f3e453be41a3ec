//! One cluster: lanes, steps, events, what is waited on.

use jiff::Timestamp;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::{Line, Span};
use windlass_controllers::fleet::ClusterView;
use windlass_engine::describe::{StepDescription, StepState};
use windlass_engine::progress::Verdict;
use windlass_version::Version;

use super::screen::{BOLD, DIM, fitted, styled, text, verdict_style};
use crate::describe::table::{age, span};
use crate::table::wrapped;

pub(super) fn lines(
    key: &(String, String),
    view: Option<&ClusterView>,
    width: usize,
    height: usize,
    now: Timestamp,
) -> Vec<Line<'static>> {
    let Some(view) = view else {
        return vec![Line::from(vec![text(format!("There is no Cluster {}/{} yet.", key.0, key.1))])];
    };
    let mut lines = vec![title(view), times(view), Line::default()];
    lines.extend(
        windlass_demo::lanes(&versions(view), &view.described.progress.lanes, width).into_iter().map(line),
    );
    lines.push(line(windlass_demo::legend()));
    lines.push(Line::default());
    let waiting = waiting(view, width, now);
    let room = height.saturating_sub(lines.len() + waiting.len() + 1);
    lines.extend(steps_and_events(view, width, room, now));
    lines.push(Line::default());
    lines.extend(waiting);
    lines
}

fn title(view: &ClusterView) -> Line<'static> {
    let described = &view.described;
    let progress = &described.progress;
    let versions = match &described.upgrade {
        None => described.version.clone().unwrap_or_default(),
        Some(upgrade) => match &upgrade.from {
            Some(from) => format!("{from} -> {}", upgrade.to),
            None => format!("-> {}", upgrade.to),
        },
    };
    Line::from(vec![
        styled(format!("{}/{}", described.namespace, described.name), BOLD),
        text(format!("   {versions}   ")),
        styled(progress.verdict.to_string(), verdict_style(progress.verdict)),
    ])
}

/// How far it is, and how long that took.
fn times(view: &ClusterView) -> Line<'static> {
    let progress = &view.described.progress;
    let mut parts = Vec::new();
    if progress.verdict != Verdict::UpToDate {
        parts.push(format!("step {} of {}", progress.step, progress.steps));
    }
    parts.push(format!("{} of {} machines", progress.machines_done, progress.machines));
    if let Some(elapsed) = progress.elapsed_seconds {
        parts.push(format!("{} so far", span(elapsed)));
    }
    if let Some(left) = progress.left {
        let assumed = if progress.samples == 0 { ", assumed" } else { "" };
        parts.push(format!("{} left (P95 {}{assumed})", span(left.p50_seconds), span(left.p95_seconds)));
    }
    parts.push(format!("skew {} worst {}", progress.skew, progress.worst_skew));
    Line::from(parts.join("  "))
}

/// The versions that are columns: those that machines have, and those on the way.
fn versions(view: &ClusterView) -> Vec<String> {
    let described = &view.described;
    let machines =
        described.progress.lanes.iter().flat_map(|lane| lane.machines.iter().map(|mark| &mark.version));
    let steps = described.upgrade.iter().flat_map(|upgrade| upgrade.steps.iter().map(|step| &step.version));
    let mut versions: Vec<String> = machines.chain(steps).chain(&described.version).cloned().collect();
    versions.sort_by(|a, b| match (Version::parse(a), Version::parse(b)) {
        (Ok(first), Ok(second)) => first.precedence(&second).then_with(|| a.cmp(b)),
        _ => a.cmp(b),
    });
    versions.dedup();
    versions
}

/// Steps on the left, what was told on the right; of either, what matters now if there is no room for all.
fn steps_and_events(view: &ClusterView, width: usize, room: usize, now: Timestamp) -> Vec<Line<'static>> {
    let steps = view.described.upgrade.as_ref().map(|upgrade| upgrade.steps.as_slice()).unwrap_or_default();
    let rows = room.saturating_sub(1);
    let left_width = (width / 2).clamp(20, 64);
    let right_width = width.saturating_sub(left_width + 1);
    let done = steps.iter().take_while(|step| step.state == StepState::Done).count();
    // The last that is done stays in sight.
    let first = done.saturating_sub(1).min(steps.len().saturating_sub(rows));
    let shown: Vec<&StepDescription> = steps.iter().skip(first).take(rows).collect();
    let events: Vec<String> = view
        .events
        .iter()
        .take(rows)
        .map(|event| {
            format!("{:>5} {}", age(event.at.0, now), event.message.lines().next().unwrap_or_default())
        })
        .collect();
    let head = format!("{} EVENTS", fitted("STEPS", left_width));
    let mut lines = vec![Line::styled(head, BOLD)];
    for row in 0..shown.len().max(events.len()) {
        let mut spans: Vec<Span<'static>> = Vec::new();
        match shown.get(row) {
            None => spans.push(Span::raw(" ".repeat(left_width))),
            Some(step) => {
                let (sign, style) = match step.state {
                    StepState::Done => ("✔", Style::new().fg(Color::Green)),
                    StepState::Running => ("▶", Style::new().fg(Color::Cyan)),
                    StepState::ToCome => ("·", DIM),
                };
                let weight = if step.state == StepState::Running { BOLD } else { Style::new() };
                spans.push(Span::styled(format!("{sign} "), style));
                spans.push(Span::styled(step_text(step, left_width - 2), weight));
            }
        }
        spans.push(Span::raw(" "));
        spans.push(Span::styled(fitted(events.get(row).map_or("", String::as_str), right_width), DIM));
        lines.push(Line::from(spans));
    }
    lines
}

/// A step in so many cells: what it does on the left, how long it takes on the right.
fn step_text(step: &StepDescription, width: usize) -> String {
    let left = step.left.map(|left| span(left.p50_seconds));
    let time = match (step.state, step.elapsed_seconds.map(span), left) {
        (StepState::Done, Some(took), _) => took,
        (StepState::Running, Some(so_far), Some(left)) => format!("{so_far} +{left}"),
        (StepState::Running | StepState::ToCome, _, Some(left)) => format!("~{left}"),
        (_, Some(time), None) => time,
        _ => String::new(),
    };
    let count = match (step.machines_done, step.machines) {
        (Some(done), Some(all)) => format!(" {done}/{all}"),
        _ => String::new(),
    };
    // The kind of a group says less than where it goes.
    let part = step.part.replace("MachineDeployment ", "").replace("MachinePool ", "");
    let what = format!("{part} {}{count}", step.version);
    format!("{} {time}", fitted(&what, width.saturating_sub(time.chars().count() + 1)))
}

fn waiting(view: &ClusterView, width: usize, now: Timestamp) -> Vec<Line<'static>> {
    let Some(waiting) = &view.described.waiting_on else { return Vec::new() };
    let style = verdict_style(view.described.progress.verdict).add_modifier(Modifier::BOLD);
    let head = format!("waiting on {} (for {})", waiting.wait.what, age(waiting.wait.since.0, now));
    let wrap = |text: &str, indent: &str| -> Vec<String> {
        wrapped(&windlass_api::printable(text), Some(width), indent).lines().map(str::to_owned).collect()
    };
    let mut lines: Vec<Line<'static>> =
        wrap(&head, "  ").into_iter().take(3).map(|text| Line::styled(text, style)).collect();
    // Two of many: the rest is for `windlass describe`.
    for evidence in waiting.evidence.iter().skip(1).take(2) {
        lines.extend(
            wrap(&format!("  {evidence}"), "    ").into_iter().take(2).map(|text| Line::styled(text, DIM)),
        );
    }
    if let Some(command) = &waiting.command {
        lines.push(Line::from(vec![styled("to let it go on: ", BOLD), text(command)]));
    }
    lines
}

/// A line of the demo's pictures.
fn line(spans: windlass_demo::Line) -> Line<'static> {
    Line::from(spans.into_iter().map(|span| Span::styled(span.text, style(span.style))).collect::<Vec<_>>())
}

fn style(from: anstyle::Style) -> Style {
    let mut style = Style::new();
    if let Some(anstyle::Color::Ansi(colour)) = from.get_fg_color() {
        style = style.fg(match colour {
            anstyle::AnsiColor::Green => Color::Green,
            anstyle::AnsiColor::Yellow => Color::Yellow,
            anstyle::AnsiColor::Cyan => Color::Cyan,
            anstyle::AnsiColor::Red => Color::Red,
            _ => Color::Reset,
        });
    }
    for (effect, modifier) in
        [(anstyle::Effects::BOLD, Modifier::BOLD), (anstyle::Effects::DIMMED, Modifier::DIM)]
    {
        if from.get_effects().contains(effect) {
            style = style.add_modifier(modifier);
        }
    }
    style
}
