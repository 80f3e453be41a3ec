//! PEM, as Go reads it: blocks between other text, with or without headers, in lines of any length.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// A block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// What is in it: `CERTIFICATE`, `RSA PRIVATE KEY`.
    pub(crate) label: String,
    /// The bytes.
    pub(crate) contents: Vec<u8>,
}

/// The first block of a string that is well formed.
pub(crate) fn first(string: &str) -> Option<Block> {
    let mut lines = string.lines();
    while let Some(line) = lines.next() {
        let Some(label) =
            line.trim_end().strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"))
        else {
            continue;
        };
        if let Some(contents) = contents(lines.clone(), label) {
            return Some(Block { label: label.to_owned(), contents });
        }
    }
    None
}

/// The bytes of a block whose first line was read.
fn contents<'a>(lines: impl Iterator<Item = &'a str>, label: &str) -> Option<Vec<u8>> {
    let end = format!("-----END {label}-----");
    let mut encoded = String::new();
    for line in lines {
        if line.trim_end() == end {
            return BASE64_STANDARD.decode(encoded).ok();
        }
        // Headers come first, and base64 has no colon.
        if !(encoded.is_empty() && line.contains(':')) {
            encoded.extend(line.chars().filter(|character| !character.is_ascii_whitespace()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_that_is_well_formed_is_read() {
        for (string, found) in [
            ("-----BEGIN A B-----\naGVs\nbG8=\n-----END A B-----\n", Some(("A B", "hello"))),
            ("text\r\n-----BEGIN A-----\r\naGVsbG8=\r\n-----END A-----\r\n", Some(("A", "hello"))),
            ("-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\n\naGk=\n-----END A-----", Some(("A", "hi"))),
            (
                "-----BEGIN A-----\n*\n-----END A-----\n-----BEGIN B-----\naGk=\n-----END B-----",
                Some(("B", "hi")),
            ),
            ("-----BEGIN A-----\naGk=\n-----END B-----\n", None),
            ("-----BEGIN A-----\naGk=\n", None),
            ("aGk=", None),
            ("", None),
        ] {
            let block = first(string);
            let block = block.as_ref().map(|block| (block.label.as_str(), block.contents.as_slice()));
            assert_eq!(block, found.map(|(label, contents)| (label, contents.as_bytes())), "{string:?}");
        }
    }
}
