//! Reads an expression in Go's syntax and writes it in that of the `regex` crate.
//!
//! Follows Go 1.26, `regexp/syntax/parse.go`.

use super::class::{self, Class};
use super::{Error, MAX_DEPTH};

/// An expression for the `regex` crate, whose groups carry no names: Go's names are more liberal.
#[derive(Debug, Default)]
pub(super) struct Translated {
    pub(super) pattern: String,
    pub(super) names: Vec<String>,
}

/// More copies than these of one thing are refused, however repetitions are nested.
// Go's limit (`repeatIsValid` in regexp/syntax/parse.go): repetitions multiply, and each copy costs
// memory.
const MAX_REPEAT: u32 = 1000;

/// Translate a whole expression.
pub(super) fn translate(pattern: &str) -> Result<Translated, Error> {
    let mut translator = Translator {
        whole: pattern,
        rest: pattern,
        output: Translated::default(),
        enclosing: Vec::new(),
        sequence: Sequence::default(),
        last_repeat: None,
    };
    while let Some(next) = translator.rest.chars().next() {
        translator.step(next)?;
    }
    if !translator.enclosing.is_empty() {
        return Err(Error::new("missing closing )", pattern));
    }
    Ok(translator.output)
}

struct Translator<'a> {
    whole: &'a str,
    rest: &'a str,
    output: Translated,
    /// The sequences around the current one, outermost first.
    enclosing: Vec<Sequence>,
    sequence: Sequence,
    /// The text from the repetition operator that was read just now.
    last_repeat: Option<&'a str>,
}

/// What has been read since the group began.
#[derive(Default)]
struct Sequence {
    /// How often the innermost thing is repeated by what came last, if that can be repeated.
    last: Option<u32>,
    /// Where that ends in what has been written.
    last_end: usize,
    /// The largest such number of the whole group.
    copies: u32,
}

impl Sequence {
    fn push(&mut self, copies: u32, end: usize) {
        self.last = Some(copies);
        self.last_end = end;
        self.copies = self.copies.max(copies);
    }
}

impl<'a> Translator<'a> {
    fn step(&mut self, next: char) -> Result<(), Error> {
        let before = self.rest;
        let mut is_repeat = false;
        match next {
            '(' => self.open()?,
            ')' => self.close()?,
            '|' => {
                self.output.pattern.push('|');
                // What follows begins anew, so that `a|*` has nothing to repeat. `copies` stays: it
                // is about the whole group.
                self.sequence.last = None;
                self.advance(1);
            }
            '^' | '$' | '.' => self.atom(&before[..1], 1),
            '[' => {
                let (class, length) = class::parse(before)?;
                self.class(&class, length);
            }
            '*' | '+' | '?' => {
                self.repeat(&before[..1], 1, 1)?;
                is_repeat = true;
            }
            '{' => match counted(before) {
                None => self.literal('{', 1),
                Some(count) => {
                    self.repeat_counted(&count)?;
                    is_repeat = true;
                }
            },
            '\\' => self.escape()?,
            other => self.literal(other, other.len_utf8()),
        }
        // `a**` is refused, as in Go, which takes `**` for a typing mistake; the engine would
        // accept it.
        self.last_repeat = is_repeat.then_some(before);
        Ok(())
    }

    fn advance(&mut self, length: usize) {
        self.rest = &self.rest[length..];
    }

    fn atom(&mut self, written: &str, length: usize) {
        self.output.pattern.push_str(written);
        self.sequence.push(1, self.output.pattern.len());
        self.advance(length);
    }

    fn literal(&mut self, literal: char, length: usize) {
        class::write_char(&mut self.output.pattern, literal);
        self.sequence.push(1, self.output.pattern.len());
        self.advance(length);
    }

    fn class(&mut self, class: &Class, length: usize) {
        class.write(&mut self.output.pattern);
        self.sequence.push(1, self.output.pattern.len());
        self.advance(length);
    }

    fn escape(&mut self) -> Result<(), Error> {
        match self.rest.as_bytes().get(1) {
            Some(b'A') => self.atom(r"\A", 2),
            Some(b'z') => self.atom(r"\z", 2),
            // Go's word boundaries know ASCII words only.
            Some(b'b') => self.atom(r"(?-u:\b)", 2),
            Some(b'B') => self.atom(r"(?-u:\B)", 2),
            // RE2 reads one byte for `\C`. Go documents it as not supported, because it would split
            // characters.
            Some(b'C') => return Err(Error::new("invalid escape sequence", r"\C")),
            Some(b'Q') => self.quoted(),
            _ => {
                if let Some((class, length)) = class::escaped(self.rest)? {
                    self.class(&class, length);
                } else {
                    let (code, length) = class::escaped_char(self.rest)?;
                    match char::from_u32(code) {
                        Some(literal) => self.literal(literal, length),
                        // No text has half a surrogate pair in it.
                        None => self.class(&Class::default(), length),
                    }
                }
            }
        }
        Ok(())
    }

    fn quoted(&mut self) {
        let text = &self.rest[2..];
        let (quoted, length) = match text.find(r"\E") {
            Some(end) => (&text[..end], end + 4),
            None => (text, self.rest.len()),
        };
        for literal in quoted.chars() {
            // The text is skipped as a whole below.
            self.literal(literal, 0);
        }
        self.advance(length);
    }

    fn open(&mut self) -> Result<(), Error> {
        let Some(special) = self.rest.strip_prefix("(?") else {
            self.advance(1);
            return self.begin("(", Some(""));
        };
        let name = special.strip_prefix("P<").filter(|name| !name.is_empty());
        match name.or_else(|| special.strip_prefix('<').filter(|name| !name.is_empty())) {
            Some(name) => self.open_named(name),
            None => self.open_flags(special),
        }
    }

    fn open_named(&mut self, from_name: &'a str) -> Result<(), Error> {
        let Some(end) = from_name.find('>') else {
            return Err(Error::new("invalid named capture", self.rest));
        };
        let name = &from_name[..end];
        let length = self.rest.len() - from_name.len() + end + 1;
        if name.is_empty() || !name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
            return Err(Error::new("invalid named capture", &self.rest[..length]));
        }
        self.advance(length);
        self.begin("(", Some(name))
    }

    /// `(?flags)` or `(?flags:`, with flags the engine gives the same meaning.
    fn open_flags(&mut self, flags: &'a str) -> Result<(), Error> {
        let (mut is_negated, mut saw_flag) = (false, false);
        for (at, flag) in flags.char_indices() {
            let length = 2 + at + flag.len_utf8();
            match flag {
                'i' | 'm' | 's' | 'U' => saw_flag = true,
                '-' if !is_negated => (is_negated, saw_flag) = (true, false),
                ':' | ')' if saw_flag || !is_negated => {
                    let written = without_repetition(&self.rest[..length]);
                    self.advance(length);
                    if flag == ':' {
                        return self.begin(&written, None);
                    }
                    // The engine would take an empty group of flags for a mistake.
                    self.output.pattern.push_str(if at > 0 { &written } else { "" });
                    return Ok(());
                }
                _ => return Err(Error::new("invalid or unsupported Perl syntax", &self.rest[..length])),
            }
        }
        Err(Error::new("invalid or unsupported Perl syntax", self.rest))
    }

    fn begin(&mut self, written: &str, name: Option<&str>) -> Result<(), Error> {
        if self.enclosing.len() >= MAX_DEPTH {
            return Err(Error::new("expression nests too deeply", self.whole));
        }
        self.output.pattern.push_str(written);
        self.output.names.extend(name.map(str::to_owned));
        self.enclosing.push(std::mem::take(&mut self.sequence));
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(enclosing) = self.enclosing.pop() else {
            return Err(Error::new("unexpected )", self.whole));
        };
        self.output.pattern.push(')');
        let group = std::mem::replace(&mut self.sequence, enclosing);
        self.sequence.push(group.copies, self.output.pattern.len());
        self.advance(1);
        Ok(())
    }

    /// Repeat what came last by an operator, which `factor` more copies of it are needed for.
    fn repeat(&mut self, operator: &str, length: usize, factor: u32) -> Result<(), Error> {
        let before = self.rest;
        self.advance(length);
        let is_lazy = self.rest.starts_with('?');
        self.advance(usize::from(is_lazy));
        if let Some(last) = self.last_repeat {
            let operators = &last[..last.len() - self.rest.len()];
            return Err(Error::new("invalid nested repetition operator", operators));
        }
        let read = &before[..before.len() - self.rest.len()];
        let Some(copies) = self.sequence.last else {
            return Err(Error::new("missing argument to repetition operator", read));
        };
        let copies = copies.saturating_mul(factor);
        // A star copies nothing, so that it never makes too many, whatever it repeats.
        if factor > 1 && copies > MAX_REPEAT {
            return Err(Error::new("invalid repeat count", read));
        }
        let suffix = if is_lazy { "?" } else { "" };
        // Flags may stand between the operator and what it repeats; the engine wants them after it.
        // Inserting makes this quadratic at worst, in a pattern of manifest size; hardly ever is
        // anything moved.
        self.output.pattern.insert_str(self.sequence.last_end, &format!("{operator}{suffix}"));
        self.sequence.push(copies, self.sequence.last_end + operator.len() + suffix.len());
        Ok(())
    }

    fn repeat_counted(&mut self, count: &Count) -> Result<(), Error> {
        let operator = &self.rest[..count.length];
        let is_reversed = count.max.is_some_and(|max| count.min > max);
        if count.min > MAX_REPEAT || count.max.is_some_and(|max| max > MAX_REPEAT) || is_reversed {
            return Err(Error::new("invalid repeat count", operator));
        }
        let factor = match count.max {
            // A factor of zero makes the product zero, which lets a surrounding repetition be
            // larger, as Go computes it.
            Some(max) => max,
            None => count.min.max(1),
        };
        self.repeat(operator, count.length, factor)
    }
}

/// `{min}`, `{min,}` or `{min,max}`.
struct Count {
    min: u32,
    max: Option<u32>,
    length: usize,
}

/// Anything else in braces is plain text.
fn counted(text: &str) -> Option<Count> {
    let (inside, _) = text[1..].split_once('}')?;
    let length = inside.len() + 2;
    let Some((min, max)) = inside.split_once(',') else {
        let min = number(inside)?;
        return Some(Count { min, max: Some(min), length });
    };
    let max = if max.is_empty() { None } else { Some(number(max)?) };
    Some(Count { min: number(min)?, max, length })
}

/// A number without leading zeros. One that is far too large is as good as any other such.
fn number(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
    (is_number && !has_leading_zero).then(|| digits.parse().unwrap_or(u32::MAX))
}

/// Flags without those that were said before: the engine would take them for a mistake. The last one counts.
fn without_repetition(flags: &str) -> String {
    let (set, cleared) = flags.split_once('-').unwrap_or((flags, ""));
    let mut written = String::new();
    for flag in set.chars().filter(|flag| !cleared.contains(*flag) || !flag.is_ascii_alphabetic()) {
        if !written.contains(flag) {
            written.push(flag);
        }
    }
    if !cleared.is_empty() {
        written.push('-');
        let before = written.len();
        for flag in cleared.chars() {
            if !written[before..].contains(flag) {
                written.push(flag);
            }
        }
    }
    written
}
