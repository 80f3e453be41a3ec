//! The types of the built-in kinds: which fields they have, what those hold, how they merge, and their
//! numbers in protobuf.
//!
//! The tables are text, one type after the other:
//!
//! ```text
//! package io.k8s.api.core.v1
//!
//! ContainerPort # What stands here describes the type.
//!   3 containerPort int32 !
//!   4 protocol string =TCP
//! ```
//!
//! A field is its number (`-` if it has none), its name and its type: a scalar, a type of the table (of
//! another package as `core.Container` or `meta.ObjectMeta`), `[]T`, `{}T` for a map, `*T` if a zero is
//! different from nothing, `|T` for a `T` or anything else. `-` as the name puts the fields of the type
//! here. What follows: `!` required, `=x` a default, `atomic`, `set` and `map:keys` say who owns elements,
//! `merge:key` and `retainKeys` what strategic merge patches do.

mod check;
mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;
use windlass_api::api_version;

pub use check::{Misfit, tidy};

/// A type with fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Struct {
    /// `io.k8s.api.core.v1`
    pub package: &'static str,
    /// `Container`
    pub name: &'static str,
    /// What it is, as a sentence; empty for most types that are parts of others.
    pub description: &'static str,
    /// Whether it has one owner as a whole.
    pub atomic: bool,
    /// Its fields, in the order in which people read them.
    pub fields: Vec<Field>,
}

/// A field of a [`Struct`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its number in protobuf; `None` if it is never sent so.
    pub number: Option<u64>,
    /// Its name in JSON; `None` if the fields of its type stand here themselves.
    pub name: Option<&'static str>,
    /// What it holds.
    pub ty: Type,
    /// Whether a zero says something else than nothing.
    pub pointer: bool,
    /// Whether it must be there.
    pub required: bool,
    /// What it is if it is not there, as far as telling elements of lists apart depends on it.
    pub default: Option<&'static str>,
    /// Who owns elements of a list or map.
    pub elements: Elements,
    /// What a strategic merge patch does.
    pub patch: Patch,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// A string.
    Text,
    /// A number of 32 bits.
    Int32,
    /// A number of 64 bits.
    Int64,
    /// A number that need not be whole.
    Float,
    /// True or false.
    Flag,
    /// Bytes, as base64 in JSON.
    Bytes,
    /// A time with seconds.
    Time,
    /// A time with microseconds.
    MicroTime,
    /// A length of time, as text.
    Duration,
    /// A number with a unit.
    Quantity,
    /// A number or a text.
    IntOrString,
    /// Any object, wrapped into a message in protobuf.
    Raw,
    /// Who owns which fields, wrapped like [`Type::Raw`].
    Fields,
    /// A list of texts that is a message in protobuf.
    Texts,
    /// Any JSON.
    Any,
    /// A type of the catalogue.
    Struct(StructId),
    /// Such a type, or something else.
    StructOrAny(StructId),
    /// A list.
    List(Box<Type>),
    /// A map from texts.
    Map(Box<Type>),
}

/// Who owns the elements of a list or map.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Elements {
    /// Nothing is said: lists as a whole, maps by key.
    #[default]
    Unsaid,
    /// One owner as a whole.
    Atomic,
    /// Scalars, each with an owner.
    Set,
    /// Elements that are told apart by keys.
    Keyed(Vec<&'static str>),
}

/// What a strategic merge patch does with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Patch {
    /// Whether a list is merged, and by which key; scalars have none.
    pub merge: Option<Option<&'static str>>,
    /// Whether only one of the fields may be left.
    pub retain_keys: bool,
}

/// Names a [`Struct`] of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StructId(usize);

/// All types.
#[derive(Debug, Default)]
pub struct Catalogue {
    structs: Vec<Struct>,
    /// By package and name.
    places: BTreeMap<(&'static str, &'static str), StructId>,
}

/// The types of all built-in kinds.
pub fn catalogue() -> &'static Catalogue {
    // The tables are part of the program; a test reads them all.
    static ALL: LazyLock<Catalogue> = LazyLock::new(|| table::read(table::TABLES).unwrap_or_default());
    &ALL
}

impl Catalogue {
    /// The type of a built-in kind.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<StructId> {
        let (group, version) = api_version::split(api_version);
        let group = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
        let package = self.packages().find(|package| {
            let mut parts = package.rsplit('.');
            parts.next() == Some(version) && parts.next() == Some(group)
        })?;
        self.find(package, kind)
    }

    /// A type by its package and its name.
    pub fn find(&self, package: &str, name: &str) -> Option<StructId> {
        self.places.get(&(package, name)).copied()
    }

    /// A type.
    pub fn get(&self, id: StructId) -> &Struct {
        &self.structs[id.0]
    }

    /// All types, in the order of their packages.
    pub fn all(&self) -> impl Iterator<Item = (StructId, &Struct)> {
        self.structs.iter().enumerate().map(|(place, known)| (StructId(place), known))
    }

    /// The packages.
    pub fn packages(&self) -> impl Iterator<Item = &'static str> {
        let mut packages: Vec<&'static str> = self.structs.iter().map(|known| known.package).collect();
        packages.dedup();
        packages.into_iter()
    }

    /// The fields of a type as JSON has them, with those that stand in for others.
    pub fn fields(&self, id: StructId) -> Vec<(&'static str, &Field)> {
        let mut fields = Vec::new();
        for field in &self.get(id).fields {
            match (field.name, &field.ty) {
                (Some(name), _) => fields.push((name, field)),
                (None, Type::Struct(inner)) => fields.extend(self.fields(*inner)),
                (None, _) => {}
            }
        }
        fields
    }

    /// A field by its name in JSON.
    pub fn field(&self, id: StructId, wanted: &str) -> Option<&Field> {
        self.get(id).fields.iter().find_map(|field| match (field.name, &field.ty) {
            (Some(name), _) => (name == wanted).then_some(field),
            (None, Type::Struct(inner)) => self.field(*inner, wanted),
            (None, _) => None,
        })
    }
}

impl Struct {
    /// `io.k8s.api.core.v1.Container`
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.package, self.name)
    }
}
