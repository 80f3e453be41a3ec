//! Random numbers that come from a seed, apart for every object they are drawn for.
//!
//! One generator for a whole program makes every draw depend on all draws before it: one more object, and all names and
//! uids after it are others. A [`Randomness`] has a child generator per owner instead, derived from the seed, the owner
//! and how often that owner has drawn. What one owner draws changes nothing for any other.
//!
//! ```
//! use windlass_random::{Randomness, name_suffix};
//!
//! let alone = Randomness::seeded(7);
//! let suffix = name_suffix(&mut alone.generator(&["machinesets", "default/web"]));
//!
//! let crowded = Randomness::seeded(7);
//! crowded.generator(&["machinesets", "default/db"]);
//! assert_eq!(name_suffix(&mut crowded.generator(&["machinesets", "default/web"])), suffix);
//! ```

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Characters of generated names: no vowels and nothing that looks like one, so that no words come out.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A generator of one owner.
pub type Generator = fastrand::Rng;

/// Generators for owners: objects, or whatever else draws on its own.
#[derive(Debug)]
pub struct Randomness {
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// How often each owner has drawn, by the hash of the owner.
    Seed { seed: u64, draws: Mutex<BTreeMap<u64, u64>> },
    /// Another one in every run. Nothing is counted: a process that runs for months would count objects that are long gone.
    Unpredictable,
}

impl Randomness {
    /// The same in every run with this seed.
    pub fn seeded(seed: u64) -> Self {
        Self { source: Source::Seed { seed, draws: Mutex::default() } }
    }

    /// Another one in every run.
    pub fn unpredictable() -> Self {
        Self { source: Source::Unpredictable }
    }

    /// From a seed where there is one.
    pub fn new(seed: Option<u64>) -> Self {
        seed.map_or_else(Self::unpredictable, Self::seeded)
    }

    /// The next generator of an owner. It depends on the seed, the owner, and how many generators this owner was given before.
    pub fn generator(&self, owner: &[&str]) -> Generator {
        let Source::Seed { seed, draws } = &self.source else { return Generator::new() };
        let mut draws = draws.lock().unwrap_or_else(PoisonError::into_inner);
        let count = draws.entry(mix(0, owner, 0)).or_default();
        *count += 1;
        Generator::with_seed(mix(*seed, owner, *count))
    }
}

/// Five characters for the end of a name.
pub fn name_suffix(random: &mut Generator) -> String {
    (0..5).map(|_| char::from(ALPHABET[random.usize(..ALPHABET.len())])).collect()
}

/// A UUID of version 4.
pub fn uuid(random: &mut Generator) -> String {
    let bits = random.u128(..);
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// A number that depends on all of its inputs, the same in every build and on every machine.
pub fn mix(seed: u64, parts: &[&str], count: u64) -> u64 {
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
        let suffix = |seed| name_suffix(&mut Generator::with_seed(seed));
        assert_eq!(suffix(1), suffix(1));
        assert_ne!(suffix(1), suffix(2));
        assert!(suffix(3).bytes().all(|byte| ALPHABET.contains(&byte)) && suffix(3).len() == 5);
    }

    #[test]
    fn uuids_say_that_they_are_random() {
        let uuid = uuid(&mut Generator::with_seed(1));
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
        assert!(uuid[14..].starts_with('4') && "89ab".contains(&uuid[19..20]), "{uuid}");
    }

    #[test]
    fn similar_inputs_are_far_apart() {
        let of = |name, count| mix(7, &["machine", name], count) % 16;
        let values: std::collections::BTreeSet<u64> =
            (0..100).map(|count| of("m-1", count)).chain([of("m-2", 0)]).collect();
        assert!(values.len() > 12, "{values:?}");
        assert_ne!(mix(7, &["ab", "c"], 0), mix(7, &["a", "bc"], 0));
    }

    #[test]
    fn an_owner_draws_the_same_whatever_the_others_draw() {
        let draw = |random: &Randomness, owner: &str| random.generator(&["machinesets", owner]).u64(..);
        let alone = Randomness::seeded(3);
        let expected = [draw(&alone, "web"), draw(&alone, "web"), draw(&alone, "web")];
        let crowded = Randomness::seeded(3);
        let drawn = [(); 3].map(|()| {
            draw(&crowded, "db");
            draw(&crowded, "web")
        });
        assert_eq!(drawn, expected);
        assert_ne!(expected[0], expected[1], "every draw of an owner is another");
        assert_ne!(draw(&Randomness::seeded(4), "web"), expected[0], "and so is that of another seed");
    }

    #[test]
    fn without_a_seed_no_two_runs_are_alike() {
        let draw = || Randomness::new(None).generator(&["machinesets", "web"]).u128(..);
        assert_ne!(draw(), draw());
    }
}
