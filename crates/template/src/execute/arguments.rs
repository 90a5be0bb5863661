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
        last: Option<Slot>,
    ) -> Executed<Slot> {
        let operands = arguments.unwrap_or_default();
        let count = operands.len() + usize::from(last.is_some());
        self.check_count(function, name, operands.len(), count)?;
        if let Callee::And | Callee::Or = function.callee {
            return self.short_circuit(dot, matches!(function.callee, Callee::Or), operands, last);
        }
        let result = if let Callee::Values(callee) = function.callee {
            let mut values = self.ctx.take_spare_arguments();
            let take = |slot: Slot| values.push(slot.into_value());
            let gathered = self.gather(dot, function, object, operands, last, take);
            let result = gathered.map(|()| self.invoke_with_values(function, callee, &values));
            self.ctx.keep_spare_arguments(values);
            result?
        } else {
            let mut slots = Vec::with_capacity(count + 1);
            self.gather(dot, function, object, operands, last, |slot| slots.push(slot))?;
            self.invoke(function, operands, &slots)
        };
        result.map_err(|failure| self.call_failure(failure, part, name))
    }

    /// Evaluates all arguments in their order, and hands them over as they come.
    fn gather(
        &mut self,
        dot: &Slot,
        function: &Function,
        object: Option<Value>,
        operands: &'t [Operand],
        last: Option<Slot>,
        mut take: impl FnMut(Slot),
    ) -> Executed<()> {
        object.map(Slot::Plain).into_iter().for_each(&mut take);
        for (at, operand) in operands.iter().enumerate() {
            take(self.argument(dot, parameter(function, at), operand)?);
        }
        if let Some(last) = last {
            take(self.validated(last, Some(parameter(function, operands.len())))?);
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
        last: Option<Slot>,
    ) -> Executed<Slot> {
        let mut value = Slot::Invalid;
        for operand in operands {
            value = self.argument(dot, Type::Reflect, operand)?;
            if value.is_true() == is_or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
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
        let result = call(self.ctx, values)?;
        self.charge(&result, values)?;
        Ok(if function.result == Type::Any { Slot::Boxed(result) } else { Slot::Plain(result) })
    }

    /// Counts a result, unless it is one of the arguments.
    fn charge(&mut self, result: &Value, arguments: &[Value]) -> Result<(), Failure> {
        let is_same = |argument: &Value| match (argument, result) {
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
    fn argument(&mut self, dot: &Slot, parameter: Type, operand: &'t Operand) -> Executed<Slot> {
        self.at(Part::Operand(operand));
        match &operand.term {
            Term::Dot => self.validated(dot.clone(), Some(parameter)),
            Term::Nil if parameter == Type::Reflect => Ok(Slot::Invalid),
            Term::Nil if parameter.can_be_nil() => Ok(Slot::Plain(print::zero(parameter))),
            Term::Nil => Err(self.error(format!("cannot assign nil to {parameter}"))),
            Term::Field(_)
            | Term::Variable { .. }
            | Term::Pipe(_)
            | Term::Function(_)
            | Term::Chain { .. } => {
                let value = self.operand(dot, operand)?;
                self.validated(value, Some(parameter))
            }
            Term::Bool(truth) => self.bool_argument(parameter, operand, *truth),
            Term::Number(number) => self.number_argument(parameter, operand, number),
            Term::String { text, .. } => match parameter {
                Type::String | Type::Any | Type::Reflect => Ok(Slot::Plain(Value::String(text.clone()))),
                _ => Err(self.unfit(parameter, operand)),
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
    fn validated(&self, slot: Slot, parameter: Option<Type>) -> Executed<Slot> {
        let Some(parameter) = parameter else { return Ok(slot) };
        let (kind, slot) = match slot {
            slot if parameter == Type::Reflect => return Ok(slot),
            Slot::Invalid if parameter.can_be_nil() => return Ok(Slot::Plain(print::zero(parameter))),
            Slot::Invalid => return Err(self.error(format!("invalid value; expected {parameter}"))),
            slot if parameter == Type::Any => return Ok(slot),
            Slot::Boxed(Value::Nil) => (Type::Any, Slot::Boxed(Value::Nil)),
            Slot::Boxed(value) | Slot::Plain(value) => (value.type_of(), Slot::Plain(value)),
        };
        if kind == parameter {
            return Ok(slot);
        }
        Err(self.error(format!("wrong type for value; expected {parameter}; got {kind}")))
    }
}

/// The type of the parameter at this place.
fn parameter(function: &Function, at: usize) -> Type {
    function.parameters.get(at).copied().or(function.rest).unwrap_or(Type::Any)
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
