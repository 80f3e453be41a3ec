//! One reason why an object is refused: what `details.causes` of a Kubernetes `Status` is made of.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};
pub(crate) use windlass_api::go::quote;

/// Why a field's value is refused, with the word the API uses for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Malformed or out of bounds.
    Invalid,
    /// Of another type than the schema says.
    TypeInvalid,
    /// Missing.
    Required,
    /// Not one of the enumerated values.
    NotSupported,
    /// Equal to another one that it must differ from.
    Duplicate,
    /// Well-formed, but not permitted here.
    Forbidden,
    /// A string longer than allowed.
    TooLong,
    /// More items or properties than allowed.
    TooMany,
}

impl Reason {
    /// The word in `details.causes[].reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Invalid => "FieldValueInvalid",
            Reason::TypeInvalid => "FieldValueTypeInvalid",
            Reason::Required => "FieldValueRequired",
            Reason::NotSupported => "FieldValueNotSupported",
            Reason::Duplicate => "FieldValueDuplicate",
            Reason::Forbidden => "FieldValueForbidden",
            Reason::TooLong => "FieldValueTooLong",
            Reason::TooMany => "FieldValueTooMany",
        }
    }

    /// The words a message starts with.
    fn headline(self) -> &'static str {
        match self {
            Reason::Invalid | Reason::TypeInvalid => "Invalid value",
            Reason::Required => "Required value",
            Reason::NotSupported => "Unsupported value",
            Reason::Duplicate => "Duplicate value",
            Reason::Forbidden => "Forbidden",
            Reason::TooLong => "Too long",
            Reason::TooMany => "Too many",
        }
    }
}

/// One refused field. `Display` gives `field: message`, the form used in the message of a `Status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Why, in one word.
    pub reason: Reason,
    /// Where: `spec.ports[0].name`; `<nil>` for the object as a whole.
    pub field: String,
    /// Why, as the API server words it, the offending value included.
    pub message: String,
}

impl Cause {
    /// A malformed value.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl fmt::Display) -> Self {
        Self::with_value(Reason::Invalid, field, value, &detail.to_string())
    }

    /// A malformed value that the message does not repeat.
    pub fn invalid_unprinted(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::bare(Reason::Invalid, field, &detail.to_string())
    }

    /// A value of the wrong type.
    pub fn type_invalid(field: impl Into<String>, value: &Value, detail: impl fmt::Display) -> Self {
        Self::with_value(Reason::TypeInvalid, field, value, &detail.to_string())
    }

    /// A missing value; `detail` may be empty.
    pub fn required(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::bare(Reason::Required, field, &detail.to_string())
    }

    /// A value that is not one of `supported`.
    pub fn not_supported<S: AsRef<str>>(field: impl Into<String>, value: &Value, supported: &[S]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|value| quote(value.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::with_value(Reason::NotSupported, field, value, &detail)
    }

    /// A value that occurs twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::with_value(Reason::Duplicate, field, value, "")
    }

    /// Something that must not be there.
    pub fn forbidden(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::bare(Reason::Forbidden, field, &detail.to_string())
    }

    /// A string longer than `max`. The API server says bytes although it counts characters.
    pub fn too_long(field: impl Into<String>, max: i64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::bare(Reason::TooLong, field, &format!("may not be more than {max} {unit}"))
    }

    /// `actual` items where at most `max` are allowed.
    pub fn too_many(field: impl Into<String>, actual: usize, max: i64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::with_value(
            Reason::TooMany,
            field,
            &Value::from(actual),
            &format!("must have at most {max} {unit}"),
        )
    }

    fn with_value(reason: Reason, field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let mut message = format!("{}: {}", reason.headline(), print(value));
        append(&mut message, detail);
        Cause { reason, field: field.into(), message }
    }

    fn bare(reason: Reason, field: impl Into<String>, detail: &str) -> Self {
        let mut message = reason.headline().to_owned();
        append(&mut message, detail);
        Cause { reason, field: field.into(), message }
    }

    /// Whether this cause keeps validation rules from being evaluated: a rule may rely on what the
    /// schema promises, so an object that breaks the promise is not shown to rules.
    pub fn blocks_rules(&self) -> bool {
        matches!(
            self.reason,
            Reason::NotSupported | Reason::Required | Reason::TooLong | Reason::TooMany | Reason::TypeInvalid
        )
    }

    /// The entry of `details.causes`.
    pub fn to_json(&self) -> Value {
        let mut entry = Map::new();
        entry.insert("reason".into(), self.reason.as_str().into());
        entry.insert("message".into(), self.message.as_str().into());
        entry.insert("field".into(), self.field.as_str().into());
        Value::Object(entry)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// The text after `is invalid: ` in the message of a `Status`: one cause as it is, several in
/// brackets, the same text only once.
pub fn summary(causes: &[Cause]) -> String {
    let mut seen = BTreeSet::new();
    let texts: Vec<String> =
        causes.iter().map(Cause::to_string).filter(|text| seen.insert(text.clone())).collect();
    match texts.as_slice() {
        [only] => only.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// Where in an object a walk is: `spec.ports[0].name`, built and taken back as the walk goes on.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldPath(String);

/// A position to return to with [`FieldPath::pop`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize);

impl FieldPath {
    pub(crate) fn new(root: &str) -> Self {
        FieldPath(root.to_owned())
    }

    pub(crate) fn push(&mut self, name: &str) -> Mark {
        let mark = Mark(self.0.len());
        if !self.0.is_empty() {
            self.0.push('.');
        }
        self.0.push_str(name);
        mark
    }

    pub(crate) fn push_index(&mut self, index: usize) -> Mark {
        self.push_key(&index.to_string())
    }

    pub(crate) fn push_key(&mut self, key: &str) -> Mark {
        let mark = Mark(self.0.len());
        self.0.push('[');
        self.0.push_str(key);
        self.0.push(']');
        mark
    }

    pub(crate) fn pop(&mut self, mark: Mark) {
        self.0.truncate(mark.0);
    }

    /// The path of a child, without going there.
    pub(crate) fn join(&self, name: &str) -> String {
        if self.0.is_empty() { name.to_owned() } else { format!("{}.{name}", self.0) }
    }

    /// The path as written inside a message: empty at the root.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as the field of a cause: the API server prints `<nil>` for the root.
    pub(crate) fn field(&self) -> String {
        if self.0.is_empty() { NO_FIELD.to_owned() } else { self.0.clone() }
    }
}

/// How the API server prints the absence of a field path.
pub(crate) const NO_FIELD: &str = "<nil>";

/// A value as the API server prints it in an error: strings quoted, the rest as JSON.
pub(crate) fn print(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        _ => value.to_string(),
    }
}

/// A float without a needless fraction, with an exponent only where it is long: Go's `%v`.
pub(crate) fn float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |positive| ('-', positive));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value}")
}

fn append(message: &mut String, detail: &str) {
    if !detail.is_empty() {
        message.push_str(": ");
        message.push_str(detail);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_cause_reads_as_the_api_server_writes_it() {
        let cases = [
            (Cause::invalid("a", &json!(1000), "too large"), "a: Invalid value: 1000: too large"),
            (Cause::invalid_unprinted("a", "no"), "a: Invalid value: no"),
            (Cause::type_invalid("a", &json!("string"), "x"), "a: Invalid value: \"string\": x"),
            (Cause::required("a.b", ""), "a.b: Required value"),
            (Cause::required("a.b", "say why"), "a.b: Required value: say why"),
            (
                Cause::not_supported("c", &json!("purple"), &["red", "green"]),
                "c: Unsupported value: \"purple\": supported values: \"red\", \"green\"",
            ),
            (Cause::duplicate("t[1]", &json!({"name": "x"})), "t[1]: Duplicate value: {\"name\":\"x\"}"),
            (Cause::forbidden("x", "not now"), "x: Forbidden: not now"),
            (Cause::too_long("x", 5), "x: Too long: may not be more than 5 bytes"),
            (Cause::too_long("x", 1), "x: Too long: may not be more than 1 byte"),
            (Cause::too_many("x", 3, 2), "x: Too many: 3: must have at most 2 items"),
            (Cause::too_many("x", 2, 1), "x: Too many: 2: must have at most 1 item"),
        ];
        for (cause, text) in cases {
            assert_eq!(cause.to_string(), text);
        }
    }

    #[test]
    fn the_summary_says_the_same_thing_only_once() {
        let forbidden = || Cause::forbidden("metadata.finalizers", "no new finalizers");
        assert_eq!(summary(&[forbidden(), forbidden()]), "metadata.finalizers: Forbidden: no new finalizers");
        let both = summary(&[forbidden(), Cause::required("spec", "")]);
        assert_eq!(both, "[metadata.finalizers: Forbidden: no new finalizers, spec: Required value]");
    }

    #[test]
    fn floats_print_as_go_prints_them() {
        let cases =
            [(100.0, "100"), (1.5, "1.5"), (1e21, "1e+21"), (1.5e-7, "1.5e-07"), (0.0, "0"), (-2.5, "-2.5")];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(quote("a\"b\\c\n\u{1}\u{85}é"), "\"a\\\"b\\\\c\\n\\x01\\u0085é\"");
    }
}
