//! Pipelines, commands and operands.
//!
//! Follows Go 1.26, `text/template/parse/parse.go` (`pipeline` to `term`).

use ferroplane_golang::strconv::quote;

use super::{MAX_DEPTH, MAX_VARIABLES, Parsed, Parser, at, number};
use crate::Text;
use crate::lex::{Item, Kind};
use crate::node::{Command, Operand, Pipe, Term};

impl<'t> Parser<'t> {
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        let position = at(self.peek_non_space());
        let mut pipe = Pipe { position, is_assignment: false, variables: Vec::new(), commands: Vec::new() };
        self.declarations(&mut pipe, context)?;
        loop {
            let item = self.next_non_space();
            if item.kind == end {
                self.check(&pipe, context)?;
                return Ok(pipe);
            }
            if !is_operand(item.kind) {
                return Err(self.unexpected(&item, context));
            }
            self.back();
            pipe.commands.push(self.command()?);
        }
    }

    /// The variables before `:=` or `=`, if there are any.
    fn declarations(&mut self, pipe: &mut Pipe, context: &str) -> Parsed<()> {
        loop {
            if self.peek_non_space().kind != Kind::Variable {
                return Ok(());
            }
            let variable = self.next();
            // The space behind it must be put back: `$x 23` is not `$x23`.
            let after = self.peek().clone();
            let following = self.peek_non_space().clone();
            match following.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.is_assignment = following.kind == Kind::Assign;
                    self.next_non_space();
                    self.declare(pipe, &variable)?;
                    return Ok(());
                }
                Kind::Char if following.text == "," => {
                    self.next_non_space();
                    self.declare(pipe, &variable)?;
                    // Only a loop has two things to give: a key and a value.
                    if context != "range" || pipe.variables.len() >= 2 {
                        return Err(self.error(format!("too many declarations in {context}")));
                    }
                    let kind = self.peek_non_space().kind;
                    if !matches!(kind, Kind::Variable | Kind::RightDelimiter | Kind::RightParen) {
                        return Err(self.error("range can only initialize variables"));
                    }
                }
                _ if after.kind == Kind::Space => {
                    self.back3(variable, after);
                    return Ok(());
                }
                _ => {
                    self.back2(variable);
                    return Ok(());
                }
            }
        }
    }

    fn declare(&mut self, pipe: &mut Pipe, variable: &Item<'t>) -> Parsed<()> {
        // Every use of a variable searches through all of them.
        if self.tree.variables.len() >= MAX_VARIABLES {
            return Err(self.error(format!("more than {MAX_VARIABLES} variables")));
        }
        pipe.variables.push(variable.text.to_owned());
        self.tree.variables.push(variable.text);
        Ok(())
    }

    fn check(&self, pipe: &Pipe, context: &str) -> Parsed<()> {
        if pipe.commands.is_empty() {
            return Err(self.error(format!("missing value for {context}")));
        }
        for (stage, command) in pipe.commands.iter().enumerate().skip(1) {
            let first = command.operands.first().map(|operand| &operand.term);
            if let Some(Term::Bool(_) | Term::Dot | Term::Nil | Term::Number(_) | Term::String { .. }) = first
            {
                return Err(self.error(format!("non executable command in pipeline stage {}", stage + 1)));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Command> {
        let position = at(self.peek_non_space());
        let mut operands = Vec::new();
        loop {
            self.peek_non_space();
            operands.extend(self.operand()?);
            let item = self.next();
            match item.kind {
                Kind::Space => continue,
                Kind::RightDelimiter | Kind::RightParen => self.back(),
                Kind::Pipe => {}
                _ => return Err(self.unexpected(&item, "operand")),
            }
            break;
        }
        if operands.is_empty() {
            return Err(self.error("empty command"));
        }
        Ok(Command { position, operands })
    }

    /// A term and the fields behind it, if there is a term.
    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let Some(operand) = self.term()? else { return Ok(None) };
        if self.peek().kind != Kind::Field {
            return Ok(Some(operand));
        }
        // A chain is where its second link is: that is how Go counts.
        let position = at(self.peek());
        let mut further = Vec::new();
        while self.peek().kind == Kind::Field {
            further.push(self.next().text[1..].to_owned());
        }
        let term = match operand.term {
            Term::Field(mut fields) => {
                fields.append(&mut further);
                Term::Field(fields)
            }
            Term::Variable { name, .. } => Term::Variable { name, fields: further },
            Term::Bool(_) | Term::String { .. } | Term::Number(_) | Term::Nil | Term::Dot => {
                let shown = quote(&operand.to_string());
                return Err(self.error(format!("unexpected . after term {shown}")));
            }
            _ => Term::Chain { of: Box::new(operand), fields: further },
        };
        Ok(Some(Operand { position, term }))
    }

    fn term(&mut self) -> Parsed<Option<Operand>> {
        let item = self.next_non_space();
        let term = match item.kind {
            Kind::Identifier => {
                let function = self.functions.get(item.text);
                let unknown = || self.error(format!("function {} not defined", quote(item.text)));
                let function = function.ok_or_else(unknown)?;
                Term::Function { function, number: self.count_call(item.text) }
            }
            Kind::Dot => Term::Dot,
            Kind::Nil => Term::Nil,
            Kind::Variable if self.tree.variables.contains(&item.text) => {
                Term::Variable { name: item.text.to_owned(), fields: Vec::new() }
            }
            Kind::Variable => return Err(self.error(format!("undefined variable {}", quote(item.text)))),
            Kind::Field => Term::Field(vec![item.text[1..].to_owned()]),
            Kind::Bool => Term::Bool(item.text == "true"),
            Kind::CharConstant | Kind::Complex | Kind::Number => {
                let number = number::parse(item.text, item.kind).map_err(|problem| self.error(problem))?;
                Term::Number(Box::new(number))
            }
            Kind::LeftParen => self.parenthesized()?,
            Kind::String | Kind::RawString => {
                let text = Text::from(self.unquoted(&item)?);
                Term::String { quoted: item.text.to_owned(), text }
            }
            _ => {
                self.back();
                return Ok(None);
            }
        };
        // A pipeline is where its first command is, not where the parenthesis is.
        let position = if let Term::Pipe(pipe) = &term { pipe.position } else { at(&item) };
        Ok(Some(Operand { position, term }))
    }

    fn parenthesized(&mut self) -> Parsed<Term> {
        if self.tree.paren_depth >= MAX_DEPTH {
            return Err(self.error("max expression depth exceeded"));
        }
        self.tree.paren_depth += 1;
        let pipe = self.pipeline("parenthesized pipeline", Kind::RightParen)?;
        self.tree.paren_depth -= 1;
        Ok(Term::Pipe(Box::new(pipe)))
    }
}

fn is_operand(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Bool
            | Kind::CharConstant
            | Kind::Complex
            | Kind::Dot
            | Kind::Field
            | Kind::Identifier
            | Kind::Number
            | Kind::Nil
            | Kind::RawString
            | Kind::String
            | Kind::Variable
            | Kind::LeftParen
    )
}
