//! Splits the source into tokens.
//!
//! Follows cel-go 0.29.2, `parser/gen`, `parser/unescape.go`.

use super::source::{Mistake, Position};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'s> {
    /// An operator, a bracket, or the word `in`.
    Symbol(&'static str),
    Identifier(&'s str),
    /// A name in backquotes, without them.
    Escaped(&'s str),
    Int(&'s str),
    Uint(&'s str),
    Double(&'s str),
    /// With its quotes and the letter before them.
    String(&'s str),
    Bytes(&'s str),
    Bool(bool),
    Null,
    End,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'s> {
    pub(super) token: Token<'s>,
    pub(super) position: Position,
    pub(super) text: &'s str,
}

/// Longer ones first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 25] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "in",
];

/// All tokens, the last of which is the end, and what could not be read.
pub(super) fn tokens(source: &str) -> (Vec<Placed<'_>>, Vec<Mistake>) {
    let mut lexer = Lexer { rest: source, position: 0 };
    let (mut tokens, mut mistakes) = (Vec::new(), Vec::new());
    loop {
        lexer.skip_space();
        let position = Position(lexer.position);
        if lexer.rest.is_empty() {
            tokens.push(Placed { token: Token::End, position, text: "<EOF>" });
            return (tokens, mistakes);
        }
        let (length, token) = lexer.next();
        let text = lexer.take(length);
        if let Some(token) = token {
            tokens.push(Placed { token, position, text });
        } else {
            let message = format!("Syntax error: token recognition error at: '{text}'");
            mistakes.push(Mistake::new(position, message));
        }
    }
}

struct Lexer<'s> {
    rest: &'s str,
    position: u32,
}

impl<'s> Lexer<'s> {
    fn take(&mut self, length: usize) -> &'s str {
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        // The size of the source is limited far below what fits.
        self.position += u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        text
    }

    fn skip_space(&mut self) {
        loop {
            let space = self.rest.find(|c| !matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}'));
            self.take(space.unwrap_or(self.rest.len()));
            if !self.rest.starts_with("//") {
                return;
            }
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    /// The length of the next token, and what it is if it is one.
    fn next(&self) -> (usize, Option<Token<'s>>) {
        // Texts come first: `r"..."` and `b'...'` begin like a word.
        if let Some(found) = self.text().or_else(|| self.number()).or_else(|| self.word()) {
            return found;
        }
        match SYMBOLS.into_iter().find(|symbol| self.rest.starts_with(symbol)) {
            Some(symbol) => (symbol.len(), Some(Token::Symbol(symbol))),
            None => (self.rest.chars().next().map_or(0, char::len_utf8), None),
        }
    }

    fn word(&self) -> Option<(usize, Option<Token<'s>>)> {
        if let Some(after) = self.rest.strip_prefix('`') {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
            let length = after.find(|c| !is_allowed(c)).unwrap_or(after.len());
            let is_closed = length > 0 && after[length..].starts_with('`');
            return is_closed.then(|| (length + 2, Some(Token::Escaped(&after[..length]))));
        }
        let first = self.rest.chars().next()?;
        if !first.is_ascii_alphabetic() && first != '_' {
            return None;
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let text = &self.rest[..end.unwrap_or(self.rest.len())];
        let token = match text {
            "true" => Token::Bool(true),
            "false" => Token::Bool(false),
            "null" => Token::Null,
            "in" => Token::Symbol("in"),
            _ => Token::Identifier(text),
        };
        Some((text.len(), Some(token)))
    }

    fn number(&self) -> Option<(usize, Option<Token<'s>>)> {
        let digits = |from: usize| {
            let end = self.rest[from..].find(|c: char| !c.is_ascii_digit());
            end.map_or(self.rest.len(), |end| from + end)
        };
        let is = |at: usize, wanted: &str| self.rest[at..].starts_with(|c| wanted.contains(c));
        if let Some(after) = self.rest.strip_prefix("0x") {
            let length = after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len());
            if length > 0 {
                return Some(self.integer(length + 2));
            }
        }
        let whole = digits(0);
        let mut end = whole;
        // A point needs a digit after it, or `1.size()` could not be written.
        if is(whole, ".") && digits(whole + 1) > whole + 1 {
            end = digits(whole + 1);
        } else if whole == 0 {
            return None;
        }
        if is(end, "eE") {
            let sign = usize::from(is(end + 1, "+-"));
            let exponent = digits(end + 1 + sign);
            if exponent > end + 1 + sign {
                end = exponent;
            }
        }
        if end == whole {
            return Some(self.integer(whole));
        }
        Some((end, Some(Token::Double(&self.rest[..end]))))
    }

    fn integer(&self, length: usize) -> (usize, Option<Token<'s>>) {
        let text = &self.rest[..length];
        if self.rest[length..].starts_with(['u', 'U']) {
            return (length + 1, Some(Token::Uint(text)));
        }
        (length, Some(Token::Int(text)))
    }

    /// A string or bytes, raw or not, in one or three quotes.
    fn text(&self) -> Option<(usize, Option<Token<'s>>)> {
        let mut at = 0;
        let is_bytes = self.rest.starts_with(['b', 'B']);
        at += usize::from(is_bytes);
        let is_raw = self.rest[at..].starts_with(['r', 'R']);
        at += usize::from(is_raw);
        let quoted = &self.rest[at..];
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| quoted.starts_with(quote))?;
        let Some(length) = quoted_length(&quoted[quote.len()..], quote, is_raw) else {
            // An unclosed triple quote may still be an empty string followed by a quote.
            if quote.len() == 3 {
                let text = &self.rest[..at + 2];
                return Some((at + 2, Some(if is_bytes { Token::Bytes(text) } else { Token::String(text) })));
            }
            let line = self.rest.find(['\n', '\r']).unwrap_or(self.rest.len());
            // At least one character, or the lexer would stand still before a line break.
            return Some((line.max(1), None));
        };
        let end = at + quote.len() + length + quote.len();
        let text = &self.rest[..end];
        Some((end, Some(if is_bytes { Token::Bytes(text) } else { Token::String(text) })))
    }
}

/// How much there is before the closing quote.
fn quoted_length(text: &str, quote: &str, is_raw: bool) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let next = rest.chars().next()?;
        if rest.starts_with(quote) {
            return Some(at);
        }
        if quote.len() == 1 && matches!(next, '\n' | '\r') {
            return None;
        }
        at += next.len_utf8();
        if next == '\\' && !is_raw {
            let escaped = text[at..].chars().next()?;
            // The grammar does not know other escapes, so that the quote never closes: a bad escape is a bad
            // token, not a bad literal.
            if !"abfnrtv\"'\\?`xXuU0123".contains(escaped) {
                return None;
            }
            at += escaped.len_utf8();
        }
    }
    None
}

/// What a quoted text means, as bytes. Text that is not meant as bytes comes out as UTF-8.
pub(super) fn unquote(quoted: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    let text = if is_bytes { &quoted[1..] } else { quoted };
    // Line breaks are normalised even in raw strings, as in `unescape.go`.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let raw = text.strip_prefix(['r', 'R']);
    let inner = raw.unwrap_or(&text);
    let inner = ["'''", "\"\"\"", "'", "\""]
        .into_iter()
        .find_map(|quote| inner.strip_prefix(quote)?.strip_suffix(quote))
        .ok_or("unable to unescape string")?;
    if raw.is_some() || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut result = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(next) = rest.chars().next() {
        rest = &rest[next.len_utf8()..];
        if next == '\\' {
            rest = unescape(rest, is_bytes, &mut result)?;
        } else {
            result.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(result)
}

/// Reads one escape sequence, after its backslash, and returns what follows it.
fn unescape<'t>(text: &'t str, is_bytes: bool, result: &mut Vec<u8>) -> Result<&'t str, &'static str> {
    const UNABLE: &str = "unable to unescape string";
    let kind = text.chars().next().ok_or("unable to unescape string, found '\\' as last character")?;
    let rest = &text[kind.len_utf8()..];
    let (digits, radix) = match kind {
        'x' | 'X' => (2, 16),
        // Bytes are no text, and have no escapes for code points.
        'u' if !is_bytes => (4, 16),
        'U' if !is_bytes => (8, 16),
        '0'..='3' => (3, 8),
        _ => {
            let at = "abfnrtv\\'\"`?".find(kind).ok_or(UNABLE)?;
            result.push(b"\x07\x08\x0c\n\r\t\x0b\\'\"`?"[at]);
            return Ok(rest);
        }
    };
    let from = if radix == 8 { text } else { rest };
    let unable = if radix == 8 { "unable to unescape octal sequence in string" } else { UNABLE };
    let number = from.get(..digits).filter(|number| number.chars().all(|c| c.is_digit(radix)));
    let number = number.and_then(|number| u32::from_str_radix(number, radix).ok()).ok_or(unable)?;
    if is_bytes {
        // In bytes, `\xff` is one byte; in text it is the character U+00FF.
        result.push(u8::try_from(number).map_err(|_| unable)?);
    } else {
        let character = char::from_u32(number).ok_or("invalid unicode code point")?;
        result.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(&from[digits..])
}
