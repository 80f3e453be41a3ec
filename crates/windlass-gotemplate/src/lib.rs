//! Go templates as Cluster API renders them in ClusterClasses: all actions of Go's `text/template`, its functions, and
//! the functions of Sprig that depend on nothing but their arguments.
//!
//! ```
//! use serde_json::json;
//! use windlass_gotemplate::{MissingKey, Template};
//!
//! let template = Template::parse("{{ range .zones }}{{ . | upper }} {{ end }}")?;
//! assert_eq!(template.render(&json!({"zones": ["a", "b"]}), MissingKey::NoValue)?, "A B ");
//! assert!(Template::parse("{{ now }}").is_err());
//! # Ok::<(), windlass_gotemplate::TemplateError>(())
//! ```
//!
//! It differs from Go and Sprig in this, and in nothing else that is known; `tests/cases.json` has what Go does beside
//! what happens here:
//!
//! - Whole numbers of documents are printed in full (Go prints `1000000` as `1e+06`). They are float64, as in Go, and
//!   may also stand where an integer is needed, and be compared with integers.
//! - Maps are walked in the order of their keys everywhere, also by `keys` and `values`.
//! - Functions that depend on the clock, chance, the environment or the network do not exist: [`refused_functions`].
//!   `toYaml` does, upstream it does not.
//! - A call of a template that nothing defines, or of a function with a wrong number of arguments, is found when the
//!   template is read; Go finds it when it gets there.
//! - Strings are UTF-8. Where Go would cut through a character or decode other bytes, there is an error. `initials` and
//!   `nospace` know characters that are not ASCII.
//! - `b64dec`, `b32dec`, `derivePassword` and `toJson` fail where they would return a message or nothing. What
//!   `buildCustomCert` returns is a map, and of the key only the form is checked.
//! - `sortAlpha` does not change the list that it is given.
//! - There are no complex numbers, `printf` writes floats neither with `%b` nor `%x`, times have the methods `Year`,
//!   `YearDay`, `Day`, `Hour`, `Minute`, `Second`, `Unix`, `Format` and `String` only, and read no names of time zones but
//!   UTC. In regular expressions, `\B` knows letters that are not ASCII.
//! - A rendering is bounded: 1 MiB of output and of each string, 4194304 steps, and 100 levels of blocks, templates and
//!   values.

mod dates;
mod decimal;
mod eval;
mod functions;
mod json;
mod lex;
mod methods;
mod parse;
mod pem;
mod print;
mod printf;
mod private_key;
mod re2;
mod semver;
mod value;

use serde_json::Value;

/// What a missing key of a map comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingKey {
    /// Nothing: `if` takes it for false, and it is printed as `<no value>`.
    NoValue,
    /// An error.
    Refuse,
}

/// A template that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    tree: parse::Tree,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// When it is not well formed, or uses something that is not supported.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Ok(Self { tree: parse::parse(lex::lex(text)?)? })
    }

    /// Evaluates the template on data.
    ///
    /// # Errors
    ///
    /// When a function refuses its arguments, or a field of something that has none is asked for.
    pub fn render(&self, data: &Value, missing: MissingKey) -> Result<String, TemplateError> {
        eval::render(&self.tree, data, missing)
    }
}

/// Reads and evaluates a template.
///
/// # Errors
///
/// As [`Template::parse`] and [`Template::render`].
pub fn render(text: &str, data: &Value, missing: MissingKey) -> Result<String, TemplateError> {
    Template::parse(text)?.render(data, missing)
}

/// What is wrong with a template, or with what it was evaluated on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It cannot be read.
    #[error("template, line {line}: {problem}")]
    Syntax {
        /// Where, counted from 1.
        line: usize,
        /// What was found.
        problem: String,
    },
    /// It cannot be evaluated.
    #[error("template, line {line}: {problem}")]
    Evaluation {
        /// Where, counted from 1.
        line: usize,
        /// What went wrong.
        problem: String,
    },
}

/// The names of all functions that templates may call.
pub fn functions() -> impl Iterator<Item = &'static str> {
    functions::names()
}

/// The functions of Sprig that templates may not call, each with the reason.
pub fn refused_functions() -> impl Iterator<Item = (&'static str, &'static str)> {
    functions::refused()
}
