//! What compiling a schema may cost: its patterns, and the fields that its rules see.
//!
//! Our own design: Kubernetes compiles every pattern and every rule without a limit for all of them. A definition of 100 KB can hold
//! patterns that take minutes to compile. Rules that stand inside of each other see the same fields again and again, so that a definition of
//! 3 MB can take gigabytes. A user who may write definitions must not be able to stop the server for everybody.

use super::Props;
use crate::field::{Error, Path};

/// About 40 MiB and less than a second of work when all patterns are compiled. Definitions in the wild stay below a tenth of it.
const HEAVIEST: u64 = 4_000_000;

/// Each schema with rules sees all schemas within it, and the types of all of these are made to check them: seconds of work. The types are
/// dropped then, and what the rules keep is bounded by the size of the schema. Definitions in the wild stay below a tenth of it.
const MOST_FIELDS: u64 = 500_000;

/// What a user reads about the pattern that is too much.
pub(super) const TOO_COMPLEX: &str = "the regular expressions of the schema up to this one are too complex together; repeat large character classes less often";

/// What a user reads about the rules that are too much.
pub(super) const TOO_MANY_FIELDS: &str = "the rules of the schema up to these see too many fields together; put rules closer to the fields that they are about";

/// Whether an error with this text is about a pattern or a rule that was withheld. The value may follow it or not.
pub fn is_withheld(text: &str) -> bool {
    [TOO_COMPLEX, TOO_MANY_FIELDS].iter().any(|words| text.contains(words))
}

#[derive(Debug)]
pub(super) struct CompileBudget {
    /// The weight of the patterns that there was room for.
    patterns: u64,
    /// The fields that rules see which there was room for.
    fields: u64,
    heaviest: u64,
    most_fields: u64,
    /// What was too much first.
    exceeded: Option<&'static str>,
}

impl Default for CompileBudget {
    fn default() -> Self {
        Self::of_one_of(1)
    }
}

impl CompileBudget {
    /// The budget of one of so many versions of a definition: all are compiled, whether or not their schemas are the same.
    pub(super) fn of_one_of(versions: usize) -> Self {
        let versions = versions.max(1) as u64;
        let (heaviest, most_fields) = (HEAVIEST / versions, MOST_FIELDS / versions);
        Self { patterns: 0, fields: 0, heaviest, most_fields, exceeded: None }
    }

    /// The same for rules that are compiled once for each default around them, and are dropped then.
    pub(super) fn for_defaults_of_one_of(versions: usize) -> Self {
        let usual = Self::of_one_of(versions);
        Self { most_fields: 8 * usual.most_fields, ..usual }
    }

    /// Counts a pattern of this weight, if there is room for it. Says whether there was.
    pub(super) fn admits(&mut self, weight: u64) -> bool {
        let spent = self.patterns.saturating_add(weight);
        let is_admitted = spent <= self.heaviest;
        if is_admitted {
            self.patterns = spent;
        } else {
            self.exceeded.get_or_insert(TOO_COMPLEX);
        }
        is_admitted
    }

    /// Counts what the rules of a schema see, if there is room for it. Says whether there was.
    pub(super) fn admits_rules_of(&mut self, schema: &Props) -> bool {
        let mut seen: u64 = 0;
        schema.has(&mut |_| {
            seen += 1;
            false
        });
        let spent = self.fields.saturating_add(seen);
        let is_admitted = spent <= self.most_fields;
        if is_admitted {
            self.fields = spent;
        } else {
            self.exceeded.get_or_insert(TOO_MANY_FIELDS);
        }
        is_admitted
    }

    /// What was too much first, if anything was.
    pub(super) fn exceeded(&self) -> Option<&'static str> {
        self.exceeded
    }

    /// What the patterns cost that there was room for.
    pub(super) fn pattern_weight(&self) -> u64 {
        self.patterns
    }

    /// Counts a pattern. The first thing that is too much is reported, and nothing after it.
    pub(super) fn spend(&mut self, weight: u64, path: &Path<'_>) -> Option<Error> {
        let was_exceeded = self.exceeded.is_some();
        let is_first = !self.admits(weight) && !was_exceeded;
        is_first.then(|| Error::forbidden(path, TOO_COMPLEX))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::HEAVIEST;
    use crate::field::Path;
    use crate::structural::crd::{Definition, validate};
    use crate::structural::{Props, Schema};

    /// What a server says about what is too much in a definition, and about the defaults of a definition with so many such properties.
    fn problems(count: usize, property: impl Fn(usize) -> Value) -> Vec<String> {
        problems_of_versions(1, count, property)
    }

    /// The same for so many versions with the same schema.
    fn problems_of_versions(versions: usize, count: usize, property: impl Fn(usize) -> Value) -> Vec<String> {
        let properties: Map<_, _> =
            (0..count).map(|number| (format!("p{number}"), property(number))).collect();
        let schema =
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
        let version = |number: usize| json!({"name": format!("v{number}"), "served": true, "storage": number == 1, "schema": {"openAPIV3Schema": schema}});
        let versions: Vec<_> = (1..=versions).map(version).collect();
        let definition = json!({
            "metadata": {"name": "sites.example.org"},
            "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": {"kind": "Site", "listKind": "SiteList", "plural": "sites", "singular": "site"},
                "versions": versions,
            },
            "status": {"storedVersions": ["v1"]},
        });
        let definition = Definition::decode(definition.as_object().unwrap()).unwrap();
        validate(&definition)
            .iter()
            .map(ToString::to_string)
            .filter(|text| text.contains(" together; ") || text.contains(".default: "))
            .collect()
    }

    #[test]
    fn patterns_that_would_take_minutes_to_compile_are_refused_once() {
        let hostile = |number: usize| json!({"type": "string", "pattern": format!(r"(a|b|c){{500}}[\pL]{{300}}{number}")});
        let problems = problems(1_500, hostile);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(".pattern: Forbidden"), "{problems:?}");
    }

    #[test]
    fn versions_share_what_their_patterns_may_cost() {
        let hostile = |number: usize| json!({"type": "string", "pattern": format!(r"(a|b|c){{500}}[\pL]{{300}}{number}")});
        assert_eq!(problems_of_versions(1, 4, hostile), [""; 0]);
        assert!(!problems_of_versions(2, 4, hostile).is_empty());
    }

    #[test]
    fn patterns_in_rules_count_as_well() {
        let hostile = |number: usize| {
            let rule = format!(r"self.matches('[\\pL]{{30}}{number}')");
            json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": rule}]})
        };
        assert_eq!(problems(300, hostile).len(), 1);
    }

    /// To check a default is to compile its pattern. More than a handful of these would fill the memory before they are refused.
    #[test]
    fn defaults_are_not_checked_with_patterns_that_are_too_heavy_together() {
        let hostile = |number: usize| {
            let pattern = format!(r"(a|b|c){{500}}[\pL]{{300}}{number}");
            json!({"type": "string", "default": "x", "pattern": pattern})
        };
        let problems = problems(10, hostile);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("too complex together"), "{problems:?}");
    }

    #[test]
    fn defaults_are_checked_with_rules_until_their_patterns_are_too_heavy_together() {
        let hostile = |number: usize| {
            let rule = format!(r"!self.matches('[\\pL]{{30}}{number}')");
            let rules = [json!({"rule": rule})];
            json!({"type": "string", "maxLength": 10, "default": "x", "x-kubernetes-validations": rules})
        };
        let problems = problems(300, hostile);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(".default: Forbidden: the regular expressions"), "{problems:?}");
    }

    /// A schema with so many such properties, and an object that has the value `x` for each of them.
    fn stored(count: usize, property: impl Fn(usize) -> Value) -> (Schema, Value) {
        let properties: Map<_, _> =
            (0..count).map(|number| (format!("p{number}"), property(number))).collect();
        let object = properties.keys().map(|name| (name.clone(), json!("x"))).collect();
        let schema = json!({"type": "object", "properties": properties});
        (Schema::compile(&Props::decode(&schema).unwrap()), Value::Object(object))
    }

    #[test]
    fn patterns_that_a_stored_definition_has_beyond_the_limit_match_no_value_that_changes() {
        let hostile = |number: usize| json!({"type": "string", "pattern": format!(r"(a|b|c){{500}}[\pL]{{300}}{number}")});
        let (schema, object) = stored(10, hostile);
        assert!(schema.bound_patterns() <= HEAVIEST);
        let errors: Vec<_> = schema.validate(&object, &Path::NIL).iter().map(ToString::to_string).collect();
        let withheld = errors.iter().filter(|error| error.contains("too complex together")).count();
        assert_eq!(errors.len(), 10, "{errors:?}");
        assert!((1..10).contains(&withheld), "{withheld}");
        assert!(schema.validate_update(&object, &object, &Path::NIL).is_empty());
    }

    #[test]
    fn rules_that_a_stored_definition_has_beyond_the_limit_hold_for_no_value_that_changes() {
        let hostile = |number: usize| {
            let rule = format!(r"!self.matches('[\\pL]{{30}}{number}')");
            json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": rule}]})
        };
        let (schema, object) = stored(300, hostile);
        assert!(schema.bound_patterns() <= HEAVIEST);
        let errors = schema.validate_rules(&object, None, &Path::NIL);
        assert!((1..300).contains(&errors.len()), "{}", errors.len());
        assert!(errors.iter().all(|error| error.to_string().contains("too complex together")), "{errors:?}");
        assert!(schema.validate_rules(&object, Some(&object), &Path::NIL).is_empty());
    }

    /// Objects inside of each other, each with a rule, around so many fields.
    fn nested(levels: usize, fields: usize) -> Value {
        let fields: Map<_, _> =
            (0..fields).map(|number| (format!("f{number}"), json!({"type": "string"}))).collect();
        let mut schema = json!({"type": "object", "properties": fields});
        for _ in 0..levels {
            let rules = [json!({"rule": "true"})];
            schema =
                json!({"type": "object", "properties": {"below": schema}, "x-kubernetes-validations": rules});
        }
        schema
    }

    #[test]
    fn rules_that_see_the_same_fields_again_and_again_are_refused_and_withheld_if_they_are_stored() {
        let schema = nested(20, 26_000);
        let problems = problems(1, |_| schema.clone());
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].contains("x-kubernetes-validations: Forbidden: the rules of the schema"),
            "{problems:?}"
        );
        let schema = Schema::compile(&Props::decode(&schema).unwrap());
        let object = (0..20).fold(json!({}), |below, _| json!({"below": below}));
        let errors = schema.validate_rules(&object, None, &Path::NIL);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].to_string().contains("see too many fields together"), "{errors:?}");
        assert!(schema.validate_rules(&object, Some(&object), &Path::NIL).is_empty());
    }

    #[test]
    fn patterns_of_an_ordinary_definition_are_not() {
        let ordinary = |_: usize| json!({"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$"});
        assert_eq!(problems(1_000, ordinary), [""; 0]);
    }
}
