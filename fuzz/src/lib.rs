//! What the fuzz targets do with an input. The tests of the crates run the same functions on a short,
//! deterministic series of inputs; `cargo +nightly fuzz run NAME` searches for as long as you like.

pub mod api;
pub mod api_path;
pub mod api_request;
pub mod parse_version;
pub mod patches;
pub mod plan_check;
pub mod protobuf_body;
pub mod selectors;
pub mod yaml_body;
