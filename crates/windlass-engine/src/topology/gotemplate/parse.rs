//! From pieces to a tree.

use serde_json::Value;

use super::TemplateError;
use super::lex::{Piece, Word};

/// Deeper templates are refused: evaluation goes as deep as they do.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Text(String),
    Print(Pipeline),
    If {
        condition: Pipeline,
        then: Vec<Node>,
        otherwise: Vec<Node>,
    },
    With {
        value: Pipeline,
        then: Vec<Node>,
        otherwise: Vec<Node>,
    },
    Range {
        over: Pipeline,
        key: Option<String>,
        element: Option<String>,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    Break,
    Continue,
}

/// Commands of which each gets the value of the one before as its last argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pipeline {
    /// A variable that gets the value, and whether it is a new one.
    pub(super) target: Option<(String, bool)>,
    pub(super) commands: Vec<Command>,
}

/// A function with its arguments, or a single operand.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Command(pub(super) Vec<Operand>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Literal(Value),
    Function(String),
    /// A start and the fields asked of it.
    Path(Start, Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Start {
    Dot,
    Variable(String),
    Group(Box<Pipeline>),
}

pub(super) fn parse(pieces: Vec<Piece>) -> Result<Vec<Node>, TemplateError> {
    let mut parser = Parser { pieces: pieces.into_iter(), line: 1 };
    let (nodes, end) = parser.nodes(None, 0)?;
    match end {
        End::OfText => Ok(nodes),
        End::Else(_) => Err(parser.error("unexpected else")),
        End::OfBlock => Err(parser.error("unexpected end")),
    }
}

struct Parser {
    pieces: std::vec::IntoIter<Piece>,
    line: usize,
}

/// What ended a list of nodes.
enum End {
    OfText,
    OfBlock,
    Else(Vec<Word>),
}

impl Parser {
    fn error(&self, problem: impl Into<String>) -> TemplateError {
        TemplateError::Syntax { line: self.line, problem: problem.into() }
    }

    fn nodes(&mut self, block: Option<&str>, depth: usize) -> Result<(Vec<Node>, End), TemplateError> {
        if depth > MAX_DEPTH {
            return Err(self.error("blocks are nested too deeply"));
        }
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let (line, words) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action(line, words) => (line, words),
            };
            self.line = line;
            let words = trim(&words);
            let Some(first) = words.first() else {
                return Err(self.error("an action is empty"));
            };
            let keyword = if let Word::Name(name) = first { name.as_str() } else { "" };
            let rest = words.get(1..).unwrap_or_default();
            match keyword {
                "end" => return Ok((nodes, End::OfBlock)),
                "else" => return Ok((nodes, End::Else(trim(rest).to_vec()))),
                "break" if rest.is_empty() => nodes.push(Node::Break),
                "continue" if rest.is_empty() => nodes.push(Node::Continue),
                "if" | "with" | "range" => nodes.push(self.block(keyword, rest, depth)?),
                "define" | "template" | "block" => {
                    return Err(self.error(format!("{keyword} is not supported")));
                }
                _ => nodes.push(Node::Print(self.pipeline(words, 0)?)),
            }
        }
        match block {
            Some(block) => Err(self.error(format!("{block} has no end"))),
            None => Ok((nodes, End::OfText)),
        }
    }

    fn block(&mut self, keyword: &str, head: &[Word], depth: usize) -> Result<Node, TemplateError> {
        let (mut key, mut element) = (None, None);
        let mut head = trim(head);
        if keyword == "range"
            && let Some(declare) = head.iter().position(|word| *word == Word::Declare)
        {
            let mut names = Vec::new();
            for word in &head[..declare] {
                match word {
                    Word::Variable(name) => names.push(name.clone()),
                    Word::Comma | Word::Space => {}
                    _ => return Err(self.error("range declares one or two variables")),
                }
            }
            match names.as_slice() {
                [one] => element = Some(one.clone()),
                [one, two] => (key, element) = (Some(one.clone()), Some(two.clone())),
                _ => return Err(self.error("range declares one or two variables")),
            }
            head = trim(&head[declare + 1..]);
        }
        let head = self.pipeline(head, 0)?;
        let (then, end) = self.nodes(Some(keyword), depth + 1)?;
        let otherwise = match end {
            End::Else(words) => self.otherwise(keyword, &words, depth)?,
            End::OfBlock | End::OfText => Vec::new(),
        };
        Ok(match keyword {
            "if" => Node::If { condition: head, then, otherwise },
            "with" => Node::With { value: head, then, otherwise },
            _ => Node::Range { over: head, key, element, body: then, otherwise },
        })
    }

    fn otherwise(&mut self, block: &str, words: &[Word], depth: usize) -> Result<Vec<Node>, TemplateError> {
        match words {
            [] => match self.nodes(Some(block), depth + 1)? {
                (nodes, End::OfBlock) => Ok(nodes),
                _ => Err(self.error("else comes twice")),
            },
            // `else if` ends with the end of the outer block.
            [Word::Name(keyword), rest @ ..] if keyword == "if" || keyword == "with" => {
                if depth >= MAX_DEPTH {
                    return Err(self.error("blocks are nested too deeply"));
                }
                Ok(vec![self.block(&keyword.clone(), rest, depth + 1)?])
            }
            _ => Err(self.error("only if or with may follow else")),
        }
    }

    fn pipeline(&self, words: &[Word], depth: usize) -> Result<Pipeline, TemplateError> {
        if depth > MAX_DEPTH {
            return Err(self.error("parentheses are nested too deeply"));
        }
        let mut words = trim(words);
        let mut target = None;
        if let [Word::Variable(name), rest @ ..] = words {
            let after = trim(rest);
            match after.first() {
                Some(Word::Declare) => (target, words) = (Some((name.clone(), true)), trim(&after[1..])),
                Some(Word::Assign) => (target, words) = (Some((name.clone(), false)), trim(&after[1..])),
                _ => {}
            }
        }
        let mut commands = Vec::new();
        let mut level = 0_usize;
        let mut start = 0;
        for (at, word) in words.iter().enumerate() {
            match word {
                Word::Open => level += 1,
                Word::Close => {
                    level = level.checked_sub(1).ok_or_else(|| self.error("unexpected )"))?;
                }
                Word::Pipe if level == 0 => {
                    commands.push(self.command(&words[start..at], depth)?);
                    start = at + 1;
                }
                _ => {}
            }
        }
        if level > 0 {
            return Err(self.error("( is not closed"));
        }
        commands.push(self.command(&words[start..], depth)?);
        Ok(Pipeline { target, commands })
    }

    fn command(&self, words: &[Word], depth: usize) -> Result<Command, TemplateError> {
        let words = trim(words);
        let mut operands = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let start = match &words[at] {
                Word::Space => {
                    at += 1;
                    continue;
                }
                Word::Literal(value) => {
                    operands.push(Operand::Literal(value.clone()));
                    at += 1;
                    continue;
                }
                Word::Name(name) => {
                    operands.push(Operand::Function(name.clone()));
                    at += 1;
                    continue;
                }
                Word::Dot => {
                    at += 1;
                    Start::Dot
                }
                Word::Field(_) => Start::Dot,
                Word::Variable(name) => {
                    at += 1;
                    Start::Variable(name.clone())
                }
                Word::Open => {
                    let close = closing(words, at).ok_or_else(|| self.error("( is not closed"))?;
                    let inside = self.pipeline(&words[at + 1..close], depth + 1)?;
                    at = close + 1;
                    Start::Group(Box::new(inside))
                }
                Word::Pipe | Word::Close | Word::Comma | Word::Declare | Word::Assign => {
                    return Err(self.error("an operator stands where a value is needed"));
                }
            };
            let mut fields = Vec::new();
            while let Some(Word::Field(name)) = words.get(at) {
                fields.push(name.clone());
                at += 1;
            }
            operands.push(Operand::Path(start, fields));
        }
        if operands.is_empty() {
            return Err(self.error("a value is missing"));
        }
        Ok(Command(operands))
    }
}

fn closing(words: &[Word], open: usize) -> Option<usize> {
    let mut level = 0_usize;
    for (at, word) in words.iter().enumerate().skip(open) {
        match word {
            Word::Open => level += 1,
            Word::Close => {
                level -= 1;
                if level == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn trim(words: &[Word]) -> &[Word] {
    let mut words = words;
    while let [Word::Space, rest @ ..] = words {
        words = rest;
    }
    while let [rest @ .., Word::Space] = words {
        words = rest;
    }
    words
}
