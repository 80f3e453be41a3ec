//! What a patch may cost.

use serde_json::Value;

use super::Problem;
use crate::depth;

/// The most bytes that the `copy` operations of a patch may add together: the API server's limit.
/// Without one, a patch that copies a field into itself doubles it with every operation.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The most work that a patch may make, in values looked at or moved. Ten thousand insertions at the
/// start of a long list, or moves of a large object, would otherwise keep a thread busy for minutes.
const MAX_WORK: usize = 20_000_000;

/// What a patch has cost so far.
#[derive(Default)]
pub(super) struct Cost {
    copied: usize,
    work: usize,
}

impl Cost {
    pub(super) fn copy(&mut self, value: &Value) -> Result<(), Problem> {
        self.copied += value.to_string().len();
        if self.copied > MAX_COPIED_BYTES { Err(Problem::CopiesTooMuch) } else { Ok(()) }
    }

    /// A value that is put at a path: everything inside it is looked at, to see how deep it goes.
    pub(super) fn place(&mut self, value: &Value, path: &str) -> Result<(), Problem> {
        let above = path.bytes().filter(|byte| *byte == b'/').count();
        let seen = depth::check_below(value, above)?;
        self.charge(seen)
    }

    /// Items that make room or close ranks. Moving them is much cheaper than looking at them.
    pub(super) fn shift(&mut self, items: usize) -> Result<(), Problem> {
        self.charge(items / 8)
    }

    fn charge(&mut self, work: usize) -> Result<(), Problem> {
        self.work += work;
        if self.work > MAX_WORK { Err(Problem::TooExpensive) } else { Ok(()) }
    }
}
