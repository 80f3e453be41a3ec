//! What rules may cost. Rules come with CRDs and classes, and objects from any client: together they must be able
//! neither to keep the server busy nor to fill its memory.

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{ExecutionError, Value};

/// What one evaluation of one expression may cost: Kubernetes' own limit.
const PER_CALL: u64 = 1_000_000;

/// What all rules together may cost in one request: Kubernetes' own limit.
const PER_REQUEST: u64 = 10_000_000;

/// How many bytes of values one evaluation may make, those that it drops again included. Five times the largest
/// request.
const MEMORY: u64 = 16 << 20;

/// What one element of a list or map takes besides what it refers to.
const ELEMENT: u64 = 64;

/// What the rules of a request may still cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    left: u64,
}

/// Why an evaluation was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// This one cost too much.
    PerCall,
    /// All of the request together.
    PerRequest,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: PER_REQUEST }
    }
}

impl Budget {
    /// Runs an evaluation, which pays as it goes.
    pub(super) fn spend<T>(&mut self, evaluate: impl FnOnce(&mut Meter) -> T) -> Result<T, Stopped> {
        let allowed = self.left.min(PER_CALL);
        let mut meter = Meter { left: allowed, memory: MEMORY, overrun: false };
        let result = evaluate(&mut meter);
        self.left -= allowed - meter.left;
        match meter.overrun {
            false => Ok(result),
            true if allowed < PER_CALL => {
                self.left = 0;
                Err(Stopped::PerRequest)
            }
            true => Err(Stopped::PerCall),
        }
    }
}

/// The account of one evaluation. Once it is overrun nothing can be paid any more, so an expression that
/// tolerates errors ends all the same.
#[derive(Debug)]
pub(super) struct Meter {
    left: u64,
    memory: u64,
    overrun: bool,
}

impl Meter {
    /// Pays for work.
    pub(super) fn pay(&mut self, cost: u64) -> Result<(), ExecutionError> {
        let left = self.left.checked_sub(cost).filter(|_| !self.overrun);
        self.left = left.unwrap_or(0);
        self.overrun = left.is_none();
        if self.overrun { Err(too_expensive()) } else { Ok(()) }
    }

    /// Pays for a string or bytes that are about to be made.
    pub(super) fn pay_for_string(&mut self, bytes: u64) -> Result<(), ExecutionError> {
        self.take(bytes)?;
        self.pay(read(bytes))
    }

    /// Pays for a list or map that is about to be made. What is in it is shared, not copied.
    pub(super) fn pay_for_elements(&mut self, count: u64) -> Result<(), ExecutionError> {
        self.take(count.saturating_mul(ELEMENT))?;
        self.pay(count)
    }

    /// Pays for a copy of a value with everything in it, and tells what reading it costs.
    ///
    /// Ends as soon as it cannot be paid: a value may refer to another many times, so that a copy would be much
    /// larger than the value is now.
    pub(super) fn pay_for_copy(&mut self, value: &Value) -> Result<u64, ExecutionError> {
        let before = self.left;
        match value {
            Value::String(text) => self.pay_for_string(text.len() as u64)?,
            Value::Bytes(bytes) => self.pay_for_string(bytes.len() as u64)?,
            Value::List(items) => {
                self.pay_for_elements(items.len() as u64)?;
                for item in items.iter() {
                    self.pay_for_copy(item)?;
                }
            }
            Value::Map(map) => {
                self.pay_for_elements(map.map.len() as u64)?;
                for (key, item) in map.map.iter() {
                    self.pay_for_copy(&Value::from(key))?;
                    self.pay_for_copy(item)?;
                }
            }
            Value::Opaque(_) => {
                if let Some(inner) = optional(value).and_then(OptionalValue::value) {
                    self.pay_for_copy(inner)?;
                }
            }
            _ => {}
        }
        Ok((before - self.left).max(1))
    }

    fn take(&mut self, bytes: u64) -> Result<(), ExecutionError> {
        match self.memory.checked_sub(bytes) {
            Some(left) => {
                self.memory = left;
                Ok(())
            }
            None => {
                self.overrun = true;
                Err(too_expensive())
            }
        }
    }
}

/// What reading this many bytes costs: ten are as much as one operation.
pub(super) fn read(bytes: u64) -> u64 {
    bytes.div_ceil(10)
}

/// The optional that a value is.
pub(super) fn optional(value: &Value) -> Option<&OptionalValue> {
    <&OptionalValue>::try_from(value).ok()
}

fn too_expensive() -> ExecutionError {
    ExecutionError::function_error("@meter", "the cost limit is exceeded")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_call_and_a_request_have_their_limits() {
        let mut budget = Budget::default();
        assert_eq!(budget.spend(|meter| meter.pay(15).is_ok()), Ok(true));
        assert_eq!(budget.left, PER_REQUEST - 15);
        assert_eq!(budget.spend(|meter| meter.pay(PER_CALL + 1).is_ok()), Err(Stopped::PerCall));
        // An evaluation that overruns has spent everything that the call was allowed.
        assert_eq!(budget.left, PER_REQUEST - 15 - PER_CALL);
        for _ in 0..8 {
            assert_eq!(budget.spend(|meter| meter.pay(PER_CALL).is_ok()), Ok(true));
        }
        assert_eq!(budget.spend(|meter| meter.pay(PER_CALL).is_ok()), Err(Stopped::PerRequest));
        assert_eq!(budget.spend(|meter| meter.pay(1).is_ok()), Err(Stopped::PerRequest));
    }

    #[test]
    fn what_is_shared_is_paid_for_as_often_as_it_would_be_copied() {
        let mut doubled = Value::String(Arc::new("x".repeat(10)));
        for _ in 0..48 {
            doubled = Value::List(Arc::new(vec![doubled.clone(), doubled]));
        }
        let copy = Budget::default().spend(|meter| meter.pay_for_copy(&doubled).is_ok());
        assert_eq!(copy, Err(Stopped::PerCall), "2^48 strings are not walked");
    }

    #[test]
    fn memory_ends_before_steps_do() {
        let mut budget = Budget::default();
        let made = budget.spend(|meter| (0..).take_while(|_| meter.pay_for_elements(1_000).is_ok()).count());
        assert_eq!(made, Err(Stopped::PerCall));
        assert!(budget.left > PER_REQUEST - PER_CALL, "{}", budget.left);
    }
}
