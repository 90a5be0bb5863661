//! The values of Secrets that an action knows, and texts without them.
//!
//! # Invariants
//! * No part of a value stays: where values overlap, all of what they cover is hidden.
//! * What is shorter than [`SHORTEST`] is not hidden: such values are words that messages are made of.

use std::collections::BTreeSet;
use std::fmt;

use ferroplane_api::Object;
use ferroplane_golang::base64;
use serde_json::Value;

/// The shortest value of a Secret that is hidden.
const SHORTEST: usize = 6;

/// Stands for what is hidden.
const HIDDEN: &str = "***";

/// Text that nobody may read in a status, an event or a log.
#[derive(Clone, Default)]
pub struct Secrets {
    texts: BTreeSet<String>,
}

impl Secrets {
    /// Hide the values of a Secret: each as a whole, its lines, and both of its forms in base64.
    pub fn add(&mut self, secret: &Object) {
        let data = secret.get("data").and_then(Value::as_object).into_iter().flatten();
        for (_, value) in data {
            let Ok(bytes) = base64::decode(value.as_str().unwrap_or_default().as_bytes()) else { continue };
            self.hide(&bytes);
        }
    }

    fn hide(&mut self, bytes: &[u8]) {
        let trimmed = bytes.trim_ascii();
        if trimmed.len() < SHORTEST {
            return;
        }
        for bytes in [bytes, trimmed] {
            // Padding is left out, so that the text is found with and without.
            let encoded = base64::encode(bytes).trim_end_matches('=').to_owned();
            self.texts.insert(encoded.replace('+', "-").replace('/', "_"));
            self.texts.insert(encoded);
        }
        let Ok(text) = std::str::from_utf8(trimmed) else { return };
        // Logs and messages have lines of their own.
        let texts = text.lines().chain([text]).map(str::trim).filter(|text| text.len() >= SHORTEST);
        self.texts.extend(texts.map(str::to_owned));
    }

    /// A text without the values of Secrets.
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
            // Otherwise it goes on where another value is hidden already.
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
    fn short_values_and_other_text_stay() {
        assert_eq!(secrets(&["true", ""]).redact("it is true"), "it is true");
        assert_eq!(Secrets::default().redact("ä"), "ä");
        assert_eq!(secrets(&["pässwörd"]).redact("»pässwörd«"), "»***«");
    }
}
