//! What came of asking.

use std::collections::BTreeMap;
use std::fmt;

use windlass_api::RegisteredName;

use super::{Effect, Field};

/// Per field, which extension updates it in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The fields that are to change, in order.
    pub fields: Vec<FieldVerdict>,
    /// The handlers that were asked, in order, and answered.
    pub asked: Vec<RegisteredName>,
    /// The handlers that were not reached; their failure policy says not to mind.
    pub not_reached: Vec<RegisteredName>,
    /// What the updates of those that answered do to a machine.
    pub effects: BTreeMap<RegisteredName, Effect>,
    /// What was claimed and does not count.
    pub dropped: Vec<Dropped>,
}

/// A change that an answer claims where no extension can change anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Who answered.
    pub handler: RegisteredName,
    /// What the answer would change.
    pub field: Field,
    /// Where changes count.
    pub counts: &'static str,
}

/// Which extension updates a field in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldVerdict {
    /// The field.
    pub field: Field,
    /// The handler that covers it, if one does.
    pub by: Option<RegisteredName>,
}

impl Verdict {
    /// Whether all of the change can be made in place.
    pub fn is_covered(&self) -> bool {
        self.fields.iter().all(|field| field.by.is_some())
    }

    /// The fields that no extension updates in place.
    pub fn open(&self) -> Vec<String> {
        let open = self.fields.iter().filter(|field| field.by.is_none());
        open.map(|field| field.field.to_string()).collect()
    }

    /// The handlers that cover something, in the order in which they were asked.
    pub fn covering(&self) -> impl Iterator<Item = &RegisteredName> {
        let covers =
            |handler: &&RegisteredName| self.fields.iter().any(|field| field.by.as_ref() == Some(*handler));
        self.asked.iter().filter(covers)
    }

    /// What the update does to a machine: what the extensions that cover something say together.
    pub fn effect(&self) -> Effect {
        let said = self.covering().map(|handler| self.effects.get(handler).cloned().unwrap_or_default());
        said.reduce(|all, effect| all.and(&effect)).unwrap_or_default()
    }

    /// What people should know besides the fields, a line each.
    pub fn notes(&self) -> Vec<String> {
        let dropped = self.dropped.iter().map(ToString::to_string);
        let not_reached = self.not_reached.iter();
        let not_reached =
            not_reached.map(|handler| format!("{handler} was not reached, which its failure policy ignores"));
        dropped.chain(not_reached).collect()
    }

    /// The extensions that update something, in the order in which they do.
    pub fn extensions(&self) -> Vec<String> {
        let mut extensions: Vec<String> = Vec::new();
        for handler in self.covering() {
            let extension = handler.extension_config().to_owned();
            if !extensions.contains(&extension) {
                extensions.push(extension);
            }
        }
        extensions
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        for FieldVerdict { field, by } in &self.fields {
            lines.push(match by {
                Some(handler) => format!("* {field}: {handler}"),
                None => format!("* {field}: no extension"),
            });
        }
        for handler in self.covering() {
            match self.effects.get(handler) {
                Some(effect) if *effect != Effect::default() => lines.push(format!("* {handler} {effect}")),
                _ => {}
            }
        }
        lines.extend(self.notes().into_iter().map(|note| format!("* {note}")));
        f.write_str(&lines.join("\n"))
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { handler, field, counts } = self;
        write!(f, "{field}: {handler} changes it, which is dropped, only {counts} counts")
    }
}
