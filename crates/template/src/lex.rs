//! Cuts a template into items: text, and what is between the delimiters.
//!
//! Items are cut when they are asked for: a mistake behind the first one is never seen.
//!
//! Follows Go 1.26, `text/template/parse/lex.go`.

use ferroplane_golang::fmt::{Any, sprintf};
use ferroplane_golang::strconv::{is_print, quote};
use ferroplane_golang::unicode::{is_digit, is_letter};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Error,
    Bool,
    /// A printable character that means nothing by itself, like the comma.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelimiter,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelimiter,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl Kind {
    fn of_keyword(word: &str) -> Option<Self> {
        Some(match word {
            "block" => Self::Block,
            "break" => Self::Break,
            "continue" => Self::Continue,
            "define" => Self::Define,
            "else" => Self::Else,
            "end" => Self::End,
            "if" => Self::If,
            "range" => Self::Range,
            "nil" => Self::Nil,
            "template" => Self::Template,
            "with" => Self::With,
            _ => return None,
        })
    }

    fn is_keyword(self) -> bool {
        use Kind::{Block, Break, Continue, Define, Dot, Else, End, If, Nil, Range, Template, With};
        matches!(
            self,
            Block | Break | Continue | Dot | Define | Else | End | If | Nil | Range | Template | With
        )
    }
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item<'t> {
    pub(crate) kind: Kind,
    pub(crate) position: usize,
    pub(crate) text: &'t str,
    pub(crate) line: usize,
    /// What is wrong, for an error.
    pub(crate) problem: Option<String>,
}

impl Item<'_> {
    /// The item as messages show it.
    pub(crate) fn shown(&self) -> String {
        match self.kind {
            Kind::Eof => "EOF".to_owned(),
            Kind::Error => self.problem.clone().unwrap_or_default(),
            kind if kind.is_keyword() => format!("<{}>", self.text),
            _ if self.text.len() > 10 => {
                let start: String = self.text.chars().take(10).collect();
                format!("{}...", quote(&start))
            }
            _ => quote(self.text),
        }
    }
}

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
const LEFT_COMMENT: &str = "/*";
const RIGHT_COMMENT: &str = "*/";
/// A trim marker and the space that belongs to it.
const TRIM_MARKER: usize = 2;

#[derive(Debug)]
pub(crate) struct Lexer<'t> {
    input: &'t str,
    left: &'t str,
    right: &'t str,
    position: usize,
    start: usize,
    line: usize,
    start_line: usize,
    paren_depth: usize,
    is_inside_action: bool,
    /// Whether `break` and `continue` are keywords: they are not where functions have these names.
    pub(crate) breaks: bool,
    pub(crate) continues: bool,
}

/// What comes next: an item, or another part of the lexer.
enum Next<'t> {
    Item(Item<'t>),
    Text,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(input: &'t str, left: &'t str, right: &'t str) -> Self {
        Self {
            input,
            left,
            right,
            position: 0,
            start: 0,
            line: 1,
            start_line: 1,
            paren_depth: 0,
            is_inside_action: false,
            breaks: true,
            continues: true,
        }
    }

    pub(crate) fn next_item(&mut self) -> Item<'t> {
        if self.is_inside_action {
            return self.inside_action();
        }
        loop {
            match self.text() {
                Next::Item(item) => return item,
                // A comment ended: what follows is text again.
                Next::Text => {}
            }
        }
    }

    fn rest(&self) -> &'t str {
        &self.input[self.position..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.position += letter.len_utf8();
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn back(&mut self, letter: Option<char>) {
        let Some(letter) = letter else { return };
        self.position -= letter.len_utf8();
        self.line -= usize::from(letter == '\n');
    }

    fn item(&mut self, kind: Kind) -> Item<'t> {
        let item = Item {
            kind,
            position: self.start,
            text: &self.input[self.start..self.position],
            line: self.start_line,
            problem: None,
        };
        self.start = self.position;
        self.start_line = self.line;
        item
    }

    /// Skips what is pending, and counts its lines.
    fn ignore(&mut self) {
        self.count_lines();
        self.start = self.position;
        self.start_line = self.line;
    }

    fn count_lines(&mut self) {
        self.line += self.input[self.start..self.position].matches('\n').count();
    }

    fn accept(&mut self, valid: &str) -> bool {
        let letter = self.next();
        if letter.is_some_and(|letter| valid.contains(letter)) {
            return true;
        }
        self.back(letter);
        false
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    fn error(&mut self, problem: impl Into<String>) -> Item<'t> {
        let item = Item {
            kind: Kind::Error,
            position: self.start,
            text: "",
            line: self.start_line,
            problem: Some(problem.into()),
        };
        // Nothing behind a mistake is read.
        self.input = "";
        self.start = 0;
        self.position = 0;
        item
    }

    fn text(&mut self) -> Next<'t> {
        let Some(length) = self.rest().find(self.left) else {
            self.position = self.input.len();
            if self.position == self.start {
                let mut item = self.item(Kind::Eof);
                item.text = "EOF";
                return Next::Item(item);
            }
            self.count_lines();
            return Next::Item(self.item(Kind::Text));
        };
        if length > 0 {
            self.position += length;
            let after = &self.input[self.position + self.left.len()..];
            let before = &self.input[self.start..self.position];
            let trimmed = if has_left_trim_marker(after) {
                before.len() - before.trim_end_matches(SPACE).len()
            } else {
                0
            };
            self.position -= trimmed;
            self.count_lines();
            let item = self.item(Kind::Text);
            self.position += trimmed;
            self.ignore();
            if !item.text.is_empty() {
                return Next::Item(item);
            }
        }
        self.left_delimiter()
    }

    fn left_delimiter(&mut self) -> Next<'t> {
        self.position += self.left.len();
        let marker = if has_left_trim_marker(self.rest()) { TRIM_MARKER } else { 0 };
        if self.rest()[marker..].starts_with(LEFT_COMMENT) {
            self.position += marker;
            self.ignore();
            return self.comment();
        }
        let item = self.item(Kind::LeftDelimiter);
        self.is_inside_action = true;
        self.position += marker;
        self.ignore();
        // Parentheses never reach from one action into another.
        self.paren_depth = 0;
        Next::Item(item)
    }

    fn comment(&mut self) -> Next<'t> {
        self.position += LEFT_COMMENT.len();
        let Some(length) = self.rest().find(RIGHT_COMMENT) else {
            return Next::Item(self.error("unclosed comment"));
        };
        self.position += length + RIGHT_COMMENT.len();
        let Some(marker) = self.at_right_delimiter() else {
            return Next::Item(self.error("comment ends before closing delimiter"));
        };
        self.ignore();
        self.position += marker + self.right.len();
        if marker > 0 {
            self.skip_trimmed();
        }
        self.ignore();
        Next::Text
    }

    /// Skips the space behind a delimiter with a trim marker.
    fn skip_trimmed(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start_matches(SPACE).len();
    }

    /// Whether a right delimiter is next: how long the trim marker before it is.
    fn at_right_delimiter(&self) -> Option<usize> {
        let rest = self.rest();
        if has_right_trim_marker(rest) && rest[TRIM_MARKER..].starts_with(self.right) {
            return Some(TRIM_MARKER);
        }
        rest.starts_with(self.right).then_some(0)
    }

    fn right_delimiter(&mut self) -> Item<'t> {
        let marker = self.at_right_delimiter().unwrap_or(0);
        if marker > 0 {
            self.position += marker;
            self.ignore();
        }
        self.position += self.right.len();
        let item = self.item(Kind::RightDelimiter);
        if marker > 0 {
            self.skip_trimmed();
            self.ignore();
        }
        self.is_inside_action = false;
        item
    }

    fn inside_action(&mut self) -> Item<'t> {
        if self.at_right_delimiter().is_some() {
            if self.paren_depth == 0 {
                return self.right_delimiter();
            }
            return self.error("unclosed left paren");
        }
        let Some(letter) = self.next() else { return self.error("unclosed action") };
        match letter {
            _ if SPACE.contains(&letter) => {
                self.back(Some(letter));
                self.space()
            }
            '=' => self.item(Kind::Assign),
            ':' => self.declare(),
            '|' => self.item(Kind::Pipe),
            '"' => self.quoted('"', Kind::String, "unterminated quoted string"),
            '\'' => self.quoted('\'', Kind::CharConstant, "unterminated character constant"),
            '`' => self.raw_quoted(),
            '$' => self.field_or_variable(Kind::Variable),
            // A point before anything but a digit starts a field.
            '.' if self.rest().bytes().next().is_some_and(|byte| !byte.is_ascii_digit()) => {
                self.field_or_variable(Kind::Field)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.back(Some(letter));
                self.number()
            }
            _ if is_alphanumeric(letter) => {
                self.back(Some(letter));
                self.identifier()
            }
            '(' => {
                self.paren_depth += 1;
                self.item(Kind::LeftParen)
            }
            ')' if self.paren_depth == 0 => self.error("unexpected right paren"),
            ')' => {
                self.paren_depth -= 1;
                self.item(Kind::RightParen)
            }
            ' '..='~' => self.item(Kind::Char),
            _ => self.error(format!("unrecognized character in action: {}", code_point(Some(letter)))),
        }
    }

    fn declare(&mut self) -> Item<'t> {
        if self.next() == Some('=') { self.item(Kind::Declare) } else { self.error("expected :=") }
    }

    fn space(&mut self) -> Item<'t> {
        let mut count = 0;
        let mut last = None;
        while let Some(letter) = self.peek().filter(|letter| SPACE.contains(letter)) {
            self.next();
            last = Some(letter);
            count += 1;
        }
        // The last space may belong to a trim marker.
        let tail = &self.input[self.position - 1..];
        if has_right_trim_marker(tail) && tail[TRIM_MARKER..].starts_with(self.right) {
            self.back(last);
            // It was the only space, so that there is none to give before the delimiter.
            if count == 1 {
                return self.right_delimiter();
            }
        }
        self.item(Kind::Space)
    }

    fn skip_alphanumeric(&mut self) {
        while self.peek().is_some_and(is_alphanumeric) {
            self.next();
        }
    }

    fn identifier(&mut self) -> Item<'t> {
        self.skip_alphanumeric();
        if !self.at_terminator() {
            return self.bad_character();
        }
        let kind = match &self.input[self.start..self.position] {
            "break" if !self.breaks => Kind::Identifier,
            "continue" if !self.continues => Kind::Identifier,
            "true" | "false" => Kind::Bool,
            word => Kind::of_keyword(word).unwrap_or(Kind::Identifier),
        };
        self.item(kind)
    }

    fn field_or_variable(&mut self, kind: Kind) -> Item<'t> {
        if self.at_terminator() {
            // A dollar sign alone is the variable `$`, a point alone is the cursor.
            return self.item(if kind == Kind::Variable { kind } else { Kind::Dot });
        }
        self.skip_alphanumeric();
        if self.at_terminator() { self.item(kind) } else { self.bad_character() }
    }

    fn bad_character(&mut self) -> Item<'t> {
        let letter = code_point(self.peek());
        self.error(format!("bad character {letter}"))
    }

    /// Whether a word may end here.
    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => true,
            _ => self.rest().starts_with(self.right),
        }
    }

    fn quoted(&mut self, mark: char, kind: Kind, problem: &str) -> Item<'t> {
        loop {
            match self.next() {
                Some('\\') => {
                    if matches!(self.next(), None | Some('\n')) {
                        return self.error(problem);
                    }
                }
                None | Some('\n') => return self.error(problem),
                Some(letter) if letter == mark => return self.item(kind),
                Some(_) => {}
            }
        }
    }

    fn raw_quoted(&mut self) -> Item<'t> {
        loop {
            match self.next() {
                None => return self.error("unterminated raw quoted string"),
                Some('`') => return self.item(Kind::RawString),
                Some(_) => {}
            }
        }
    }

    fn number(&mut self) -> Item<'t> {
        if !self.scan_number() {
            return self.bad_number();
        }
        if !matches!(self.peek(), Some('+' | '-')) {
            return self.item(Kind::Number);
        }
        if !self.scan_number() || !self.input[..self.position].ends_with('i') {
            return self.bad_number();
        }
        self.item(Kind::Complex)
    }

    fn bad_number(&mut self) -> Item<'t> {
        let shown = quote(&self.input[self.start..self.position]);
        self.error(format!("bad number syntax: {shown}"))
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &str = "0123456789_";
        const HEXADECIMAL: &str = "0123456789abcdefABCDEF_";
        self.accept("+-");
        let mut digits = DECIMAL;
        if self.accept("0") {
            if self.accept("xX") {
                digits = HEXADECIMAL;
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        let exponent = match digits {
            DECIMAL => "eE",
            HEXADECIMAL => "pP",
            _ => "",
        };
        if self.accept(exponent) {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        self.accept("i");
        if self.peek().is_some_and(is_alphanumeric) {
            // Read so that the message shows it.
            self.next();
            return false;
        }
        true
    }
}

fn is_alphanumeric(letter: char) -> bool {
    letter == '_' || is_letter(letter) || is_digit(letter)
}

fn has_left_trim_marker(text: &str) -> bool {
    matches!(text.as_bytes(), [b'-', b' ' | b'\t' | b'\r' | b'\n', ..])
}

fn has_right_trim_marker(text: &str) -> bool {
    matches!(text.as_bytes(), [b' ' | b'\t' | b'\r' | b'\n', b'-', ..])
}

/// The character as `%#U` writes it. The end of the text is -1 to Go.
fn code_point(letter: Option<char>) -> String {
    let number = letter.map_or(-1, |letter| i64::from(u32::from(letter)));
    debug_assert!(letter.is_none_or(|letter| is_print(letter) || !letter.is_ascii_graphic()));
    sprintf("%#U", &[Any::Int(number)]).unwrap_or_default()
}
