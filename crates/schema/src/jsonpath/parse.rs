//! Reads templates.
//!
//! Follows client-go 0.36.4, `util/jsonpath/parser.go`.

use ferroplane_golang::strconv;
use ferroplane_golang::strconv::unquote;
use ferroplane_golang::unicode::{self, is_digit};

use super::{PathNode, Slice};

/// Filters and lists of keys nest; nothing sensible nests deeper.
const MAX_DEPTH: usize = 16;

/// Reads a template, with its braces.
pub(super) fn parse(text: &str) -> Result<Vec<PathNode>, String> {
    Parser { input: text, position: 0, start: 0, depth: 0 }.template()
}

/// Reads what stands between braces.
fn action(text: &str, depth: usize) -> Result<Vec<PathNode>, String> {
    if depth > MAX_DEPTH {
        return Err("path is nested too deeply".to_owned());
    }
    let input = format!("{{{text}}}");
    let parts = Parser { input: &input, position: 0, start: 0, depth }.template()?;
    match parts.into_iter().next() {
        Some(PathNode::List(nodes)) => Ok(nodes),
        _ => Ok(Vec::new()),
    }
}

struct Parser<'t> {
    input: &'t str,
    position: usize,
    /// Where what is being read began.
    start: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn template(mut self) -> Result<Vec<PathNode>, String> {
        let mut parts = Vec::new();
        loop {
            let Some(brace) = self.rest().find('{') else {
                self.position = self.input.len();
                self.text(&mut parts);
                return Ok(parts);
            };
            self.position += brace;
            self.text(&mut parts);
            self.position += 1;
            self.take();
            parts.push(PathNode::List(self.inside()?));
        }
    }

    fn text(&mut self, parts: &mut Vec<PathNode>) {
        let text = self.take();
        if !text.is_empty() {
            parts.push(PathNode::Text(text.to_owned()));
        }
    }

    fn inside(&mut self) -> Result<Vec<PathNode>, String> {
        let mut nodes = Vec::new();
        loop {
            let rest = self.rest();
            if rest.starts_with('}') {
                self.position += 1;
                self.take();
                return Ok(nodes);
            }
            if rest.starts_with("[?(") {
                self.filter(&mut nodes)?;
            } else if rest.starts_with("..") {
                self.recursive(&mut nodes)?;
            } else {
                self.step(&mut nodes)?;
            }
        }
    }

    fn step(&mut self, nodes: &mut Vec<PathNode>) -> Result<(), String> {
        match self.next() {
            None | Some('\r' | '\n') => return Err("unclosed action".to_owned()),
            Some(' ' | '@' | '$') => drop(self.take()),
            Some('[') => self.array(nodes)?,
            Some(quote @ ('"' | '\'')) => nodes.push(self.quoted(quote)?),
            Some('.') => nodes.push(self.field()),
            Some(c @ ('+' | '-')) => self.number(c, nodes)?,
            Some(c) if is_digit(c) => self.number(c, nodes)?,
            Some(c) if is_letter(c) => nodes.push(self.identifier()),
            Some(other) => {
                return Err(format!("unrecognized character in action: {}", describe(other)));
            }
        }
        Ok(())
    }

    fn identifier(&mut self) -> PathNode {
        let rest = self.rest();
        self.position += rest.find(is_terminator).unwrap_or(rest.len());
        match self.take() {
            "true" => PathNode::Truth(true),
            "false" => PathNode::Truth(false),
            name => PathNode::Identifier(name.to_owned()),
        }
    }

    fn recursive(&mut self, nodes: &mut Vec<PathNode>) -> Result<(), String> {
        if nodes.last() == Some(&PathNode::Recursive) {
            return Err("invalid multiple recursive descent".to_owned());
        }
        self.position += 2;
        self.take();
        nodes.push(PathNode::Recursive);
        if self.rest().starts_with(is_letter) {
            nodes.push(self.field());
        }
        Ok(())
    }

    fn number(&mut self, first: char, nodes: &mut Vec<PathNode>) -> Result<(), String> {
        // A sign may be followed by anything, a digit only by digits and points.
        if !matches!(first, '+' | '-') {
            self.position -= first.len_utf8();
        }
        let rest = self.rest();
        self.position += rest.find(|c| c != '.' && !is_digit(c)).unwrap_or(rest.len());
        let text = self.take();
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_number = !digits.is_empty() && digits.is_ascii();
        if is_number && let Ok(integer) = text.parse() {
            nodes.push(PathNode::Integer(integer));
        } else if let Some(float) = text.parse::<f64>().ok().filter(|float| is_number && float.is_finite()) {
            nodes.push(PathNode::Float(float));
        } else {
            return Err(format!("cannot parse number {text}"));
        }
        Ok(())
    }

    fn array(&mut self, nodes: &mut Vec<PathNode>) -> Result<(), String> {
        let rest = self.rest();
        let end = rest.find([']', '\n']).filter(|end| rest[*end..].starts_with(']'));
        self.position += end.ok_or("unterminated array")? + 1;
        let text = self.take();
        let text = &text[1..text.len() - 1];
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts =
                text.split(',').map(|part| action(&format!("[{}]", part.trim_matches(' ')), self.depth + 1));
            nodes.push(PathNode::Union(parts.collect::<Result<_, _>>()?));
        } else if let Some(key) = dictionary_key(text) {
            nodes.extend(action(&format!(".{key}"), self.depth + 1)?);
        } else {
            nodes.push(PathNode::Slice(slice(text)?));
        }
        Ok(())
    }

    fn filter(&mut self, nodes: &mut Vec<PathNode>) -> Result<(), String> {
        self.position += "[?(".len();
        self.take();
        self.skip_filter()?;
        if self.next() != Some(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        let text = self.take();
        let text = &text[..text.len() - 2];
        let depth = self.depth + 1;
        nodes.push(match comparison(text) {
            None => PathNode::Filter {
                left: action(text, depth)?,
                operator: "exists".to_owned(),
                right: Vec::new(),
            },
            Some((left, operator, right)) => PathNode::Filter {
                left: action(left, depth)?,
                operator: operator.to_owned(),
                right: action(right, depth)?,
            },
        });
        Ok(())
    }

    /// Moves behind the parenthesis that ends a filter, which is none inside quotes.
    fn skip_filter(&mut self) -> Result<(), String> {
        let (mut opened, mut is_closed) = (None, false);
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated filter".to_owned()),
                Some(quote @ ('"' | '\'')) => match opened {
                    None => opened = Some(quote),
                    Some(opened) => is_closed |= opened == quote && !self.is_escaped(),
                },
                Some(')') if opened.is_some() == is_closed => return Ok(()),
                Some(_) => {}
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<PathNode, String> {
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some(c) if c == quote && !self.is_escaped() => break,
                Some(_) => {}
            }
        }
        let text = self.take();
        let unquoted = unquote(text).ok_or_else(|| format!("unquote string {text} error invalid syntax"))?;
        Ok(PathNode::Text(unquoted))
    }

    /// Whether the quote just read has a backslash before it.
    fn is_escaped(&self) -> bool {
        // One backslash decides, even if it is escaped itself: so it is in client-go.
        self.position >= 2 && self.input.as_bytes()[self.position - 2] == b'\\'
    }

    fn field(&mut self) -> PathNode {
        self.take();
        while let Some(c) = self.rest().chars().next() {
            if is_terminator(c) {
                break;
            }
            self.position += c.len_utf8();
            // What follows a backslash ends nothing.
            if c == '\\' {
                self.next();
            }
        }
        match self.take() {
            "*" => PathNode::Wildcard,
            name => PathNode::Field(name.replace('\\', "")),
        }
    }

    fn rest(&self) -> &'t str {
        &self.input[self.position..]
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.position += c.len_utf8();
        Some(c)
    }

    /// What was read since the last time.
    fn take(&mut self) -> &'t str {
        let text = &self.input[self.start..self.position];
        self.start = self.position;
        text
    }
}

/// The key in `'key'`.
fn dictionary_key(text: &str) -> Option<&str> {
    let key = text.strip_prefix('\'')?.strip_suffix('\'')?;
    (!key.contains('\'')).then_some(key)
}

/// Reads `start:end:step`.
fn slice(text: &str) -> Result<Slice, String> {
    let invalid = || format!("invalid array index {text}");
    let mut parts = text.split(':');
    let (start, end, step) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let is_number =
        |text: &str| text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit());
    let all_numbers = [Some(start), end, step].into_iter().flatten().all(is_number);
    if parts.next().is_some() || !all_numbers {
        return Err(invalid());
    }
    let number = |text: &str| -> Result<Option<i64>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| format!("array index {text} is not a number"))
    };
    let start = number(start)?;
    let (end, is_end_derived) = match end {
        // An index is a slice of one. For -1 that ends at 0, which then has to mean the end of the list.
        None => (Some(start.unwrap_or(0).saturating_add(1)), true),
        Some(end) => (number(end)?, false),
    };
    Ok(Slice { start, end, is_end_derived, step: number(step.unwrap_or_default())? })
}

/// Splits at the first operator: something without operators, an operator, something on the same line.
fn comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |c| matches!(c, '!' | '<' | '>' | '=');
    let start = text.find(is_operator).filter(|start| *start > 0)?;
    let after = &text[start..];
    let end = after.find(|c| !is_operator(c)).unwrap_or(after.len());
    let (operator, right) = after.split_at(end);
    if right.is_empty() {
        // At least one character must be left for the other side.
        let (operator, right) = operator.split_at(operator.len() - 1);
        return (!operator.is_empty()).then_some((&text[..start], operator, right));
    }
    (!right.contains('\n')).then_some((&text[..start], operator, right))
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Digits of all scripts count, even where they cannot be read as numbers.
fn is_letter(c: char) -> bool {
    c == '_' || unicode::is_letter(c) || is_digit(c)
}

/// A character as `%#U` prints it.
fn describe(c: char) -> String {
    let code = u32::from(c);
    if strconv::is_print(c) { format!("U+{code:04X} '{c}'") } else { format!("U+{code:04X}") }
}
