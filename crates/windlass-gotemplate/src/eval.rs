//! Evaluation.

use std::collections::BTreeMap;

use super::functions::{Arguments, Body, Function};
use super::parse::{Command, Node, Operand, Pipeline, Start, Tree};
use super::print::print;
use super::value::{Heap, Integer, List, MAX_DEPTH, MAX_STRING, Value};
use super::{MissingKey, TemplateError, methods};

pub(crate) fn render(
    tree: &Tree,
    data: &serde_json::Value,
    missing: MissingKey,
) -> Result<String, TemplateError> {
    let mut heap = Heap::new();
    let data = heap.import(data, 0).map_err(|problem| TemplateError::Evaluation { line: 1, problem })?;
    let mut run = Run {
        heap,
        templates: &tree.templates,
        out: String::new(),
        variables: vec![(String::new(), data.clone())],
        missing,
        depth: 0,
        line: 1,
    };
    match run.nodes(&tree.nodes, &data) {
        Ok(_) => Ok(run.out),
        Err(problem) => Err(TemplateError::Evaluation { line: run.line, problem }),
    }
}

struct Run<'a> {
    heap: Heap,
    templates: &'a BTreeMap<String, Vec<Node>>,
    out: String,
    /// The last of a name counts. `$` is the first, with an empty name.
    variables: Vec<(String, Value)>,
    missing: MissingKey,
    /// How many blocks and calls of templates are open.
    depth: usize,
    /// The line of the command that is evaluated.
    line: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

impl Run<'_> {
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<Flow, String> {
        if self.depth > MAX_DEPTH {
            return Err(format!("templates and blocks are nested more than {MAX_DEPTH} deep"));
        }
        self.depth += 1;
        let scope = self.variables.len();
        let mut flow = Flow::Next;
        for node in nodes {
            self.heap.spend(1)?;
            flow = self.node(node, dot)?;
            if flow != Flow::Next {
                break;
            }
        }
        self.variables.truncate(scope);
        self.depth -= 1;
        Ok(flow)
    }

    fn node(&mut self, node: &Node, dot: &Value) -> Result<Flow, String> {
        let scope = self.variables.len();
        match node {
            Node::Text(text) => self.write(text)?,
            Node::Print(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    let shown = match value {
                        Value::Missing | Value::Nil => "<no value>".to_owned(),
                        value => print(&mut self.heap, &value)?,
                    };
                    self.write(&shown)?;
                }
                return Ok(Flow::Next);
            }
            Node::If { condition, then, otherwise } => {
                let value = self.pipeline(condition, dot)?;
                let chosen = if value.is_true(&self.heap) { then } else { otherwise };
                let flow = self.nodes(chosen, dot)?;
                self.variables.truncate(scope);
                return Ok(flow);
            }
            Node::With { value, then, otherwise } => {
                let value = self.pipeline(value, dot)?;
                let flow = if value.is_true(&self.heap) {
                    self.nodes(then, &value)?
                } else {
                    self.nodes(otherwise, dot)?
                };
                self.variables.truncate(scope);
                return Ok(flow);
            }
            Node::Range { over, body, otherwise } => {
                let flow = self.range(over, body, otherwise, dot)?;
                self.variables.truncate(scope);
                return Ok(flow);
            }
            Node::Template { name, line, argument } => {
                self.line = *line;
                let argument = match argument {
                    Some(pipeline) => self.pipeline(pipeline, dot)?,
                    None => Value::Missing,
                };
                // The parser has refused names that nothing defines.
                let Some(nodes) = self.templates.get(name) else {
                    return Err(format!("template {name:?} is not defined"));
                };
                let outer = std::mem::replace(&mut self.variables, vec![(String::new(), argument.clone())]);
                self.nodes(nodes, &argument)?;
                self.variables = outer;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn range(
        &mut self,
        over: &Pipeline,
        body: &[Node],
        otherwise: &[Node],
        dot: &Value,
    ) -> Result<Flow, String> {
        let value = self.pipeline_value(over, dot)?;
        // `break` and `continue` in the else part are for the loop around this one.
        match value {
            Value::Missing | Value::Nil => return self.nodes(otherwise, dot),
            Value::Integer(count, integer) => {
                if over.variables.len() > 1 {
                    return Err("range over a number has one variable only".to_owned());
                }
                if count <= 0 {
                    return self.nodes(otherwise, dot);
                }
                for at in 0..count {
                    if self.round(over, body, None, Value::Integer(at, integer))? == Flow::Break {
                        break;
                    }
                }
            }
            Value::Whole(count) => {
                if over.variables.len() > 1 {
                    return Err("range over a number has one variable only".to_owned());
                }
                if count <= 0 {
                    return self.nodes(otherwise, dot);
                }
                for at in 0..count {
                    if self.round(over, body, None, Value::int(at))? == Flow::Break {
                        break;
                    }
                }
            }
            Value::List(List { items, .. }) => {
                if items.is_empty() {
                    return self.nodes(otherwise, dot);
                }
                for (at, item) in items.iter().enumerate() {
                    if self.round(over, body, Some(Value::count(at)), item.clone())? == Flow::Break {
                        break;
                    }
                }
            }
            Value::Map(id) => {
                let entries: Vec<(Value, Value)> = self
                    .heap
                    .map(id)
                    .entries
                    .iter()
                    .map(|(key, value)| (Value::String(key.clone()), value.clone()))
                    .collect();
                self.heap.spend(entries.len())?;
                if entries.is_empty() {
                    return self.nodes(otherwise, dot);
                }
                for (key, value) in entries {
                    if self.round(over, body, Some(key), value)? == Flow::Break {
                        break;
                    }
                }
            }
            other => return Err(format!("range cannot go over {}", other.go_type(&self.heap))),
        }
        Ok(Flow::Next)
    }

    /// One round of a loop. Variables that are declared are new in every round.
    fn round(
        &mut self,
        over: &Pipeline,
        body: &[Node],
        key: Option<Value>,
        item: Value,
    ) -> Result<Flow, String> {
        self.heap.spend(1)?;
        let scope = self.variables.len();
        let values = match (over.variables.as_slice(), key) {
            ([_, _], Some(key)) => vec![key, item.clone()],
            ([_], _) => vec![item.clone()],
            _ => Vec::new(),
        };
        for (name, value) in over.variables.iter().zip(values) {
            self.store(name, value, over.assigns)?;
        }
        let flow = self.nodes(body, &item)?;
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn write(&mut self, text: &str) -> Result<(), String> {
        if self.out.len() + text.len() > MAX_STRING {
            return Err(format!("the output is larger than {MAX_STRING} bytes"));
        }
        self.heap.spend(text.len() / 8)?;
        self.out.push_str(text);
        Ok(())
    }

    fn store(&mut self, name: &str, value: Value, assigns: bool) -> Result<(), String> {
        if !assigns {
            self.variables.push((name.to_owned(), value));
            return Ok(());
        }
        match self.variables.iter_mut().rev().find(|(known, _)| known == name) {
            Some((_, variable)) => {
                *variable = value;
                Ok(())
            }
            None => Err(format!("variable ${name} is not defined")),
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let value = self.pipeline_value(pipeline, dot)?;
        for name in &pipeline.variables {
            self.store(name, value.clone(), pipeline.assigns)?;
        }
        Ok(value)
    }

    fn pipeline_value(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let mut last = None;
        for command in &pipeline.commands {
            let value = self.command(command, dot, last)?;
            last = Some(if value.is_nil() { Value::Missing } else { value });
        }
        Ok(last.unwrap_or(Value::Missing))
    }

    fn command(&mut self, command: &Command, dot: &Value, last: Option<Value>) -> Result<Value, String> {
        self.heap.spend(1)?;
        self.line = command.line;
        let arguments = &command.arguments;
        match &command.first {
            Operand::Function(function) => self.call(function, command.line, arguments, dot, last),
            Operand::Path(start, fields) => {
                let start = self.start(start, dot)?;
                if let Some((name, fields)) = fields.split_last() {
                    let receiver = self.fields(start, fields)?;
                    return self.field(receiver, name, arguments, dot, last);
                }
                if !arguments.is_empty() || last.is_some() {
                    return Err("only a function takes arguments".to_owned());
                }
                Ok(start)
            }
            Operand::Nil => Err("nil is not a command".to_owned()),
            _ if !arguments.is_empty() || last.is_some() => Err("only a function takes arguments".to_owned()),
            constant => self.operand(constant, dot),
        }
    }

    fn call(
        &mut self,
        function: &Function,
        line: usize,
        operands: &[Operand],
        dot: &Value,
        last: Option<Value>,
    ) -> Result<Value, String> {
        // `and` and `or` look at their arguments only as far as they need to.
        let stop = match function.body {
            Body::And => false,
            Body::Or => true,
            Body::Plain(_) => {
                let mut arguments = Arguments::new(function);
                for operand in operands {
                    let value = self.operand(operand, dot)?;
                    arguments.push(value, operand);
                }
                if let Some(value) = last {
                    arguments.push_value(value);
                }
                self.line = line;
                return function.call(&mut self.heap, arguments);
            }
        };
        let mut value = Value::Missing;
        for operand in operands {
            value = self.operand(operand, dot)?;
            if value.is_true(&self.heap) == stop {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, String> {
        Ok(match operand {
            Operand::Bool(value) => Value::Bool(*value),
            Operand::Number(number) => match number.integer {
                Some(integer) if number.is_integer => Value::Integer(integer, Integer::Int),
                _ => Value::Float(number.float),
            },
            Operand::String(string) => Value::from(string.as_str()),
            Operand::Nil => Value::Nil,
            Operand::Function(function) => function.call(&mut self.heap, Arguments::new(function))?,
            Operand::Path(start, fields) => {
                let start = self.start(start, dot)?;
                self.fields(start, fields)?
            }
        })
    }

    fn start(&mut self, start: &Start, dot: &Value) -> Result<Value, String> {
        match start {
            Start::Dot => Ok(dot.clone()),
            Start::Variable(name) => match self.variables.iter().rev().find(|(known, _)| known == name) {
                Some((_, value)) => Ok(value.clone()),
                None => Err(format!("variable ${name} is not defined")),
            },
            // The parser bounds how deep parentheses are.
            Start::Group(pipeline) => self.pipeline(pipeline, dot),
            Start::Function(function) => function.call(&mut self.heap, Arguments::new(function)),
        }
    }

    fn fields(&mut self, start: Value, fields: &[String]) -> Result<Value, String> {
        fields.iter().try_fold(start, |value, name| self.field(value, name, &[], &Value::Missing, None))
    }

    fn field(
        &mut self,
        receiver: Value,
        name: &str,
        operands: &[Operand],
        dot: &Value,
        last: Option<Value>,
    ) -> Result<Value, String> {
        self.heap.spend(1)?;
        match &receiver {
            Value::Missing => match self.missing {
                MissingKey::NoValue => Ok(Value::Missing),
                MissingKey::Refuse => Err(format!("there is no key {name:?}")),
            },
            Value::Nil => Err(format!("null has no field {name:?}")),
            Value::Map(id) => {
                if !operands.is_empty() || last.is_some() {
                    return Err(format!(".{name} is not a function and takes no arguments"));
                }
                match (self.heap.map(*id).entries.get(name), self.missing) {
                    (Some(value), _) => Ok(value.clone()),
                    (None, MissingKey::NoValue) => Ok(Value::Missing),
                    (None, MissingKey::Refuse) => Err(format!("there is no key {name:?}")),
                }
            }
            Value::Version(_) | Value::Time(_) => {
                let mut arguments = Vec::with_capacity(operands.len() + 1);
                for operand in operands {
                    arguments.push(self.operand(operand, dot)?);
                }
                arguments.extend(last);
                methods::call(&self.heap, &receiver, name, &arguments)
            }
            other => Err(format!("a value of type {} has no field {name:?}", other.go_type(&self.heap))),
        }
    }
}
