//! Comparison with four outcomes.

use std::cmp::Ordering;

use crate::Version;

/// How one version stands to another, build included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// Older.
    Less,
    /// The same version.
    Equal,
    /// Newer.
    Greater,
    /// The same release, built differently, and nothing says which build is newer. Symmetric.
    DifferentBuild,
}

impl Comparison {
    /// Whether a step to this version is progress: it is newer, or another build of the same release.
    ///
    /// Both directions between two [`Comparison::DifferentBuild`] versions count as progress, so a caller
    /// that walks a chain must also refuse to visit a version twice.
    pub const fn is_progress(self) -> bool {
        matches!(self, Self::Greater | Self::DifferentBuild)
    }

    /// The outcome with the two sides exchanged.
    pub const fn reversed(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::Greater => Self::Less,
            same => same,
        }
    }
}

impl From<Ordering> for Comparison {
    fn from(ordering: Ordering) -> Self {
        match ordering {
            Ordering::Less => Self::Less,
            Ordering::Equal => Self::Equal,
            Ordering::Greater => Self::Greater,
        }
    }
}

impl Version {
    /// Compares by precedence, then by build identifiers from left to right: numbers by value and below
    /// texts, a longer list above its own beginning, and two different texts as
    /// [`Comparison::DifferentBuild`].
    pub fn compare(&self, other: &Self) -> Comparison {
        match self.precedence(other) {
            Ordering::Equal => compare_builds(self.build(), other.build()),
            decided => decided.into(),
        }
    }

    /// Order by major, minor, patch and pre-release; the build is ignored, as semver demands.
    pub fn precedence(&self, other: &Self) -> Ordering {
        self.release_precedence(other).then_with(|| self.pre.cmp(&other.pre))
    }

    /// Order by major, minor and patch alone.
    pub fn release_precedence(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch).cmp(&(other.major, other.minor, other.patch))
    }
}

fn compare_builds(left: &str, right: &str) -> Comparison {
    if left == right {
        return Comparison::Equal;
    }
    let (mut left, mut right) = (identifiers(left), identifiers(right));
    loop {
        let outcome = match (left.next(), right.next()) {
            (None, None) => return Comparison::Equal,
            (None, Some(_)) => Comparison::Less,
            (Some(_), None) => Comparison::Greater,
            (Some(l), Some(r)) => compare_identifiers(l, r),
        };
        if outcome != Comparison::Equal {
            return outcome;
        }
    }
}

/// `split` yields one empty item for an empty text; a version without a build has no identifiers at all.
fn identifiers(build: &str) -> impl Iterator<Item = &str> {
    build.split('.').filter(|identifier| !identifier.is_empty())
}

fn compare_identifiers(left: &str, right: &str) -> Comparison {
    match (digits(left), digits(right)) {
        // More digits means a larger number once leading zeros are gone; no width limit is needed.
        (Some(l), Some(r)) => (l.len(), l).cmp(&(r.len(), r)).into(),
        (Some(_), None) => Comparison::Less,
        (None, Some(_)) => Comparison::Greater,
        (None, None) if left == right => Comparison::Equal,
        (None, None) => Comparison::DifferentBuild,
    }
}

fn digits(identifier: &str) -> Option<&str> {
    identifier.bytes().all(|b| b.is_ascii_digit()).then(|| identifier.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Comparison::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn four_outcomes() {
        for (left, right, outcome) in [
            ("1.31.0", "1.31.0", Equal),
            ("1.31.0", "1.31.1", Less),
            ("1.32.0", "1.31.9", Greater),
            ("2.0.0", "1.99.0", Greater),
            ("1.31.0-rc.1", "1.31.0", Less),
            ("1.31.0-alpha.2", "1.31.0-alpha.10", Less),
            ("1.31.0-rc.1+a", "1.31.0+a", Less),
            ("1.31.0+vendor.1", "1.31.0+vendor.2", Less),
            ("1.31.0+vendor.9", "1.31.0+vendor.10", Less),
            ("1.31.0+vendor.010", "1.31.0+vendor.10", Equal),
            ("1.31.0", "1.31.0+x", Less),
            ("1.31.0+a", "1.31.0+a.b", Less),
            ("1.31.0+a", "1.31.0+b", DifferentBuild),
            ("1.31.0+1", "1.31.0+a", Less),
            ("1.31.0+foo.2-bar.1", "1.31.0+foo.1-bar.1", DifferentBuild),
            ("1.31.0+foo.1.x", "1.31.0+foo.2.y", Less),
            ("1.31.0+99999999999999999999998", "1.31.0+99999999999999999999999", Less),
        ] {
            assert_eq!(parse(left).compare(&parse(right)), outcome, "{left} to {right}");
            assert_eq!(parse(right).compare(&parse(left)), outcome.reversed(), "{right} to {left}");
        }
    }

    #[test]
    fn precedence_ignores_the_build_and_release_precedence_the_pre_release() {
        let (a, b) = (parse("1.31.0-rc.1+a"), parse("1.31.0-rc.2+b"));
        assert_eq!(a.precedence(&b), Ordering::Less);
        assert_eq!(a.release_precedence(&b), Ordering::Equal);
        assert_eq!(parse("1.31.0+a").precedence(&parse("1.31.0+b")), Ordering::Equal);
    }

    #[test]
    fn newer_and_differently_built_are_progress() {
        assert!(Greater.is_progress() && DifferentBuild.is_progress());
        assert!(!Less.is_progress() && !Equal.is_progress());
    }

    fn version() -> impl Strategy<Value = Version> {
        "1\\.(30|31)\\.[01](-(rc|alpha)\\.[0-3])?(\\+(a|b|[0-2])(\\.(a|b|[0-2]))?)?".prop_map(|t| parse(&t))
    }

    proptest! {
        #[test]
        fn exchanging_the_sides_reverses_the_outcome(a in version(), b in version()) {
            prop_assert_eq!(a.compare(&b), b.compare(&a).reversed());
        }

        #[test]
        fn known_order_is_transitive(a in version(), b in version(), c in version()) {
            if a.compare(&b) == Less && b.compare(&c) == Less {
                prop_assert_eq!(a.compare(&c), Less);
            }
        }

        #[test]
        fn an_unknown_order_happens_only_within_one_release(a in version(), b in version()) {
            if a.compare(&b) == DifferentBuild {
                prop_assert_eq!(a.precedence(&b), Ordering::Equal);
                prop_assert_ne!(a, b);
            }
        }
    }
}
