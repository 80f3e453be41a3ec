//! Protobuf bodies, for the built-in kinds. Answers are always JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::machinery::types::{Catalogue, Field, StructId, Type, catalogue};

/// What a protobuf body starts with.
const MAGIC: &[u8] = b"k8s\0";

/// No type of the catalogue nests deeper: none that is sent so contains itself.
const MAX_DEPTH: usize = 32;

/// Why a body was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtoError {
    /// It is of a kind that is not read from protobuf.
    #[error("no protobuf is known for {api_version}, Kind={kind}")]
    Unsupported {
        /// Its version.
        api_version: String,
        /// The kind, as the body names it.
        kind: String,
    },
    /// It is not what it says it is.
    #[error("the protobuf body is malformed: {0}")]
    Malformed(&'static str),
}

use ProtoError::Malformed;

/// Reads an object out of its envelope.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtoError> {
    let envelope =
        body.strip_prefix(MAGIC).ok_or(Malformed("provided data does not appear to be protobuf"))?;
    let (mut type_meta, mut raw) = (&[][..], &[][..]);
    for field in Reader(envelope) {
        match field? {
            (1, Wire::Bytes(bytes)) => type_meta = bytes,
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (mut api_version, mut kind) = (String::new(), String::new());
    for field in Reader(type_meta) {
        match field? {
            (1, Wire::Bytes(bytes)) => api_version = text(bytes)?,
            (2, Wire::Bytes(bytes)) => kind = text(bytes)?,
            _ => {}
        }
    }
    let Some(id) = find(&api_version, &kind) else {
        return Err(ProtoError::Unsupported { api_version, kind });
    };
    let mut object = Decoder { catalogue: catalogue() }.message(raw, id, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// The type of a kind that can be sent so. Every group sends the options of a deletion as its own.
fn find(api_version: &str, kind: &str) -> Option<StructId> {
    let catalogue = catalogue();
    let id = match kind {
        "DeleteOptions" => catalogue.find("io.k8s.apimachinery.pkg.apis.meta.v1", kind),
        kind => catalogue.kind(api_version, kind),
    };
    id.filter(|id| catalogue.get(*id).fields.iter().any(|field| field.number.is_some()))
}

struct Decoder {
    catalogue: &'static Catalogue,
}

impl Decoder {
    fn message(&self, bytes: &[u8], id: StructId, depth: usize) -> Result<Map<String, Value>, ProtoError> {
        if depth > MAX_DEPTH {
            return Err(Malformed("it nests too deep"));
        }
        let mut object = Map::new();
        for field in Reader(bytes) {
            let (number, wire) = field?;
            // Newer clients may know more than the catalogue: what is not known is not kept.
            let fields = &self.catalogue.get(id).fields;
            let Some(field) = fields.iter().find(|field| field.number == Some(number)) else { continue };
            let Some(name) = field.name else {
                let value = self.value(wire, &field.ty, depth)?;
                if let Value::Object(mut inner) = value {
                    object.append(&mut inner);
                }
                continue;
            };
            match &field.ty {
                Type::List(item) => {
                    let item = self.value(wire, item, depth)?;
                    let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                    if let Value::Array(items) = list {
                        items.push(item);
                    }
                }
                Type::Map(item) => {
                    let (key, item) = self.entry(wire, item, depth)?;
                    let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
                    map[key] = item;
                }
                ty => {
                    let value = self.value(wire, ty, depth)?;
                    if says_something(field, &value) {
                        object.insert(name.to_owned(), value);
                    }
                }
            }
        }
        Ok(object)
    }

    fn value(&self, wire: Wire<'_>, ty: &Type, depth: usize) -> Result<Value, ProtoError> {
        match (ty, wire) {
            (Type::Text, Wire::Bytes(bytes)) => Ok(text(bytes)?.into()),
            (Type::Bytes, Wire::Bytes(bytes)) => Ok(STANDARD.encode(bytes).into()),
            (Type::Raw | Type::Fields, Wire::Bytes(bytes)) => {
                let raw = inner(bytes, 1)?;
                if raw.is_empty() {
                    return Ok(Value::Null);
                }
                serde_json::from_slice(raw).map_err(|_| Malformed("raw JSON cannot be read"))
            }
            (Type::Quantity, Wire::Bytes(bytes)) => Ok(text(inner(bytes, 1)?)?.into()),
            (Type::IntOrString, Wire::Bytes(bytes)) => int_or_string(bytes),
            (Type::Int32 | Type::Int64, Wire::Varint(number)) => Ok(signed(number).into()),
            (Type::Float, Wire::Fixed(bits)) => Ok(json!(f64::from_bits(bits))),
            (Type::Flag, Wire::Varint(number)) => Ok((number != 0).into()),
            (Type::Time | Type::MicroTime, Wire::Bytes(bytes)) => time(bytes, *ty == Type::MicroTime),
            (Type::Texts, Wire::Bytes(bytes)) => {
                let mut items = Vec::new();
                for field in Reader(bytes) {
                    if let (1, Wire::Bytes(bytes)) = field? {
                        items.push(Value::from(text(bytes)?));
                    }
                }
                Ok(items.into())
            }
            (Type::Struct(id), Wire::Bytes(bytes)) => {
                Ok(Value::Object(self.message(bytes, *id, depth + 1)?))
            }
            _ => Err(Malformed("a field has another type than its kind says")),
        }
    }

    fn entry(&self, wire: Wire<'_>, ty: &Type, depth: usize) -> Result<(String, Value), ProtoError> {
        let Wire::Bytes(bytes) = wire else { return Err(Malformed("an entry of a map is not one")) };
        let empty = if matches!(ty, Type::Text | Type::Bytes) { Value::from("") } else { Value::Null };
        let (mut key, mut item) = (String::new(), empty);
        for field in Reader(bytes) {
            match field? {
                (1, Wire::Bytes(bytes)) => key = text(bytes)?,
                (2, wire) => item = self.value(wire, ty, depth)?,
                _ => {}
            }
        }
        Ok((key, item))
    }
}

/// Fields that are not pointers are always sent, so that their zero says nothing.
fn says_something(field: &Field, value: &Value) -> bool {
    let is_zero = match value {
        Value::Null => return false,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    };
    field.pointer || field.required || !is_zero
}

/// The bytes of one field of a message.
fn inner(bytes: &[u8], wanted: u64) -> Result<&[u8], ProtoError> {
    let mut found = &[][..];
    for field in Reader(bytes) {
        match field? {
            (number, Wire::Bytes(bytes)) if number == wanted => found = bytes,
            _ => {}
        }
    }
    Ok(found)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtoError> {
    let (mut is_text, mut number, mut string) = (false, 0, String::new());
    for field in Reader(bytes) {
        match field? {
            (1, Wire::Varint(ty)) => is_text = ty == 1,
            (2, Wire::Varint(found)) => number = signed(found),
            (3, Wire::Bytes(bytes)) => string = text(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { string.into() } else { number.into() })
}

fn text(bytes: &[u8]) -> Result<String, ProtoError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a text is not UTF-8"))
}

fn signed(number: u64) -> i64 {
    number.cast_signed()
}

/// A time; null if it is the zero of its type.
fn time(bytes: &[u8], micros: bool) -> Result<Value, ProtoError> {
    let (mut seconds, mut nanos) = (0, 0);
    for field in Reader(bytes) {
        match field? {
            (1, Wire::Varint(number)) => seconds = signed(number),
            (2, Wire::Varint(number)) => nanos = signed(number),
            _ => {}
        }
    }
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).map_err(|_| Malformed("a time is out of range"))?;
    let time = Timestamp::new(seconds, nanos).map_err(|_| Malformed("a time is out of range"))?;
    let text = if micros { format!("{time:.6}") } else { format!("{time:.0}") };
    Ok(text.into())
}

/// A field as it is on the wire.
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Only fractions are sent so.
    Fixed(u64),
}

/// Reads fields one by one; stops after the first that cannot be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u64, Wire<'a>), ProtoError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Reader<'a> {
    fn field(&mut self) -> Result<(u64, Wire<'a>), ProtoError> {
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed(self.take(8)?.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))),
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| Malformed("a length is out of range"))?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed(self.take(4)?.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))),
            _ => return Err(Malformed("a field has an unknown type")),
        };
        Ok((tag >> 3, wire))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtoError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed("a number is too long"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A field of bytes.
    fn bytes(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
        let content = content.as_ref();
        // Long ones have their length in two bytes.
        let (low, high) = (content.len() & 0x7f, content.len() >> 7);
        let length = if high == 0 { vec![low as u8] } else { vec![low as u8 | 0x80, high as u8] };
        let mut field = [vec![number << 3 | 2], length].concat();
        field.extend_from_slice(content);
        field
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [bytes(1, api_version), bytes(2, kind)].concat();
        [MAGIC.to_vec(), bytes(1, type_meta), bytes(2, raw)].concat()
    }

    #[test]
    fn a_secret_reads_as_its_json() {
        let metadata =
            [bytes(1, "s"), bytes(2, ""), bytes(8, ""), bytes(11, [bytes(1, "a"), bytes(2, "b")].concat())];
        let raw = [
            bytes(1, metadata.concat()),
            bytes(2, [bytes(1, "p"), bytes(2, "q")].concat()),
            bytes(3, "Opaque"),
            vec![5 << 3, 1],
        ];
        let secret = decode(&envelope("v1", "Secret", &raw.concat())).unwrap();
        let expected = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "labels": {"a": "b"}},
            "data": {"p": "cQ=="}, "type": "Opaque", "immutable": true});
        assert_eq!(secret, expected);
    }

    #[test]
    fn times_have_the_precision_of_their_field() {
        let time = [vec![1 << 3], vec![0x80, 0xe2, 0xcf, 0xaa, 0x06], vec![2 << 3, 0xe8, 0x07]].concat();
        let spec = [bytes(1, "me"), vec![2 << 3, 15], bytes(4, &time), vec![5 << 3, 0]].concat();
        let lease = decode(&envelope("coordination.k8s.io/v1", "Lease", &bytes(2, spec))).unwrap();
        let expected = json!({"holderIdentity": "me", "leaseDurationSeconds": 15,
            "renewTime": "2023-11-14T22:13:20.000001Z", "leaseTransitions": 0});
        assert_eq!(lease["spec"], expected);
    }

    #[test]
    fn a_deployment_reads_as_its_json() {
        let port = [bytes(1, "http"), vec![2 << 3, 0], vec![3 << 3, 80], bytes(4, ""), bytes(5, "")].concat();
        let quantity = [bytes(1, "cpu"), bytes(2, bytes(1, "500m"))].concat();
        let probe = bytes(1, bytes(2, bytes(2, [vec![1 << 3, 1, 2 << 3, 0], bytes(3, "http")].concat())));
        let container = [
            bytes(1, "c"),
            bytes(2, "nginx"),
            bytes(6, port),
            bytes(8, bytes(1, quantity)),
            bytes(10, probe),
        ]
        .concat();
        let volume = [bytes(1, "v"), bytes(2, bytes(2, bytes(1, "Memory")))].concat();
        let pod = [bytes(1, volume), bytes(2, container), vec![11 << 3, 0], vec![4 << 3, 0]].concat();
        let template = [bytes(1, bytes(1, "")), bytes(2, pod)].concat();
        let spec = [vec![1 << 3, 0], bytes(3, template), bytes(4, bytes(1, "")), vec![5 << 3, 0]].concat();
        let raw = [bytes(1, bytes(1, "d")), bytes(2, spec), bytes(3, vec![1 << 3, 0])].concat();
        let deployment = decode(&envelope("apps/v1", "Deployment", &raw)).unwrap();
        let container = json!({
            "name": "c", "image": "nginx", "ports": [{"name": "http", "containerPort": 80}],
            "resources": {"limits": {"cpu": "500m"}}, "livenessProbe": {"httpGet": {"port": "http"}},
        });
        // No replicas are different from nothing said about them; a deadline of 0 is a pointer too.
        let pod = json!({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}], "containers": [container],
            "terminationGracePeriodSeconds": 0});
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"replicas": 0, "template": {"metadata": {}, "spec": pod}, "strategy": {}}, "status": {},
        });
        assert_eq!(deployment, expected);
    }

    #[test]
    fn what_is_not_in_the_table_is_refused() {
        for (version, kind) in [("v1", "Gadget"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")] {
            let error = decode(&envelope(version, kind, &[])).unwrap_err();
            assert!(matches!(error, ProtoError::Unsupported { .. }), "{kind}");
        }
    }

    #[test]
    fn damaged_bodies_are_refused_wherever_they_end() {
        let raw = [bytes(1, bytes(1, "s")), bytes(2, [bytes(1, "p"), bytes(2, "q")].concat())].concat();
        let whole = envelope("v1", "ConfigMap", &raw);
        for end in 0..whole.len() {
            // Some prefixes are whole messages themselves; none may panic.
            let _ = decode(&whole[..end]);
        }
        assert!(decode(b"xx").is_err());
        assert!(decode(b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
    }
}
