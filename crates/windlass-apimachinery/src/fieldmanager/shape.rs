//! What the field manager needs to know of a schema: which lists and maps merge, and by what.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::names::Names;
use crate::schema::{Additional, ListType, Schema, Type};

/// The shape of a value.
#[derive(Debug, Clone)]
pub enum Shape {
    /// A string, number or boolean.
    Scalar(ScalarType),
    /// A list.
    List(ListShape),
    /// An object or a map.
    Map(MapShape),
    /// Whatever the value is.
    Deduced(Deduced),
}

/// What a scalar may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarType {
    /// A string.
    Text,
    /// A number.
    Number,
    /// A boolean.
    Flag,
    /// Any of them.
    Any,
}

/// How values without a schema are treated. Their lists are atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deduced {
    /// Objects are maps: their keys are owned one by one, and owned as keys.
    Map,
    /// Objects are structs: their fields are owned one by one, but a field that contains others is
    /// not owned for itself. What the built-in kinds are, except where a table says otherwise.
    Struct,
}

/// A list.
#[derive(Debug, Clone)]
pub struct ListShape {
    /// What its elements are.
    pub item: Arc<Shape>,
    /// How its elements are told apart.
    pub list_type: ListType,
}

/// An object or a map.
#[derive(Debug, Clone, Default)]
pub struct MapShape {
    /// The declared fields.
    pub fields: Names<Field>,
    /// What undeclared keys hold; without it there are none.
    pub others: Option<Arc<Shape>>,
    /// Whether it is owned as one value.
    pub atomic: bool,
    /// Whether undeclared keys count as declared fields.
    pub others_are_fields: bool,
}

/// A declared field.
#[derive(Debug, Clone)]
pub struct Field {
    /// What it holds.
    pub shape: Arc<Shape>,
    /// What it holds when it is absent; matters for the keys of a list.
    pub default: Option<Value>,
}

impl Field {
    /// A field without a default.
    pub fn new(shape: Shape) -> Self {
        Field { shape: Arc::new(shape), default: None }
    }
}

impl Shape {
    /// The shape of the objects that a CRD's schema describes.
    pub fn of_resource(schema: &Schema) -> Shape {
        resource(schema)
    }
}

/// The built-in shape of `metadata`.
pub fn object_meta() -> Arc<Shape> {
    Arc::clone(&OBJECT_META)
}

static OBJECT_META: LazyLock<Arc<Shape>> = LazyLock::new(|| {
    let text = || Shape::Scalar(ScalarType::Text);
    let texts = || Shape::Map(MapShape { others: Some(Arc::new(text())), ..MapShape::default() });
    let fields = [
        ("annotations", texts()),
        ("creationTimestamp", text()),
        ("deletionGracePeriodSeconds", Shape::Scalar(ScalarType::Number)),
        ("deletionTimestamp", text()),
        ("finalizers", Shape::List(ListShape { item: Arc::new(text()), list_type: ListType::Set })),
        ("generateName", text()),
        ("generation", Shape::Scalar(ScalarType::Number)),
        ("labels", texts()),
        ("managedFields", atomic_list()),
        ("name", text()),
        ("namespace", text()),
        ("ownerReferences", owner_references()),
        ("resourceVersion", text()),
        ("selfLink", text()),
        ("uid", text()),
    ];
    let fields = fields.map(|(name, shape)| (name.to_owned(), Field::new(shape)));
    Arc::new(Shape::Map(MapShape { fields: fields.into(), ..MapShape::default() }))
});

fn owner_references() -> Shape {
    let fields = [
        ("apiVersion", ScalarType::Text),
        ("blockOwnerDeletion", ScalarType::Flag),
        ("controller", ScalarType::Flag),
        ("kind", ScalarType::Text),
        ("name", ScalarType::Text),
        ("uid", ScalarType::Text),
    ];
    let fields = fields.map(|(name, ty)| (name.to_owned(), Field::new(Shape::Scalar(ty))));
    // Owned as a whole: half an owner reference makes no sense.
    let item = MapShape { fields: fields.into(), atomic: true, ..MapShape::default() };
    Shape::List(ListShape { item: Arc::new(Shape::Map(item)), list_type: ListType::Map(vec!["uid".into()]) })
}

fn atomic_list() -> Shape {
    Shape::List(ListShape { item: Arc::new(Shape::Deduced(Deduced::Map)), list_type: ListType::Atomic })
}

/// A whole object: what the schema says, and what every object has.
fn resource(schema: &Schema) -> Shape {
    let mut map = map(schema);
    for name in ["apiVersion", "kind"] {
        map.fields.insert(name.into(), Field::new(Shape::Scalar(ScalarType::Text)));
    }
    map.fields.insert("metadata".into(), Field { shape: object_meta(), default: None });
    Shape::Map(map)
}

fn value(schema: &Schema) -> Shape {
    if schema.int_or_string {
        return Shape::Scalar(ScalarType::Any);
    }
    match schema.ty {
        Some(Type::String) => Shape::Scalar(ScalarType::Text),
        Some(Type::Integer | Type::Number) => Shape::Scalar(ScalarType::Number),
        Some(Type::Boolean) => Shape::Scalar(ScalarType::Flag),
        Some(Type::Array) => Shape::List(ListShape {
            item: Arc::new(schema.items.as_deref().map_or(Shape::Deduced(Deduced::Map), value)),
            list_type: schema.list_type.clone().unwrap_or(ListType::Atomic),
        }),
        Some(Type::Object) if schema.embedded_resource => resource(schema),
        Some(Type::Object) => Shape::Map(map(schema)),
        None => Shape::Deduced(Deduced::Map),
    }
}

fn map(schema: &Schema) -> MapShape {
    let field = |schema: &Schema| Field { shape: Arc::new(value(schema)), default: schema.default.clone() };
    let fields: Names<Field> =
        schema.properties.iter().map(|(name, schema)| (name.clone(), field(schema))).collect();
    let anything = || Some(Arc::new(Shape::Deduced(Deduced::Map)));
    let others = match &schema.additional {
        Some(Additional::Schema(schema)) => Some(Arc::new(value(schema))),
        Some(Additional::Anything) => anything(),
        // An object of which nothing is said may hold anything.
        None if schema.preserve_unknown || fields.is_empty() => anything(),
        None => None,
    };
    MapShape { fields, others, atomic: schema.atomic_map, others_are_fields: false }
}
