//! Minors: the unit in which Kubernetes counts skew.

use std::fmt;

/// A minor with its major, such as `v1.31`. Ordered by major, then minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor {
    /// The major number. Minors of different majors have no distance.
    pub major: u64,
    /// The minor number.
    pub minor: u64,
}

/// How far one minor is from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distance {
    /// The same minor, or that many minors later.
    Forward(u64),
    /// That many minors earlier; never zero.
    Back(u64),
    /// Another major: Kubernetes defines no skew across majors.
    OtherMajor,
}

impl Minor {
    /// The minor that follows. Saturates, so it is never smaller than `self`.
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The minor `count` minors later. Saturates.
    pub const fn plus(self, count: u64) -> Self {
        Self { major: self.major, minor: self.minor.saturating_add(count) }
    }

    /// The minor before this one; none before the first of a major.
    pub const fn previous(self) -> Option<Self> {
        match self.minor.checked_sub(1) {
            Some(minor) => Some(Self { major: self.major, minor }),
            None => None,
        }
    }

    /// The way from this minor to `other`.
    pub const fn distance_to(self, other: Self) -> Distance {
        if self.major != other.major {
            Distance::OtherMajor
        } else if other.minor >= self.minor {
            Distance::Forward(other.minor - self.minor)
        } else {
            Distance::Back(self.minor - other.minor)
        }
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn minor(major: u64, minor: u64) -> Minor {
        Minor { major, minor }
    }

    #[test]
    fn counting_cannot_underflow_or_overflow() {
        assert_eq!(minor(1, 0).previous(), None);
        assert_eq!(minor(1, 1).previous(), Some(minor(1, 0)));
        assert_eq!(minor(1, u64::MAX).next(), minor(1, u64::MAX));
        assert_eq!(minor(1, 30).plus(3), minor(1, 33));
    }

    #[test]
    fn distances_have_a_direction_and_stop_at_the_major() {
        assert_eq!(minor(1, 30).distance_to(minor(1, 33)), Distance::Forward(3));
        assert_eq!(minor(1, 30).distance_to(minor(1, 30)), Distance::Forward(0));
        assert_eq!(minor(1, 30).distance_to(minor(1, 29)), Distance::Back(1));
        assert_eq!(minor(1, 30).distance_to(minor(2, 31)), Distance::OtherMajor);
        assert_eq!(minor(1, 0).distance_to(minor(1, u64::MAX)), Distance::Forward(u64::MAX));
    }
}
