//! A parsed text: the templates in it, ready to be executed any number of times.
//!
//! Follows Go 1.26, `text/template/template.go`, `text/template/option.go`.

use std::collections::HashMap;

use crate::node::{Position, Tree};
use crate::{Budget, Context, ExecuteError, Functions, Heap, Host, ParseError, Trace, Value, execute, parse};

/// How a text is read.
#[derive(Debug, Clone)]
pub struct Options<'o> {
    /// What stands before and after an action. Empty ones are Go's, `{{` and `}}`.
    pub delimiters: (&'o str, &'o str),
    pub missing_key: MissingKey,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { delimiters: ("{{", "}}"), missing_key: MissingKey::Invalid }
    }
}

/// What a key gives that a map does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingKey {
    /// No value, which prints as `<no value>`.
    Invalid,
    /// The zero value of the map's type.
    Zero,
    /// An error.
    Error,
}

impl MissingKey {
    /// What an option of a template says, like `missingkey=error`. None if there is no such option.
    pub fn parse(option: &str) -> Option<Self> {
        match option {
            "missingkey=default" | "missingkey=invalid" => Some(Self::Invalid),
            "missingkey=zero" => Some(Self::Zero),
            "missingkey=error" => Some(Self::Error),
            _ => None,
        }
    }
}

/// A text with all templates that it defines. It never changes, and threads can share it.
#[derive(Debug)]
pub struct Templates {
    pub(crate) name: String,
    text: String,
    trees: HashMap<String, Tree>,
    pub(crate) missing_key: MissingKey,
}

impl Templates {
    /// Reads a text. Every function that it calls must be among these.
    pub fn parse(
        name: &str,
        text: &str,
        options: &Options<'_>,
        functions: &Functions,
    ) -> Result<Self, ParseError> {
        // Positions are small numbers, so that parts of templates are small.
        if Position::try_from(text.len()).is_err() {
            let message = "the template is too long".to_owned();
            return Err(ParseError { name: name.to_owned(), line: 1, message });
        }
        let (left, right) = options.delimiters;
        let delimiters =
            (if left.is_empty() { "{{" } else { left }, if right.is_empty() { "}}" } else { right });
        let trees = parse::parse(name, text, delimiters, functions)?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), trees, missing_key: options.missing_key })
    }

    /// The output of the text over the data.
    pub fn execute(
        &self,
        data: Value,
        heap: &Heap,
        host: &mut dyn Host,
        budget: Budget,
    ) -> Result<Vec<u8>, ExecuteError> {
        let mut context = Context::new(self, heap, host, budget);
        execute::execute(&mut context, data)?;
        Ok(context.output)
    }

    /// The same, within a budget that several executions share: what this one takes is taken from it, also if it fails.
    pub fn execute_within(
        &self,
        data: Value,
        heap: &Heap,
        host: &mut dyn Host,
        budget: &mut Budget,
    ) -> Result<Vec<u8>, ExecuteError> {
        let mut context = Context::new(self, heap, host, *budget);
        let executed = execute::execute(&mut context, data);
        *budget = context.remaining_budget();
        executed?;
        Ok(context.output)
    }

    /// The output of the text, and which part of the text printed what.
    pub fn execute_traced(
        &self,
        data: Value,
        heap: &Heap,
        host: &mut dyn Host,
        budget: Budget,
    ) -> Result<(Vec<u8>, Trace), ExecuteError> {
        let mut context = Context::new(self, heap, host, budget);
        context.trace = Some(Trace::default());
        execute::execute(&mut context, data)?;
        Ok((context.output, context.trace.unwrap_or_default()))
    }

    /// The line of a position in the text, from one.
    pub fn line(&self, position: usize) -> usize {
        self.location(Position::try_from(position).unwrap_or(Position::MAX)).0
    }

    /// The names of all templates in the text, its own among them, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.trees.keys().map(String::as_str)
    }

    /// The text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The length of the text that it was read from, in bytes: what a cache counts.
    pub fn text_length(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn tree(&self, name: &str) -> Option<&Tree> {
        self.trees.get(name)
    }

    /// The line of a position, from one, and its column in bytes, from zero.
    pub(crate) fn location(&self, position: Position) -> (usize, usize) {
        let before = &self.text.as_bytes()[..(position as usize).min(self.text.len())];
        let line = before.split(|byte| *byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        (line, before.len() - start)
    }
}
