//! What the fuzz targets do with an input. The tests of the crates run the same functions on a short,
//! deterministic series of inputs; `cargo +nightly fuzz run NAME` searches for as long as you like.

pub mod parse_version;
pub mod plan_check;
