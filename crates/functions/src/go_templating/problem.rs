//! Why nothing can be composed, and which line of the templates is to blame.

use super::source::{Lines, TemplateLine};

/// Why nothing can be composed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// All of it in one text.
    pub(super) message: String,
    /// The line of the templates that is to blame, if one is.
    pub(super) at: Option<TemplateLine>,
}

impl Problem {
    /// A mistake that the engine found in a line of the text. It names the line of the text, which the author only knows if the text
    /// is one piece.
    pub(super) fn in_template(message: String, lines: &Lines, line: usize) -> Self {
        let at = lines.locate(line);
        match &at {
            Some(at) if !lines.is_one_piece() => {
                Self { message: format!("{message} ({at})"), at: Some(at.clone()) }
            }
            _ => Self { message, at },
        }
    }

    /// A mistake in a document that this line printed.
    pub(super) fn in_document(message: String, at: Option<TemplateLine>) -> Self {
        let message = match &at {
            Some(at) => format!("{message} (printed by {at})"),
            None => message,
        };
        Self { message, at }
    }
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Self { message, at: None }
    }
}
