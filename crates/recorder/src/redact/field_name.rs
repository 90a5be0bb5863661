//! Names of fields with secrets.

use aho_corasick::AhoCorasick;

/// What an object that holds a secret says somewhere.
// Each of `ENDINGS` has one of these in it, wherever `-`, `_` or `.` divides it into words: an object without a hint is not
// looked into. So they are no longer than a word, except for `api`, which is in every object.
const HINTS: [&str; 9] =
    ["secret", "pass", "token", "private", "apikey", "api_key", "api-key", "api.key", "credential"];
/// How names of fields with secrets end, in lower case and without `-`, `_` and `.`. A name may have anything before it, as
/// `githubToken` has. Names that merely end in `secret` are not among them: most of them say which Secret is meant.
const ENDINGS: [&str; 13] = [
    "token",
    "password",
    "passwords",
    "passphrase",
    "passwd",
    "apikey",
    "secretaccesskey",
    "clientsecret",
    "sharedsecret",
    "privatekey",
    "secretstring",
    "credential",
    "credentials",
];

/// The end of names of fields with secrets, as a user gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldName(String);

/// A name that would make too much secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected the end of a field's name, of at least three letters or digits, got `{0}`")]
pub struct BadFieldName(String);

impl std::str::FromStr for FieldName {
    type Err = BadFieldName;

    fn from_str(text: &str) -> Result<Self, BadFieldName> {
        let name = plain_name(text.trim());
        let is_name = name.chars().all(char::is_alphanumeric) && name.len() >= 3;
        if is_name { Ok(Self(name)) } else { Err(BadFieldName(text.to_owned())) }
    }
}

/// The names that are known, and those that users have added.
#[derive(Clone)]
pub(super) struct FieldNames {
    hints: AhoCorasick,
    added: Vec<FieldName>,
}

impl FieldNames {
    pub(super) fn new(added: &[FieldName]) -> Self {
        let hints = AhoCorasick::builder().ascii_case_insensitive(true).build(HINTS);
        let hints = hints.expect("a few words are not too many");
        Self { hints, added: added.to_vec() }
    }

    /// Whether one of them may be in an object.
    pub(super) fn may_be_in(&self, bytes: &[u8]) -> bool {
        // Names that a user adds may be written in many ways, so that nothing can be ruled out beforehand.
        !self.added.is_empty() || self.hints.is_match(bytes)
    }

    /// Whether a field of this name holds a secret.
    pub(super) fn has(&self, key: &str) -> bool {
        // Keys of maps may be data of any length. No name of a field is that long.
        if key.len() > 64 {
            return false;
        }
        let name = plain_name(key);
        // `fromConnectionSecretKey` and its like name an entry of a Secret, so this one counts only alone.
        name == "secretkey" || self.is_ending(&name)
    }

    /// Whether a list or map of this name holds secrets. In the plural, too: one text that is named `tokens` is usually a number of
    /// them, and several are not.
    pub(super) fn has_several(&self, key: &str) -> bool {
        self.has(key)
            || key.len() <= 64 && plain_name(key).strip_suffix('s').is_some_and(|name| self.is_ending(name))
    }

    fn is_ending(&self, name: &str) -> bool {
        ENDINGS.iter().any(|ending| name.ends_with(ending))
            || self.added.iter().any(|FieldName(ending)| name.ends_with(ending))
    }
}

/// Whether numbers below a field of this name count tokens: of a budget, for example.
pub(super) fn counts(key: &str) -> bool {
    plain_name(key).ends_with("tokens")
}

/// A name as names are compared: in lower case, and without `-`, `_` and `.`.
fn plain_name(name: &str) -> String {
    let letters = name.chars().filter(|letter| !['-', '_', '.'].contains(letter));
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}
