//! The tokens of a template.

use super::TemplateError;

/// A token, and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// Counted from 1.
    pub(crate) line: usize,
    /// Whether white space stands before it: `.a .b` are two arguments, `.a.b` is one.
    pub(crate) spaced: bool,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// What stands outside actions.
    Text(String),
    /// `{{`
    Open,
    /// `}}`
    Close,
    Bool(bool),
    /// A number or a character.
    Number(Number),
    String(String),
    Nil,
    /// A name of a function.
    Name(String),
    Keyword(Keyword),
    /// `.` alone.
    Dot,
    /// `.a`
    Field(String),
    /// `$` or `$a`, without the dollar sign.
    Variable(String),
    Pipe,
    LeftParenthesis,
    RightParenthesis,
    Comma,
    /// `:=`
    Declare,
    /// `=`
    Assign,
    /// After the last token.
    End,
}

/// Words that are no functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

/// A number as it is written. `1` and `1.0` can both stand for an integer and for a float; which one they are where
/// anything is accepted depends on how they are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number {
    pub(crate) integer: Option<i64>,
    pub(crate) float: f64,
    /// Whether it is an integer where anything is accepted.
    pub(crate) is_integer: bool,
}

impl Keyword {
    fn read(name: &str) -> Option<Self> {
        Some(match name {
            "block" => Self::Block,
            "break" => Self::Break,
            "continue" => Self::Continue,
            "define" => Self::Define,
            "else" => Self::Else,
            "end" => Self::End,
            "if" => Self::If,
            "range" => Self::Range,
            "template" => Self::Template,
            "with" => Self::With,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Break => "break",
            Self::Continue => "continue",
            Self::Define => "define",
            Self::Else => "else",
            Self::End => "end",
            Self::If => "if",
            Self::Range => "range",
            Self::Template => "template",
            Self::With => "with",
        }
    }
}

/// Reads the tokens of a template. Actions are between [`Kind::Open`] and [`Kind::Close`].
pub(crate) fn lex(template: &str) -> Result<Vec<Token>, TemplateError> {
    let mut lexer = Lexer { tokens: Vec::new(), rest: template, line: 1 };
    let mut trim_next = false;
    while let Some(start) = lexer.rest.find("{{") {
        let action = &lexer.rest[start + 2..];
        let trim = action.strip_prefix('-').is_some_and(|after| after.starts_with(is_space));
        lexer.text(start, trim_next, trim);
        lexer.skip(if trim { 3 } else { 2 });
        // A comment follows the braces, or the white space after the mark that trims.
        let body = if trim { lexer.rest.trim_start_matches(is_space) } else { lexer.rest };
        if body.starts_with("/*") {
            lexer.skip(lexer.rest.len() - body.len());
            trim_next = lexer.comment()?;
        } else {
            lexer.push(Kind::Open, 0, false);
            trim_next = lexer.action()?;
        }
    }
    lexer.text(lexer.rest.len(), trim_next, false);
    lexer.push(Kind::End, 0, false);
    Ok(lexer.tokens)
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

struct Lexer<'a> {
    tokens: Vec<Token>,
    rest: &'a str,
    line: usize,
}

impl Lexer<'_> {
    fn error(&self, problem: impl Into<String>) -> TemplateError {
        TemplateError::Syntax { line: self.line, problem: problem.into() }
    }

    fn skip(&mut self, length: usize) {
        let (skipped, rest) = self.rest.split_at(length);
        self.line += skipped.bytes().filter(|&byte| byte == b'\n').count();
        self.rest = rest;
    }

    fn push(&mut self, kind: Kind, length: usize, spaced: bool) {
        self.tokens.push(Token { kind, line: self.line, spaced });
        self.skip(length);
    }

    fn text(&mut self, length: usize, trim_start: bool, trim_end: bool) {
        let text = &self.rest[..length];
        let text = if trim_start { text.trim_start_matches(is_space) } else { text };
        let text = if trim_end { text.trim_end_matches(is_space) } else { text };
        if !text.is_empty() {
            let kind = Kind::Text(text.to_owned());
            self.tokens.push(Token { kind, line: self.line, spaced: false });
        }
        self.skip(length);
    }

    /// Whether what follows the comment is trimmed.
    fn comment(&mut self) -> Result<bool, TemplateError> {
        let Some(end) = self.rest.find("*/") else { return Err(self.error("a comment is not closed")) };
        let after = &self.rest[end + 2..];
        let body = after.trim_start_matches(is_space);
        let (length, trims) = if after.starts_with("}}") {
            (end + 4, false)
        } else if body.len() < after.len() && body.starts_with("-}}") {
            (self.rest.len() - body.len() + 3, true)
        } else {
            return Err(self.error("a comment must end with */}} or */ -}}"));
        };
        self.skip(length);
        Ok(trims)
    }

    /// Whether what follows the action is trimmed.
    fn action(&mut self) -> Result<bool, TemplateError> {
        let opened = self.line;
        loop {
            let length = self.rest.len() - self.rest.trim_start_matches(is_space).len();
            let spaced = length > 0;
            self.skip(length);
            if self.rest.starts_with("}}") {
                self.push(Kind::Close, 2, spaced);
                return Ok(false);
            }
            if spaced && self.rest.starts_with("-}}") {
                self.push(Kind::Close, 3, spaced);
                return Ok(true);
            }
            let Some(first) = self.rest.chars().next() else {
                return Err(TemplateError::Syntax { line: opened, problem: "{{ is not closed".to_owned() });
            };
            self.token(first, spaced)?;
        }
    }

    fn token(&mut self, first: char, spaced: bool) -> Result<(), TemplateError> {
        let after = &self.rest[first.len_utf8()..];
        let word = after.split(|c| !is_word(c)).next().unwrap_or_default();
        let digit_next = after.starts_with(|c: char| c.is_ascii_digit());
        match first {
            '|' => self.push(Kind::Pipe, 1, spaced),
            '(' => self.push(Kind::LeftParenthesis, 1, spaced),
            ')' => self.push(Kind::RightParenthesis, 1, spaced),
            ',' => self.push(Kind::Comma, 1, spaced),
            '=' => self.push(Kind::Assign, 1, spaced),
            ':' if after.starts_with('=') => self.push(Kind::Declare, 2, spaced),
            '"' => {
                let length = self.quoted_length('"')?;
                let string =
                    unquote(&self.rest[1..length - 1], '"').map_err(|problem| self.error(problem))?;
                self.push(Kind::String(string), length, spaced);
            }
            '`' => {
                let Some(length) = after.find('`') else {
                    return Err(self.error("a string is not closed"));
                };
                self.push(Kind::String(after[..length].to_owned()), length + 2, spaced);
            }
            '\'' => {
                let length = self.quoted_length('\'')?;
                let string =
                    unquote(&self.rest[1..length - 1], '\'').map_err(|problem| self.error(problem))?;
                let mut chars = string.chars();
                let (Some(c), None) = (chars.next(), chars.next()) else {
                    return Err(self.error("one character stands between single quotes"));
                };
                let code = u32::from(c);
                let number = Number { integer: Some(code.into()), float: code.into(), is_integer: true };
                self.push(Kind::Number(number), length, spaced);
            }
            '$' => {
                self.terminated(&after[word.len()..])?;
                self.push(Kind::Variable(word.to_owned()), 1 + word.len(), spaced);
            }
            '.' if !digit_next => {
                if word.is_empty() {
                    self.push(Kind::Dot, 1, spaced);
                } else {
                    self.terminated(&after[word.len()..])?;
                    self.push(Kind::Field(word.to_owned()), 1 + word.len(), spaced);
                }
            }
            '.' | '+' | '-' | '0'..='9' => {
                let length = number_length(self.rest);
                let number = number(&self.rest[..length]).map_err(|problem| self.error(problem))?;
                self.push(Kind::Number(number), length, spaced);
            }
            c if is_word(c) => {
                let length = c.len_utf8() + word.len();
                let name = &self.rest[..length];
                self.terminated(&self.rest[length..])?;
                let kind = match (name, Keyword::read(name)) {
                    (_, Some(keyword)) => Kind::Keyword(keyword),
                    ("true" | "false", None) => Kind::Bool(name == "true"),
                    ("nil", None) => Kind::Nil,
                    (name, None) => Kind::Name(name.to_owned()),
                };
                self.push(kind, length, spaced);
            }
            c => return Err(self.error(format!("unexpected character {c:?}"))),
        }
        Ok(())
    }

    /// After a name stands white space, an end or one of a few characters.
    fn terminated(&self, after: &str) -> Result<(), TemplateError> {
        match after.chars().next() {
            Some(c) if !is_space(c) && !".,|:()".contains(c) && !after.starts_with("}}") => {
                Err(self.error(format!("unexpected character {c:?}")))
            }
            _ => Ok(()),
        }
    }

    fn quoted_length(&self, quote: char) -> Result<usize, TemplateError> {
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == quote => return Ok(at + 1),
                _ => {}
            }
        }
        Err(self.error(if quote == '"' { "a string is not closed" } else { "a character is not closed" }))
    }
}

fn unquote(string: &str, quote: char) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(string.len());
    let mut chars = string.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = chars.next().unwrap_or('\\');
        let mut code = |digits: usize, radix: u32, first: &str| {
            let digits: String = first.chars().chain(chars.by_ref().take(digits)).collect();
            u32::from_str_radix(&digits, radix)
                .ok()
                .filter(|_| !digits.starts_with('+'))
                .ok_or_else(|| format!("a string has a wrong escape \\{escape}"))
        };
        let byte =
            |code: u32| u8::try_from(code).map_err(|_| "a string has an octal escape above 377".to_owned());
        match escape {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            '\\' => bytes.push(b'\\'),
            c if c == quote => bytes.push(quote as u8),
            'x' => bytes.push(byte(code(2, 16, "")?)?),
            c @ '0'..='7' => bytes.push(byte(code(2, 8, c.encode_utf8(&mut [0; 4]))?)?),
            'u' | 'U' => {
                let code = code(if escape == 'u' { 4 } else { 8 }, 16, "")?;
                let c =
                    char::from_u32(code).ok_or_else(|| format!("a string has a wrong escape \\{escape}"))?;
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return Err(format!("a string has the unknown escape \\{escape}")),
        }
    }
    String::from_utf8(bytes).map_err(|_| "a string has escapes that are not UTF-8".to_owned())
}

fn number_length(rest: &str) -> usize {
    let digits = rest.trim_start_matches(['+', '-']);
    let hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
    let mut previous = ' ';
    for (at, c) in rest.char_indices() {
        let sign = matches!(c, '+' | '-');
        let exponent = if hexadecimal { "pP".contains(previous) } else { "eE".contains(previous) };
        if !(is_word(c) || c == '.' || (sign && (at == 0 || exponent))) {
            return at;
        }
        previous = c;
    }
    rest.len()
}

/// Numbers as Go writes them: decimal, `0x`, `0o`, `0b`, octal with a leading zero, floats, `_` between digits.
fn number(written: &str) -> Result<Number, String> {
    let wrong = || format!("{written:?} is not a number");
    if written.ends_with('i') {
        return Err(format!("complex numbers such as {written:?} are not supported"));
    }
    if let Some(integer) = parse_int(written) {
        let integer = i64::try_from(integer).map_err(|_| format!("{written} overflows int"))?;
        return Ok(Number { integer: Some(integer), float: integer as f64, is_integer: true });
    }
    // Without these, it is an integer that cannot be read.
    let looks_so = written.contains(['.', 'e', 'E', 'p', 'P']);
    let float = parse_float(written).filter(|float| looks_so && float.is_finite()).ok_or_else(wrong)?;
    // What is written as a float can stand for an integer if it is one.
    let whole = float.fract() == 0.0 && float.abs() < 9_223_372_036_854_775_808.0;
    Ok(Number { integer: whole.then_some(float as i64), float, is_integer: false })
}

/// An integer as Go's `strconv.ParseInt` with base 0 reads it.
pub(crate) fn parse_int(written: &str) -> Option<i128> {
    let (negative, digits) = match written.strip_prefix(['+', '-']) {
        Some(digits) => (written.starts_with('-'), digits),
        None => (false, written),
    };
    let prefix = digits.get(..2).unwrap_or_default().to_ascii_lowercase();
    let (radix, body) = match prefix.as_str() {
        "0x" => (16, &digits[2..]),
        "0o" => (8, &digits[2..]),
        "0b" => (2, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    let leading = radix != 10 && body.starts_with('_');
    let plain = if radix == 10 { !digits.contains('_') || underscores_ok(digits) } else { true };
    let clean = body.strip_prefix('_').filter(|_| leading).unwrap_or(body);
    if !plain || !underscores_ok(clean) || clean.starts_with(['+', '-']) {
        return None;
    }
    let value = i128::from_str_radix(&clean.replace('_', ""), radix).ok()?;
    Some(if negative { -value } else { value })
}

/// Underscores stand between digits only.
fn underscores_ok(digits: &str) -> bool {
    !digits.starts_with('_') && !digits.ends_with('_') && !digits.contains("__")
}

fn parse_float(written: &str) -> Option<f64> {
    let digits = written.trim_start_matches(['+', '-']);
    let valid = digits.chars().all(|c| c.is_ascii_digit() || "._eE+-".contains(c));
    // Hexadecimal floats (0x1p4) are read by hand: the standard library does not know them.
    if let Some(hexadecimal) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let (mantissa, exponent) = hexadecimal.split_once(['p', 'P'])?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let value = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()? as f64;
        let exponent: i32 = exponent.parse().ok()?;
        let shift = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
        let value = value * f64::from(exponent.checked_sub(shift)?).exp2();
        return Some(if written.starts_with('-') { -value } else { value });
    }
    if !valid || !underscores_ok(digits) {
        return None;
    }
    written.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_go_writes_them() {
        for (written, integer, float) in [
            ("0", Some(0), 0.0),
            ("-12", Some(-12), -12.0),
            ("+7", Some(7), 7.0),
            ("0x1F", Some(31), 31.0),
            ("0b101", Some(5), 5.0),
            ("0o17", Some(15), 15.0),
            ("017", Some(15), 15.0),
            ("1_000", Some(1000), 1000.0),
            ("1.5", None, 1.5),
            (".5", None, 0.5),
            ("1e3", Some(1000), 1000.0),
            ("0x1p4", Some(16), 16.0),
        ] {
            let read = number(written).unwrap();
            assert_eq!((read.integer, read.float), (integer, float), "{written}");
        }
        for written in ["1a", "0x", "1__0", "08", "1i", "9223372036854775808", "1e999", "--1", "1_"] {
            assert!(number(written).is_err(), "{written}");
        }
    }
}
