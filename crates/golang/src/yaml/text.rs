//! How a text can be recorded.
//!
//! Follows go.yaml.in/yaml 2.4.3 and gopkg.in/yaml.v3 3.0.1, `emitterc.go`.

use std::borrow::Cow;

use super::Library;

/// A way to write a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// What ways a text allows.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a claim of its own")]
pub(super) struct Traits {
    is_empty: bool,
    may_be_plain: bool,
    may_be_single_quoted: bool,
    may_be_literal: bool,
}

impl Traits {
    pub(super) fn of(text: &str, library: Library) -> Self {
        let has_break = text.chars().any(is_break);
        // Version 3 leaves tabs in blocks as they are.
        let (has_tab, is_tab) =
            (text.contains('\t'), |character| library == Library::V3 && character == '\t');
        let is_special = text.chars().any(|character| !is_printable(character) && !is_tab(character));
        let is_after = |one: fn(char) -> bool, other: fn(char) -> bool| {
            text.chars().zip(text.chars().skip(1)).any(|(first, second)| other(first) && one(second))
        };
        let is_space = |character: char| character == ' ';
        let (break_space, space_break) = (is_after(is_space, is_break), is_after(is_break, is_space));
        let is_edge = |character: char| character == ' ' || is_break(character);
        let has_edge = text.starts_with(is_edge) || text.ends_with(is_edge);
        let is_broken = is_special || space_break;
        Self {
            is_empty: text.is_empty(),
            may_be_plain: !(has_edge || has_break || has_tab || is_broken || is_indicating(text)),
            may_be_single_quoted: !(break_space || has_tab || is_broken),
            // The emitter forbids a block that ends in a space (`block_allowed` in
            // `yaml_emitter_analyze_scalar`).
            may_be_literal: !(text.is_empty() || text.ends_with(' ') || is_broken),
        }
    }

    /// The style to use when this one is wanted.
    pub(super) fn style(&self, wanted: Style, is_key: bool) -> Style {
        match wanted {
            Style::Plain if self.may_be_plain && !(self.is_empty && is_key) => Style::Plain,
            Style::Plain | Style::Single if self.may_be_single_quoted => Style::Single,
            Style::Literal if self.may_be_literal && !is_key => Style::Literal,
            _ => Style::Double,
        }
    }
}

/// Whether a text would be taken for something else if it stood there by itself.
fn is_indicating(text: &str) -> bool {
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    let mut before = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_last = characters.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
        let indicates = match (before, character) {
            // These mean something only before a space: `-1`, `?a` and `a:b` stay plain.
            (None, '?' | '-') | (_, ':') => is_last,
            (None, first) => "#,[]{}&*!|>'\"%@`".contains(first),
            (Some(before), '#') => matches!(before, ' ' | '\t' | '\0') || is_break(before),
            _ => false,
        };
        if indicates {
            return true;
        }
        before = Some(character);
    }
    false
}

/// Whether a line ends here.
pub(super) fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(character: char) -> bool {
    // Everything past U+FFFF, such as emoji, is escaped: the original's `is_printable`
    // (yamlprivateh.go) ends with sequences of three bytes.
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{fffd}') && character != '\u{feff}'
}

/// Whether a character cannot stand for itself between double quotes.
pub(super) fn needs_escape(character: char) -> bool {
    !is_printable(character) || is_break(character) || matches!(character, '"' | '\\')
}

/// What a character is between double quotes.
pub(super) fn escape(character: char) -> String {
    let short = match character {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => return escape_code(u32::from(character)),
    };
    format!("\\{short}")
}

fn escape_code(code: u32) -> String {
    match code {
        0..=0xff => format!("\\x{code:02X}"),
        0x100..=0xffff => format!("\\u{code:04X}"),
        _ => format!("\\U{code:08X}"),
    }
}

/// The one kind of line break that JSON does not escape, and that YAML folds when it reads JSON.
pub(super) fn without_next_lines(text: &str) -> Cow<'_, str> {
    const NEXT_LINE: char = '\u{85}';
    if !text.contains(NEXT_LINE) {
        return Cow::Borrowed(text);
    }
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(NEXT_LINE) {
        let after = rest[at..].trim_start_matches([' ', NEXT_LINE]);
        let gap = &rest[at..rest.len() - after.len()];
        folded.push_str(rest[..at].trim_end_matches(' '));
        match gap.matches(NEXT_LINE).count() {
            1 => folded.push(' '),
            breaks => folded.extend(std::iter::repeat_n('\n', breaks - 1)),
        }
        rest = after;
    }
    folded.push_str(rest);
    Cow::Owned(folded)
}
