//! Reads label selectors, for example `a=b,c in (d,e),!f`.
//!
//! Follows apimachinery 0.36.4, `pkg/labels/selector.go`.

use super::labels::{Operator, Requirement, key_error};
use crate::field::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
    Word(&'t str),
    End,
}

impl Token<'_> {
    /// Where a value may be, words that are operators elsewhere are values.
    fn as_value(self) -> Self {
        match self {
            Self::In => Token::Word("in"),
            Self::NotIn => Token::Word("notin"),
            other => other,
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Close => ")",
            Self::Comma => ",",
            Self::Not => "!",
            Self::DoubleEquals => "==",
            Self::Equals => "=",
            Self::Greater => ">",
            Self::In => "in",
            Self::Less => "<",
            Self::NotEquals => "!=",
            Self::NotIn => "notin",
            Self::Open => "(",
            Self::Word(word) => word,
            Self::End => "",
        }
    }
}

/// Reads all requirements, in their order.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { rest: text };
    let mut requirements = Vec::new();
    loop {
        match parser.peek_value() {
            Token::End => return Ok(requirements),
            Token::Word(_) | Token::Not => {}
            other => return Err(expected(other, ", expected: !, identifier, or 'end of string'")),
        }
        let requirement =
            parser.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
        requirements.push(requirement);
        match parser.next_value() {
            Token::End => return Ok(requirements),
            Token::Comma => match parser.peek_value() {
                Token::Word(_) | Token::Not => {}
                other => return Err(expected(other, ", expected: identifier after ','")),
            },
            other => return Err(expected(other, ", expected: ',' or 'end of string'")),
        }
    }
}

fn expected(found: Token<'_>, words: &str) -> String {
    format!("found '{}'{words}", found.text())
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next_value();
        let is_negated = token == Token::Not;
        if is_negated {
            token = self.next_value();
        }
        let Token::Word(key) = token else { return Err(expected(token, ", expected: identifier")) };
        if let Some(error) = key_error(key, &Path::NIL) {
            return Err(error.to_string());
        }
        if matches!(self.peek_value(), Token::End | Token::Comma) {
            let operator = if is_negated { Operator::DoesNotExist } else { Operator::Exists };
            return Requirement::new(key, operator, Vec::new());
        }
        if is_negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        let operator = self.operator()?;
        let mut values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.value()?],
        };
        values.sort_unstable();
        // Go keeps them in a set and lists that sorted.
        values.dedup();
        Requirement::new(key, operator, values.into_iter().map(str::to_owned).collect())
    }

    fn operator(&mut self) -> Result<Operator, String> {
        Ok(match self.next() {
            Token::In => Operator::In,
            Token::NotIn => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            other => return Err(expected(other, ", expected: in, notin, =, ==, !=, gt, lt")),
        })
    }

    fn value(&mut self) -> Result<&'t str, String> {
        if matches!(self.peek_value(), Token::End | Token::Comma) {
            return Ok("");
        }
        match self.next_value() {
            Token::Word(value) => Ok(value),
            other => Err(expected(other, ", expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<&'t str>, String> {
        match self.next_value() {
            Token::Open => {}
            other => return Err(expected(other, " expected: '('")),
        }
        match self.peek_value() {
            Token::Word(_) | Token::Comma => {
                let values = self.list()?;
                self.next();
                Ok(values)
            }
            // `a in ()` asks for the empty value, and is not refused.
            Token::Close => {
                self.next();
                Ok(vec![""])
            }
            other => Err(expected(other, ", expected: ',', ')' or identifier")),
        }
    }

    /// Values between commas, up to the closing parenthesis. Between two commas there is an empty value.
    fn list(&mut self) -> Result<Vec<&'t str>, String> {
        let mut values = Vec::new();
        loop {
            match self.next_value() {
                Token::Word(value) => {
                    values.push(value);
                    match self.peek_value() {
                        Token::Comma => {}
                        Token::Close => return Ok(values),
                        other => return Err(expected(other, ", expected: ',' or ')'")),
                    }
                }
                Token::Comma => {
                    let next = self.peek_value();
                    if values.is_empty() || matches!(next, Token::Close | Token::Comma) {
                        values.push("");
                    }
                    if next == Token::Close {
                        return Ok(values);
                    }
                }
                other => return Err(expected(other, ", expected: ',', or identifier")),
            }
        }
    }

    fn peek_value(&self) -> Token<'t> {
        Self { rest: self.rest }.next().as_value()
    }

    fn next_value(&mut self) -> Token<'t> {
        self.next().as_value()
    }

    fn next(&mut self) -> Token<'t> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        // A zero byte ends the text.
        if self.rest.is_empty() || self.rest.starts_with('\0') {
            return Token::End;
        }
        self.symbol().unwrap_or_else(|| self.word())
    }

    fn symbol(&mut self) -> Option<Token<'t>> {
        const SYMBOLS: [(&str, Token<'static>); 9] = [
            // Longer symbols come before those that they begin with.
            ("==", Token::DoubleEquals),
            ("!=", Token::NotEquals),
            ("=", Token::Equals),
            ("!", Token::Not),
            ("(", Token::Open),
            (")", Token::Close),
            (",", Token::Comma),
            (">", Token::Greater),
            ("<", Token::Less),
        ];
        let (text, token) = SYMBOLS.into_iter().find(|(text, _)| self.rest.starts_with(text))?;
        let rest = &self.rest[text.len()..];
        // Go's lexer reads one character too far and gives it back, except for a zero byte, which it takes
        // for the end.
        self.rest = rest.strip_prefix('\0').unwrap_or(rest);
        Some(token)
    }

    fn word(&mut self) -> Token<'t> {
        let is_end =
            |c| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<' | ' ' | '\t' | '\r' | '\n' | '\0');
        let (word, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest.strip_prefix('\0').unwrap_or(rest);
        match word {
            "in" => Token::In,
            "notin" => Token::NotIn,
            word => Token::Word(word),
        }
    }
}
