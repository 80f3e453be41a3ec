//! All clusters in a table.

use windlass_controllers::fleet::ClusterView;
use windlass_engine::progress::Verdict;

use super::{Parts, about, age, tiles, verdict};
use crate::html::escaped;

/// The frame of the page, whose parts are filled in.
pub(crate) const FRAME: &str = "\
<header><h1>Clusters</h1><p id=\"trouble\" role=\"alert\"></p><p id=\"announce\" role=\"status\" class=\"unseen\"></p></header>\n\
<main>\n<div id=\"summary\"></div>\n<section aria-label=\"All clusters\"><p class=\"filter\"><label>Filter <input type=\"search\" \
id=\"filter\" placeholder=\"name, version, verdict, what is waited on\"></label> <span id=\"found\" aria-live=\"polite\"></span></p>\n\
<table class=\"fleet\"><thead><tr><th scope=\"col\">Cluster</th><th scope=\"col\">Verdict</th><th scope=\"col\">From</th>\
<th scope=\"col\">To</th><th scope=\"col\">Step</th><th scope=\"col\">Machines</th><th scope=\"col\">Elapsed</th>\
<th scope=\"col\">Left</th><th scope=\"col\">Worst skew</th><th scope=\"col\">Waiting on</th><th scope=\"col\">Since</th></tr></thead>\
<tbody id=\"rows\"></tbody></table>\n<p id=\"none\"></p></section>\n</main>";

/// The parts of the page.
pub(crate) fn fleet(views: &[ClusterView], trouble: Option<&str>) -> Parts {
    let mut parts = Parts::default();
    let count = |verdict: Verdict| {
        views.iter().filter(|view| view.described.progress.verdict == verdict).count().to_string()
    };
    let machines: usize = views.iter().map(|view| view.described.progress.machines).sum();
    parts.set(
        "summary",
        tiles(&[
            ("clusters", views.len().to_string()),
            ("progressing", count(Verdict::Progressing)),
            ("waiting", count(Verdict::Waiting)),
            ("stalled", count(Verdict::Stalled)),
            ("machines", machines.to_string()),
        ]),
    );
    parts.set_trouble(trouble);
    let none = if views.is_empty() && trouble.is_none() { "There are no Clusters." } else { "" };
    parts.set("none", none.to_owned());
    let mut order: Vec<&ClusterView> = views.iter().collect();
    // What needs somebody's attention comes first, then what moves.
    order.sort_by_key(|view| std::cmp::Reverse(view.described.progress.verdict));
    for view in order {
        let id = format!("{}/{}", view.described.namespace, view.described.name);
        parts.set(&id, row(view));
        parts.rows.push(id);
    }
    parts
}

fn row(view: &ClusterView) -> String {
    let described = &view.described;
    let progress = &described.progress;
    let (namespace, name) = (escaped(&described.namespace), escaped(&described.name));
    let link = format!(
        "<a id=\"open:{namespace}/{name}\" href=\"/clusters/{namespace}/{name}\">{namespace}/{name}</a>"
    );
    let upgrade = described.upgrade.as_ref();
    let waiting = described.waiting_on.as_ref().filter(|_| upgrade.is_some());
    let to = described.version.as_deref().map(escaped).unwrap_or_default();
    let from = upgrade.and_then(|upgrade| upgrade.from.as_deref()).map(escaped).unwrap_or_default();
    let left = progress.left.filter(|_| progress.verdict == Verdict::Progressing);
    let since = match progress.verdict {
        Verdict::Stalled => progress.moved.as_ref(),
        _ => waiting.map(|waiting| &waiting.wait.since),
    };
    // On narrow screens each cell says what it is.
    let cells = [
        ("Verdict", verdict(progress.verdict)),
        ("From", from),
        ("To", to),
        ("Step", upgrade.map(|_| format!("{} of {}", progress.step, progress.steps)).unwrap_or_default()),
        ("Machines", format!("{} of {}", progress.machines_done, progress.machines)),
        ("Elapsed", progress.began.as_ref().map(|began| age(began.0)).unwrap_or_default()),
        ("Left", left.map(|left| about(left.p50_seconds)).unwrap_or_default()),
        ("Worst skew", progress.worst_skew.to_string()),
        ("Waiting on", waiting.map(|waiting| escaped(&waiting.wait.what)).unwrap_or_default()),
        ("Since", since.map(|since| age(since.0)).unwrap_or_default()),
    ];
    let cells: String = cells
        .iter()
        .map(|(name, cell)| match cell.is_empty() {
            true => "<td class=\"empty\"></td>".to_owned(),
            false => format!("<td data-name=\"{name}\">{cell}</td>"),
        })
        .collect();
    format!("<th scope=\"row\">{link}</th>{cells}")
}
