//! What the tests share: names, values, and states that can be compared.

use std::collections::BTreeMap;
use std::path::Path;

use tempfile::TempDir;
use windlass_store::{Key, Options, Resource, Scope, Snapshot, Store};

/// Everything in a store: for each key its revision and value.
pub(crate) type Objects = BTreeMap<String, (u64, Vec<u8>)>;

pub(crate) fn resource(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

pub(crate) fn pods() -> Resource {
    resource("core/pods")
}

pub(crate) fn pod(name: &str) -> Key {
    Key::new(&pods(), "default", name).unwrap()
}

pub(crate) fn open(dir: &Path) -> Store {
    Store::open(dir, &Options::new()).unwrap()
}

pub(crate) fn objects(snapshot: &Snapshot) -> Objects {
    snapshot
        .list(&Scope::All)
        .map(|object| (object.key().to_string(), (object.revision(), object.value().to_vec())))
        .collect()
}

/// A directory in memory where the system has one: for tests that open thousands of stores and do not
/// care whether a sync is a sync.
pub(crate) fn fast_dir() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// The file that holds the objects of the store in `dir`.
pub(crate) fn store_file(dir: &Path) -> std::path::PathBuf {
    dir.join("objects.db")
}

/// The same numbers in every run (SplitMix64): a failure can be seen again.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}
