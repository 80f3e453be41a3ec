//! Encodings and checksums.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::Type::{Any, Str};
use super::{Call, Function, function};
use crate::json::{self, Escapes};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("adler32sum", &[Str], |c| Ok(adler32(c.str(0)?.as_bytes()).to_string().into())),
    function("b32dec", &[Str], |c| decoded(base32_decode(&c.str(0)?))),
    function("b32enc", &[Str], |c| Ok(base32_encode(c.str(0)?.as_bytes()).into())),
    function("b64dec", &[Str], |c| decoded(base64_decode(&c.str(0)?))),
    function("b64enc", &[Str], |c| Ok(BASE64_STANDARD.encode(&*c.str(0)?).into())),
    function("fromJson", &[Str], |c| {
        let string = c.str(0)?;
        match serde_json::from_str(&string) {
            Ok(document) => c.heap.import(&document, 0),
            Err(_) => Ok(Value::Nil),
        }
    }),
    function("mustFromJson", &[Str], |c| {
        let string = c.str(0)?;
        let document =
            serde_json::from_str(&string).map_err(|error| format!("the string is not JSON: {error}"))?;
        c.heap.import(&document, 0)
    }),
    function("mustToJson", &[Any], |c| encoded(c, Escapes::Html, None)),
    function("mustToPrettyJson", &[Any], |c| encoded(c, Escapes::Html, Some("  "))),
    function("mustToRawJson", &[Any], |c| encoded(c, Escapes::None, None)),
    function("sha1sum", &[Str], |c| Ok(hexadecimal(&Sha1::digest(c.str(0)?.as_bytes())).into())),
    function("sha256sum", &[Str], |c| Ok(hexadecimal(&Sha256::digest(c.str(0)?.as_bytes())).into())),
    function("sha512sum", &[Str], |c| Ok(hexadecimal(&Sha512::digest(c.str(0)?.as_bytes())).into())),
    function("toJson", &[Any], |c| encoded(c, Escapes::Html, None)),
    function("toPrettyJson", &[Any], |c| encoded(c, Escapes::Html, Some("  "))),
    function("toRawJson", &[Any], |c| encoded(c, Escapes::None, None)),
    function("toYaml", &[Any], |c| {
        let value = c.value(0)?.clone();
        let json = json::encode(c.heap, &value, Escapes::None, None)?;
        let document: serde_json::Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
        let yaml = serde_saphyr::to_string(&document).map_err(|error| error.to_string())?;
        Ok(yaml.trim_end_matches('\n').into())
    }),
];

fn encoded(c: &mut Call<'_>, escapes: Escapes, indent: Option<&str>) -> Result<Value, String> {
    let value = c.value(0)?.clone();
    Ok(json::encode(c.heap, &value, escapes, indent)?.into())
}

/// Upstream, the message of a decoding error is the result; here it is an error.
fn decoded(bytes: Option<Vec<u8>>) -> Result<Value, String> {
    let Some(bytes) = bytes else { return Err("the string is not encoded so".to_owned()) };
    match String::from_utf8(bytes) {
        Ok(string) => Ok(string.into()),
        Err(_) => Err("the decoded bytes are not UTF-8".to_owned()),
    }
}

/// Go leaves out line breaks.
pub(super) fn base64_decode(encoded: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(encoded.replace(['\n', '\r'], "")).ok()
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32_encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(5) {
        let bits =
            chunk.iter().enumerate().fold(0_u64, |bits, (at, &byte)| bits | u64::from(byte) << (32 - 8 * at));
        let digits = (chunk.len() * 8).div_ceil(5);
        for at in 0..8 {
            let digit = (bits >> (35 - 5 * at) & 31) as usize;
            out.push(if at < digits { char::from(BASE32[digit]) } else { '=' });
        }
    }
    out
}

fn base32_decode(encoded: &str) -> Option<Vec<u8>> {
    let encoded = encoded.replace(['\n', '\r'], "");
    if !encoded.len().is_multiple_of(8) {
        return None;
    }
    let digits = encoded.trim_end_matches('=');
    // So many digits are in the last group of eight, depending on how many bytes are.
    if !matches!((digits.len() % 8, encoded.len() - digits.len()), (0, 0) | (2, 6) | (4, 4) | (5, 3) | (7, 1))
    {
        return None;
    }
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = BASE32.iter().position(|&known| known == digit)?;
        bits = bits << 5 | u32::try_from(value).ok()?;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), &byte| {
        let low = (low + u32::from(byte)) % MODULUS;
        (low, (high + low) % MODULUS)
    });
    high << 16 | low
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
