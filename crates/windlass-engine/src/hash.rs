//! Short numbers for long texts (FNV-1a), for names and to tell whether something changed. The same in every version: they
//! are written down.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A number of 32 bits.
pub(crate) fn short(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A number of 64 bits.
pub(crate) fn long(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A name as the value of a label, which has 63 characters at most. Longer names are told apart by a number, in upstream's
/// form: it is in the selectors of objects that upstream made.
pub(crate) fn label_value(name: &str) -> String {
    if name.len() <= 63 {
        return name.to_owned();
    }
    format!("hash_{}_z", URL_SAFE_NO_PAD.encode(short(name).to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_make_the_labels_that_upstream_makes() {
        assert_eq!(label_value(&"x".repeat(63)), "x".repeat(63));
        assert_eq!(label_value(&"x".repeat(64)), "hash_0ZsaxQ_z");
        assert_eq!(label_value(&format!("{}foobar", "a".repeat(60))), "hash_98u5HA_z");
    }

    #[test]
    fn numbers_are_those_of_everybody_else() {
        assert_eq!((short(""), short("foobar")), (0x811c_9dc5, 0xbf9c_f968));
        assert_eq!((long(b""), long(b"foobar")), (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8));
    }
}
