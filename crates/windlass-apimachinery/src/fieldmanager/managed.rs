//! `metadata.managedFields`: who owns which fields, and since when.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::set::{FieldsError, Set};
use crate::schema::{rfc3339, to_rfc3339};
use windlass_patch::depth::{self, TooDeep};

/// A point in time with the precision of the API: seconds, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From seconds since the epoch.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Timestamp(seconds)
    }

    /// Reads `2026-11-15T19:10:41Z`, or the same with a fraction or an offset.
    pub fn parse(text: &str) -> Option<Self> {
        rfc3339(text).map(Timestamp)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_rfc3339(self.0))
    }
}

/// How a manager came by its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// By applying a configuration.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    /// The word in `managedFields`.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Who has an entry of its own. An applier is the same in every version of the API, so that it can
/// move to a new one; an updater is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// The name it gave, or its user agent.
    pub name: String,
    /// How it writes.
    pub operation: Operation,
    /// The version it updates; empty for appliers.
    pub api_version: String,
    /// The subresource it writes, if any.
    pub subresource: String,
}

impl Manager {
    /// A field manager that applies.
    pub fn applier(name: &str, subresource: &str) -> Self {
        Manager {
            name: name.to_owned(),
            operation: Operation::Apply,
            api_version: String::new(),
            subresource: subresource.to_owned(),
        }
    }

    /// A field manager that updates objects of a version.
    pub fn updater(name: &str, api_version: &str, subresource: &str) -> Self {
        Manager {
            name: name.to_owned(),
            operation: Operation::Update,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

/// What a manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    /// The fields.
    pub fields: Set,
    /// The version whose fields these are.
    pub api_version: String,
    /// When it last changed something.
    pub time: Option<Timestamp>,
}

/// All entries of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagedFields {
    /// The entries by manager.
    pub managers: BTreeMap<Manager, Ownership>,
}

/// `managedFields` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    /// It is not a list of objects.
    #[error("managedFields must be a list of entries")]
    NotAList,
    /// An entry has another operation than the two there are.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// An entry does not say which version its fields are of.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// An entry does not say how its fields are written.
    #[error("missing fieldsType in managed fields entry {0}")]
    MissingFieldsType(usize),
    /// An entry has fields written in a way that is not known.
    #[error("invalid fieldsType {found:?} in managed fields entry {entry}")]
    FieldsType {
        /// The position of the entry.
        entry: usize,
        /// What it says.
        found: String,
    },
    /// The fields of an entry cannot be read.
    #[error("managed fields entry {entry}: {source}")]
    Fields {
        /// The position of the entry.
        entry: usize,
        /// Why not.
        source: FieldsError,
    },
    /// The fields nest too deep.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// The most entries of updaters an object keeps. Beyond it the oldest are merged into one, because
/// clients may use a new name for every write.
pub(super) const MAX_UPDATERS: usize = 10;

/// The manager of what the oldest updaters owned.
const OLD_UPDATERS: &str = "ancient-changes";

impl ManagedFields {
    /// Reads `metadata.managedFields` of an object; none if it has none.
    pub fn of(object: &Value) -> Result<Self, ManagedFieldsError> {
        match object.pointer("/metadata/managedFields") {
            None | Some(Value::Null) => Ok(ManagedFields::default()),
            Some(entries) => ManagedFields::decode(entries),
        }
    }

    /// Reads a list of entries.
    pub fn decode(entries: &Value) -> Result<Self, ManagedFieldsError> {
        depth::check_owners(entries)?;
        let entries = entries.as_array().ok_or(ManagedFieldsError::NotAList)?;
        let mut managed = ManagedFields::default();
        for (index, entry) in entries.iter().enumerate() {
            let entry = entry.as_object().ok_or(ManagedFieldsError::NotAList)?;
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(ManagedFieldsError::Operation),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err(ManagedFieldsError::ApiVersion);
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(ManagedFieldsError::MissingFieldsType(index)),
                found => {
                    return Err(ManagedFieldsError::FieldsType { entry: index, found: found.to_owned() });
                }
            }
            let fields = match entry.get("fieldsV1") {
                None | Some(Value::Null) => Set::default(),
                Some(fields) => Set::from_fields_v1(fields)
                    .map_err(|source| ManagedFieldsError::Fields { entry: index, source })?,
            };
            let manager = match operation {
                Operation::Apply => Manager::applier(text("manager"), text("subresource")),
                Operation::Update => Manager::updater(text("manager"), api_version, text("subresource")),
            };
            let time = Timestamp::parse(text("time"));
            managed.managers.insert(manager, Ownership { fields, api_version: api_version.to_owned(), time });
        }
        Ok(managed)
    }

    /// The list of entries: appliers first, then by time, name, version and subresource.
    pub fn encode(&self) -> Value {
        let mut entries: Vec<(&Manager, &Ownership)> = self.managers.iter().collect();
        entries.sort_by_key(|(manager, ownership)| {
            (manager.operation, ownership.time, &manager.name, &ownership.api_version, &manager.subresource)
        });
        Value::Array(entries.into_iter().map(|(manager, ownership)| entry(manager, ownership)).collect())
    }

    /// Writes the entries into an object, or takes them out if there are none.
    pub fn store(&self, object: &mut Value) {
        let Value::Object(fields) = object else { return };
        if self.managers.is_empty() {
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            return;
        }
        let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(metadata) = metadata {
            metadata.insert("managedFields".into(), self.encode());
        }
    }

    /// Whether two sets of entries differ in nothing but time.
    pub(super) fn owns_the_same(&self, other: &ManagedFields) -> bool {
        type Entry<'a> = (&'a Manager, &'a Ownership);
        let same = |((manager, ours), (other, theirs)): (Entry<'_>, Entry<'_>)| {
            manager == other && ours.api_version == theirs.api_version && ours.fields == theirs.fields
        };
        self.managers.len() == other.managers.len() && self.managers.iter().zip(&other.managers).all(same)
    }

    /// Merges the oldest updaters until there are few enough.
    pub(super) fn cap_updaters(&mut self) {
        let mut updaters: Vec<Manager> =
            self.managers.keys().filter(|manager| manager.operation == Operation::Update).cloned().collect();
        let mut excess = updaters.len().saturating_sub(MAX_UPDATERS);
        updaters.sort_by_key(|manager| (self.managers[manager].time, manager.clone()));
        // Fields of different versions cannot be merged, so each version has a bucket. The first of a
        // version only moves into its bucket when there is a second to join it.
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for updater in updaters {
            if excess == 0 {
                break;
            }
            let version = self.managers[&updater].api_version.clone();
            let Some(first) = first_of_version.get(&version).cloned() else {
                first_of_version.insert(version, updater);
                continue;
            };
            let bucket = Manager::updater(OLD_UPDATERS, &version, "");
            if let Some(moved) = self.managers.remove(&first) {
                merge_into(self.managers.entry(bucket.clone()), moved);
            }
            if let Some(moved) = self.managers.remove(&updater) {
                merge_into(self.managers.entry(bucket.clone()), moved);
            }
            first_of_version.insert(version, bucket);
            excess -= 1;
        }
    }
}

fn merge_into(entry: std::collections::btree_map::Entry<'_, Manager, Ownership>, moved: Ownership) {
    entry
        .and_modify(|bucket| {
            bucket.fields.extend(&moved.fields);
            bucket.time = bucket.time.max(moved.time);
        })
        .or_insert(moved);
}

fn entry(manager: &Manager, ownership: &Ownership) -> Value {
    let mut entry = Map::new();
    let mut text = |name: &str, value: &str| {
        if !value.is_empty() {
            entry.insert(name.into(), value.into());
        }
    };
    text("manager", &manager.name);
    text("operation", manager.operation.as_str());
    text("apiVersion", &ownership.api_version);
    text("time", &ownership.time.map(|time| time.to_string()).unwrap_or_default());
    text("fieldsType", "FieldsV1");
    text("subresource", &manager.subresource);
    entry.insert("fieldsV1".into(), ownership.fields.to_fields_v1());
    Value::Object(entry)
}

/// Whether an update asks to forget all owners: it says `managedFields: []` or `[{}]`.
pub(super) fn is_reset(object: &Value) -> bool {
    match object.pointer("/metadata/managedFields") {
        Some(Value::Array(entries)) => match entries.as_slice() {
            [] => true,
            [Value::Object(only)] => only.is_empty(),
            _ => false,
        },
        _ => false,
    }
}

/// Puts the old timestamps back if nothing else differs between two versions of an object, and says
/// whether that is so.
///
/// A write that changes only timestamps must not be written, or controllers that apply the same
/// configuration again and again would wake each other up forever. To be called on the object that
/// would be stored, after defaulting and admission.
pub fn settle_timestamps(old: &Value, new: &mut Value) -> bool {
    if !same_apart_from_owners(old, new) {
        return false;
    }
    let owners = "/metadata/managedFields";
    let unchanged = old.pointer(owners) == new.pointer(owners)
        || match (ManagedFields::of(old), ManagedFields::of(new)) {
            (Ok(before), Ok(after)) => before.owns_the_same(&after),
            _ => false,
        };
    if unchanged {
        *new = old.clone();
    }
    unchanged
}

/// Whether two objects differ in nothing but `managedFields`.
pub(super) fn same_apart_from_owners(left: &Value, right: &Value) -> bool {
    let (Value::Object(left), Value::Object(right)) = (left, right) else { return left == right };
    let same = |(name, left): (&String, &Value)| match (left, right.get(name)) {
        (Value::Object(left), Some(Value::Object(right))) if name == "metadata" => {
            let count = |fields: &Map<String, Value>| {
                fields.len() - usize::from(fields.contains_key("managedFields"))
            };
            count(left) == count(right)
                && left.iter().all(|(name, left)| name == "managedFields" || right.get(name) == Some(left))
        }
        (left, right) => right == Some(left),
    };
    left.len() == right.len() && left.iter().all(same)
}

/// The name of a manager: the one given, or else what the user agent starts with.
pub fn manager_name(given: &str, user_agent: &str) -> String {
    /// The longest name, in bytes.
    const MAX: usize = 128;
    if !given.is_empty() {
        return given.to_owned();
    }
    let mut name: String =
        user_agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    while name.len() > MAX {
        name.pop();
    }
    name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, time: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
               "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn entries_come_in_the_order_of_the_api() {
        let (early, late) = ("2026-11-15T19:10:41Z", "2026-11-15T19:10:42Z");
        let a = json!({"f:a": {}});
        let ordered = json!([
            entry("z", "Apply", early, a.clone()),
            entry("a", "Apply", late, a.clone()),
            entry("b", "Apply", late, a.clone()),
            entry("a", "Update", early, a.clone()),
        ]);
        let mut shuffled = ordered.clone();
        shuffled.as_array_mut().unwrap().reverse();
        assert_eq!(ManagedFields::decode(&shuffled).unwrap().encode(), ordered);
    }

    #[test]
    fn unreadable_entries_say_what_is_wrong() {
        let cases = [
            (json!({}), "managedFields must be a list of entries"),
            (json!([1]), "managedFields must be a list of entries"),
            (json!([{"operation": "Delete"}]), "operation must be `Apply` or `Update`"),
            (json!([{"operation": "Apply"}]), "apiVersion must not be empty"),
            (
                json!([{"operation": "Apply", "apiVersion": "v1"}]),
                "missing fieldsType in managed fields entry 0",
            ),
            (
                json!([{"operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"}]),
                "invalid fieldsType \"V2\" in managed fields entry 0",
            ),
            (
                json!([{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}]),
                "managed fields entry 0: not a path element: \"x\"",
            ),
        ];
        for (entries, message) in cases {
            assert_eq!(ManagedFields::decode(&entries).unwrap_err().to_string(), message);
        }
        let deep = depth::hostile::nested(10_000);
        assert_eq!(ManagedFields::decode(&deep), Err(ManagedFieldsError::TooDeep(TooDeep)));
        depth::hostile::dismantle(deep);
    }

    #[test]
    fn the_oldest_updaters_beyond_ten_are_merged_by_version() {
        let mut managed = ManagedFields::default();
        for number in 0..12 {
            let version = if number == 1 { "v2" } else { "v1" };
            let fields = Set::from_fields_v1(&json!({format!("f:f{number}"): {}})).unwrap();
            let time = Some(Timestamp::from_unix_seconds(number));
            managed.managers.insert(
                Manager::updater(&format!("m{number:02}"), version, ""),
                Ownership { fields, api_version: version.into(), time },
            );
        }
        managed.cap_updaters();
        assert_eq!(managed.managers.len(), 10);
        let bucket = &managed.managers[&Manager::updater("ancient-changes", "v1", "")];
        assert_eq!(bucket.fields.to_fields_v1(), json!({"f:f0": {}, "f:f2": {}, "f:f3": {}}));
        assert_eq!(bucket.time, Some(Timestamp::from_unix_seconds(3)));
        assert!(managed.managers.contains_key(&Manager::updater("m01", "v2", "")));
    }

    #[test]
    fn only_timestamps_may_differ_for_a_write_to_be_none() {
        let object = |time: &str, fields: Value, spec: i64| json!({"metadata": {"managedFields": [entry("m", "Apply", time, fields)]}, "spec": spec});
        let a = json!({"f:a": {}});
        let old = object("2026-11-15T19:10:41Z", a.clone(), 1);
        let mut same = object("2026-11-15T20:00:00Z", a.clone(), 1);
        assert!(settle_timestamps(&old, &mut same));
        assert_eq!(same, old);
        for mut other in
            [object("2026-11-15T20:00:00Z", a, 2), object("2026-11-15T20:00:00Z", json!({"f:b": {}}), 1)]
        {
            let before = other.clone();
            assert!(!settle_timestamps(&old, &mut other));
            assert_eq!(other, before);
        }
    }

    #[test]
    fn a_manager_without_a_name_is_named_by_its_user_agent() {
        assert_eq!(manager_name("m", "curl/8"), "m");
        assert_eq!(manager_name("", "curl/8.0 (linux)"), "curl");
        assert_eq!(manager_name("", "a\u{1}b"), "ab");
        assert_eq!(manager_name("", &"é".repeat(100)).len(), 128);
        assert_eq!(manager_name("", ""), "");
    }

    #[test]
    fn an_empty_list_or_entry_is_a_reset() {
        let reset = |entries: Value| is_reset(&json!({"metadata": {"managedFields": entries}}));
        assert!(reset(json!([])));
        assert!(reset(json!([{}])));
        assert!(!reset(json!([{}, {}])));
        assert!(!reset(json!([{"manager": "m"}])));
        assert!(!reset(json!(null)));
        assert!(!is_reset(&json!({})));
    }
}
