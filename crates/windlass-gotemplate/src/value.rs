//! Values while a template is evaluated, and what keeps them bounded.
//!
//! They know the Go type that they have upstream: it decides how a value is printed, what it can be compared with and
//! which functions take it. Maps are shared, as in Go: `set` changes the map that others hold.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::dates::Time;
use super::semver::Version;

/// One string is at most this long, and so is the output: templates are evaluated in every reconcile.
pub(crate) const MAX_STRING: usize = 1 << 20;

/// How deep values, blocks and calls of templates may be nested. All of them are walked recursively.
pub(crate) const MAX_DEPTH: usize = 100;

/// What one rendering may do: evaluated nodes, compared values and made bytes count one each, made items of lists
/// eight, entries of maps sixteen. A loop in a class costs some tenths of a second and some megabytes at most.
pub(crate) const MAX_WORK: usize = 4 << 20;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// What a missing key comes to.
    Missing,
    /// `null` in a document, or the `nil` that a function returned.
    Nil,
    Bool(bool),
    Integer(i64, Integer),
    /// A whole number of a document. Go makes a float64 of it; here it may also stand where an integer is needed.
    Whole(i64),
    Float(f64),
    String(Rc<str>),
    List(List),
    Map(MapId),
    Version(Rc<Version>),
    Time(Time),
}

/// Go types of integers that templates can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integer {
    Int,
    Int64,
    Uint64,
    Uint8,
}

/// A list. It never changes; functions make new ones.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) items: Rc<[Value]>,
    pub(crate) element: Element,
    /// A nil slice is printed as `[]`, and is `null` in JSON.
    pub(crate) nil: bool,
    depth: usize,
}

/// Go types of the elements of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Any,
    String,
    Int,
    List,
}

/// A map on the [`Heap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapId(usize);

/// The entries of a map.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) entries: BTreeMap<Rc<str>, Value>,
    /// Whether its Go type is `map[string]string`, which functions for dicts refuse.
    pub(crate) of_strings: bool,
}

/// All maps of one rendering, and what it may still do. Maps that contain themselves are possible and harmless: a
/// value refers to a map by its number, and what walks values stops at [`MAX_DEPTH`].
#[derive(Debug)]
pub(crate) struct Heap {
    maps: Vec<Map>,
    work: usize,
}

impl Heap {
    pub(crate) fn new() -> Self {
        Self { maps: Vec::new(), work: MAX_WORK }
    }

    /// Accounts for work before it is done.
    pub(crate) fn spend(&mut self, work: usize) -> Result<(), String> {
        match self.work.checked_sub(work) {
            Some(left) => {
                self.work = left;
                Ok(())
            }
            None => {
                self.work = 0;
                Err(format!("the template takes more than {MAX_WORK} steps"))
            }
        }
    }

    pub(crate) fn map(&self, id: MapId) -> &Map {
        &self.maps[id.0]
    }

    pub(crate) fn map_mut(&mut self, id: MapId) -> &mut Map {
        &mut self.maps[id.0]
    }

    pub(crate) fn new_map(&mut self, entries: BTreeMap<Rc<str>, Value>) -> MapId {
        self.maps.push(Map { entries, of_strings: false });
        MapId(self.maps.len() - 1)
    }

    pub(crate) fn new_map_of_strings(&mut self, entries: BTreeMap<Rc<str>, Value>) -> MapId {
        self.maps.push(Map { entries, of_strings: true });
        MapId(self.maps.len() - 1)
    }

    /// The value of a document. Its size is the caller's business; functions account for it.
    pub(crate) fn import(&mut self, document: &serde_json::Value, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(match document {
            serde_json::Value::Null => Value::Nil,
            serde_json::Value::Bool(value) => Value::Bool(*value),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Value::Whole(whole),
                (None, Some(float)) => document_float(float),
                (None, None) => return Err(format!("{number} is not a number")),
            },
            serde_json::Value::String(string) => Value::from(string.as_str()),
            serde_json::Value::Array(items) => {
                let items: Result<Vec<Value>, String> =
                    items.iter().map(|item| self.import(item, depth + 1)).collect();
                Value::list(items?)?
            }
            serde_json::Value::Object(map) => {
                let mut entries = BTreeMap::new();
                for (key, value) in map {
                    entries.insert(Rc::from(key.as_str()), self.import(value, depth + 1)?);
                }
                Value::Map(self.new_map(entries))
            }
        })
    }
}

fn document_float(float: f64) -> Value {
    // Beyond this, whole numbers are not exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= EXACT {
        Value::Whole(float as i64)
    } else {
        Value::Float(float)
    }
}

/// What is said of a value that has too many levels.
pub(crate) fn too_deep() -> String {
    format!("a value has more than {MAX_DEPTH} levels")
}

impl List {
    pub(crate) fn new(items: Vec<Value>, element: Element) -> Result<Self, String> {
        let depth = items.iter().map(|item| if let Value::List(list) = item { list.depth } else { 0 }).max();
        let depth = depth.unwrap_or(0) + 1;
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(Self { items: items.into(), element, nil: false, depth })
    }

    pub(crate) fn nil(element: Element) -> Self {
        Self { items: Rc::from([]), element, nil: true, depth: 1 }
    }
}

impl Value {
    pub(crate) fn int(value: i64) -> Self {
        Self::Integer(value, Integer::Int)
    }

    pub(crate) fn int64(value: i64) -> Self {
        Self::Integer(value, Integer::Int64)
    }

    /// The length of something, or a position in it.
    pub(crate) fn count(count: usize) -> Self {
        Self::int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(crate) fn list(items: Vec<Self>) -> Result<Self, String> {
        Ok(Self::List(List::new(items, Element::Any)?))
    }

    pub(crate) fn strings<S: Into<Rc<str>>>(items: impl IntoIterator<Item = S>) -> Result<Self, String> {
        let items = items.into_iter().map(|item| Self::String(item.into())).collect();
        Ok(Self::List(List::new(items, Element::String)?))
    }

    pub(crate) fn is_nil(&self) -> bool {
        matches!(self, Self::Missing | Self::Nil)
    }

    /// The name of its Go type.
    pub(crate) fn go_type(&self, heap: &Heap) -> &'static str {
        match self {
            Self::Missing | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Integer(_, integer) => integer.name(),
            Self::Whole(_) | Self::Float(_) => "float64",
            Self::String(_) => "string",
            Self::List(list) => match list.element {
                Element::Any => "[]interface {}",
                Element::String => "[]string",
                Element::Int => "[]int",
                Element::List => "[][]interface {}",
            },
            Self::Map(id) if heap.map(*id).of_strings => "map[string]string",
            Self::Map(_) => "map[string]interface {}",
            Self::Version(_) => "*semver.Version",
            Self::Time(_) => "time.Time",
        }
    }

    /// The name of its Go kind.
    pub(crate) fn go_kind(&self) -> &'static str {
        match self {
            Self::Missing | Self::Nil => "invalid",
            Self::Bool(_) => "bool",
            Self::Integer(_, integer) => integer.name(),
            Self::Whole(_) | Self::Float(_) => "float64",
            Self::String(_) => "string",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Version(_) => "ptr",
            Self::Time(_) => "struct",
        }
    }

    /// Whether a condition takes it for true.
    pub(crate) fn is_true(&self, heap: &Heap) -> bool {
        match self {
            Self::Missing | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Integer(value, _) | Self::Whole(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::String(value) => !value.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Map(id) => !heap.map(*id).entries.is_empty(),
            Self::Version(_) | Self::Time(_) => true,
        }
    }

    /// The work of making it, which stands for the memory that it takes.
    pub(crate) fn weight(&self, heap: &Heap) -> usize {
        match self {
            Self::String(value) => value.len(),
            Self::List(list) => 8 + 8 * list.items.len(),
            Self::Map(id) => 64 + 16 * heap.map(*id).entries.len(),
            _ => 1,
        }
    }
}

impl Integer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Uint8 => "uint8",
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.into())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::String(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// Whether two values are equal in type and contents, as Go's `reflect.DeepEqual` says.
pub(crate) fn deep_equal(heap: &mut Heap, left: &Value, right: &Value, depth: usize) -> Result<bool, String> {
    heap.spend(1)?;
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    Ok(match (left, right) {
        (Value::Missing | Value::Nil, Value::Missing | Value::Nil) => true,
        (Value::Bool(l), Value::Bool(r)) => l == r,
        (Value::Integer(l, left), Value::Integer(r, right)) => (l, left) == (r, right),
        // A whole number of a document is equal to an integer, too: upstream such a comparison is always false.
        (Value::Whole(l), Value::Integer(r, _)) | (Value::Integer(l, _), Value::Whole(r)) => l == r,
        (Value::Whole(l), Value::Whole(r)) => l == r,
        (Value::Whole(l), Value::Float(r)) | (Value::Float(r), Value::Whole(l)) => *l as f64 == *r,
        (Value::Float(l), Value::Float(r)) => l == r,
        (Value::String(l), Value::String(r)) => {
            heap.spend(l.len().min(r.len()) / 8)?;
            l == r
        }
        (Value::List(l), Value::List(r)) => {
            if (l.element, l.nil, l.items.len()) != (r.element, r.nil, r.items.len()) {
                return Ok(false);
            }
            for (l, r) in l.items.iter().zip(r.items.iter()) {
                if !deep_equal(heap, l, r, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(l), Value::Map(r)) => {
            if l == r {
                return Ok(true);
            }
            let (left, right) = (heap.map(*l), heap.map(*r));
            if left.of_strings != right.of_strings || !left.entries.keys().eq(right.entries.keys()) {
                return Ok(false);
            }
            let pairs: Vec<(Value, Value)> =
                left.entries.values().cloned().zip(right.entries.values().cloned()).collect();
            heap.spend(pairs.len())?;
            for (l, r) in &pairs {
                if !deep_equal(heap, l, r, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Version(l), Value::Version(r)) => l == r,
        (Value::Time(l), Value::Time(r)) => l == r,
        _ => false,
    })
}
