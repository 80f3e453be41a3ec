//! Tolerant and strict parsing, with errors that point at the byte that is wrong.

use std::fmt;

use semver::{BuildMetadata, Prerelease};

use crate::Version;

/// Longest version text accepted, in bytes: the limit that Cluster API's schemas put on a version.
pub const MAX_LENGTH: usize = 256;

/// Longest piece of the input that an error repeats; an error lands in conditions and terminals.
const MAX_QUOTED: usize = 64;

impl Version {
    /// Reads a version as people and Cluster API's controllers write it: surrounding white space, one
    /// leading `v`, leading zeros and missing minor or patch numbers are accepted.
    ///
    /// `v1.31` is `v1.31.0`, but `v1.31-rc.1` is refused: which number is missing there is a guess.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut body = text.trim_start();
        let mut start = text.len() - body.len();
        body = body.trim_end();
        if let Some(rest) = body.strip_prefix('v') {
            body = rest;
            start += 1;
        }
        Parser { whole: text, start, zeros: Zeros::Dropped }.version(body)
    }

    /// Reads a version as the semantic versioning specification writes it: three numbers without leading
    /// zeros, optional pre-release and build, nothing around them and no `v`.
    pub fn parse_strict(text: &str) -> Result<Self, ParseError> {
        Parser { whole: text, start: 0, zeros: Zeros::Refused }.version(text)
    }

    /// Reads the tag of a container image, in which `_` stands for the `+` that tags cannot contain.
    pub fn parse_image_tag(tag: &str) -> Result<Self, ParseError> {
        Self::parse(&tag.replace('_', "+"))
    }
}

/// A text that is not a version: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The text, cut to a length that can be shown.
    pub input: String,
    /// Byte offset in the text as it was given, white space and `v` included.
    pub position: usize,
    /// What is wrong there.
    pub kind: ParseErrorKind,
}

/// What can be wrong with a version text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// Nothing but white space, or only a `v`.
    #[error("it is empty")]
    Empty,
    /// Longer than [`MAX_LENGTH`].
    #[error("it is longer than {MAX_LENGTH} characters")]
    TooLong,
    /// Fewer than three numbers where three are needed.
    #[error("expected three numbers as in 1.31.0")]
    MissingNumber,
    /// Fewer than three numbers and a pre-release or build part, so that it is unclear what is missing.
    #[error("a pre-release or build part needs all three numbers before it, as in 1.31.0-rc.1")]
    SuffixAfterShortVersion,
    /// A number of length zero, as in `1..0`.
    #[error("expected a number")]
    EmptyNumber,
    /// Something that is not an ASCII digit in a number.
    #[error("expected a digit, found {0:?}")]
    NotADigit(char),
    /// A number that does not fit 64 bits.
    #[error("the number is too large")]
    NumberTooLarge,
    /// A number with a leading zero where semver forbids it.
    #[error("a number must not start with 0")]
    LeadingZero,
    /// A dot-separated identifier of length zero, as in `-rc..1`.
    #[error("expected letters, digits or dashes")]
    EmptyIdentifier,
    /// Something that is not a letter, digit or dash in a pre-release or build identifier.
    #[error("only letters, digits and dashes are allowed, found {0:?}")]
    InvalidCharacter(char),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input, position, kind } = self;
        match kind {
            ParseErrorKind::Empty => write!(f, "{input:?} is not a version: {kind}"),
            ParseErrorKind::TooLong => write!(f, "{input:?}... is not a version: {kind}"),
            _ => write!(f, "{input:?} is not a version: {kind} at offset {position}"),
        }
    }
}

impl std::error::Error for ParseError {}

enum Zeros {
    Dropped,
    Refused,
}

struct Parser<'a> {
    /// The text as given, for errors.
    whole: &'a str,
    /// Where in `whole` the part being parsed starts.
    start: usize,
    zeros: Zeros,
}

impl Parser<'_> {
    fn version(&self, body: &str) -> Result<Version, ParseError> {
        use ParseErrorKind::{Empty, MissingNumber, SuffixAfterShortVersion, TooLong};
        if self.whole.len() > MAX_LENGTH && body.len() > MAX_LENGTH {
            return Err(self.error(0, TooLong));
        }
        if body.is_empty() {
            return Err(self.error(0, Empty));
        }
        let (major, after_major) = cut(body, b'.');
        let (minor, patch) = after_major.map_or((None, None), |rest| {
            let (minor, patch) = cut(rest, b'.');
            (Some(minor), patch)
        });
        let minor_at = major.len() + 1;
        let (Some(minor), Some(patch)) = (minor, patch) else {
            if matches!(self.zeros, Zeros::Refused) {
                return Err(self.error(body.len(), MissingNumber));
            }
            let (last, last_at) = minor.map_or((major, 0), |minor| (minor, minor_at));
            if let Some(suffix) = last.find(['+', '-']) {
                return Err(self.error(last_at + suffix, SuffixAfterShortVersion));
            }
            let major = self.number(major, 0)?;
            let minor = minor.map_or(Ok(0), |minor| self.number(minor, minor_at))?;
            return Ok(Version::new(major, minor, 0));
        };
        let patch_at = minor_at + minor.len() + 1;
        let (rest, build) = cut(patch, b'+');
        let (number, pre) = cut(rest, b'-');
        let patch_number = if number.is_empty() && patch.len() > 1 && matches!(self.zeros, Zeros::Dropped) {
            // `1.31.-rc.1`: Cluster API's parser reads the missing patch number as 0.
            0
        } else {
            self.number(number, patch_at)?
        };
        let pre_at = patch_at + number.len() + 1;
        let build_at = patch_at + rest.len() + 1;
        Ok(Version {
            major: self.number(major, 0)?,
            minor: self.number(minor, minor_at)?,
            patch: patch_number,
            pre: match pre {
                None => Prerelease::EMPTY,
                Some(pre) => read_identifiers(pre, Prerelease::new)
                    .ok_or_else(|| self.bad_identifiers(pre, pre_at, Suffix::PreRelease))?,
            },
            build: match build {
                None => BuildMetadata::EMPTY,
                Some(build) => read_identifiers(build, BuildMetadata::new)
                    .ok_or_else(|| self.bad_identifiers(build, build_at, Suffix::Build))?,
            },
        })
    }

    fn number(&self, digits: &str, at: usize) -> Result<u64, ParseError> {
        if digits.is_empty() {
            return Err(self.error(at, ParseErrorKind::EmptyNumber));
        }
        let mut value: u64 = 0;
        for (offset, byte) in digits.bytes().enumerate() {
            if !byte.is_ascii_digit() {
                return Err(self.at_char(at + offset, digits, offset, ParseErrorKind::NotADigit));
            }
            value = value
                .checked_mul(10)
                .and_then(|value| value.checked_add(u64::from(byte - b'0')))
                .ok_or_else(|| self.error(at, ParseErrorKind::NumberTooLarge))?;
        }
        if digits.len() > 1 && digits.starts_with('0') && matches!(self.zeros, Zeros::Refused) {
            return Err(self.error(at, ParseErrorKind::LeadingZero));
        }
        Ok(value)
    }

    /// What is wrong with a list of identifiers that could not be read.
    fn bad_identifiers(&self, list: &str, at: usize, suffix: Suffix) -> ParseError {
        let mut from = at;
        for identifier in list.split('.') {
            if let Some(offset) = identifier.bytes().position(|b| !(b.is_ascii_alphanumeric() || b == b'-')) {
                return self.at_char(from + offset, identifier, offset, ParseErrorKind::InvalidCharacter);
            }
            let numeric = identifier.bytes().all(|b| b.is_ascii_digit());
            let padded = numeric && identifier.len() > 1 && identifier.starts_with('0');
            if padded && matches!(suffix, Suffix::PreRelease) {
                return self.error(from, ParseErrorKind::LeadingZero);
            }
            if identifier.is_empty() {
                break;
            }
            from += identifier.len() + 1;
        }
        self.error(from, ParseErrorKind::EmptyIdentifier)
    }

    fn at_char(&self, at: usize, part: &str, offset: usize, kind: fn(char) -> ParseErrorKind) -> ParseError {
        // The bytes before `offset` are ASCII, so it is a character boundary.
        let found = part.get(offset..).and_then(|rest| rest.chars().next()).unwrap_or('\u{fffd}');
        self.error(at, kind(found))
    }

    fn error(&self, at: usize, kind: ParseErrorKind) -> ParseError {
        let end = self.whole.floor_char_boundary(MAX_QUOTED);
        ParseError { input: self.whole[..end].to_owned(), position: self.start + at, kind }
    }
}

#[derive(Clone, Copy)]
enum Suffix {
    PreRelease,
    Build,
}

/// Reads identifiers with a parser of the semver crate, which takes an empty text for "none".
fn read_identifiers<T, E>(list: &str, read: fn(&str) -> Result<T, E>) -> Option<T> {
    if list.is_empty() { None } else { read(list).ok() }
}

/// Splits at the first `mark`, an ASCII character, keeping "nothing there" apart from "empty there".
fn cut(text: &str, mark: u8) -> (&str, Option<&str>) {
    // The texts are a few bytes long: a plain scan beats the set-up of a searcher.
    match text.bytes().position(|byte| byte == mark) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ParseErrorKind::*;

    #[test]
    fn tolerant_parsing_accepts_what_people_write() {
        for (text, read) in [
            ("1.31.0", "1.31.0"),
            ("v1.31.0", "1.31.0"),
            ("  v1.31.0\n", "1.31.0"),
            ("1", "1.0.0"),
            ("v1.31", "1.31.0"),
            ("01.031.007", "1.31.7"),
            ("0.0.0", "0.0.0"),
            ("00.00.00", "0.0.0"),
            ("1.31.0-rc.1", "1.31.0-rc.1"),
            ("1.31.00-rc.1", "1.31.0-rc.1"),
            ("1.31.-rc.1", "1.31.0-rc.1"),
            ("1.31.+k3s1", "1.31.0+k3s1"),
            ("1.31.0+foo.2-bar.1", "1.31.0+foo.2-bar.1"),
            ("1.31.0-a-b.c+0012.x", "1.31.0-a-b.c+0012.x"),
            ("1.31.0-x.y.z", "1.31.0-x.y.z"),
            ("18446744073709551615.0.0", "18446744073709551615.0.0"),
        ] {
            assert_eq!(Version::parse(text).map(|v| v.bare().to_string()).as_deref(), Ok(read), "{text:?}");
        }
    }

    #[test]
    fn tolerant_parsing_names_what_is_wrong_and_where() {
        for (text, position, kind) in [
            ("", 0, Empty),
            ("   ", 3, Empty),
            ("v", 1, Empty),
            (" v ", 2, Empty),
            ("foo", 0, NotADigit('f')),
            ("vv1.31.0", 1, NotADigit('v')),
            ("V1.31.0", 0, NotADigit('V')),
            (" v1.x.0", 4, NotADigit('x')),
            ("1.31.0.1", 6, NotADigit('.')),
            ("1..0", 2, EmptyNumber),
            (".31.0", 0, EmptyNumber),
            ("1.31.", 5, EmptyNumber),
            ("1.31.+", 5, EmptyNumber),
            // Three parts between dots, so the dash stands where a digit of the minor should.
            ("1.31-rc.1", 4, NotADigit('-')),
            ("1.31-rc", 4, SuffixAfterShortVersion),
            ("1+x", 1, SuffixAfterShortVersion),
            ("1.-1.0", 2, NotADigit('-')),
            ("1.31.0-", 7, EmptyIdentifier),
            ("1.31.0-rc..1", 10, EmptyIdentifier),
            ("1.31.0+", 7, EmptyIdentifier),
            ("1.31.0-rc_1", 9, InvalidCharacter('_')),
            ("1.31.0+a+b", 8, InvalidCharacter('+')),
            ("1.31.0-01", 7, LeadingZero),
            ("v1.31.0-é", 8, InvalidCharacter('é')),
            ("18446744073709551616.0.0", 0, NumberTooLarge),
            ("１.31.0", 0, NotADigit('１')),
        ] {
            let error = Version::parse(text).unwrap_err();
            assert_eq!((error.position, error.kind), (position, kind), "{text:?}");
        }
    }

    #[test]
    fn strict_parsing_refuses_every_leniency() {
        assert!(Version::parse_strict("1.31.0-rc.1+k3s1").is_ok());
        for (text, position, kind) in [
            ("v1.31.0", 0, NotADigit('v')),
            (" 1.31.0", 0, NotADigit(' ')),
            ("1.31.0 ", 6, NotADigit(' ')),
            ("1.31", 4, MissingNumber),
            ("1", 1, MissingNumber),
            ("01.31.0", 0, LeadingZero),
            ("1.031.0", 2, LeadingZero),
            ("1.31.00", 5, LeadingZero),
            ("1.31.-rc.1", 5, EmptyNumber),
            ("", 0, Empty),
        ] {
            let error = Version::parse_strict(text).unwrap_err();
            assert_eq!((error.position, error.kind), (position, kind), "{text:?}");
        }
    }

    #[test]
    fn image_tags_write_underscore_for_plus() {
        assert_eq!(Version::parse_image_tag("v1.31.0_k3s1").unwrap().to_string(), "v1.31.0+k3s1");
    }

    #[test]
    fn megabytes_of_input_give_a_short_error() {
        let error = Version::parse(&"1.31.0-".repeat(1_500_000)).unwrap_err();
        assert_eq!(error.kind, TooLong);
        assert!(error.to_string().len() < 200, "{error}");
        let spaces = " ".repeat(10_000_000) + "v1.31.0";
        assert_eq!(Version::parse(&spaces).unwrap().to_string(), "v1.31.0");
    }

    #[test]
    fn the_message_quotes_the_text_and_the_place() {
        assert_eq!(
            Version::parse("v1.3x").unwrap_err().to_string(),
            r#""v1.3x" is not a version: expected a digit, found 'x' at offset 4"#
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused_at_a_place_inside_it(text in "\\PC{0,40}") {
            match Version::parse(&text) {
                Ok(version) => proptest::prop_assert_eq!(Version::parse(&version.to_string()), Ok(version)),
                Err(error) => proptest::prop_assert!(error.position <= text.len()),
            }
        }

        #[test]
        fn strict_and_tolerant_agree_on_strict_texts(
            text in "(0|[1-9][0-9]{0,3})\\.(0|[1-9][0-9]{0,3})\\.(0|[1-9][0-9]{0,3})(-[a-z]{1,4}(\\.[1-9])?)?(\\+[0-9a-z-]{1,5})?"
        ) {
            let strict = Version::parse_strict(&text);
            proptest::prop_assert!(strict.is_ok(), "{:?}", strict);
            proptest::prop_assert_eq!(strict, Version::parse(&text));
        }
    }
}
