//! Where a value stands in a document, without the text of it.

use std::fmt;

/// The way to a value. Becomes text only when there is something to report.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// The document itself.
    Root,
    /// A field of an object.
    Field(&'a Place<'a>, &'a str),
    /// An element of a list.
    Item(&'a Place<'a>, usize),
}

/// As the API server writes it: `spec.ports[0].name`.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(above, name) => write!(f, "{above}.{name}"),
            Self::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}
