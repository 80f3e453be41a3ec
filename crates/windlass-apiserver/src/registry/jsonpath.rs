//! The subset of JSONPath that CRDs use: fields, indices, slices, `[*]` and filters such as
//! `[?(@.type=='Ready')]`.

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
    /// From an index up to another one.
    Slice(Option<i64>, Option<i64>),
    /// Those elements that have a value at a path, and one that compares as it should.
    Where {
        path: Box<JsonPath>,
        comparison: Option<(Comparison, String)>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The operators, longer ones before those that they start with.
    const ALL: [(&str, Self); 6] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<=", Self::LessOrEqual),
        (">=", Self::GreaterOrEqual),
        ("<", Self::Less),
        (">", Self::Greater),
    ];

    fn holds(self, found: &Value, wanted: &str) -> bool {
        let order = match (found.as_f64(), wanted.parse::<f64>()) {
            (Some(found), Ok(wanted)) => found.partial_cmp(&wanted),
            _ => Some(text(found).as_str().cmp(wanted)),
        };
        let Some(order) = order else { return false };
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
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
                place(*index, items.len()).and_then(|index| items.get(index)).into_iter().collect()
            }
            (Self::Slice(from, to), Value::Array(items)) => {
                let place = |index: i64| place(index, items.len()).unwrap_or(0).min(items.len());
                let (from, to) = (from.map_or(0, place), to.map_or(items.len(), place));
                items.get(from..to).unwrap_or_default().iter().collect()
            }
            (Self::Every, Value::Array(items)) => items.iter().collect(),
            (Self::Every, Value::Object(fields)) => fields.values().collect(),
            (Self::Where { path, comparison }, Value::Array(items)) => {
                let is_wanted = |item: &&Value| {
                    let compares = |found: &Value| match comparison {
                        Some((comparison, wanted)) => comparison.holds(found, wanted),
                        None => true,
                    };
                    path.first(item).is_some_and(compares)
                };
                items.iter().filter(is_wanted).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// An index from the front; negative ones count from the back.
fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    usize::try_from(if index < 0 { length + index } else { index }).ok()
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
    let mut depth = 0_usize;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, '[') => depth += 1,
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
        let (path, comparison) = match compared(condition) {
            Some((path, comparison, value)) => {
                let value = value.trim();
                let value = unquote(value).map_or_else(|| value.to_owned(), unescape);
                (path, Some((comparison, value)))
            }
            None => (condition, None),
        };
        let path = path.trim().strip_prefix('@')?;
        let path = Box::new(JsonPath::parse(path).ok().filter(|path| !path.steps.is_empty())?);
        return Some(Step::Where { path, comparison });
    }
    if let Some((from, to)) = text.split_once(':') {
        let bound = |text: &str| match text.trim() {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        };
        return Some(Step::Slice(bound(from)?, bound(to)?));
    }
    text.parse().ok().map(Step::Index)
}

/// The first comparison of a condition that is not inside of quotes.
fn compared(condition: &str) -> Option<(&str, Comparison, &str)> {
    let mut quote = None;
    for (at, c) in condition.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, _) => {
                let rest = &condition[at..];
                let found = Comparison::ALL.iter().find(|(operator, _)| rest.starts_with(operator));
                if let Some((operator, comparison)) = found {
                    return Some((&condition[..at], *comparison, &rest[operator.len()..]));
                }
            }
            _ => {}
        }
    }
    None
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
            "status": {"conditions": [{"type": "A", "status": "False", "count": 2},
                {"type": "Ready", "status": "True", "count": 10, "reason": "a==b"}]},
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
            (r".status.conditions[?(@['type']=='Ready')].status", json!(["True"])),
            (".status.conditions[?(@.reason)].type", json!(["Ready"])),
            (".status.conditions[?(@.count > 9)].type", json!(["Ready"])),
            (".status.conditions[?(@.count<=9)].type", json!(["A"])),
            (".status.conditions[?(@.reason=='a==b')].type", json!(["Ready"])),
            (".spec.list[1:]", json!([2, 3])),
            (".spec.list[:-1]", json!([1, 2])),
            (".spec.list[2:1]", json!([])),
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
        for path in [".", ".a..b", ".a[", ".a[x]", ".a[?(b)]", ".a[?(@)]", ".a[1:x]"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_value_can_be_put_where_nothing_was() {
        let mut object = json!({});
        JsonPath::parse(".spec.replicas").unwrap().set(&mut object, json!(3));
        assert_eq!(object, json!({"spec": {"replicas": 3}}));
    }
}
