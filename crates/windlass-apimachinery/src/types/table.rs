//! Reads the tables.

use super::{Catalogue, Elements, Field, Patch, Struct, StructId, Type};

/// The tables, `meta` and `core` under the names that others refer to them by.
pub(super) const TABLES: &[(&str, &str)] = &[
    ("meta", include_str!("tables/meta.txt")),
    ("core", include_str!("tables/core.txt")),
    ("", include_str!("tables/admissionregistration_v1.txt")),
    ("", include_str!("tables/apiextensions_v1.txt")),
    ("", include_str!("tables/apiregistration_v1.txt")),
    ("", include_str!("tables/apps_v1.txt")),
    ("", include_str!("tables/authentication_v1.txt")),
    ("", include_str!("tables/authorization_v1.txt")),
    ("", include_str!("tables/autoscaling_v1.txt")),
    ("", include_str!("tables/autoscaling_v2.txt")),
    ("", include_str!("tables/batch_v1.txt")),
    ("", include_str!("tables/certificates_v1.txt")),
    ("", include_str!("tables/coordination_v1.txt")),
    ("", include_str!("tables/discovery_v1.txt")),
    ("", include_str!("tables/events_v1.txt")),
    ("", include_str!("tables/networking_v1.txt")),
    ("", include_str!("tables/node_v1.txt")),
    ("", include_str!("tables/policy_v1.txt")),
    ("", include_str!("tables/rbac_v1.txt")),
    ("", include_str!("tables/scheduling_v1.txt")),
    ("", include_str!("tables/storage_v1.txt")),
];

/// A line of a table that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{package}: cannot read {line:?}")]
pub(super) struct Unreadable {
    package: &'static str,
    line: &'static str,
}

/// Reads tables that may refer to each other.
pub(super) fn read(tables: &[(&'static str, &'static str)]) -> Result<Catalogue, Unreadable> {
    let mut catalogue = Catalogue::default();
    let mut short_names: Vec<(&str, &'static str)> = Vec::new();
    // Names first: types refer to each other in any order.
    for (short, table) in tables {
        let package = package_of(table);
        short_names.push((short, package));
        for line in table.lines().skip(1).filter(|line| !line.starts_with(' ') && !line.is_empty()) {
            let (head, description) = line.split_once(" # ").unwrap_or((line, ""));
            let mut words = head.split_whitespace();
            let name = words.next().ok_or(Unreadable { package, line })?;
            let id = StructId(catalogue.structs.len());
            catalogue.places.insert((package, name), id);
            let atomic = words.next() == Some("atomic");
            catalogue.structs.push(Struct { package, name, description, atomic, fields: Vec::new() });
        }
    }
    for (_, table) in tables {
        let package = package_of(table);
        let mut at = None;
        for line in table.lines().skip(1).filter(|line| !line.is_empty()) {
            if line.starts_with(' ') {
                let names = Names { catalogue: &catalogue, short: &short_names, package };
                let field = names.field(line).ok_or(Unreadable { package, line })?;
                let StructId(place) = at.ok_or(Unreadable { package, line })?;
                catalogue.structs[place].fields.push(field);
            } else {
                let name = line.split_whitespace().next().unwrap_or_default();
                at = catalogue.places.get(&(package, name)).copied();
            }
        }
    }
    Ok(catalogue)
}

fn package_of(table: &'static str) -> &'static str {
    table.lines().next().and_then(|line| line.strip_prefix("package ")).unwrap_or_default()
}

struct Names<'a> {
    catalogue: &'a Catalogue,
    short: &'a [(&'a str, &'static str)],
    package: &'static str,
}

impl Names<'_> {
    fn field(&self, line: &'static str) -> Option<Field> {
        let mut words = line.split_whitespace();
        let number = match words.next()? {
            "-" => None,
            number => Some(number.parse().ok()?),
        };
        let name = Some(words.next()?).filter(|name| *name != "-");
        let ty = words.next()?;
        let (pointer, ty) = ty.strip_prefix('*').map_or((false, ty), |ty| (true, ty));
        let mut field = Field {
            number,
            name,
            ty: self.ty(ty)?,
            pointer,
            required: false,
            default: None,
            elements: Elements::Unsaid,
            patch: Patch::default(),
        };
        for word in words {
            match word {
                "!" => field.required = true,
                "inline" => field.name = None,
                "atomic" => field.elements = Elements::Atomic,
                "set" => field.elements = Elements::Set,
                "merge" => field.patch.merge = Some(None),
                "retainKeys" => field.patch.retain_keys = true,
                word => {
                    if let Some(keys) = word.strip_prefix("map:") {
                        field.elements = Elements::Keyed(keys.split(',').collect());
                    } else if let Some(key) = word.strip_prefix("merge:") {
                        field.patch.merge = Some(Some(key));
                    } else {
                        field.default = Some(word.strip_prefix('=')?);
                    }
                }
            }
        }
        Some(field)
    }

    fn ty(&self, text: &'static str) -> Option<Type> {
        if let Some(item) = text.strip_prefix("[]") {
            return Some(Type::List(Box::new(self.ty(item.trim_start_matches('*'))?)));
        }
        if let Some(item) = text.strip_prefix("{}") {
            return Some(Type::Map(Box::new(self.ty(item.trim_start_matches('*'))?)));
        }
        if let Some(name) = text.strip_prefix('|') {
            return self.reference(name).map(Type::StructOrAny);
        }
        Some(match text {
            "string" => Type::Text,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "float64" => Type::Float,
            "bool" => Type::Flag,
            "bytes" => Type::Bytes,
            "time" => Type::Time,
            "microtime" => Type::MicroTime,
            "duration" => Type::Duration,
            "quantity" => Type::Quantity,
            "intstr" => Type::IntOrString,
            "raw" => Type::Raw,
            "fields" => Type::Fields,
            "texts" => Type::Texts,
            "any" => Type::Any,
            name => Type::Struct(self.reference(name)?),
        })
    }

    fn reference(&self, name: &'static str) -> Option<StructId> {
        let (package, name) = match name.split_once('.') {
            Some((short, name)) => (self.short.iter().find(|(known, _)| *known == short)?.1, name),
            None => (self.package, name),
        };
        self.catalogue.places.get(&(package, name)).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::catalogue;
    use super::*;

    #[test]
    fn every_line_of_every_table_can_be_read() {
        let read = read(TABLES).unwrap();
        assert!(read.structs.len() > 350, "{}", read.structs.len());
        assert_eq!(read.structs.len(), read.places.len(), "a type stands in a table twice");
    }

    #[test]
    fn no_type_has_a_name_or_a_number_twice() {
        for (id, known) in catalogue().all() {
            let names: Vec<_> = catalogue().fields(id).into_iter().map(|(name, _)| name).collect();
            let distinct: BTreeSet<_> = names.iter().collect();
            assert_eq!(names.len(), distinct.len(), "{}", known.full_name());
            let numbers: Vec<_> = known.fields.iter().filter_map(|field| field.number).collect();
            let distinct: BTreeSet<_> = numbers.iter().collect();
            assert_eq!(numbers.len(), distinct.len(), "{}", known.full_name());
        }
    }

    #[test]
    fn keys_of_lists_are_fields_of_their_elements() {
        for (_, known) in catalogue().all() {
            for field in &known.fields {
                let Elements::Keyed(keys) = &field.elements else { continue };
                let Type::List(item) = &field.ty else { panic!("{field:?} is not a list") };
                let Type::Struct(item) = **item else { panic!("{field:?} is not a list of structs") };
                for key in keys {
                    assert!(catalogue().field(item, key).is_some(), "{}: {key}", known.full_name());
                }
            }
        }
    }

    #[test]
    fn kinds_are_found_by_their_group_and_version() {
        let name = |version: &str, kind: &str| {
            catalogue().kind(version, kind).map(|id| catalogue().get(id).full_name())
        };
        assert_eq!(name("v1", "Pod").as_deref(), Some("io.k8s.api.core.v1.Pod"));
        assert_eq!(name("rbac.authorization.k8s.io/v1", "Role").as_deref(), Some("io.k8s.api.rbac.v1.Role"));
        assert_eq!(name("apps/v2", "Deployment"), None);
        assert_eq!(name("v1", "Deployment"), None);
    }
}
