//! The forms of private keys that Go reads. Whether the numbers of a key belong together is not checked.

use x509_cert::der::asn1::{BitStringRef, ContextSpecific, ObjectIdentifier, OctetStringRef, UintRef};
use x509_cert::der::{Decode, Error, Reader, SliceReader, TagNumber};
use x509_cert::spki::AlgorithmIdentifierRef;

use super::pem::Block;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const ELLIPTIC_CURVE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const X25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.110");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// How many numbers a key of RSA consists of, with its version.
const RSA_NUMBERS: usize = 9;
/// How many numbers a key of DSA consists of, with its version.
const DSA_NUMBERS: usize = 6;

/// Checks that a block is a private key.
///
/// # Errors
///
/// What is wrong with it, without anything that is in it.
pub(crate) fn check(block: &Block) -> Result<(), String> {
    let key = block.contents.as_slice();
    let checked = match block.label.as_str() {
        "PRIVATE KEY" => match unwrapped(key) {
            Ok((RSA, key)) => numbers(key, RSA_NUMBERS),
            Ok((ELLIPTIC_CURVE, key)) => elliptic_curve(key),
            Ok((ED25519 | X25519, key)) => <&OctetStringRef>::from_der(key).map(drop),
            Ok((algorithm, _)) => return Err(format!("its algorithm {algorithm} is unknown")),
            Err(error) => Err(error),
        },
        "RSA PRIVATE KEY" => numbers(key, RSA_NUMBERS),
        "DSA PRIVATE KEY" => numbers(key, DSA_NUMBERS),
        "EC PRIVATE KEY" => elliptic_curve(key),
        label => return Err(format!("no private key is in a block {label}")),
    };
    checked.map_err(|error| error.to_string())
}

/// The algorithm of a key in PKCS #8, and the key as that algorithm has it.
fn unwrapped(key: &[u8]) -> Result<(ObjectIdentifier, &[u8]), Error> {
    let mut reader = SliceReader::new(key)?;
    let parts = reader.sequence(|fields| {
        let _version: u8 = fields.decode()?;
        let algorithm: AlgorithmIdentifierRef<'_> = fields.decode()?;
        let key: &OctetStringRef = fields.decode()?;
        // Attributes and the public key may follow.
        fields.drain(fields.remaining_len())?;
        Ok::<_, Error>((algorithm.oid, key.as_bytes()))
    })?;
    reader.finish()?;
    Ok(parts)
}

/// A sequence of so many numbers.
fn numbers(key: &[u8], count: usize) -> Result<(), Error> {
    let mut reader = SliceReader::new(key)?;
    reader.sequence(|fields| (0..count).try_for_each(|_| fields.decode::<UintRef<'_>>().map(drop)))?;
    reader.finish()
}

/// A number on a curve, which may be named, and its public key.
fn elliptic_curve(key: &[u8]) -> Result<(), Error> {
    let mut reader = SliceReader::new(key)?;
    reader.sequence(|fields| {
        let _version: u8 = fields.decode()?;
        let _number: &OctetStringRef = fields.decode()?;
        ContextSpecific::<ObjectIdentifier>::decode_explicit(fields, TagNumber(0))?;
        ContextSpecific::<BitStringRef<'_>>::decode_explicit(fields, TagNumber(1))?;
        Ok::<_, Error>(())
    })?;
    reader.finish()
}
