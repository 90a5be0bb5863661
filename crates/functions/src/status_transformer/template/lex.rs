//! Takes a template apart into tokens.

use ferroplane_golang::strconv::{is_print, quote};
use ferroplane_golang::unicode::{is_digit, is_letter};

/// A token and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Left,
    Right,
    Space,
    Dot,
    Field,
    Variable,
    Identifier,
    Keyword,
    Nil,
    Boolean,
    Number,
    Character,
    Quoted,
    Raw,
    Pipe,
    Open,
    Close,
    Assign,
    Declare,
    Other,
    /// The text says what is wrong.
    Mistake(Mistake),
    End,
}

/// What can be wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    BadCharacter(char),
    Unrecognized(char),
    BadNumber,
    ExpectedDeclare,
    UnclosedAction,
    UnclosedComment,
    UnendedComment,
    UnclosedParenthesis,
    UnexpectedParenthesis,
    UnterminatedQuote,
    UnterminatedRaw,
    UnterminatedCharacter,
}

impl Token<'_> {
    /// The token as error messages show it.
    pub(super) fn shown(&self) -> String {
        match self.kind {
            Kind::End => "EOF".to_owned(),
            Kind::Mistake(mistake) => mistake.shown(self.text),
            Kind::Keyword | Kind::Nil | Kind::Dot => format!("<{}>", self.text),
            // Go compares bytes and then cuts letters: `%.10q` in `item.String`.
            _ if self.text.len() > 10 => {
                format!("{}...", quote(&self.text.chars().take(10).collect::<String>()))
            }
            _ => quote(self.text),
        }
    }
}

impl Mistake {
    fn shown(self, text: &str) -> String {
        match self {
            Self::BadCharacter(letter) => format!("bad character {}", code_point(letter)),
            Self::Unrecognized(letter) => format!("unrecognized character in action: {}", code_point(letter)),
            Self::BadNumber => format!("bad number syntax: {}", quote(text)),
            Self::ExpectedDeclare => "expected :=".to_owned(),
            Self::UnclosedAction => "unclosed action".to_owned(),
            Self::UnclosedComment => "unclosed comment".to_owned(),
            Self::UnendedComment => "comment ends before closing delimiter".to_owned(),
            Self::UnclosedParenthesis => "unclosed left paren".to_owned(),
            Self::UnexpectedParenthesis => "unexpected right paren".to_owned(),
            Self::UnterminatedQuote => "unterminated quoted string".to_owned(),
            Self::UnterminatedRaw => "unterminated raw quoted string".to_owned(),
            Self::UnterminatedCharacter => "unterminated character constant".to_owned(),
        }
    }
}

fn code_point(letter: char) -> String {
    let code = u32::from(letter);
    if is_print(letter) { format!("U+{code:04X} '{letter}'") } else { format!("U+{code:04X}") }
}

/// All tokens. The last one is the end or a mistake.
pub(super) fn lex(template: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { template, at: 0, tokens: Vec::new(), depth: 0 };
    let last = lexer.texts().err();
    let last = last.unwrap_or(Token { kind: Kind::End, text: "", at: template.len() });
    lexer.tokens.push(last);
    lexer.tokens
}

struct Lexer<'a> {
    template: &'a str,
    at: usize,
    tokens: Vec<Token<'a>>,
    depth: usize,
}

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.template[self.at..]
    }

    fn push(&mut self, kind: Kind, length: usize) {
        self.tokens.push(Token { kind, text: &self.rest()[..length], at: self.at });
        self.at += length;
    }

    fn mistake(&self, mistake: Mistake, length: usize) -> Token<'a> {
        Token { kind: Kind::Mistake(mistake), text: &self.rest()[..length], at: self.at }
    }

    /// Text and actions, alternating. What is wrong, if anything is.
    fn texts(&mut self) -> Result<(), Token<'a>> {
        while !self.rest().is_empty() {
            let rest = self.rest();
            let Some(length) = rest.find("{{") else {
                self.push(Kind::Text, rest.len());
                return Ok(());
            };
            let trims = has_left_marker(&rest[length + 2..]);
            let kept = if trims { rest[..length].trim_end_matches(SPACE).len() } else { length };
            if kept > 0 {
                self.push(Kind::Text, kept);
            }
            self.at += length - kept;
            // The marker is the minus and one space.
            let after = 2 + if trims { 2 } else { 0 };
            if self.rest()[after..].starts_with("/*") {
                self.at += after;
                self.comment()?;
            } else {
                self.push(Kind::Left, 2);
                self.at += after - 2;
                // Parentheses cannot span actions.
                self.depth = 0;
                while self.action()? {}
            }
        }
        Ok(())
    }

    fn comment(&mut self) -> Result<(), Token<'a>> {
        let Some(end) = self.rest()[2..].find("*/") else {
            return Err(self.mistake(Mistake::UnclosedComment, 0));
        };
        let Some((length, trims)) = right_delimiter(&self.rest()[end + 4..]) else {
            return Err(self.mistake(Mistake::UnendedComment, 0));
        };
        self.at += end + 4 + length;
        self.trim(trims);
        Ok(())
    }

    fn trim(&mut self, trims: bool) {
        if trims {
            self.at += self.rest().len() - self.rest().trim_start_matches(SPACE).len();
        }
    }

    /// One token of an action. Whether there are more.
    fn action(&mut self) -> Result<bool, Token<'a>> {
        if let Some((length, trims)) = right_delimiter(self.rest()) {
            if self.depth > 0 {
                // Before anything else is looked at: `}}` ends the action even inside parentheses.
                return Err(self.mistake(Mistake::UnclosedParenthesis, 0));
            }
            self.at += length - 2;
            self.push(Kind::Right, 2);
            self.trim(trims);
            return Ok(false);
        }
        let Some(next) = self.rest().chars().next() else {
            return Err(self.mistake(Mistake::UnclosedAction, 0));
        };
        match next {
            ' ' | '\t' | '\r' | '\n' => self.space(),
            '=' => self.push(Kind::Assign, 1),
            ':' if self.rest().starts_with(":=") => self.push(Kind::Declare, 2),
            ':' => return Err(self.mistake(Mistake::ExpectedDeclare, 1)),
            '|' => self.push(Kind::Pipe, 1),
            '(' => {
                self.depth += 1;
                self.push(Kind::Open, 1);
            }
            ')' if self.depth == 0 => return Err(self.mistake(Mistake::UnexpectedParenthesis, 1)),
            ')' => {
                self.depth -= 1;
                self.push(Kind::Close, 1);
            }
            '"' => self.quoted('"', Kind::Quoted, Mistake::UnterminatedQuote)?,
            '\'' => self.quoted('\'', Kind::Character, Mistake::UnterminatedCharacter)?,
            '`' => match self.rest()[1..].find('`') {
                Some(end) => self.push(Kind::Raw, end + 2),
                None => return Err(self.mistake(Mistake::UnterminatedRaw, 0)),
            },
            // `.5` is a number, and Go's `lexInsideAction` takes a dot at the very end for one, too.
            '.' if self.rest()[1..].starts_with(|letter: char| !letter.is_ascii_digit()) => {
                self.word(Kind::Field)?;
            }
            '$' => self.word(Kind::Variable)?,
            '+' | '-' | '.' | '0'..='9' => self.number()?,
            letter if is_alphanumeric(letter) => self.word(Kind::Identifier)?,
            // Go's `itemChar`. No rule of the grammar has it, and the parser says so.
            letter if letter.is_ascii_graphic() => self.push(Kind::Other, 1),
            letter => {
                return Err(self.mistake(Mistake::Unrecognized(letter), 0));
            }
        }
        Ok(true)
    }

    /// A run of space; its last one may belong to the delimiter that ends the action.
    fn space(&mut self) {
        let rest = self.rest();
        let mut length = rest.len() - rest.trim_start_matches(SPACE).len();
        if right_delimiter(&rest[length - 1..]).is_some_and(|(_, trims)| trims) {
            length -= 1;
        }
        if length > 0 {
            self.push(Kind::Space, length);
        }
    }

    fn quoted(&mut self, quote: char, kind: Kind, mistake: Mistake) -> Result<(), Token<'a>> {
        let mut is_escaped = false;
        for (at, letter) in self.rest().char_indices().skip(1) {
            match letter {
                // Also after a backslash: only raw text may span lines.
                '\n' => break,
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                _ if letter == quote => {
                    self.push(kind, at + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(self.mistake(mistake, 0))
    }

    /// A name, which may begin with `.` or `$`.
    fn word(&mut self, kind: Kind) -> Result<(), Token<'a>> {
        let rest = self.rest();
        let sigil = usize::from(kind != Kind::Identifier);
        let length =
            rest[sigil..].find(|letter| !is_alphanumeric(letter)).map_or(rest.len(), |end| end + sigil);
        if let Some(next) = rest[length..].chars().next().filter(|_| !is_terminated(&rest[length..])) {
            return Err(self.mistake(Mistake::BadCharacter(next), length));
        }
        let kind = match (kind, &rest[..length]) {
            (Kind::Field, ".") => Kind::Dot,
            (Kind::Identifier, "true" | "false") => Kind::Boolean,
            (Kind::Identifier, "nil") => Kind::Nil,
            (
                Kind::Identifier,
                "block" | "break" | "continue" | "define" | "else" | "end" | "if" | "range" | "template"
                | "with",
            ) => Kind::Keyword,
            (kind, _) => kind,
        };
        self.push(kind, length);
        Ok(())
    }

    /// A number, or what looks like one: the parser looks closer.
    fn number(&mut self) -> Result<(), Token<'a>> {
        let rest = self.rest();
        let digits = usize::from(rest.starts_with(['+', '-']));
        let run = |from: usize| {
            let end = rest[from..].find(|letter: char| !letter.is_ascii_digit() && letter != '_');
            end.map_or(rest.len(), |end| end + from)
        };
        let mut length = run(digits);
        if rest[length..].starts_with('.') {
            length = run(length + 1);
        }
        if length > digits
            && rest[length..].starts_with(['x', 'X', 'o', 'O', 'b', 'B', 'e', 'E', 'p', 'P', 'i'])
        {
            let end = rest[length..].find(|letter: char| !is_alphanumeric(letter) && letter != '.');
            length = end.map_or(rest.len(), |end| end + length);
        }
        if let Some(next) = rest[length..].chars().next().filter(|next| is_alphanumeric(*next)) {
            return Err(self.mistake(Mistake::BadNumber, length + next.len_utf8()));
        }
        self.push(Kind::Number, length);
        Ok(())
    }
}

fn has_left_marker(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(SPACE))
}

/// The length of the delimiter that ends an action, if the text begins with it, and whether it trims.
fn right_delimiter(rest: &str) -> Option<(usize, bool)> {
    if rest.starts_with("}}") {
        return Some((2, false));
    }
    rest.strip_prefix(SPACE).and_then(|rest| rest.strip_prefix("-}}")).map(|_| (4, true))
}

fn is_alphanumeric(letter: char) -> bool {
    letter == '_' || is_letter(letter) || is_digit(letter)
}

/// Whether a name may end here.
fn is_terminated(rest: &str) -> bool {
    rest.is_empty()
        || rest.starts_with([' ', '\t', '\r', '\n', '.', ',', '|', ':', ')', '('])
        || rest.starts_with("}}")
}
