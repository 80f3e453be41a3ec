//! A description for people.

use anstyle::{AnsiColor, Color, Style};
use jiff::Timestamp;
use windlass_api::printable;
use windlass_engine::describe::{
    ClusterDescription, ConditionDescription, ObjectDescription, StepDescription, StepState,
    UpgradeDescription,
};
use windlass_engine::progress::{Progress, Verdict};

use super::updates;
use crate::table::{HEAD, Table, wrapped};

pub(super) const DIM: Style = Style::new().dimmed();
const GOOD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green)));
const BAD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Red)));
pub(super) const BUSY: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));
const WAITING: Style = Style::new().bold().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));

/// So many machines that are alike are one line.
const ALIKE: usize = 4;

/// Columns that a narrow terminal can do without: how many are ready, available and up to date, since when, why.
const EXPENDABLE: [usize; 5] = [3, 4, 5, 8, 7];

/// The tree, the upgrade, the hooks, and what is waited on.
pub(crate) fn render(
    described: &ClusterDescription,
    now: Timestamp,
    all: bool,
    width: Option<usize>,
) -> String {
    let mut table = Table::new([
        "NAME",
        "VERSION",
        "REPLICAS",
        "READY",
        "AVAILABLE",
        "UP TO DATE",
        "STATUS",
        "REASON",
        "SINCE",
        "MESSAGE",
    ]);
    let mut rows = Rows { now, all, table: &mut table };
    rows.add(&described.tree, "", "");
    let mut text = table.render_within(width, &EXPENDABLE);
    if let Some(upgrade) = &described.upgrade {
        text.push_str(&steps(upgrade, &described.progress, width));
    }
    text.push_str(&updates::render(&described.updates, now));
    if !described.pending_hooks.is_empty() {
        text.push_str(&format!(
            "\n{HEAD}Hooks to be called:{HEAD:#} {}\n",
            printable(&described.pending_hooks.join(", "))
        ));
    }
    for note in &described.notes {
        text.push_str(&format!("\nNote: {}\n", printable(note)));
    }
    match &described.waiting_on {
        None => text.push_str("\nWaiting on nothing.\n"),
        Some(waiting) => {
            let (wait, since) = (&waiting.wait, age(waiting.wait.since.0, now));
            let what = wait.to_string();
            let line = format!("Waiting on {} (for {since})", printable(&what));
            text.push_str(&format!("\n{WAITING}{}{WAITING:#}\n", wrapped(&line, width, "  ")));
            if !wait.handlers.is_empty() {
                let handlers = wait.handlers.join(", ");
                text.push_str(&format!("  {DIM}asked for by {}{DIM:#}\n", printable(&handlers)));
            }
            if let Some(seconds) = wait.retry_after_seconds {
                text.push_str(&format!("  {DIM}tried again every {seconds} s{DIM:#}\n"));
            }
            for line in &waiting.evidence {
                let line = wrapped(&format!("  {}", printable(line)), width, "    ");
                text.push_str(&format!("{DIM}{line}{DIM:#}\n"));
            }
            if let Some(command) = &waiting.command {
                text.push_str(&format!("\nTo let it go on: {}\n", printable(command)));
            }
        }
    }
    text
}

struct Rows<'a> {
    now: Timestamp,
    all: bool,
    table: &'a mut Table<10>,
}

impl Rows<'_> {
    /// Adds an object and what is below it. `first` stands before its own line, `rest` before those below it.
    fn add(&mut self, object: &ObjectDescription, first: &str, rest: &str) {
        self.row(format!("{first}{}", title(object)), object);
        let groups = if self.all { each(&object.objects) } else { alike(&object.objects) };
        let last = groups.len().saturating_sub(1);
        for (index, group) in groups.iter().enumerate() {
            let (branch, below) = if index == last { ("└─", "  ") } else { ("├─", "│ ") };
            let (first, rest) = (format!("{rest}{branch}"), format!("{rest}{below}"));
            match group.as_slice() {
                [one] => self.add(one, &first, &rest),
                many => self.row_of_many(&first, many),
            }
        }
    }

    fn row(&mut self, name: String, object: &ObjectDescription) {
        let count = |count: Option<String>| (count.unwrap_or_default(), Style::new());
        let replicas = object.replicas;
        let condition = object.condition.as_ref();
        let style = condition.map_or(Style::new(), status_style);
        let status = condition.map(|found| format!("{}: {}", found.type_, found.status)).unwrap_or_default();
        let status = if object.deleting { ("Deleting".to_owned(), BUSY) } else { (status, style) };
        let unmet = condition.filter(|found| found.status != "True");
        let message = unmet.and_then(|found| found.message.lines().next()).unwrap_or_default();
        let since = condition.and_then(|found| found.since.as_ref()).map(|since| age(since.0, self.now));
        self.table.row([
            (name, Style::new()),
            (version(object), Style::new()),
            count(replicas.map(|found| format!("{}/{}", found.current, found.desired))),
            count(replicas.map(|found| found.ready.to_string())),
            count(replicas.map(|found| found.available.to_string())),
            count(replicas.map(|found| found.up_to_date.to_string())),
            status,
            (condition.map(|found| found.reason.clone()).unwrap_or_default(), Style::new()),
            (since.unwrap_or_default(), DIM),
            (message.trim_start_matches("* ").to_owned(), DIM),
        ]);
    }

    fn row_of_many(&mut self, first: &str, many: &[&ObjectDescription]) {
        let names: Vec<&str> = many.iter().map(|object| object.name.as_str()).collect();
        let shown = match names.as_slice() {
            [a, b, ..] => format!("{a}, {b}, ..."),
            few => few.join(", "),
        };
        if let Some(one) = many.first() {
            let mut summary = (*one).clone();
            if let Some(condition) = &mut summary.condition {
                condition.since = None;
            }
            self.row(format!("{first}{} {}s: {shown}", many.len(), one.kind), &summary);
        }
    }
}

fn version(object: &ObjectDescription) -> String {
    let version = object.version.clone().unwrap_or_default();
    if object.pinned.is_some() { format!("{version} (pinned)") } else { version }
}

fn title(object: &ObjectDescription) -> String {
    let own = if object.name.is_empty() { String::new() } else { format!("{}/{}", object.kind, object.name) };
    match object.role {
        None => own,
        Some(role) if own.is_empty() => role.to_owned(),
        Some(role) => format!("{role} - {own}"),
    }
}

fn each(objects: &[ObjectDescription]) -> Vec<Vec<&ObjectDescription>> {
    objects.iter().map(|object| vec![object]).collect()
}

/// Machines that are ready and have the same version are together, if there are many.
fn alike(objects: &[ObjectDescription]) -> Vec<Vec<&ObjectDescription>> {
    let is_fine = |object: &ObjectDescription| {
        let met = object.condition.as_ref().is_some_and(|found| found.status == "True");
        object.kind == "Machine" && met && !object.deleting
    };
    let mut groups: Vec<Vec<&ObjectDescription>> = Vec::new();
    for object in objects {
        let same = |other: &ObjectDescription| is_fine(other) && other.version == object.version;
        let group =
            groups.iter_mut().find(|group| is_fine(object) && group.first().is_some_and(|first| same(first)));
        match group {
            Some(group) => group.push(object),
            None => groups.push(vec![object]),
        }
    }
    let few = |group: &Vec<&ObjectDescription>| group.len() < ALIKE;
    groups
        .into_iter()
        .flat_map(
            |group| if few(&group) { group.into_iter().map(|one| vec![one]).collect() } else { vec![group] },
        )
        .collect()
}

fn status_style(condition: &ConditionDescription) -> Style {
    match condition.status.as_str() {
        "True" => GOOD,
        "False" => BAD,
        _ => BUSY,
    }
}

fn steps(upgrade: &UpgradeDescription, progress: &Progress, width: Option<usize>) -> String {
    let from = upgrade.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
    let title = format!("Upgrade{from} to {}", upgrade.to);
    let mut text = format!("\n{HEAD}{}{HEAD:#}\n", printable(&title));
    for step in &upgrade.steps {
        let (word, style) = match step.state {
            StepState::Done => ("done", GOOD),
            StepState::Running => ("running", BUSY),
            StepState::ToCome => ("to come", DIM),
        };
        let count = match (step.machines_done, step.machines) {
            (Some(done), Some(all)) => format!(", {done} of {all} machines"),
            _ => String::new(),
        };
        let what = format!("{} to {}{count}{}", step.part, step.version, timing(step));
        // The word and the spaces around it are eleven cells.
        let what = wrapped(&printable(&what), width.map(|width| width.saturating_sub(11)), "           ");
        text.push_str(&format!("  {style}{word:<8}{style:#} {what}\n"));
    }
    let style = verdict_style(progress.verdict);
    let line = wrapped(&summary(progress), width.map(|width| width.saturating_sub(2)), "    ");
    text.push_str(&format!("  {style}{line}{style:#}\n"));
    text
}

pub(crate) fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::UpToDate | Verdict::Progressing => GOOD,
        Verdict::Waiting => BUSY,
        Verdict::Stalled => BAD,
    }
}

/// How long a step has taken, and how much longer it takes.
fn timing(step: &StepDescription) -> String {
    let left = step.left.map(|left| span(left.p50_seconds));
    match (step.state, step.elapsed_seconds.map(span), left) {
        (StepState::Done, Some(took), _) => format!(", took {took}"),
        (StepState::Running, Some(so_far), Some(left)) => format!(", for {so_far}, {left} left"),
        (StepState::Running, Some(so_far), None) => format!(", for {so_far}"),
        (StepState::Running, None, Some(left)) => format!(", {left} left"),
        (StepState::ToCome, _, Some(left)) => format!(", about {left}"),
        _ => String::new(),
    }
}

/// How far an upgrade is, in a line.
fn summary(progress: &Progress) -> String {
    let mut text = format!("{}: step {} of {}", progress.verdict, progress.step, progress.steps);
    text.push_str(&format!(", {} of {} machines", progress.machines_done, progress.machines));
    if let Some(elapsed) = progress.elapsed_seconds {
        text.push_str(&format!(", {} so far", span(elapsed)));
    }
    if let Some(left) = progress.left {
        let told = if progress.samples == 0 { ", assumed" } else { "" };
        let (p50, p95) = (span(left.p50_seconds), span(left.p95_seconds));
        text.push_str(&format!(", {p50} left (P95 {p95}{told})"));
    }
    text.push_str(&format!(", worst skew {}", progress.worst_skew));
    text
}

/// So many seconds, as people say it.
pub(crate) fn span(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let end = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    age(Timestamp::UNIX_EPOCH, end)
}

/// How long ago something was, in its largest unit, and the next below it while that is small.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, 1..10) => format!("{minutes}m{}s", seconds % 60),
        (0, 0, _) => format!("{minutes}m"),
        (0, 1..10, _) => format!("{hours}h{}m", minutes % 60),
        (0, _, _) => format!("{hours}h"),
        (1..10, _, _) => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_engine::describe::Described;

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn condition(type_: &str, status: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": "Reason", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    fn described(workers: usize) -> ClusterDescription {
        let labels = json!({"group": "web"});
        let machine = |name: String, labels: &Value, status: &str| -> windlass_api::cluster::Machine {
            read(json!({"metadata": {"name": name, "labels": labels},
                "spec": {"clusterName": "c1", "version": "v1.32.0"},
                "status": {"nodeInfo": {"kubeletVersion": "v1.32.0"},
                    "conditions": [condition("Ready", status, "* waits for its Node\nmore")]}}))
        };
        let mut machines =
            vec![machine("c1-cp-a".to_owned(), &json!({"cluster.x-k8s.io/control-plane": ""}), "False")];
        machines.extend((0..workers).map(|number| machine(format!("c1-web-{number}"), &labels, "True")));
        let cluster = read(json!({"metadata": {"name": "c1", "namespace": "ns", "annotations":
                {"runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade"}},
            "spec": {"topology": {"version": "v1.33.0"},
                "controlPlaneRef": {"apiGroup": "g", "kind": "KubeadmControlPlane", "name": "c1-cp"}},
            "status": {"controlPlane": {"upgradePlan": [{"version": "v1.33.0"}]},
                "conditions": [condition("TopologyReconciled", "False", "Upgrading\n  * The upgrade waits for X: y")]}}));
        let group = read(json!({"metadata": {"name": "c1-web"},
            "spec": {"clusterName": "c1", "replicas": 2, "selector": {"matchLabels": labels},
                "template": {"spec": {"version": "v1.32.0"}}},
            "status": {"replicas": 2, "readyReplicas": 2, "availableReplicas": 1, "upToDateReplicas": 2,
                "conditions": [condition("Available", "True", "")]}}));
        let control_plane = json!({"spec": {"version": "v1.32.0", "replicas": 1}});
        let objects = Described {
            cluster: &cluster,
            infrastructure: None,
            control_plane: Some(&control_plane),
            machine_deployments: &[group],
            machine_pools: &[],
            machines: &machines,
            version_changes: &[],
        };
        ClusterDescription::of(objects, NOW)
    }

    fn plain(text: &str) -> String {
        let lines = anstream::adapter::strip_str(text).to_string();
        lines.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn what_objects_and_extensions_say_does_nothing_to_a_terminal() {
        // Clears the screen, colours, rings, turns text around, and begins a line that looks like ours.
        let hostile = "x\u{1b}[2J\u{1b}[31m\u{7}\u{202e}\u{9b}\r\nWaiting on nothing.";
        let condition = |type_: &str| {
            json!({"type": type_, "status": hostile, "reason": hostile, "message": hostile,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let wait = json!({"reason": hostile, "what": hostile, "hook": hostile, "since": "2026-01-01T00:00:00Z",
            "handlers": [hostile], "retryAfterSeconds": 5});
        let cluster = read(json!({"metadata": {"name": hostile, "namespace": "ns", "annotations":
                {"runtime.cluster.x-k8s.io/pending-hooks": hostile, "upgrade.windlass.dev/waiting-on": wait.to_string()}},
            "spec": {"topology": {"version": hostile},
                "controlPlaneRef": {"apiGroup": "g", "kind": hostile, "name": hostile}},
            "status": {"controlPlane": {"upgradePlan": [{"version": hostile}]},
                "conditions": [condition("TopologyReconciled")]}}));
        let machine: windlass_api::cluster::Machine = read(json!({
            "metadata": {"name": hostile, "labels": {"cluster.x-k8s.io/control-plane": ""}, "annotations":
                {"in-place-updates.internal.cluster.x-k8s.io/extensions": hostile}},
            "spec": {"clusterName": "c1", "version": hostile},
            "status": {"conditions": [condition("Ready"),
                json!({"type": "Updating", "status": "True", "reason": hostile, "message": hostile,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})]}}));
        let control_plane = json!({"spec": {"version": hostile, "replicas": 1}, "status": {"conditions": [
            condition("Available"), condition("CanUpdateInPlace"), condition("ExternalUpdate")]}});
        let objects = Described {
            cluster: &cluster,
            infrastructure: None,
            control_plane: Some(&control_plane),
            machine_deployments: &[],
            machine_pools: &[],
            machines: &[machine],
            version_changes: &[],
        };
        let described = ClusterDescription::of(objects, NOW);
        let text = render(&described, NOW, true, None);
        let unstyled = [HEAD, DIM, GOOD, BAD, BUSY, WAITING].iter().fold(text.clone(), |text, style| {
            text.replace(&style.render().to_string(), "").replace(&style.render_reset().to_string(), "")
        });
        assert!(unstyled.contains(r"x\u{1b}[2J\u{1b}[31m\u{7}\u{202e}\u{9b}"), "{unstyled}");
        assert!(!unstyled.contains(|c| c != '\n' && windlass_api::is_unprintable(c)), "{unstyled:?}");
        assert!(!unstyled.lines().any(|line| line == "Waiting on nothing."), "{unstyled}");
    }

    const NOW: Timestamp = Timestamp::constant(1_767_225_600 + 3 * 60 + 5, 0);

    #[test]
    fn a_tree_with_what_comes_next_and_what_is_waited_on() {
        let expected = "\
NAME                                    VERSION  REPLICAS  READY  AVAILABLE  UP TO DATE  STATUS           REASON  SINCE  MESSAGE
Cluster/c1                              v1.33.0
├─ControlPlane - KubeadmControlPlane/c1-cp  v1.32.0  0/1       0      0          0
";
        let text = plain(&render(&described(2), NOW, false, None));
        let squeezed = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(squeezed(&text)[..3], squeezed(expected)[..3]);
        assert_eq!(
            squeezed(&text)[3..],
            [
                "│ └─Machine/c1-cp-a v1.32.0 Ready: False Reason 3m5s waits for its Node",
                "└─Workers",
                "└─MachineDeployment/c1-web v1.32.0 2/2 2 1 2 Available: True Reason 3m5s",
                "├─Machine/c1-web-0 v1.32.0 Ready: True Reason 3m5s",
                "└─Machine/c1-web-1 v1.32.0 Ready: True Reason 3m5s",
                "",
                "Upgrade to v1.33.0",
                "done control plane to v1.32.0",
                "done MachineDeployment c1-web to v1.32.0",
                "to come control plane to v1.33.0, about 5m0s",
                "waiting: step 3 of 3, 0 of 3 machines, 3m5s so far, 5m0s left (P95 20m, assumed), worst skew 0",
                "",
                "Hooks to be called: AfterClusterUpgrade",
                "",
                "Waiting on X: y (for 3m5s)",
                "condition TopologyReconciled of the Cluster is False: Reason",
                "Machine c1-cp-a at v1.32.0 is not ready: waits for its Node",
            ]
        );
        let columns: Vec<usize> = text.lines().take(3).map(|line| line.chars().count()).collect();
        assert!(columns[0] >= columns[1], "cells stand below their heads");
    }

    #[test]
    fn a_description_fits_a_narrow_terminal() {
        let text = plain(&render(&described(30), NOW, false, Some(80)));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(text.contains("Machine c1-cp-a at v1.32.0 is not ready: waits for its Node"), "{text}");
    }

    #[test]
    fn many_machines_that_are_alike_are_one_line() {
        let text = plain(&render(&described(30), NOW, false, None));
        assert!(text.contains("└─30 Machines: c1-web-0, c1-web-1, ..."), "{text}");
        assert!(plain(&render(&described(30), NOW, true, None)).contains("Machine/c1-web-29"));
    }

    #[test]
    fn ages_are_short() {
        for (seconds, shown) in [
            (5, "5s"),
            (65, "1m5s"),
            (700, "11m"),
            (3_700, "1h1m"),
            (50_000, "13h"),
            (100_000, "1d3h"),
            (9_000_000, "104d"),
            (-5, "0s"),
        ] {
            let since = Timestamp::constant(1_767_225_600, 0);
            let now = Timestamp::from_second(since.as_second() + seconds).unwrap();
            assert_eq!(age(since, now), shown);
        }
    }
}
