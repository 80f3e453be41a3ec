//! Decimal arithmetic, so that `addf 0.1 0.2` is 0.3.

/// A number as digits and a power of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Decimal {
    digits: i128,
    exponent: i32,
}

/// Digits behind the point that a division keeps.
const DIVISION_DIGITS: i32 = 16;

impl Decimal {
    /// The shortest decimal that stands for a float.
    pub(crate) fn from_float(float: f64) -> Result<Self, String> {
        if !float.is_finite() {
            return Err(format!("{float} has no decimal form"));
        }
        let shown = format!("{float:e}");
        let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let wrong = |_| format!("{float} has no decimal form");
        let exponent: i32 = exponent.parse().map_err(wrong)?;
        let digits: i128 = format!("{whole}{fraction}").parse().map_err(wrong)?;
        let places = i32::try_from(fraction.len()).map_err(|_| format!("{float} has no decimal form"))?;
        Ok(Self { digits, exponent: exponent - places })
    }

    pub(crate) fn to_float(self) -> f64 {
        // Always the form of a float.
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(f64::NAN)
    }

    pub(crate) fn add(self, other: Self) -> Result<Self, String> {
        let sum = self
            .aligned(other)
            .and_then(|(left, right, exponent)| Some(Self { digits: left.checked_add(right)?, exponent }));
        // Too far apart for exact digits: a float has not that many anyway.
        sum.map_or_else(|| Self::from_float(self.to_float() + other.to_float()), Ok)
    }

    pub(crate) fn subtract(self, other: Self) -> Result<Self, String> {
        self.add(Self { digits: -other.digits, ..other })
    }

    pub(crate) fn multiply(self, other: Self) -> Result<Self, String> {
        match self.digits.checked_mul(other.digits) {
            Some(digits) => Ok(Self { digits, exponent: self.exponent.saturating_add(other.exponent) }),
            None => Self::from_float(self.to_float() * other.to_float()),
        }
    }

    pub(crate) fn divide(self, other: Self) -> Result<Self, String> {
        if other.digits == 0 {
            return Err("division by zero".to_owned());
        }
        self.divide_exactly(other).map_or_else(|| Self::from_float(self.to_float() / other.to_float()), Ok)
    }

    fn divide_exactly(self, other: Self) -> Option<Self> {
        let shift = self.exponent.checked_sub(other.exponent)?.checked_add(DIVISION_DIGITS)?;
        let power = 10_i128.checked_pow(shift.unsigned_abs())?;
        let (dividend, divisor) = if shift >= 0 {
            (self.digits.checked_mul(power)?, other.digits)
        } else {
            (self.digits, other.digits.checked_mul(power)?)
        };
        let (quotient, rest) = (dividend / divisor, dividend % divisor);
        let away = if (dividend < 0) == (divisor < 0) { 1 } else { -1 };
        let rounds = rest.checked_abs()?.checked_mul(2)? >= divisor.checked_abs()?;
        let digits = if rounds { quotient + away } else { quotient };
        Some(Self { digits, exponent: -DIVISION_DIGITS })
    }

    fn aligned(self, other: Self) -> Option<(i128, i128, i32)> {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |decimal: Self| {
            let power = 10_i128.checked_pow(u32::try_from(decimal.exponent - exponent).ok()?)?;
            decimal.digits.checked_mul(power)
        };
        Some((scaled(self)?, scaled(other)?, exponent))
    }
}
