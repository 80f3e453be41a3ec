//! The part of Protocol Buffers that etcd's messages need: numbers, strings and messages, each under the number of its
//! field. Fields that a message does not name are skipped, so that newer releases of etcd can say more.

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// It ends in the middle of a field.
    #[error("the message ends in the middle of a field")]
    Truncated,
    /// A number has more than 64 bits.
    #[error("a number has more than 64 bits")]
    Number,
    /// A field is encoded in a way that this message never has.
    #[error("field {field} is encoded in an unexpected way")]
    Encoding {
        /// The number by which protobuf knows the field.
        field: u32,
    },
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    Text,
}

/// The value of one field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// A message: fields by their numbers.
pub(crate) trait Message: Default {
    fn write(&self, out: &mut Vec<u8>);
    fn read(&mut self, field: u32, value: Value<'_>) -> Result<(), Malformed>;

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn decode(mut bytes: &[u8]) -> Result<Self, Malformed> {
        let mut message = Self::default();
        while !bytes.is_empty() {
            let tag = number(&mut bytes)?;
            let field = u32::try_from(tag >> 3).map_err(|_| Malformed::Number)?;
            match tag & 7 {
                0 => message.read(field, Value::Number(number(&mut bytes)?))?,
                2 => {
                    let length = usize::try_from(number(&mut bytes)?).map_err(|_| Malformed::Truncated)?;
                    message.read(field, Value::Bytes(take(&mut bytes, length)?))?;
                }
                // Numbers of a fixed size, which none of the messages here has.
                1 => drop(take(&mut bytes, 8)?),
                5 => drop(take(&mut bytes, 4)?),
                _ => return Err(Malformed::Encoding { field }),
            }
        }
        Ok(message)
    }
}

/// The type of a field. What is zero or empty is not written.
pub(crate) trait Field {
    fn put(&self, field: u32, out: &mut Vec<u8>);
    /// None if the value has another encoding than the field.
    fn take(&mut self, value: Value<'_>) -> Result<Option<()>, Malformed>;
}

impl Field for u64 {
    fn put(&self, field: u32, out: &mut Vec<u8>) {
        if *self != 0 {
            put_number(u64::from(field) << 3, out);
            put_number(*self, out);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Result<Option<()>, Malformed> {
        let Value::Number(number) = value else { return Ok(None) };
        *self = number;
        Ok(Some(()))
    }
}

impl Field for bool {
    fn put(&self, field: u32, out: &mut Vec<u8>) {
        u64::from(*self).put(field, out);
    }

    fn take(&mut self, value: Value<'_>) -> Result<Option<()>, Malformed> {
        let Value::Number(number) = value else { return Ok(None) };
        *self = number != 0;
        Ok(Some(()))
    }
}

impl Field for String {
    fn put(&self, field: u32, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put_bytes(field, self.as_bytes(), out);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Result<Option<()>, Malformed> {
        let Value::Bytes(bytes) = value else { return Ok(None) };
        *self = text(bytes)?;
        Ok(Some(()))
    }
}

impl Field for Vec<u8> {
    fn put(&self, field: u32, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put_bytes(field, self, out);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Result<Option<()>, Malformed> {
        let Value::Bytes(bytes) = value else { return Ok(None) };
        *self = bytes.to_vec();
        Ok(Some(()))
    }
}

impl Field for Vec<String> {
    fn put(&self, field: u32, out: &mut Vec<u8>) {
        for text in self {
            put_bytes(field, text.as_bytes(), out);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Result<Option<()>, Malformed> {
        let Value::Bytes(bytes) = value else { return Ok(None) };
        self.push(text(bytes)?);
        Ok(Some(()))
    }
}

impl<M: Message> Field for Vec<M> {
    fn put(&self, field: u32, out: &mut Vec<u8>) {
        for message in self {
            put_bytes(field, &message.encode(), out);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Result<Option<()>, Malformed> {
        let Value::Bytes(bytes) = value else { return Ok(None) };
        self.push(M::decode(bytes)?);
        Ok(Some(()))
    }
}

impl<M: Message> Field for Option<M> {
    fn put(&self, field: u32, out: &mut Vec<u8>) {
        if let Some(message) = self {
            put_bytes(field, &message.encode(), out);
        }
    }

    fn take(&mut self, value: Value<'_>) -> Result<Option<()>, Malformed> {
        let Value::Bytes(bytes) = value else { return Ok(None) };
        *self = Some(M::decode(bytes)?);
        Ok(Some(()))
    }
}

/// A struct that is a message: each field after its number.
macro_rules! message {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident {
        $($(#[$of_field:meta])* $number:literal => $field:ident: $type:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $visibility struct $name { $($(#[$of_field])* pub $field: $type,)* }

        impl $crate::wire::Message for $name {
            fn write(&self, _out: &mut Vec<u8>) {
                $($crate::wire::Field::put(&self.$field, $number, _out);)*
            }

            fn read(
                &mut self,
                field: u32,
                _value: $crate::wire::Value<'_>,
            ) -> Result<(), $crate::wire::Malformed> {
                match field {
                    $($number => $crate::wire::Field::take(&mut self.$field, _value)?
                        .ok_or($crate::wire::Malformed::Encoding { field }),)*
                    _ => Ok(()),
                }
            }
        }
    };
}

pub(crate) use message;

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        // The lower seven bits, and that more follow.
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(field: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_number(u64::from(field) << 3 | 2, out);
    put_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn number(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Malformed::Truncated)?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(Malformed::Number);
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Malformed::Number)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(Malformed::Truncated)?;
    *bytes = rest;
    Ok(taken)
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed::Text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::messages::{Member, MemberListResponse, ResponseHeader};

    fn members() -> impl Strategy<Value = MemberListResponse> {
        let urls = || prop::collection::vec(".{0,12}", 0..3);
        let member = (any::<u64>(), ".{0,8}", urls(), urls(), any::<bool>());
        let member = member.prop_map(|(id, name, peer_urls, client_urls, is_learner)| Member {
            id,
            name,
            peer_urls,
            client_urls,
            is_learner,
        });
        let header = prop::option::of((any::<u64>(), any::<u64>()));
        (header, prop::collection::vec(member, 0..4)).prop_map(|(header, members)| MemberListResponse {
            header: header.map(|(cluster_id, member_id)| ResponseHeader { cluster_id, member_id }),
            members,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(message in members()) {
            prop_assert_eq!(MemberListResponse::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn what_is_cut_off_is_an_error_or_a_shorter_message_and_never_a_panic(
            message in members(), cut in 0usize..200
        ) {
            let bytes = message.encode();
            let _ = MemberListResponse::decode(&bytes[..cut.min(bytes.len())]);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = MemberListResponse::decode(&bytes);
        }
    }

    #[test]
    fn bytes_are_those_of_the_specification() {
        // Written out by hand: a member with id 300 and name "n", which is a learner, as field 2 of a list.
        let member = Member { id: 300, name: "n".to_owned(), is_learner: true, ..Member::default() };
        let list = MemberListResponse { header: None, members: vec![member] };
        let expected = [0x12, 0x08, 0x08, 0xac, 0x02, 0x12, 0x01, b'n', 0x28, 0x01];
        assert_eq!(list.encode(), expected);
    }

    #[test]
    fn fields_that_are_not_known_are_skipped_and_others_are_refused() {
        // Field 15 in each of the four encodings, then the id.
        let known = [0x08, 0x07];
        for unknown in [
            &[0x78, 0x01][..],
            &[0x79, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x7a, 0x02, b'x', b'y'],
            &[0x7d, 0, 0, 0, 0],
        ] {
            let bytes = [unknown, &known].concat();
            assert_eq!(Member::decode(&bytes).map(|member| member.id), Ok(7), "{unknown:?}");
        }
        for (bytes, why) in [
            (&[0x08][..], Malformed::Truncated),
            (&[0x12, 0x05, b'a'], Malformed::Truncated),
            (&[0x12, 0x01, 0xff], Malformed::Text),
            (&[0x0a, 0x01, 0x01], Malformed::Encoding { field: 1 }),
            (&[0x0b], Malformed::Encoding { field: 1 }),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], Malformed::Number),
        ] {
            assert_eq!(Member::decode(bytes), Err(why), "{bytes:?}");
        }
    }
}
