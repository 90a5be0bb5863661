//! Writes YAML as two Go libraries do, to the byte.
//!
//! Follows go.yaml.in/yaml 2.4.3 and gopkg.in/yaml.v3 3.0.1, `emitterc.go`, `encode.go`; sigs.k8s.io/yaml 1.6.0, `yaml.go`.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::text::{Style, Traits};
use super::{Library, Node, order, resolve, text};
use crate::base64;
use crate::strconv::format_float;

/// Version 2 folds lines at the first space after this column. Version 3 does not fold.
const WIDTH: usize = 80;
/// Longer keys are written behind a question mark.
const LONGEST_SIMPLE_KEY: usize = 128;
/// How many characters of base64 stand in a line.
const BINARY_LINE: usize = 70;
/// How far `- ` moves what follows it.
const ITEM: usize = 2;

/// A document as `sigs.k8s.io/yaml` writes it: what JSON says, written by version 2.
pub fn to_yaml(value: &Value) -> String {
    write(value, Library::V2)
}

/// A document as this library writes it.
pub fn write(value: &Value, library: Library) -> String {
    write_source(Source::Json(value), library)
}

/// What JSON cannot hold, as version 3 writes it. Maps are written in their order, which for all but structs is that of [`sorted`].
pub fn write_node(node: &Node) -> String {
    write_source(Source::Node(node), Library::V3)
}

/// The entries of a map in the order in which version 3 writes them.
pub fn sorted(entries: Vec<(Node, Node)>) -> Vec<(Node, Node)> {
    order::naturally(entries, Library::V3)
}

fn write_source(source: Source<'_>, library: Library) -> String {
    let mut writer = Writer { library, text: String::new(), column: 0, is_blank: true, is_indented: true };
    writer.node(source, None, NodePosition::Root);
    writer.line(0);
    writer.text
}

/// What is written.
#[derive(Debug, Clone, Copy)]
enum Source<'v> {
    Json(&'v Value),
    /// The key of an object.
    Key(&'v str),
    Node(&'v Node),
}

impl<'v> From<&'v Value> for Source<'v> {
    fn from(value: &'v Value) -> Self {
        Self::Json(value)
    }
}

impl<'v> From<&'v Node> for Source<'v> {
    fn from(node: &'v Node) -> Self {
        Self::Node(node)
    }
}

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodePosition {
    Root,
    Item,
    Key,
    /// The value of a key, or a key that is not simple.
    Value,
}

struct Writer {
    library: Library,
    text: String,
    column: usize,
    /// Whether what was written last separates it from what comes next.
    is_blank: bool,
    /// Whether there is nothing but indentation and indicators in this line.
    is_indented: bool,
}

impl Writer {
    fn node(&mut self, source: Source<'_>, indent: Option<usize>, place: NodePosition) {
        match source {
            Source::Json(value) => self.json(value, indent, place),
            Source::Key(key) => self.string(key, indent, place),
            Source::Node(Node::Null) => self.scalar("null", Style::Plain, indent, place),
            Source::Node(Node::Bool(is_true)) => {
                self.scalar(if *is_true { "true" } else { "false" }, Style::Plain, indent, place);
            }
            Source::Node(Node::Int(integer)) => {
                self.scalar(&integer.to_string(), Style::Plain, indent, place);
            }
            Source::Node(Node::Uint(integer)) => {
                self.scalar(&integer.to_string(), Style::Plain, indent, place);
            }
            Source::Node(Node::Float(float)) => {
                self.scalar(&float_text(*float), Style::Plain, indent, place);
            }
            Source::Node(Node::String(text)) => self.string(text, indent, place),
            Source::Node(Node::Bytes(bytes)) => self.binary(bytes, indent, place),
            Source::Node(Node::Time(text)) => self.scalar(text, Style::Plain, indent, place),
            Source::Node(Node::List(items)) if items.is_empty() => self.empty('[', ']'),
            Source::Node(Node::List(items)) => self.items(items, indent, place),
            Source::Node(Node::Map(entries)) if entries.is_empty() => self.empty('{', '}'),
            Source::Node(Node::Map(entries)) => {
                let entries = entries.iter().map(|(key, value)| (Source::Node(key), Source::Node(value)));
                self.entries(entries, indent, place);
            }
        }
    }

    fn json(&mut self, value: &Value, indent: Option<usize>, place: NodePosition) {
        match value {
            Value::Null => self.scalar("null", Style::Plain, indent, place),
            Value::Bool(is_true) => {
                self.scalar(if *is_true { "true" } else { "false" }, Style::Plain, indent, place);
            }
            Value::Number(number) => {
                self.scalar(&number_text(number, self.library), Style::Plain, indent, place);
            }
            Value::String(text) => self.string(text, indent, place),
            Value::Array(items) if items.is_empty() => self.empty('[', ']'),
            Value::Array(items) => self.items(items, indent, place),
            Value::Object(entries) if entries.is_empty() => self.empty('{', '}'),
            Value::Object(entries) => self.object(entries, indent, place),
        }
    }

    fn object(&mut self, entries: &Map<String, Value>, indent: Option<usize>, place: NodePosition) {
        let entries = order::naturally(entries.iter().collect(), self.library).into_iter();
        self.entries(entries.map(|(key, value)| (Source::Key(key), Source::Json(value))), indent, place);
    }

    fn empty(&mut self, open: char, close: char) {
        self.indicator(open, true, false);
        self.is_blank = true;
        self.indicator(close, false, false);
    }

    fn items<'v, T>(&mut self, items: &'v [T], indent: Option<usize>, place: NodePosition)
    where
        Source<'v>: From<&'v T>,
    {
        // Version 2 puts items below the key that they belong to, not to the right of it.
        let is_below_key = self.library == Library::V2 && place == NodePosition::Value && !self.is_indented;
        let indent = match indent {
            Some(indent) if is_below_key => indent,
            indent => self.indent_below(indent, place),
        };
        for item in items {
            self.line(indent);
            self.indicator('-', true, true);
            self.node(Source::from(item), Some(indent), NodePosition::Item);
        }
    }

    /// The column of a collection that stands in this place, in something at this column.
    fn indent_below(&self, indent: Option<usize>, place: NodePosition) -> usize {
        indent.map_or(0, |indent| self.next_indent(indent, place))
    }

    fn next_indent(&self, indent: usize, place: NodePosition) -> usize {
        match self.library {
            Library::V2 => indent + self.library.step(),
            Library::V3 if place == NodePosition::Item => indent + ITEM,
            // What is no item stands at a multiple of the step, so it may be less than a step away.
            Library::V3 => (indent / self.library.step() + 1) * self.library.step(),
        }
    }

    fn entries<'v>(
        &mut self,
        entries: impl Iterator<Item = (Source<'v>, Source<'v>)>,
        indent: Option<usize>,
        place: NodePosition,
    ) {
        let indent = self.indent_below(indent, place);
        for (key, value) in entries {
            self.line(indent);
            if is_simple_key(key) {
                self.node(key, Some(indent), NodePosition::Key);
                self.indicator(':', false, false);
            } else {
                self.indicator('?', true, true);
                self.node(key, Some(indent), NodePosition::Value);
                self.line(indent);
                self.indicator(':', true, true);
            }
            self.node(value, Some(indent), NodePosition::Value);
        }
    }

    fn string(&mut self, string: &str, indent: Option<usize>, place: NodePosition) {
        let string = match self.library {
            Library::V2 => text::without_next_lines(string),
            Library::V3 => Cow::Borrowed(string),
        };
        // The order is the encoder's (`stringv` in encode.go): several lines win over the question
        // what the text would be read as, so that `"1\n"` is a literal block.
        let style = match &*string {
            string if string.contains('\n') => Style::Literal,
            string if resolve::is_string(string) => Style::Plain,
            _ => Style::Double,
        };
        self.scalar(&string, style, indent, place);
    }

    /// What is no UTF-8 is written in base64, in lines of equal length.
    fn binary(&mut self, bytes: &[u8], indent: Option<usize>, place: NodePosition) {
        let tag = "!!binary";
        if !self.is_blank {
            self.put(' ');
        }
        tag.chars().for_each(|character| self.put(character));
        (self.is_blank, self.is_indented) = (false, false);
        let text = binary_text(bytes);
        let style = if text.contains('\n') { Style::Literal } else { Style::Plain };
        self.scalar(&text, style, indent, place);
    }

    fn scalar(&mut self, text: &str, wanted: Style, indent: Option<usize>, place: NodePosition) {
        let indent = indent.map_or(self.library.step(), |indent| self.next_indent(indent, place));
        let may_fold = self.library == Library::V2 && place != NodePosition::Key;
        match Traits::of(text, self.library).style(wanted, place == NodePosition::Key) {
            Style::Plain => self.plain(text, indent, may_fold),
            Style::Single => self.single_quoted(text, indent, may_fold),
            Style::Double => self.double_quoted(text, indent, may_fold),
            Style::Literal => self.literal(text, indent),
        }
    }

    fn plain(&mut self, text: &str, indent: usize, may_fold: bool) {
        if !self.is_blank {
            self.put(' ');
        }
        self.flow(text, indent, may_fold);
    }

    fn single_quoted(&mut self, text: &str, indent: usize, may_fold: bool) {
        self.indicator('\'', true, false);
        self.flow(&text.replace('\'', "''"), indent, may_fold);
        self.indicator('\'', false, false);
    }

    /// Text that is written as it is, on one line or folded.
    fn flow(&mut self, text: &str, indent: usize, may_fold: bool) {
        let (mut is_after_space, mut is_after_break) = (false, false);
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            let next = characters.peek().map(|(_, next)| *next);
            if character == ' ' {
                let is_inside = at > 0 && next.is_some_and(|next| next != ' ');
                if may_fold && !is_after_space && self.column > WIDTH && is_inside {
                    self.line(indent);
                } else {
                    self.put(character);
                }
                is_after_space = true;
            } else if text::is_break(character) {
                self.put_break(character);
                is_after_break = true;
            } else {
                if is_after_break {
                    self.line(indent);
                }
                self.put(character);
                self.is_indented = false;
                (is_after_space, is_after_break) = (false, false);
            }
        }
        self.end_of_scalar();
    }

    fn double_quoted(&mut self, text: &str, indent: usize, may_fold: bool) {
        self.indicator('"', true, false);
        // The originals look for the mark in the wrong place, and then escape everything.
        let is_marked = text.starts_with('\u{feff}');
        let mut is_after_space = false;
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            if is_marked || text::needs_escape(character) {
                for escaped in text::escape(character).chars() {
                    self.put(escaped);
                }
                is_after_space = false;
            } else if character == ' ' {
                let next = characters.peek().map(|(_, next)| *next);
                if may_fold && !is_after_space && self.column > WIDTH && at > 0 && next.is_some() {
                    self.line(indent);
                    if next == Some(' ') {
                        // Without it, the reader would drop the spaces that now begin a line.
                        self.put('\\');
                    }
                } else {
                    self.put(character);
                }
                is_after_space = true;
            } else {
                self.put(character);
                is_after_space = false;
            }
        }
        self.indicator('"', false, false);
        self.end_of_scalar();
    }

    /// Lines as they are.
    fn literal(&mut self, text: &str, indent: usize) {
        self.indicator('|', true, false);
        if text.starts_with(|first| first == ' ' || text::is_break(first)) {
            // The block says how far it is indented, because the reader cannot tell its own first
            // spaces from indentation. It is always the step (`best_indent` of the emitter), even below an item, where
            // version 3 indents less than it says.
            self.indicator(self.library.step_digit(), false, false);
        }
        let mut ending = text.chars().rev().map(text::is_break);
        match (ending.next(), ending.next()) {
            (Some(true), Some(false)) => {}
            // More than one break at the end, or nothing else: without the sign, readers would keep a single
            // one.
            (Some(true), _) => self.indicator('+', false, false),
            _ => self.indicator('-', false, false),
        }
        // Version 3 begins the first line when there is something to write into it, so an empty first line is lost.
        if self.library == Library::V2 {
            self.put_break('\n');
        }
        self.is_blank = true;
        let mut is_after_break = true;
        for character in text.chars() {
            if text::is_break(character) {
                self.put_break(character);
                is_after_break = true;
            } else {
                if std::mem::take(&mut is_after_break) {
                    self.line(indent);
                }
                self.put(character);
                self.is_indented = false;
            }
        }
    }

    fn end_of_scalar(&mut self) {
        (self.is_blank, self.is_indented) = (false, false);
    }

    /// Continue at this column, in a new line unless this one is still empty so far.
    fn line(&mut self, indent: usize) {
        let is_past = self.column > indent || self.column == indent && !self.is_blank;
        if !self.is_indented || is_past {
            self.put_break('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        (self.is_blank, self.is_indented) = (true, true);
    }

    fn indicator(&mut self, indicator: char, needs_blank: bool, keeps_indentation: bool) {
        if needs_blank && !self.is_blank {
            self.put(' ');
        }
        self.put(indicator);
        self.is_blank = false;
        self.is_indented &= keeps_indentation;
    }

    fn put(&mut self, character: char) {
        self.text.push(character);
        self.column += 1;
    }

    fn put_break(&mut self, character: char) {
        self.text.push(character);
        self.column = 0;
        self.is_indented = true;
    }
}

fn is_simple_key(key: Source<'_>) -> bool {
    let is_simple = |text: &str| {
        // Bytes, not characters: the emitter adds up lengths of buffers
        // (`yaml_emitter_check_simple_key`).
        text.len() <= LONGEST_SIMPLE_KEY && !text.chars().any(text::is_break)
    };
    match key {
        Source::Key(text) => is_simple(text),
        Source::Node(Node::String(text)) => is_simple(text),
        Source::Node(Node::Bytes(bytes)) => is_simple(&binary_text(bytes)),
        // Other scalars are short.
        _ => true,
    }
}

fn binary_text(bytes: &[u8]) -> String {
    let text = base64::encode(bytes);
    if text.len() < BINARY_LINE {
        return text;
    }
    let mut lines = String::with_capacity(text.len() + text.len() / BINARY_LINE + 1);
    for (at, character) in text.chars().enumerate() {
        if at > 0 && at % BINARY_LINE == 0 {
            lines.push('\n');
        }
        lines.push(character);
    }
    lines.push('\n');
    lines
}

/// A float as version 3 writes it.
pub(super) fn float_text(float: f64) -> String {
    match float {
        float if float.is_nan() => ".nan".to_owned(),
        f64::INFINITY => ".inf".to_owned(),
        f64::NEG_INFINITY => "-.inf".to_owned(),
        float => format_float(float, 'g', None),
    }
}

/// A number, for version 2 as it is after Go wrote it as JSON, YAML read that, and wrote it again.
fn number_text(number: &Number, library: Library) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    if library == Library::V3 {
        return format_float(float, 'g', None);
    }
    // Without a fraction it is written as an integer up to this size, and read as one if it fits.
    if float.fract() == 0.0 && float.abs() < 1e21 {
        let digits = format!("{float:.0}");
        if let Ok(integer) = digits.parse::<i64>() {
            return integer.to_string();
        }
        if digits.parse::<u64>().is_ok() {
            return digits;
        }
    }
    format_float(float, 'g', None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        /// What the originals make of it is compared in `tests/revisions.rs`; here it only has to come to an end.
        #[test]
        fn everything_can_be_written(keys in prop::collection::vec("[0-9a-z_.é٣-]{0,24}", 0..40), text in any::<String>()) {
            let entries: Map<_, _> = keys.into_iter().map(|key| (key, json!(text))).collect();
            let once = to_yaml(&json!({"a": entries, &text: [text, entries]}));
            prop_assert_eq!(&once, &to_yaml(&json!({"a": entries, &text: [text, entries]})));
        }
    }

    #[test]
    fn numbers_are_written_as_go_writes_them_after_reading_them() {
        let cases = [
            (json!(1.0), "1\n"),
            (json!(-0.0), "0\n"),
            (json!(1e19), "10000000000000000000\n"),
            (json!(1e20), "1e+20\n"),
            (json!(100_000.5), "100000.5\n"),
            (json!(1_000_000.5), "1.0000005e+06\n"),
            (json!(0.00001), "1e-05\n"),
        ];
        for (number, text) in cases {
            assert_eq!(to_yaml(&number), text);
        }
    }
}
