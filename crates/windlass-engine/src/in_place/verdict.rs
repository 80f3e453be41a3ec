//! What came of asking.

use std::fmt;

use windlass_api::RegisteredName;

use super::Field;

/// Per field, which extension updates it in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The fields that are to change, in order.
    pub fields: Vec<FieldVerdict>,
    /// The handlers that were asked, in order, and answered.
    pub asked: Vec<RegisteredName>,
    /// The handlers that were not reached; their failure policy says not to mind.
    pub not_reached: Vec<RegisteredName>,
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

    /// The extensions that update something, in the order in which they do.
    pub fn extensions(&self) -> Vec<String> {
        let mut extensions: Vec<String> = Vec::new();
        for handler in &self.asked {
            let covers = self.fields.iter().any(|field| field.by.as_ref() == Some(handler));
            let extension = handler.extension_config().to_owned();
            if covers && !extensions.contains(&extension) {
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
        for handler in &self.not_reached {
            lines.push(format!("* {handler} was not reached, which its failure policy ignores"));
        }
        f.write_str(&lines.join("\n"))
    }
}
