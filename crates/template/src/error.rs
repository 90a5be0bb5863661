//! Errors of parsing and executing. They read as Go's.
//!
//! Follows Go 1.26, `text/template/parse/parse.go` (`errorf`), `text/template/exec.go` (`errorf`).

use std::fmt;
use std::ops::Deref;

use ferroplane_golang::strconv::quote;

use crate::Exhausted;

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The name of the template.
    pub name: String,
    /// The line, from one.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "template: {}:{}: {}", self.name, self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Why a template could not be executed, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteError(Box<ExecuteErrorDetails>);

/// The details of an [`ExecuteError`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteErrorDetails {
    /// The name that the text was parsed with.
    pub name: String,
    /// The line, from one.
    pub line: usize,
    /// The column in bytes, from zero, as Go counts.
    pub column: usize,
    /// The template that was executing: the name of the text, or of one that it defines.
    pub template: String,
    /// The part of the template, as Go prints it.
    pub context: String,
    pub message: String,
    /// The limit, if it is one of the budget and not a mistake that Go would find.
    pub exhausted: Option<Exhausted>,
}

impl From<ExecuteErrorDetails> for ExecuteError {
    fn from(details: ExecuteErrorDetails) -> Self {
        Self(Box::new(details))
    }
}

impl Deref for ExecuteError {
    type Target = ExecuteErrorDetails;

    fn deref(&self) -> &ExecuteErrorDetails {
        &self.0
    }
}

impl fmt::Display for ExecuteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExecuteErrorDetails { name, line, column, template, context, message, .. } = &**self;
        let template = quote(template);
        write!(f, "template: {name}:{line}:{column}: executing {template} at <{context}>: {message}")
    }
}

impl std::error::Error for ExecuteError {}

/// Why a function could not be called. The engine says where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// What Go's function returns as its error, or panics with.
    Message(String),
    /// The budget came to its end.
    Exhausted(Exhausted),
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self::Message(message.into())
    }
}

impl From<Exhausted> for Failure {
    fn from(limit: Exhausted) -> Self {
        Self::Exhausted(limit)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => f.write_str(message),
            Self::Exhausted(limit) => limit.fmt(f),
        }
    }
}
