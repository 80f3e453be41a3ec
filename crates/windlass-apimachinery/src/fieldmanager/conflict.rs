//! Conflicts: fields of other field managers that an apply would change.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::managed::{Manager, Operation, Timestamp};
use super::path::{self, Path};
use crate::cause::quote;

/// One field that an apply would change although another field manager owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it.
    pub manager: Manager,
    /// Since when.
    pub time: Option<Timestamp>,
    /// The field.
    pub path: Path,
}

impl Conflict {
    /// The field as the API names it: `.spec.color`.
    pub fn field(&self) -> String {
        path::display(&self.path)
    }

    /// Who owns it, as the API names them. Of those who do not apply it says more, because there is
    /// more to find out about them.
    fn owner(&self) -> String {
        let Manager { name, operation, api_version, subresource } = &self.manager;
        let mut owner = quote(name);
        if !subresource.is_empty() {
            owner = format!("{owner} with subresource {}", quote(subresource));
        }
        match (operation, self.time) {
            (Operation::Apply, _) => owner,
            (Operation::Update, None) => format!("{owner} using {api_version}"),
            (Operation::Update, Some(time)) => format!("{owner} using {api_version} at {time}"),
        }
    }
}

/// All conflicts of an apply, by manager. `Display` is the message of the 409 that answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    /// `details.causes` of the `Status`.
    pub fn causes(&self) -> Vec<Value> {
        let cause = |conflict: &Conflict| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {}", conflict.owner()),
                "field": conflict.field(),
            })
        };
        self.0.iter().map(cause).collect()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(
                f,
                "Apply failed with 1 conflict: conflict with {}: {}",
                only.owner(),
                only.field()
            );
        }
        let mut by_manager: BTreeMap<&Manager, Vec<&Conflict>> = BTreeMap::new();
        self.0.iter().for_each(|conflict| by_manager.entry(&conflict.manager).or_default().push(conflict));
        let mut lines = Vec::new();
        for conflicts in by_manager.values() {
            let owner = conflicts.first().map(|first| first.owner()).unwrap_or_default();
            lines.push(format!("conflicts with {owner}:"));
            lines.extend(conflicts.iter().map(|conflict| format!("- {}", conflict.field())));
        }
        write!(f, "Apply failed with {} conflicts: {}", self.0.len(), lines.join("\n"))
    }
}

impl std::error::Error for Conflicts {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fieldmanager::path::PathElement;

    fn conflict(manager: Manager, time: Option<i64>, field: &str) -> Conflict {
        let path = vec![PathElement::field("spec"), PathElement::field(field)];
        Conflict { manager, time: time.map(Timestamp::from_unix_seconds), path }
    }

    #[test]
    fn one_conflict_is_one_line() {
        let conflicts = Conflicts(vec![conflict(Manager::applier("m1", ""), Some(0), "color")]);
        assert_eq!(conflicts.to_string(), "Apply failed with 1 conflict: conflict with \"m1\": .spec.color");
        let cause = json!({
            "reason": "FieldManagerConflict", "message": "conflict with \"m1\"", "field": ".spec.color",
        });
        assert_eq!(conflicts.causes(), [cause]);
    }

    #[test]
    fn several_conflicts_are_grouped_by_manager() {
        let updater = Manager::updater("curl", "demo.test/v1", "");
        let status = Manager::applier("m2", "status");
        let conflicts = Conflicts(vec![
            conflict(updater.clone(), Some(0), "color"),
            conflict(updater, Some(0), "size"),
            conflict(status, None, "x"),
        ]);
        let text = "Apply failed with 3 conflicts: conflicts with \"curl\" using demo.test/v1 at \
                    1970-01-01T00:00:00Z:\n- .spec.color\n- .spec.size\nconflicts with \"m2\" with subresource \
                    \"status\":\n- .spec.x";
        assert_eq!(conflicts.to_string(), text);
    }
}
