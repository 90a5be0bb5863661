//! Follows a template and writes what it says.

use std::borrow::Cow;
use std::fmt;

use super::functions;
use super::{Choice, Command, Groups, MAX_MESSAGE, Node, Operand, Pipeline, Term};

/// A value while a template is followed.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    Boolean(bool),
    /// One byte of a text.
    Byte(u8),
    Groups(&'a Groups),
    /// What was never captured, and `nil`.
    Nothing,
}

impl Value<'_> {
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Text(text) => !text.is_empty(),
            Value::Integer(number) => *number != 0,
            Value::Byte(number) => *number != 0,
            Value::Boolean(truth) => *truth,
            Value::Groups(groups) => !groups.is_empty(),
            Value::Nothing => false,
        }
    }

    /// The name of the type this value has in Go.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Text(_) => "string",
            Value::Integer(_) => "int",
            Value::Byte(_) => "uint8",
            Value::Boolean(_) => "bool",
            Value::Groups(_) => "map[string]string",
            Value::Nothing => "<nil>",
        }
    }

    /// The value as printing writes it.
    pub(super) fn printed(&self) -> Cow<'_, str> {
        match self {
            Value::Text(text) => Cow::Borrowed(text),
            Value::Integer(number) => Cow::Owned(number.to_string()),
            Value::Byte(number) => Cow::Owned(number.to_string()),
            Value::Boolean(truth) => Cow::Borrowed(if *truth { "true" } else { "false" }),
            Value::Groups(groups) => {
                let pairs: Vec<_> = groups.iter().map(|(name, text)| format!("{name}:{text}")).collect();
                Cow::Owned(format!("map[{}]", pairs.join(" ")))
            }
            Value::Nothing => Cow::Borrowed("<nil>"),
        }
    }
}

/// Write what the nodes say to the output.
pub(super) fn write(
    nodes: &[Node],
    groups: &Groups,
    template: &str,
    output: &mut String,
) -> Result<(), String> {
    Evaluator { groups, template }.write(nodes, &Value::Groups(groups), output)
}

struct Evaluator<'a> {
    groups: &'a Groups,
    template: &'a str,
}

/// The problem, and where it is.
fn cannot<T>(
    evaluator: &Evaluator<'_>,
    at: usize,
    shown: &dyn fmt::Display,
    problem: &str,
) -> Result<T, String> {
    let before = &evaluator.template[..at];
    let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
    // In bytes and from zero, as Go counts columns (`ErrorContext`).
    let column = at - before.rfind('\n').map_or(0, |end| end + 1);
    Err(format!(r#"template: :{line}:{column}: executing "" at <{shown}>: {problem}"#))
}

impl<'a> Evaluator<'a> {
    fn write(&self, nodes: &'a [Node], dot: &Value<'a>, output: &mut String) -> Result<(), String> {
        for node in nodes {
            match node {
                Node::Text(text) => output.push_str(text),
                Node::Action(pipeline) => match self.pipeline(pipeline, dot)? {
                    // Only an action of its own prints this (`printableValue`); inside `print` it is `<nil>`.
                    Value::Nothing => output.push_str("<no value>"),
                    value => output.push_str(&value.printed()),
                },
                Node::Choice(choice) => self.choose(choice, dot, output)?,
            }
            // After every node, so that output never grows by more than one value past the limit.
            check_length(output)?;
        }
        Ok(())
    }

    fn choose(&self, choice: &'a Choice, dot: &Value<'a>, output: &mut String) -> Result<(), String> {
        let value = self.pipeline(&choice.condition, dot)?;
        if !value.is_true() {
            return self.write(&choice.otherwise, dot, output);
        }
        self.write(&choice.then, if choice.moves_dot { &value } else { dot }, output)
    }

    fn pipeline(&self, pipeline: &'a Pipeline, dot: &Value<'a>) -> Result<Value<'a>, String> {
        let mut last = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, dot, last)?);
        }
        Ok(last.unwrap_or(Value::Nothing))
    }

    fn command(
        &self,
        command: &'a Command,
        dot: &Value<'a>,
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>, String> {
        let Some((first, arguments)) = command.operands.split_first() else { return Ok(Value::Nothing) };
        if let (Term::Function(name), true) = (&first.term, first.fields.is_empty()) {
            return self.call(name, first, command, arguments, dot, last);
        }
        if !arguments.is_empty() || last.is_some() {
            return match first.fields.last() {
                // Only methods have arguments, and captured texts have none.
                Some(field) => {
                    let problem = format!("{field} is not a method but has arguments");
                    cannot(self, first.at, first, &problem)
                }
                None => {
                    cannot(self, first.at, first, &format!("can't give argument to non-function {first}"))
                }
            };
        }
        if matches!(first.term, Term::Nil) {
            return cannot(self, first.at, first, "nil is not a command");
        }
        self.operand(first, dot)
    }

    fn call(
        &self,
        name: &str,
        function: &Operand,
        command: &Command,
        arguments: &'a [Operand],
        dot: &Value<'a>,
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>, String> {
        let count = arguments.len() + usize::from(last.is_some());
        if let Err(problem) = functions::check_arity(name, count, arguments.len()) {
            return cannot(self, function.at, function, &problem);
        }
        let mut values = Vec::with_capacity(count);
        for argument in arguments {
            let value = self.operand(argument, dot)?;
            if name == "printf" && values.is_empty() {
                self.check_format(&value, argument)?;
            }
            // The rest is not even looked at once the answer is known.
            if (name == "or" && value.is_true()) || (name == "and" && !value.is_true()) {
                return Ok(value);
            }
            values.push(value);
        }
        // A value from the pipeline is the last argument, and the format only if nothing is written behind
        // `printf`.
        if let (Some(last), "printf", true) = (&last, name, values.is_empty()) {
            self.check_format(last, function)?;
        }
        values.extend(last);
        match functions::call(name, &values) {
            Ok(value) => {
                // Nested `printf`s could double a text each time and never write any of it.
                check_length(&value.printed())?;
                Ok(value)
            }
            Err(problem) => cannot(self, command.at, command, &format!("error calling {name}: {problem}")),
        }
    }

    /// What `printf` gets first must be text.
    fn check_format(&self, format: &Value<'_>, operand: &Operand) -> Result<(), String> {
        let problem = match (format, &operand.term) {
            (Value::Text(_), _) => return Ok(()),
            (_, Term::Integer(_) | Term::Boolean(_)) => format!("expected string; found {operand}"),
            (_, Term::Nil) => "cannot assign nil to string".to_owned(),
            (Value::Nothing, _) => "invalid value; expected string".to_owned(),
            (other, _) => format!("wrong type for value; expected string; got {}", other.type_name()),
        };
        cannot(self, operand.at, operand, &problem)
    }

    fn operand(&self, operand: &'a Operand, dot: &Value<'a>) -> Result<Value<'a>, String> {
        let mut value = match &operand.term {
            Term::Dot => dot.clone(),
            Term::Root => Value::Groups(self.groups),
            Term::Nil => Value::Nothing,
            Term::Text { text, .. } => Value::Text(Cow::Borrowed(text)),
            Term::Integer(number) => Value::Integer(*number),
            Term::Boolean(truth) => Value::Boolean(*truth),
            Term::Pipeline(pipeline) => self.pipeline(pipeline, dot)?,
            Term::Function(name) => self.bare_call(name, operand)?,
        };
        for field in &operand.fields {
            value = match value {
                Value::Groups(groups) => {
                    groups.get(field).map_or(Value::Nothing, |text| Value::Text(Cow::Borrowed(text)))
                }
                // A field of nothing is nothing again, with Go's default for `missingkey`, so that `{{ .A.B
                // }}` is no failure.
                Value::Nothing => Value::Nothing,
                other => {
                    let problem = format!("can't evaluate field {field} in type {}", other.type_name());
                    return cannot(self, operand.at, operand, &problem);
                }
            };
        }
        Ok(value)
    }

    /// A function that is an argument itself, and so has none.
    fn bare_call(&self, name: &str, function: &Operand) -> Result<Value<'a>, String> {
        if let Err(problem) = functions::check_arity(name, 0, 0) {
            return cannot(self, function.at, function, &problem);
        }
        match functions::call(name, &[]) {
            Ok(value) => Ok(value),
            Err(problem) => cannot(self, function.at, function, &format!("error calling {name}: {problem}")),
        }
    }
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > MAX_MESSAGE {
        return Err(format!("the message is longer than {MAX_MESSAGE} bytes"));
    }
    Ok(())
}
