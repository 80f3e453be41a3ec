//! Private keys in the forms in which clusters have them.
//!
//! The library reads PKCS #8 only. Upstream writes RSA keys of authorities as PKCS #1, and users bring keys of elliptic curves
//! as SEC 1, often after a block with the parameters of the curve. Both are the inner part of a PKCS #8 key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::KeyPair;
use x509_parser::pem::Pem;

/// `SEQUENCE { rsaEncryption, NULL }`.
const RSA: &[u8] = &[0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 1, 5, 0];
/// `ecPublicKey`.
const ELLIPTIC_CURVE: &[u8] = &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
/// `prime256v1`.
const P256: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// `secp384r1`.
const P384: &[u8] = &[6, 5, 0x2b, 0x81, 4, 0, 0x22];

const SEQUENCE: u8 = 0x30;
const OCTET_STRING: u8 = 4;

/// Reads the first private key of a PEM text.
///
/// # Errors
///
/// If there is none that can be used.
pub(crate) fn read(pem: &str) -> Result<KeyPair, rcgen::Error> {
    let key = Pem::iter_from_buffer(pem.as_bytes())
        .filter_map(Result::ok)
        .find(|block| block.label.ends_with("PRIVATE KEY"));
    let wrapped = key.as_ref().and_then(|key| match key.label.as_str() {
        "RSA PRIVATE KEY" => Some(pkcs8(RSA, &key.contents)),
        "EC PRIVATE KEY" => {
            let algorithm = [ELLIPTIC_CURVE, curve(&key.contents)?].concat();
            Some(pkcs8(&value(SEQUENCE, &algorithm), &key.contents))
        }
        _ => None,
    });
    match wrapped {
        Some(der) => KeyPair::from_pem(&to_pem(&der)),
        None => KeyPair::from_pem(pem),
    }
}

/// `SEQUENCE { 0, algorithm, OCTET STRING { key } }`.
fn pkcs8(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    value(SEQUENCE, &[&[2, 1, 0], algorithm, &value(OCTET_STRING, key)].concat())
}

/// The curve of `SEQUENCE { 1, OCTET STRING { number }, ... }`, by how long the number is: other curves are not known to
/// the library, and a number of this length on another one is refused with its public key.
fn curve(key: &[u8]) -> Option<&'static [u8]> {
    let header = if key.get(1)? & 0x80 == 0 { 2 } else { 2 + usize::from(key.get(1)? & 0x7f) };
    let [2, 1, 1, OCTET_STRING, length, ..] = key.get(header..)? else { return None };
    match length {
        32 => Some(P256),
        48 => Some(P384),
        _ => None,
    }
}

fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant: Vec<u8> = length.iter().copied().skip_while(|byte| *byte == 0).collect();
    let mut value = vec![tag];
    match significant.as_slice() {
        [] => value.push(0),
        [short] if *short < 0x80 => value.push(*short),
        long => {
            let [.., count] = long.len().to_be_bytes();
            value.push(0x80 | count);
            value.extend(long);
        }
    }
    value.extend(content);
    value
}

fn to_pem(der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let mut pem = "-----BEGIN PRIVATE KEY-----\n".to_owned();
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, next) = rest.split_at_checked(64).unwrap_or((rest, ""));
        pem.extend([line, "\n"]);
        rest = next;
    }
    pem + "-----END PRIVATE KEY-----\n"
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rcgen::CertificateParams;

    use super::*;
    use crate::certificates::{Pair, Purpose, kubeconfig};

    /// Made for this test, and used by nothing else.
    const PKCS1: &str = "-----BEGIN RSA PRIVATE KEY-----
MIIEowIBAAKCAQEA2rkbNONdUWNt/Zw5kNMCbzqe+3oy2s6bBK3b4dpkt8xCvurL
Nee55kI2L+Buiq+L2xgVcuVoHV+LWgAfbs5Q+ajeD1l8KPvnimCFjXylT2VIjYax
6J3Q0Uwl1tfVyJ5CET4Jh8+URvD1XApNprDFRko1k4DCBG2yk/cAv1sxB1z8plHj
Iu8umu30lEGSCbqiXwxDyFH0jA49adKj90OOA58tfSwmU/IrkjduTiAMH5je9Mol
ghaYqmTYEdoQToNEDlDQjT9UBNbeg4X74ccgLXq6HkrFzV9WCyH83Ggcb3cJYqXn
kkxrc9BRxPOiVXtvtrQkqTt5flqe+9crEQRnZQIDAQABAoIBAGrdDeHlRG7DebXz
YlzT+9iEd7C+n6IwV6UNnOTYY2U5s1K8PNT1huptZzQ1H007P8WoGrKsSxYu3FL4
xGLLAt04GGa/fd44VYRSbG4YfFwyTCR5rurMUH4yCjrR8W23hOgPu3BTh0qx5+80
SYQr0fbpwwtyWVj4j8ujXwYfc/D4IgtHOMY5lXQzLD1PTnaVuo0U/ENaPTzkGDmm
wgQ45wLk99VnTWqSyAXEi8RlSQKluXF8WeRz9ovYvVS6OELBBZzikbWwj+ppdlRN
72Qf5nf7oDbZ0trKH28h6TvxGTvt7ZIpccyOb2kffSfwnqFT/GYJWhi4fXMjbVk7
/7M1IfECgYEA+r7Wp+rGc2a8/1jBZtY9omQQiTp3BKuSi5PQ/QTEBCNGhQ9dlBB6
nNavGG6UWsWn1LIxyPv6zIybWu1bBnkt4u5KWXVTPKnSKSHi0vu32x2X/e1KRktK
K54iKY/HqtX+drD0Sx1tRglKp+ZjIFr762HzThX0IkNNuWbcbc0Ljl8CgYEA3056
l1/Lo9gdo3SnDupplDefAgbY+0TLOFR2q26/yuSyHb6gl/DknuDI5AyAS/F5FRNg
2V4OBZ4xSVruCHt9zJg8li0K+JlWH6s4owONBsQTiPi7mXiTqS88M2JrH6iSfy+C
0yBYvAN1l2O3DhlvEL03zYImEG4NLkRpOQjVmLsCgYAEMXzVgg+fjnBKtOlHFv4g
4RuFr/ydj2D8BJTSJmpAx3Y+c2tVNpFWXiC/f9nrSrLr068RdWVUVmWit6V2DkC+
Ms37gQLLWOuy1GY+sQb6GxyXmohLdKbg49weZdEpAjsnMP5k4zEYor8k3614tQzR
eunevG9Aw29hUl8NVwiCcQKBgDnDulCYFjx+9kPHNEPWfZM6xCYpEU4GYK9kogH8
tx5MBItPOYm0Zd93dGARn8qFX3YFOkNgYi4v2r4ICJUnJMadBucuJa1jNPUiPJdm
nr+GTytadGTh3Qih0GfWaLGa0LKX3rawomOYXX3Y7Ix4JdPlrp65sREE9uHmDnYT
g/VrAoGBAIpaQpaGU0cqRPQfPL6YO6TFTZnocaFdjWH5KGWK2mHHFb6hNrOI5Ahk
7n+iIf00E2qXN1iTXdyI/qHN/e8dbM0Vf7Fi0gf7DYE11rrU01Je+5vPnasQnLTY
aOCT5wAXfk8Ywd1bNi//jGwmnciJn+Kq4mzHvS3g9N8Bty9BJGvH
-----END RSA PRIVATE KEY-----
";
    /// The same, of an elliptic curve, with its parameters before it.
    const SEC1: &str = "-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEINubuzG/A+A7AJaxwoaHcziKVApFhVUGsIW2bC0Jxz54oAoGCCqGSM49
AwEHoUQDQgAE0vTyLctaw7G3ZokKICk5Hfx7XwH5MrJ8hAV1KBvD1pjq0j14mrRb
hYpUrBtJgBEfumhK1E1Y5uGkM4DlAzDfwQ==
-----END EC PRIVATE KEY-----
";

    #[test]
    fn authorities_with_keys_in_older_forms_sign_kubeconfigs() {
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        let generated = Purpose::ClusterAuthority.generate(now).unwrap().key;
        for (form, key) in [("PKCS #1", PKCS1), ("SEC 1", SEC1), ("PKCS #8", &generated)] {
            let pair = read(key).unwrap_or_else(|error| panic!("{form}: {error}"));
            let mut authority = CertificateParams::new(Vec::new()).unwrap();
            authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            let certificate = authority.self_signed(&pair).unwrap().pem();
            let authority = Pair { certificate, key: key.to_owned() };
            let made = kubeconfig("c1", "https://10.0.0.1:6443", &authority, now);
            assert!(made.unwrap().contains("client-certificate-data"), "{form}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let truncated = PKCS1.replace("MII", "AAA");
        for text in ["", "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n", &truncated] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
