//! The nodes of a template, one after the other.
//!
//! Follows Go 1.26, `text/template/exec.go` (`walk` to `walkTemplate`, `printValue`).

use std::ops::ControlFlow;

use ferroplane_golang::strconv::quote;

use super::{BLOCK, Executed, Frame, Slot, run};
use crate::node::{Branch, Invocation, Node, Operand, Part, Pipe, Position, Term};
use crate::{Failure, Text, Type, Value, print};

/// Why a list of nodes was left before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jump {
    Break,
    Continue,
}

type Walked = Executed<ControlFlow<Jump>>;

const ON: ControlFlow<Jump> = ControlFlow::Continue(());

impl<'t> Frame<'_, 't> {
    pub(super) fn walk_list(&mut self, dot: &Slot, nodes: &'t [Node]) -> Walked {
        for node in nodes {
            self.step()?;
            if let ControlFlow::Break(jump) = self.walk(dot, node)? {
                return Ok(ControlFlow::Break(jump));
            }
        }
        Ok(ON)
    }

    fn walk(&mut self, dot: &Slot, node: &'t Node) -> Walked {
        match node {
            Node::Text { position, text } => {
                self.trace(*position, true);
                self.write(text)?;
            }
            Node::Action(pipe) => self.action(dot, pipe)?,
            Node::If(branch) => return self.choose(dot, branch, false),
            Node::With(branch) => return self.choose(dot, branch, true),
            Node::Range(branch) => return self.range(dot, branch),
            Node::Template(invocation) => self.template(dot, invocation)?,
            Node::Break => return Ok(ControlFlow::Break(Jump::Break)),
            Node::Continue => return Ok(ControlFlow::Break(Jump::Continue)),
        }
        Ok(ON)
    }

    fn write(&mut self, text: &[u8]) -> Executed<()> {
        self.ctx.write(text).map_err(|limit| self.exhausted(limit))
    }

    fn trace(&mut self, position: Position, is_copied: bool) {
        let offset = self.ctx.output.len();
        if let Some(trace) = &mut self.ctx.trace {
            trace.add(offset, position, is_copied);
        }
    }

    fn action(&mut self, dot: &Slot, pipe: &'t Pipe) -> Executed<()> {
        if let Some((operand, name)) = sole_variable(pipe) {
            return self.print_variable(pipe, operand, name);
        }
        self.at(Part::Action(pipe));
        let value = self.pipeline(dot, pipe)?;
        if pipe.variables.is_empty() {
            // Evaluating moved it on; what goes wrong while printing is about the whole action.
            self.at(Part::Action(pipe));
            self.trace(pipe.position, false);
            self.print(value)?;
        }
        Ok(())
    }

    /// An action that is nothing but a variable: a text in it is not copied to be printed.
    fn print_variable(&mut self, pipe: &'t Pipe, operand: &'t Operand, name: &str) -> Executed<()> {
        self.at(Part::Pipe(pipe));
        self.step()?;
        self.at(Part::Operand(operand));
        let at = self.find(name)?;
        self.at(Part::Action(pipe));
        self.trace(pipe.position, false);
        match &self.variables[at].1 {
            Slot::Plain(Value::String(text)) | Slot::Boxed(Value::String(text)) => {
                self.ctx.write(text).map_err(|limit| self.exhausted(limit))
            }
            other => {
                let value = other.clone().unboxed();
                self.print(value)
            }
        }
    }

    fn print(&mut self, value: Slot) -> Executed<()> {
        match value {
            Slot::Invalid => self.write(b"<no value>"),
            Slot::Plain(Value::String(text)) | Slot::Boxed(Value::String(text)) => self.write(&text),
            // No other values are printed as often as these, which need no format.
            Slot::Plain(Value::Int(whole) | Value::Int64(whole)) => self.write(whole.to_string().as_bytes()),
            value => {
                let text = print::sprint(self.ctx, &[value.into_value()]);
                let text: Text = text.map_err(|failure| self.failure(failure))?;
                self.write(&text)
            }
        }
    }

    /// A failure that is not about a call.
    fn failure(&self, failure: Failure) -> crate::ExecuteError {
        match failure {
            Failure::Exhausted(limit) => self.exhausted(limit),
            Failure::Message(message) => self.error(message),
        }
    }

    /// The nodes of a block.
    fn walk_block(&mut self, dot: &Slot, nodes: &'t [Node]) -> Walked {
        self.enter(BLOCK)?;
        let walked = self.walk_list(dot, nodes);
        self.leave(BLOCK);
        walked
    }

    /// `if` or `with`. What stands behind `else` may be one of them again; that takes no stack.
    fn choose(&mut self, dot: &Slot, branch: &'t Branch, moves_dot: bool) -> Walked {
        let mark = self.variables.len();
        let mut branch = branch;
        let walked = loop {
            let value = self.pipeline(dot, &branch.pipe)?;
            if value.is_true() {
                break self.walk_block(if moves_dot { &value } else { dot }, &branch.list)?;
            }
            match branch.otherwise.as_deref() {
                None => break ON,
                Some([Node::If(inner)]) if !moves_dot => branch = inner,
                Some([Node::With(inner)]) if moves_dot => branch = inner,
                Some(list) => break self.walk_block(dot, list)?,
            }
            self.step()?;
        };
        self.variables.truncate(mark);
        Ok(walked)
    }

    fn range(&mut self, dot: &Slot, branch: &'t Branch) -> Walked {
        let outer = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let is_empty = match value.into_value() {
            Value::Nil => true,
            Value::List(list) => {
                let items = list.iter().enumerate();
                self.iterate(
                    branch,
                    items.map(|(at, item)| (index(at), element(item.clone(), list.element()))),
                )?
            }
            Value::Bytes(bytes) => {
                let items = bytes.iter().enumerate();
                self.iterate(branch, items.map(|(at, byte)| (index(at), Slot::Plain(Value::Uint8(*byte)))))?
            }
            Value::Map(map) => {
                // A copy, because the body may change the map. Go loops over what was there at the start, too.
                self.ctx.step(map.len() as u64).map_err(|limit| self.exhausted(limit))?;
                let entries = self.ctx.entries_of(&map).map_err(|limit| self.exhausted(limit))?.into_iter();
                let kind = map.element();
                self.iterate(
                    branch,
                    entries.map(|(key, item)| (Slot::Plain(Value::String(key)), element(item, kind))),
                )?
            }
            Value::AnyMap(map) => {
                let entries = map.iter().cloned();
                self.iterate(branch, entries.map(|(key, item)| (Slot::Boxed(key), Slot::Boxed(item))))?
            }
            Value::Int(count) => self.count(branch, count, Value::Int)?,
            Value::Int64(count) => self.count(branch, count, Value::Int64)?,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is below a byte")]
            Value::Uint8(count) => self.count(branch, count.into(), |at| Value::Uint8(at as u8))?,
            #[expect(clippy::cast_sign_loss, reason = "it counts from zero")]
            Value::Uint64(count) => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                self.count(branch, count, |at| Value::Uint64(at as u64))?
            }
            other => {
                let shown = print::sprint(self.ctx, &[other]).map_err(|failure| self.failure(failure))?;
                return Err(self.error(format!("range can't iterate over {}", shown.to_str())));
            }
        };
        let walked = match &branch.otherwise {
            Some(list) if is_empty => match self.walk_block(dot, list)? {
                // A break in `else` is for this loop, which has ended already; continuing is for the one around.
                ControlFlow::Break(Jump::Break) => ON,
                walked => walked,
            },
            _ => ON,
        };
        self.variables.truncate(outer);
        Ok(walked)
    }

    fn count(&mut self, branch: &'t Branch, count: i64, value: impl Fn(i64) -> Value) -> Executed<bool> {
        if branch.pipe.variables.len() > 1 {
            return Err(self.error(format!("can't use {count} to iterate over more than one variable")));
        }
        self.iterate(branch, (0..count).map(|at| (Slot::Invalid, Slot::Plain(value(at)))))
    }

    /// Walks the body for each item. Whether there was none.
    fn iterate(&mut self, branch: &'t Branch, items: impl Iterator<Item = (Slot, Slot)>) -> Executed<bool> {
        let mark = self.variables.len();
        let mut is_empty = true;
        for (key, item) in items {
            self.step()?;
            is_empty = false;
            self.bind(&branch.pipe, &key, &item)?;
            let walked = self.walk_block(&item, &branch.list)?;
            self.variables.truncate(mark);
            if walked == ControlFlow::Break(Jump::Break) {
                break;
            }
        }
        Ok(is_empty)
    }

    /// Gives the variables of a loop their values for one item.
    fn bind(&mut self, pipe: &'t Pipe, key: &Slot, item: &Slot) -> Executed<()> {
        let (key_name, item_name) = match pipe.variables.as_slice() {
            [] => return Ok(()),
            [item] => (None, item),
            [key, item, ..] => (Some(key), item),
        };
        if pipe.is_assignment {
            if let Some(name) = key_name {
                self.assign(name, key.clone())?;
            }
            return self.assign(item_name, item.clone());
        }
        // The pipeline of the loop has just declared them, so that they are the last ones.
        let mut declared = self.variables.iter_mut().rev();
        if let Some((_, variable)) = declared.next() {
            *variable = item.clone();
        }
        if let Some((_, variable)) = declared.next().filter(|_| key_name.is_some()) {
            *variable = key.clone();
        }
        Ok(())
    }

    fn template(&mut self, dot: &Slot, invocation: &'t Invocation) -> Executed<()> {
        self.at(Part::Template(invocation));
        // It is found by its name, which is work if that is long.
        let searched = invocation.name.len() as u64 / 256;
        self.ctx.step(searched).map_err(|limit| self.exhausted(limit))?;
        let Some(tree) = self.ctx.templates.tree(&invocation.name) else {
            return Err(self.error(format!("template {} not defined", quote(&invocation.name))));
        };
        // Before the pipeline is evaluated, as in Go, where a template that calls itself too deep does not
        // evaluate its data any more.
        self.enter(BLOCK)?;
        let data = match &invocation.pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Slot::Invalid,
        };
        let callers = self.ctx.callers.len();
        self.ctx.callers.extend(Part::Template(invocation).site());
        let result = run(self.ctx, tree, &data);
        self.ctx.callers.truncate(callers);
        self.leave(BLOCK);
        result
    }
}

/// The variable that a pipeline is, if it is nothing else.
fn sole_variable(pipe: &Pipe) -> Option<(&Operand, &str)> {
    let ([], [command]) = (pipe.variables.as_slice(), pipe.commands.as_slice()) else { return None };
    let [operand] = command.operands.as_slice() else { return None };
    match &operand.term {
        Term::Variable { name, fields } if fields.is_empty() => Some((operand, name.as_str())),
        _ => None,
    }
}

fn index(at: usize) -> Slot {
    Slot::Plain(Value::Int(i64::try_from(at).unwrap_or(i64::MAX)))
}

/// An element of a list or map whose elements have this type.
pub(super) fn element(value: Value, element: &Type) -> Slot {
    if matches!(element, Type::Any) { Slot::Boxed(value) } else { Slot::Plain(value) }
}
