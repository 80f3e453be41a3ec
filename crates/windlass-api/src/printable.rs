//! Strings from elsewhere, for a terminal or a log.

use std::borrow::Cow;
use std::fmt::Write;

/// A string with everything escaped that would do something other than show a character.
///
/// Names, messages and labels come from clients, extensions and other clusters. Printed as they are, they could
/// move the cursor, colour the terminal, begin a line of their own in a log, or show a text in another order than it
/// has. Escaped are control characters, line and paragraph separators, marks that change the direction of text, and
/// characters that cannot be seen.
///
/// ```
/// use windlass_api::printable;
///
/// assert_eq!(printable("Jürgen 東京"), "Jürgen 東京");
/// assert_eq!(printable("a\u{1b}[31mb\nc\u{202e}d"), r"a\u{1b}[31mb\nc\u{202e}d");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(is_unprintable) else { return Cow::Borrowed(text) };
    let mut escaped = String::with_capacity(text.len() + 16);
    escaped.push_str(&text[..first]);
    for c in text[first..].chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if is_unprintable(c) => {
                // Writing into a string cannot fail.
                let _ = write!(escaped, "{}", c.escape_unicode());
            }
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character does something other than show itself: what [`printable`] escapes.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_something_is_escaped_and_what_shows_something_is_not() {
        let cases = [
            ("", ""),
            (
                "plain \"text\" \\ with 'quotes' and é ñ 中 😀",
                "plain \"text\" \\ with 'quotes' and é ñ 中 😀",
            ),
            ("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}"),
            ("a\r\nERROR forged line", r"a\r\nERROR forged line"),
            ("tab\tnul\0del\u{7f}", r"tab\tnul\u{0}del\u{7f}"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("\u{202e}abc\u{2066}x\u{2069}\u{200f}", r"\u{202e}abc\u{2066}x\u{2069}\u{200f}"),
            ("a\u{2028}b\u{2029}c", r"a\u{2028}b\u{2029}c"),
            ("in\u{200b}visible\u{feff}", r"in\u{200b}visible\u{feff}"),
        ];
        for (text, expected) in cases {
            assert_eq!(printable(text), expected);
        }
        assert!(matches!(printable("é"), Cow::Borrowed(_)));
    }
}
