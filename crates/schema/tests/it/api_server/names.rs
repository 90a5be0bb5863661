//! What differs between any two runs, under names that do not: identifiers, resource versions and times.

use serde_json::Value;

/// What was seen in a sequence, in the order in which it was.
#[derive(Debug, Default)]
pub(crate) struct Names {
    uids: Vec<String>,
    versions: Vec<String>,
    times: Vec<String>,
}

/// The nth identifier.
pub(crate) fn uid(index: usize) -> String {
    format!("00000000-0000-4000-8000-{index:012}")
}

/// The nth resource version.
pub(crate) fn version(index: usize) -> String {
    (1001 + index).to_string()
}

/// The nth time.
pub(crate) fn time(index: usize) -> String {
    format!("2030-01-01T00:{:02}:{:02}Z", index / 60, index % 60)
}

impl Names {
    /// Replaces what differs by names.
    pub(crate) fn hide(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    match (key.as_str(), &*value) {
                        ("uid", Value::String(text))
                            if text.len() == 36 && !text.starts_with("00000000-") =>
                        {
                            *value = uid(seen(&mut self.uids, text)).into();
                        }
                        ("resourceVersion", Value::String(text)) if !text.is_empty() => {
                            *value = version(seen(&mut self.versions, text)).into();
                        }
                        ("time" | "creationTimestamp" | "deletionTimestamp", Value::String(text))
                            if text.starts_with("202") && !text.starts_with("2024-") =>
                        {
                            *value = self.hide_time(&text.clone()).into();
                        }
                        _ => self.hide(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Value::String(text) => {
                self.hide_in(text);
            }
            _ => {}
        }
    }

    /// Errors may quote whole objects.
    fn hide_in(&self, text: &mut String) {
        // A key in the database is shown as the database has it, or, if nothing is really written, without its prefix.
        *text = text.replace("Key: /registry/", "Key: /");
        for (index, real) in self.uids.iter().enumerate() {
            *text = text.replace(real.as_str(), &uid(index));
        }
        for (index, real) in self.versions.iter().enumerate() {
            let field = |version: &str| format!(r#"resourceVersion\":\"{version}\""#);
            *text = text.replace(&field(real), &field(&version(index)));
            let field = |version: &str| format!(r#"resourceVersion":"{version}""#);
            *text = text.replace(&field(real), &field(&version(index)));
        }
        for (index, real) in self.times.iter().enumerate() {
            *text = text.replace(real.as_str(), &time(index));
        }
    }

    pub(crate) fn hide_time(&mut self, text: &str) -> String {
        time(seen(&mut self.times, text))
    }

    /// Replaces names by what they stand for.
    pub(crate) fn show(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (index, real) in self.uids.iter().enumerate() {
            text = text.replace(&uid(index), real);
        }
        for (index, real) in self.versions.iter().enumerate() {
            let field = |version: &str| format!("\"resourceVersion\":\"{version}\"");
            text = text.replace(&field(&version(index)), &field(real));
        }
        for (index, real) in self.times.iter().enumerate() {
            text = text.replace(&time(index), real);
        }
        text
    }
}

fn seen(known: &mut Vec<String>, text: &str) -> usize {
    known.iter().position(|it| it == text).unwrap_or_else(|| {
        known.push(text.to_owned());
        known.len() - 1
    })
}
