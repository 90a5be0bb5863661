//! Writes JSON.
//!
//! Follows Go 1.26, `encoding/json/encode.go`, `encoding/json/indent.go`.

use std::rc::Rc;

use ferroplane_golang::base64;
use ferroplane_golang::json::float_text;
use ferroplane_golang::strconv::format_float;

use super::super::dates;
use crate::{Context, Failure, Map, Object, Type, Value};

/// How JSON is written.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Style {
    /// With a line for each item.
    is_pretty: bool,
    /// Whether letters are escaped that browsers could trip over.
    escapes_html: bool,
}

pub(in super::super) const COMPACT: Style = Style { is_pretty: false, escapes_html: true };
pub(in super::super) const PRETTY: Style = Style { is_pretty: true, escapes_html: true };
pub(in super::super) const RAW: Style = Style { is_pretty: false, escapes_html: false };

/// How deep values may be nested. Go has no limit, and a stack that grows.
const MAX_DEPTH: usize = 500;

pub(in super::super) fn encode(
    ctx: &mut Context<'_>,
    value: &Value,
    style: Style,
) -> Result<String, Failure> {
    let mut writer = Writer { ctx, out: String::with_capacity(64), charged: 0, style, above: Vec::new() };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer<'w, 'e> {
    ctx: &'w mut Context<'e>,
    out: String,
    charged: usize,
    style: Style,
    /// The dictionaries that the value is inside of.
    above: Vec<*const Map>,
}

impl Writer<'_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Failure> {
        self.ctx.step(1)?;
        // The same text can be written for each of many values.
        self.ctx.charge(self.out.len() - self.charged)?;
        self.charged = self.out.len();
        if depth > MAX_DEPTH {
            return Err(Failure::new("json: unsupported value: nested too deeply"));
        }
        match value {
            Value::Nil => self.out.push_str("null"),
            Value::Bool(truth) => self.out.push_str(if *truth { "true" } else { "false" }),
            Value::Int(whole) | Value::Int64(whole) => self.out.push_str(&whole.to_string()),
            Value::Uint8(whole) => self.out.push_str(&whole.to_string()),
            Value::Uint64(whole) => self.out.push_str(&whole.to_string()),
            Value::Float(float) if !float.is_finite() => {
                let float = format_float(*float, 'g', None);
                return Err(Failure::new(format!("json: unsupported value: {float}")));
            }
            Value::Float(float) => self.out.push_str(&float_text(*float)),
            Value::Complex(_) => return Err(Failure::new("json: unsupported type: complex128")),
            Value::String(text) => self.text(text),
            Value::Bytes(bytes) => {
                self.ctx.charge(bytes.len())?;
                self.out.push_str(&format!("\"{}\"", base64::encode(bytes)));
            }
            Value::List(list) if list.is_nil() => self.out.push_str("null"),
            Value::List(list) => self.list(list, depth)?,
            Value::Map(map) if map.is_nil() => self.out.push_str("null"),
            Value::Map(map) => self.map(map, depth)?,
            Value::AnyMap(_) => {
                return Err(Failure::new(format!("json: unsupported type: {}", Type::AnyMap)));
            }
            Value::Object(object) => self.object(&**object, depth)?,
        }
        Ok(())
    }

    fn list(&mut self, items: &[Value], depth: usize) -> Result<(), Failure> {
        self.out.push('[');
        for (at, item) in items.iter().enumerate() {
            self.begin(at, depth + 1);
            self.value(item, depth + 1)?;
        }
        self.end(items.len(), depth, ']');
        Ok(())
    }

    fn map(&mut self, map: &Rc<Map>, depth: usize) -> Result<(), Failure> {
        // A list can contain itself only through a map, so that it is enough to check maps. The search is
        // short: depth is limited.
        if self.above.contains(&Rc::as_ptr(map)) {
            let kind = Type::Map(map.element());
            return Err(Failure::new(format!("json: unsupported value: encountered a cycle via {kind}")));
        }
        self.above.push(Rc::as_ptr(map));
        self.out.push('{');
        let entries = map.entries();
        for (at, (key, value)) in entries.iter().enumerate() {
            self.begin(at, depth + 1);
            self.key(key);
            self.value(value, depth + 1)?;
        }
        self.end(entries.len(), depth, '}');
        self.above.pop();
        Ok(())
    }

    /// What writes itself does so as text; else exported fields are written.
    fn object(&mut self, object: &dyn Object, depth: usize) -> Result<(), Failure> {
        if let Some(time) = dates::to_json(object) {
            self.text(&time?);
            return Ok(());
        }
        match (object.type_of(), object.string()) {
            (Type::Integer(_), _) => self.out.push_str(&object.integer().unwrap_or_default().to_string()),
            (_, Some(text)) => self.text(&text),
            _ => {
                self.out.push('{');
                let fields = object.json_fields();
                for (at, (name, value)) in fields.iter().enumerate() {
                    self.begin(at, depth + 1);
                    self.key(name.as_bytes());
                    self.value(value, depth + 1)?;
                }
                self.end(fields.len(), depth, '}');
            }
        }
        Ok(())
    }

    fn key(&mut self, key: &[u8]) {
        self.text(key);
        self.out.push_str(if self.style.is_pretty { ": " } else { ":" });
    }

    fn begin(&mut self, at: usize, depth: usize) {
        if at > 0 {
            self.out.push(',');
        }
        self.line(depth);
    }

    fn end(&mut self, count: usize, depth: usize, bracket: char) {
        if count > 0 {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if self.style.is_pretty {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n("  ", depth));
        }
    }

    fn text(&mut self, text: &[u8]) {
        self.out.push('"');
        for chunk in text.utf8_chunks() {
            for letter in chunk.valid().chars() {
                self.letter(letter);
            }
            for _ in chunk.invalid() {
                self.out.push_str("\\ufffd");
            }
        }
        self.out.push('"');
    }

    fn letter(&mut self, letter: char) {
        match letter {
            '"' => self.out.push_str("\\\""),
            '\\' => self.out.push_str("\\\\"),
            '\n' => self.out.push_str("\\n"),
            '\r' => self.out.push_str("\\r"),
            '\t' => self.out.push_str("\\t"),
            '\u{8}' => self.out.push_str("\\b"),
            '\u{c}' => self.out.push_str("\\f"),
            '<' | '>' | '&' if self.style.escapes_html => self.escape(letter),
            '\0'..=' ' if letter != ' ' => self.escape(letter),
            // Also without the option: JavaScript takes them for line breaks within a string.
            '\u{2028}' | '\u{2029}' => self.escape(letter),
            letter => self.out.push(letter),
        }
    }

    fn escape(&mut self, letter: char) {
        self.out.push_str(&format!("\\u{:04x}", u32::from(letter)));
    }
}
