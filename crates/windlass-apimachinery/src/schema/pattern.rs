//! Regular expressions of schemas: written for RE2, run by `regex`.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// How large a compiled pattern may be: a few bytes of `x{1000}` inside of each other become megabytes, and take
/// as long to make.
const MAX_COMPILED: usize = 1 << 20;

/// A compiled `pattern`, with the text it was written as.
#[derive(Clone)]
pub struct Pattern {
    source: String,
    regex: Regex,
}

/// The text is not a regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatternError(String);

impl Pattern {
    /// Compiles an RE2 expression.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        let regex = RegexBuilder::new(&from_re2(source))
            .size_limit(MAX_COMPILED)
            .build()
            .map_err(|error| PatternError(one_line(&error.to_string())))?;
        Ok(Pattern { source: source.to_owned(), regex })
    }

    /// Whether the pattern occurs anywhere in `text`; patterns are not anchored.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The pattern as the schema has it.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.source)
    }
}

/// Rewrites what RE2 reads differently: its `\d`, `\w`, `\s` and `\b` are ASCII, and inside brackets
/// it knows neither nested classes nor the operators `&&`, `--` and `~~`.
fn from_re2(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut class = Class::Outside;
    let mut named = false;
    let mut rest = source.chars().peekable();
    while let Some(c) = rest.next() {
        let inside = class != Class::Outside;
        match c {
            '\\' => match rest.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('s') => out.push_str("[\\t\\n\\f\\r ]"),
                Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
                Some(boundary @ ('b' | 'B')) if !inside => {
                    out.push_str(&format!("(?-u:\\{boundary})"));
                }
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            '[' if !inside => {
                class = Class::First;
                out.push('[');
                continue;
            }
            '[' if rest.peek() == Some(&':') && rest.clone().skip(1).collect::<String>().contains(":]") => {
                named = true;
                out.push('[');
            }
            '[' | '&' | '~' if inside => out.extend(['\\', c]),
            '-' if inside && rest.peek() == Some(&'-') => {
                rest.next();
                out.push_str("-\\-");
            }
            '^' if class == Class::First => {
                out.push('^');
                continue;
            }
            // A bracket right after the opening one is a member, not the end.
            ']' if class == Class::First => out.push_str("\\]"),
            // Only a named class ends in `:]`; elsewhere the colon is a member and the bracket the end.
            ']' if named && out.ends_with(':') => {
                named = false;
                out.push(']');
            }
            ']' if inside => {
                class = Class::Outside;
                out.push(']');
                continue;
            }
            other => out.push(other),
        }
        if inside {
            class = Class::Inside;
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Outside,
    /// Right after `[` or `[^`.
    First,
    Inside,
}

/// `regex` draws its errors over several lines; a message of the API is one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_re2_would() {
        let cases = [
            (r"^\d+$", "42", true),
            (r"^\d+$", "٤٢", false), // Arabic-Indic digits are digits only in Unicode's sense.
            (r"^\w$", "é", false),
            (r"\bfoo\b", "a foo b", true),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
            (r"^[\w.-]+$", "a.b-c", true),
            (r"^[[]$", "[", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[+--]$", ",", true),
            (r"^[]a]+$", "]a", true),
            (r"^[^]a]$", "b", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[[:alpha:]:]+$", "a:c", true),
            (r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", "Available", true),
            (r"^[a:]+$", "a]", false),
            (r"^[[:]+$", "[:", true),
            (r"^[\d\s]+$", "1 2", true),
            (r"^[^\d]$", "x", true),
            (r"^[^\d]$", "1", false),
            (r"ab", "xxabxx", true),
            (r"^a$", "a\n", false),
        ];
        for (pattern, text, expected) in cases {
            let compiled = Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(compiled.is_match(text), expected, "{pattern} on {text:?}");
            assert_eq!(compiled.source(), pattern);
        }
    }

    #[test]
    fn a_broken_pattern_is_refused_in_one_line() {
        let error = Pattern::new("a(b").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("unclosed group"), "{error}");
        assert!(!error.contains('\n'));
    }
}
