//! Paths to fields within a schema, as rules and selectable fields have them: `.a.b['c']`.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/cel/validation.go`.

use super::props::{Additional, Props};

/// A path that a schema knows.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedPath<'p> {
    /// As errors write it.
    pub(crate) path: String,
    /// The first step, with its brackets if it has any.
    pub(crate) root: String,
    pub(crate) schema: Option<&'p Props>,
}

/// Follows a path, or says why that cannot be done.
pub(crate) fn resolve<'p>(
    path: &str,
    schema: &'p Props,
    allow_brackets: bool,
) -> Result<ResolvedPath<'p>, String> {
    let mut known = ResolvedPath { path: String::new(), root: String::new(), schema: Some(schema) };
    let mut tokens = Tokens { rest: path };
    while let Some(token) = tokens.next() {
        match token {
            "[" => {
                if !allow_brackets {
                    return Err("array notation is not allowed".to_owned());
                }
                let quoted = tokens.next().ok_or("unexpected end of JSON path")?;
                let name = unquote(quoted)?;
                known.step(&name)?;
                match tokens.next() {
                    None => return Err("unexpected end of JSON path".to_owned()),
                    Some("]") => {}
                    Some(other) => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => {
                let name = tokens.next().ok_or("unexpected end of JSON path")?;
                known.step(name)?;
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(known)
}

impl ResolvedPath<'_> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        let unknown = || "does not refer to a valid field".to_owned();
        let schema = self.schema.ok_or_else(unknown)?;
        let (step, next) = if schema.has_properties() {
            (name.to_owned(), Some(schema.property(name).ok_or_else(unknown)?))
        } else {
            let additional = schema.additional_properties.as_ref().ok_or_else(unknown)?;
            (format!("[{name}]"), Additional::schema(additional))
        };
        if self.path.is_empty() {
            self.root.clone_from(&step);
        } else if !step.starts_with('[') || schema.has_properties() {
            self.path.push('.');
        }
        self.path.push_str(&step);
        self.schema = next;
        Ok(())
    }
}

/// Dots, brackets, quoted texts, and what is between them.
struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Tokens<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let first = self.rest.chars().next()?;
        let end = match first {
            '\'' => {
                let bytes = self.rest.as_bytes();
                let closing =
                    // One backslash decides, even an escaped one: so it is in Kubernetes.
                    (1..bytes.len()).find(|index| bytes[*index] == b'\'' && bytes[index - 1] != b'\\');
                closing.map_or(self.rest.len(), |index| index + 1)
            }
            '.' | '[' | ']' => 1,
            _ => self.rest.find(['.', '[', ']']).unwrap_or(self.rest.len()),
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

fn unquote(token: &str) -> Result<String, String> {
    let inside = token.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let inside = inside.ok_or_else(|| format!("expected single quoted string but got {token}"))?;
    let mut text = String::new();
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('a') => text.push('\u{7}'),
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('v') => text.push('\u{b}'),
            Some(literal @ ('\'' | '\\')) => text.push(literal),
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => text.push('\\'),
        }
    }
    Ok(text)
}
