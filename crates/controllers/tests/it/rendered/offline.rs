//! Renders a scenario from what a plane has stored.

use std::path::{Path, PathBuf};

use ferroplane_functions::{Contract, Implementation, Library};
use ferroplane_offline::manifest::Files;
use ferroplane_offline::render::{Callers, InputFiles, Renderer};
use ferroplane_runner::grpc;
use ferroplane_testkit::plane::aged;
use serde_json::Value;

use super::plane::{Requests, Stored};
use super::scenarios::Scenario;

/// What `render` says that a composite resource will become.
#[derive(Debug)]
pub(super) struct Rendered {
    pub(super) xr: Value,
    pub(super) composed: Vec<Value>,
    /// As `Normal/Reason: text`.
    pub(super) events: Vec<String>,
    pub(super) requests: Vec<Value>,
}

impl Rendered {
    pub(super) async fn of(scenario: &Scenario, stored: &Stored) -> Self {
        Self::render(scenario, stored).await.unwrap()
    }

    /// Why a scenario cannot be rendered.
    pub(super) async fn refusal(scenario: &Scenario, stored: &Stored) -> String {
        Self::render(scenario, stored).await.unwrap_err()
    }

    async fn render(scenario: &Scenario, stored: &Stored) -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        let input = write(directory.path(), scenario, stored);
        let (requests, answer) = (Requests::default(), scenario.answer);
        let notes = requests.clone();
        let function = Implementation::new(move |request| {
            notes.add(request);
            ferroplane_wire::from_json(&answer(request)).unwrap()
        });
        let mut library = Library::built_in().unwrap();
        library.register_unversioned("function-test", Contract::default(), function).unwrap();
        library.register(aged()).unwrap();
        let renderer = Renderer::load(&input, &mut Files::default(), &library);
        let renderer = renderer.map_err(|error| format!("{error:#}"))?;
        let functions = renderer.start_functions(&grpc::Options::default(), &Callers::default()).await;
        let functions = functions.map_err(|error| format!("{error:#}"))?;
        let result = renderer.render(&renderer.composites()[0], &functions).await;
        let result = result.map_err(|error| format!("{error:#}"))?;
        Ok(Self {
            xr: result.xr.into(),
            composed: result.composed.into_iter().map(Value::Object).collect(),
            events: result
                .events
                .iter()
                .map(|event| format!("{}/{}: {}", event.kind.as_str(), event.reason, event.detailed()))
                .collect(),
            requests: requests.take(),
        })
    }
}

/// Write everything to files.
fn write(directory: &Path, scenario: &Scenario, stored: &Stored) -> InputFiles {
    let file = |name: &str, objects: &[Value]| -> Option<PathBuf> {
        let path = directory.join(name);
        let text: Vec<_> = objects.iter().map(|object| format!("---\n{object}\n")).collect();
        std::fs::write(&path, text.concat()).unwrap();
        (!objects.is_empty()).then_some(path)
    };
    let is_used = |composition: &&Value| composition["metadata"]["name"] == scenario.uses;
    let composition: Vec<_> = scenario.compositions.iter().filter(is_used).cloned().collect();
    InputFiles {
        composite_resource: file("xr.yaml", std::slice::from_ref(&stored.xr)),
        composition: file("composition.yaml", &composition),
        functions: file("functions.yaml", &scenario.functions),
        definition: file("xrd.yaml", &scenario.kinds[..1]),
        observed_resources: file("observed.yaml", &stored.composed).into_iter().collect(),
        required_resources: file("required.yaml", &stored.others).into_iter().collect(),
        required_schemas: schemas(directory, &stored.schemas).into_iter().collect(),
        ..InputFiles::default()
    }
}

/// Write what an API server says of its kinds, if it was asked.
fn schemas(directory: &Path, document: &Value) -> Option<PathBuf> {
    let path = directory.join("schemas.json");
    std::fs::write(&path, document.to_string()).unwrap();
    (!document.is_null()).then_some(path)
}
