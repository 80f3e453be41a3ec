//! A plan for people.

use super::title;
use crate::table::{HEAD, Table};
use anstyle::{AnsiColor, Style};
use windlass_plan::{Step, UpgradeHook, UpgradePlan};
use windlass_version::MAX_KUBELET_MINORS_BEHIND;

const DIM: Style = Style::new().dimmed();
const CONTROL_PLANE: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));
const WORKERS: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
const LIMIT: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));

/// Renders a plan: the operations, the groups, the hooks, and what to type next.
pub(crate) fn render(plan: &UpgradePlan) -> String {
    if plan.operations.is_empty() {
        let next = plan.to.minor().next();
        return format!(
            "Nothing to do: everything is at {}.\n\n{HEAD}Next:{HEAD:#} windlass plan --from {} --to {next}.0\n",
            plan.to, plan.to
        );
    }
    [headline(plan), operations(plan), groups(plan), hooks(plan), next_command(plan)].concat()
}

/// Renders the operations and the groups of a plan for a Cluster that is there.
pub(crate) fn render_steps(plan: &UpgradePlan) -> String {
    if plan.operations.is_empty() {
        return format!("Nothing to do: everything is at {}.\n", plan.to);
    }
    [headline(plan), operations(plan), groups(plan)].concat()
}

fn headline(plan: &UpgradePlan) -> String {
    let rollouts = plan.operations.iter().filter(|operation| operation.step.group().is_some()).count();
    let count = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    format!(
        "{HEAD}Upgrade {} -> {}{HEAD:#}: {}, {}, worst skew {} ({})\n\n",
        plan.from,
        plan.to,
        count(plan.operations.len(), "operation"),
        count(rollouts, "worker rollout"),
        plan.worst_skew,
        plan.source
    )
}

fn operations(plan: &UpgradePlan) -> String {
    let mut table = Table::new(["#", "OPERATION", "FROM", "TO", "SKEW", "WHY"]);
    for (index, operation) in plan.operations.iter().enumerate() {
        let style = match &operation.step {
            Step::ControlPlane { .. } => CONTROL_PLANE,
            Step::Workers { .. } => WORKERS,
        };
        let skew = if operation.skew == MAX_KUBELET_MINORS_BEHIND { LIMIT } else { Style::new() };
        table.row([
            (format!("{}", index + 1), DIM),
            (title(&operation.step), style),
            (operation.step.from().to_string(), Style::new()),
            (operation.step.to().to_string(), style),
            (operation.skew.to_string(), skew),
            (operation.reason.to_string(), DIM),
        ]);
    }
    table.render()
}

fn groups(plan: &UpgradePlan) -> String {
    if plan.workers.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["WORKERS", "AT", "STOPS AT", "SKIPS"]);
    let list = |versions: Vec<String>| if versions.is_empty() { "-".to_owned() } else { versions.join(", ") };
    for (row, start) in plan.workers.iter().zip(&plan.workers_from) {
        table.row([
            (row.group.to_string(), WORKERS),
            (
                if start.pinned { format!("{} (pinned)", start.version) } else { start.version.to_string() },
                Style::new(),
            ),
            (list(row.stops.iter().map(ToString::to_string).collect()), Style::new()),
            (list(plan.skipped_by(row).iter().map(ToString::to_string).collect()), DIM),
        ]);
    }
    format!("\n{}", table.render())
}

fn hooks(plan: &UpgradePlan) -> String {
    let mut table = Table::new(["HOOK", "AROUND"]);
    for hook in UpgradeHook::ALL {
        let around: Vec<String> = plan
            .operations
            .iter()
            .enumerate()
            .filter(|(_, operation)| operation.hooks.contains(&hook))
            .map(|(index, _)| format!("#{}", index + 1))
            .collect();
        if !around.is_empty() {
            table.row([(hook.to_string(), Style::new()), (around.join(" "), DIM)]);
        }
    }
    format!("\n{}", table.render())
}

fn next_command(plan: &UpgradePlan) -> String {
    format!(
        "\n{HEAD}Next:{HEAD:#} kubectl patch cluster NAME --type merge -p \
         '{{\"spec\":{{\"topology\":{{\"version\":\"{}\"}}}}}}'\n",
        plan.to
    )
}
