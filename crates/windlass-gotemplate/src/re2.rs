//! Regular expressions in Go's syntax, for a library whose syntax is close to it.
//!
//! What is rewritten: `\d`, `\s`, `\w` and `\b` are about ASCII in Go; `\Q...\E` and octal escapes are unknown to the
//! library; `[`, `&&`, `--` and `~~` mean something of their own in its classes, and `{,3}` outside of them.

use regex::{Regex, RegexBuilder};

/// Bytes that a compiled expression may take.
const SIZE: usize = 1 << 20;

/// How often Go repeats at most.
const MAX_REPEAT: u32 = 1000;

pub(crate) fn compile(expression: &str) -> Result<Regex, String> {
    let translated = translate(expression)?;
    let compiled = RegexBuilder::new(&translated).size_limit(SIZE).nest_limit(100).build();
    compiled.map_err(|_| format!("{expression:?} is not a regular expression"))
}

/// An expression that matches exactly a string.
pub(crate) fn quoted(string: &str) -> String {
    let mut out = String::with_capacity(string.len());
    for c in string.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn translate(expression: &str) -> Result<String, String> {
    let wrong = |what: &str| format!("{expression:?} is not a regular expression: {what}");
    let mut out = String::with_capacity(expression.len());
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => {
                if let Some(quote) = after.strip_prefix('Q') {
                    let (inside, behind) = quote.split_once("\\E").unwrap_or((quote, ""));
                    out.push_str(&regex::escape(inside));
                    behind
                } else {
                    escape(after, false, &mut out).ok_or_else(|| wrong("an escape is unknown"))?
                }
            }
            '[' => class(after, &mut out).ok_or_else(|| wrong("a class is not closed"))?,
            '{' => match repeat(after) {
                Some((most, _)) if most > MAX_REPEAT => {
                    return Err(wrong("it repeats more than 1000 times"));
                }
                Some((_, length)) => {
                    out.push('{');
                    out.push_str(&after[..length]);
                    let behind = lazy(&after[length..], &mut out);
                    if is_repetition(behind) {
                        return Err(wrong("a repetition is repeated"));
                    }
                    behind
                }
                None => {
                    out.push_str("\\{");
                    after
                }
            },
            '}' => {
                out.push_str("\\}");
                after
            }
            ']' => {
                out.push_str("\\]");
                after
            }
            '*' | '+' | '?' => {
                // In `(?i)` it is no repetition.
                if c == '?' && expression[..expression.len() - rest.len()].ends_with('(') {
                    out.push(c);
                    rest = after;
                    continue;
                }
                out.push(c);
                let behind = lazy(after, &mut out);
                if is_repetition(behind) {
                    return Err(wrong("a repetition is repeated"));
                }
                behind
            }
            c => {
                out.push(c);
                after
            }
        };
    }
    Ok(out)
}

/// A question mark behind a repetition makes it match as little as possible.
fn lazy<'a>(after: &'a str, out: &mut String) -> &'a str {
    match after.strip_prefix('?') {
        Some(behind) => {
            out.push('?');
            behind
        }
        None => after,
    }
}

fn is_repetition(rest: &str) -> bool {
    rest.starts_with(['*', '+', '?']) || rest.strip_prefix('{').is_some_and(|after| repeat(after).is_some())
}

/// `n}`, `n,}` or `n,m}`: the larger number and how long it is.
fn repeat(after: &str) -> Option<(u32, usize)> {
    let end = after.find('}')?;
    let (least, most) = match after[..end].split_once(',') {
        Some((least, most)) => (least, most),
        None => (&after[..end], ""),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if least.is_empty() || !digits(least) || !digits(most) {
        return None;
    }
    let number = |text: &str| if text.is_empty() { 0 } else { text.parse().unwrap_or(u32::MAX) };
    Some((number(least).max(number(most)), end + 1))
}

/// Writes what a backslash and what follows it mean; returns what is behind them.
fn escape<'a>(after: &'a str, in_class: bool, out: &mut String) -> Option<&'a str> {
    let c = after.chars().next()?;
    let mut behind = &after[c.len_utf8()..];
    match c {
        'd' if in_class => out.push_str("0-9"),
        's' if in_class => out.push_str("\\t\\n\\f\\r "),
        'w' if in_class => out.push_str("0-9A-Za-z_"),
        'd' => out.push_str("[0-9]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'D' => out.push_str("[^0-9]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        'A' | 'B' | 'z' if !in_class => {
            out.push('\\');
            out.push(c);
        }
        'a' | 'f' | 't' | 'n' | 'r' | 'v' => {
            out.push('\\');
            out.push(c);
        }
        'p' | 'P' => {
            out.push('\\');
            out.push(c);
            let length = match behind.strip_prefix('{') {
                Some(name) => name.find('}')? + 2,
                None => behind.chars().next()?.len_utf8(),
            };
            out.push_str(&behind[..length]);
            behind = &behind[length..];
        }
        'x' => {
            let (digits, length) = match behind.strip_prefix('{') {
                Some(inside) => (inside.split('}').next()?, inside.find('}')? + 2),
                None => (behind.get(..2)?, 2),
            };
            let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?;
            out.push_str(&regex::escape(code.encode_utf8(&mut [0; 4])));
            behind = &behind[length..];
        }
        // One digit that is not 0 would refer to a group, which Go does not have.
        '0'..='7' => {
            let length = after.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            if c != '0' && length < 2 {
                return None;
            }
            let code = u32::from_str_radix(&after[..length], 8).ok().and_then(char::from_u32)?;
            out.push_str(&regex::escape(code.encode_utf8(&mut [0; 4])));
            behind = &after[length..];
        }
        c if c.is_ascii_punctuation() => {
            // The library knows no escapes of some characters that need none.
            if "\"'`/:;,=@!%_<>".contains(c) {
                out.push(c);
            } else {
                out.push('\\');
                out.push(c);
            }
        }
        _ => return None,
    }
    Some(behind)
}

/// Writes a class; returns what is behind it.
fn class<'a>(after: &'a str, out: &mut String) -> Option<&'a str> {
    out.push('[');
    let mut rest = after;
    if let Some(negated) = rest.strip_prefix('^') {
        out.push('^');
        rest = negated;
    }
    let mut first = true;
    loop {
        let c = rest.chars().next()?;
        let behind = &rest[c.len_utf8()..];
        rest = match c {
            ']' if !first => {
                out.push(']');
                return Some(behind);
            }
            '[' if behind.starts_with(':') => match behind.find(":]") {
                Some(end) => {
                    out.push('[');
                    out.push_str(&behind[..end + 2]);
                    &behind[end + 2..]
                }
                None => {
                    out.push_str("\\[");
                    behind
                }
            },
            '\\' => escape(behind, true, out)?,
            '[' | ']' | '&' | '~' => {
                out.push('\\');
                out.push(c);
                behind
            }
            // A dash that is first or last stands for itself.
            '-' if first || behind.starts_with(']') => {
                out.push_str("\\-");
                behind
            }
            c => {
                out.push(c);
                behind
            }
        };
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_they_mean_in_go() {
        for (expression, string, matches) in [
            (r"^\d+$", "12", true),
            // Digits of other scripts are no digits in Go.
            (r"^\d+$", "\u{663}", false),
            (r"^\w+$", "\u{e9}", false),
            (r"^[\w-]+$", "a-b", true),
            (r"^[[]a$", "[a", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[a~~b]+$", "~", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\101$", "A", true),
            (r"^\x41\x{42}$", "AB", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^a{2}$", "aa", true),
            (r"(?i)^ABC$", "abc", true),
            (r"^(?:a??b+?)*?$", "abb", true),
            (r"^\pL+$", "\u{e9}", true),
            (r"^a\/b\-c$", "a/b-c", true),
            (r"\bcat\b", "a cat", true),
            (r"^[^\d]+$", "ab", true),
        ] {
            let regex = compile(expression).unwrap();
            assert_eq!(regex.is_match(string), matches, "{expression} {string}");
        }
        for expression in
            ["a**", "a*?*", "a{2}{3}", "(", "[a", r"\1", r"a{1001}", "a(?=b)", r"\k", "*", "(?<=a)b"]
        {
            assert!(compile(expression).is_err(), "{expression}");
        }
    }
}
