//! Short numbers for long texts (FNV-1a), for names and to tell whether something changed. The same in every version: they
//! are written down.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_everybody_else() {
        assert_eq!((short(""), short("foobar")), (0x811c_9dc5, 0xbf9c_f968));
        assert_eq!((long(b""), long(b"foobar")), (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8));
    }
}
