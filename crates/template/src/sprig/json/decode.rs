//! Reads JSON.
//!
//! Follows Go 1.26, `encoding/json/scanner.go` (what is wrong), `encoding/json/decode.go`.

use std::collections::BTreeMap;

use ferroplane_golang::strconv::{parse_float, quote};

use crate::{Context, Exhausted, Failure, Value};

/// How deep a document may be nested. Go allows 10,000, and has a stack that grows.
const MAX_DEPTH: usize = 300;

/// What a document says, and what is wrong with it. A mistake in the syntax leaves nothing; a number that is too large
/// leaves the rest.
pub(in super::super) fn decode(
    ctx: &mut Context<'_>,
    text: &[u8],
) -> Result<(Value, Option<String>), Failure> {
    let mut reader = Reader { ctx, text, at: 0, problem: None };
    let value = reader.spaces().and_then(|()| reader.value(0)).and_then(|value| reader.end().map(|()| value));
    match value {
        Ok(value) => Ok((value, reader.problem)),
        Err(Stop::Syntax(problem)) => Ok((Value::Nil, Some(problem))),
        Err(Stop::Failure(failure)) => Err(failure),
    }
}

enum Stop {
    Syntax(String),
    Failure(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Exhausted> for Stop {
    fn from(limit: Exhausted) -> Self {
        Self::Failure(limit.into())
    }
}

struct Reader<'r, 'e> {
    ctx: &'r mut Context<'e>,
    text: &'r [u8],
    at: usize,
    /// A mistake that does not end the reading.
    problem: Option<String>,
}

impl Reader<'_, '_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// What is wrong within a word, a number or an escape. Go reads a space after the end here.
    fn wrong_inside<T>(&self, place: &str) -> Result<T, Stop> {
        match self.peek() {
            None => Err(Stop::Syntax(format!("invalid character ' ' {place}"))),
            Some(_) => self.wrong(place),
        }
    }

    /// What is wrong with the next byte, which Go takes for a character.
    fn wrong<T>(&self, place: &str) -> Result<T, Stop> {
        let problem = match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(b'\'') => format!(r"invalid character '\'' {place}"),
            Some(b'"') => format!("invalid character '\"' {place}"),
            Some(byte) => {
                let quoted = quote(char::from(byte).encode_utf8(&mut [0; 4]));
                format!("invalid character '{}' {place}", &quoted[1..quoted.len() - 1])
            }
        };
        Err(Stop::Syntax(problem))
    }

    fn spaces(&mut self) -> Result<(), Stop> {
        let count = self.text[self.at..].iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
        self.at += count;
        Ok(self.ctx.step(count as u64 / 256)?)
    }

    fn end(&mut self) -> Result<(), Stop> {
        self.spaces()?;
        if self.at == self.text.len() { Ok(()) } else { self.wrong("after top-level value") }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        self.ctx.step(1)?;
        self.ctx.charge(size_of::<Value>())?;
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::text(self.string()?)),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Nil),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.wrong("looking for beginning of value"),
        }
    }

    fn check_depth(depth: usize) -> Result<(), Stop> {
        if depth < MAX_DEPTH { Ok(()) } else { Err(Stop::Syntax("exceeded max depth".to_owned())) }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Stop> {
        Self::check_depth(depth)?;
        self.at += 1;
        let mut entries = BTreeMap::new();
        self.spaces()?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(self.ctx.map(entries)?);
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.wrong("looking for beginning of object key string");
            }
            let key = self.string()?;
            self.spaces()?;
            if self.peek() != Some(b':') {
                return self.wrong("after object key");
            }
            self.at += 1;
            self.spaces()?;
            let value = self.value(depth + 1)?;
            entries.insert(key.into(), value);
            self.spaces()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return self.wrong("after object key:value pair"),
            }
            self.spaces()?;
        }
        self.at += 1;
        Ok(self.ctx.map(entries)?)
    }

    fn array(&mut self, depth: usize) -> Result<Value, Stop> {
        Self::check_depth(depth)?;
        self.at += 1;
        let mut items = Vec::new();
        self.spaces()?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(self.ctx.list(items)?);
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.spaces()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return self.wrong("after array element"),
            }
            self.spaces()?;
        }
        self.at += 1;
        Ok(self.ctx.list(items)?)
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, Stop> {
        for (at, letter) in word.bytes().enumerate() {
            if self.peek() != Some(letter) {
                let place = format!("in literal {word} (expecting '{}')", char::from(word.as_bytes()[at]));
                return self.wrong_inside(&place);
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Stop> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.wrong_inside("in numeric literal"),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let text = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        let Some(float) = parse_float(&text) else {
            let problem = format!("json: cannot unmarshal number {text} into Go value of type float64");
            self.problem.get_or_insert(problem);
            // Go reports the first such number and reads on.
            return Ok(Value::Nil);
        };
        Ok(Value::Float(float))
    }

    fn digits(&mut self) {
        self.at += self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    }

    fn some_digits(&mut self, place: &str) -> Result<(), Stop> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return self.wrong_inside(place);
        }
        self.digits();
        Ok(())
    }

    /// Text in quotes. What is no UTF-8, and half of a surrogate pair, becomes a replacement character.
    fn string(&mut self) -> Result<String, Stop> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let plain =
                self.text[self.at..].iter().take_while(|byte| **byte >= b' ' && !b"\"\\".contains(byte));
            let end = self.at + plain.count();
            self.ctx.charge(end - self.at)?;
            // Cutting at ASCII characters never cuts through a character.
            text.push_str(&ferroplane_golang::fmt::to_text(&self.text[self.at..end]));
            self.at = end;
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => text.push(self.escape()?),
                _ => return self.wrong("in string literal"),
            }
        }
        self.at += 1;
        Ok(text)
    }

    fn escape(&mut self) -> Result<char, Stop> {
        self.at += 1;
        let letter = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.code_point(),
            _ => return self.wrong_inside("in string escape code"),
        };
        self.at += 1;
        Ok(letter)
    }

    /// The character of `\uxxxx`, or of two of them that are a surrogate pair.
    fn code_point(&mut self) -> Result<char, Stop> {
        let first = self.four_digits()?;
        if let Some(letter) = char::from_u32(first) {
            return Ok(letter);
        }
        let before = self.at;
        if first < 0xdc00 && self.text[self.at..].starts_with(b"\\u") {
            self.at += 1;
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        // The second one is no partner, and is read again for itself.
        self.at = before;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_digits(&mut self) -> Result<u32, Stop> {
        self.at += 1;
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return self.wrong_inside("in \\u hexadecimal character escape") };
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }
}
