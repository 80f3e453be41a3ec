//! Any text is a version that renders to itself, or an error that points into the text.

use windlass_version::Version;

/// One input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Version::parse(text) {
        Ok(version) => {
            let shown = version.to_string();
            assert_eq!(Version::parse(&shown).as_ref(), Ok(&version));
            assert_eq!(Version::parse_strict(&shown[1..]).as_ref(), Ok(&version));
            assert_eq!(version.compare(&version), windlass_version::Comparison::Equal);
        }
        Err(error) => {
            assert!(error.position <= text.len());
            assert!(error.to_string().len() < 1000);
            assert!(Version::parse_strict(text).is_err());
        }
    }
}
