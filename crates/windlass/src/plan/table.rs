//! A plan for people.

use super::title;
use anstyle::{AnsiColor, Style};
use windlass_plan::{Step, UpgradeHook, UpgradePlan};
use windlass_version::MAX_KUBELET_MINORS_BEHIND;

const HEAD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const CONTROL_PLANE: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));
const WORKERS: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
const LIMIT: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));

/// Renders a plan: the operations, the groups, the hooks, and what to type next.
pub(super) fn render(plan: &UpgradePlan) -> String {
    if plan.operations.is_empty() {
        let next = plan.to.minor().next();
        return format!(
            "Nothing to do: everything is at {}.\n\n{HEAD}Next:{HEAD:#} windlass plan --from {} --to {next}.0\n",
            plan.to, plan.to
        );
    }
    [headline(plan), operations(plan), groups(plan), hooks(plan), next_command(plan)].concat()
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
            (start.version.to_string(), Style::new()),
            (list(row.stops.iter().map(ToString::to_string).collect()), Style::new()),
            (list(plan.skipped_by(row).iter().map(ToString::to_string).collect()), DIM),
        ]);
    }
    format!("\n{}", table.render())
}

fn hooks(plan: &UpgradePlan) -> String {
    use UpgradeHook::*;
    let mut table = Table::new(["HOOK", "AROUND"]);
    for hook in [
        BeforeClusterUpgrade,
        BeforeControlPlaneUpgrade,
        AfterControlPlaneUpgrade,
        BeforeWorkersUpgrade,
        AfterWorkersUpgrade,
        AfterClusterUpgrade,
    ] {
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

/// Columns as wide as their widest cell, two spaces apart.
struct Table<const COLUMNS: usize> {
    head: [&'static str; COLUMNS],
    rows: Vec<[(String, Style); COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    fn new(head: [&'static str; COLUMNS]) -> Self {
        Self { head, rows: Vec::new() }
    }

    fn row(&mut self, row: [(String, Style); COLUMNS]) {
        self.rows.push(row);
    }

    fn render(&self) -> String {
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            let cells = self.rows.iter().map(|row| row[column].0.chars().count());
            cells.chain([self.head[column].len()]).max().unwrap_or(0)
        });
        let mut text = String::new();
        let mut line = |cells: [(&str, Style); COLUMNS]| {
            for (column, (cell, style)) in cells.into_iter().enumerate() {
                let separator = if column == 0 { "" } else { "  " };
                // The last column is not padded: trailing spaces wrap lines on narrow terminals.
                let padding = if column + 1 == COLUMNS { 0 } else { widths[column] - cell.chars().count() };
                text.push_str(&format!("{separator}{style}{cell}{style:#}{:padding$}", ""));
            }
            text.push('\n');
        };
        line(self.head.map(|head| (head, HEAD)));
        for row in &self.rows {
            line(std::array::from_fn(|column| (row[column].0.as_str(), row[column].1)));
        }
        text
    }
}
