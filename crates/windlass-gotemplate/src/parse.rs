//! The tree of a template. Functions, variables and templates that do not exist are found here, before anything is
//! evaluated.

use std::collections::BTreeMap;

use super::TemplateError;
use super::functions::{self, Function, Lookup};
use super::lex::{Keyword, Kind, Number, Token};
use super::value::MAX_DEPTH;

/// A template and those that it defines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) templates: BTreeMap<String, Vec<Node>>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Text(String),
    Print(Pipeline),
    If { condition: Pipeline, then: Vec<Node>, otherwise: Vec<Node> },
    With { value: Pipeline, then: Vec<Node>, otherwise: Vec<Node> },
    Range { over: Pipeline, body: Vec<Node>, otherwise: Vec<Node> },
    Template { name: String, line: usize, argument: Option<Pipeline> },
    Break,
    Continue,
}

/// Commands, each with the result of the one before as its last argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pipeline {
    /// The variables that get the result: two at most, and two in `range` only.
    pub(crate) variables: Vec<String>,
    /// Whether the variables exist already.
    pub(crate) assigns: bool,
    pub(crate) commands: Vec<Command>,
}

/// A function, a method or a value, and its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Command {
    pub(crate) line: usize,
    pub(crate) first: Operand,
    pub(crate) arguments: Vec<Operand>,
}

/// A word of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Bool(bool),
    Number(Number),
    String(String),
    Nil,
    Function(&'static Function),
    /// Something and the fields behind it.
    Path(Start, Vec<String>),
}

/// Where a path begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Start {
    Dot,
    /// `$` has the empty name.
    Variable(String),
    Group(Box<Pipeline>),
    /// A function without arguments: `dict.a`.
    Function(&'static Function),
}

pub(crate) fn parse(tokens: Vec<Token>) -> Result<Tree, TemplateError> {
    let mut parser = Parser {
        tokens,
        at: 0,
        variables: Vec::new(),
        ranges: 0,
        depth: 0,
        templates: BTreeMap::new(),
        calls: Vec::new(),
    };
    let nodes = parser.tree()?;
    for (line, name) in &parser.calls {
        if !parser.templates.contains_key(name) {
            let problem = format!("template {name:?} is not defined");
            return Err(TemplateError::Syntax { line: *line, problem });
        }
    }
    Ok(Tree { nodes, templates: parser.templates })
}

/// What ended a list of nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    OfTemplate,
    OfBlock,
    Else,
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    variables: Vec<String>,
    /// How many `range` are open.
    ranges: usize,
    /// How many blocks and parentheses are open.
    depth: usize,
    templates: BTreeMap<String, Vec<Node>>,
    calls: Vec<(usize, String)>,
}

impl Parser {
    fn line(&self) -> usize {
        self.tokens.get(self.at.min(self.tokens.len() - 1)).map_or(1, |token| token.line)
    }

    fn error<T>(&self, problem: impl Into<String>) -> Result<T, TemplateError> {
        Err(TemplateError::Syntax { line: self.line(), problem: problem.into() })
    }

    fn peek(&self) -> &Kind {
        self.tokens.get(self.at).map_or(&Kind::End, |token| &token.kind)
    }

    fn is_spaced(&self) -> bool {
        self.tokens.get(self.at).is_some_and(|token| token.spaced)
    }

    fn next(&mut self) -> Kind {
        let kind = self.peek().clone();
        self.at += 1;
        kind
    }

    fn eat(&mut self, kind: &Kind) -> bool {
        let found = self.peek() == kind;
        self.at += usize::from(found);
        found
    }

    fn close(&mut self, keyword: &str) -> Result<(), TemplateError> {
        if self.eat(&Kind::Close) { Ok(()) } else { self.error(format!("{keyword} takes nothing more")) }
    }

    fn enter(&mut self) -> Result<(), TemplateError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.error(format!("it is nested more than {MAX_DEPTH} deep"));
        }
        Ok(())
    }

    fn tree(&mut self) -> Result<Vec<Node>, TemplateError> {
        let mut nodes = Vec::new();
        loop {
            if let [Token { kind: Kind::Open, .. }, Token { kind: Kind::Keyword(Keyword::Define), .. }, ..] =
                &self.tokens[self.at.min(self.tokens.len())..]
            {
                self.at += 2;
                self.define()?;
                continue;
            }
            match self.node(&mut nodes)? {
                None => {}
                Some(End::OfTemplate) => return Ok(nodes),
                Some(End::OfBlock) => return self.error("unexpected end"),
                Some(End::Else) => return self.error("unexpected else"),
            }
        }
    }

    fn define(&mut self) -> Result<(), TemplateError> {
        let Kind::String(name) = self.next() else {
            return self.error("define takes the name of a template as a string");
        };
        self.close("define")?;
        self.body(Keyword::Define, name)
    }

    /// The nodes of a template, which sees no variables of others.
    fn body(&mut self, keyword: Keyword, name: String) -> Result<(), TemplateError> {
        let line = self.line();
        let variables = std::mem::take(&mut self.variables);
        let ranges = std::mem::take(&mut self.ranges);
        let (nodes, end) = self.nodes(keyword)?;
        if end == End::Else {
            return self.error(format!("unexpected else in {}", keyword.name()));
        }
        (self.variables, self.ranges) = (variables, ranges);
        let is_empty = |nodes: &[Node]| {
            nodes.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
        };
        match self.templates.get(&name) {
            Some(there) if !is_empty(there) && !is_empty(&nodes) => {
                let problem = format!("template {name:?} is defined twice");
                Err(TemplateError::Syntax { line, problem })
            }
            Some(there) if !is_empty(there) => Ok(()),
            _ => {
                self.templates.insert(name, nodes);
                Ok(())
            }
        }
    }

    /// The nodes up to the `end` or `else` of a block.
    fn nodes(&mut self, block: Keyword) -> Result<(Vec<Node>, End), TemplateError> {
        self.enter()?;
        let mut nodes = Vec::new();
        loop {
            match self.node(&mut nodes)? {
                None => {}
                Some(End::OfTemplate) => return self.error(format!("{} has no end", block.name())),
                Some(end) => {
                    self.depth -= 1;
                    return Ok((nodes, end));
                }
            }
        }
    }

    fn node(&mut self, nodes: &mut Vec<Node>) -> Result<Option<End>, TemplateError> {
        match self.next() {
            Kind::Text(text) => nodes.push(Node::Text(text)),
            Kind::Open => {
                let Kind::Keyword(keyword) = *self.peek() else {
                    let pipeline = self.pipeline("an action")?;
                    nodes.push(Node::Print(pipeline));
                    return self.close("an action").map(|()| None);
                };
                self.at += 1;
                match keyword {
                    Keyword::End => return self.close("end").map(|()| Some(End::OfBlock)),
                    // What follows is read by the block.
                    Keyword::Else => return Ok(Some(End::Else)),
                    Keyword::If | Keyword::With | Keyword::Range => nodes.push(self.block(keyword)?),
                    Keyword::Template => nodes.push(self.call()?),
                    Keyword::Block => nodes.push(self.defined_here()?),
                    Keyword::Break | Keyword::Continue => {
                        if self.ranges == 0 {
                            return self.error(format!("{} stands outside of range", keyword.name()));
                        }
                        self.close(keyword.name())?;
                        nodes.push(if keyword == Keyword::Break { Node::Break } else { Node::Continue });
                    }
                    Keyword::Define => return self.error("define stands at the top of a template only"),
                }
            }
            // Text and actions alternate.
            _ => return Ok(Some(End::OfTemplate)),
        }
        Ok(None)
    }

    fn block(&mut self, keyword: Keyword) -> Result<Node, TemplateError> {
        let scope = self.variables.len();
        let head = self.pipeline(keyword.name())?;
        self.close(keyword.name())?;
        self.ranges += usize::from(keyword == Keyword::Range);
        let (then, end) = self.nodes(keyword)?;
        self.ranges -= usize::from(keyword == Keyword::Range);
        let otherwise = if end == End::Else { self.otherwise(keyword)? } else { Vec::new() };
        self.variables.truncate(scope);
        Ok(match keyword {
            Keyword::If => Node::If { condition: head, then, otherwise },
            Keyword::With => Node::With { value: head, then, otherwise },
            _ => Node::Range { over: head, body: then, otherwise },
        })
    }

    fn otherwise(&mut self, block: Keyword) -> Result<Vec<Node>, TemplateError> {
        if self.eat(&Kind::Close) {
            let (nodes, end) = self.nodes(block)?;
            return if end == End::OfBlock { Ok(nodes) } else { self.error("else comes twice") };
        }
        // `else if` ends with the end of the outer block.
        if block != Keyword::Range && self.eat(&Kind::Keyword(block)) {
            self.enter()?;
            let node = self.block(block)?;
            self.depth -= 1;
            return Ok(vec![node]);
        }
        match block {
            Keyword::Range => self.error("nothing may follow else of range"),
            block => self.error(format!("only {0} may follow else of {0}", block.name())),
        }
    }

    fn call(&mut self) -> Result<Node, TemplateError> {
        let line = self.line();
        let Kind::String(name) = self.next() else {
            return self.error("template takes the name of a template as a string");
        };
        let argument = if *self.peek() == Kind::Close { None } else { Some(self.pipeline("template")?) };
        self.close("template")?;
        self.calls.push((line, name.clone()));
        Ok(Node::Template { name, line, argument })
    }

    /// `block` defines a template and calls it.
    fn defined_here(&mut self) -> Result<Node, TemplateError> {
        let line = self.line();
        let Kind::String(name) = self.next() else {
            return self.error("block takes the name of a template as a string");
        };
        let argument = self.pipeline("block")?;
        self.close("block")?;
        self.body(Keyword::Block, name.clone())?;
        self.calls.push((line, name.clone()));
        Ok(Node::Template { name, line, argument: Some(argument) })
    }

    fn pipeline(&mut self, place: &str) -> Result<Pipeline, TemplateError> {
        let (variables, assigns) = self.targets(place)?;
        let mut commands = Vec::new();
        loop {
            if matches!(self.peek(), Kind::Close | Kind::RightParenthesis | Kind::Pipe | Kind::End) {
                return self.error(format!("a value is missing in {place}"));
            }
            commands.push(self.command(!commands.is_empty())?);
            // Go allows a bar behind the last command.
            if !self.eat(&Kind::Pipe) || matches!(self.peek(), Kind::Close | Kind::RightParenthesis) {
                break;
            }
        }
        // A variable is not known in its own declaration.
        for name in &variables {
            if !assigns {
                self.variables.push(name.clone());
            } else if !name.is_empty() && !self.variables.contains(name) {
                return self.error(format!("variable ${name} is not defined"));
            }
        }
        Ok(Pipeline { variables, assigns, commands })
    }

    /// `$a :=`, `$a =`, and in `range` also `$a, $b :=`.
    fn targets(&mut self, place: &str) -> Result<(Vec<String>, bool), TemplateError> {
        let start = self.at;
        let mut names = Vec::new();
        while let Kind::Variable(name) = self.peek() {
            names.push(name.clone());
            self.at += 1;
            match self.peek() {
                Kind::Declare | Kind::Assign => {
                    if names.len() > 1 && (place != "range" || names.len() > 2) {
                        return self.error(format!("too many variables in {place}"));
                    }
                    return Ok((names, self.next() == Kind::Assign));
                }
                Kind::Comma => self.at += 1,
                _ => break,
            }
        }
        self.at = start;
        Ok((Vec::new(), false))
    }

    fn command(&mut self, is_piped: bool) -> Result<Command, TemplateError> {
        let line = self.line();
        let first = self.operand()?;
        if is_piped
            && matches!(first, Operand::Bool(_) | Operand::Number(_) | Operand::String(_) | Operand::Nil)
        {
            return self.error("a function is needed behind |");
        }
        if is_piped && matches!(&first, Operand::Path(Start::Dot, fields) if fields.is_empty()) {
            return self.error("a function is needed behind |");
        }
        let mut arguments = Vec::new();
        loop {
            match self.peek() {
                Kind::Close | Kind::RightParenthesis | Kind::Pipe => break,
                Kind::End => return self.error("{{ is not closed"),
                _ if !self.is_spaced() => return self.error(format!("{} is unexpected", shown(self.peek()))),
                _ => arguments.push(self.operand()?),
            }
        }
        if let Operand::Function(function) = first {
            self.check_count(function, arguments.len() + usize::from(is_piped))?;
        }
        for argument in &arguments {
            if let Operand::Function(function) = argument {
                self.check_count(function, 0)?;
            }
        }
        Ok(Command { line, first, arguments })
    }

    fn check_count(&self, function: &Function, given: usize) -> Result<(), TemplateError> {
        match function.wrong_count(given) {
            Some(problem) => self.error(problem),
            None => Ok(()),
        }
    }

    fn operand(&mut self) -> Result<Operand, TemplateError> {
        let start = match self.next() {
            Kind::Bool(value) => return self.constant(Operand::Bool(value)),
            Kind::Number(number) => return self.constant(Operand::Number(number)),
            Kind::String(string) => return self.constant(Operand::String(string)),
            Kind::Nil => return self.constant(Operand::Nil),
            Kind::Name(name) => {
                let function = self.function(&name)?;
                if self.is_spaced() || !matches!(self.peek(), Kind::Field(_)) {
                    return Ok(Operand::Function(function));
                }
                self.check_count(function, 0)?;
                Start::Function(function)
            }
            Kind::Dot => {
                // `. .a` are two operands, `..a` is a mistake.
                return self.constant(Operand::Path(Start::Dot, Vec::new()));
            }
            Kind::Field(_) => {
                self.at -= 1;
                return Ok(Operand::Path(Start::Dot, self.fields(true)));
            }
            Kind::Variable(name) => {
                if !name.is_empty() && !self.variables.contains(&name) {
                    self.at -= 1;
                    return self.error(format!("variable ${name} is not defined"));
                }
                Start::Variable(name)
            }
            Kind::LeftParenthesis => {
                self.enter()?;
                let inside = self.pipeline("parentheses")?;
                if !self.eat(&Kind::RightParenthesis) {
                    return self.error("( is not closed");
                }
                self.depth -= 1;
                Start::Group(Box::new(inside))
            }
            Kind::End => {
                self.at -= 1;
                return self.error("{{ is not closed");
            }
            other => {
                self.at -= 1;
                return self.error(format!("{} stands where a value is needed", shown(&other)));
            }
        };
        Ok(Operand::Path(start, self.fields(false)))
    }

    fn constant(&self, operand: Operand) -> Result<Operand, TemplateError> {
        if !self.is_spaced() && matches!(self.peek(), Kind::Field(_) | Kind::Dot) {
            return self.error("a constant or . has no fields");
        }
        Ok(operand)
    }

    fn fields(&mut self, first_may_be_spaced: bool) -> Vec<String> {
        let mut fields = Vec::new();
        while let Kind::Field(name) = self.peek() {
            if self.is_spaced() && !(first_may_be_spaced && fields.is_empty()) {
                break;
            }
            fields.push(name.clone());
            self.at += 1;
        }
        fields
    }

    fn function(&self, name: &str) -> Result<&'static Function, TemplateError> {
        let line = self.tokens.get(self.at.saturating_sub(1)).map_or(1, |token| token.line);
        let problem = match functions::find(name) {
            Lookup::Found(function) => return Ok(function),
            Lookup::Refused(reason) => format!("function {name:?} is not available: {reason}"),
            Lookup::Unknown => format!("function {name:?} does not exist"),
        };
        Err(TemplateError::Syntax { line, problem })
    }
}

fn shown(kind: &Kind) -> String {
    match kind {
        Kind::Text(_) | Kind::End => "the end".to_owned(),
        Kind::Open => "{{".to_owned(),
        Kind::Close => "}}".to_owned(),
        Kind::Bool(value) => value.to_string(),
        Kind::Number(number) => number.float.to_string(),
        Kind::String(string) => format!("{string:?}"),
        Kind::Nil => "nil".to_owned(),
        Kind::Name(name) => name.clone(),
        Kind::Keyword(keyword) => keyword.name().to_owned(),
        Kind::Dot => ".".to_owned(),
        Kind::Field(name) => format!(".{name}"),
        Kind::Variable(name) => format!("${name}"),
        Kind::Pipe => "|".to_owned(),
        Kind::LeftParenthesis => "(".to_owned(),
        Kind::RightParenthesis => ")".to_owned(),
        Kind::Comma => ",".to_owned(),
        Kind::Declare => ":=".to_owned(),
        Kind::Assign => "=".to_owned(),
    }
}
