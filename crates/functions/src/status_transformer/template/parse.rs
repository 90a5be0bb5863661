//! Puts the tokens of a template together. Errors are Go's, as far as the template is.

use std::iter::Peekable;
use std::vec::IntoIter;

use ferroplane_golang::strconv::{quote, unquote_bytes};

use super::functions;
use super::lex::{self, Kind, Token};
use super::{Choice, Command, MAX_DEPTH, Node, Operand, Pipeline, Term};

/// Read a whole template.
pub(super) fn parse(template: &str) -> Result<Vec<Node>, String> {
    let tokens = lex::lex(template).into_iter().peekable();
    let mut parser = Parser { template, tokens, at: 0, action_line: 0, depth: 0 };
    let (nodes, ending) = parser.list()?;
    match ending {
        Ending::Template => Ok(nodes),
        Ending::End => Err(parser.error("unexpected {{end}}")),
        Ending::Else => Err(parser.error("unexpected {{else}}")),
    }
}

struct Parser<'a> {
    template: &'a str,
    tokens: Peekable<IntoIter<Token<'a>>>,
    /// Where the token begins that was read last.
    at: usize,
    /// The line the current action begins in.
    action_line: usize,
    depth: usize,
}

/// What a list of nodes ends with.
#[derive(PartialEq, Eq)]
enum Ending {
    Template,
    End,
    Else,
}

/// What an action turns out to be.
enum Action {
    Node(Node),
    Ending(Ending),
}

impl<'a> Parser<'a> {
    fn error(&self, problem: impl std::fmt::Display) -> String {
        format!("template: :{}: {problem}", self.line(self.at))
    }

    fn line(&self, at: usize) -> usize {
        1 + self.template[..at].bytes().filter(|byte| *byte == b'\n').count()
    }

    fn next(&mut self) -> Token<'a> {
        let end = Token { kind: Kind::End, text: "", at: self.template.len() };
        let token = self.tokens.next().unwrap_or(end);
        self.at = token.at;
        token
    }

    fn peek(&mut self) -> Kind {
        self.tokens.peek().map_or(Kind::End, |token| token.kind)
    }

    fn skip_space(&mut self) {
        while self.peek() == Kind::Space {
            self.next();
        }
    }

    fn next_after_space(&mut self) -> Token<'a> {
        self.skip_space();
        self.next()
    }

    fn unexpected(&self, token: &Token<'_>, context: &str) -> String {
        let shown = token.shown();
        if !matches!(token.kind, Kind::Mistake(_)) {
            return self.error(format!("unexpected {shown} in {context}"));
        }
        if self.action_line == 0 || self.action_line == self.line(token.at) {
            return self.error(shown);
        }
        let action = if shown.ends_with(" action") { "" } else { " in action" };
        self.error(format!("{shown}{action} started at :{}", self.action_line))
    }

    fn list(&mut self) -> Result<(Vec<Node>, Ending), String> {
        let mut nodes = Vec::new();
        loop {
            let token = self.next();
            match token.kind {
                Kind::End => return Ok((nodes, Ending::Template)),
                Kind::Text => nodes.push(Node::Text(token.text.to_owned())),
                Kind::Left => {
                    self.action_line = self.line(token.at);
                    match self.action()? {
                        Action::Node(node) => nodes.push(node),
                        Action::Ending(ending) => return Ok((nodes, ending)),
                    }
                    // Back to none, because a mistake in text after an action has nothing to do with it.
                    self.action_line = 0;
                }
                _ => return Err(self.unexpected(&token, "input")),
            }
        }
    }

    fn action(&mut self) -> Result<Action, String> {
        self.skip_space();
        if self.peek() != Kind::Keyword {
            return self
                .pipeline("command", Kind::Right)
                .map(|pipeline| Action::Node(Node::Action(pipeline)));
        }
        let keyword = self.next();
        match keyword.text {
            "if" => self.choice(false).map(Action::Node),
            "with" => self.choice(true).map(Action::Node),
            "end" => {
                let token = self.next_after_space();
                self.expect_right(&token, "end")?;
                Ok(Action::Ending(Ending::End))
            }
            "else" => {
                self.skip_space();
                let is_chained = self.tokens.peek().is_some_and(|token| matches!(token.text, "if" | "with"));
                if !is_chained {
                    let token = self.next();
                    self.expect_right(&token, "else")?;
                }
                Ok(Action::Ending(Ending::Else))
            }
            _ => Err(self.error(format!("{} is not supported in messages", keyword.shown()))),
        }
    }

    fn expect_right(&self, token: &Token<'_>, context: &str) -> Result<(), String> {
        if token.kind == Kind::Right { Ok(()) } else { Err(self.unexpected(token, context)) }
    }

    /// `if` or `with`, whose word has been read.
    fn choice(&mut self, moves_dot: bool) -> Result<Node, String> {
        self.enter("blocks are nested too deeply")?;
        let word = if moves_dot { "with" } else { "if" };
        let condition = self.pipeline(word, Kind::Right)?;
        let (then, ending) = self.list()?;
        let otherwise = match ending {
            Ending::End => Vec::new(),
            Ending::Template => return Err(self.error("unexpected EOF")),
            Ending::Else => self.otherwise(word, moves_dot)?,
        };
        self.depth -= 1;
        Ok(Node::Choice(Box::new(Choice { moves_dot, condition, then, otherwise })))
    }

    /// What comes after `else`. `{{else if}}` needs no `{{end}}` of its own.
    fn otherwise(&mut self, word: &str, moves_dot: bool) -> Result<Vec<Node>, String> {
        if self.tokens.peek().is_some_and(|token| token.kind == Kind::Keyword && token.text == word) {
            self.next();
            return self.choice(moves_dot).map(|choice| vec![choice]);
        }
        if self.peek() == Kind::Keyword {
            // `{{if}}…{{else with}}` is text and actions to Go, and the first token is no such thing.
            let token = self.next();
            return Err(self.unexpected(&token, "input"));
        }
        let (nodes, ending) = self.list()?;
        match ending {
            Ending::End => Ok(nodes),
            Ending::Template => Err(self.error("unexpected EOF")),
            Ending::Else => Err(self.error("expected end; found {{else}}")),
        }
    }

    fn enter(&mut self, problem: &str) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.error(problem)) } else { Ok(()) }
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Result<Pipeline, String> {
        let mut commands: Vec<Command> = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                kind if kind == end => {
                    self.next();
                    return self.checked(commands, context);
                }
                Kind::Boolean
                | Kind::Character
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::Raw
                | Kind::Quoted
                | Kind::Variable
                | Kind::Open => commands.push(self.command()?),
                _ => {
                    let token = self.next();
                    return Err(self.unexpected(&token, context));
                }
            }
        }
    }

    fn checked(&self, commands: Vec<Command>, context: &str) -> Result<Pipeline, String> {
        if commands.is_empty() {
            return Err(self.error(format!("missing value for {context}")));
        }
        for (at, command) in commands.iter().enumerate().skip(1) {
            let first = command.operands.first();
            if first.is_some_and(|first| !is_executable(first)) {
                return Err(self.error(format!("non executable command in pipeline stage {}", at + 1)));
            }
        }
        Ok(Pipeline { commands })
    }

    fn command(&mut self) -> Result<Command, String> {
        let at = self.tokens.peek().map_or(0, |token| token.at);
        let mut operands = Vec::new();
        loop {
            self.skip_space();
            operands.extend(self.operand()?);
            match self.peek() {
                Kind::Space => {
                    self.next();
                }
                Kind::Right | Kind::Close => break,
                Kind::Pipe => {
                    self.next();
                    break;
                }
                Kind::Assign | Kind::Declare => {
                    return Err(self.error("variables are not supported in messages"));
                }
                _ => {
                    let token = self.next();
                    return Err(self.unexpected(&token, "operand"));
                }
            }
        }
        if operands.is_empty() {
            return Err(self.error("empty command"));
        }
        Ok(Command { at, operands })
    }

    /// A term and the fields behind it, if there is a term.
    fn operand(&mut self) -> Result<Option<Operand>, String> {
        let Some(mut operand) = self.term()? else { return Ok(None) };
        let mut is_first = true;
        while self.peek() == Kind::Field {
            if matches!(operand.term, Term::Text { .. } | Term::Integer(_) | Term::Boolean(_) | Term::Nil)
                || (matches!(operand.term, Term::Dot) && operand.fields.is_empty())
            {
                self.next();
                return Err(self.error(format!("unexpected . after term {}", quote(&operand.to_string()))));
            }
            let token = self.next();
            // A chain is where its second link is: that is how Go counts.
            operand.at = if is_first { token.at } else { operand.at };
            operand.fields.push(token.text[1..].to_owned());
            is_first = false;
        }
        Ok(Some(operand))
    }

    fn term(&mut self) -> Result<Option<Operand>, String> {
        let Some(token) = self.tokens.next_if(|token| is_term(token.kind)) else { return Ok(None) };
        self.at = token.at;
        let mut fields = Vec::new();
        let term = match token.kind {
            Kind::Dot => Term::Dot,
            Kind::Nil => Term::Nil,
            Kind::Boolean => Term::Boolean(token.text == "true"),
            Kind::Field => {
                fields.push(token.text[1..].to_owned());
                Term::Dot
            }
            Kind::Variable => self.variable(token.text)?,
            Kind::Number => self.number(token.text)?,
            Kind::Raw => {
                // Go drops carriage returns, as it does in source code.
                let text = token.text[1..token.text.len() - 1].replace('\r', "");
                Term::Text { quoted: token.text.to_owned(), text }
            }
            Kind::Quoted => {
                let text = unquote(token.text).ok_or_else(|| self.error("invalid syntax"))?;
                Term::Text { quoted: token.text.to_owned(), text }
            }
            Kind::Open => {
                self.enter("max expression depth exceeded")?;
                let pipeline = self.pipeline("parenthesized pipeline", Kind::Close)?;
                self.depth -= 1;
                Term::Pipeline(pipeline)
            }
            Kind::Identifier if functions::is_known(token.text) => Term::Function(token.text.to_owned()),
            Kind::Identifier => {
                return Err(self.error(format!("function {} not defined", quote(token.text))));
            }
            _ => return Err(self.error("character constants are not supported in messages")),
        };
        Ok(Some(Operand { at: token.at, term, fields }))
    }

    fn variable(&mut self, name: &str) -> Result<Term, String> {
        if name == "$" {
            return Ok(Term::Root);
        }
        self.skip_space();
        if matches!(self.peek(), Kind::Assign | Kind::Declare) {
            return Err(self.error("variables are not supported in messages"));
        }
        Err(self.error(format!("undefined variable {}", quote(name))))
    }

    fn number(&self, text: &str) -> Result<Term, String> {
        let digits = text.trim_start_matches(['+', '-']);
        let is_plain =
            digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = if is_plain { text.parse().ok() } else { None };
        number.map(Term::Integer).ok_or_else(|| {
            if !digits.contains(|letter: char| letter.is_ascii_digit()) {
                return self.error(format!("illegal number syntax: {}", quote(text)));
            }
            let number = quote(text);
            self.error(format!("the number {number} is not supported in messages: only whole ones are"))
        })
    }
}

fn is_term(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Identifier
            | Kind::Dot
            | Kind::Nil
            | Kind::Variable
            | Kind::Field
            | Kind::Boolean
            | Kind::Character
            | Kind::Number
            | Kind::Open
            | Kind::Quoted
            | Kind::Raw
    )
}

fn is_executable(operand: &Operand) -> bool {
    match operand.term {
        Term::Dot => !operand.fields.is_empty(),
        Term::Boolean(_) | Term::Nil | Term::Integer(_) | Term::Text { .. } => false,
        Term::Root | Term::Function(_) | Term::Pipeline(_) => true,
    }
}

/// The text that a literal in double quotes stands for. Escapes that are no text are refused: a message is text.
fn unquote(quoted: &str) -> Option<String> {
    String::from_utf8(unquote_bytes(quoted)?).ok()
}
