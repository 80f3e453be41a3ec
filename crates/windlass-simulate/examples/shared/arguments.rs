//! The arguments of the programs here: `cargo xtask` passes on what it was given.

/// The number after an option.
pub(crate) fn option(name: &str) -> Option<u64> {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name)?;
    arguments.get(at + 1)?.parse().ok()
}
