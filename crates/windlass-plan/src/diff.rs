//! What changes from one plan to another.

use std::fmt;

use serde::Serialize;

use crate::document::{OperationDocument, OperationKind, PlanDocument};

/// The difference between two plans: their ends and skew, and the operations side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanDiff {
    /// Whether both were computed from the same input.
    pub same_input: bool,
    /// Fields that differ, as `field: before -> after`.
    pub fields: Vec<String>,
    /// All operations of both plans, in order.
    pub operations: Vec<Change>,
}

/// One operation in a [`PlanDiff`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", content = "operation", rename_all = "camelCase")]
pub enum Change {
    /// In both plans.
    Kept(OperationDocument),
    /// Only in the first.
    Removed(OperationDocument),
    /// Only in the second.
    Added(OperationDocument),
}

impl PlanDiff {
    /// Compares two plans. Operations are matched by what they do, not by their place, so a step that
    /// moves because another one is inserted before it does not count as a change.
    pub fn between(before: &PlanDocument, after: &PlanDocument) -> Self {
        Self {
            same_input: before.input_hash == after.input_hash,
            fields: changed_fields(before, after),
            operations: align(&before.operations, &after.operations),
        }
    }

    /// Whether the plans do the same.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.operations.iter().all(|change| matches!(change, Change::Kept(_)))
    }
}

fn changed_fields(before: &PlanDocument, after: &PlanDocument) -> Vec<String> {
    let mut fields = Vec::new();
    let mut compare = |name: &str, before: String, after: String| {
        if before != after {
            fields.push(format!("{name}: {before} -> {after}"));
        }
    };
    compare("from", before.from.to_string(), after.from.to_string());
    compare("to", before.to.to_string(), after.to.to_string());
    compare("source", before.source.to_string(), after.source.to_string());
    compare("controlPlane", list(&before.control_plane), list(&after.control_plane));
    compare("worstSkew", before.worst_skew.to_string(), after.worst_skew.to_string());
    let groups = before.workers.iter().chain(&after.workers).map(|(group, _)| group);
    let mut seen = Vec::new();
    for group in groups {
        if seen.contains(&group) {
            continue;
        }
        seen.push(group);
        let row = |plan: &PlanDocument| {
            plan.workers
                .iter()
                .find(|(name, _)| name == group)
                .map_or("none".to_owned(), |(_, row)| list(row))
        };
        compare(&format!("workers.{group}"), row(before), row(after));
        let start = |plan: &PlanDocument| {
            let found = plan.workers_from.iter().find(|(name, _)| name == group);
            found.map_or("none".to_owned(), |(_, version)| version.to_string())
        };
        compare(&format!("workersFrom.{group}"), start(before), start(after));
    }
    fields
}

fn list(versions: &[impl fmt::Display]) -> String {
    let items: Vec<String> = versions.iter().map(ToString::to_string).collect();
    format!("[{}]", items.join(", "))
}

/// Longest common subsequence; plans have at most some hundred operations.
fn align(before: &[OperationDocument], after: &[OperationDocument]) -> Vec<Change> {
    let (rows, columns) = (before.len(), after.len());
    let mut common = vec![vec![0_usize; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            common[row][column] = if same_step(&before[row], &after[column]) {
                common[row + 1][column + 1] + 1
            } else {
                common[row + 1][column].max(common[row][column + 1])
            };
        }
    }
    let mut changes = Vec::with_capacity(rows.max(columns));
    let (mut row, mut column) = (0, 0);
    while row < rows || column < columns {
        if row < rows && column < columns && same_step(&before[row], &after[column]) {
            changes.push(Change::Kept(after[column].clone()));
            row += 1;
            column += 1;
        } else if column == columns || (row < rows && common[row + 1][column] >= common[row][column + 1]) {
            changes.push(Change::Removed(before[row].clone()));
            row += 1;
        } else {
            changes.push(Change::Added(after[column].clone()));
            column += 1;
        }
    }
    changes
}

fn same_step(a: &OperationDocument, b: &OperationDocument) -> bool {
    (a.kind, &a.group, &a.from, &a.to) == (b.kind, &b.group, &b.from, &b.to)
}

impl fmt::Display for OperationDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, &self.group) {
            (OperationKind::Workers, Some(group)) => write!(f, "workers {group}")?,
            (OperationKind::Workers, None) => f.write_str("workers")?,
            (OperationKind::ControlPlane, _) => f.write_str("control plane")?,
        }
        write!(f, " {} -> {}", self.from, self.to)
    }
}
