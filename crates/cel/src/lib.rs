//! The Common Expression Language as a Kubernetes API server speaks it: one environment for the whole product.
//!
//! [`Environment::compile`] checks an expression and makes a [`Program`]; [`Program::evaluate`] gives it values.
//! Syntax, types, functions, messages and costs are those of Kubernetes 1.37, plus `cel.bind`, `math` and
//! `base64`. Knows nothing of where values come from.
//!
//! Follows k8s.io/apiserver 0.37.2, `pkg/cel/environment`; cel-go 0.29.2, `cel/env.go`.
//!
//! # Invariants
//! * Whatever the source and the values, evaluation ends: within the cost that it is given, and within fixed
//!   limits of memory and of work that is not counted as cost.
//! * No expression is nested more deeply than the parser allows, so nothing overflows the stack.
//! * JSON is borrowed: an expression pays only for what it reads.

mod ast;
mod checker;
mod cost;
mod declarations;
mod estimate;
mod evaluate;
mod fault;
pub mod formats;
mod json;
mod lexer;
mod library;
mod macros;
mod message;
mod meter;
mod object;
mod parser;
mod program;
pub mod quantity;
mod shape;
mod source;
mod time;
mod types;
mod value;

use std::sync::Arc;

use serde_json::Value as Json;

use ast::Expression;
use checker::{Checked, Refused, TypeFacts};
use evaluate::{LocalSlot, Machine};
use library::Regexes;
use meter::Meter;

pub use estimate::Extent;
pub use fault::EvaluateError;
pub use message::{Message, MessageField, MessageType};
pub use object::LibraryObject;
pub use shape::{ValueSchema, escape, unescape};
pub use source::{CompileError, Incomputable};
pub use time::Timestamp;
pub use types::{Struct, Type};
pub use value::{List, Map, MapKey, Numbers, Text, Value};

/// What names mean in expressions. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: Arc<Vec<(String, Type)>>,
    numbers: Numbers,
    allow_mixed: bool,
    weighs_patterns: bool,
}

impl Environment {
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a variable. It need not be given a value, but then it must not be checked.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, kind: Type) -> Self {
        Arc::make_mut(&mut self.variables).push((name.into(), kind));
        self
    }

    /// Says what JSON numbers become.
    #[must_use]
    pub fn numbers(mut self, numbers: Numbers) -> Self {
        self.numbers = numbers;
        self
    }

    /// Allows lists and maps that are written out to have elements of several types, which Kubernetes does not.
    #[must_use]
    pub fn mixed_literals(mut self) -> Self {
        self.allow_mixed = true;
        self
    }

    /// Counts what regular expressions cost by their weight ([`matching_cost`]), which Kubernetes does not: a limit then also bounds the
    /// time that matching takes.
    #[must_use]
    pub fn weighed_patterns(mut self) -> Self {
        self.weighs_patterns = true;
        self
    }

    /// Checks an expression, and prepares it for being evaluated many times.
    pub fn compile(&self, source: &str) -> Result<Program, CompileError> {
        self.check(&parse(source)?, source, None)
    }

    /// Compiles an expression, and estimates what it can cost at most if variables are as large as they can be.
    pub fn estimate(&self, source: &str, extent: &Extent) -> Result<(Program, u64), CompileError> {
        let parsed = parse(source)?;
        let mut notes = TypeFacts::default();
        let program = self.check(&parsed, source, Some(&mut notes))?;
        Ok((program, estimate::estimate(&parsed, &notes, extent)))
    }

    fn check(
        &self,
        parsed: &Expression,
        source: &str,
        notes: Option<&mut TypeFacts>,
    ) -> Result<Program, CompileError> {
        let checked = checker::check(parsed, &self.variables, self.allow_mixed, notes);
        let checked = checked.map_err(|refused| match refused {
            Refused::Mistakes(mistakes) => CompileError::new(source, mistakes),
            Refused::Constant(text, incomputable) => CompileError::of_constant(text, incomputable),
        })?;
        Ok(Program {
            checked: Arc::new(checked),
            names: self.variables.iter().map(|(name, _)| Box::from(name.as_str())).collect(),
            numbers: self.numbers,
            weighs_patterns: self.weighs_patterns,
        })
    }
}

fn parse(source: &str) -> Result<Expression, CompileError> {
    parser::parse(source).map_err(|mistakes| CompileError::new(source, mistakes))
}

/// A checked expression. Cheap to clone, and to share between threads.
#[derive(Debug, Clone)]
pub struct Program {
    checked: Arc<Checked>,
    /// Of the variables. Their types are not kept: that of an object has all its fields, and a schema can have many programs about it.
    names: Arc<[Box<str>]>,
    numbers: Numbers,
    weighs_patterns: bool,
}

/// What it costs to match a regular expression of this weight ([`ferroplane_golang::regexp::Expression::weight`]) against so many bytes.
pub fn matching_cost(weight: u64, length: usize) -> u64 {
    // At its worst, the engine comes to every state at every byte; so many of these steps take about as much time as one of an evaluation.
    weight.max(1).saturating_mul(length as u64) / 256 + 1
}

/// How much an evaluation may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub cost: u64,
}

impl Limits {
    /// What Kubernetes allows one expression.
    pub const PER_CALL: Self = Self { cost: 1_000_000 };
    /// What Kubernetes allows all expressions about one object.
    pub const PER_OBJECT: Self = Self { cost: 10_000_000 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::PER_CALL
    }
}

/// What came out, and what it cost.
#[derive(Debug, Clone)]
pub struct Evaluated<'v> {
    pub value: Value<'v>,
    pub cost: u64,
}

impl Program {
    /// The type of the value, if it is known.
    pub fn result_type(&self) -> &Type {
        &self.checked.kind
    }

    /// What compiling the constant patterns of the expression costs, which happens when it is first evaluated. The unit is that of
    /// [`ferroplane_golang::regexp::Expression::weight`].
    pub fn pattern_weight(&self) -> u64 {
        self.checked.pattern_weight
    }

    /// Whether the expression reads the variable. If not, it need not be given a value.
    pub fn uses(&self, name: &str) -> bool {
        self.checked.used.iter().any(|number| *self.names[*number] == *name)
    }

    /// Evaluates the expression with JSON under the names of variables.
    pub fn evaluate<'v>(
        &self,
        variables: &[(&str, &'v Json)],
        limits: Limits,
    ) -> Result<Evaluated<'v>, EvaluateError> {
        self.evaluate_with(variables.iter().map(|(name, json)| (*name, self.borrow(json))), limits).0
    }

    /// A value that borrows JSON, with numbers as the environment has them.
    pub fn borrow<'v>(&self, json: &'v Json) -> Value<'v> {
        Value::from_json(json, self.numbers)
    }

    /// Evaluates the expression with any values, and says what it cost even if it failed.
    pub fn evaluate_with<'n, 'v>(
        &self,
        variables: impl IntoIterator<Item = (&'n str, Value<'v>)>,
        limits: Limits,
    ) -> (Result<Evaluated<'v>, EvaluateError>, u64) {
        let mut values = vec![None; self.names.len()];
        for (name, value) in variables {
            if let Some(number) = self.names.iter().position(|variable| **variable == *name) {
                values[number] = Some(value);
            }
        }
        let mut machine = Machine {
            names: &self.names,
            variables: values,
            places: vec![LocalSlot::Empty; self.checked.places],
            meter: Meter::new(limits.cost).weighing_patterns(self.weighs_patterns),
            regexes: Regexes::default(),
        };
        // Whether an error could have been absorbed no longer matters at the top.
        let outcome = machine.evaluate(&self.checked.node).and_then(|outcome| outcome);
        let cost = machine.meter.cost();
        (outcome.map(|value| Evaluated { value, cost }).map_err(EvaluateError::from), cost)
    }
}
