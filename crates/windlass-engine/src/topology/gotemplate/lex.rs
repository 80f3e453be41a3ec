//! Texts, actions and the words in them.

use serde_json::{Number, Value};

use super::TemplateError;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    /// The words of one action, and the line it begins in.
    Action(usize, Vec<Word>),
}

/// A word of an action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    Literal(Value),
    /// A name: a keyword or a function.
    Name(String),
    /// `.` or `.a`; a longer path is several words.
    Field(String),
    /// `.` alone.
    Dot,
    /// `$` or `$x`.
    Variable(String),
    Pipe,
    Open,
    Close,
    Comma,
    Declare,
    Assign,
    /// White space between words: `.a .b` are two arguments, `.a.b` is one.
    Space,
}

pub(super) fn lex(text: &str) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut line = 1;
    let mut trim_next = false;
    loop {
        let Some(start) = rest.find("{{") else {
            push_text(&mut pieces, rest, trim_next, false);
            return Ok(pieces);
        };
        let (before, action) = rest.split_at(start);
        let action = &action[2..];
        let trim_before = action.starts_with("- ") || action.starts_with("-\n") || action.starts_with("-\t");
        push_text(&mut pieces, before, trim_next, trim_before);
        line += newlines(before);
        let body = if trim_before { &action[1..] } else { action };
        let syntax = |problem: &str| TemplateError::Syntax { line, problem: problem.to_owned() };
        let length = action_length(body).map_err(&syntax)?;
        let inside = &body[..length];
        let trim_after = inside.ends_with(" -") || inside.ends_with("\n-") || inside.ends_with("\t-");
        let code = inside.strip_suffix('-').filter(|_| trim_after).unwrap_or(inside);
        if !code.trim_start().starts_with("/*") {
            pieces.push(Piece::Action(line, words(code).map_err(&syntax)?));
        }
        line += newlines(inside);
        rest = &body[length + 2..];
        trim_next = trim_after;
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count()
}

fn push_text(pieces: &mut Vec<Piece>, text: &str, trim_start: bool, trim_end: bool) {
    let text = if trim_start { text.trim_start() } else { text };
    let text = if trim_end { text.trim_end() } else { text };
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// Where the action ends: at the first `}}` that is not in a string or a comment.
fn action_length(body: &str) -> Result<usize, &'static str> {
    if body.trim_start().starts_with("/*") {
        let end = body.find("*/").ok_or("a comment is not closed")?;
        let close = body[end..].find("}}").ok_or("{{ is not closed")?;
        return Ok(end + close);
    }
    let bytes = body.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'}' if bytes.get(at + 1) == Some(&b'}') => return Ok(at),
            quote @ (b'"' | b'`' | b'\'') => at += quoted_length(&body[at..], quote)?,
            _ => at += 1,
        }
    }
    Err("{{ is not closed")
}

fn quoted_length(text: &str, quote: u8) -> Result<usize, &'static str> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote != b'`' => at += 2,
            b'\n' if quote != b'`' => return Err("a string is not closed"),
            byte if byte == quote => return Ok(at + 1),
            _ => at += 1,
        }
    }
    Err("a string is not closed")
}

fn words(code: &str) -> Result<Vec<Word>, &'static str> {
    let mut words = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            c if c.is_whitespace() => {
                words.push(Word::Space);
                rest.len() - rest.trim_start().len()
            }
            '|' => push(&mut words, Word::Pipe, 1),
            '(' => push(&mut words, Word::Open, 1),
            ')' => push(&mut words, Word::Close, 1),
            ',' => push(&mut words, Word::Comma, 1),
            ':' if rest.starts_with(":=") => push(&mut words, Word::Declare, 2),
            '=' => push(&mut words, Word::Assign, 1),
            '"' => {
                let length = quoted_length(rest, b'"')?;
                push(&mut words, Word::Literal(Value::String(unquote(&rest[1..length - 1])?)), length)
            }
            '`' => {
                let length = quoted_length(rest, b'`')?;
                push(&mut words, Word::Literal(Value::String(rest[1..length - 1].to_owned())), length)
            }
            '.' => match identifier(&rest[1..]) {
                "" => push(&mut words, Word::Dot, 1),
                name => push(&mut words, Word::Field(name.to_owned()), 1 + name.len()),
            },
            '$' => {
                let name = identifier(&rest[1..]);
                push(&mut words, Word::Variable(name.to_owned()), 1 + name.len())
            }
            c if c.is_ascii_digit() || c == '-' || c == '+' => {
                let length = rest[1..]
                    .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_')))
                    .map_or(rest.len(), |end| end + 1);
                push(&mut words, Word::Literal(number(&rest[..length])?), length)
            }
            c if c.is_alphabetic() || c == '_' => {
                let name = identifier(rest);
                let word = match name {
                    "true" => Word::Literal(Value::Bool(true)),
                    "false" => Word::Literal(Value::Bool(false)),
                    "nil" => Word::Literal(Value::Null),
                    _ => Word::Name(name.to_owned()),
                };
                push(&mut words, word, name.len())
            }
            _ => return Err("a character that has no meaning here"),
        };
        rest = &rest[length..];
    }
    Ok(words)
}

fn push(words: &mut Vec<Word>, word: Word, length: usize) -> usize {
    words.push(word);
    length
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

fn number(text: &str) -> Result<Value, &'static str> {
    let plain = text.strip_prefix('+').unwrap_or(text);
    if let Ok(whole) = plain.parse::<i64>() {
        return Ok(Value::from(whole));
    }
    let float = plain.parse::<f64>().ok().and_then(Number::from_f64);
    float.map(Value::Number).ok_or("a number that cannot be read")
}

fn unquote(text: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let hexadecimal = |chars: &mut std::str::Chars<'_>, count: usize| {
            let digits: String = chars.take(count).collect();
            u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).ok_or("an escape is not valid")
        };
        out.push(match chars.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('v') => '\u{b}',
            Some(c @ ('\\' | '"' | '\'')) => c,
            Some('x') => hexadecimal(&mut chars, 2)?,
            Some('u') => hexadecimal(&mut chars, 4)?,
            Some('U') => hexadecimal(&mut chars, 8)?,
            _ => return Err("an escape is not valid"),
        });
    }
    Ok(out)
}
