//! Protobuf bodies, for the kinds that clients send so. Answers are always JSON.

mod table;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use table::{Field, Type};

/// What a protobuf body starts with.
const MAGIC: &[u8] = b"k8s\0";

/// No message of the table nests deeper.
const MAX_DEPTH: usize = 16;

/// Why a body was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtoError {
    /// It is of a kind that is not read from protobuf.
    #[error("no protobuf is known for {api_version}, Kind={kind}")]
    Unsupported {
        /// Its version.
        api_version: String,
        /// Its kind.
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
    let Some(fields) = table::message(&api_version, &kind) else {
        return Err(ProtoError::Unsupported { api_version, kind });
    };
    let mut object = message(raw, fields, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

fn message(bytes: &[u8], fields: &[Field], depth: usize) -> Result<Map<String, Value>, ProtoError> {
    if depth > MAX_DEPTH {
        return Err(Malformed("it nests too deep"));
    }
    let mut object = Map::new();
    for field in Reader(bytes) {
        let (number, wire) = field?;
        // Newer clients may know more than the table: what is not known is not kept.
        let Some((_, name, ty)) = fields.iter().find(|(known, ..)| *known == number) else { continue };
        match ty {
            Type::List(item) => {
                // In a list an empty text is a value: the name of the core group, for one.
                let item = value(wire, item, depth)?.unwrap_or_else(|| "".into());
                let list = object.entry(*name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(items) = list {
                    items.push(item);
                }
            }
            Type::Map(item) => {
                let (key, item) = entry(wire, item, depth)?;
                let map = object.entry(*name).or_insert_with(|| Value::Object(Map::new()));
                map[key] = item;
            }
            ty => {
                if let Some(value) = value(wire, ty, depth)? {
                    object.insert((*name).to_owned(), value);
                }
            }
        }
    }
    Ok(object)
}

/// One value; `None` if it says nothing.
fn value(wire: Wire<'_>, ty: &Type, depth: usize) -> Result<Option<Value>, ProtoError> {
    match (ty, wire) {
        (Type::Text, Wire::Bytes(bytes)) => {
            Ok(Some(text(bytes)?).filter(|text| !text.is_empty()).map(Value::from))
        }
        (Type::Bytes, Wire::Bytes(bytes)) => Ok(Some(STANDARD.encode(bytes).into())),
        (Type::Json, Wire::Bytes(bytes)) => {
            let mut raw = &[][..];
            for field in Reader(bytes) {
                if let (1, Wire::Bytes(bytes)) = field? {
                    raw = bytes;
                }
            }
            serde_json::from_slice(raw).map(Some).map_err(|_| Malformed("raw JSON cannot be read"))
        }
        (Type::Integer, Wire::Varint(number)) => Ok(Some(signed(number).into())),
        (Type::Count, Wire::Varint(number)) => {
            Ok(Some(signed(number)).filter(|number| *number != 0).map(Value::from))
        }
        (Type::Flag, Wire::Varint(number)) => Ok(Some((number != 0).into())),
        (Type::Time | Type::MicroTime, Wire::Bytes(bytes)) => time(bytes, matches!(ty, Type::MicroTime)),
        (Type::Message(fields), Wire::Bytes(bytes)) => {
            Ok(Some(Value::Object(message(bytes, fields, depth + 1)?)))
        }
        (Type::List(_) | Type::Map(_), _) => Err(Malformed("a list or map stands where none is expected")),
        _ => Err(Malformed("a field has another type than its kind says")),
    }
}

fn entry(wire: Wire<'_>, ty: &Type, depth: usize) -> Result<(String, Value), ProtoError> {
    let Wire::Bytes(bytes) = wire else { return Err(Malformed("an entry of a map is not one")) };
    let empty = if matches!(ty, Type::Text | Type::Bytes) { Value::from("") } else { Value::Null };
    let (mut key, mut item) = (String::new(), empty);
    for field in Reader(bytes) {
        match field? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?,
            (2, wire) => item = value(wire, ty, depth)?.unwrap_or(item),
            _ => {}
        }
    }
    Ok((key, item))
}

fn text(bytes: &[u8]) -> Result<String, ProtoError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("a text is not UTF-8"))
}

fn signed(number: u64) -> i64 {
    number.cast_signed()
}

fn time(bytes: &[u8], micros: bool) -> Result<Option<Value>, ProtoError> {
    let (mut seconds, mut nanos) = (0, 0);
    for field in Reader(bytes) {
        match field? {
            (1, Wire::Varint(number)) => seconds = signed(number),
            (2, Wire::Varint(number)) => nanos = signed(number),
            _ => {}
        }
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    let nanos = i32::try_from(nanos).map_err(|_| Malformed("a time is out of range"))?;
    let time = Timestamp::new(seconds, nanos).map_err(|_| Malformed("a time is out of range"))?;
    let text = if micros { format!("{time:.6}") } else { format!("{time:.0}") };
    Ok(Some(text.into()))
}

/// A field as it is on the wire.
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Nothing in the table has one.
    Fixed,
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
            1 => self.take(8).map(|_| Wire::Fixed)?,
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| Malformed("a length is out of range"))?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Fixed)?,
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
        let mut field = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
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
    fn what_is_not_in_the_table_is_refused() {
        let error = decode(&envelope("v1", "Pod", &[])).unwrap_err();
        assert!(matches!(error, ProtoError::Unsupported { .. }));
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
