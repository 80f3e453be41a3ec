//! `managedFields` as they are stored, taken apart only as far as a write needs.
//!
//! A write changes the entry of its own field manager, and seldom another. All other entries stay the JSON they
//! are: whether an owner loses something is looked up in its `fieldsV1`, which is a trie already. Entries
//! that are not written as this crate writes them are left to [`ManagedFields`](super::ManagedFields).

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::managed::{MAX_UPDATERS, Manager, Operation, Timestamp};
use super::path::PathElement;
use super::set::Set;
use super::shape::Shape;
use super::typed;

/// The entries of an object. All are of one version of its kind.
pub(super) struct Entries(Vec<Entry>);

/// One entry. Its fields are those in its JSON, unless they have changed.
pub(super) struct Entry {
    json: Map<String, Value>,
    changed: Option<Set>,
}

impl Entries {
    /// Whether all entries of a list are of this version, written as this crate writes them, and own
    /// nothing in parts that the shape has as a whole.
    pub(super) fn are_readable(entries: Option<&Value>, api_version: &str, shape: &Shape) -> bool {
        let entries = match entries {
            None | Some(Value::Null) => return true,
            Some(Value::Array(entries)) => entries,
            Some(_) => return false,
        };
        entries.iter().enumerate().all(|(index, entry)| {
            let Value::Object(json) = entry else { return false };
            let is_same =
                |other: &Value| other.as_object().is_some_and(|other| identity(other) == identity(json));
            is_canonical(json, api_version, shape) && !entries[..index].iter().any(is_same)
        })
    }

    /// Takes a list of entries that are readable.
    pub(super) fn take(entries: Option<Value>) -> Self {
        let Some(Value::Array(entries)) = entries else { return Self(Vec::new()) };
        let entry = |entry: Value| match entry {
            Value::Object(json) => Some(Entry { json, changed: None }),
            _ => None,
        };
        Self(entries.into_iter().filter_map(entry).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.0.iter_mut()
    }

    /// The entry of a manager of the version that all entries have.
    pub(super) fn find(&mut self, manager: &Manager) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.is_of(manager))
    }

    /// Adds an entry for a manager that has none.
    pub(super) fn add(&mut self, manager: &Manager, api_version: &str, fields: Set, now: Timestamp) {
        let mut json = Map::new();
        let texts = [
            ("manager", manager.name.as_str()),
            ("operation", manager.operation.as_str()),
            ("apiVersion", api_version),
            ("fieldsType", FIELDS_TYPE),
            ("subresource", &manager.subresource),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            json.insert(name.to_owned(), text.into());
        }
        let mut entry = Entry { json, changed: Some(fields) };
        entry.set_time(now);
        self.0.push(entry);
    }

    /// Takes the entry of a manager away, and says whether there was one.
    pub(super) fn remove(&mut self, manager: &Manager) -> bool {
        let before = self.0.len();
        self.0.retain(|entry| !entry.is_of(manager));
        self.0.len() < before
    }

    /// Drops entries that own nothing any more.
    pub(super) fn retain_owning(&mut self) {
        self.0.retain(|entry| entry.changed.as_ref().is_none_or(|fields| !fields.is_empty()));
    }

    /// Whether there are so many updaters that some must be merged.
    pub(super) fn has_too_many_updaters(&self) -> bool {
        self.0.iter().filter(|entry| text(&entry.json, "operation") == Operation::Update.as_str()).count()
            > MAX_UPDATERS
    }

    /// The list of entries: appliers first, then by time, name, version and subresource.
    pub(super) fn into_json(self) -> Value {
        let mut entries = self.0;
        // Times in one format sort as texts; versions are all the same.
        entries.sort_by(|left, right| left.order().cmp(&right.order()));
        let json = |mut entry: Entry| {
            if let Some(fields) = entry.changed {
                entry.json.insert("fieldsV1".into(), fields.to_fields_v1());
            }
            Value::Object(entry.json)
        };
        Value::Array(entries.into_iter().map(json).collect())
    }
}

const FIELDS_TYPE: &str = "FieldsV1";

impl Entry {
    fn order(&self) -> [&str; 4] {
        ["operation", "time", "manager", "subresource"].map(|name| text(&self.json, name))
    }

    pub(super) fn is_of(&self, manager: &Manager) -> bool {
        identity(&self.json) == [&manager.name, manager.operation.as_str(), &manager.subresource]
    }

    pub(super) fn set_time(&mut self, time: Timestamp) {
        self.json.insert("time".into(), time.to_string().into());
    }

    /// The fields, to be changed.
    pub(super) fn fields_mut(&mut self) -> &mut Set {
        let json = &self.json;
        let stored = || json.get("fieldsV1").and_then(|fields| Set::from_fields_v1(fields).ok());
        let fields = match self.changed.take() {
            Some(fields) => fields,
            // What is canonical can be read.
            None => stored().unwrap_or_default(),
        };
        self.changed.insert(fields)
    }

    /// Gives the entry other fields, or leaves it as it is if these are the fields it has. Says whether
    /// they are others.
    pub(super) fn replace_fields(&mut self, fields: Set) -> bool {
        if self.changed.is_none() && equals(stored(&self.json), &fields, &mut String::new()) {
            return false;
        }
        self.changed = Some(fields);
        true
    }

    /// Takes fields away, and says whether the entry had any of them.
    pub(super) fn lose(&mut self, fields: &Set) -> bool {
        // Most owners lose nothing, and reading what they own takes a while.
        let loses = match &self.changed {
            None => has_any(stored(&self.json), fields, &mut String::new()),
            Some(ours) => !ours.intersection(fields).is_empty(),
        };
        if loses {
            self.fields_mut().subtract(fields);
        }
        loses
    }

    /// Whether all fields of the entry are in a set. Only for entries that have not changed.
    pub(super) fn is_within(&self, fields: &Set) -> bool {
        is_within(stored(&self.json), Some(fields))
    }
}

fn text<'a>(json: &'a Map<String, Value>, name: &str) -> &'a str {
    json.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn identity(json: &Map<String, Value>) -> [&str; 3] {
    [text(json, "manager"), text(json, "operation"), text(json, "subresource")]
}

fn stored(json: &Map<String, Value>) -> &Map<String, Value> {
    static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    json.get("fieldsV1").and_then(Value::as_object).unwrap_or(&NOTHING)
}

/// Whether reading an entry and writing it again would change nothing.
fn is_canonical(json: &Map<String, Value>, api_version: &str, shape: &Shape) -> bool {
    let known = |name: &String| match name.as_str() {
        "manager" | "subresource" => !text(json, name).is_empty(),
        "operation" => matches!(text(json, name), "Apply" | "Update"),
        "apiVersion" => text(json, name) == api_version,
        "fieldsType" => text(json, name) == FIELDS_TYPE,
        "time" => is_canonical_time(text(json, name)),
        "fieldsV1" => true,
        _ => false,
    };
    ["operation", "apiVersion", "fieldsType"].iter().all(|name| json.contains_key(*name))
        && json.keys().all(known)
        && !stored(json).is_empty()
        && are_canonical(stored(json), Some(shape), true)
}

/// `2026-11-15T19:10:41Z`: texts in this form sort as the times they mean.
fn is_canonical_time(text: &str) -> bool {
    let form = b"dddd-dd-ddTdd:dd:ddZ";
    let fits = |(byte, form): (&u8, &u8)| if *form == b'd' { byte.is_ascii_digit() } else { byte == form };
    text.len() == form.len() && text.as_bytes().iter().zip(form).all(fits) && Timestamp::parse(text).is_some()
}

/// Whether these are fields as [`Set::to_fields_v1`] writes them, in terms of the shape.
fn are_canonical(fields: &Map<String, Value>, shape: Option<&Shape>, root: bool) -> bool {
    fields.iter().all(|(key, inside)| {
        let Value::Object(inside) = inside else { return false };
        if key == "." {
            return !root && inside.is_empty() && fields.len() > 1;
        }
        if !is_canonical_element(key) {
            return false;
        }
        if inside.is_empty() {
            return true;
        }
        let shape = shape.and_then(|shape| typed::element_shape_of_key(key, shape));
        !shape.is_some_and(typed::is_atomic) && are_canonical(inside, shape, false)
    })
}

fn is_canonical_element(key: &str) -> bool {
    let plain = match key.as_bytes() {
        [b'f', b':', ..] => true,
        [b'k', b':', keys @ ..] => is_plain_object(keys),
        _ => false,
    };
    plain
        || PathElement::decode(key)
            .is_ok_and(|element| element.is_some_and(|element| element.encode() == key))
}

/// Whether this is a JSON object of one text without escapes, by far the most common key of a list.
fn is_plain_object(text: &[u8]) -> bool {
    let plain =
        |text: &[u8]| text.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
    let Some(text) = text.strip_prefix(b"{\"").and_then(|text| text.strip_suffix(b"\"}")) else {
        return false;
    };
    let Some(colon) = text.windows(3).position(|window| window == b"\":\"") else { return false };
    plain(&text[..colon]) && plain(&text[colon + 3..])
}

fn is_member(inside: &Map<String, Value>) -> bool {
    inside.is_empty() || inside.contains_key(".")
}

/// The part of `fieldsV1` inside an element.
fn inside<'a>(
    fields: &'a Map<String, Value>,
    element: &PathElement,
    key: &mut String,
) -> Option<&'a Map<String, Value>> {
    key.clear();
    element.encode_into(key);
    fields.get(key.as_str()).and_then(Value::as_object)
}

fn has_any(fields: &Map<String, Value>, set: &Set, key: &mut String) -> bool {
    set.elements().any(|(element, member, below)| {
        inside(fields, element, key).is_some_and(|inside| {
            member && is_member(inside) || !below.is_empty() && has_any(inside, below, key)
        })
    })
}

fn equals(fields: &Map<String, Value>, set: &Set, key: &mut String) -> bool {
    let count = fields.len() - usize::from(fields.contains_key("."));
    count == set.elements().count()
        && set.elements().all(|(element, member, below)| {
            inside(fields, element, key)
                .is_some_and(|inside| member == is_member(inside) && equals(inside, below, key))
        })
}

fn is_within(fields: &Map<String, Value>, set: Option<&Set>) -> bool {
    fields.iter().filter(|(key, _)| *key != ".").all(|(key, inside)| {
        let (Ok(Some(element)), Value::Object(inside)) = (PathElement::decode(key), inside) else {
            return false;
        };
        let Some(set) = set else { return false };
        (!is_member(inside) || set.has(&element)) && is_within(inside, set.below(&element))
    })
}
