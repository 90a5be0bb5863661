//! Pipelines, commands, variables and fields.
//!
//! Follows Go 1.26, `text/template/exec.go` (`evalPipeline` to `evalField`).

use ferroplane_golang::strconv::quote;

use super::walk::element;
use super::{CALL, Executed, Frame, Slot};
use crate::node::{Command, Number, Operand, Part, Pipe, Term};
use crate::{ExecuteError, MissingKey, Type, Value};

impl<'t> Frame<'_, 't> {
    pub(super) fn pipeline(&mut self, dot: &Slot, pipe: &'t Pipe) -> Executed<Slot> {
        self.at(Part::Pipe(pipe));
        // Each command takes what the one before it left here: values are too large to be handed from call to call.
        let mut last = None;
        for command in &pipe.commands {
            let value = self.command(dot, command, &mut last)?;
            // Go takes one interface away between commands (`evalPipeline`), so that a stored nil is piped on
            // as no value.
            last = Some(value.unboxed());
        }
        let value = last.unwrap_or(Slot::Invalid);
        for name in &pipe.variables {
            if pipe.is_assignment {
                self.assign(name, value.clone())?;
            } else {
                self.variables.push((name, value.clone()));
            }
        }
        Ok(value)
    }

    fn parenthesized(&mut self, dot: &Slot, pipe: &'t Pipe) -> Executed<Slot> {
        self.enter(CALL)?;
        let value = self.pipeline(dot, pipe);
        self.leave(CALL);
        value
    }

    pub(super) fn assign(&mut self, name: &str, value: Slot) -> Executed<()> {
        let at = self.find(name)?;
        self.variables[at].1 = value;
        Ok(())
    }

    fn variable(&mut self, name: &str) -> Executed<Slot> {
        let at = self.find(name)?;
        Ok(self.variables[at].1.clone())
    }

    /// The place of the variable that was declared last under this name.
    pub(super) fn find(&mut self, name: &str) -> Executed<usize> {
        let Some(at) = self.variables.iter().rposition(|(known, _)| *known == name) else {
            return Err(self.error(format!("undefined variable: {name}")));
        };
        // Few variables are free; a search through many is work.
        let searched = (self.variables.len() - at) as u64 / 16;
        self.ctx.step(searched).map_err(|limit| self.exhausted(limit))?;
        Ok(at)
    }

    /// `last` is what the command before gave. Only functions and methods take it.
    fn command(&mut self, dot: &Slot, command: &'t Command, last: &mut Option<Slot>) -> Executed<Slot> {
        self.step()?;
        let Some((first, arguments)) = command.operands.split_first() else { return Ok(Slot::Invalid) };
        match &first.term {
            Term::Field(fields) => {
                self.at(Part::Operand(first));
                self.fields(dot, dot, first, fields, Some(arguments), last)
            }
            Term::Chain { of, fields } => {
                self.at(Part::Operand(first));
                let receiver = self.operand(dot, of)?;
                self.fields(dot, &receiver, first, fields, Some(arguments), last)
            }
            Term::Variable { name, fields } => {
                self.at(Part::Operand(first));
                let value = self.variable(name)?;
                if fields.is_empty() {
                    self.check_no_arguments(first, arguments, last.as_ref())?;
                    return Ok(value);
                }
                self.fields(dot, &value, first, fields, Some(arguments), last)
            }
            Term::Function { function, .. } => {
                self.at(Part::Operand(first));
                self.call(dot, function, None, Part::Command(command), function.name, Some(arguments), last)
            }
            Term::Pipe(pipe) => {
                self.check_no_arguments(first, arguments, last.as_ref())?;
                self.parenthesized(dot, pipe)
            }
            _ => {
                self.at(Part::Operand(first));
                self.check_no_arguments(first, arguments, last.as_ref())?;
                self.constant(dot, first)
            }
        }
    }

    fn check_no_arguments(
        &self,
        first: &Operand,
        arguments: &[Operand],
        last: Option<&Slot>,
    ) -> Executed<()> {
        if arguments.is_empty() && last.is_none() {
            return Ok(());
        }
        Err(self.error(format!("can't give argument to non-function {first}")))
    }

    fn constant(&mut self, dot: &Slot, operand: &'t Operand) -> Executed<Slot> {
        Ok(match &operand.term {
            Term::Bool(truth) => Slot::Plain(Value::Bool(*truth)),
            Term::Dot => dot.clone(),
            Term::Number(number) => self.ideal(operand, number)?,
            Term::String { text, .. } => Slot::Plain(Value::String(text.clone())),
            // The others are no constants, and never come here.
            _ => return Err(self.error("nil is not a command")),
        })
    }

    /// A number with the type that it has where no type is asked for.
    pub(super) fn ideal(&mut self, operand: &'t Operand, number: &Number) -> Executed<Slot> {
        self.at(Part::Operand(operand));
        let text = number.text.as_str();
        let is_character = text.starts_with('\'');
        let is_hexadecimal = text.len() > 2
            && (text.starts_with("0x") || text.starts_with("0X"))
            && !text.contains(['p', 'P']);
        if let Some(parts) = number.complex {
            return Ok(Slot::Plain(Value::Complex(Box::new(parts))));
        }
        if let Some(float) = number.float
            && !is_hexadecimal
            && !is_character
            // The spelling decides, not the worth: `1.0` is a float though it is whole.
            && text.contains(['.', 'e', 'E', 'p', 'P'])
        {
            return Ok(Slot::Plain(Value::Float(float)));
        }
        match number.integer {
            Some(integer) => Ok(Slot::Plain(Value::Int(integer))),
            None if number.unsigned.is_some() => Err(self.error(format!("{text} overflows int"))),
            None => Ok(Slot::Invalid),
        }
    }

    /// An operand by itself, of any type: a variable, a function, a pipeline or fields.
    pub(super) fn operand(&mut self, dot: &Slot, operand: &'t Operand) -> Executed<Slot> {
        self.at(Part::Operand(operand));
        match &operand.term {
            Term::Field(fields) => self.fields(dot, dot, operand, fields, Some(&[]), &mut None),
            Term::Chain { of, fields } => {
                let receiver = self.operand(dot, of)?;
                self.fields(dot, &receiver, operand, fields, None, &mut None)
            }
            Term::Variable { name, fields } => {
                let value = self.variable(name)?;
                if fields.is_empty() {
                    return Ok(value);
                }
                self.fields(dot, &value, operand, fields, None, &mut None)
            }
            Term::Function { function, .. } => {
                self.call(dot, function, None, Part::Operand(operand), function.name, None, &mut None)
            }
            Term::Pipe(pipe) => self.parenthesized(dot, pipe),
            _ => self.constant(dot, operand),
        }
    }

    /// Follows fields. Only the last one can be a method with arguments.
    fn fields(
        &mut self,
        dot: &Slot,
        receiver: &Slot,
        operand: &'t Operand,
        fields: &'t [String],
        arguments: Option<&'t [Operand]>,
        last: &mut Option<Slot>,
    ) -> Executed<Slot> {
        let Some((final_field, before)) = fields.split_last() else { return Ok(receiver.clone()) };
        let Some((first, others)) = before.split_first() else {
            return self.field(dot, receiver, operand, final_field, arguments, last);
        };
        let mut reached = self.field(dot, receiver, operand, first, None, &mut None)?;
        for field in others {
            reached = self.field(dot, &reached, operand, field, None, &mut None)?;
        }
        self.field(dot, &reached, operand, final_field, arguments, last)
    }

    fn field(
        &mut self,
        dot: &Slot,
        receiver: &Slot,
        operand: &'t Operand,
        name: &'t str,
        arguments: Option<&'t [Operand]>,
        last: &mut Option<Slot>,
    ) -> Executed<Slot> {
        let value = match receiver {
            Slot::Invalid if self.ctx.templates.missing_key == MissingKey::Error => {
                return Err(self.error(format!("nil data; no entry for key {}", quote(name))));
            }
            // A field of nothing is nothing, so that `.a.b.c` prints `<no value>` instead of failing.
            Slot::Invalid => return Ok(Slot::Invalid),
            Slot::Boxed(Value::Nil) => {
                return Err(self.error(format!("nil pointer evaluating interface {{}}.{name}")));
            }
            Slot::Boxed(value) | Slot::Plain(value) => value,
        };
        let has_arguments = last.is_some() || arguments.is_some_and(|arguments| !arguments.is_empty());
        match value {
            Value::Map(_) | Value::AnyMap(_) if has_arguments => {
                Err(self.error(format!("{name} is not a method but has arguments")))
            }
            Value::AnyMap(map) => match map.get(&Value::text(name)) {
                Some(item) => Ok(Slot::Boxed(item.clone())),
                None => self.missing(name, Type::Any),
            },
            Value::Map(map) => match map.get(name.as_bytes()) {
                Some(item) => Ok(element(item, map.element())),
                None => self.missing(name, *map.element()),
            },
            Value::Object(object) => {
                if let Some(method) = object.method(name) {
                    let part = Part::Operand(operand);
                    return self.call(dot, method, Some(value.clone()), part, name, arguments, last);
                }
                match object.field(name) {
                    Some(_) if has_arguments => {
                        Err(self.error(format!("{name} has arguments but cannot be invoked as function")))
                    }
                    Some(field) => Ok(Slot::Plain(field)),
                    None => Err(self.no_field(receiver, name)),
                }
            }
            _ => Err(self.no_field(receiver, name)),
        }
    }

    #[cold]
    fn no_field(&self, receiver: &Slot, name: &str) -> ExecuteError {
        // Go names the type of the interface, not that of what is in it.
        let kind = if let Slot::Plain(value) = receiver { value.type_of() } else { Type::Any };
        self.error(format!("can't evaluate field {name} in type {kind}"))
    }

    fn missing(&self, name: &str, element: Type) -> Executed<Slot> {
        match self.ctx.templates.missing_key {
            MissingKey::Invalid => Ok(Slot::Invalid),
            MissingKey::Error => Err(self.error(format!("map has no entry for key {}", quote(name)))),
            MissingKey::Zero => Ok(match element {
                Type::Any => Slot::Boxed(Value::Nil),
                Type::String => Slot::Plain(Value::text("")),
                Type::List(_) | Type::Map(_) => Slot::Plain(crate::print::zero(element)),
                _ => Slot::Invalid,
            }),
        }
    }
}
