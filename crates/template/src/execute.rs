//! Executes templates: walks their trees and writes the output.
//!
//! Follows Go 1.26, `text/template/exec.go`. Messages are about the part of the template that was checked last, as in
//! Go, whose state is not reset when an expression is done.

mod arguments;
mod evaluate;
mod walk;

use crate::node::{Part, Tree};
use crate::{Context, ExecuteError, ExecuteErrorDetails, Exhausted, Failure, Text, Value};

/// What Go calls a `reflect.Value`: a value, and how it was come by.
#[derive(Debug, Clone)]
pub enum Slot {
    /// No value at all: a key that a map does not have.
    Invalid,
    /// A value with its own type.
    Plain(Value),
    /// A value that is stored as an `interface {}`, like the items of most maps and lists. It may be nil.
    Boxed(Value),
}

impl Slot {
    /// Without the interface around it. A nil interface is no value.
    pub(crate) fn unboxed(self) -> Self {
        match self {
            Self::Boxed(Value::Nil) => Self::Invalid,
            Self::Boxed(value) => Self::Plain(value),
            other => other,
        }
    }

    /// The value without the interface around it, if there is one.
    pub(crate) fn plain(&self) -> Option<&Value> {
        match self {
            Self::Invalid | Self::Boxed(Value::Nil) => None,
            Self::Plain(value) | Self::Boxed(value) => Some(value),
        }
    }

    /// The value as an argument of type `interface {}` has it.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Invalid => Value::Nil,
            Self::Plain(value) | Self::Boxed(value) => value,
        }
    }

    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Invalid => false,
            Self::Plain(value) | Self::Boxed(value) => value.is_true(),
        }
    }
}

/// Executes the text itself.
pub(crate) fn execute(ctx: &mut Context<'_>, data: Value) -> Result<(), ExecuteError> {
    let templates = ctx.templates;
    let data = if matches!(data, Value::Nil) { Slot::Invalid } else { Slot::Plain(data) };
    match templates.tree(&templates.name) {
        Some(tree) => run(ctx, tree, &data),
        // The text's own tree is always there: parsing adds it.
        None => Ok(()),
    }
}

/// Executes a template by name and gives what it wrote.
pub(crate) fn include(ctx: &mut Context<'_>, name: &[u8], data: Value) -> Result<Text, Failure> {
    let templates = ctx.templates;
    // Names of templates are made UTF-8 when they are parsed, and in the same way.
    let shown = String::from_utf8_lossy(name);
    let Some(tree) = templates.tree(&shown) else {
        let (name, own) = (ferroplane_golang::strconv::quote_bytes(name), &templates.name);
        let own = ferroplane_golang::strconv::quote(own);
        return Err(Failure::new(format!("template: no template {name} associated with template {own}")));
    };
    enter(ctx, CALL).map_err(Failure::new)?;
    let data = if matches!(data, Value::Nil) { Slot::Invalid } else { Slot::Plain(data) };
    let callers = ctx.callers.len();
    ctx.callers.extend(ctx.call.take().and_then(Part::site));
    // It is printed behind what is there already, and taken from there.
    let outer = std::mem::replace(&mut ctx.output_begin, ctx.output.len());
    // What is printed here is a value, which may never become output.
    let trace = ctx.trace.take();
    let result = run(ctx, tree, &data);
    ctx.callers.truncate(callers);
    ctx.trace = trace;
    ctx.depth -= CALL;
    let begin = std::mem::replace(&mut ctx.output_begin, outer);
    let output = Text::from(&ctx.output[begin..]);
    ctx.output.truncate(begin);
    match result {
        Ok(()) => Ok(output),
        Err(error) => {
            Err(error.exhausted.map_or_else(|| Failure::new(error.to_string()), Failure::Exhausted))
        }
    }
}

/// What a template or a block adds to the depth.
const BLOCK: u32 = 1;
/// What parentheses, and functions that execute templates, add to the depth: they take twice the stack.
const CALL: u32 = 2;

/// Goes deeper, unless that is too deep: all recursion goes through here, because our stack does not grow. The caller subtracts the same
/// number on its return.
fn enter(ctx: &mut Context<'_>, levels: u32) -> Result<(), String> {
    let limit = ctx.budget().depth;
    if ctx.depth + levels > limit {
        return Err(format!("exceeded maximum template depth ({limit})"));
    }
    ctx.depth += levels;
    Ok(())
}

fn run<'t>(ctx: &mut Context<'t>, tree: &'t Tree, data: &Slot) -> Result<(), ExecuteError> {
    let mut variables = ctx.spare_variables.take();
    // First, so that `$` is found whatever is declared after it.
    variables.push(("$", data.clone()));
    let mut frame = Frame { ctx, tree, part: None, variables };
    let walked = frame.walk_list(data, &tree.root);
    let Frame { ctx, variables, .. } = frame;
    ctx.spare_variables.keep(variables);
    walked.map(|_| ())
}

/// The execution of one template.
struct Frame<'f, 't> {
    ctx: &'f mut Context<'t>,
    tree: &'t Tree,
    /// The part that messages are about.
    part: Option<Part<'t>>,
    variables: Vec<(&'t str, Slot)>,
}

/// An execution that may fail.
type Executed<T> = Result<T, ExecuteError>;

impl<'t> Frame<'_, 't> {
    fn at(&mut self, part: Part<'t>) {
        self.part = Some(part);
    }

    fn error(&self, message: impl Into<String>) -> ExecuteError {
        self.located(message.into(), None)
    }

    fn exhausted(&self, limit: Exhausted) -> ExecuteError {
        self.located(limit.to_string(), Some(limit))
    }

    #[cold]
    fn located(&self, message: String, exhausted: Option<Exhausted>) -> ExecuteError {
        let (line, column) = self.part.map_or((1, 0), |part| self.ctx.templates.location(part.position()));
        let context = self.part.map(|part| part.to_string()).unwrap_or_default();
        ExecuteErrorDetails {
            name: self.ctx.templates.name.clone(),
            line,
            column,
            template: self.tree.name.clone(),
            context,
            message,
            exhausted,
        }
        .into()
    }

    fn enter(&mut self, levels: u32) -> Executed<()> {
        enter(self.ctx, levels).map_err(|problem| self.error(problem))
    }

    fn leave(&mut self, levels: u32) {
        self.ctx.depth -= levels;
    }

    fn step(&mut self) -> Executed<()> {
        self.ctx.step(1).map_err(|limit| self.exhausted(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Callee, Function, Heap, NoHost, Options, Templates, Type, sprig};

    static INCLUDE: &[Function] = &[Function {
        name: "include",
        parameters: &[Type::String, Type::Any],
        rest: None,
        result: Type::String,
        callee: Callee::Values(|ctx, args| {
            let Value::String(name) = &args[0] else { unreachable!("the signature says so") };
            ctx.execute(name, args[1].clone()).map(Value::String)
        }),
    }];

    #[test]
    fn templates_that_include_each_other_print_within_the_memory_together() {
        let text = r#"{{ define "a" }}{{ range 64 }}{{ $.t }}{{ end }}{{ $x := include "a" $ }}{{ end }}
            {{- $x := include "a" (dict "t" (repeat 1000 "x")) }}"#;
        let functions = sprig::functions().with(INCLUDE);
        let templates = Templates::parse("t", text, &Options::default(), &functions).unwrap();
        let (heap, mut host) = (Heap::new(), NoHost);
        let budget = Budget { memory: 1 << 20, output: 1 << 16, ..Budget::default() };
        let mut ctx = Context::new(&templates, &heap, &mut host, budget);
        let error = execute(&mut ctx, Value::Nil).unwrap_err();
        assert_eq!(error.exhausted, Some(Exhausted::Memory(1 << 20)), "{error}");
        // What grows may have twice the room that it needs.
        assert!(ctx.output.capacity() < 3 << 20, "{} bytes were printed", ctx.output.capacity());
    }
}
