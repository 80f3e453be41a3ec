//! Upper and lower case, and names in the styles of programming languages.

use super::Type::Str;
use super::{Function, function};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("camelcase", &[Str], |c| Ok(camel(&c.str(0)?).into())),
    function("initials", &[Str], |c| Ok(initials(&c.str(0)?).into())),
    function("kebabcase", &[Str], |c| Ok(separated(&c.str(0)?, '-').into())),
    function("lower", &[Str], |c| Ok(c.str(0)?.chars().map(lower).collect::<String>().into())),
    function("snakecase", &[Str], |c| Ok(separated(&c.str(0)?, '_').into())),
    function("swapcase", &[Str], |c| Ok(swapped(&c.str(0)?).into())),
    function("title", &[Str], |c| Ok(title(&c.str(0)?).into())),
    function("untitle", &[Str], |c| Ok(untitle(&c.str(0)?).into())),
    function("upper", &[Str], |c| Ok(Value::from(c.str(0)?.chars().map(upper).collect::<String>()))),
];

/// Go changes characters one by one: what has no single counterpart stays.
fn upper(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next()) {
        (Some(c), None) => c,
        _ => c,
    }
}

fn lower(c: char) -> char {
    let mut all = c.to_lowercase();
    match (all.next(), all.next()) {
        (Some(c), None) => c,
        // The only one with two: dotted I, which Go makes a plain i.
        (Some(first), Some(_)) => first,
        (None, _) => c,
    }
}

/// Every first letter of a word in upper case. Letters, digits, underscores and dots are no ends of words.
fn title(string: &str) -> String {
    let mut previous = ' ';
    let separates = |c: char| match c {
        '0'..='9' | 'a'..='z' | 'A'..='Z' | '_' => false,
        c if c.is_ascii() => true,
        c if c.is_alphanumeric() => false,
        c => c.is_whitespace(),
    };
    string
        .chars()
        .map(|c| {
            let first = separates(previous);
            previous = c;
            if first { upper(c) } else { c }
        })
        .collect()
}

fn untitle(string: &str) -> String {
    let mut first = true;
    string
        .chars()
        .map(|c| match c {
            c if c.is_whitespace() => {
                first = true;
                c
            }
            c if std::mem::take(&mut first) => lower(c),
            c => c,
        })
        .collect()
}

fn swapped(string: &str) -> String {
    string
        .chars()
        .map(|c| match c {
            c if c.is_uppercase() => lower(c),
            c if c.is_lowercase() => upper(c),
            c => c,
        })
        .collect()
}

fn initials(string: &str) -> String {
    string.split_whitespace().filter_map(|word| word.chars().next()).collect()
}

fn is_connector(c: char) -> bool {
    matches!(c, '-' | '_') || c.is_whitespace()
}

fn camel(string: &str) -> String {
    let mut out = String::with_capacity(string.len());
    let mut chars = string.chars();
    // Connectors at the beginning stay.
    let Some(first) = chars.by_ref().find(|&c| {
        let connects = is_connector(c);
        if connects {
            out.push(c);
        }
        !connects
    }) else {
        // Upstream writes the last one twice.
        out.extend(string.chars().next_back());
        return out;
    };
    let mut first_is_upper = first.is_uppercase();
    let mut current = upper(first);
    for c in chars {
        let previous = std::mem::replace(&mut current, c);
        if is_connector(c) && is_connector(previous) {
            out.push(previous);
            continue;
        }
        if is_connector(previous) {
            first_is_upper = c.is_uppercase();
            current = upper(c);
            continue;
        }
        if first_is_upper {
            if c.is_uppercase() {
                current = lower(c);
            } else {
                first_is_upper = false;
            }
        }
        out.push(previous);
    }
    out.push(current);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    None,
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

fn is_punctuation(c: char) -> bool {
    // Symbols such as + and $ are no punctuation for Unicode.
    if c.is_ascii() {
        return c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c);
    }
    matches!(c, '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}' | '\u{2010}'..='\u{2027}'
        | '\u{2030}'..='\u{205e}' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}')
}

fn is_letter(c: char) -> bool {
    c.is_alphabetic() && !matches!(c, '\u{3400}'..='\u{4d85}' | '\u{4e00}'..='\u{9fcc}')
}

/// The first word of a string: what it is, and how long.
fn next_word(string: &str) -> (Word, &str, &str) {
    let mut chars = string.chars();
    let Some(first) = chars.next() else { return (Word::None, "", "") };
    let while_is = |is: fn(char) -> bool| string.find(|c| !is(c)).unwrap_or(string.len());
    let small = |from: usize| {
        string[from..]
            .find(|c: char| !is_letter(c) || c.is_uppercase())
            .map_or(string.len(), |end| from + end)
    };
    let (word, end) = match first {
        c if is_connector(c) => (Word::Connector, while_is(is_connector)),
        c if is_punctuation(c) => (Word::Punctuation, while_is(|c| is_punctuation(c) && !is_connector(c))),
        c if c.is_uppercase() => match chars.next() {
            Some(second) if second.is_uppercase() => {
                let end = while_is(char::is_uppercase);
                // The last capital belongs to the word that follows: HTTPServer is HTTP and Server.
                match string[end..].chars().next() {
                    Some(next) if is_letter(next) => {
                        let last = string[..end].chars().next_back().map_or(0, char::len_utf8);
                        (Word::Upper, end - last)
                    }
                    _ => (Word::Upper, end),
                }
            }
            Some(second) if is_letter(second) => (Word::Upper, small(c.len_utf8())),
            _ => (Word::Upper, c.len_utf8()),
        },
        c if is_letter(c) => (Word::Letters, small(0)),
        c if c.is_numeric() => (Word::Number, while_is(char::is_numeric)),
        _ => (
            Word::Other,
            while_is(|c| !(is_connector(c) || is_letter(c) || c.is_numeric() || is_punctuation(c))),
        ),
    };
    let (found, rest) = string.split_at(end.max(first.len_utf8()));
    (word, found, rest)
}

/// Words in lower case with a connector between them.
fn separated(string: &str, connector: char) -> String {
    let mut out = String::with_capacity(string.len() + 8);
    let ends = |word: Word| matches!(word, Word::Connector | Word::Punctuation);
    let (mut kind, mut word, mut rest) = next_word(string);
    while !rest.is_empty() {
        if kind != Word::Connector {
            push_word(&mut out, kind, word, connector);
        }
        let (before, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match before {
            Word::Number => {
                while matches!(kind, Word::Letters | Word::Number) {
                    push_word(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if kind != Word::None && !ends(kind) {
                    out.push(connector);
                }
            }
            Word::Connector => push_word(&mut out, before, last, connector),
            Word::Punctuation => {}
            _ if kind != Word::Number => {
                if !ends(kind) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind != Word::Letters {
                    push_word(&mut out, Word::Number, number, connector);
                    if !ends(kind) {
                        out.push(connector);
                    }
                    continue;
                }
                out.push(connector);
                push_word(&mut out, Word::Number, number, connector);
                while matches!(kind, Word::Letters | Word::Number) {
                    push_word(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if kind != Word::None && !ends(kind) {
                    out.push(connector);
                }
            }
        }
    }
    push_word(&mut out, kind, word, connector);
    out
}

fn push_word(out: &mut String, kind: Word, word: &str, connector: char) {
    if !matches!(kind, Word::Upper | Word::Connector) {
        out.push_str(word);
        return;
    }
    out.extend(word.chars().map(|c| if is_connector(c) { connector } else { lower(c) }));
}
