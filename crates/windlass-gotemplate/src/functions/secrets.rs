//! Functions that handle secrets. What they are given and what they make is in no message.

use std::collections::BTreeMap;

use aes::Aes256;
use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use super::Type::{Int, Str};
use super::encoding::base64_decode;
use super::{Call, Function, function};
use crate::pem::{self, Block};
use crate::private_key;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("buildCustomCert", &[Str, Str], build_custom_cert),
    function("decryptAES", &[Str, Str], |c| decrypt_aes(&c.str(0)?, &c.str(1)?)),
    function("derivePassword", &[Int, Str, Str, Str, Str], derive_password),
];

/// A certificate and its key, checked for their form. Go makes a struct of them.
fn build_custom_cert(c: &mut Call<'_>) -> Result<Value, String> {
    let decoded = |at: usize, what: &str| {
        let bytes = base64_decode(&c.str(at)?).ok_or_else(|| format!("the {what} is not base64"))?;
        String::from_utf8(bytes).map_err(|_| format!("the {what} is not PEM"))
    };
    let (certificate, key) = (decoded(0, "certificate")?, decoded(1, "private key")?);
    let Block { contents, .. } = pem::first(&certificate).ok_or("the certificate is not PEM")?;
    Certificate::from_der(&contents).map_err(|error| format!("the certificate cannot be read: {error}"))?;
    let block = pem::first(&key).ok_or("the private key is not PEM")?;
    private_key::check(&block).map_err(|error| format!("the private key cannot be read: {error}"))?;
    let parts = [("Cert", certificate), ("Key", key)];
    let parts = parts.map(|(name, part)| (name.into(), part.into()));
    Ok(Value::Map(c.heap.new_map(BTreeMap::from(parts))))
}

/// A block of AES.
const BLOCK: usize = 16;

/// What `encryptAES` has made: base64 of a block that was drawn, then AES-256 in CBC mode. The password is the key, cut or
/// filled up with zeros.
fn decrypt_aes(password: &str, encrypted: &str) -> Result<Value, String> {
    if encrypted.is_empty() {
        return Ok("".into());
    }
    let encrypted = base64_decode(encrypted).ok_or("the string is not base64")?;
    let Some((start, blocks)) = encrypted.split_first_chunk::<BLOCK>() else {
        return Err(format!("the string has {} bytes, fewer than one block", encrypted.len()));
    };
    let mut key = [0; 32];
    for (to, from) in key.iter_mut().zip(password.bytes()) {
        *to = from;
    }
    let mut blocks = blocks.to_vec();
    let decrypted = cbc::Decryptor::<Aes256>::new(&key.into(), start.into())
        .decrypt_padded::<NoPadding>(&mut blocks)
        .map_err(|_| "the string does not end with a block".to_owned())?;
    let wrong = || "the password is not the one that it was encrypted with".to_owned();
    // The last byte says how many there are too many.
    let padding = usize::from(*decrypted.last().ok_or_else(wrong)?);
    let length = decrypted.len().checked_sub(padding).ok_or_else(wrong)?;
    let plain = decrypted.get(..length).and_then(|plain| std::str::from_utf8(plain).ok());
    Ok(plain.ok_or_else(wrong)?.into())
}

/// What one derivation counts as: it takes 32 MiB and about a tenth of a second, so there are four in a rendering at most.
const DERIVATION: usize = 1_000_000;

/// What every derivation begins with, whatever it is for.
const SEED: &[u8] = b"com.lyndir.masterpassword";

/// Types of passwords, each with its patterns; the letters of patterns are in [`characters`].
const PASSWORDS: &[(&str, &[&str])] = &[
    ("basic", &["aaanaaan", "aannaaan", "aaannaaa"]),
    (
        "long",
        &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
    ),
    ("maximum", &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"]),
    ("medium", &["CvcnoCvc", "CvcCvcno"]),
    ("pin", &["nnnn"]),
    ("short", &["Cvcn"]),
];

/// The characters that a letter of a pattern stands for.
const fn characters(letter: u8) -> &'static [u8] {
    match letter {
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'v' => b"aeiou",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// The password of a user for a site, by the algorithm of Master Password: the same arguments give the same one everywhere.
fn derive_password(c: &mut Call<'_>) -> Result<Value, String> {
    let counter = u32::try_from(c.int(0)?).map_err(|_| "argument 1: expected 0 to 4294967295".to_owned())?;
    let (type_, password, user, site) = (c.str(1)?, c.str(2)?, c.str(3)?, c.str(4)?);
    let Some((_, patterns)) = PASSWORDS.iter().find(|(name, _)| **name == *type_) else {
        let names: Vec<&str> = PASSWORDS.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no password type {type_:?}, only {}", names.join(", ")));
    };
    c.heap.spend(DERIVATION)?;
    let failed = || "the password could not be derived".to_owned();

    // N = 32768, r = 8, p = 2.
    let parameters = scrypt::Params::new(15, 8, 2).map_err(|_| failed())?;
    let mut key = [0; 64];
    let salt = [SEED, &length_of(&user)?, user.as_bytes()].concat();
    scrypt::scrypt(password.as_bytes(), &salt, &parameters, &mut key).map_err(|_| failed())?;

    let mut hash = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| failed())?;
    for part in [SEED, &length_of(&site)?, site.as_bytes(), &counter.to_be_bytes()] {
        hash.update(part);
    }
    let hash = hash.finalize().into_bytes();
    let mut draws = hash.iter().map(|byte| usize::from(*byte));
    let mut draw = |from: usize| draws.next().map(|draw| draw % from).ok_or_else(failed);
    let pattern = patterns[draw(patterns.len())?];
    let derived = pattern.bytes().map(|letter| {
        let characters = characters(letter);
        Ok(char::from(characters[draw(characters.len())?]))
    });
    Ok(derived.collect::<Result<String, String>>()?.into())
}

/// The length of a string in bytes, as it is hashed before the string.
fn length_of(string: &str) -> Result<[u8; 4], String> {
    u32::try_from(string.len()).map(u32::to_be_bytes).map_err(|error| error.to_string())
}
