//! Randomness that comes from a seed.

/// Characters of generated names: no vowels and nothing that looks like one, so that no words come out.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Five characters for the end of a name.
pub fn name_suffix(random: &mut fastrand::Rng) -> String {
    (0..5).map(|_| char::from(ALPHABET[random.usize(..ALPHABET.len())])).collect()
}

/// A number that depends on all of its inputs, the same in every build and on every machine.
pub(crate) fn mix(seed: u64, parts: &[&str], count: u64) -> u64 {
    // FNV-1a over the parts, each ended by a byte that is not in UTF-8.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.iter().flat_map(|part| part.bytes().chain([0xff])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // FNV alone leaves the high bits of similar inputs alike; splitmix64 spreads them.
    let mut spread = seed ^ hash.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    spread = (spread ^ (spread >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    spread = (spread ^ (spread >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    spread ^ (spread >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_come_from_the_seed() {
        let suffix = |seed| name_suffix(&mut fastrand::Rng::with_seed(seed));
        assert_eq!(suffix(1), suffix(1));
        assert_ne!(suffix(1), suffix(2));
        assert!(suffix(3).bytes().all(|byte| ALPHABET.contains(&byte)) && suffix(3).len() == 5);
    }

    #[test]
    fn similar_inputs_are_far_apart() {
        let of = |name, count| mix(7, &["machine", name], count) % 16;
        let values: std::collections::BTreeSet<u64> =
            (0..100).map(|count| of("m-1", count)).chain([of("m-2", 0)]).collect();
        assert!(values.len() > 12, "{values:?}");
        assert_ne!(mix(7, &["ab", "c"], 0), mix(7, &["a", "bc"], 0));
    }
}
