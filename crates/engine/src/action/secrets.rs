//! Redacts the values of Secrets that an action knows.
//!
//! # Invariants
//! * No part of a value remains: where values overlap, everything that they cover is redacted.
//! * Values that are shorter than [`SHORTEST`] are not redacted: they are words that messages consist of.

use std::collections::BTreeSet;
use std::fmt;

use ferroplane_api::Object;
use ferroplane_golang::{base64, json};
use serde_json::Value;

/// The shortest value of a Secret that is redacted.
pub(super) const SHORTEST: usize = 6;

/// Replaces a redacted value.
const HIDDEN: &str = "***";

/// Values that must not appear in a status, an event or a log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    texts: BTreeSet<String>,
    /// The values themselves, however short.
    values: BTreeSet<Vec<u8>>,
}

impl Secrets {
    /// Redact the values of a Secret: each as a whole, its lines, and what templates often make of it: base64, JSON, and the text that
    /// is in it in base64.
    pub fn add(&mut self, secret: &Object) {
        let data = secret.get("data").and_then(Value::as_object).into_iter().flatten();
        for (_, value) in data {
            let Ok(bytes) = base64::decode(value.as_str().unwrap_or_default().as_bytes()) else { continue };
            self.hide(&bytes);
            if let Ok(decoded) = base64::decode(bytes.trim_ascii())
                && std::str::from_utf8(&decoded).is_ok()
            {
                self.hide_texts(&decoded);
            }
        }
    }

    fn hide(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.values.insert(bytes.to_vec());
        }
        self.hide_texts(bytes);
    }

    fn hide_texts(&mut self, bytes: &[u8]) {
        let trimmed = bytes.trim_ascii();
        if trimmed.len() < SHORTEST {
            return;
        }
        for bytes in [bytes, trimmed] {
            // Without padding, so that the text is found with and without it.
            let encoded = base64::encode(bytes).trim_end_matches('=').to_owned();
            self.texts.insert(encoded.replace('+', "-").replace('/', "_"));
            self.texts.insert(encoded);
        }
        let Ok(text) = std::str::from_utf8(trimmed) else { return };
        // Logs and messages split values at line breaks.
        for text in text.lines().chain([text]).map(str::trim).filter(|text| text.len() >= SHORTEST) {
            self.texts.insert(text.to_owned());
            // As `toJson .Profile` has it, and as programs print that. Without the quotes, since other text may be beside it.
            let value = Value::from(text);
            for quoted in [json::marshal(&value), json::marshal_without_html_escapes(&value)] {
                self.texts.insert(quoted[1..quoted.len() - 1].to_owned());
            }
        }
    }

    /// The values themselves, for recordings, which redact them in their own way.
    pub(super) fn values(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.values.iter()
    }

    /// A text with the values of Secrets redacted.
    pub fn redact(&self, text: &str) -> String {
        let found = |secret: &String| {
            text.match_indices(secret.as_str())
                .map(|(start, found)| (start, start + found.len()))
                .collect::<Vec<_>>()
        };
        let mut places: Vec<_> = self.texts.iter().flat_map(found).collect();
        places.sort_unstable();
        let mut redacted = String::with_capacity(text.len());
        let mut shown = 0;
        for (start, end) in places {
            // Otherwise the match continues in a part that is redacted already.
            if start >= shown {
                redacted.push_str(&text[shown..start]);
                redacted.push_str(HIDDEN);
            }
            shown = shown.max(end);
        }
        redacted.push_str(&text[shown..]);
        redacted
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        let data: Object = values
            .iter()
            .enumerate()
            .map(|(index, value)| (index.to_string(), base64::encode(value.as_bytes()).into()))
            .collect();
        let mut secrets = Secrets::default();
        secrets.add(json!({"data": data}).as_object().unwrap());
        secrets
    }

    #[test]
    fn value_that_is_the_beginning_of_another_does_not_leave_its_end() {
        let hidden = secrets(&["hunter2", "hunter2-and-more"]);
        assert_eq!(hidden.redact("no hunter2-and-more, no hunter2"), "no ***, no ***");
    }

    #[test]
    fn values_that_overlap_are_hidden_together() {
        assert_eq!(secrets(&["abcdef", "defghi"]).redact("<abcdefghi>"), "<***>");
    }

    #[test]
    fn lines_of_a_value_are_hidden_one_by_one() {
        let hidden = secrets(&["first-line\nab\n  second-line  \n"]);
        assert_eq!(hidden.redact("x second-line y first-line ab"), "x *** y *** ab");
    }

    #[test]
    fn value_in_base64_is_hidden_in_every_alphabet() {
        let hidden = secrets(&["hunter2\n", "~~~???>>>"]);
        for text in ["hunter2", "hunter2\n", "~~~???>>>"] {
            let encoded = base64::encode(text.as_bytes());
            for form in [encoded.clone(), encoded.replace('+', "-").replace('/', "_")] {
                let redacted = hidden.redact(&format!("Authorization: {form}"));
                assert_eq!(redacted.trim_end_matches('='), "Authorization: ***", "{form}");
            }
        }
    }

    #[test]
    fn value_in_json_is_hidden() {
        let hidden = secrets(&["a\"b&c<d>", "first&line\nsecond"]);
        assert_eq!(hidden.redact(r#"{"Secret":"a\"b\u0026c\u003cd\u003e"}"#), r#"{"Secret":"***"}"#);
        assert_eq!(hidden.redact(r#"{"Secret":"a\"b&c<d>"}"#), r#"{"Secret":"***"}"#);
        assert_eq!(hidden.redact(r#"{"Key":"first\u0026line\nsecond"}"#), r#"{"Key":"***"}"#);
    }

    #[test]
    fn text_that_is_a_value_in_base64_is_hidden() {
        let hidden = secrets(&[&base64::encode(b"sesame-open"), &base64::encode(b"abc")]);
        assert_eq!(hidden.redact("opens with sesame-open, abc"), "opens with ***, abc");
    }

    #[test]
    fn short_values_and_other_text_stay() {
        assert_eq!(secrets(&["true", ""]).redact("it is true"), "it is true");
        assert_eq!(Secrets::default().redact("ä"), "ä");
        assert_eq!(secrets(&["pässwörd"]).redact("»pässwörd«"), "»***«");
    }
}
