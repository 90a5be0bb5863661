//! Classes of characters and escaped characters, as Go reads them.
//!
//! Follows Go 1.26, `regexp/syntax/parse.go`.

use super::Error;

/// A set of characters, as text to stand between the brackets of a class in the syntax of the `regex` crate.
#[derive(Debug, Default)]
pub(super) struct Class {
    items: String,
    is_negated: bool,
}

const EVERYTHING: &str = r"\x{0}-\x{10FFFF}";

impl Class {
    pub(super) fn write(&self, output: &mut String) {
        // An empty class matches nothing, and the opposite of nothing is everything.
        let is_negated = self.is_negated != self.items.is_empty();
        output.push_str(if is_negated { "[^" } else { "[" });
        output.push_str(if self.items.is_empty() { EVERYTHING } else { &self.items });
        output.push(']');
    }

    fn push(&mut self, other: &Class) {
        if other.is_negated {
            other.write(&mut self.items);
        } else {
            self.items.push_str(&other.items);
        }
    }

    /// Half a surrogate pair is a number to Go; to the engine it is none.
    fn push_range(&mut self, from: u32, to: u32) {
        // The range shrinks to its nearest end that is a character. One that lies within the
        // surrogates becomes empty, and matches nothing, as it does on valid text in Go.
        let from = if is_surrogate(from) { 0xE000 } else { from };
        let to = if is_surrogate(to) { 0xD7FF } else { to };
        if from <= to {
            self.items.push_str(&format!(r"\x{{{from:x}}}-\x{{{to:x}}}"));
        }
    }
}

fn is_surrogate(code: u32) -> bool {
    (0xD800..=0xDFFF).contains(&code)
}

/// Write a character so that it means itself, inside and outside a class.
pub(super) fn write_char(output: &mut String, literal: char) {
    if literal.is_ascii_alphanumeric() || !literal.is_ascii() {
        output.push(literal);
    } else {
        // Punctuation is written as a code rather than escaped: inside a class the engine has
        // operators that Go lacks (`&&`, `--`, `~~`, and nested brackets).
        output.push_str(&format!(r"\x{{{:x}}}", u32::from(literal)));
    }
}

/// The class in brackets that the text begins with, and its length.
pub(super) fn parse(text: &str) -> Result<(Class, usize), Error> {
    let mut rest = &text[1..];
    let mut class = Class::default();
    if let Some(after) = rest.strip_prefix('^') {
        class.is_negated = true;
        rest = after;
    }
    let mut is_first = true;
    loop {
        // A bracket that comes first is one of the characters.
        if !is_first && let Some(after) = rest.strip_prefix(']') {
            return Ok((class, text.len() - after.len()));
        }
        is_first = false;
        rest = item(&mut class, rest, text)?;
    }
}

/// Add what the text begins with: a named class, an escaped class, a character or a range of them.
fn item<'a>(class: &mut Class, text: &'a str, whole: &str) -> Result<&'a str, Error> {
    if let Some(length) = named(text)? {
        class.items.push_str(&text[..length]);
        return Ok(&text[length..]);
    }
    if let Some((escaped, length)) = escaped(text)? {
        class.push(&escaped);
        return Ok(&text[length..]);
    }
    let (from, length) = member(text, whole)?;
    let rest = &text[length..];
    // A hyphen at the end is one of the characters.
    let Some(after) = rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']'))
    else {
        class.push_range(from, from);
        return Ok(rest);
    };
    let (to, length) = member(after, whole)?;
    let rest = &after[length..];
    if to < from {
        return Err(Error::new("invalid character class range", &text[..text.len() - rest.len()]));
    }
    class.push_range(from, to);
    Ok(rest)
}

/// The length of the named class (`[:alpha:]`) that the text begins with. The engine knows the same ones.
fn named(text: &str) -> Result<Option<usize>, Error> {
    let Some(name) = text.strip_prefix("[:") else { return Ok(None) };
    // Without an end it is no named class to Go, but a bracket and a colon.
    let Some(end) = name.find(":]") else { return Ok(None) };
    let (name, length) = (&name[..end], end + 4);
    match name.strip_prefix('^').unwrap_or(name) {
        "alnum" | "alpha" | "ascii" | "blank" | "cntrl" | "digit" | "graph" | "lower" | "print" | "punct"
        | "space" | "upper" | "word" | "xdigit" => Ok(Some(length)),
        _ => Err(Error::new("invalid character class range", &text[..length])),
    }
}

fn member(text: &str, whole: &str) -> Result<(u32, usize), Error> {
    match text.chars().next() {
        None => Err(Error::new("missing closing ]", whole)),
        Some('\\') => escaped_char(text),
        Some(literal) => Ok((literal.into(), literal.len_utf8())),
    }
}

/// The class (`\d`, `\p{Greek}`, …) that the text begins with, if it does, and its length.
pub(super) fn escaped(text: &str) -> Result<Option<(Class, usize)>, Error> {
    let [b'\\', kind, ..] = text.as_bytes() else { return Ok(None) };
    let items = match kind {
        // These are ASCII in Go; the engine's own `\d`, `\w` and `\s` would match all of Unicode.
        b'd' | b'D' => "0-9",
        b'w' | b'W' => "0-9A-Za-z_",
        // The vertical tab is missing on purpose: Perl's `\s` has it since 5.18, Go's does not.
        b's' | b'S' => r"\t\n\x{c}\r\x{20}",
        b'p' | b'P' => return unicode(text).map(Some),
        _ => return Ok(None),
    };
    Ok(Some((Class { items: items.to_owned(), is_negated: kind.is_ascii_uppercase() }, 2)))
}

/// `\pN`, `\p{Name}`, `\p{^Name}` and their opposites with `\P`.
fn unicode(text: &str) -> Result<(Class, usize), Error> {
    let after = &text[2..];
    let (name, length) = match after.strip_prefix('{') {
        None => {
            let length = after.chars().next().map_or(0, char::len_utf8);
            (&after[..length], length + 2)
        }
        Some(inside) => {
            let end = inside.find('}');
            let end = end.ok_or_else(|| Error::new("invalid character class range", text))?;
            (&inside[..end], end + 4)
        }
    };
    let (name, is_opposite) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
    let items = property(name);
    let items = items.ok_or_else(|| Error::new("invalid character class range", &text[..length]))?;
    Ok((Class { items, is_negated: text.starts_with(r"\P") != is_opposite }, length))
}

/// Go knows scripts and general categories; the engine knows more, which is refused here.
fn property(name: &str) -> Option<String> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_- ".contains(&byte)) {
        return None;
    }
    // The prefixes keep the engine from reading the name as a property of another sort, such as
    // `Alphabetic` or an age.
    let candidates = [format!(r"\p{{gc={name}}}"), format!(r"\p{{sc={name}}}")];
    candidates.into_iter().find(|candidate| regex_syntax::parse(candidate).is_ok())
}

/// The character that the escape sequence at the beginning of the text stands for, and its length.
pub(super) fn escaped_char(text: &str) -> Result<(u32, usize), Error> {
    let Some(kind) = text[1..].chars().next() else {
        return Err(Error::new("trailing backslash at end of expression", ""));
    };
    let code = match kind {
        'a' => 0x7,
        'f' => 0xC,
        'n' => 0xA,
        'r' => 0xD,
        't' => 0x9,
        'v' => 0xB,
        '0'..='7' => return octal(text),
        'x' => return hexadecimal(text),
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => other.into(),
        other => return Err(invalid_escape(text, 1 + other.len_utf8())),
    };
    Ok((code, 2))
}

fn invalid_escape(text: &str, length: usize) -> Error {
    Error::new("invalid escape sequence", &text[..length])
}

/// Up to three digits. One alone, if it is not zero, would refer to a group: Go has no such references.
fn octal(text: &str) -> Result<(u32, usize), Error> {
    let digits = text[1..].bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte));
    let (code, length) =
        digits.fold((0, 1), |(code, length), digit| (code * 8 + u32::from(digit - b'0'), length + 1));
    if length == 2 && code != 0 {
        return Err(invalid_escape(text, 2));
    }
    Ok((code, length))
}

/// `\x7F` or `\x{10FFFF}`.
fn hexadecimal(text: &str) -> Result<(u32, usize), Error> {
    let after = &text[2..];
    let has_braces = after.starts_with('{');
    let (mut code, mut digits) = (0, 0);
    for (at, next) in after.char_indices().skip(usize::from(has_braces)) {
        let length = 2 + at + next.len_utf8();
        // `\x{}` is a mistake in Go, so the brace ends a number only after a digit.
        if has_braces && next == '}' && digits > 0 {
            return Ok((code, length));
        }
        let digit = next.to_digit(16);
        // Without braces Go reads both characters before it judges either.
        let digit = if digit.is_none() && !has_braces && digits == 0 {
            return Err(invalid_escape(
                text,
                after.chars().take(2).fold(2, |sum, next| sum + next.len_utf8()),
            ));
        } else {
            digit.ok_or_else(|| invalid_escape(text, length))?
        };
        code = code * 16 + digit;
        digits += 1;
        // Checked at every digit, which also keeps the number from overflowing.
        if code > 0x10_FFFF {
            return Err(invalid_escape(text, length));
        }
        if !has_braces && digits == 2 {
            return Ok((code, length));
        }
    }
    Err(invalid_escape(text, text.len()))
}
