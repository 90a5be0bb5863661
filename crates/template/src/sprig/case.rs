//! Names in other cases: `snake_case`, `kebab-case`, `PascalCase`.
//!
//! Follows xstrings 1.5.0, `convert.go` (`ToPascalCase`, `camelCaseToLowerCase`, `nextWord`).

use ferroplane_golang::unicode::{is_letter, is_number, is_punctuation, is_upper, to_lower, to_upper};

fn is_connector(character: char) -> bool {
    matches!(character, '-' | '_') || character.is_whitespace()
}

/// Letters of words, which Chinese characters are not.
fn is_alphabetic(character: char) -> bool {
    let is_ideograph = matches!(character,
        '\u{4e00}'..='\u{9fcc}' | '\u{3400}'..='\u{4d85}' | '\u{20000}'..='\u{2b81d}');
    is_letter(character) && !is_ideograph
}

/// Words without what connects them, each with its first letter in upper case. Connectors at both ends and all but one of
/// several stay.
pub(super) fn pascal(text: &str) -> String {
    let mut cased = String::with_capacity(text.len());
    let mut rest = text.chars();
    let mut before = None;
    // Whether the word so far is in upper case, so that the rest of it is changed.
    let mut is_shouted = false;
    for character in rest.by_ref() {
        before = Some(character);
        if !is_connector(character) {
            is_shouted = is_upper(character);
            before = Some(to_upper(character));
            break;
        }
        cased.push(character);
    }
    let Some(mut before) = before else { return cased };
    if rest.as_str().is_empty() {
        // Go writes the last one again, even if it is a connector.
        cased.push(before);
        return cased;
    }
    for mut character in rest {
        match (is_connector(before), is_connector(character)) {
            (true, true) => cased.push(before),
            (true, false) => {
                is_shouted = is_upper(character);
                character = to_upper(character);
            }
            (false, _) => {
                if is_shouted && is_upper(character) {
                    character = to_lower(character);
                } else {
                    is_shouted = false;
                }
                cased.push(before);
            }
        }
        before = character;
    }
    cased.push(before);
    cased
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing, or nothing that is UTF-8.
    Invalid,
    Number,
    Upper,
    Alphabetic,
    Connector,
    Punctuation,
    Other,
}

/// Words in lower case with a connector between them.
pub(super) fn separated(text: &[u8], connector: char) -> Vec<u8> {
    let mut writer = Writer { out: Vec::with_capacity(text.len()), connector };
    let mut word = next_word(text);
    while !word.rest.is_empty() {
        if word.kind != Kind::Connector {
            writer.lower(word.kind, word.text);
        }
        let before = word;
        word = next_word(word.rest);
        match before.kind {
            Kind::Number => {
                word = writer.letters_and_numbers(word);
                writer.connect_unless(word.kind, &[Kind::Invalid, Kind::Punctuation, Kind::Connector]);
            }
            Kind::Connector => writer.lower(before.kind, before.text),
            Kind::Punctuation => {}
            _ if word.kind != Kind::Number => {
                writer.connect_unless(word.kind, &[Kind::Connector, Kind::Punctuation]);
            }
            // A number at the very end belongs to the word before it.
            _ if word.rest.is_empty() => {}
            _ => word = writer.number(word),
        }
    }
    writer.lower(word.kind, word.text);
    writer.out
}

struct Writer {
    out: Vec<u8>,
    connector: char,
}

impl Writer {
    fn push(&mut self, character: char) {
        self.out.extend(character.encode_utf8(&mut [0; 4]).bytes());
    }

    fn connect_unless(&mut self, next: Kind, kinds: &[Kind]) {
        if !kinds.contains(&next) {
            self.push(self.connector);
        }
    }

    fn lower(&mut self, kind: Kind, word: &[u8]) {
        if !matches!(kind, Kind::Upper | Kind::Connector) {
            self.out.extend_from_slice(word);
            return;
        }
        for character in ferroplane_golang::fmt::to_text(word).chars() {
            let changed = match character {
                character if is_connector(character) => self.connector,
                character if is_upper(character) => to_lower(character),
                character => character,
            };
            self.push(changed);
        }
    }

    fn letters_and_numbers<'t>(&mut self, mut word: Word<'t>) -> Word<'t> {
        while matches!(word.kind, Kind::Alphabetic | Kind::Number) {
            self.lower(word.kind, word.text);
            word = next_word(word.rest);
        }
        word
    }

    /// A number after a word and before something. It belongs to what follows if that begins in lower case (`http_2xx`),
    /// else to the word before it (`bld4_floor`).
    fn number<'t>(&mut self, number: Word<'t>) -> Word<'t> {
        let next = next_word(number.rest);
        if next.kind != Kind::Alphabetic {
            self.lower(Kind::Number, number.text);
            self.connect_unless(next.kind, &[Kind::Connector, Kind::Punctuation]);
            return next;
        }
        self.push(self.connector);
        self.lower(Kind::Number, number.text);
        let next = self.letters_and_numbers(next);
        self.connect_unless(next.kind, &[Kind::Invalid, Kind::Connector, Kind::Punctuation]);
        next
    }
}

#[derive(Clone, Copy)]
struct Word<'t> {
    kind: Kind,
    text: &'t [u8],
    rest: &'t [u8],
}

/// The word that the text begins with.
fn next_word(text: &[u8]) -> Word<'_> {
    let (first, length) = next_character(text, None);
    let Some(first) = first else {
        let (text, rest) = text.split_at(length);
        return Word { kind: Kind::Invalid, text, rest };
    };
    let (kind, end) = if is_connector(first) {
        (Kind::Connector, run(text, length, first, is_connector))
    } else if is_punctuation(first) {
        (Kind::Punctuation, run(text, length, first, is_punctuation))
    } else if is_upper(first) {
        (Kind::Upper, upper_end(text, length, first))
    } else if is_alphabetic(first) {
        (Kind::Alphabetic, run(text, length, first, is_small))
    } else if is_number(first) {
        (Kind::Number, run(text, length, first, is_number))
    } else {
        let is_other = |other| {
            !is_connector(other) && !is_alphabetic(other) && !is_number(other) && !is_punctuation(other)
        };
        (Kind::Other, run(text, length, first, is_other))
    };
    let (word, rest) = text.split_at(end);
    Word { kind, text: word, rest }
}

fn is_small(character: char) -> bool {
    is_alphabetic(character) && !is_upper(character)
}

/// Where a word ends that begins in upper case: `HTTP` of `HTTPStatus`, `Status` of `StatusCode`.
fn upper_end(text: &[u8], start: usize, first: char) -> usize {
    if start == text.len() {
        return start;
    }
    let (second, length) = next_character(&text[start..], Some(first));
    let Some(second) = second else { return start };
    if !is_upper(second) {
        return if is_alphabetic(second) { run(text, start + length, second, is_small) } else { start };
    }
    let (mut end, mut last_length, mut character) = (start + length, length, second);
    while end < text.len() {
        let (next, length) = next_character(&text[end..], Some(character));
        character = next.unwrap_or(character);
        if !is_upper(character) {
            break;
        }
        last_length = length;
        end += length;
    }
    // The last letter begins the next word.
    if end < text.len() && is_alphabetic(character) { end - last_length } else { end }
}

/// Where characters of a class end.
fn run(text: &[u8], start: usize, first: char, is_in_class: impl Fn(char) -> bool) -> usize {
    let (mut end, mut character) = (start, first);
    while end < text.len() {
        let (next, length) = next_character(&text[end..], Some(character));
        character = next.unwrap_or(character);
        if !is_in_class(character) {
            break;
        }
        end += length;
    }
    end
}

/// The next character that is valid, and the length of it and of what is invalid before it. If there is none, what came
/// before counts again.
fn next_character(text: &[u8], before: Option<char>) -> (Option<char>, usize) {
    let mut length = 0;
    while length < text.len() {
        // No character is longer than this, and decoding reads all that it is given.
        let window = &text[length..text.len().min(length + 4)];
        let Some((character, size)) = super::strings::decode(window).next() else { break };
        length += size;
        if character != char::REPLACEMENT_CHARACTER {
            return (Some(character), length);
        }
    }
    (before, length)
}
