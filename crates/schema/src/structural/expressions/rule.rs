//! One rule, and what is wrong with it.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/cel/compilation.go`.

use ferroplane_cel::{CompileError, Environment, Extent, Program, Type};

use crate::structural::compile_budget::{CompileBudget, TOO_COMPLEX, TOO_MANY_FIELDS};
use crate::structural::field_path;
use crate::structural::props::{Props, ValidationRule};

/// A rule that was checked.
#[derive(Debug, Clone)]
pub(in crate::structural) struct Compiled {
    pub(in crate::structural) rule: ValidationRule,
    /// What to evaluate, or why not. Nothing if the rule is empty.
    pub(in crate::structural) program: Option<Result<Program, String>>,
    pub(in crate::structural) message: Option<Result<Program, String>>,
    pub(in crate::structural) uses_old_self: bool,
    /// What evaluating the rule once costs at most, if that was asked for.
    pub(in crate::structural) cost: u64,
    pub(in crate::structural) message_cost: u64,
    /// Where an error belongs, below the value.
    pub(super) field_path: String,
    /// Why it is not evaluated, and no value follows it: it is too much beside the rules before it.
    pub(super) withheld: Option<&'static str>,
}

impl Compiled {
    /// What compiling its patterns costs, which happens when it is first evaluated.
    pub(in crate::structural) fn pattern_weight(&self) -> u64 {
        let programs = [&self.program, &self.message].into_iter().flatten().flatten();
        programs.map(Program::pattern_weight).fold(0, u64::saturating_add)
    }

    /// Withholds the rule if there is no room for its patterns.
    pub(super) fn within(mut self, budget: &mut CompileBudget) -> Self {
        if !budget.admits(self.pattern_weight()) {
            self.withheld = Some(TOO_COMPLEX);
        }
        self
    }

    /// A rule that there is no room for.
    pub(super) fn unread(rule: &ValidationRule) -> Self {
        Self { withheld: Some(TOO_MANY_FIELDS), ..Self::of(rule) }
    }

    fn of(rule: &ValidationRule) -> Self {
        Self {
            rule: rule.clone(),
            program: None,
            message: None,
            uses_old_self: false,
            cost: 0,
            message_cost: 0,
            field_path: String::new(),
            withheld: None,
        }
    }

    /// Reads a rule about values of a type. Where it is said how large they can be, costs are estimated.
    pub(super) fn new(rule: &ValidationRule, props: &Props, kind: &Type, extent: Option<&Extent>) -> Self {
        let mut compiled = Self::of(rule);
        // Its other fields are not checked either: an empty rule is reported elsewhere.
        if rule.rule.trim().is_empty() {
            return compiled;
        }
        let is_optional = rule.optional_old_self == Some(true);
        // There may be no old value then, and rules have to ask.
        let old = if is_optional { Type::Optional(Box::new(kind.clone())) } else { kind.clone() };
        let environment = Environment::new().variable("self", kind.clone()).variable("oldSelf", old);
        let program = look_at(&rule.rule, &environment, extent, &RULE);
        (compiled.cost, compiled.uses_old_self) = (program.cost, program.uses_old_self);
        let is_fine = program.outcome.is_ok();
        compiled.program = Some(program.outcome);
        // Only after the rule itself is fine, so that one mistake is not told twice.
        if is_fine && !rule.message_expression.is_empty() {
            let message = look_at(&rule.message_expression, &environment, extent, &MESSAGE);
            compiled.message_cost = message.cost;
            compiled.message = Some(message.outcome);
        }
        let is_fine = is_fine && !matches!(compiled.message, Some(Err(_)));
        if is_fine
            && !rule.field_path.is_empty()
            && let Ok(known) = field_path::resolve(&rule.field_path, props, true)
        {
            compiled.field_path = known.path;
        }
        compiled
    }
}

/// What an expression is for.
struct Purpose {
    kind: Type,
    /// What to say of mistakes in it, of a value of another type, and of constants that cannot be computed.
    mistaken: &'static str,
    mistyped: &'static str,
    incomputable: &'static str,
}

const RULE: Purpose = Purpose {
    kind: Type::Bool,
    mistaken: "compilation failed",
    mistyped: "cel expression must evaluate to a bool",
    incomputable: "program instantiation failed",
};

const MESSAGE: Purpose = Purpose {
    kind: Type::String,
    mistaken: "messageExpression compilation failed",
    mistyped: "messageExpression must evaluate to a string",
    incomputable: "messageExpression instantiation failed",
};

struct Looked {
    outcome: Result<Program, String>,
    uses_old_self: bool,
    cost: u64,
}

impl Looked {
    fn wrong(problem: String, uses_old_self: bool) -> Self {
        Self { outcome: Err(problem), uses_old_self, cost: 0 }
    }
}

fn look_at(source: &str, environment: &Environment, extent: Option<&Extent>, purpose: &Purpose) -> Looked {
    let outcome = match extent {
        Some(extent) => environment.estimate(source, extent),
        None => environment.compile(source).map(|program| (program, 0)),
    };
    match outcome {
        Err(error) => refused(&error, purpose),
        Ok((program, _)) if *program.result_type() != purpose.kind => {
            Looked::wrong(purpose.mistyped.to_owned(), false)
        }
        Ok((program, cost)) => Looked { uses_old_self: program.uses("oldSelf"), outcome: Ok(program), cost },
    }
}

/// Types are checked before constants are computed.
fn refused(error: &CompileError, purpose: &Purpose) -> Looked {
    match error.incomputable() {
        None => Looked::wrong(format!("{}: {error}", purpose.mistaken), false),
        Some(known) if known.result_type != purpose.kind => Looked::wrong(purpose.mistyped.to_owned(), false),
        Some(known) => {
            let uses_old_self = known.used.iter().any(|name| name == "oldSelf");
            Looked::wrong(format!("{}: {error}", purpose.incomputable), uses_old_self)
        }
    }
}
