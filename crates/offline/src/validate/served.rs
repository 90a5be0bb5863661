//! Compositions beside what an API server serves: what `validate` finds, for a user who applies them.

use std::collections::BTreeSet;

use ferroplane_api::Object;
use ferroplane_schema::structural::is_withheld;
use serde_json::Value;

use super::finding::ProblemKind;
use super::judge::Judge;
use crate::manifest::Manifest;

/// What an API server serves.
#[derive(Debug, Clone, Copy)]
pub struct Served<'s> {
    /// Definitions of kinds that a Composition names.
    pub definitions: &'s [Object],
    /// The groups of all custom kinds. Of these, kinds without a definition do not exist.
    pub groups: &'s BTreeSet<String>,
    pub functions: &'s [Object],
}

/// What is wrong with a Composition by what is served, each in a line. Functions that do not exist and fields without effect are for
/// others to tell.
pub fn composition_warnings(composition: &Object, served: &Served<'_>) -> Vec<String> {
    let Some(manifest) = Manifest::of(composition) else { return Vec::new() };
    let judge = Judge::of_served(served.definitions, served.groups.clone(), served.functions);
    let steps = composition.get("spec").and_then(|spec| spec.get("pipeline")?.as_array());
    let problems = judge.pipeline_problems(&manifest).into_iter();
    let problems = problems
        .filter(|problem| !matches!(problem.kind, ProblemKind::UnknownFunction | ProblemKind::NoEffect))
        // All kinds share here what each of them may cost on an API server, which compares with these patterns and rules.
        .filter(|problem| !is_withheld(&problem.message));
    problems.map(|problem| by_step(problem.message, steps)).collect()
}

/// Names the step instead of counting it. Users know it by its name.
fn by_step(message: String, steps: Option<&Vec<Value>>) -> String {
    let named = message.strip_prefix("spec.pipeline[").and_then(|rest| {
        let (index, field) = rest.split_once("].")?;
        let step = steps?.get(index.parse::<usize>().ok()?)?.get("step")?.as_str()?;
        Some(format!("step `{step}`: {field}"))
    });
    named.unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::validate::kinds::tests::heavy;

    fn object(value: &Value) -> Object {
        value.as_object().unwrap().clone()
    }

    fn bucket_definition() -> Object {
        object(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "buckets.cloud.io"},
            "spec": {
                "group": "cloud.io", "scope": "Namespaced",
                "names": {"kind": "Bucket", "plural": "buckets", "singular": "bucket", "listKind": "BucketList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"region": {"type": "string"}}}},
                }}}],
            },
        }))
    }

    fn warnings(template: &Value) -> Vec<String> {
        warnings_of_step(
            "function-patch-and-transform",
            &json!({"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources", "resources": [template]}),
        )
    }

    fn warnings_of_step(function: &str, input: &Value) -> Vec<String> {
        let composition = object(&json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "apps"},
            "spec": {"compositeTypeRef": {"apiVersion": "e.org/v1", "kind": "App"}, "mode": "Pipeline", "pipeline": [
                {"step": "compose", "functionRef": {"name": function}, "input": input},
                {"step": "last", "functionRef": {"name": "function-unheard-of"}},
            ]},
        }));
        let groups = ["cloud.io".to_owned()].into();
        let served = Served { definitions: &[bucket_definition()], groups: &groups, functions: &[] };
        composition_warnings(&composition, &served)
    }

    #[test]
    fn patches_and_bases_are_compared_with_what_is_served() {
        let template = |version: &str, kind: &str, to: &str| {
            json!({
                "name": "bucket", "base": {"apiVersion": format!("cloud.io/{version}"), "kind": kind},
                "patches": [{"type": "FromCompositeFieldPath", "fromFieldPath": "spec.x", "toFieldPath": to}],
            })
        };
        assert_eq!(warnings(&template("v1", "Bucket", "spec.region")), Vec::<String>::new());
        assert_eq!(
            warnings(&template("v1", "Bucket", "spec.regoin")),
            ["step `compose`: input.resources[0].patches[0].toFieldPath: Bucket has no field `spec.regoin`"]
        );
        assert_eq!(
            warnings(&template("v2", "Bucket", "spec.region")),
            [
                "step `compose`: input.resources[0].base.apiVersion: Bucket (cloud.io) has no version v2, only v1"
            ]
        );
        assert_eq!(
            warnings(&template("v1", "Buckt", "spec.region")),
            ["step `compose`: input.resources[0].base.kind: no CRD or XRD defines Buckt (cloud.io)"]
        );
    }

    /// The warnings about an input that breaks a pattern, beside so many kinds with such a pattern.
    fn warnings_beside(kinds: usize) -> Vec<String> {
        let definitions: Vec<_> = (0..kinds).map(|number| heavy(&format!("Kind{number}"), 1, 1)).collect();
        let composition = object(&json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "apps"},
            "spec": {"compositeTypeRef": {"apiVersion": "cloud.io/v1", "kind": "App"}, "mode": "Pipeline", "pipeline": [{
                "step": "compose", "functionRef": {"name": "function-own"},
                "input": {"apiVersion": "e.org/v1", "kind": "Kind0", "p0": "x"},
            }]},
        }));
        let groups = ["e.org".to_owned()].into();
        composition_warnings(
            &composition,
            &Served { definitions: &definitions, groups: &groups, functions: &[] },
        )
    }

    #[test]
    fn pattern_that_there_is_no_room_for_beside_other_kinds_is_no_mistake_of_the_input() {
        let alone = warnings_beside(1);
        assert!(matches!(&alone[..], [warning] if warning.contains("input.p0")), "{alone:?}");
        assert_eq!(warnings_beside(8), Vec::<String>::new());
    }

    #[test]
    fn common_mistakes_in_templates_are_among_the_warnings() {
        let warnings = |template: &str| {
            let input = json!({
                "apiVersion": "gotemplating.fn.crossplane.io/v1beta1", "kind": "GoTemplate",
                "source": "Inline", "inline": {"template": template},
            });
            warnings_of_step("function-go-templating", &input)
        };
        let indented = "{{ range $i := until 2 }}\n  ---\n  apiVersion: v1\n{{ end }}\n";
        let unnamed = "---\napiVersion: v1\nkind: ConfigMap\ndata: {}\n";
        let found = warnings(&format!("{indented}{unnamed}"));
        let [separator, name] = &found[..] else { panic!("{found:?}") };
        let start = "step `compose`: input.inline: the separator `---` is indented";
        assert!(separator.starts_with(start), "{separator}");
        let start = "step `compose`: input.inline: ConfigMap has no name to be composed by";
        assert!(name.starts_with(start), "{name}");
        let found = warnings("{{ nope }}");
        let [unknown] = &found[..] else { panic!("{found:?}") };
        assert!(unknown.contains("function \"nope\" not defined"), "{unknown}");
    }
}
