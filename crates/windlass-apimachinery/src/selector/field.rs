//! Field selectors.

use serde_json::Value;

/// What fields of an object must fulfil: all of its requirements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// What one field must fulfil.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field: `metadata.name`.
    pub field: String,
    /// Its value as text; an absent field is empty.
    pub value: String,
    /// Whether it must have another value.
    pub negated: bool,
}

/// A text that is not a field selector, or not one for this kind. `Display` is the message of the 400
/// that answers it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A part of it has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole selector.
        selector: String,
        /// The part.
        term: String,
        /// Where the part begins, in bytes.
        position: usize,
    },
    /// A backslash is not followed by what can be escaped.
    #[error("invalid field selector: invalid escape sequence: {sequence}")]
    Escape {
        /// The backslash and what follows it.
        sequence: String,
        /// Where it stands, in bytes.
        position: usize,
    },
    /// A value has a `,` or `=` that is not escaped.
    #[error("invalid field selector: unescaped character in value: {character}")]
    Unescaped {
        /// The character.
        character: char,
        /// Where it stands, in bytes.
        position: usize,
    },
    /// Objects of this kind cannot be selected by the field.
    #[error("field label not supported: {0}")]
    NotSupported(String),
}

impl FieldSelector {
    /// Reads a selector on fields that `supported` knows. An empty text selects everything.
    pub fn parse(text: &str, supported: impl Fn(&str) -> bool) -> Result<Self, FieldSelectorError> {
        let mut requirements = Vec::new();
        for (position, term) in terms(text).into_iter().filter(|(_, term)| !term.is_empty()) {
            let (field, operator, value) = split(term).ok_or_else(|| FieldSelectorError::Term {
                selector: text.to_owned(),
                term: term.to_owned(),
                position,
            })?;
            let value = unescape(value, position + field.len() + operator.len())?;
            if !supported(field) {
                return Err(FieldSelectorError::NotSupported(field.to_owned()));
            }
            requirements.push(FieldRequirement { field: field.to_owned(), value, negated: operator == "!=" });
        }
        requirements.sort_by(|left, right| left.field.cmp(&right.field));
        Ok(FieldSelector { requirements })
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// What it requires, sorted by field.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The value that a field must have, if there is only one: a selector on `metadata.name` selects
    /// at most one object of a namespace.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|r| r.field == field && !r.negated)?;
        Some(&requirement.value)
    }

    /// Whether it selects fields, which `field` looks up as text.
    pub fn matches(&self, field: impl Fn(&str) -> Option<String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = field(&requirement.field).unwrap_or_default();
            (value == requirement.value) != requirement.negated
        })
    }

    /// Whether it selects an object, whose fields are named by their path.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.matches(|path| {
            let mut at = object;
            for step in path.split('.') {
                at = at.get(step)?;
            }
            match at {
                Value::String(text) => Some(text.clone()),
                Value::Bool(_) | Value::Number(_) => Some(at.to_string()),
                _ => None,
            }
        })
    }
}

/// The parts between commas that are not escaped, with their positions.
fn terms(text: &str) -> Vec<(usize, &str)> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push((start, &text[start..index]));
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push((start, &text[start..]));
    terms
}

/// Field, operator and value of a part.
fn split(term: &str) -> Option<(&str, &str, &str)> {
    let mut escaped = false;
    for (index, c) in term.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else {
            let rest = &term[index..];
            if let Some(operator) = ["!=", "==", "="].into_iter().find(|operator| rest.starts_with(operator))
            {
                return Some((&term[..index], &rest[..operator.len()], &rest[operator.len()..]));
            }
        }
    }
    None
}

fn unescape(value: &str, position: usize) -> Result<String, FieldSelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.char_indices();
    while let Some((index, c)) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some((_, escaped @ ('\\' | ',' | '='))) => plain.push(escaped),
                other => {
                    let sequence = other.map_or_else(|| "\\".to_owned(), |(_, c)| format!("\\{c}"));
                    return Err(FieldSelectorError::Escape { sequence, position: position + index });
                }
            },
            ',' | '=' => {
                return Err(FieldSelectorError::Unescaped { character: c, position: position + index });
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known(field: &str) -> bool {
        matches!(field, "metadata.name" | "metadata.namespace" | "spec.color" | "spec.on" | "spec.n")
    }

    #[test]
    fn selectors_select() {
        let object =
            json!({"metadata": {"name": "a"}, "spec": {"color": "red,=\\", "on": true, "n": 3, "o": {}}});
        let cases = [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a", true),
            ("metadata.name=b", false),
            ("metadata.name!=b", true),
            ("metadata.name!=a", false),
            ("metadata.name=a,metadata.namespace=", true),
            ("metadata.namespace!=x", true),
            (r"spec.color=red\,\=\\", true),
            ("spec.on=true", true),
            ("spec.n=3", true),
            (",,metadata.name=a,", true),
        ];
        for (text, expected) in cases {
            let selector =
                FieldSelector::parse(text, known).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.matches_object(&object), expected, "{text}");
        }
        assert!(FieldSelector::parse("", known).unwrap().is_empty());
    }

    #[test]
    fn errors_have_the_words_of_the_api_and_a_position() {
        let error = |text: &str| FieldSelector::parse(text, known).unwrap_err();
        assert_eq!(error("spec.size=1").to_string(), "field label not supported: spec.size");
        let term = error("metadata.name=a,oops");
        assert_eq!(term.to_string(), "invalid selector: 'metadata.name=a,oops'; can't understand 'oops'");
        assert!(matches!(term, FieldSelectorError::Term { position: 16, .. }));
        let escape = error(r"metadata.name=a\x");
        assert_eq!(escape.to_string(), r"invalid field selector: invalid escape sequence: \x");
        assert!(matches!(escape, FieldSelectorError::Escape { position: 15, .. }));
        assert!(matches!(error("metadata.name=a\\"), FieldSelectorError::Escape { .. }));
        assert!(matches!(
            error("metadata.name=a=b"),
            FieldSelectorError::Unescaped { character: '=', position: 15 }
        ));
    }

    #[test]
    fn an_exact_match_can_be_asked_for() {
        let selector = FieldSelector::parse("metadata.name=a,metadata.namespace!=b", known).unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert_eq!(selector.exact("metadata.namespace"), None);
        assert_eq!(selector.exact("spec.color"), None);
    }
}
