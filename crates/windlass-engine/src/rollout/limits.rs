//! How many machines a rollout may add and how many may be missing.

use std::fmt;

/// A number of machines, or a share of the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// That many machines.
    Count(u32),
    /// That many percent of the replicas.
    Percent(u32),
}

/// Why an amount cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Fewer than none.
    #[error("{0} is negative")]
    Negative(i32),
    /// A text that is not a percentage.
    #[error("{0:?} is not a number and not a percentage")]
    NotAPercentage(String),
}

impl Amount {
    /// An amount given as a number.
    ///
    /// # Errors
    ///
    /// The number is negative.
    pub fn count(number: i32) -> Result<Self, AmountError> {
        u32::try_from(number).map(Self::Count).map_err(|_| AmountError::Negative(number))
    }

    /// An amount given as a text such as `25%`.
    ///
    /// # Errors
    ///
    /// The text is not a percentage.
    pub fn percentage(text: &str) -> Result<Self, AmountError> {
        let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        digits
            .and_then(|digits| digits.parse().ok())
            .map(Self::Percent)
            .ok_or_else(|| AmountError::NotAPercentage(text.to_owned()))
    }

    /// The amount in machines, with parts of a machine counted as a whole one.
    pub fn rounded_up(self, replicas: u32) -> u32 {
        self.of(replicas, 99)
    }

    /// The amount in machines, with parts of a machine not counted.
    pub fn rounded_down(self, replicas: u32) -> u32 {
        self.of(replicas, 0)
    }

    fn of(self, replicas: u32, carry: u64) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let hundredths = u64::from(percent) * u64::from(replicas);
                u32::try_from((hundredths + carry) / 100).unwrap_or(u32::MAX)
            }
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// `maxSurge` and `maxUnavailable` as the user gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollingUpdate {
    /// How many machines there may be beyond the replicas.
    pub max_surge: Amount,
    /// How many of the replicas may be unavailable.
    pub max_unavailable: Amount,
}

/// One machine more, none missing: what a MachineDeployment has when its user says nothing.
impl Default for RollingUpdate {
    fn default() -> Self {
        Self { max_surge: Amount::Count(1), max_unavailable: Amount::Count(0) }
    }
}

impl RollingUpdate {
    /// The amounts for that many replicas. Surge is rounded up and unavailability down; where both come out as none,
    /// nothing could ever move, so that one machine may be unavailable.
    pub fn resolve(self, replicas: u32) -> Limits {
        let surge = self.max_surge.rounded_up(replicas);
        let unavailable = match self.max_unavailable.rounded_down(replicas) {
            0 if surge == 0 => 1,
            unavailable => unavailable,
        };
        Limits { surge, unavailable: unavailable.min(replicas) }
    }
}

/// What a rollout may do, in machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many machines there may be beyond the replicas.
    pub surge: u32,
    /// How many of the replicas may be unavailable; never more than there are.
    pub unavailable: u32,
}

impl Limits {
    /// How many machines may be under way at a time where that costs no availability: as many as may be unavailable, or be
    /// added where none may.
    pub fn pace(self) -> u32 {
        if self.unavailable > 0 { self.unavailable } else { self.surge }
    }

    /// How many machines must stay available.
    pub fn floor(self, replicas: u32) -> u32 {
        replicas.saturating_sub(self.unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        text.parse().map_or_else(|_| Amount::percentage(text).unwrap(), Amount::Count)
    }

    #[test]
    fn surge_rounds_up_unavailability_down_and_they_are_never_both_none() {
        for (replicas, surge, unavailable, expected) in [
            (3, "1", "0", (1, 0)),
            (3, "0", "1", (0, 1)),
            (3, "0", "0", (0, 1)),
            (3, "0%", "0%", (0, 1)),
            (3, "0", "30%", (0, 1)),
            (10, "25%", "25%", (3, 2)),
            (3, "10%", "10%", (1, 0)),
            (1, "100%", "100%", (1, 1)),
            (2, "200%", "0", (4, 0)),
            // More cannot be missing than there are.
            (2, "0", "5", (0, 2)),
            (0, "0", "0", (0, 0)),
            (0, "1", "1", (1, 0)),
            (0, "50%", "1", (0, 0)),
        ] {
            let given = RollingUpdate { max_surge: amount(surge), max_unavailable: amount(unavailable) };
            let Limits { surge, unavailable } = given.resolve(replicas);
            assert_eq!((surge, unavailable), expected, "{replicas} {given:?}");
        }
    }

    #[test]
    fn amounts_that_mean_nothing_are_refused() {
        assert_eq!(Amount::count(-1), Err(AmountError::Negative(-1)));
        for text in ["", "%", "x%", "-5%", "+5%", "5", "5 %", "1.5%", "99999999999%"] {
            assert_eq!(Amount::percentage(text), Err(AmountError::NotAPercentage(text.to_owned())));
        }
        assert_eq!(Amount::percentage("025%"), Ok(Amount::Percent(25)));
    }

    #[test]
    fn huge_amounts_do_not_overflow() {
        assert_eq!(Amount::Percent(u32::MAX).rounded_up(u32::MAX), u32::MAX);
        assert_eq!(RollingUpdate::default().resolve(5).floor(5), 5);
        assert_eq!(Limits { surge: 0, unavailable: 9 }.floor(5), 0);
    }
}
