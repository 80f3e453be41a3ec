//! The table of all clusters.

use jiff::Timestamp;
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};
use windlass_controllers::fleet::ClusterView;
use windlass_engine::progress::Verdict;

use super::screen::{BOLD, DIM, fitted, styled, text, verdict_style};
use super::state::State;
use crate::describe::table::{age, span};

/// Columns: head, and how wide they are on a narrow and on a wide terminal. The last has what is left.
const COLUMNS: [(&str, usize, usize); 9] = [
    ("CLUSTER", 14, 40),
    ("FROM", 8, 10),
    ("TO", 8, 10),
    ("STEP", 4, 6),
    ("MACH", 5, 9),
    ("TIME", 5, 8),
    ("ETA", 5, 8),
    ("SKEW", 4, 6),
    ("SINCE", 5, 8),
];
/// A terminal that is at least so wide is wide.
const WIDE: usize = 130;

pub(super) fn lines(state: &State, width: usize, height: usize, now: Timestamp) -> Vec<Line<'static>> {
    let shown = state.shown();
    let mut lines = vec![title(state, &shown)];
    if let Some(trouble) = &state.trouble {
        lines.push(Line::from(vec![styled("cannot read ", verdict_style(Verdict::Stalled)), text(trouble)]));
    }
    lines.push(Line::default());
    let widths = COLUMNS.map(|(_, narrow, wide)| if width >= WIDE { wide } else { narrow });
    let used: usize = widths.iter().map(|width| width + 1).sum();
    let rest = width.saturating_sub(used);
    let head: Vec<String> =
        COLUMNS.iter().zip(widths).map(|((head, ..), width)| fitted(head, width)).collect();
    lines.push(Line::styled(format!("{} {}", head.join(" "), fitted("WAITING ON", rest)), BOLD));
    let row = state.row();
    let room = height.saturating_sub(lines.len()).max(1);
    // The cursor stays in sight.
    let first = (row + 1).saturating_sub(room);
    for (place, view) in shown.iter().enumerate().skip(first).take(room) {
        let cells = cells(view, now);
        let style = if place == row { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let mut spans: Vec<Span<'static>> = Vec::new();
        for (place, (cell, width)) in cells.iter().zip(widths).enumerate() {
            // What is called by two names is told apart by the end of them.
            let cell = if place == 0 { shortened(cell, width) } else { fitted(cell, width) };
            spans.push(Span::raw(cell + " "));
        }
        let verdict = view.described.progress.verdict;
        spans.push(Span::styled(fitted(&cells[COLUMNS.len()], rest), verdict_style(verdict)));
        lines.push(Line::from(spans).style(style));
    }
    if shown.is_empty() && state.trouble.is_none() {
        let none =
            if state.count() == 0 { "There are no Clusters." } else { "No Cluster has these letters." };
        lines.push(Line::styled(none, DIM));
    }
    lines
}

fn title(state: &State, shown: &[&ClusterView]) -> Line<'static> {
    let count =
        |verdict: Verdict| shown.iter().filter(|view| view.described.progress.verdict == verdict).count();
    let mut spans = vec![styled("windlass", BOLD), text(format!("  {} clusters", shown.len()))];
    for verdict in [Verdict::Stalled, Verdict::Waiting, Verdict::Progressing] {
        if count(verdict) > 0 {
            spans.push(text("  "));
            spans.push(styled(format!("{} {verdict}", count(verdict)), verdict_style(verdict)));
        }
    }
    if state.is_typing || !state.filter.is_empty() {
        let cursor = if state.is_typing { "_" } else { "" };
        spans.push(styled(format!("  /{}{cursor}", state.filter), BOLD));
    }
    Line::from(spans)
}

/// What stands in a row, and what is waited on behind it.
fn cells(view: &ClusterView, now: Timestamp) -> [String; COLUMNS.len() + 1] {
    let described = &view.described;
    let progress = &described.progress;
    let name = format!("{}/{}", described.namespace, described.name);
    let version = described.version.clone().unwrap_or_default();
    let Some(upgrade) = &described.upgrade else {
        let machines = format!("{}/{}", progress.machines_done, progress.machines);
        let skew = progress.skew.to_string();
        let none = String::new;
        return [name, none(), version, none(), machines, none(), none(), skew, none(), none()];
    };
    let waiting = described.waiting_on.as_ref();
    let eta = progress.left.filter(|_| progress.verdict == Verdict::Progressing);
    let since = match progress.verdict {
        Verdict::Stalled => progress.moved.as_ref(),
        _ => waiting.map(|waiting| &waiting.wait.since),
    };
    let what = waiting.map(|waiting| waiting.wait.what.clone()).unwrap_or_default();
    [
        name,
        upgrade.from.clone().unwrap_or_default(),
        upgrade.to.clone(),
        format!("{}/{}", progress.step, progress.steps),
        format!("{}/{}", progress.machines_done, progress.machines),
        progress.elapsed_seconds.map(span).unwrap_or_default(),
        eta.map(|eta| span(eta.p50_seconds)).unwrap_or_default(),
        progress.worst_skew.to_string(),
        since.map(|since| age(since.0, now)).unwrap_or_default(),
        match progress.verdict {
            Verdict::Stalled => format!("stalled: {what}"),
            _ => what,
        },
    ]
}

/// The name of a cluster; the namespace goes first if there is no room for both.
fn shortened(name: &str, width: usize) -> String {
    let own = name.rsplit_once('/').map_or(name, |(_, own)| own);
    fitted(if name.chars().count() > width { own } else { name }, width)
}
