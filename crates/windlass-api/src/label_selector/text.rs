//! Label selectors as they stand in a query: `app in (a,b),tier=web,!canary`.

use std::collections::BTreeSet;
use std::fmt;

use super::{Operator, Requirement, Selector, label_key_problems, label_value_problems};
use crate::go::quote;

impl Selector {
    /// Reads a selector from its string form. An empty string selects everything.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, in the words of the API server.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser { tokens: tokens(text), next: 0 };
        let mut requirements = Vec::new();
        loop {
            let token = parser.peek();
            match token.kind {
                Kind::End => break,
                Kind::Word | Kind::Not => requirements.push(parser.requirement()?),
                _ => return Err(parser.expected("!, identifier, or 'end of string'", false)),
            }
            match parser.peek().kind {
                Kind::End => break,
                Kind::Comma => {
                    parser.next += 1;
                    if !matches!(parser.peek().kind, Kind::Word | Kind::Not) {
                        return Err(parser.expected("identifier after ','", false));
                    }
                }
                _ => return Err(parser.expected("',' or 'end of string'", false)),
            }
        }
        Ok(Self::all_of(requirements))
    }
}

/// A string that is not a label selector. `Display` is the message of the 400 that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Where in the string, in bytes.
    pub position: usize,
    /// Whether a requirement had begun.
    in_requirement: bool,
    problem: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = if self.in_requirement { "unable to parse requirement: " } else { "" };
        write!(f, "{context}{}", self.problem)
    }
}

impl std::error::Error for ParseError {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    In,
    NotIn,
    Not,
    Equals,
    NotEquals,
    Greater,
    Less,
    Open,
    Close,
    Comma,
    End,
    Unknown,
}

#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    position: usize,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut position = 0;
    while let Some(rest) = text.get(position..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(is_space) {
            position += 1;
            continue;
        }
        let (kind, length) = if rest.starts_with(is_symbol) {
            symbol(rest)
        } else {
            let length = rest.find(|c| is_symbol(c) || is_space(c)).unwrap_or(rest.len());
            let kind = match &rest[..length] {
                "in" => Kind::In,
                "notin" => Kind::NotIn,
                _ => Kind::Word,
            };
            (kind, length)
        };
        tokens.push(Token { kind, text: &rest[..length], position });
        position += length;
    }
    tokens.push(Token { kind: Kind::End, text: "", position: text.len() });
    tokens
}

fn symbol(text: &str) -> (Kind, usize) {
    let two = [("==", Kind::Equals), ("!=", Kind::NotEquals)];
    if let Some((_, kind)) = two.iter().find(|(symbol, _)| text.starts_with(symbol)) {
        return (*kind, 2);
    }
    let kind = match text.as_bytes().first() {
        Some(b'=') => Kind::Equals,
        Some(b'!') => Kind::Not,
        Some(b'(') => Kind::Open,
        Some(b')') => Kind::Close,
        Some(b',') => Kind::Comma,
        Some(b'>') => Kind::Greater,
        Some(b'<') => Kind::Less,
        _ => Kind::Unknown,
    };
    (kind, 1)
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Parser<'a> {
    /// The next token where a key or a value may stand: `in` and `notin` are words there.
    fn peek(&self) -> Token<'a> {
        let mut token = self.tokens[self.next];
        if matches!(token.kind, Kind::In | Kind::NotIn) {
            token.kind = Kind::Word;
        }
        token
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.advance();
        token
    }

    /// The last token is the end, and is never passed.
    fn advance(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    fn expected(&self, what: &str, in_requirement: bool) -> ParseError {
        unexpected(self.peek(), what, in_requirement)
    }

    fn requirement(&mut self) -> Result<Requirement, ParseError> {
        let negated = self.peek().kind == Kind::Not;
        if negated {
            self.advance();
        }
        let key = self.take();
        if key.kind != Kind::Word {
            return Err(unexpected(key, "identifier", true));
        }
        let problems = label_key_problems(key.text);
        if !problems.is_empty() {
            return Err(invalid(key, "<nil>", &problems));
        }
        let exists = if negated { Operator::DoesNotExist } else { Operator::Exists };
        if negated || matches!(self.peek().kind, Kind::End | Kind::Comma) {
            return Ok(Requirement { key: key.text.to_owned(), operator: exists });
        }
        let operator = self.tokens[self.next];
        self.advance();
        let operator = match operator.kind {
            Kind::In => Operator::In(self.values(key.text)?),
            Kind::NotIn => Operator::NotIn(self.values(key.text)?),
            Kind::Equals => Operator::In(BTreeSet::from([self.value(key.text)?.text.to_owned()])),
            Kind::NotEquals => Operator::NotIn(BTreeSet::from([self.value(key.text)?.text.to_owned()])),
            Kind::Greater => Operator::GreaterThan(self.number(key.text)?),
            Kind::Less => Operator::LessThan(self.number(key.text)?),
            _ => return Err(unexpected(operator, "in, notin, =, ==, !=, gt, lt", true)),
        };
        Ok(Requirement { key: key.text.to_owned(), operator })
    }

    /// The only value after `=`; nothing is the empty value.
    fn value(&mut self, key: &str) -> Result<Token<'a>, ParseError> {
        let token = self.peek();
        match token.kind {
            Kind::End | Kind::Comma => Ok(Token { kind: Kind::Word, text: "", position: token.position }),
            Kind::Word => {
                self.advance();
                checked_value(token, key)
            }
            _ => Err(unexpected(token, "identifier", true)),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, ParseError> {
        let value = self.value(key)?;
        let problem = "for 'Gt', 'Lt' operators, the value must be an integer";
        value.text.parse().map_err(|_| invalid(value, "values[0]", &[problem.to_owned()]))
    }

    /// The values between parentheses; between two commas is the empty value.
    fn values(&mut self, key: &str) -> Result<BTreeSet<String>, ParseError> {
        let open = self.take();
        if open.kind != Kind::Open {
            return Err(ParseError {
                position: open.position,
                in_requirement: true,
                problem: format!("found '{}' expected: '('", open.text),
            });
        }
        let mut values = BTreeSet::new();
        let mut after_value = false;
        if !matches!(self.peek().kind, Kind::Word | Kind::Comma | Kind::Close) {
            return Err(self.expected("',', ')' or identifier", true));
        }
        loop {
            let token = self.take();
            match token.kind {
                Kind::Word if !after_value => {
                    values.insert(checked_value(token, key)?.text.to_owned());
                    after_value = true;
                }
                Kind::Comma => {
                    if !after_value {
                        values.insert(String::new());
                    }
                    after_value = false;
                }
                Kind::Close => {
                    if !after_value {
                        values.insert(String::new());
                    }
                    return Ok(values);
                }
                _ if after_value => return Err(unexpected(token, "',' or ')'", true)),
                _ => return Err(unexpected(token, "',', or identifier", true)),
            }
        }
    }
}

fn checked_value<'a>(token: Token<'a>, key: &str) -> Result<Token<'a>, ParseError> {
    let problems = label_value_problems(token.text);
    if problems.is_empty() { Ok(token) } else { Err(invalid(token, &format!("values[0][{key}]"), &problems)) }
}

fn unexpected(token: Token<'_>, what: &str, in_requirement: bool) -> ParseError {
    let problem = format!("found '{}', expected: {what}", token.text);
    ParseError { position: token.position, in_requirement, problem }
}

fn invalid(token: Token<'_>, field: &str, problems: &[String]) -> ParseError {
    let problem = format!("{field}: Invalid value: {}: {}", quote(token.text), problems.join("; "));
    ParseError { position: token.position, in_requirement: true, problem }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select() {
        let labels = json!({"metadata": {"labels": {"a": "1", "b": "x", "e": "", "example.com/k": "v", "in": "notin"}}});
        let cases = [
            ("", true),
            (" ", true),
            ("a=1", true),
            ("a==1", true),
            ("a = 1 , b = x", true),
            ("a=2", false),
            ("a=1,b=y", false),
            ("a!=2", true),
            ("a!=1", false),
            ("missing!=1", true),
            ("missing=1", false),
            ("a", true),
            ("missing", false),
            ("!missing", true),
            ("!a", false),
            ("! a", false),
            ("a in (1,2)", true),
            ("a in (2,3)", false),
            ("a notin (2,3)", true),
            ("a notin (1)", false),
            ("missing notin (1)", true),
            ("missing in (1)", false),
            ("e=", true),
            ("e in ()", true),
            ("e in (,x)", true),
            ("e in (x,)", true),
            ("a in (1,,2)", true),
            ("a>0", true),
            ("a>1", false),
            ("a<2", true),
            ("b<2", false),
            ("example.com/k=v", true),
            ("in=notin", true),
            ("in in (in,notin)", true),
            ("a=1,b in (x,y),!missing", true),
        ];
        for (text, expected) in cases {
            let selector = Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.matches_object(&labels), expected, "{text}");
        }
        assert!(Selector::parse("").unwrap().is_everything());
        assert!(!Selector::parse("a=1").unwrap().matches_object(&json!({})));
    }

    #[test]
    fn errors_have_the_words_of_the_api_and_a_position() {
        let cases = [
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier", 6),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'", 7),
            ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'", 8),
            ("a in (b,(", "unable to parse requirement: found '(', expected: ',', or identifier", 8),
            ("a in b", "unable to parse requirement: found 'b' expected: '('", 5),
            ("a,", "found '', expected: identifier after ','", 2),
            (",a", "found ',', expected: !, identifier, or 'end of string'", 0),
            ("a=1 b", "found 'b', expected: ',' or 'end of string'", 4),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt", 2),
            ("!", "unable to parse requirement: found '', expected: identifier", 1),
            ("=a", "found '=', expected: !, identifier, or 'end of string'", 0),
            ("a==(", "unable to parse requirement: found '(', expected: identifier", 3),
            ("a===b", "unable to parse requirement: found '=', expected: identifier", 3),
            ("!a=1", "found '=', expected: ',' or 'end of string'", 2),
        ];
        for (text, message, position) in cases {
            let error = Selector::parse(text).unwrap_err();
            assert_eq!((error.to_string().as_str(), error.position), (message, position), "{text}");
        }
    }

    #[test]
    fn keys_and_values_must_be_labels() {
        let cases = [
            ("a_=1", "name part must consist of"),
            ("-a", "name part must consist of"),
            ("A/b=1", "prefix part a lowercase RFC 1123 subdomain"),
            ("/b", "prefix part must be non-empty"),
            ("a/", "name part must be non-empty"),
            ("a/b/c", "a valid label key must consist of"),
            ("a=-x", "values[0][a]: Invalid value: \"-x\": a valid label must be an empty string"),
            ("a>x", "the value must be an integer"),
        ];
        for (text, expected) in cases {
            let message = Selector::parse(text).unwrap_err().to_string();
            assert!(message.starts_with("unable to parse requirement: "), "{message}");
            assert!(message.contains(expected), "{text}: {message}");
        }
        assert!(label_key_problems(&"a".repeat(64))[0].contains("no more than 63"));
        assert!(label_key_problems(&format!("{}/a", "a".repeat(254)))[0].contains("no more than 253"));
        assert!(label_value_problems(&"a".repeat(64))[0].contains("no more than 63"));
    }

    #[test]
    fn garbage_is_refused_not_obeyed() {
        for text in ["((((", "!!!!", "a in in in", "\u{0}", "é=1", "a=é", &"(".repeat(100_000)] {
            assert!(Selector::parse(text).is_err(), "{}", text.len());
        }
    }
}
