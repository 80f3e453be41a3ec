//! A map from names to what they stand for, made once and looked into many times.

use std::fmt;

/// Names in their order, each with something. Looked up by a hash of the name: every field of every object
/// that is written is looked up a dozen times.
#[derive(Clone)]
pub struct Names<T> {
    /// Sorted by name.
    entries: Vec<(String, T)>,
    /// For each hash the place in `entries`, or [`NOTHING`]; a power of two, at most half full. Empty if
    /// there are more than [`HASHED`] names.
    places: Vec<u8>,
}

const NOTHING: u8 = u8::MAX;

/// How many names are looked up by their hash. Most objects have fewer; among more it is searched, so that
/// names with the same hash are of no use to an attacker.
const HASHED: usize = 64;

impl<T> Names<T> {
    /// What a name stands for.
    pub fn get(&self, name: &str) -> Option<&T> {
        let Some(mask) = self.places.len().checked_sub(1) else {
            return self.search(name).ok().map(|at| &self.entries[at].1);
        };
        let mut at = hash(name) as usize & mask;
        loop {
            let place = *self.places.get(at)?;
            if place == NOTHING {
                return None;
            }
            let (known, entry) = self.entries.get(usize::from(place))?;
            if known == name {
                return Some(entry);
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether there is such a name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Adds a name, in the place of one that is the same.
    pub fn insert(&mut self, name: String, entry: T) {
        match self.search(&name) {
            Ok(at) => self.entries[at] = (name, entry),
            Err(at) => {
                self.entries.insert(at, (name, entry));
                self.index();
            }
        }
    }

    /// What a name stands for, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        let at = self.search(name).ok()?;
        self.entries.get_mut(at).map(|(_, entry)| entry)
    }

    fn search(&self, name: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// All names in their order, with what they stand for.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &T)> {
        self.entries.iter().map(|(name, entry)| (name, entry))
    }

    /// All names in their order.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.entries.iter().map(|(name, _)| name)
    }

    /// What the names stand for, in the order of the names.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|(_, entry)| entry)
    }

    fn index(&mut self) {
        self.places = Vec::new();
        if self.entries.len() > HASHED {
            return;
        }
        let size = (self.entries.len() * 2).next_power_of_two().max(4);
        let mut places = vec![NOTHING; size];
        for (place, (name, _)) in (0..NOTHING).zip(&self.entries) {
            let mut at = hash(name) as usize & (size - 1);
            while places[at] != NOTHING {
                at = (at + 1) & (size - 1);
            }
            places[at] = place;
        }
        self.places = places;
    }
}

/// Mixes the length and the bytes, eight at a time.
fn hash(name: &str) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = name.len() as u64;
    let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(MIX).rotate_left(29);
    let (words, rest) = name.as_bytes().as_chunks::<8>();
    words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
    mix(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    hash ^ hash >> 32
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: Vec::new() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Names<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Of several entries with one name, the last one counts.
impl<T> FromIterator<(String, T)> for Names<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(entries: I) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by(|(left, _), (right, _)| left.cmp(right));
        entries.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        let mut names = Self { entries, places: Vec::new() };
        names.index();
        names
    }
}

impl<T, const N: usize> From<[(String, T); N]> for Names<T> {
    fn from(entries: [(String, T); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<'a, T> IntoIterator for &'a Names<T> {
    type Item = (&'a String, &'a T);
    type IntoIter = std::iter::Map<std::slice::Iter<'a, (String, T)>, fn(&'a (String, T)) -> Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter().map(|(name, entry)| (name, entry))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_found_as_in_an_ordered_map(
            entries in proptest::collection::vec(("[ab]{0,3}|[a-z]{7,9}|[a-c]{15,17}", any::<u8>()), 0..90),
            more in proptest::collection::vec(("[ab]{0,3}|[a-z]{7,9}", any::<u8>()), 0..4),
            others in proptest::collection::vec("[ab]{0,4}|[a-z]{7,9}", 0..20),
        ) {
            let mut names: Names<u8> = entries.iter().cloned().collect();
            let mut model: BTreeMap<String, u8> = entries.into_iter().collect();
            for (name, entry) in more {
                names.insert(name.clone(), entry);
                model.insert(name, entry);
            }
            prop_assert!(names.iter().eq(model.iter()));
            prop_assert!((&names).into_iter().eq(&model));
            prop_assert_eq!((names.len(), names.is_empty()), (model.len(), model.is_empty()));
            for name in model.keys().chain(&others) {
                prop_assert_eq!(names.get(name), model.get(name), "{}", name);
                prop_assert_eq!(names.get_mut(name).copied(), model.get(name).copied());
            }
        }
    }

    #[test]
    fn a_hundred_thousand_names_are_found_quickly() {
        let names: Names<usize> = (0..100_000).map(|number| (format!("field{number}"), number)).collect();
        assert!((0..100_000).all(|number| names.get(&format!("field{number}")) == Some(&number)));
    }
}
