//! How many Machines may be unhealthy for remediation to happen.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use windlass_api::cluster::RemediationTriggerIf;

use crate::rollout::{Amount, AmountError};

/// Whether remediation happens, and how far it is from not happening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Whether it does.
    pub allowed: bool,
    /// How many more Machines may become unhealthy with remediation still happening.
    pub left: u32,
    /// The fewest and the most unhealthy Machines for which it happens.
    pub bounds: (u32, u32),
}

/// A limit that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// A range that is none.
    #[error("spec.remediation.triggerIf.unhealthyInRange: {0:?} is no range such as [3-5]")]
    Range(String),
    /// A number that is none.
    #[error("spec.remediation.triggerIf.unhealthyLessThanOrEqualTo: {0}")]
    Amount(#[from] AmountError),
}

impl Allowance {
    /// Of `expected` Machines, `unhealthy` are. A range goes before the other limit; without either, all may be.
    ///
    /// # Errors
    ///
    /// The limit cannot be used.
    pub fn of(trigger: &RemediationTriggerIf, expected: u32, unhealthy: u32) -> Result<Self, LimitError> {
        let (least, most) = match (&trigger.unhealthy_in_range, &trigger.unhealthy_less_than_or_equal_to) {
            (Some(range), _) => parse(range).ok_or_else(|| LimitError::Range(range.clone()))?,
            (None, Some(IntOrString::Int(count))) => (0, Amount::count(*count)?.rounded_down(expected)),
            (None, Some(IntOrString::String(text))) => (0, Amount::percentage(text)?.rounded_down(expected)),
            (None, None) => (0, expected),
        };
        let allowed = (least..=most).contains(&unhealthy);
        Ok(Self { allowed, left: most.saturating_sub(unhealthy), bounds: (least, most) })
    }
}

fn parse(range: &str) -> Option<(u32, u32)> {
    let (least, most) = range.strip_prefix('[')?.strip_suffix(']')?.split_once('-')?;
    let (least, most) = (least.parse().ok()?, most.parse().ok()?);
    (least <= most).then_some((least, most))
}
