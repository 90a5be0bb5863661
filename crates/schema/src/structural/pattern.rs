//! The pattern of a schema: its text, and the expression that it is, which is parsed once however many use it.
//!
//! A definition that is written is checked for its syntax and its weight, compiled to check its defaults, and compiled again to be
//! served. Reading an expression is most of what these cost.
//!
//! Our own design: a schema of Kubernetes has the text alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ferroplane_cancellation::milestone;
use ferroplane_golang::regexp::Expression;

use super::compile_budget::TOO_COMPLEX;

/// A pattern. Copies share what was read. The default is none, which matches everything.
#[derive(Debug, Clone, Default)]
pub struct Pattern(Option<Arc<Written>>);

#[derive(Debug)]
struct Written {
    text: Box<str>,
    expression: OnceLock<Result<Expression, String>>,
    /// No value is compared with it.
    is_withheld: AtomicBool,
}

impl Pattern {
    /// The text as it is written; empty if there is no pattern.
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", |written| &written.text)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The expression, or what is wrong with it in Go's words. Nothing if there is no pattern.
    pub fn expression(&self) -> Option<Result<&Expression, &str>> {
        let written = self.0.as_ref()?;
        let read = || {
            // Work that is cut off here leaves nothing behind: the next one who looks reads it again.
            milestone();
            Expression::new(&written.text).map_err(|error| error.to_string())
        };
        Some(written.expression.get_or_init(read).as_ref().map_err(String::as_str))
    }

    /// The same for a value: a pattern that is withheld is not compiled, and no value matches it.
    pub(super) fn expression_for_values(&self) -> Option<Result<&Expression, &str>> {
        let written = self.0.as_ref()?;
        if written.is_withheld.load(Ordering::Relaxed) { Some(Err(TOO_COMPLEX)) } else { self.expression() }
    }

    /// Keeps values from being compared with the pattern, in all copies.
    pub(super) fn withhold(&self) {
        if let Some(written) = &self.0 {
            written.is_withheld.store(true, Ordering::Relaxed);
        }
    }
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        let written = |text: String| Written {
            text: text.into(),
            expression: OnceLock::new(),
            is_withheld: AtomicBool::new(false),
        };
        Self((!text.is_empty()).then(|| Arc::new(written(text))))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::structural::compile::{Purpose, SchemaNode};
    use crate::structural::{Props, Schema};

    #[test]
    fn expression_is_read_once_for_all_copies_and_everything_compiled_from_them() {
        let props = Props::decode(&json!({"type": "string", "pattern": "^a+$"})).unwrap();
        let read = props.pattern.expression().unwrap().unwrap();
        assert!(std::ptr::eq(read, props.clone().pattern.expression().unwrap().unwrap()));
        for purpose in [Purpose::Objects, Purpose::Defaults] {
            let node = SchemaNode::compile(&props, purpose, false);
            let checks = node.checks.as_ref().unwrap();
            assert!(std::ptr::eq(read, checks.pattern.expression().unwrap().unwrap()));
        }
    }

    #[test]
    fn schema_knows_what_compiling_all_its_patterns_costs() {
        let weight = |schema: &Value| Schema::compile(&Props::decode(schema).unwrap()).bound_patterns();
        let one = json!({"type": "string", "pattern": "[a-z]{10}"});
        let rule = json!({"rule": "self.matches('[a-z]{10}')"});
        let three = json!({"type": "object", "properties": {
            "a": one,
            "b": {"type": "string", "not": {"pattern": "[a-z]{10}"}},
            "c": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [rule]}},
            "d": {"type": "string", "pattern": "("},
        }});
        assert!(weight(&one) >= 10);
        assert_eq!(weight(&three), 3 * weight(&one));
    }

    #[test]
    fn mistake_is_told_to_everybody_who_looks() {
        let pattern = Pattern::from("(".to_owned());
        for _ in 0..2 {
            assert!(pattern.expression().unwrap().unwrap_err().contains("missing closing )"));
        }
        assert!(Pattern::from(String::new()).expression().is_none());
    }
}
