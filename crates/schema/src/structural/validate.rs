//! Holds a value against a schema, finding what Kubernetes finds, in its order.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/validation/validate/schema.go`; apiextensions-apiserver 0.36.4,
//! `pkg/apiserver/validation/ratcheting.go`.

use std::collections::HashSet;

use ferroplane_cancellation::checkpoint;
use ferroplane_golang::strconv;
use serde_json::{Map, Value};

use super::compile::{Checks, Kinds, Others, Schema, SchemaNode};
use super::correlate::{Correlation, OldItems};
use super::number::{self, Num};
use super::report::{At, Code, Mistake, Report};
use crate::field::{Error, Path};

impl Schema {
    /// What is wrong with a value, below a path.
    pub fn validate(&self, value: &Value, path: &Path<'_>) -> Vec<Error> {
        validate(&self.root, value, path)
    }

    /// What is wrong with a value that replaces an old one. What was wrong before and did not change is tolerated.
    pub fn validate_update(&self, value: &Value, old: &Value, path: &Path<'_>) -> Vec<Error> {
        // Most updates have nothing to be forgiven for, and old values need not be checked.
        if is_valid(&self.root, value) {
            return Vec::new();
        }
        let mut report = Report::default();
        let correlation = Correlation { old, new: value, node: &self.root };
        SchemaValidator { report: &mut report }.node(&self.root, value, At::Root, Some(correlation));
        report.into_errors(path)
    }
}

pub(super) fn validate(node: &SchemaNode, value: &Value, path: &Path<'_>) -> Vec<Error> {
    let mut report = Report::default();
    SchemaValidator { report: &mut report }.node(node, value, At::Root, None);
    report.into_errors(path)
}

fn is_valid(node: &SchemaNode, value: &Value) -> bool {
    let mut probe = Report::probe();
    SchemaValidator { report: &mut probe }.check(node, value, At::Root, None);
    probe.is_valid()
}

struct SchemaValidator<'r> {
    report: &'r mut Report,
}

impl SchemaValidator<'_> {
    /// Validates, and forgives everything if the old value was the same.
    fn node(&mut self, node: &SchemaNode, value: &Value, at: At<'_>, correlation: Option<Correlation<'_>>) {
        let before = self.report.mistakes.len();
        self.check(node, value, at, correlation);
        // Compared only after something was found: comparing values costs more than validating most of them.
        if self.report.mistakes.len() > before
            && correlation.is_some_and(|correlation| correlation.is_unchanged())
        {
            self.report.mistakes.truncate(before);
        }
    }

    fn check(&mut self, node: &SchemaNode, value: &Value, at: At<'_>, correlation: Option<Correlation<'_>>) {
        checkpoint();
        // A probe ends at the first mistake, which makes alternatives of large schemas affordable.
        if self.report.is_decided() {
            return;
        }
        let checks = node.checks.as_deref();
        if value.is_null() {
            self.null(node, at);
            self.values(checks, value, at);
            return;
        }
        self.kind(node, value, at);
        if let Some(checks) = checks.filter(|checks| checks.has_junctors()) {
            self.junctors(checks, value, at);
        }
        // `matches` counts what Kubernetes counts (`Result.MatchCount`), validator by validator, though
        // nothing here needs it: of several failed alternatives it reports the one with the most matches.
        self.report.matches += 2;
        match value {
            Value::String(text) => {
                self.report.matches += 1;
                if let Some(checks) = checks {
                    self.text(checks, text, at);
                }
            }
            Value::Number(number) => {
                self.report.matches += 2;
                if let Some(checks) = checks {
                    number::check(node.kinds, checks, Num::new(number), at, self.report);
                }
            }
            Value::Array(items) => {
                self.report.matches += 2;
                self.items(node, items, at, correlation);
            }
            _ => {}
        }
        self.values(checks, value, at);
        self.report.matches += 1;
        if let Value::Object(fields) = value {
            self.report.matches += 1;
            self.fields(node, fields, at, correlation);
        }
        self.report.matches += 1;
    }

    fn null(&mut self, node: &SchemaNode, at: At<'_>) {
        if node.kinds.is_empty() || node.kinds.contains(Kinds::NULL) || node.nullable {
            self.report.matches += 1;
        } else {
            self.wrong_type(&node.kinds_text, "null", at);
        }
    }

    fn wrong_type(&mut self, wanted: &str, found: &str, at: At<'_>) {
        self.report.fail(|| {
            let words = format!("must be of type {wanted}: {}", strconv::quote(found));
            at.mistake(Code::Type(found.to_owned()), &words)
        });
    }

    fn kind(&mut self, node: &SchemaNode, value: &Value, at: At<'_>) {
        let format = node.checks.as_deref().map_or("", |checks| &checks.format);
        if node.kinds.is_empty() && format.is_empty() {
            return;
        }
        self.report.matches += 1;
        let (kind, kind_name, kind_format, is_close) = classify(node.kinds, value);
        let is_textual = matches!(value, Value::String(_) | Value::Array(_));
        if !format.is_empty() {
            let fits = node.kinds.contains(kind) || kind_format == format || is_close;
            // Formats of numbers are part of the type check; those of texts have a check of their own.
            if !is_textual && !fits {
                return self.wrong_type(format, kind_format, at);
            }
            if is_textual && !node.kinds.is_numeric() {
                self.report.matches += 1;
                return;
            }
        }
        if node.kinds.contains(kind) || is_close {
            self.report.matches += 1;
        } else {
            self.wrong_type(&node.kinds_text, kind_name, at);
        }
    }

    /// Length, pattern and format; of the first two only what fails first.
    fn text(&mut self, checks: &Checks, text: &str, at: At<'_>) {
        // The length in characters first: Kubernetes stops at the first of these, and still checks the
        // format.
        self.text_shape(checks, text, at);
        let Some(check) = checks.format_check else { return };
        self.report.matches += 1;
        if !check(text) {
            self.report.fail(|| {
                let words = format!("must be of type {}: {}", checks.format, strconv::quote(text));
                at.mistake(Code::Type(text.to_owned()), &words)
            });
        }
    }

    fn text_shape(&mut self, checks: &Checks, text: &str, at: At<'_>) {
        if checks.max_length.is_some() || checks.min_length.is_some() {
            let length = number::count(text.chars().count());
            if let Some(most) = checks.max_length.filter(|most| length > *most) {
                return self.report.fail(|| {
                    at.mistake(Code::TooLong(most), &format!("should be at most {most} chars long"))
                });
            }
            if let Some(least) = checks.min_length.filter(|least| length < *least) {
                return self.report.fail(|| {
                    let words = format!("should be at least {least} chars long");
                    at.mistake(Code::Other(Some(text.into())), &words)
                });
            }
        }
        let Some(expression) = checks.pattern.expression_for_values() else { return };
        let problem = match expression {
            Ok(expression) if expression.is_match(text) => return,
            Ok(_) => String::new(),
            // A definition with such a pattern is refused today, but may have been stored before.
            Err(error) => format!(", but pattern is invalid: {error}"),
        };
        self.report.fail(|| {
            let words = format!("should match '{}{problem}'", checks.pattern.as_str());
            at.mistake(Code::Other(Some(text.into())), &words)
        });
    }

    fn values(&mut self, checks: Option<&Checks>, value: &Value, at: At<'_>) {
        let Some(checks) = checks.filter(|checks| !checks.values.is_empty()) else { return };
        if !checks.values.iter().any(|candidate| is_enumerated(value, candidate)) {
            self.report
                .fail(|| at.mistake(Code::Enum(value.clone(), checks.values.to_vec()), "should be one of"));
        }
    }

    fn items(
        &mut self,
        node: &SchemaNode,
        items: &[Value],
        at: At<'_>,
        correlation: Option<Correlation<'_>>,
    ) {
        if let Some(item) = &node.items {
            let old = correlation.and_then(|correlation| OldItems::new(&correlation));
            for (index, value) in items.iter().enumerate() {
                let correlation = old.as_ref().and_then(|old| old.correlate(value));
                self.node(item, value, At::Item(&at, index), correlation);
            }
        }
        let Some(checks) = node.checks.as_deref() else { return };
        let size = number::count(items.len());
        if let Some(least) = checks.min_items.filter(|least| size < *least) {
            self.report.fail(|| {
                at.mistake(Code::Other(Some(size.into())), &format!("should have at least {least} items"))
            });
        }
        if let Some(most) = checks.max_items.filter(|most| size > *most) {
            self.report.fail(|| {
                let code = Code::TooMany { actual: size, most };
                at.mistake(code, &format!("should have at most {most} items"))
            });
        }
        if checks.unique_items {
            // Definitions with `uniqueItems` are refused, because Kubernetes compares pairwise. This serves
            // schemas of other origin, in linear time.
            let mut seen = HashSet::with_capacity(items.len());
            if !items.iter().all(|item| seen.insert(item)) {
                self.report.fail(|| at.mistake(Code::Other(None), "shouldn't contain duplicates"));
            }
        }
    }

    fn fields(
        &mut self,
        node: &SchemaNode,
        fields: &Map<String, Value>,
        at: At<'_>,
        correlation: Option<Correlation<'_>>,
    ) {
        let checks = node.checks.as_deref();
        if let Some(checks) = checks {
            self.field_count(checks, number::count(fields.len()), at);
        }
        // Fields without a name in the schema come first, then named ones, then what is required: the order
        // of `object_validator.go`, which users see.
        match &node.additional {
            Others::Unsaid | Others::Allowed => {}
            Others::Refused => {
                for name in fields.keys().filter(|name| node.property(name).is_none()) {
                    self.report.fail(|| {
                        let path = at.name();
                        let message = format!("{path}.{name} in body is a forbidden property");
                        Mistake { name: path, message, code: Code::Other(Some(name.as_str().into())) }
                    });
                }
            }
            Others::Schema(other) => {
                for (name, value) in fields.iter().filter(|(name, _)| node.property(name).is_none()) {
                    let correlation = correlate_field(correlation, at, name);
                    self.node(other, value, At::Other(&at, name), correlation);
                }
            }
        }
        if !node.properties.is_empty() {
            for (name, value) in fields {
                if let Some(property) = node.property(name) {
                    let correlation = correlate_field(correlation, at, name);
                    self.node(property, value, At::Property(&at, name), correlation);
                }
            }
        }
        for name in checks.iter().flat_map(|checks| &checks.required) {
            if !fields.contains_key(&**name) {
                self.report.fail(|| At::Other(&at, name).mistake(Code::Required, "is required"));
            }
        }
    }

    fn field_count(&mut self, checks: &Checks, count: i64, at: At<'_>) {
        if let Some(least) = checks.min_properties.filter(|least| count < *least) {
            self.report.fail(|| {
                let words = format!("should have at least {least} properties");
                at.mistake(Code::Other(Some(count.into())), &words)
            });
        }
        if let Some(most) = checks.max_properties.filter(|most| count > *most) {
            self.report.fail(|| {
                let code = Code::TooMany { actual: count, most };
                at.mistake(code, &format!("should have at most {most} properties"))
            });
        }
    }

    /// Alternatives are first only asked whether they fit, which costs nothing if they do.
    fn junctors(&mut self, checks: &Checks, value: &Value, at: At<'_>) {
        // Within an alternative the matches count, so that it is validated in full at once.
        if self.report.is_plain() {
            let mut probe = Report::probe();
            SchemaValidator { report: &mut probe }.alternatives(checks, value, at);
            if probe.is_valid() {
                return;
            }
        }
        self.alternatives(checks, value, at);
    }

    fn alternatives(&mut self, checks: &Checks, value: &Value, at: At<'_>) {
        if !checks.any_of.is_empty() {
            self.any_of(&checks.any_of, value, at);
        }
        if !checks.one_of.is_empty() {
            self.one_of(&checks.one_of, value, at);
        }
        if !checks.all_of.is_empty() {
            self.all_of(&checks.all_of, value, at);
        }
        if let Some(not) = &checks.not {
            let mut probe = Report::probe();
            SchemaValidator { report: &mut probe }.check(not, value, at, None);
            if probe.is_valid() {
                self.compose(at, "must not validate the schema (not)");
            }
        }
    }

    fn compose(&mut self, at: At<'_>, words: &str) {
        self.report.fail(|| At::nowhere(format!("{} {words}", strconv::quote(&at.name()))));
    }

    fn branch(&self, node: &SchemaNode, value: &Value, at: At<'_>) -> Report {
        let mut report = self.report.branch();
        SchemaValidator { report: &mut report }.check(node, value, at, None);
        report
    }

    fn any_of(&mut self, nodes: &[SchemaNode], value: &Value, at: At<'_>) {
        let mut best: Option<Report> = None;
        for node in nodes {
            let report = self.branch(node, value, at);
            if report.is_valid() {
                return self.report.merge(report);
            }
            // Strictly more: of equals, the first one is reported.
            if best.as_ref().is_none_or(|best| report.matches > best.matches) {
                best = Some(report);
            }
        }
        self.compose(at, "must validate at least one schema (anyOf)");
        if let Some(best) = best {
            self.report.merge(best);
        }
    }

    fn one_of(&mut self, nodes: &[SchemaNode], value: &Value, at: At<'_>) {
        let mut best: Option<Report> = None;
        let mut first: Option<Report> = None;
        let mut valid = 0;
        for node in nodes {
            let report = self.branch(node, value, at);
            if report.is_valid() {
                // A valid alternative makes what failed before it uninteresting; several valid ones are
                // reported without details.
                valid += 1;
                best = None;
                first.get_or_insert(report);
            } else if valid == 0 && best.as_ref().is_none_or(|best| report.matches > best.matches) {
                best = Some(report);
            }
        }
        if valid == 1 {
            if let Some(first) = first {
                self.report.merge(first);
            }
            return;
        }
        let found = if valid == 0 {
            "Found none valid".to_owned()
        } else {
            format!("Found {valid} valid alternatives")
        };
        self.compose(at, &format!("must validate one and only one schema (oneOf). {found}"));
        if let Some(best) = best {
            self.report.merge(best);
        }
    }

    fn all_of(&mut self, nodes: &[SchemaNode], value: &Value, at: At<'_>) {
        let mut valid = 0;
        for node in nodes {
            let report = self.branch(node, value, at);
            valid += usize::from(report.is_valid());
            self.report.merge(report);
        }
        if valid != nodes.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            self.compose(at, &format!("must validate all the schemas (allOf){none}"));
        }
    }
}

fn correlate_field<'a>(
    correlation: Option<Correlation<'a>>,
    at: At<'_>,
    name: &str,
) -> Option<Correlation<'a>> {
    // The type of the object is not compared: both are converted to the same one.
    if at.is_root() && (name == "kind" || name == "apiVersion") {
        return None;
    }
    correlation?.key(name)
}

/// The type of a value: as a set, its name, its format, and whether it is close enough to what is wanted.
fn classify(wanted: Kinds, value: &Value) -> (Kinds, &'static str, &'static str, bool) {
    match value {
        Value::Null => (Kinds::NULL, "null", "", false),
        Value::Bool(_) => (Kinds::BOOLEAN, "boolean", "", false),
        Value::String(_) => (Kinds::STRING, "string", "", false),
        Value::Array(_) => (Kinds::ARRAY, "array", "", false),
        Value::Object(_) => (Kinds::OBJECT, "object", "", false),
        Value::Number(number) => match Num::new(number) {
            Num::Int(_) => (Kinds::INTEGER, "integer", "int64", wanted.contains(Kinds::NUMBER)),
            Num::Float(float) => {
                let is_close = wanted.contains(Kinds::INTEGER) && number::is_integral(float);
                (Kinds::NUMBER, "number", "float64", is_close)
            }
        },
    }
}

/// Whether a value is one of an enum's, after the conversions that Go would do. Null never is.
fn is_enumerated(value: &Value, candidate: &Value) -> bool {
    match (value, candidate) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(candidate)) => match (Num::new(value), Num::new(candidate)) {
            (Num::Int(value), Num::Int(candidate)) => value == candidate,
            (Num::Float(value), Num::Float(candidate)) => number::is_same(value, candidate),
            (Num::Int(value), Num::Float(candidate)) => number::is_same(number::to_float(value), candidate),
            // Go converts the value to the type of the candidate (`reflect.Value.Convert`), which drops a
            // fraction: 1.5 is one of [1].
            (Num::Float(value), Num::Int(candidate)) => number::truncate(value) == candidate,
        },
        // The same conversion makes of an integer the character with that number: 65 is one of ["A"].
        (Value::Number(value), Value::String(candidate)) => match Num::new(value) {
            Num::Int(value) => {
                let character = u32::try_from(value).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
                candidate.chars().eq([character])
            }
            Num::Float(_) => false,
        },
        _ => value == candidate,
    }
}
