//! Semantic versions and constraints on them, as the library reads them that Sprig uses. It accepts more than
//! `windlass-version` (parts with leading zeros, constraints with `x`) and less (no white space), so it has a reader of
//! its own.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

/// A version: `1.2.3-rc.1+build`, with or without `v`, minor and patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) prerelease: String,
    pub(crate) metadata: String,
    pub(crate) original: String,
}

impl Version {
    pub(crate) fn parse(written: &str) -> Result<Self, String> {
        let wrong = |reason: &str| format!("{written:?} is not a semantic version{reason}");
        let bare = written.strip_prefix('v').unwrap_or(written);
        let (bare, metadata) = match bare.split_once('+') {
            Some((bare, metadata)) if !metadata.is_empty() => (bare, metadata),
            Some(_) => return Err(wrong("")),
            None => (bare, ""),
        };
        let (numbers, prerelease) = match bare.split_once('-') {
            Some((numbers, prerelease)) if !prerelease.is_empty() => (numbers, prerelease),
            Some(_) => return Err(wrong("")),
            None => (bare, ""),
        };
        let mut parts = [0; 3];
        if numbers.split('.').count() > parts.len() {
            return Err(wrong(""));
        }
        for (part, number) in parts.iter_mut().zip(numbers.split('.')) {
            if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(wrong(""));
            }
            // Functions have integers with a sign.
            let read: i64 = number.parse().map_err(|_| wrong(": a number is too large"))?;
            *part = read.unsigned_abs();
        }
        check_prerelease(prerelease).map_err(|reason| wrong(&reason))?;
        check_metadata(metadata).map_err(|reason| wrong(&reason))?;
        let [major, minor, patch] = parts;
        let (prerelease, metadata) = (prerelease.to_owned(), metadata.to_owned());
        Ok(Self { major, minor, patch, prerelease, metadata, original: written.to_owned() })
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        let order = numbers(self).cmp(&numbers(other));
        order.then_with(|| match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compare_prereleases(&self.prerelease, &other.prerelease),
        })
    }

    /// This version with other numbers; it keeps the `v` and nothing behind the numbers.
    pub(crate) fn with_numbers(&self, major: u64, minor: u64, patch: u64) -> Self {
        let empty = String::new;
        Self { major, minor, patch, prerelease: empty(), metadata: empty(), ..self.clone() }.rewritten(self)
    }

    pub(crate) fn with_prerelease(&self, prerelease: &str) -> Result<Self, String> {
        check_prerelease(prerelease)?;
        Ok(Self { prerelease: prerelease.to_owned(), ..self.clone() }.rewritten(self))
    }

    pub(crate) fn with_metadata(&self, metadata: &str) -> Result<Self, String> {
        check_metadata(metadata)?;
        Ok(Self { metadata: metadata.to_owned(), ..self.clone() }.rewritten(self))
    }

    fn rewritten(mut self, from: &Self) -> Self {
        let prefix = if from.original.starts_with('v') { "v" } else { "" };
        self.original = format!("{prefix}{self}");
        self
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn check_prerelease(prerelease: &str) -> Result<(), String> {
    for part in prerelease.split('.').filter(|_| !prerelease.is_empty()) {
        if !is_identifier(part) {
            return Err(format!(": pre-release {prerelease:?} has letters, digits, dashes and dots only"));
        }
        if part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!(": {part} in the pre-release starts with 0"));
        }
    }
    Ok(())
}

fn check_metadata(metadata: &str) -> Result<(), String> {
    if metadata.is_empty() || metadata.split('.').all(is_identifier) {
        return Ok(());
    }
    Err(format!(": build {metadata:?} has letters, digits, dashes and dots only"))
}

fn compare_prereleases(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(l), Some(r)) => match (l.parse::<u64>(), r.parse::<u64>()) {
                (Ok(l), Ok(r)) => l.cmp(&r),
                // Numbers come before names.
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => l.cmp(r),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Alternatives, each with bounds that all have to be met: `>= 1.2, < 2 || ~3.1`.
#[derive(Debug)]
pub(crate) struct Constraints(Vec<Vec<Constraint>>);

#[derive(Debug)]
struct Constraint {
    operator: Operator,
    bound: Version,
    /// How many of the three numbers are given.
    given: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

/// A version with `x` for numbers that do not matter. The bar in the classes is upstream's.
const VERSION: &str = r"v?([0-9xX*|]+)(\.[0-9xX*|]+)?(\.[0-9xX*|]+)?(-([0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*))?(\+([0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*))?";

/// In the order in which upstream tries them: the longest that fits is found by what follows it.
const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";

// The patterns are constants: a test compiles them.
static ONE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"^\s*({OPERATORS})\s*({VERSION})\s*$")).ok());
static ANY: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"({OPERATORS})\s*({VERSION})")).ok());
static ALL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let one = format!(r"({OPERATORS})\s*({VERSION})\s*");
    Regex::new(&format!(r"^(\s*{one})((?:\s+|,\s*){one})*$")).ok()
});
static RANGE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&format!(r"\s*({VERSION})\s+-\s+({VERSION})\s*")).ok());

fn pattern(pattern: &'static LazyLock<Option<Regex>>) -> Result<&'static Regex, String> {
    pattern.as_ref().ok_or_else(|| "the pattern of constraints is wrong".to_owned())
}

impl Constraints {
    pub(crate) fn parse(written: &str) -> Result<Self, String> {
        // `1.2 - 1.4` is another way to write two bounds.
        let ranges = pattern(&RANGE)?.replace_all(written, ">= $1, <= $11 ");
        let mut alternatives = Vec::new();
        for alternative in ranges.split("||") {
            if !pattern(&ALL)?.is_match(alternative) {
                return Err(format!("{alternative:?} is not a constraint on versions"));
            }
            let constraints: Result<Vec<Constraint>, String> = pattern(&ANY)?
                .find_iter(alternative)
                .map(|found| Constraint::parse(found.as_str()))
                .collect();
            alternatives.push(constraints?);
        }
        Ok(Self(alternatives))
    }

    pub(crate) fn are_met_by(&self, version: &Version) -> bool {
        self.0.iter().any(|all| all.iter().all(|constraint| constraint.is_met_by(version)))
    }
}

impl Constraint {
    fn parse(written: &str) -> Result<Self, String> {
        let wrong = || format!("{written:?} is not a constraint on versions");
        let found = pattern(&ONE)?.captures(written).ok_or_else(wrong)?;
        let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
        let operator = match part(1) {
            "" | "=" => Operator::Equal,
            "!=" => Operator::NotEqual,
            ">" => Operator::Greater,
            "<" => Operator::Less,
            ">=" | "=>" => Operator::GreaterOrEqual,
            "<=" | "=<" => Operator::LessOrEqual,
            "~" | "~>" => Operator::Tilde,
            "^" => Operator::Caret,
            _ => return Err(wrong()),
        };
        let numbers = [part(3), part(4), part(5)].map(|part| part.trim_start_matches('.'));
        let given = numbers.iter().take_while(|number| !matches!(**number, "" | "x" | "X" | "*")).count();
        // What is behind numbers that are not given counts only as a pre-release.
        let bound = match (given, numbers) {
            (0, _) => Version::parse(&format!("0.0.0{}", part(6))),
            (1, [major, ..]) => Version::parse(&format!("{major}.0.0{}", part(6))),
            (2, [major, minor, _]) => Version::parse(&format!("{major}.{minor}.0{}", part(6))),
            _ => Version::parse(part(2)),
        };
        Ok(Self { operator, bound: bound.map_err(|_| wrong())?, given })
    }

    /// A pre-release is in no bound that does not name one.
    fn is_met_by(&self, version: &Version) -> bool {
        let bound = &self.bound;
        let hidden = !version.prerelease.is_empty() && bound.prerelease.is_empty();
        if hidden && (self.operator != Operator::NotEqual || self.given < 3) {
            return false;
        }
        let order = version.compare(bound);
        match self.operator {
            Operator::Equal if self.given < 3 => self.is_near(version),
            Operator::Equal => order == Ordering::Equal,
            Operator::NotEqual => self.differs(version),
            Operator::Greater => match self.given {
                1 => version.major > bound.major,
                2 => (version.major, version.minor) > (bound.major, bound.minor),
                _ => order == Ordering::Greater,
            },
            Operator::Less => order == Ordering::Less,
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::LessOrEqual => match self.given {
                1 => version.major <= bound.major,
                0 | 2 => (version.major, version.minor) <= (bound.major, bound.minor),
                _ => order != Ordering::Greater,
            },
            Operator::Tilde => self.is_near(version),
            Operator::Caret => self.is_compatible(version),
        }
    }

    fn differs(&self, version: &Version) -> bool {
        let bound = &self.bound;
        match self.given {
            3 => version.compare(bound) != Ordering::Equal,
            _ if version.major != bound.major => true,
            1 => false,
            _ if version.minor != bound.minor => true,
            2 if version.prerelease.is_empty() && bound.prerelease.is_empty() => false,
            2 => compare_prereleases(&version.prerelease, &bound.prerelease) != Ordering::Equal,
            _ => version.compare(bound) != Ordering::Equal,
        }
    }

    /// From the bound on, with the same numbers as far as they are given, but for the patch.
    fn is_near(&self, version: &Version) -> bool {
        let bound = &self.bound;
        if version.compare(bound) == Ordering::Less {
            return false;
        }
        let anything = (bound.major, bound.minor, bound.patch) == (0, 0, 0) && matches!(self.given, 0 | 3);
        anything || version.major == bound.major && (self.given == 1 || version.minor == bound.minor)
    }

    /// From the bound on, with the same leftmost number that is not zero.
    fn is_compatible(&self, version: &Version) -> bool {
        let bound = &self.bound;
        if version.compare(bound) == Ordering::Less {
            return false;
        }
        if bound.major > 0 || self.given == 1 {
            return version.major == bound.major;
        }
        if version.major > 0 {
            return false;
        }
        if bound.minor > 0 || self.given == 2 {
            return version.minor == bound.minor;
        }
        version.minor == 0 && version.patch == bound.patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints() {
        for (constraint, version, expected) in [
            (">= 1.31.0", "v1.31.0", true),
            (">=1.31.0", "v1.30.9", false),
            (">= 1.30, < 1.33", "v1.32.9", true),
            (">= 1.30 < 1.33", "v1.33.0", false),
            ("~1.31.2", "1.31.9", true),
            ("~1.31.2", "1.32.0", false),
            ("~1.31", "1.31.0", true),
            ("^1.2", "1.9.0", true),
            ("^1.2", "2.0.0", false),
            ("^1.2 || 2.0", "2.0.5", true),
            ("1.31.x", "v1.31.7", true),
            ("1.31", "v1.32.0", false),
            ("*", "v1.0.0", true),
            ("!= 1.31.0", "1.31.1", true),
            ("> 1.31", "1.31.5", false),
            ("> 1.31", "1.32.0", true),
            ("<= 1.31", "1.31.5", true),
            (">= 1.31.0", "1.32.0-rc.1", false),
            (">= 1.31.0-0", "1.32.0-rc.1", true),
            (">= 1.31.0", "1.31.0+vendor.1", true),
            ("< v1.25-0", "v1.24.9", true),
            ("< v1.25-0", "v1.25.0-alpha.1", false),
        ] {
            let met = Constraints::parse(constraint).unwrap().are_met_by(&Version::parse(version).unwrap());
            assert_eq!(met, expected, "{version} {constraint}");
        }
        assert!(Constraints::parse(">> 1.0").is_err());
        assert!(Constraints::parse("> one").is_err());
    }
}
