//! Tries rules on a value and on all that is in it, within a budget.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apiserver/schema/cel/validation.go`.

use std::sync::Arc;

use ferroplane_cancellation::checkpoint;
use ferroplane_cel::{EvaluateError, Limits, Numbers, Value, ValueSchema};
use ferroplane_golang::strconv;
use serde_json::Value as Json;

use super::{Compiled, CompiledRules, declare};
use crate::field::{BadValue, Error, ErrorKind, Path};
use crate::structural::correlate::{Correlation, OldItems};

/// How long a message may be that an expression makes.
const MAX_MESSAGE: usize = 5 * 1024;

/// How expressions see a value that no rule is about, nor about anything around it.
pub(super) static UNSEEN: ValueSchema = ValueSchema::Unknown;

/// What a broken rule may be forgiven for: the value did not change, or what is around it did not.
#[derive(Clone, Copy)]
pub(super) struct Ratchet<'a> {
    pub(super) current: Option<Correlation<'a>>,
    pub(super) nearest: Option<Correlation<'a>>,
}

impl<'a> Ratchet<'a> {
    fn forgives(self) -> bool {
        self.current.or(self.nearest).is_some_and(|correlation| correlation.is_unchanged())
    }

    fn key(self, name: &str) -> Self {
        let Some(current) = self.current else { return self };
        // The type at the root is never forgiven: both objects were converted to the same version.
        if self.nearest.is_none() && (name == "apiVersion" || name == "kind") {
            return Self { current: None, nearest: None };
        }
        // A field without an old counterpart is forgiven if the nearest value around it that has one did not
        // change.
        Self { current: current.key(name), nearest: Some(current) }
    }

    fn item(self, items: Option<&OldItems<'a>>, item: &'a Json) -> Self {
        let Some(current) = self.current else { return self };
        Self { current: items.and_then(|items| items.correlate(item)), nearest: Some(current) }
    }
}

/// A value that rules are tried on.
struct Judged<'a> {
    value: &'a Json,
    old: Option<&'a Json>,
    shape: &'a ValueSchema,
    ratchet: Ratchet<'a>,
    path: &'a Path<'a>,
}

/// Variables whose values expressions cannot see, and why.
type Misfits = [(&'static str, Option<String>); 2];

impl CompiledRules {
    /// Tolerated mistakes may have left something else in a value's place. That matters only if it is checked.
    fn misfits(&self, judged: &Judged<'_>, is_optional: bool) -> Misfits {
        let values = [("self", Some(judged.value)), ("oldSelf", judged.old.filter(|_| !is_optional))];
        values.map(|(name, value)| (name, value.and_then(|value| self.misfit(value))))
    }
}

pub(super) struct RuleValidator<'b> {
    pub(super) errors: Vec<Error>,
    /// What may still be spent; below zero nothing more is tried.
    pub(super) budget: &'b mut i64,
}

impl RuleValidator<'_> {
    /// `inherited` is how expressions see the value if there are rules around it.
    pub(super) fn node(
        &mut self,
        rules: &CompiledRules,
        value: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_>,
        path: &Path<'_>,
        inherited: &ValueSchema,
    ) {
        checkpoint();
        // Null was allowed by the schema, and no rule is about it.
        if *self.budget < 0 || value.is_null() {
            return;
        }
        if rules.is_invisible {
            let detail =
                "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            self.errors.push(Error::invalid(path, &*rules.kind, detail));
        }
        let shape = rules.shape.as_deref().unwrap_or(inherited);
        if !rules.compiled.is_empty() {
            let old = old.filter(|old| !old.is_null());
            self.rules(rules, &Judged { value, old, shape, ratchet, path });
        }
        match value {
            Json::Array(items) => {
                let Some(below) = &rules.items else { return };
                let list = old.map(|old| Correlation { old, new: value, node: &rules.node });
                let old_items = list.and_then(|list| OldItems::new(&list));
                let correlated = ratchet.current.and_then(|current| OldItems::new(&current));
                let shape = declare::item_in(shape).unwrap_or(&UNSEEN);
                for (index, item) in items.iter().enumerate() {
                    let old = old_items.as_ref().and_then(|items| items.find(item));
                    let ratchet = ratchet.item(correlated.as_ref(), item);
                    self.node(below, item, old, ratchet, &path.index(index), shape);
                }
            }
            Json::Object(fields) => {
                self.fields(rules, fields, old.and_then(Json::as_object), ratchet, path, shape);
            }
            _ => {}
        }
    }

    fn fields(
        &mut self,
        rules: &CompiledRules,
        fields: &serde_json::Map<String, Json>,
        old: Option<&serde_json::Map<String, Json>>,
        ratchet: Ratchet<'_>,
        path: &Path<'_>,
        shape: &ValueSchema,
    ) {
        if let Some(below) = &rules.additional {
            let shape = declare::additional_in(shape).unwrap_or(&UNSEEN);
            for (name, field) in fields {
                let old = old.and_then(|old| old.get(name));
                self.node(below, field, old, ratchet.key(name), &path.key(name), shape);
            }
        }
        for (name, field) in fields {
            if let Some(below) = rules.property(name) {
                let old = old.and_then(|old| old.get(name));
                let shape = declare::property_in(shape, name).unwrap_or(&UNSEEN);
                self.node(below, field, old, ratchet.key(name), &path.child(name), shape);
            }
        }
    }

    fn rules(&mut self, rules: &CompiledRules, judged: &Judged<'_>) {
        for compiled in &rules.compiled {
            if *self.budget <= 0 {
                self.out_of_budget(&rules.kind, judged.path);
                return;
            }
            // A negative budget ends the walk everywhere, not only in this list of rules.
            if !self.rule(rules, compiled, judged) {
                *self.budget = -1;
                return;
            }
        }
    }

    fn out_of_budget(&mut self, kind: &str, path: &Path<'_>) {
        let detail =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        self.errors.push(Error::invalid(path, kind, detail));
        *self.budget = -1;
    }

    /// Whether to continue with other rules.
    fn rule(&mut self, rules: &CompiledRules, compiled: &Compiled, judged: &Judged<'_>) -> bool {
        if let Some(reason) = compiled.withheld {
            self.withheld(reason, judged);
            return true;
        }
        let kind = &*rules.kind;
        let program = match &compiled.program {
            None => return true,
            Some(Err(problem)) => {
                let detail = format!("rule compile error: {problem}");
                self.errors.push(Error::invalid(judged.path, kind, detail));
                return true;
            }
            Some(Ok(program)) => program,
        };
        let is_optional = compiled.rule.optional_old_self == Some(true);
        // A transition rule says nothing about a value that is new.
        if compiled.uses_old_self && judged.old.is_none() && !is_optional {
            return true;
        }
        let mut variables =
            variables(judged.shape, judged.value, judged.old, compiled.uses_old_self && is_optional);
        let misfits = rules.misfits(judged, is_optional);
        variables
            .retain(|(name, _)| !misfits.iter().any(|(misfit, problem)| misfit == name && problem.is_some()));
        let (outcome, cost) = program.evaluate_with(variables, Limits::PER_CALL);
        if !self.spend(cost) {
            self.out_of_budget(kind, judged.path);
            return false;
        }
        match outcome {
            Ok(evaluated) if evaluated.value.as_bool() == Some(true) => true,
            Ok(_) => self.broken(rules, compiled, judged),
            Err(error) => {
                let goes_on = !matches!(error, EvaluateError::Cancelled(_));
                let detail = failure(&error, misfits, compiled.rule.words());
                self.errors.push(Error::invalid(judged.path, kind, detail));
                goes_on
            }
        }
    }

    /// A rule that is not evaluated is not followed, unless nothing has changed.
    fn withheld(&mut self, reason: &'static str, judged: &Judged<'_>) {
        if !judged.ratchet.forgives() {
            self.errors.push(Error::forbidden(judged.path, reason));
        }
    }

    fn spend(&mut self, cost: u64) -> bool {
        match i64::try_from(cost) {
            Ok(cost) if cost <= *self.budget => {
                *self.budget -= cost;
                true
            }
            _ => false,
        }
    }

    fn broken(&mut self, rules: &CompiledRules, compiled: &Compiled, judged: &Judged<'_>) -> bool {
        let Judged { value, ratchet, path, .. } = *judged;
        let rule = &compiled.rule;
        let child = path.child(&compiled.field_path);
        let at = if compiled.field_path.is_empty() { path } else { &child };
        // A transition rule compares with the old value itself, so that it is never forgiven. The message is
        // made all the same, because its cost counts.
        let is_forgiven = !compiled.uses_old_self && ratchet.forgives();
        let mut goes_on = true;
        let error = match self.message(compiled, judged) {
            Err(problem) => {
                goes_on = false;
                Error::invalid(at, &*rules.kind, problem)
            }
            Ok(message) => {
                let detail = message.unwrap_or_else(|| rule.failure());
                let is_compound = matches!(&*rules.kind, "object" | "array");
                let shown = if is_compound { BadValue::Omitted } else { BadValue::from(value) };
                match rule.reason.as_deref() {
                    Some("FieldValueForbidden") => Error::forbidden(at, detail),
                    Some("FieldValueRequired") => Error::required(at, detail),
                    Some("FieldValueDuplicate") => Error::duplicate(at, shown),
                    _ => Error::new(ErrorKind::Invalid, at, shown, detail),
                }
            }
        };
        if !is_forgiven {
            self.errors.push(error);
        }
        goes_on
    }

    /// What an expression says about it, if there is one and it has something to say. An error ends everything.
    fn message(&mut self, compiled: &Compiled, judged: &Judged<'_>) -> Result<Option<String>, String> {
        let Some(Ok(program)) = &compiled.message else { return Ok(None) };
        // Kubernetes gives messages the plain old value even if the rule has an optional one.
        let old = judged.old.filter(|_| compiled.uses_old_self);
        let variables = variables(judged.shape, judged.value, old, false);
        let (outcome, cost) = program.evaluate_with(variables, Limits::PER_CALL);
        if !self.spend(cost) {
            return Err("messageExpression evaluation failed due to running out of cost budget, no further validation \
                        rules will be run"
                .to_owned());
        }
        let text = match outcome {
            Err(EvaluateError::Cancelled(_)) => {
                return Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                    strconv::quote(&compiled.rule.message_expression)
                ));
            }
            // A message expression that fails is replaced by the static message; only one that is too
            // expensive ends validation.
            Err(_) => return Ok(None),
            Ok(evaluated) => evaluated.value.as_str().map(|text| text.trim().to_owned()),
        };
        Ok(text.filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')))
    }
}

/// How an error says that a rule could not be evaluated.
fn failure(error: &EvaluateError, misfits: Misfits, words: &str) -> String {
    if let EvaluateError::Cancelled(reason) = error {
        return format!(
            "'operation cancelled: {reason}': no further validation rules will be run due to call cost exceeds limit for \
             rule: {words}"
        );
    }
    let error = error.to_string();
    // A misfit was withheld, so that evaluation missed it. What is wrong with it says more.
    let missing = error.strip_prefix("no such attribute(s): ");
    let misfit = misfits.into_iter().find(|(name, _)| Some(*name) == missing);
    let error = misfit.and_then(|(_, problem)| problem).unwrap_or(error);
    if error.starts_with("no such overload") {
        return format!(
            "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {words}"
        );
    }
    format!("{error} evaluating rule: {words}")
}

fn variables<'v>(
    shape: &'v ValueSchema,
    value: &'v Json,
    old: Option<&'v Json>,
    is_optional: bool,
) -> Vec<(&'static str, Value<'v>)> {
    let mut variables = vec![("self", Value::from_shape(value, shape))];
    if is_optional {
        // What is optional has lost its schema.
        let old = old.map(|old| Arc::new(Value::from_json(old, Numbers::Integral)));
        variables.push(("oldSelf", Value::Optional(old)));
    } else if let Some(old) = old {
        variables.push(("oldSelf", Value::from_shape(old, shape)));
    }
    variables
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::CompiledRules;
    use crate::field::Path;
    use crate::structural::{Props, Schema};

    /// What a rule says about a value of a format.
    fn told(format: &str, rule: &str, value: &str) -> String {
        let schema = json!({
            "type": "object",
            "properties": {"v": {"type": "string", "format": format}},
            "x-kubernetes-validations": [{"rule": rule}],
        });
        let schema = Schema::compile(&Props::decode(&schema).unwrap());
        let errors = schema.validate_rules(&json!({"v": value}), None, &Path::NIL);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules_see_durations_and_times_in_all_forms_that_their_formats_allow() {
        assert_eq!(told("duration", "self.v == duration('24h')", "1 day"), "");
        assert_eq!(told("date", "self.v.getDate() == 29", "2024-02-29"), "");
        assert_eq!(
            told("date-time", "self.v == timestamp('2024-01-01T00:00:00Z')", "2024-01-01T00:00:00.0Z"),
            ""
        );
    }

    #[test]
    fn value_that_cannot_be_read_by_its_format_is_an_error_only_if_a_rule_looks_at_it() {
        for (format, rule, value, reason) in [
            (
                "duration",
                "self.v > duration('1h')",
                "soon",
                "Invalid duration soon: unable to parse soon as duration",
            ),
            (
                "date-time",
                "self.v.getFullYear() > 2000",
                "2024-01-01t00:00:00z",
                r#"Invalid date-time formatted string 2024-01-01t00:00:00z: parsing time "2024-01-01t00:00:00z" as "2006-01-02T15:04:05": cannot parse "t00:00:00z" as "T""#,
            ),
            (
                "date",
                "self.v.getFullYear() > 2000",
                "2024-1-1",
                r#"Invalid date formatted string 2024-1-1: parsing time "2024-1-1" as "2006-01-02": cannot parse "1-1" as "01""#,
            ),
        ] {
            assert_eq!(told(format, "has(self.v)", value), "");
            let told = told(format, rule, value);
            assert!(told.contains(&format!("{reason} evaluating rule: {rule}")), "{told}");
        }
    }

    /// Objects, items, values of maps and embedded resources with rules of their own, inside of a schema with these rules.
    fn parts(rules: &Value) -> Schema {
        let long = json!([{"rule": "self.time > duration('1h')"}]);
        let time = json!({"type": "string", "format": "duration"});
        let wait = json!({"type": "object", "properties": {"time": time}, "x-kubernetes-validations": long});
        let metadata = json!({
            "type": "object", "properties": {"name": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": "self.name == 'a'"}],
        });
        let schema = json!({
            "type": "object",
            "properties": {
                "one": wait,
                "list": {"type": "array", "items": wait},
                "map": {"type": "object", "additionalProperties": wait},
                "resource": {
                    "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"metadata": metadata},
                },
            },
            "x-kubernetes-validations": rules,
        });
        Schema::compile(&Props::decode(&schema).unwrap())
    }

    fn shapes(rules: &CompiledRules) -> usize {
        let properties = rules.properties.iter().map(|(_, rules)| rules);
        let below = properties.chain(rules.items.as_deref()).chain(rules.additional.as_deref());
        usize::from(rules.shape.is_some()) + below.map(shapes).sum::<usize>()
    }

    #[test]
    fn rules_inside_of_others_see_the_same_as_alone_and_keep_no_shape_of_their_own() {
        let object = json!({
            "one": {"time": "1m"}, "list": [{"time": "2h"}, {"time": "2m"}], "map": {"key": {"time": "3m"}},
            "resource": {"apiVersion": "v1", "kind": "Part", "metadata": {"name": "b"}},
        });
        let told = |schema: &Schema| -> Vec<_> {
            let errors = schema.validate_rules(&object, None, &Path::NIL);
            errors.iter().map(ToString::to_string).collect()
        };
        let (alone, inside) = (parts(&json!([])), parts(&json!([{"rule": "has(self.one)"}])));
        assert_eq!(told(&alone).len(), 4, "{:#?}", told(&alone));
        assert_eq!(told(&inside), told(&alone));
        assert_eq!(shapes(alone.rules.as_deref().unwrap()), 4);
        // That of the whole, and that of the metadata: rules around a resource see the metadata that every resource has.
        assert_eq!(shapes(inside.rules.as_deref().unwrap()), 2);
        let one = inside.property("one").unwrap();
        assert_eq!(one.validate_rules(&object["one"], None, &Path::NIL).len(), 1);
    }
}
