//! Where in the text something is, and mistakes that point there.
//!
//! Follows cel-go 0.29.2, `parser/errors.go`.

use std::fmt;

use super::types::Type;

/// A place in the source, counted in characters. Cheap to keep with every part of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(pub(super) u32);

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    /// Nowhere in particular if absent.
    pub(super) position: Option<Position>,
    pub(super) message: String,
}

impl Mistake {
    pub(super) fn new(position: Position, message: impl Into<String>) -> Self {
        Self { position: Some(position), message: message.into() }
    }

    pub(super) fn general(message: impl Into<String>) -> Self {
        Self { position: None, message: message.into() }
    }
}

/// Why an expression cannot be used. Shows every mistake with its line and a mark below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    text: String,
    incomputable: Option<Incomputable>,
}

/// What is known of an expression that has no mistakes, but constants that cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomputable {
    pub result_type: Type,
    /// The variables that it reads.
    pub used: Vec<String>,
}

impl std::error::Error for CompileError {}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// At most this many mistakes are shown.
const SHOWN: usize = 100;
/// A longer line is not quoted.
const LONGEST_LINE: usize = 16_384;

impl CompileError {
    pub(super) fn of_constant(text: String, incomputable: Incomputable) -> Self {
        Self { text, incomputable: Some(incomputable) }
    }

    pub fn incomputable(&self) -> Option<&Incomputable> {
        self.incomputable.as_ref()
    }

    pub(super) fn new(source: &str, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by_key(|mistake| mistake.position);
        mistakes.dedup();
        let more = mistakes.len().saturating_sub(SHOWN);
        let mut shown: Vec<_> = mistakes.iter().take(SHOWN).map(|mistake| show(source, mistake)).collect();
        if more > 0 {
            shown.push(format!("{more} more errors were truncated"));
        }
        Self { text: shown.join("\n"), incomputable: None }
    }
}

fn show(source: &str, mistake: &Mistake) -> String {
    let Some(position) = mistake.position else {
        // cel-go prints this place for a mistake that has none.
        return format!("ERROR: <input>:-1:0: {}", mistake.message);
    };
    let (number, column, line) = locate(source, position);
    let mut text = format!("ERROR: <input>:{number}:{}: {}", column + 1, mistake.message);
    if line.len() <= LONGEST_LINE && !source.is_empty() {
        let line = line.replace('\t', " ");
        text += &format!("\n | {line}\n | {}", marker(&line, column));
    }
    text
}

/// The number of the line, the column within it, both counted from one and zero, and the line.
fn locate(source: &str, position: Position) -> (usize, usize, &str) {
    let mut start = 0;
    for (index, line) in source.split('\n').enumerate() {
        let length = line.chars().count();
        let offset = position.0 as usize;
        if offset <= start + length {
            return (index + 1, offset - start, line);
        }
        start += length + 1;
    }
    (1, 0, "")
}

/// Dots up to the column and a caret below it, wide where the text above is wide.
fn marker(line: &str, column: usize) -> String {
    let mut characters = line.chars();
    let mut text: String = characters
        .by_ref()
        .take(column)
        .map(|character| if character.is_ascii() { '.' } else { '．' })
        .collect();
    text.push(if characters.next().is_none_or(|character| character.is_ascii()) { '^' } else { '＾' });
    text
}
