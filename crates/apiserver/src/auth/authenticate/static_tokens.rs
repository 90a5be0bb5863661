//! Tokens that are known beforehand: our own, and those of a token file.
//!
//! A token file has one line per token: token, user, uid, and optionally groups (`token,user,uid,"one,two"`).

use std::collections::HashMap;

use aws_lc_rs::digest::{self, SHA256};

use crate::auth::identity::Identity;

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TokenFileError {
    #[error("line {0} must have at least 3 columns (token, user name, user uid)")]
    Columns(usize),
    #[error("line {0} has a quote where none may be")]
    Quote(usize),
    #[error("line {0} has a quote that is not closed")]
    Unclosed(usize),
}

/// Identities by token.
///
/// Tokens are looked up by their digest: how long that takes tells nothing about how much of a token was right.
#[derive(Default)]
pub struct StaticTokens {
    identities: HashMap<[u8; 32], Identity>,
}

impl std::fmt::Debug for StaticTokens {
    fn fmt(&self, output: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(output, "StaticTokens({})", self.identities.len())
    }
}

impl StaticTokens {
    /// Reads a token file. If a token is given twice, the last line counts.
    pub fn from_csv(text: &str) -> Result<Self, TokenFileError> {
        let mut tokens = Self::default();
        for (line, mut record) in records(text)? {
            if record.len() < 3 {
                return Err(TokenFileError::Columns(line));
            }
            let groups = record.get(3).map(|groups| groups.split(',').map(str::to_owned).collect::<Vec<_>>());
            let groups = groups.unwrap_or_default().into_iter().filter(|group| !group.is_empty());
            let mut identity = Identity::authenticated(std::mem::take(&mut record[1]), groups);
            identity.uid = std::mem::take(&mut record[2]);
            tokens.insert(&record[0], identity);
        }
        Ok(tokens)
    }

    /// An empty token is nobody's.
    pub fn insert(&mut self, token: &str, identity: Identity) {
        if !token.is_empty() {
            self.identities.insert(fingerprint(token), identity);
        }
    }

    pub(super) fn find(&self, token: &str) -> Option<Identity> {
        self.identities.get(&fingerprint(token)).cloned()
    }
}

/// What a token is known by, without being known.
pub(super) fn fingerprint(token: &str) -> [u8; 32] {
    let digest = digest::digest(&SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// The records of a file of comma separated values, with the lines they start at.
fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, TokenFileError> {
    let mut records = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while !rest.is_empty() {
        let start = line;
        let mut record = Vec::new();
        loop {
            let (field, end) = read_field(rest, &mut line)?;
            record.push(field);
            rest = &rest[end..];
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        if let Some(next) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) {
            line += 1;
            rest = next;
        }
        // An empty line is no record.
        if record != [""] {
            records.push((start, record));
        }
    }
    Ok(records)
}

/// A field, and where it ends: before a comma, the end of a line or of the text.
fn read_field(text: &str, line: &mut usize) -> Result<(String, usize), TokenFileError> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', '\n']).unwrap_or(text.len());
        let ends_line = text[end..].starts_with('\n');
        let field =
            if ends_line { text[..end].strip_suffix('\r').unwrap_or(&text[..end]) } else { &text[..end] };
        if field.contains('"') {
            return Err(TokenFileError::Quote(*line));
        }
        return Ok((field.to_owned(), field.len()));
    };
    let start = *line;
    let mut field = String::new();
    let mut position = 0;
    loop {
        let Some(length) = quoted[position..].find('"') else { return Err(TokenFileError::Unclosed(start)) };
        let part = &quoted[position..position + length];
        *line += part.matches('\n').count();
        field.push_str(part);
        position += length + 1;
        match quoted[position..].chars().next() {
            Some('"') => {
                field.push('"');
                position += 1;
            }
            None | Some(',' | '\n') => return Ok((field, position + 1)),
            Some('\r') if quoted[position..].starts_with("\r\n") => return Ok((field, position + 1)),
            Some(_) => return Err(TokenFileError::Quote(*line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn identity(file: &str, token: &str) -> Identity {
        StaticTokens::from_csv(file).unwrap().find(token).unwrap()
    }

    #[test]
    fn token_file_names_user_uid_and_groups() {
        let file = "t1,bob,u1\r\n\nt2,eve,u2,\"devs,ops\"\nt3,\"a \"\"b\"\"\nc\",u3";
        let bob = identity(file, "t1");
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob", "u1"));
        assert_eq!(bob.groups, ["system:authenticated"]);
        assert_eq!(identity(file, "t2").groups, ["devs", "ops", "system:authenticated"]);
        assert_eq!(identity(file, "t3").name, "a \"b\"\nc");
    }

    #[test]
    fn token_file_with_a_mistake_is_refused_with_its_line() {
        for (file, error) in [
            ("a,b,c\nt1,bob", TokenFileError::Columns(2)),
            ("a,b,c\n\nt1,bo\"b,u", TokenFileError::Quote(3)),
            ("a,b,\"c\"d", TokenFileError::Quote(1)),
            ("a,b,\"c\n\n", TokenFileError::Unclosed(1)),
            ("x", TokenFileError::Columns(1)),
        ] {
            assert_eq!(StaticTokens::from_csv(file).unwrap_err(), error, "{file:?}");
        }
    }

    #[test]
    fn empty_token_is_nobodys() {
        let tokens = StaticTokens::from_csv(",bob,u1").unwrap();
        assert_eq!(tokens.find(""), None);
    }

    #[test]
    fn tokens_are_not_shown() {
        assert_eq!(format!("{:?}", StaticTokens::from_csv("secret,bob,u1").unwrap()), "StaticTokens(1)");
    }

    proptest! {
        #[test]
        fn garbage_is_read_or_refused(text in "([a,\"\r\n]|\\PC){0,40}") {
            let _ = StaticTokens::from_csv(&text);
        }

        #[test]
        fn what_is_quoted_comes_back(fields in proptest::collection::vec("[a-z,\"\n ]{1,6}", 3)) {
            let quote = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let line = fields.iter().map(quote).collect::<Vec<_>>().join(",");
            prop_assert_eq!(records(&line).unwrap(), vec![(1, fields)]);
        }
    }
}
