//! The documents of a stream, as Kubernetes' clients cut it.
//!
//! Follows k8s.io/apimachinery 0.36, `pkg/util/yaml/decoder.go`: a stream that begins with a brace is JSON as long as it can be
//! read as that.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};
use serde_json::Value;

use super::read::read_any;
use super::{Library, block, to_json};

/// A document, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub value: Value,
    /// The line of the stream in which it begins, counted from one.
    pub line: usize,
}

/// Why a stream cannot be read any further, as the originals say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentError {
    /// The line of the stream in which the document begins, counted from one.
    pub line: usize,
    /// The line of the document in which the error is, if it is in one.
    pub line_in_document: Option<usize>,
    /// What is wrong there, without the line.
    pub reason: String,
    /// All of it in one text.
    pub message: String,
}

/// Reads one document after the other.
#[derive(Debug)]
pub struct Documents<'t> {
    rest: &'t str,
    line: usize,
    mode: Mode,
    count: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Mode {
    Json,
    Yaml,
    Ended,
}

impl<'t> Documents<'t> {
    pub fn new(text: &'t str) -> Self {
        let is_json = text.trim_start().starts_with('{');
        Self { rest: text, line: 1, mode: if is_json { Mode::Json } else { Mode::Yaml }, count: 0 }
    }

    fn advance(&mut self, bytes: usize) {
        let (before, rest) = self.rest.split_at(bytes);
        self.line += memchr_iter(b'\n', before.as_bytes()).count();
        self.rest = rest;
    }

    fn next_json(&mut self) -> Option<Result<Document, DocumentError>> {
        let spaces = self.rest.len() - self.rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        let mut values = serde_json::Deserializer::from_str(&self.rest[spaces..]).into_iter::<Value>();
        match values.next()? {
            Ok(value) => {
                let read = values.byte_offset();
                let line = self.line + self.rest[..spaces].matches('\n').count();
                self.advance(spaces + read);
                Some(Ok(Document { value: as_kubernetes_reads_numbers(value), line }))
            }
            // After two values it is certainly JSON, and wrong.
            Err(error) if self.count > 1 => {
                Some(Err(self.error(None, &error.to_string(), error.to_string())))
            }
            Err(_) => {
                self.mode = Mode::Yaml;
                self.skip_rest_of_line();
                self.next_yaml()
            }
        }
    }

    /// White space up to the end of the line would confuse the reader of YAML.
    fn skip_rest_of_line(&mut self) {
        let spaces = self.rest.find(|next: char| next == '\n' || !next.is_whitespace());
        let spaces = spaces.unwrap_or(self.rest.len());
        let is_end = self.rest[spaces..].starts_with('\n');
        self.advance(spaces + usize::from(is_end));
    }

    fn next_yaml(&mut self) -> Option<Result<Document, DocumentError>> {
        let (length, is_separated) = match self.document() {
            Ok(found) => found?,
            Err(reason) => return Some(Err(self.error(None, &reason, reason.clone()))),
        };
        let (text, line) = (with_plain_ends(&self.rest[..length]), self.line);
        let result = match read_json(&text) {
            Ok(value) => Ok(Document { value, line }),
            Err((at, message, reason)) => {
                Err(self.error(at, &format!("error converting YAML to JSON: {message}"), reason))
            }
        };
        let separator = if is_separated { line_length(&self.rest[length..]) } else { 0 };
        self.advance(length + separator);
        Some(result)
    }

    /// How long the next document is, and whether a separator ends it; nothing if there is none.
    fn document(&self) -> Result<Option<(usize, bool)>, String> {
        let mut length = 0;
        while length < self.rest.len() {
            let line = &self.rest[length..length + line_length(&self.rest[length..])];
            if let Some(after) = line.strip_prefix("---") {
                let after = after.trim();
                if !after.is_empty() && !after.starts_with('#') {
                    return Err(format!("invalid Yaml document separator: {after}"));
                }
                if length > 0 {
                    return Ok(Some((length, true)));
                }
            }
            length += line.len();
        }
        Ok((length > 0).then_some((length, false)))
    }

    fn error(&self, at: Option<usize>, message: &str, reason: String) -> DocumentError {
        DocumentError { line: self.line, line_in_document: at, reason, message: message.to_owned() }
    }
}

/// A document, or the line of the error, the error, and its reason.
fn read_json(text: &str) -> Result<Value, (Option<usize>, String, String)> {
    if let Some(value) = block::read(text, Library::V2) {
        return Ok(value);
    }
    let node = read_any(text, Library::V2).map_err(|error| (error.line, error.to_string(), error.message))?;
    to_json(node).map_err(|message| (None, message.clone(), message))
}

/// The original reads lines and ends each with a line feed, however it ended.
fn with_plain_ends(text: &str) -> Cow<'_, str> {
    if text.ends_with('\n') && !text.as_bytes().contains(&b'\r') {
        return Cow::Borrowed(text);
    }
    let mut text = text.replace("\r\n", "\n");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Cow::Owned(text)
}

fn line_length(text: &str) -> usize {
    memchr(b'\n', text.as_bytes()).map_or(text.len(), |end| end + 1)
}

/// Integers of 64 bits with a sign, and floats beyond.
fn as_kubernetes_reads_numbers(value: Value) -> Value {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "Go converts it like this, too")]
        Value::Number(number) if number.is_u64() && number.as_i64().is_none() => {
            Value::from(number.as_u64().unwrap_or_default() as f64)
        }
        Value::Array(items) => items.into_iter().map(as_kubernetes_reads_numbers).collect(),
        Value::Object(entries) => {
            entries.into_iter().map(|(key, value)| (key, as_kubernetes_reads_numbers(value))).collect()
        }
        other => other,
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Document, DocumentError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match self.mode {
            Mode::Json => self.next_json(),
            Mode::Yaml => self.next_yaml(),
            Mode::Ended => None,
        };
        self.count += 1;
        if !matches!(next, Some(Ok(_))) {
            self.mode = Mode::Ended;
        }
        next
    }
}
