//! Validation of values against a schema, with the API server's paths and words.

use serde_json::{Map, Number, Value};

use super::format;
use super::listtype;
use super::ratchet;
use super::structural::{Additional, Checks, Schema, Type};
use crate::cause::{self, Cause, FieldPath, NO_FIELD};
use crate::json::{self, type_name};
use windlass_patch::depth;

impl Schema {
    /// Everything wrong with an object, the schema's types and constraints first, then duplicates in
    /// sets and maps. Validation rules are [`Rules`](super::Rules)' business.
    ///
    /// With `old`, what the update leaves as it was is not held against it: a stored object may have
    /// become invalid because its schema changed.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        if let Err(error) = depth::check(object) {
            return vec![Cause::invalid_unprinted(NO_FIELD, error)];
        }
        let mut walk = Walk::default();
        walk.value(object, old, self);
        let mut causes = walk.causes;
        let duplicates = listtype::check(object, self);
        // Duplicates that were there before are tolerated as a whole, not one by one.
        if !duplicates.is_empty() && old.is_none_or(|old| listtype::check(old, self).is_empty()) {
            causes.extend(duplicates.into_iter().take(MAX_CAUSES));
        }
        causes
    }

    /// What is wrong with a value that stands at `path`.
    pub(super) fn validate_at(&self, value: &Value, path: &str) -> Vec<Cause> {
        let mut walk = Walk { path: FieldPath::new(path), ..Walk::default() };
        walk.value(value, None, self);
        walk.causes
    }
}

/// The most causes that are reported. A large object can be wrong in a million places, and the answer
/// must not be a hundred times as long as the request; a user corrects no more at a time.
const MAX_CAUSES: usize = 1_000;

#[derive(Default)]
struct Walk {
    path: FieldPath,
    causes: Vec<Cause>,
}

impl Walk {
    /// A value, and the value it replaces if that can be told.
    fn value(&mut self, value: &Value, old: Option<&Value>, schema: &Schema) {
        if old.is_some_and(|old| json::equal(old, value)) {
            return;
        }
        self.ty(value, schema);
        if value.is_null() {
            self.allowed(value, &schema.checks);
            return;
        }
        self.junctors(value, &schema.checks);
        match value {
            Value::String(text) => self.string(text, schema),
            Value::Number(number) => self.number(number, schema),
            Value::Array(items) => self.array(items, old, schema),
            _ => {}
        }
        self.allowed(value, &schema.checks);
        if let Value::Object(fields) = value {
            self.object(fields, old, schema);
        }
    }

    fn push(&mut self, cause: Cause) {
        if self.causes.len() < MAX_CAUSES {
            self.causes.push(cause);
        }
    }

    fn refuse(&mut self, value: impl Into<Value>, detail: impl std::fmt::Display) {
        let detail = format!("{} in body {detail}", self.path.as_str());
        self.push(Cause::invalid(self.path.field(), &value.into(), detail));
    }

    /// A refusal that names its place in the text, because the API server has no field for it.
    fn refuse_whole(&mut self, detail: String) {
        self.push(Cause::invalid(NO_FIELD, &Value::from(""), detail));
    }

    fn ty(&mut self, value: &Value, schema: &Schema) {
        let expected = match schema.ty {
            _ if schema.int_or_string => "integer,string",
            Some(ty) => ty.as_str(),
            None => return,
        };
        let fits = match value {
            Value::Null => schema.nullable,
            Value::Number(number) if json::is_whole(number) => {
                schema.int_or_string || matches!(schema.ty, Some(Type::Integer | Type::Number))
            }
            Value::String(_) if schema.int_or_string => true,
            _ => schema.ty.is_some_and(|ty| ty.as_str() == type_name(value)),
        };
        if !fits {
            let found = type_name(value);
            let detail = format!("{} in body must be of type {expected}: \"{found}\"", self.path.as_str());
            self.push(Cause::type_invalid(self.path.field(), &Value::from(found), detail));
        }
    }

    fn allowed(&mut self, value: &Value, checks: &Checks) {
        if checks.allowed.is_empty() || checks.allowed.iter().any(|allowed| json::equal(allowed, value)) {
            return;
        }
        let supported: Vec<String> = checks
            .allowed
            .iter()
            .map(|allowed| allowed.as_str().map_or_else(|| allowed.to_string(), str::to_owned))
            .collect();
        self.push(Cause::not_supported(self.path.field(), value, &supported));
    }

    fn string(&mut self, text: &str, schema: &Schema) {
        let checks = &schema.checks;
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = checks.max_length.filter(|max| length() > *max) {
            self.push(Cause::too_long(self.path.field(), max));
        } else if let Some(min) = checks.min_length.filter(|min| length() < *min) {
            self.refuse(text, format!("should be at least {min} chars long"));
        } else if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            self.refuse(text, format!("should match '{}'", pattern.source()));
        }
        let is_text = matches!(schema.ty, None | Some(Type::String)) && !schema.int_or_string;
        if let Some(name) = checks.format.as_deref().filter(|_| is_text)
            && format::conforms(name, text) == Some(false)
        {
            let detail =
                format!("{} in body must be of type {name}: {}", self.path.as_str(), cause::quote(text));
            self.push(Cause::type_invalid(self.path.field(), &Value::from(text), detail));
        }
    }

    fn number(&mut self, number: &Number, schema: &Schema) {
        let checks = &schema.checks;
        if checks.format.as_deref() == Some("int32") && schema.ty == Some(Type::Integer) {
            let fits = number.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
            if !fits && json::is_whole(number) {
                self.refuse_whole(format!(
                    "Checked value must be of type integer with format int32 in {}",
                    self.path.as_str()
                ));
            }
        }
        let shown = || Value::Number(number.clone());
        if let Some(factor) = checks.multiple_of
            && !is_multiple(number, factor)
        {
            self.refuse(shown(), format!("should be a multiple of {}", cause::float(factor)));
        }
        if let Some(max) = checks.maximum {
            let order = json::compare(&shown(), &Value::from(max));
            if checks.exclusive_maximum && order.is_ge() {
                self.refuse(shown(), format!("should be less than {}", cause::float(max)));
            } else if order.is_gt() {
                self.refuse(shown(), format!("should be less than or equal to {}", cause::float(max)));
            }
        }
        if let Some(min) = checks.minimum {
            let order = json::compare(&shown(), &Value::from(min));
            if checks.exclusive_minimum && order.is_le() {
                self.refuse(shown(), format!("should be greater than {}", cause::float(min)));
            } else if order.is_lt() {
                self.refuse(shown(), format!("should be greater than or equal to {}", cause::float(min)));
            }
        }
    }

    fn array(&mut self, items: &[Value], old: Option<&Value>, schema: &Schema) {
        if let Some(item_schema) = &schema.items {
            let correlated = ratchet::Items::new(old, schema);
            for (index, item) in items.iter().enumerate() {
                let mark = self.path.push_index(index);
                self.value(item, correlated.for_validation(index, item), item_schema);
                self.path.pop(mark);
            }
        }
        let checks = &schema.checks;
        let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = checks.min_items.filter(|min| count < *min) {
            self.refuse(count, format!("should have at least {min} items"));
        }
        if let Some(max) = checks.max_items.filter(|max| count > *max) {
            self.push(Cause::too_many(self.path.field(), items.len(), max));
        }
        if checks.unique_items && !listtype::duplicates(items.iter()).is_empty() {
            self.refuse("", "shouldn't contain duplicates");
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, old: Option<&Value>, schema: &Schema) {
        let checks = &schema.checks;
        let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        // As in the API server, an object with too few or too many fields is not looked into.
        if let Some(min) = checks.min_properties.filter(|min| count < *min) {
            self.refuse(min, format!("should have at least {min} properties"));
            return;
        }
        if let Some(max) = checks.max_properties.filter(|max| count > *max) {
            self.push(Cause::too_many(self.path.field(), fields.len(), max));
            return;
        }
        let old_field = |name: &str| old.and_then(|old| old.get(name));
        if let Some(Additional::Schema(additional)) = &schema.additional {
            for (name, field) in fields.iter().filter(|(name, _)| !schema.properties.contains_key(name)) {
                let mark = self.path.push(name);
                self.value(field, old_field(name), additional);
                self.path.pop(mark);
            }
        }
        for (name, field_schema) in &schema.properties {
            if let Some(field) = fields.get(name) {
                let mark = self.path.push(name);
                self.value(field, old_field(name), field_schema);
                self.path.pop(mark);
            }
        }
        for name in checks.required.iter().filter(|name| !fields.contains_key(*name)) {
            self.push(Cause::required(self.path.join(name), ""));
        }
    }

    fn junctors(&mut self, value: &Value, checks: &Checks) {
        if !checks.any_of.is_empty() {
            let outcomes = self.outcomes(value, &checks.any_of);
            if outcomes.iter().all(|causes| !causes.is_empty()) {
                let path = cause::quote(self.path.as_str());
                self.refuse_whole(format!("{path} must validate at least one schema (anyOf)"));
                nearest(outcomes).into_iter().for_each(|cause| self.push(cause));
            }
        }
        if !checks.one_of.is_empty() {
            let outcomes = self.outcomes(value, &checks.one_of);
            let valid = outcomes.iter().filter(|causes| causes.is_empty()).count();
            let path = cause::quote(self.path.as_str());
            if valid == 0 {
                self.refuse_whole(format!(
                    "{path} must validate one and only one schema (oneOf). Found none valid"
                ));
                nearest(outcomes).into_iter().for_each(|cause| self.push(cause));
            } else if valid > 1 {
                self.refuse_whole(format!(
                    "{path} must validate one and only one schema (oneOf). Found {valid} valid alternatives"
                ));
            }
        }
        if !checks.all_of.is_empty() {
            let outcomes = self.outcomes(value, &checks.all_of);
            let failed = outcomes.iter().filter(|causes| !causes.is_empty()).count();
            let none = if failed == outcomes.len() { ". None validated" } else { "" };
            outcomes.into_iter().flatten().for_each(|cause| self.push(cause));
            if failed > 0 {
                let path = cause::quote(self.path.as_str());
                self.refuse_whole(format!("{path} must validate all the schemas (allOf){none}"));
            }
        }
        if let Some(not) = &checks.not
            && self.outcomes(value, std::slice::from_ref(not.as_ref())).iter().all(Vec::is_empty)
        {
            let path = cause::quote(self.path.as_str());
            self.refuse_whole(format!("{path} must not validate the schema (not)"));
        }
    }

    /// What each branch has against the value. Branches are never compared with the old value.
    fn outcomes(&self, value: &Value, branches: &[Schema]) -> Vec<Vec<Cause>> {
        let outcome = |branch: &Schema| {
            let mut walk = Walk { path: self.path.clone(), causes: Vec::new() };
            walk.value(value, None, branch);
            walk.causes
        };
        branches.iter().map(outcome).collect()
    }
}

/// Of several alternatives that all fail, the complaints of the one that complains least: most
/// likely the one that was meant.
fn nearest(outcomes: Vec<Vec<Cause>>) -> Vec<Cause> {
    outcomes.into_iter().min_by_key(Vec::len).unwrap_or_default()
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    if let (Some(integer), true) = (number.as_i64(), factor.fract() == 0.0 && factor != 0.0) {
        return integer % (factor as i64) == 0;
    }
    let value = number.as_f64().unwrap_or_default();
    // Dividing by a small fraction rounds badly; multiplying by its inverse less so.
    let quotient = if factor < 1.0 { value * (1.0 / factor) } else { value / factor };
    (quotient - quotient.round()).abs() < 1e-9
}
