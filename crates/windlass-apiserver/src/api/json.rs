//! JSON as the API writes it: a fixed order of keys, and a gap where the revision goes.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value};

/// In which order the fields of an object are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `kind`, `apiVersion`, `metadata`, then the rest by name: built-in kinds. Clients have been seen to
    /// rely on `kind` being the first thing they read.
    KindFirst,
    /// All by name: custom resources.
    ByName,
}

const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];

/// An object as bytes, in the order that its kind has.
pub(crate) fn canonical(object: &Value, layout: Layout) -> Bytes {
    let mut writer = Writer::default();
    writer.object(object, layout);
    writer.out.into()
}

/// An object as bytes around the place where the store fills in its revision.
pub(crate) struct Stamped {
    pub(crate) before: Bytes,
    pub(crate) after: Bytes,
}

/// An object as bytes, with a gap instead of the text of `metadata.resourceVersion`.
pub(crate) fn stamped(object: &Value, layout: Layout) -> Stamped {
    let mut writer = Writer { out: Vec::with_capacity(USUAL), gap: Some(None) };
    writer.object(object, layout);
    let at = writer.gap.flatten().unwrap_or(writer.out.len());
    // Both are copied into one piece once the revision is known.
    let mut before = Bytes::from(writer.out);
    let after = before.split_off(at);
    Stamped { before, after }
}

/// What most objects have less than, so that the buffer seldom has to grow.
const USUAL: usize = 8 * 1024;

#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    /// `None` if no gap is wanted, `Some(None)` until its place is reached.
    gap: Option<Option<usize>>,
}

impl Writer {
    fn object(&mut self, object: &Value, layout: Layout) {
        let Value::Object(fields) = object else { return self.value(object) };
        let mut names = sorted(fields);
        if layout == Layout::KindFirst {
            names
                .sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
        }
        self.fields(names.into_iter(), |writer, name, field| match field {
            Value::Object(metadata) if name == "metadata" && writer.gap.is_some() => {
                writer.metadata(metadata)
            }
            _ => writer.value(field),
        });
    }

    fn metadata(&mut self, metadata: &Map<String, Value>) {
        static ABSENT: Value = Value::Null;
        let mut names = sorted(metadata);
        if !metadata.contains_key(REVISION) {
            let at = names.partition_point(|(name, _)| *name < REVISION);
            names.insert(at, (REVISION, &ABSENT));
        }
        self.fields(names.into_iter(), |writer, name, field| {
            if name == REVISION {
                writer.out.push(b'"');
                writer.gap = Some(Some(writer.out.len()));
                writer.out.push(b'"');
            } else {
                writer.value(field);
            }
        });
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) if *MAPS_ARE_SORTED || fields.keys().is_sorted() => {
                let fields = fields.iter().map(|(name, field)| (name.as_str(), field));
                self.fields(fields, |writer, _, field| writer.value(field));
            }
            Value::Object(fields) => {
                self.fields(sorted(fields).into_iter(), |writer, _, field| writer.value(field));
            }
            Value::Array(items) => {
                self.out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    self.separate(index);
                    self.value(item);
                }
                self.out.push(b']');
            }
            Value::String(text) => self.text(text),
            Value::Null => self.out.extend_from_slice(b"null"),
            Value::Bool(true) => self.out.extend_from_slice(b"true"),
            Value::Bool(false) => self.out.extend_from_slice(b"false"),
            // Writing to a vector cannot fail.
            Value::Number(number) => drop(serde_json::to_writer(&mut self.out, number)),
        }
    }

    fn fields<'v>(
        &mut self,
        fields: impl Iterator<Item = (&'v str, &'v Value)>,
        mut write: impl FnMut(&mut Self, &str, &'v Value),
    ) {
        self.out.push(b'{');
        for (index, (name, field)) in fields.enumerate() {
            self.separate(index);
            self.text(name);
            self.out.push(b':');
            write(self, name, field);
        }
        self.out.push(b'}');
    }

    fn separate(&mut self, index: usize) {
        if index > 0 {
            self.out.push(b',');
        }
    }

    fn text(&mut self, text: &str) {
        if needs_escape(text.as_bytes()) {
            // Writing a string to a vector cannot fail.
            let _ = serde_json::to_writer(&mut self.out, text);
            return;
        }
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }
}

const REVISION: &str = "resourceVersion";

/// Whether maps sort their keys. They keep the order of insertion if any crate of the build asks for it.
static MAPS_ARE_SORTED: LazyLock<bool> = LazyLock::new(|| {
    let map: Map<String, Value> = ["b", "a"].map(|name| (name.to_owned(), Value::Null)).into_iter().collect();
    map.keys().is_sorted()
});

/// Whether a text has a character that JSON must escape; looks at eight bytes at a time.
fn needs_escape(text: &[u8]) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    // A byte below `limit` borrows from its top bit, which the bytes of other scripts have set already.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & TOPS;
    let is = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let (words, rest) = text.as_chunks::<8>();
    words.iter().any(|word| {
        let word = u64::from_le_bytes(*word);
        (below(word, 0x20) | is(word, b'"') | is(word, b'\\')) != 0
    }) || rest.iter().any(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'))
}

fn sorted(fields: &Map<String, Value>) -> Vec<(&str, &Value)> {
    let mut fields: Vec<(&str, &Value)> = fields.iter().map(|(name, field)| (name.as_str(), field)).collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    fields
}

/// The same JSON with line breaks, for people who look at it with curl. The order of keys stays.
pub(crate) fn indent(json: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', depth * 2));
    };
    for (index, &byte) in json.iter().enumerate() {
        if in_text {
            out.push(byte);
            (in_text, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                if !matches!(json.get(index + 1), Some(b'}' | b']')) {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                if !matches!(index.checked_sub(1).map(|before| json[before]), Some(b'{' | b'[')) {
                    depth = depth.saturating_sub(1);
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                in_text = byte == b'"';
                out.push(byte);
            }
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn built_in_kinds_start_with_their_kind_and_custom_ones_with_their_version() {
        let object = json!({"spec": {"b": 1, "a": [true, null]}, "apiVersion": "v1", "data": {}, "kind": "K",
            "metadata": {"name": "n"}});
        let text = canonical(&object, Layout::KindFirst);
        let kind_first = r#"{"kind":"K","apiVersion":"v1","metadata":{"name":"n"},"data":{},"spec":{"a":[true,null],"b":1}}"#;
        assert_eq!(text, kind_first);
        let text = canonical(&object, Layout::ByName);
        let by_name = r#"{"apiVersion":"v1","data":{},"kind":"K","metadata":{"name":"n"},"spec":{"a":[true,null],"b":1}}"#;
        assert_eq!(text, by_name);
    }

    #[test]
    fn the_gap_is_where_the_revision_goes_whether_there_was_one_or_not() {
        for metadata in
            [json!({"name": "n", "uid": "u"}), json!({"name": "n", "resourceVersion": "7", "uid": "u"})]
        {
            let object = json!({"metadata": metadata, "spec": {"metadata": {"resourceVersion": "x"}}});
            let stamped = stamped(&object, Layout::ByName);
            assert_eq!(stamped.before, r#"{"metadata":{"name":"n","resourceVersion":""#);
            assert_eq!(stamped.after, r#"","uid":"u"},"spec":{"metadata":{"resourceVersion":"x"}}}"#);
        }
    }

    #[test]
    fn exactly_the_texts_that_need_it_are_escaped() {
        for byte in 0..=u8::MAX {
            for before in 0..17 {
                let text: String = [
                    "é".repeat(before / 2).as_str(),
                    &"x".repeat(before),
                    &char::from(byte).to_string(),
                    "y~ ",
                ]
                .concat();
                let expected = serde_json::to_string(&text).unwrap();
                assert_eq!(canonical(&Value::from(text.as_str()), Layout::ByName), expected, "{text:?}");
                assert_eq!(needs_escape(text.as_bytes()), expected.len() != text.len() + 2, "{text:?}");
            }
        }
    }

    #[test]
    fn indented_json_reads_the_same() {
        let object = json!({"a": [], "b": {"c": "x,{}[]\\\" :", "d": [1, {"e": {}}]}});
        let text = indent(&canonical(&object, Layout::ByName));
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), object);
        assert!(text.starts_with(b"{\n  \"a\": [],\n  \"b\": {\n    \"c\""));
    }
}
