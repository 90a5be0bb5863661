//! Calls: numbers and types of arguments are checked, then the function is called.
//!
//! Follows Go 1.26, `text/template/exec.go` (`evalCall` to `evalEmptyInterface`).

use std::sync::Arc;

use super::{Executed, Frame, Slot};
use crate::function::ValuesCallee;
use crate::node::{Number, Operand, Part, Term};
use crate::{Callee, ExecuteError, Failure, Function, Type, Value, print, sprig};

impl<'t> Frame<'_, 't> {
    /// Calls a function, or a method of an object. `part` is what a failure of the function is about.
    #[expect(clippy::too_many_arguments, reason = "they are all that there is to a call")]
    pub(super) fn call(
        &mut self,
        dot: &Slot,
        function: &'static Function,
        object: Option<Value>,
        part: Part<'t>,
        name: &'t str,
        arguments: Option<&'t [Operand]>,
        last: &mut Option<Slot>,
    ) -> Executed<Slot> {
        let operands = arguments.unwrap_or_default();
        let count = operands.len() + usize::from(last.is_some());
        self.check_count(function, name, operands.len(), count)?;
        if let Callee::And | Callee::Or = function.callee {
            return self.short_circuit(dot, matches!(function.callee, Callee::Or), operands, last);
        }
        let result = if let Callee::Values(callee) = function.callee {
            let mut values = self.ctx.spare_values.take();
            let gathered = self.gather_values(dot, function, object, operands, last, &mut values);
            self.ctx.call = Some(part);
            let result = gathered.map(|()| self.invoke_with_values(function, callee, &values));
            self.ctx.spare_values.keep(values);
            result?
        } else {
            let mut slots = self.ctx.spare_slots.take();
            let gathered = self.gather_slots(dot, function, object, operands, last, &mut slots);
            self.ctx.call = Some(part);
            let result = gathered.map(|()| self.invoke(function, operands, &slots));
            self.ctx.spare_slots.keep(slots);
            result?
        };
        result.map_err(|failure| self.call_failure(failure, part, name))
    }

    /// Evaluates all arguments in their order.
    fn gather_values(
        &mut self,
        dot: &Slot,
        function: &Function,
        object: Option<Value>,
        operands: &'t [Operand],
        last: &mut Option<Slot>,
        values: &mut Vec<Value>,
    ) -> Executed<()> {
        values.extend(object);
        for (at, operand) in operands.iter().enumerate() {
            self.push_value(dot, parameter(function, at), operand, values)?;
        }
        if let Some(last) = last.take() {
            values.push(self.validated(last, parameter(function, operands.len()))?.into_value());
        }
        Ok(())
    }

    /// The same, for functions that want to know how values were come by.
    fn gather_slots(
        &mut self,
        dot: &Slot,
        function: &Function,
        object: Option<Value>,
        operands: &'t [Operand],
        last: &mut Option<Slot>,
        slots: &mut Vec<Slot>,
    ) -> Executed<()> {
        slots.extend(object.map(Slot::Plain));
        for (at, operand) in operands.iter().enumerate() {
            slots.push(self.argument(dot, parameter(function, at), operand)?);
        }
        if let Some(last) = last.take() {
            slots.push(self.validated(last, parameter(function, operands.len()))?);
        }
        Ok(())
    }

    /// Evaluates an argument. Texts and variables, the most frequent ones, go straight to where they belong: what is copied as soon
    /// as it is written makes the processor wait.
    fn push_value(
        &mut self,
        dot: &Slot,
        parameter: &Type,
        operand: &'t Operand,
        values: &mut Vec<Value>,
    ) -> Executed<()> {
        match &operand.term {
            Term::String { text, .. } if matches!(parameter, Type::String | Type::Any) => {
                self.at(Part::Operand(operand));
                values.push(Value::String(text.clone()));
            }
            Term::Variable { name, fields } if fields.is_empty() => {
                self.at(Part::Operand(operand));
                let at = self.find(name)?;
                match &self.variables[at].1 {
                    Slot::Plain(value) | Slot::Boxed(value) if fits(value, parameter) => {
                        values.push(value.clone());
                    }
                    other => {
                        let slot = other.clone();
                        values.push(self.validated(slot, parameter)?.into_value());
                    }
                }
            }
            _ => values.push(self.argument(dot, parameter, operand)?.into_value()),
        }
        Ok(())
    }

    fn check_count(&self, function: &Function, name: &str, written: usize, count: usize) -> Executed<()> {
        let wanted = function.parameters.len();
        if function.rest.is_none() && count != wanted {
            return Err(self.error(format!("wrong number of args for {name}: want {wanted} got {count}")));
        }
        if count < wanted {
            // Go leaves out here what a pipeline adds.
            let problem = format!("wrong number of args for {name}: want at least {wanted} got {written}");
            return Err(self.error(problem));
        }
        Ok(())
    }

    fn short_circuit(
        &mut self,
        dot: &Slot,
        is_or: bool,
        operands: &'t [Operand],
        last: &mut Option<Slot>,
    ) -> Executed<Slot> {
        let mut value = Slot::Invalid;
        for operand in operands {
            value = self.argument(dot, &Type::Reflect, operand)?;
            if value.is_true() == is_or {
                return Ok(value);
            }
        }
        // The piped value comes last, so that nothing depends on whether it is true.
        Ok(last.take().unwrap_or(value))
    }

    fn invoke(&mut self, function: &Function, operands: &[Operand], slots: &[Slot]) -> Result<Slot, Failure> {
        match function.callee {
            Callee::Slots(call) => call(self.ctx, slots),
            Callee::Call => Err(cannot_call(operands, slots)),
            Callee::And | Callee::Or | Callee::Values(_) => Ok(Slot::Invalid),
        }
    }

    fn invoke_with_values(
        &mut self,
        function: &Function,
        call: ValuesCallee,
        values: &[Value],
    ) -> Result<Slot, Failure> {
        // Most functions look at every byte of their texts, also those whose result is short: `contains` or `initials`.
        self.ctx.step(values.iter().map(length).sum::<u64>() / 256)?;
        let result = call(self.ctx, values)?;
        self.charge(&result, values)?;
        Ok(if matches!(function.result, Type::Any) { Slot::Boxed(result) } else { Slot::Plain(result) })
    }

    /// Counts a result, unless it is one of the arguments.
    fn charge(&mut self, result: &Value, arguments: &[Value]) -> Result<(), Failure> {
        let is_same = |argument: &Value| match (argument, result) {
            // Compared by place, because a function that returns its argument made nothing.
            (Value::String(one), Value::String(other)) => one.as_ptr() == other.as_ptr(),
            (Value::List(one), Value::List(other)) => std::rc::Rc::ptr_eq(one, other),
            (Value::Map(one), Value::Map(other)) => std::rc::Rc::ptr_eq(one, other),
            _ => false,
        };
        if !arguments.iter().any(is_same) {
            self.ctx.charge(print::size(result))?;
        }
        Ok(())
    }

    #[cold]
    fn call_failure(&mut self, failure: Failure, part: Part<'t>, name: &str) -> ExecuteError {
        self.at(part);
        match failure {
            Failure::Exhausted(limit) => self.exhausted(limit),
            Failure::Message(message) => self.error(format!("error calling {name}: {message}")),
        }
    }

    /// An argument for a parameter of this type.
    fn argument(&mut self, dot: &Slot, parameter: &Type, operand: &'t Operand) -> Executed<Slot> {
        self.at(Part::Operand(operand));
        match &operand.term {
            Term::Dot => self.validated(dot.clone(), parameter),
            Term::Nil if matches!(parameter, Type::Reflect) => Ok(Slot::Invalid),
            Term::Nil if parameter.can_be_nil() => Ok(Slot::Plain(print::zero(*parameter))),
            Term::Nil => Err(self.error(format!("cannot assign nil to {parameter}"))),
            Term::Field(_)
            | Term::Variable { .. }
            | Term::Pipe(_)
            | Term::Function { .. }
            | Term::Chain { .. } => {
                let value = self.operand(dot, operand)?;
                self.validated(value, parameter)
            }
            Term::Bool(truth) => self.bool_argument(*parameter, operand, *truth),
            Term::Number(number) => self.number_argument(*parameter, operand, number),
            Term::String { text, .. } => match parameter {
                Type::String | Type::Any | Type::Reflect => Ok(Slot::Plain(Value::String(text.clone()))),
                _ => Err(self.unfit(*parameter, operand)),
            },
        }
    }

    fn bool_argument(&mut self, parameter: Type, operand: &'t Operand, truth: bool) -> Executed<Slot> {
        match parameter {
            Type::Bool | Type::Any | Type::Reflect => Ok(Slot::Plain(Value::Bool(truth))),
            _ => Err(self.unfit(parameter, operand)),
        }
    }

    fn number_argument(&mut self, parameter: Type, operand: &'t Operand, number: &Number) -> Executed<Slot> {
        let value = match parameter {
            Type::Any | Type::Reflect => return self.ideal(operand, number),
            Type::Int => number.integer.map(Value::Int),
            Type::Int64 => number.integer.map(Value::Int64),
            #[expect(clippy::cast_possible_truncation, reason = "Go cuts it off, too")]
            Type::Uint8 => number.unsigned.map(|whole| Value::Uint8(whole as u8)),
            #[expect(clippy::cast_possible_truncation, reason = "Go cuts it off, too")]
            Type::Uint32 => number.unsigned.map(|whole| Value::Uint64(u64::from(whole as u32))),
            Type::Uint64 => number.unsigned.map(Value::Uint64),
            Type::Integer(name) => number.integer.and_then(|whole| sprig::named_integer(name, whole)),
            Type::Float64 => number.float.map(Value::Float),
            Type::Complex128 => number.complex.map(|parts| Value::Complex(Box::new(parts))),
            _ => None,
        };
        value.map(Slot::Plain).ok_or_else(|| self.unfit(parameter, operand))
    }

    /// A constant is of no use for a parameter of this type.
    fn unfit(&self, parameter: Type, operand: &Operand) -> ExecuteError {
        let expected = match parameter {
            Type::Bool => "bool",
            Type::String => "string",
            Type::Int | Type::Int64 | Type::Integer(_) => "integer",
            Type::Uint8 | Type::Uint32 | Type::Uint64 => "unsigned integer",
            Type::Float64 => "float",
            Type::Complex128 => "complex",
            _ => return self.error(format!("can't handle {operand} for arg of type {parameter}")),
        };
        self.error(format!("expected {expected}; found {operand}"))
    }

    /// A value for a parameter of this type, if it is one.
    fn validated(&self, slot: Slot, parameter: &Type) -> Executed<Slot> {
        match (&slot, parameter) {
            (_, Type::Reflect) | (Slot::Plain(_) | Slot::Boxed(_), Type::Any) => Ok(slot),
            (Slot::Plain(value), _) if fits(value, parameter) => Ok(slot),
            _ => self.converted(slot, *parameter),
        }
    }

    /// A value that is not of the type as it is: it may be inside an interface, or none.
    fn converted(&self, slot: Slot, parameter: Type) -> Executed<Slot> {
        let (kind, slot) = match slot {
            Slot::Invalid if parameter.can_be_nil() => return Ok(Slot::Plain(print::zero(parameter))),
            Slot::Invalid => return Err(self.error(format!("invalid value; expected {parameter}"))),
            Slot::Boxed(Value::Nil) => (Type::Any, Slot::Boxed(Value::Nil)),
            Slot::Boxed(value) | Slot::Plain(value) => (value.type_of(), Slot::Plain(value)),
        };
        if kind == parameter {
            return Ok(slot);
        }
        Err(self.error(format!("wrong type for value; expected {parameter}; got {kind}")))
    }
}

/// How many bytes of text an argument has.
fn length(value: &Value) -> u64 {
    if let Value::String(text) | Value::Bytes(text) = value { text.len() as u64 } else { 0 }
}

/// The type of the parameter at this place.
fn parameter(function: &Function, at: usize) -> &Type {
    function.parameters.get(at).or(function.rest.as_ref()).unwrap_or(&Type::Any)
}

/// Whether a value certainly is of the type of a parameter: asked first, because it is cheap to ask.
fn fits(value: &Value, parameter: &Type) -> bool {
    matches!(
        (value, parameter),
        (_, Type::Any) | (Value::String(_), Type::String) | (Value::Int(_), Type::Int)
    )
}

/// Data has no functions, so that `call` always fails.
fn cannot_call(operands: &[Operand], slots: &[Slot]) -> Failure {
    let Some(callee) = slots.first().cloned() else { return Failure::new("call of nil") };
    let name = match (operands.first(), &callee) {
        (Some(operand), _) => operand.to_string(),
        (None, Slot::Plain(Value::String(text))) => text.to_str().into_owned(),
        (None, Slot::Plain(value)) => format!("<{} Value>", value.type_of()),
        (None, _) => "<invalid Value>".to_owned(),
    };
    match callee.unboxed() {
        Slot::Plain(value) => Failure::new(format!("non-function {name} of type {}", value.type_of())),
        _ => Failure::new("call of nil"),
    }
}

const _: () = {
    // Parsed templates are shared between threads.
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Arc<crate::Templates>>();
};
