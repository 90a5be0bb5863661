//! What the patterns of a schema may cost together.
//!
//! Our own design: Kubernetes compiles every pattern without a limit for all of them. A definition of 100 KB can hold patterns that
//! take minutes to compile, and whoever may write definitions must not be able to stop the server for everybody.

use crate::field::{Error, Path};

/// About 40 MiB and less than a second of work when all of them are compiled. Definitions in the wild stay below a tenth of it.
const HEAVIEST: u64 = 4_000_000;

#[derive(Debug, Default)]
pub(super) struct PatternBudget {
    spent: u64,
}

impl PatternBudget {
    /// Counts a pattern. The one that is too much is told, and none after it.
    pub(super) fn spend(&mut self, weight: u64, path: &Path<'_>) -> Option<Error> {
        let was_within = self.spent <= HEAVIEST;
        self.spent = self.spent.saturating_add(weight);
        let is_too_much = was_within && self.spent > HEAVIEST;
        is_too_much.then(|| {
            Error::forbidden(
                path,
                "the regular expressions of the schema up to this one are too complex together; repeat large character classes less often",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use crate::structural::crd::{Definition, validate};

    /// What a server says of a definition whose properties have so many patterns, as values or in rules.
    fn problems(count: usize, property: impl Fn(usize) -> Value) -> Vec<String> {
        let properties: Map<_, _> =
            (0..count).map(|number| (format!("p{number}"), property(number))).collect();
        let schema =
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
        let definition = json!({
            "metadata": {"name": "sites.example.org"},
            "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": {"kind": "Site", "listKind": "SiteList", "plural": "sites", "singular": "site"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
            "status": {"storedVersions": ["v1"]},
        });
        let definition = Definition::decode(definition.as_object().unwrap()).unwrap();
        validate(&definition)
            .iter()
            .map(ToString::to_string)
            .filter(|text| text.contains("too complex together"))
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
    fn patterns_in_rules_count_as_well() {
        let hostile = |number: usize| {
            let rule = format!(r"self.matches('[\\pL]{{30}}{number}')");
            json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": rule}]})
        };
        assert_eq!(problems(300, hostile).len(), 1);
    }

    #[test]
    fn patterns_of_an_ordinary_definition_are_not() {
        let ordinary = |_: usize| json!({"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$"});
        assert_eq!(problems(1_000, ordinary), [""; 0]);
    }
}
