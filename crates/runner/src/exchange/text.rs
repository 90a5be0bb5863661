//! Reads the output of a program: JSON or YAML.

use serde_json::Value;
use serde_saphyr::options;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::{ExchangeError, MAX_ANSWER};

/// The one document that a program printed.
pub(super) fn parse(answer: &[u8]) -> Result<Value, ExchangeError> {
    if answer.len() > MAX_ANSWER {
        return Err(ExchangeError::TooLarge { size: answer.len() });
    }
    let text = std::str::from_utf8(answer).map_err(|_| ExchangeError::NotText)?.trim();
    if text.is_empty() {
        return Err(ExchangeError::Empty);
    }
    // JSON first: it is what most programs print, and reading it is much cheaper.
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(json) => yaml(text).map_err(|yaml| {
            let error = if text.starts_with('{') { json.to_string() } else { yaml };
            ExchangeError::Syntax(first_line(&error))
        }),
    }
}

fn yaml(text: &str) -> Result<Value, String> {
    let options = options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: ferroplane_wire::MAX_DEPTH,
            max_documents: 2,
            max_nodes: 2_000_000,
            max_events: 6_000_000,
            max_total_scalar_bytes: MAX_ANSWER,
        },
        // A small text can stand for a huge one by referring to itself.
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

/// Errors end up in conditions, which are a line.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
