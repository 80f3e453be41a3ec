//! Evaluation.

use serde_json::Value;

use super::functions::{call, is_true};
use super::parse::{Command, Node, Operand, Pipeline, Start};
use super::print::{kind, text};
use super::{MAX_OUTPUT, MissingKey, TemplateError, evaluation};

pub(super) fn render(nodes: &[Node], data: &Value, missing: MissingKey) -> Result<String, TemplateError> {
    let mut run = Run { out: String::new(), variables: vec![(String::new(), data.clone())], missing };
    run.nodes(nodes, data)?;
    Ok(run.out)
}

struct Run {
    out: String,
    /// The last of a name counts. `$` is the first, with an empty name.
    variables: Vec<(String, Value)>,
    missing: MissingKey,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

impl Run {
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<Flow, TemplateError> {
        let scope = self.variables.len();
        let mut flow = Flow::Next;
        for node in nodes {
            flow = self.node(node, dot)?;
            if flow != Flow::Next {
                break;
            }
        }
        self.variables.truncate(scope);
        Ok(flow)
    }

    fn node(&mut self, node: &Node, dot: &Value) -> Result<Flow, TemplateError> {
        match node {
            Node::Text(text) => self.write(text)?,
            Node::Print(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.target.is_none() {
                    let shown = if value.is_null() { "<no value>".to_owned() } else { text(&value) };
                    self.write(&shown)?;
                }
            }
            Node::If { condition, then, otherwise } => {
                let scope = self.variables.len();
                let value = self.pipeline(condition, dot)?;
                let flow = self.nodes(if is_true(&value) { then } else { otherwise }, dot)?;
                self.variables.truncate(scope);
                return Ok(flow);
            }
            Node::With { value, then, otherwise } => {
                let scope = self.variables.len();
                let value = self.pipeline(value, dot)?;
                let flow =
                    if is_true(&value) { self.nodes(then, &value)? } else { self.nodes(otherwise, dot)? };
                self.variables.truncate(scope);
                return Ok(flow);
            }
            Node::Range { over, key, element, body, otherwise } => {
                let scope = self.variables.len();
                let over = self.pipeline(over, dot)?;
                let items: Vec<(Value, Value)> = match over {
                    Value::Array(items) => {
                        items.into_iter().enumerate().map(|(at, item)| (Value::from(at), item)).collect()
                    }
                    Value::Object(map) => {
                        map.into_iter().map(|(key, item)| (Value::String(key), item)).collect()
                    }
                    Value::Null => Vec::new(),
                    Value::Number(count) => {
                        let count = count.as_u64().unwrap_or_default().min(MAX_OUTPUT as u64);
                        (0..count).map(|at| (Value::from(at), Value::from(at))).collect()
                    }
                    other => return evaluation(format!("range cannot go over {}", kind(&other))),
                };
                if items.is_empty() {
                    self.nodes(otherwise, dot)?;
                }
                for (at, item) in items {
                    self.variables.truncate(scope);
                    if let Some(name) = key {
                        self.variables.push((name.clone(), at));
                    }
                    if let Some(name) = element {
                        self.variables.push((name.clone(), item.clone()));
                    }
                    if self.nodes(body, &item)? == Flow::Break {
                        break;
                    }
                }
                self.variables.truncate(scope);
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn write(&mut self, text: &str) -> Result<(), TemplateError> {
        if self.out.len() + text.len() > MAX_OUTPUT {
            return evaluation(format!("the output is larger than {MAX_OUTPUT} bytes"));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, TemplateError> {
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.command(command, dot, value)?);
        }
        let value = value.unwrap_or(Value::Null);
        match &pipeline.target {
            Some((name, true)) => self.variables.push((name.clone(), value.clone())),
            Some((name, false)) => match self.variables.iter_mut().rev().find(|(known, _)| known == name) {
                Some((_, variable)) => *variable = value.clone(),
                None => return evaluation(format!("variable ${name} is not defined")),
            },
            None => {}
        }
        Ok(value)
    }

    fn command(
        &mut self,
        Command(operands): &Command,
        dot: &Value,
        last: Option<Value>,
    ) -> Result<Value, TemplateError> {
        let Some((first, rest)) = operands.split_first() else {
            return evaluation("a value is missing");
        };
        let Operand::Function(name) = first else {
            if !rest.is_empty() || last.is_some() {
                return evaluation("only a function can have arguments");
            }
            return self.operand(first, dot);
        };
        // These two look at their arguments only as far as they need to.
        if name == "and" || name == "or" {
            let mut value = Value::Null;
            for operand in rest {
                value = self.operand(operand, dot)?;
                if is_true(&value) == (name == "or") {
                    return Ok(value);
                }
            }
            return Ok(last.unwrap_or(value));
        }
        let mut arguments = Vec::with_capacity(rest.len() + 1);
        for operand in rest {
            arguments.push(self.operand(operand, dot)?);
        }
        arguments.extend(last);
        call(name, arguments)
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, TemplateError> {
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Function(name) => call(name, Vec::new()),
            Operand::Path(start, fields) => {
                let start = match start {
                    Start::Dot => dot.clone(),
                    Start::Variable(name) => {
                        let found = self.variables.iter().rev().find(|(known, _)| known == name);
                        match found {
                            Some((_, value)) => value.clone(),
                            None => return evaluation(format!("variable ${name} is not defined")),
                        }
                    }
                    Start::Group(pipeline) => self.pipeline(pipeline, dot)?,
                };
                self.fields(start, fields)
            }
        }
    }

    fn fields(&self, start: Value, fields: &[String]) -> Result<Value, TemplateError> {
        let mut value = start;
        for field in fields {
            value = match value {
                Value::Object(mut map) => match (map.remove(field), self.missing) {
                    (Some(value), _) => value,
                    (None, MissingKey::NoValue) => Value::Null,
                    (None, MissingKey::Refuse) => return evaluation(format!("there is no key {field:?}")),
                },
                other => return evaluation(format!("{} has no field {field:?}", kind(&other))),
            };
        }
        Ok(value)
    }
}
