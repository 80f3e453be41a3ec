//! How many machines too many or too few there may be.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::{ChangeKind, RolloutOptions, Strategy};
use crate::population::Limits;

/// A number of machines, or a percentage of those that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Number(u32),
    /// So many of a hundred.
    Percent(u32),
}

impl Amount {
    fn up(self, replicas: u32) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => (replicas * percent).div_ceil(100),
        }
    }

    fn down(self, replicas: u32) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => replicas * percent / 100,
        }
    }
}

impl From<Amount> for Value {
    fn from(amount: Amount) -> Self {
        match amount {
            Amount::Number(number) => number.into(),
            Amount::Percent(_) => amount.to_string().into(),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// A text that is neither a number nor a percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a number of machines nor a percentage such as 25%")]
pub struct InvalidAmount(String);

impl FromStr for Amount {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let number = |digits: &str| {
            // No sign, and few enough digits that nothing overflows.
            let plain =
                !digits.is_empty() && digits.len() <= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| plain).ok_or_else(|| InvalidAmount(text.to_owned()))
        };
        match text.strip_suffix('%') {
            Some(percent) => number(percent).map(Self::Percent),
            None => number(text).map(Self::Number),
        }
    }
}

/// What must hold during a rollout, whatever the user changes in the middle. Written without a look at the planner:
/// it is the planner that is being checked.
pub(super) fn limits(options: &RolloutOptions) -> Limits {
    let scales = options.changes.iter().filter_map(|change| match change.what {
        ChangeKind::Scale(replicas) => Some(replicas),
        ChangeKind::Spec => None,
    });
    let sizes: Vec<u32> = scales.chain([options.replicas]).collect();
    let each = sizes.iter().map(|replicas| match options.strategy {
        // A user deletes one machine at a time, and waits.
        Strategy::OnDelete => (*replicas, replicas.saturating_sub(1)),
        Strategy::RollingUpdate { max_surge, max_unavailable } => {
            let (surge, mut unavailable) = (max_surge.up(*replicas), max_unavailable.down(*replicas));
            if surge == 0 && unavailable == 0 {
                // Otherwise nothing could ever move.
                unavailable = 1;
            }
            // In place, one machine makes room where none may be missing, and nothing else is added.
            let surge = if options.in_place && options.changes.is_empty() { surge.min(1) } else { surge };
            (replicas + surge, replicas.saturating_sub(unavailable))
        }
    });
    let (most, fewest): (Vec<u32>, Vec<u32>) = each.unzip();
    Limits {
        max_machines: most.into_iter().max().unwrap_or_default() as usize,
        min_available: fewest.into_iter().min().unwrap_or_default() as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Change;
    use super::*;

    #[test]
    fn surge_rounds_up_and_unavailable_down() {
        let with = |replicas, surge: &str, unavailable: &str| {
            let mut options = RolloutOptions::new(replicas);
            options.strategy = Strategy::RollingUpdate {
                max_surge: surge.parse().unwrap(),
                max_unavailable: unavailable.parse().unwrap(),
            };
            let Limits { max_machines, min_available } = limits(&options);
            (max_machines, min_available)
        };
        assert_eq!(with(10, "25%", "25%"), (13, 8));
        assert_eq!(with(3, "0", "0%"), (3, 2), "one must be allowed to go");
        assert_eq!(with(1, "0", "1"), (1, 0));
        assert_eq!(with(2, "1", "5"), (3, 0));
    }

    #[test]
    fn a_change_of_size_widens_the_limits() {
        let mut options = RolloutOptions::new(5);
        options.changes = vec![Change { at_step: 2, what: ChangeKind::Scale(8) }];
        assert_eq!(limits(&options), Limits { max_machines: 9, min_available: 5 });
        options.changes = vec![Change { at_step: 2, what: ChangeKind::Scale(2) }];
        assert_eq!(limits(&options), Limits { max_machines: 6, min_available: 2 });
    }

    #[test]
    fn amounts_are_numbers_or_percentages() {
        assert_eq!("3".parse(), Ok(Amount::Number(3)));
        assert_eq!("30%".parse(), Ok(Amount::Percent(30)));
        assert_eq!(Value::from(Amount::Percent(30)), "30%");
        for wrong in ["", "%", "-1", "+1", "1.5", "three", "10 %", "9999999"] {
            let error = wrong.parse::<Amount>().unwrap_err();
            assert!(error.to_string().contains("neither a number"), "{error}");
        }
    }
}
