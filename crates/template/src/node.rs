//! The parts of a parsed template, and how Go prints them in messages.
//!
//! Follows Go 1.26, `text/template/parse/node.go`.

use std::fmt;

use ferroplane_golang::strconv::quote;

use crate::{CallSite, Function, Text};

/// Where a part begins in the text, in bytes.
pub(crate) type Position = u32;

/// What is between `{{define}}` and `{{end}}`, or the text as a whole.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) name: String,
    pub(crate) root: Vec<Node>,
}

#[derive(Debug)]
pub(crate) enum Node {
    Text { position: Position, text: Text },
    Action(Pipe),
    Break,
    Continue,
    If(Box<Branch>),
    With(Box<Branch>),
    Range(Box<Branch>),
    Template(Box<Invocation>),
}

/// `if`, `with` or `range`.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipe: Pipe,
    pub(crate) list: Vec<Node>,
    pub(crate) otherwise: Option<Vec<Node>>,
}

/// `template`, or `block`.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) position: Position,
    pub(crate) name: String,
    /// How many calls with this name come before it in the text.
    pub(crate) number: u32,
    pub(crate) pipe: Option<Pipe>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) position: Position,
    pub(crate) is_assignment: bool,
    pub(crate) variables: Vec<String>,
    pub(crate) commands: Vec<Command>,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) position: Position,
    pub(crate) operands: Vec<Operand>,
}

#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) position: Position,
    pub(crate) term: Term,
}

#[derive(Debug)]
pub(crate) enum Term {
    Dot,
    Nil,
    Bool(bool),
    Number(Box<Number>),
    String {
        quoted: String,
        text: Text,
    },
    Function {
        function: &'static Function,
        /// How many calls with its name come before this one in the text.
        number: u32,
    },
    Field(Vec<String>),
    /// A variable and the fields behind it.
    Variable {
        name: String,
        fields: Vec<String>,
    },
    /// Fields of what a function or a pipeline gives.
    Chain {
        of: Box<Operand>,
        fields: Vec<String>,
    },
    Pipe(Box<Pipe>),
}

/// A number, and everything that it can stand for.
#[derive(Debug, Default)]
pub(crate) struct Number {
    pub(crate) text: String,
    pub(crate) integer: Option<i64>,
    pub(crate) unsigned: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<[f64; 2]>,
}

/// A part of a template that a message can be about.
#[derive(Clone, Copy)]
pub(crate) enum Part<'t> {
    Action(&'t Pipe),
    Pipe(&'t Pipe),
    Command(&'t Command),
    Operand(&'t Operand),
    Template(&'t Invocation),
}

impl<'t> Part<'t> {
    /// Which call it is, if it is one.
    pub(crate) fn site(self) -> Option<CallSite<'t>> {
        let operand = match self {
            Self::Command(command) => command.operands.first()?,
            Self::Operand(operand) => operand,
            Self::Template(invocation) => {
                return Some(CallSite { name: &invocation.name, number: invocation.number });
            }
            Self::Action(_) | Self::Pipe(_) => return None,
        };
        let Term::Function { function, number } = &operand.term else { return None };
        Some(CallSite { name: function.name, number: *number })
    }

    pub(crate) fn position(self) -> Position {
        match self {
            // An action is where its pipeline is.
            Self::Action(pipe) | Self::Pipe(pipe) => pipe.position,
            Self::Command(command) => command.position,
            Self::Operand(operand) => operand.position,
            Self::Template(invocation) => invocation.position,
        }
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(pipe) => write!(f, "{{{{{pipe}}}}}"),
            Self::Pipe(pipe) => pipe.fmt(f),
            Self::Command(command) => command.fmt(f),
            Self::Operand(operand) => operand.fmt(f),
            Self::Template(invocation) => invocation.fmt(f),
        }
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{template {}", quote(&self.name))?;
        if let Some(pipe) = &self.pipe {
            write!(f, " {pipe}")?;
        }
        f.write_str("}}")
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            let sign = if self.is_assignment { "=" } else { ":=" };
            write!(f, "{} {sign} ", self.variables.join(", "))?;
        }
        for (at, command) in self.commands.iter().enumerate() {
            write!(f, "{}{command}", if at > 0 { " | " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, operand) in self.operands.iter().enumerate() {
            f.write_str(if at > 0 { " " } else { "" })?;
            operand.write_enclosed(f)?;
        }
        Ok(())
    }
}

impl Operand {
    /// A pipeline stands in parentheses where it is part of something.
    fn write_enclosed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.term {
            Term::Pipe(pipe) => write!(f, "({pipe})"),
            _ => fmt::Display::fmt(self, f),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.term {
            Term::Dot => f.write_str("."),
            Term::Nil => f.write_str("nil"),
            Term::Bool(truth) => truth.fmt(f),
            Term::Number(number) => f.write_str(&number.text),
            Term::String { quoted, .. } => f.write_str(quoted),
            Term::Function { function, .. } => f.write_str(function.name),
            Term::Field(fields) => write_fields(f, fields),
            Term::Variable { name, fields } => {
                f.write_str(name)?;
                write_fields(f, fields)
            }
            Term::Chain { of, fields } => {
                of.write_enclosed(f)?;
                write_fields(f, fields)
            }
            Term::Pipe(pipe) => pipe.fmt(f),
        }
    }
}

fn write_fields(f: &mut fmt::Formatter<'_>, fields: &[String]) -> fmt::Result {
    fields.iter().try_for_each(|field| write!(f, ".{field}"))
}
