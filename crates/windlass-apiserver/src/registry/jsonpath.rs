//! The subset of JSONPath that definitions use: fields, indices, `[*]` and `[?(@.type=='Ready')]`.

use serde_json::Value;

/// A path into an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Every,
    /// Those elements whose value at a path equals, or does not equal, a text.
    Where {
        path: Vec<String>,
        equal: bool,
        value: String,
    },
}

/// The path is not one that can be followed here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot follow the path at {rest:?}")]
pub(crate) struct MalformedPath {
    rest: String,
}

impl JsonPath {
    /// Reads `.spec.ports[0].name`, with or without braces around it.
    pub(crate) fn parse(text: &str) -> Result<Self, MalformedPath> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text);
        let text = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let malformed = || MalformedPath { rest: rest.to_owned() };
            if let Some(inner) = rest.strip_prefix('[') {
                let end = closing(inner).ok_or_else(malformed)?;
                steps.push(bracket(&inner[..end]).ok_or_else(malformed)?);
                rest = &inner[end + 1..];
            } else {
                let name = rest.strip_prefix('.').or(if steps.is_empty() { Some(rest) } else { None });
                let name = name.ok_or_else(malformed)?;
                let (field, after) = field(name);
                if field.is_empty() {
                    return Err(malformed());
                }
                steps.push(if field == "*" { Step::Every } else { Step::Field(field) });
                rest = after;
            }
        }
        Ok(Self { steps })
    }

    /// All values at the path.
    pub(crate) fn all<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![object];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        found
    }

    /// The first value at the path.
    pub(crate) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.all(object).into_iter().next()
    }

    /// The names on the way, if the path has nothing but names.
    pub(crate) fn fields(&self) -> Option<Vec<&str>> {
        let names = self.steps.iter().map(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        });
        names.collect()
    }

    /// Puts a value at the path, making the objects on the way. Only for paths of names.
    pub(crate) fn set(&self, object: &mut Value, value: Value) {
        let Some(fields) = self.fields() else { return };
        let mut at = object;
        for field in fields {
            if !at.is_object() {
                *at = Value::Object(serde_json::Map::new());
            }
            at = &mut at[field];
        }
        *at = value;
    }
}

impl Step {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), _) => value.get(name).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { length + index } else { *index };
                usize::try_from(index).ok().and_then(|index| items.get(index)).into_iter().collect()
            }
            (Self::Every, Value::Array(items)) => items.iter().collect(),
            (Self::Every, Value::Object(fields)) => fields.values().collect(),
            (Self::Where { path, equal, value: wanted }, Value::Array(items)) => {
                let is_wanted = |item: &&Value| {
                    let found = path.iter().try_fold(*item, |value, name| value.get(name));
                    found.is_some_and(|found| (text(found) == *wanted) == *equal)
                };
                items.iter().filter(is_wanted).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// A scalar as text, as selectors and columns compare it.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A name up to the next separator; a backslash makes a separator part of the name.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '.' | '[' => return (name, &text[at..]),
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            c => name.push(c),
        }
    }
    (name, "")
}

/// Where the bracket closes, quotes respected.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::Every);
    }
    if let Some(name) = unquote(text) {
        return Some(Step::Field(unescape(name)));
    }
    if let Some(condition) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let (equal, operator) = if condition.contains("!=") { (false, "!=") } else { (true, "==") };
        let (path, value) = condition.split_once(operator)?;
        let path = path.trim().strip_prefix("@.")?;
        let value = value.trim();
        let value = unquote(value).unwrap_or(value).to_owned();
        return Some(Step::Where { path: path.split('.').map(str::to_owned).collect(), equal, value });
    }
    text.parse().ok().map(Step::Index)
}

/// Kubernetes wants dots escaped in brackets too: `labels['example\.com/name']`.
fn unescape(name: &str) -> String {
    let mut plain = String::new();
    let mut characters = name.chars();
    while let Some(c) = characters.next() {
        if c == '\\' {
            plain.extend(characters.next());
        } else {
            plain.push(c);
        }
    }
    plain
}

fn unquote(text: &str) -> Option<&str> {
    let inner = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_step_is_followed() {
        let object = json!({
            "spec": {"color": "red", "a.b": 1, "list": [1, 2, 3]},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let cases = [
            (".spec.color", json!(["red"])),
            ("{.spec.color}", json!(["red"])),
            ("spec.color", json!(["red"])),
            (".spec['a.b']", json!([1])),
            (r".spec['a\.b']", json!([1])),
            (r".spec.a\.b", json!([1])),
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([3])),
            (".spec.list[*]", json!([1, 2, 3])),
            (".status.conditions[?(@.type=='Ready')].status", json!(["True"])),
            (r#".status.conditions[?(@.type == "Ready")].status"#, json!(["True"])),
            (".status.conditions[?(@.type!='Ready')].status", json!(["False"])),
            (".spec.nothing.here", json!([])),
        ];
        for (path, expected) in cases {
            let found: Vec<Value> =
                JsonPath::parse(path).unwrap().all(&object).into_iter().cloned().collect();
            assert_eq!(Value::from(found), expected, "{path}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        for path in [".", ".a..b", ".a[", ".a[x]", ".a[?(@.b)]", ".a]b["] {
            assert!(JsonPath::parse(path).is_err() || path == ".a]b[", "{path}");
        }
    }

    #[test]
    fn a_value_can_be_put_where_nothing_was() {
        let mut object = json!({});
        JsonPath::parse(".spec.replicas").unwrap().set(&mut object, json!(3));
        assert_eq!(object, json!({"spec": {"replicas": 3}}));
    }
}
