//! Structural schemas: the OpenAPI v3 of a CustomResourceDefinition, parsed into types.

use serde_json::{Map, Value};

use super::pattern::Pattern;
use super::wellformed;
use crate::cause::{Cause, FieldPath};
use crate::names::Names;
use windlass_patch::depth;

/// A structural schema, or one node of it.
///
/// The root describes a whole object. Whatever it says about `metadata`, the object's metadata has
/// the built-in schema as well.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// The JSON type; absent where anything goes and for int-or-string.
    pub ty: Option<Type>,
    /// Whether `null` is a value. Otherwise `null` means "not given".
    pub nullable: bool,
    /// The value an absent field takes.
    pub default: Option<Value>,
    /// The declared fields.
    pub properties: Names<Schema>,
    /// What undeclared fields may be; absent when there may be none.
    pub additional: Option<Additional>,
    /// The elements of an array.
    pub items: Option<Box<Schema>>,
    /// `x-kubernetes-preserve-unknown-fields`: undeclared fields are kept.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`: has apiVersion, kind and metadata of its own.
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`; absent means atomic.
    pub list_type: Option<ListType>,
    /// Whether this or anything inside it is a list whose elements are told apart.
    pub(super) tells_apart: bool,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic_map: bool,
    /// What a value must fulfil beyond its type.
    pub checks: Checks,
    /// `x-kubernetes-validations`, not compiled.
    pub rules: Vec<Rule>,
}

/// A JSON type as OpenAPI names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `object`
    Object,
    /// `array`
    Array,
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `boolean`
    Boolean,
}

impl Type {
    /// All types, in the order the API server lists them.
    pub(crate) const ALL: [Type; 6] =
        [Type::Array, Type::Boolean, Type::Integer, Type::Number, Type::Object, Type::String];

    /// The name in a schema.
    pub fn as_str(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Type> {
        Type::ALL.into_iter().find(|ty| ty.as_str() == name)
    }
}

/// What fields beyond the declared ones may hold.
#[derive(Debug, Clone)]
pub enum Additional {
    /// Anything.
    Anything,
    /// What the schema describes.
    Schema(Box<Schema>),
}

/// How the elements of a list are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// Not at all: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

/// Constraints on a value that do not change its structure.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// A named format; unknown names constrain nothing.
    pub format: Option<String>,
    /// The largest number.
    pub maximum: Option<f64>,
    /// Whether `maximum` itself is excluded.
    pub exclusive_maximum: bool,
    /// The smallest number.
    pub minimum: Option<f64>,
    /// Whether `minimum` itself is excluded.
    pub exclusive_minimum: bool,
    /// A number must be a multiple of this.
    pub multiple_of: Option<f64>,
    /// The most characters of a string.
    pub max_length: Option<i64>,
    /// The fewest characters of a string.
    pub min_length: Option<i64>,
    /// A string must contain a match.
    pub pattern: Option<Pattern>,
    /// The most elements of an array.
    pub max_items: Option<i64>,
    /// The fewest elements of an array.
    pub min_items: Option<i64>,
    /// Whether the elements of an array must differ. CRDs may not say so; built-in schemas may.
    pub unique_items: bool,
    /// The most fields of an object.
    pub max_properties: Option<i64>,
    /// The fewest fields of an object.
    pub min_properties: Option<i64>,
    /// The fields an object must have.
    pub required: Vec<String>,
    /// The values allowed, if enumerated.
    pub allowed: Vec<Value>,
    /// All of these must hold.
    pub all_of: Vec<Schema>,
    /// At least one of these must hold.
    pub any_of: Vec<Schema>,
    /// Exactly one of these must hold.
    pub one_of: Vec<Schema>,
    /// This must not hold.
    pub not: Option<Box<Schema>>,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The expression that must be true.
    pub rule: String,
    /// What to say if it is not.
    pub message: Option<String>,
    /// An expression that says what to say if it is not.
    pub message_expression: Option<String>,
    /// The reason to give instead of `FieldValueInvalid`.
    pub reason: Option<String>,
    /// The field to blame, relative to the node that has the rule.
    pub field_path: Option<String>,
    /// Whether `oldSelf` is an optional, so that the rule also holds for new values.
    pub optional_old_self: bool,
}

impl Schema {
    /// Parses the `openAPIV3Schema` of a CRD, refusing whatever the API server refuses.
    ///
    /// `path` is where the schema stands in the CRD, `spec.versions[0].schema.openAPIV3Schema`
    /// for one; the causes name places below it.
    pub fn from_crd(schema: &Value, path: &str) -> Result<Schema, Vec<Cause>> {
        if let Err(error) = depth::check(schema) {
            return Err(vec![Cause::invalid_unprinted(path, error)]);
        }
        let mut causes = Vec::new();
        let mut at = FieldPath::new(path);
        let parsed = parse(schema, &mut at, &mut causes);
        if causes.is_empty() {
            wellformed::check(schema, &parsed, path, &mut causes);
        }
        // Sorted, so that the message does not depend on the order of a map.
        causes.sort_by_cached_key(Cause::to_string);
        causes.dedup();
        if causes.is_empty() { Ok(parsed) } else { Err(causes) }
    }

    /// Parses a schema of our own, which need not be structural.
    pub fn parse(schema: &Value) -> Result<Schema, Vec<Cause>> {
        depth::check(schema).map_err(|error| vec![Cause::invalid_unprinted("", error)])?;
        let mut causes = Vec::new();
        let parsed = parse(schema, &mut FieldPath::default(), &mut causes);
        if causes.is_empty() { Ok(parsed) } else { Err(causes) }
    }

    /// The schema of a field of an object, declared or not.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(match &self.additional {
            Some(Additional::Schema(schema)) => Some(schema),
            _ => None,
        })
    }
}

fn parse(schema: &Value, path: &mut FieldPath, causes: &mut Vec<Cause>) -> Schema {
    let Value::Object(keywords) = schema else {
        causes.push(Cause::type_invalid(path.field(), schema, "must be a schema object"));
        return Schema::default();
    };
    let mut reader = Reader { keywords, path, causes };
    let int_or_string = reader.flag("x-kubernetes-int-or-string");
    let mut parsed = Schema {
        ty: reader.ty(),
        nullable: reader.flag("nullable"),
        default: keywords.get("default").cloned(),
        properties: reader.schemas_by_name("properties"),
        additional: reader.additional(),
        items: reader.schema("items"),
        preserve_unknown: reader.flag("x-kubernetes-preserve-unknown-fields"),
        embedded_resource: reader.flag("x-kubernetes-embedded-resource"),
        int_or_string,
        list_type: reader.list_type(),
        tells_apart: false,
        atomic_map: reader.text("x-kubernetes-map-type").as_deref() == Some("atomic"),
        checks: reader.checks(int_or_string),
        rules: reader.rules(),
    };
    parsed.tells_apart = tells_apart(&parsed);
    parsed
}

fn tells_apart(schema: &Schema) -> bool {
    let additional = match &schema.additional {
        Some(Additional::Schema(schema)) => Some(schema.as_ref()),
        _ => None,
    };
    let mut inside = schema.properties.values().chain(additional).chain(schema.items.as_deref());
    matches!(schema.list_type, Some(ListType::Set | ListType::Map(_)))
        || inside.any(|schema| schema.tells_apart)
}

/// Reads keywords one by one and remembers what was wrong with them.
struct Reader<'a> {
    keywords: &'a Map<String, Value>,
    path: &'a mut FieldPath,
    causes: &'a mut Vec<Cause>,
}

impl Reader<'_> {
    fn get<T>(&mut self, keyword: &str, wanted: &str, read: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        let value = self.keywords.get(keyword).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            self.causes.push(Cause::type_invalid(
                self.path.join(keyword),
                value,
                format!("must be of type {wanted}"),
            ));
        }
        read
    }

    fn flag(&mut self, keyword: &str) -> bool {
        self.get(keyword, "boolean", Value::as_bool).unwrap_or(false)
    }

    fn text(&mut self, keyword: &str) -> Option<String> {
        self.get(keyword, "string", |value| value.as_str().map(str::to_owned))
    }

    fn number(&mut self, keyword: &str) -> Option<f64> {
        self.get(keyword, "number", Value::as_f64)
    }

    fn count(&mut self, keyword: &str) -> Option<i64> {
        self.get(keyword, "integer", Value::as_i64)
    }

    fn texts(&mut self, keyword: &str) -> Vec<String> {
        let read = |value: &Value| {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        self.get(keyword, "array of strings", read).unwrap_or_default()
    }

    fn ty(&mut self) -> Option<Type> {
        let name = self.text("type").filter(|name| !name.is_empty())?;
        let ty = Type::named(&name);
        if ty.is_none() && name == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            self.causes.push(Cause::forbidden(self.path.join("type"), detail));
        } else if ty.is_none() {
            let supported = Type::ALL.map(Type::as_str);
            self.causes.push(Cause::not_supported(self.path.join("type"), &Value::from(name), &supported));
        }
        ty
    }

    fn schema(&mut self, keyword: &str) -> Option<Box<Schema>> {
        let value = self.keywords.get(keyword).filter(|value| !value.is_null())?;
        if keyword == "items" && value.is_array() {
            let detail = "items must be a schema object and not an array";
            self.causes.push(Cause::forbidden(self.path.join("items"), detail));
            return None;
        }
        let mark = self.path.push(keyword);
        let schema = parse(value, self.path, self.causes);
        self.path.pop(mark);
        Some(Box::new(schema))
    }

    fn schemas_by_name(&mut self, keyword: &str) -> Names<Schema> {
        let Some(fields) = self.get(keyword, "object", |value| value.as_object().cloned()) else {
            return Names::default();
        };
        let mark = self.path.push(keyword);
        let mut schemas = Vec::new();
        for (name, field) in fields {
            let field_mark = self.path.push_key(&name);
            let schema = parse(&field, self.path, self.causes);
            self.path.pop(field_mark);
            schemas.push((name, schema));
        }
        self.path.pop(mark);
        schemas.into_iter().collect()
    }

    fn schemas(&mut self, keyword: &str) -> Vec<Schema> {
        let Some(branches) = self.get(keyword, "array", |value| value.as_array().cloned()) else {
            return Vec::new();
        };
        let mark = self.path.push(keyword);
        let parsed = branches.iter().enumerate().map(|(index, branch)| {
            let branch_mark = self.path.push_index(index);
            let schema = parse(branch, self.path, self.causes);
            self.path.pop(branch_mark);
            schema
        });
        let parsed = parsed.collect();
        self.path.pop(mark);
        parsed
    }

    fn additional(&mut self) -> Option<Additional> {
        match self.keywords.get("additionalProperties")? {
            Value::Bool(true) => Some(Additional::Anything),
            Value::Null => None,
            Value::Bool(false) => {
                let detail = "additionalProperties cannot be set to false";
                self.causes.push(Cause::forbidden(self.path.join("additionalProperties"), detail));
                None
            }
            _ => self.schema("additionalProperties").map(Additional::Schema),
        }
    }

    fn list_type(&mut self) -> Option<ListType> {
        let keys = self.texts("x-kubernetes-list-map-keys");
        let name = self.text("x-kubernetes-list-type")?;
        match name.as_str() {
            "atomic" => Some(ListType::Atomic),
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map(keys)),
            _ => {
                let field = self.path.join("x-kubernetes-list-type");
                self.causes.push(Cause::not_supported(field, &Value::from(name), &["atomic", "set", "map"]));
                None
            }
        }
    }

    fn checks(&mut self, int_or_string: bool) -> Checks {
        let mut checks = Checks {
            format: self.text("format").filter(|format| !format.is_empty()),
            maximum: self.number("maximum"),
            exclusive_maximum: self.flag("exclusiveMaximum"),
            minimum: self.number("minimum"),
            exclusive_minimum: self.flag("exclusiveMinimum"),
            multiple_of: self.number("multipleOf"),
            max_length: self.count("maxLength"),
            min_length: self.count("minLength"),
            pattern: self.pattern(),
            max_items: self.count("maxItems"),
            min_items: self.count("minItems"),
            unique_items: self.flag("uniqueItems"),
            max_properties: self.count("maxProperties"),
            min_properties: self.count("minProperties"),
            required: self.texts("required"),
            allowed: self.get("enum", "array", |value| value.as_array().cloned()).unwrap_or_default(),
            all_of: self.schemas("allOf"),
            any_of: self.schemas("anyOf"),
            one_of: self.schemas("oneOf"),
            not: self.schema("not"),
        };
        if int_or_string {
            // The two ways to spell out "integer or string" say nothing that the type does not say.
            if is_integer_or_string(&checks.any_of) {
                checks.any_of.clear();
            }
            if checks.all_of.first().is_some_and(|first| is_integer_or_string(&first.checks.any_of)) {
                checks.all_of[0].checks.any_of.clear();
            }
        }
        checks
    }

    fn pattern(&mut self) -> Option<Pattern> {
        let source = self.text("pattern").filter(|source| !source.is_empty())?;
        match Pattern::new(&source) {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                let detail = format!("must be a valid regular expression, but isn't: {error}");
                self.causes.push(Cause::invalid(self.path.join("pattern"), &Value::from(source), detail));
                None
            }
        }
    }

    fn rules(&mut self) -> Vec<Rule> {
        let keyword = "x-kubernetes-validations";
        let Some(entries) = self.get(keyword, "array", |value| value.as_array().cloned()) else {
            return Vec::new();
        };
        let mark = self.path.push(keyword);
        let mut rules = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            let entry_mark = self.path.push_index(index);
            if let Value::Object(keywords) = entry {
                let mut entry = Reader { keywords, path: self.path, causes: self.causes };
                rules.push(Rule {
                    rule: entry.text("rule").unwrap_or_default(),
                    message: entry.text("message").filter(|text| !text.is_empty()),
                    message_expression: entry.text("messageExpression").filter(|text| !text.is_empty()),
                    reason: entry.text("reason"),
                    field_path: entry.text("fieldPath").filter(|text| !text.is_empty()),
                    optional_old_self: entry.flag("optionalOldSelf"),
                });
            } else {
                self.causes.push(Cause::type_invalid(self.path.field(), entry, "must be of type object"));
            }
            self.path.pop(entry_mark);
        }
        self.path.pop(mark);
        rules
    }
}

/// Whether alternatives are exactly `integer` and `string`, in that order.
pub(crate) fn is_integer_or_string(branches: &[Schema]) -> bool {
    matches!(branches, [first, second] if first.ty == Some(Type::Integer) && second.ty == Some(Type::String))
}
