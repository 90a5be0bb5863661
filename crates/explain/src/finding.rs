//! Why something is not ready.

use std::fmt;

use ferroplane_api::Cause;
use serde::Serialize;

use crate::id::Id;
use crate::words::one_line;

/// Why something is not ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which rule found it.
    pub rule: &'static str,
    /// The code of the cause, if what failed has said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// What is to blame.
    pub object: Id,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    pub message: String,
    /// In RFC 3339; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// What to do, the best first. Commands that start with `kubectl` or `ferroplane` can be copied, and lines after the first.
    pub advice: Vec<String>,
}

impl Finding {
    pub(crate) fn new(object: &Id, message: &str) -> Self {
        Self {
            rule: "",
            code: None,
            object: object.clone(),
            step: None,
            field: None,
            message: one_line(message),
            since: String::new(),
            advice: Vec::new(),
        }
    }

    pub(crate) fn code(mut self, cause: Option<Cause>) -> Self {
        self.code = cause.map(Cause::code);
        self
    }

    pub(crate) fn since(mut self, time: &str) -> Self {
        time.clone_into(&mut self.since);
        self
    }

    pub(crate) fn step(mut self, step: Option<&str>) -> Self {
        self.step = step.map(str::to_owned);
        self
    }

    pub(crate) fn field(mut self, field: &str) -> Self {
        self.field = Some(field.to_owned());
        self
    }

    pub(crate) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.object)?;
        if let Some(step) = &self.step {
            write!(f, "step `{step}`: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "field `{field}`: ")?;
        }
        f.write_str(&self.message)
    }
}
