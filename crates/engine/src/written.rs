//! Serialises a pipeline for recordings: its steps as in a composition, and the resolved version of each.

use ferroplane_api as api;
use ferroplane_wire::v1::ResourceSelector;
use ferroplane_wire::v1::resource_selector::Match;
use serde_json::{Map, Value, json};

use crate::pipeline::{Callee, Pipeline, Step};
use crate::versions::{Advice, Advisory, Version};

/// Why a recorded pipeline is invalid.
#[derive(Debug, thiserror::Error)]
#[error("cannot read a pipeline: {0}")]
pub struct Unreadable(String);

impl Pipeline {
    /// The steps, as in a composition.
    pub fn written_steps(&self) -> Value {
        self.steps.iter().map(written_step).collect()
    }

    /// The resolved version of each step, in the same order; null if none was resolved.
    pub fn written_callees(&self) -> Value {
        self.steps.iter().map(|step| step.callee.as_ref().map_or(Value::Null, written_callee)).collect()
    }

    /// Read a recorded pipeline.
    pub fn read(steps: &Value, callees: &Value) -> Result<Self, Unreadable> {
        let unreadable = |error: &dyn std::error::Error| Unreadable(error.to_string());
        let steps: Vec<api::Step> =
            serde_json::from_value(steps.clone()).map_err(|error| unreadable(&error))?;
        let mut pipeline = Self::new(&steps).map_err(|error| unreadable(&error))?;
        for (index, step) in pipeline.steps.iter_mut().enumerate() {
            let callee = callees.get(index).unwrap_or(&Value::Null);
            if !callee.is_null() {
                let read = read_callee(callee);
                step.callee =
                    Some(read.ok_or_else(|| Unreadable(format!("what step `{}` calls", step.name)))?);
            }
        }
        Ok(pipeline)
    }
}

fn written_step(step: &Step) -> Value {
    let question = step.question();
    let mut written = json!({"step": step.name, "functionRef": {"name": step.function}});
    if let Some(version) = &question.version {
        written["functionRef"]["version"] = version.as_str().into();
    }
    if let Some(revision) = &question.revision {
        written["functionRevisionRef"] = json!({"name": revision});
    }
    if let Some(labels) = &question.labels {
        written["functionRevisionSelector"] = json!({"matchLabels": labels});
    }
    if let Some(input) = step.input.as_ref().and_then(|input| input.json().ok()) {
        written["input"] = Value::Object(input.clone());
    }
    if let Some(selector) = &step.input_ref {
        written["inputRef"] = Value::Object(written_selector(selector));
    }
    if !step.credentials.is_empty() {
        let credentials = step.credentials.iter().map(|(name, secret)| {
            let secret = json!({"namespace": secret.namespace, "name": secret.name});
            json!({"name": name, "source": "Secret", "secretRef": secret})
        });
        written["credentials"] = credentials.collect();
    }
    if !step.resources.is_empty() || !step.schemas.is_empty() {
        let named = |name: &String, mut selector: Map<String, Value>| {
            selector.insert("requirementName".to_owned(), name.as_str().into());
            Value::Object(selector)
        };
        let resources = step.resources.iter().map(|(name, selector)| named(name, written_selector(selector)));
        let schemas = step.schemas.iter().map(|(name, selector)| {
            json!({"requirementName": name, "apiVersion": selector.api_version, "kind": selector.kind})
        });
        written["requirements"] = json!({"requiredResources": resources.collect::<Value>(), "requiredSchemas": schemas.collect::<Value>()});
    }
    written
}

fn written_selector(selector: &ResourceSelector) -> Map<String, Value> {
    let ResourceSelector { api_version, kind, namespace, r#match } = selector;
    let mut written = Map::new();
    written.insert("apiVersion".to_owned(), api_version.as_str().into());
    written.insert("kind".to_owned(), kind.as_str().into());
    if let Some(namespace) = namespace {
        written.insert("namespace".to_owned(), namespace.as_str().into());
    }
    match r#match {
        Some(Match::MatchName(name)) => {
            written.insert("name".to_owned(), name.as_str().into());
        }
        Some(Match::MatchLabels(labels)) => {
            written.insert("matchLabels".to_owned(), json!(labels.labels));
        }
        None => {}
    }
    written
}

fn written_callee(callee: &Callee) -> Value {
    let Callee { revision, version, built_in, state, advisories } = callee;
    let text = |version: &Option<Version>| version.as_ref().map(ToString::to_string);
    let advisories = advisories.iter().map(|Advisory { function, advice }| match advice {
        Advice::Deprecated { version, removed_in, replaced_by } => json!({
            "function": function, "deprecated": version.to_string(), "removedIn": text(removed_in),
            "replacedBy": text(replaced_by),
        }),
        Advice::Fallback { asked, used } => {
            json!({"function": function, "asked": asked.to_string(), "used": used.to_string()})
        }
    });
    let mut written = json!({
        "revision": revision, "version": text(version), "state": state.as_str(),
        "advisories": advisories.collect::<Value>(),
    });
    if let Some(built_in) = built_in {
        written["builtIn"] = built_in.as_str().into();
    }
    written
}

fn read_callee(callee: &Value) -> Option<Callee> {
    let text = |value: &Value, field: &str| value[field].as_str().map(str::to_owned);
    let version =
        |value: &Value, field: &str| value[field].as_str().map(str::parse::<Version>).transpose().ok();
    let advisory = |value: &Value| {
        let function = text(value, "function")?;
        let advice = match version(value, "deprecated")? {
            Some(deprecated) => Advice::Deprecated {
                version: deprecated,
                removed_in: version(value, "removedIn")?,
                replaced_by: version(value, "replacedBy")?,
            },
            None => Advice::Fallback { asked: version(value, "asked")??, used: version(value, "used")?? },
        };
        Some(Advisory { function, advice })
    };
    Some(Callee {
        revision: text(callee, "revision")?,
        version: version(callee, "version")?,
        built_in: text(callee, "builtIn"),
        state: callee["state"].as_str()?.parse().ok()?,
        advisories: callee["advisories"].as_array()?.iter().map(advisory).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::LifecycleState;

    #[test]
    fn pipeline_is_read_as_it_was_written() {
        let steps = json!([
            {
                "step": "one", "functionRef": {"name": "f", "version": "v1.0.0"}, "input": {"kind": "I", "a": [1, null]},
                "credentials": [{"name": "c", "source": "Secret", "secretRef": {"namespace": "n", "name": "s"}}],
                "requirements": {
                    "requiredResources": [
                        {"requirementName": "a", "apiVersion": "v1", "kind": "K", "namespace": "n", "name": "x"},
                        {"requirementName": "b", "apiVersion": "v1", "kind": "K", "matchLabels": {"l": "v"}},
                    ],
                    "requiredSchemas": [{"requirementName": "s", "apiVersion": "v1", "kind": "K"}],
                },
            },
            {"step": "two", "functionRef": {"name": "g"}, "functionRevisionRef": {"name": "g-1"},
             "inputRef": {"apiVersion": "v1", "kind": "K", "name": "x"}},
            {"step": "three", "functionRef": {"name": "g"}, "functionRevisionSelector": {"matchLabels": {"l": "v"}}},
        ]);
        let mut pipeline = Pipeline::read(&steps, &Value::Null).unwrap();
        assert_eq!(pipeline.written_steps(), steps);
        let deprecated = Advice::Deprecated {
            version: Version::new(1, 0, 0),
            removed_in: Some("v2.0.0-rc.1".parse().unwrap()),
            replaced_by: None,
        };
        let fallback = Advice::Fallback { asked: Version::new(3, 0, 0), used: Version::UNVERSIONED };
        let advisory = |advice| Advisory { function: "f".to_owned(), advice };
        pipeline.steps[0].callee = Some(Callee {
            revision: "f-1".to_owned(),
            version: Some(Version::new(1, 0, 0)),
            built_in: Some("function-f-v1.0.0".to_owned()),
            state: LifecycleState::Deprecated,
            advisories: vec![advisory(deprecated), advisory(fallback)],
        });
        let again = Pipeline::read(&steps, &pipeline.written_callees()).unwrap();
        assert!(again.calls_the_same_as(&pipeline));
    }

    #[test]
    fn garbage_is_no_pipeline() {
        let steps = json!([{"step": "one", "functionRef": {"name": "f"}}]);
        for (steps, callees) in [
            (json!(1), Value::Null),
            (json!([]), Value::Null),
            (steps.clone(), json!([{}])),
            (steps, json!([{"revision": "f-1", "state": "odd", "advisories": []}])),
        ] {
            assert!(Pipeline::read(&steps, &callees).is_err(), "{steps} {callees}");
        }
    }
}
