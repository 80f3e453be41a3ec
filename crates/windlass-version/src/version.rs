//! The version value and how it is written.

use std::fmt;
use std::str::FromStr;

use semver::{BuildMetadata, Prerelease};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Minor, ParseError};

/// One Kubernetes version.
///
/// Displayed with the `v` that Kubernetes users expect; [`Version::bare`] leaves it out. `==` compares
/// what is displayed, so `v1.31` and `1.31.0` are equal, and `v1.31.0+a` and `v1.31.0+b` are not. There
/// is deliberately no `Ord`: two builds of one release may have no order, see [`Version::compare`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) pre: Prerelease,
    pub(crate) build: BuildMetadata,
}

impl Version {
    /// A release without pre-release or build parts.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self { major, minor, patch, pre: Prerelease::EMPTY, build: BuildMetadata::EMPTY }
    }

    /// The minor this version belongs to, with its major: the unit of the skew policy.
    pub const fn minor(&self) -> Minor {
        Minor { major: self.major, minor: self.minor }
    }

    /// The patch number.
    pub const fn patch(&self) -> u64 {
        self.patch
    }

    /// The pre-release part without its dash; empty for a release.
    pub fn pre_release(&self) -> &str {
        self.pre.as_str()
    }

    /// The build part without its plus; empty if there is none.
    pub fn build(&self) -> &str {
        self.build.as_str()
    }

    /// Writes the version without the leading `v`, as image tags and Go's semver do.
    pub fn bare(&self) -> impl fmt::Display + '_ {
        Bare(self)
    }
}

struct Bare<'a>(&'a Version);

impl fmt::Display for Bare<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version { major, minor, patch, pre, build } = self.0;
        write!(f, "{major}.{minor}.{patch}")?;
        if !pre.is_empty() {
            write!(f, "-{pre}")?;
        }
        if !build.is_empty() {
            write!(f, "+{build}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_some() || f.precision().is_some() {
            // Padding needs the whole text; the plain case below must not allocate.
            return f.pad(&format!("v{}", Bare(self)));
        }
        write!(f, "v{}", Bare(self))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", Bare(self))
    }
}

impl FromStr for Version {
    type Err = ParseError;

    /// Tolerant, see [`Version::parse`].
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_displayed_with_a_v_and_bare_without() {
        for (text, shown) in [
            ("1.31", "v1.31.0"),
            ("v1.31.0-rc.1+vendor.2", "v1.31.0-rc.1+vendor.2"),
            ("1.31.0+k3s1", "v1.31.0+k3s1"),
        ] {
            let version: Version = text.parse().unwrap();
            assert_eq!(version.to_string(), shown);
            assert_eq!(format!("v{}", version.bare()), shown);
        }
    }

    #[test]
    fn honours_the_width_of_a_table_column() {
        assert_eq!(
            format!("{:>10}|{:<9}|", Version::new(1, 31, 0), Version::new(1, 2, 3)),
            "   v1.31.0|v1.2.3   |"
        );
    }

    #[test]
    fn equality_is_that_of_the_rendered_text() {
        let parse = |text: &str| Version::parse(text).unwrap();
        assert_eq!(parse("v1.31"), parse(" 1.31.0 "));
        assert_ne!(parse("v1.31.0+a"), parse("v1.31.0+b"));
        assert_ne!(parse("v1.31.0-rc.1"), parse("v1.31.0"));
    }

    #[test]
    fn goes_through_json_as_a_string() {
        let version: Version = serde_json::from_str("\"1.31\"").unwrap();
        assert_eq!(serde_json::to_string(&version).unwrap(), "\"v1.31.0\"");
        let error = serde_json::from_str::<Version>("\"latest\"").unwrap_err().to_string();
        assert!(error.contains("\"latest\""), "{error}");
    }
}
