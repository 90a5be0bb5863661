//! Turns a recording into files that can be rendered, as a beginning for a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::composite::{SecretReference, connection_secret};
use ferroplane_engine::{Answer, Callee, CompositeSubject, EngineInput, Layout, Turn, Want, replay};
use ferroplane_functions::Library;
use ferroplane_recorder::{Head, RecordedRun, Recording};
use ferroplane_runner::{Directory, grpc};
use ferroplane_wire::{Struct, to_json};
use serde_json::{Value, json};

use super::functions::RESPONSES;
use super::{Callers, InputFiles, PrintOptions, Renderer, output};
use crate::file_name::file_name;
use crate::manifest::{Files, yaml};

/// A recorded reconcile, written as files to render.
#[derive(Debug)]
pub struct WrittenTest {
    /// The arguments that `ferroplane render` takes the files with.
    pub arguments: Vec<String>,
    /// The fatal result of a function, if one gave up.
    pub fatal: Option<String>,
    /// Whether the files are rendered to what was recorded.
    pub is_same: bool,
}

/// Write a recorded reconcile as files to render, and what they are rendered to as `expected.yaml`. The directory must
/// be empty or not exist.
pub async fn write_test(recording: &Recording, directory: &Path) -> anyhow::Result<WrittenTest> {
    let library = Library::built_in().context("this build is broken")?;
    let arguments = describe(recording, &library)?.write(directory)?;
    let input = InputFiles::from_arguments(&arguments);
    let renderer = Renderer::load(&input, &mut Files::default(), &library)?;
    let functions = renderer.start_functions(&grpc::Options::default(), &Callers::default()).await?;
    let xr = renderer.xrs.first().context("there is no composite resource in it")?;
    let mut result = renderer.render(xr, &functions).await?;
    let failure = result.take_fatal_result().context("cannot render what was recorded")?;
    let now = result.composed.iter().map(|object| (resource_name(object), object.clone().into())).collect();
    let is_same = recording.decisive_run().is_some_and(|take| composed(take) == now);
    let options = PrintOptions { has_deletions: true, ..PrintOptions::default() };
    let expected = output::print(result, xr.object(), None, options)?;
    let path = directory.join("expected.yaml");
    write_private(&path, &expected).with_context(|| format!("cannot write `{}`", path.display()))?;
    let arguments =
        arguments.into_iter().flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]);
    Ok(WrittenTest {
        arguments: arguments.filter(|argument| !argument.is_empty()).collect(),
        fatal: failure.map(|failure| failure.to_string()),
        is_same,
    })
}

fn resource_name(object: &Object) -> String {
    meta::annotation(object, keys::RESOURCE_NAME).to_owned()
}

/// Files that describe a run.
#[derive(Debug, Default)]
struct TestFiles {
    /// By name, in the order in which they are written.
    files: BTreeMap<&'static str, Vec<Value>>,
    /// What functions that are not built in said, by the name of the function.
    answers: BTreeMap<String, Vec<Value>>,
    schemas: Vec<Value>,
}

/// The last run of a reconcile, as files.
fn describe(recording: &Recording, library: &Library) -> anyhow::Result<TestFiles> {
    let Some(take) = recording.decisive_run() else {
        bail!("this reconcile ran no pipeline: there is nothing to render");
    };
    let Some(composite) = take.inputs.subject.composite() else {
        bail!("it is a recording of an operation, and only those of composite resources can be rendered");
    };
    let mut files = TestFiles::default();
    files.add("xr.yaml", [without_owners(&composite.object)]);
    files.add("observed.yaml", composite.observed.values().map(|observed| without_owners(&observed.object)));
    files.add_pipeline(&recording.head, take, library);
    files.add_answers(take);
    if composite.layout == Layout::Legacy {
        files.add("xrd.yaml", [definition(&recording.head)]);
    }
    files.add("required.yaml", own_secret(composite));
    let observed = composite.observed.values().map(|it| (&it.object, &it.connection_details));
    files.add("required.yaml", observed.filter_map(|(object, details)| recorded_secret(object, details)));
    Ok(files)
}

impl TestFiles {
    fn add(&mut self, file: &'static str, objects: impl IntoIterator<Item = Value>) {
        let known = self.files.entry(file).or_default();
        for object in objects {
            if !known.contains(&object) {
                known.push(object);
            }
        }
    }

    fn add_pipeline(&mut self, head: &Head, take: &RecordedRun, library: &Library) {
        let directory = Directory::reproducible(library);
        let mut steps = take.inputs.pipeline.written_steps();
        let mut names = BTreeSet::new();
        for (step, written) in
            take.inputs.pipeline.steps().iter().zip(steps.as_array_mut().into_iter().flatten())
        {
            let callee = step.callee.as_ref();
            let is_known = library.catalogue().family(&step.function).is_some();
            // What is built in here is called again: a test is to notice when it changes.
            if is_known && callee.is_some_and(|callee| directory.get(&callee.revision).is_some()) {
                continue;
            }
            let version = callee.and_then(|callee| built_in_version(callee, &step.function));
            if let Some(version) = version.filter(|_| is_known) {
                written["functionRef"] = json!({"name": step.function, "version": version});
                remove_selectors(written);
                continue;
            }
            // One that two steps call says something else to each.
            let name = if names.insert(step.function.clone()) {
                step.function.clone()
            } else {
                format!("{}-{}", step.function, step.name)
            };
            written["functionRef"] = json!({"name": name});
            // A function that answers from a file has no revisions to choose from.
            remove_selectors(written);
            let answers = format!("answers/{}.json", file_name(&name));
            let function = json!({
                "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
                "metadata": {"name": name, "annotations": {RESPONSES: answers}},
                "spec": {"package": step.function},
            });
            self.add("functions.yaml", [function]);
            self.answers.insert(name, said_by(take, &step.name));
        }
        let composition = json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition",
            "metadata": {"name": head.composition},
            "spec": {
                "compositeTypeRef": {"apiVersion": head.api_version, "kind": head.kind},
                "mode": "Pipeline", "pipeline": steps,
            },
        });
        self.add("composition.yaml", [composition]);
    }

    /// What was read.
    fn add_answers(&mut self, take: &RecordedRun) {
        // Replayed only to learn which question each answer belongs to; what it comes to is compared
        // elsewhere.
        let _ = replay(take.inputs.clone(), take.notes.iter().cloned(), |turn, note| {
            let (Turn::Fetch(fetch), EngineInput::Provided(answers)) = (turn, &note.input) else { return };
            for (want, answer) in fetch.wants().iter().zip(answers) {
                match (want, answer) {
                    (_, Answer::Resources(objects)) => {
                        self.add("required.yaml", objects.iter().map(without_owners));
                    }
                    (Want::Secret { namespace, name }, Answer::Secret(Some(data))) => {
                        self.add("credentials.yaml", [secret(namespace, name, data)]);
                    }
                    (Want::Schema(selector), Answer::Schema(Some(schema))) => {
                        self.schemas.push(document(&selector.api_version, &selector.kind, schema));
                    }
                    _ => {}
                }
            }
        });
    }

    /// Write all files to a directory that is empty or not there. Returns the arguments that `render` takes them with.
    fn write(&self, directory: &Path) -> anyhow::Result<Vec<(&'static str, PathBuf)>> {
        let is_taken = std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some());
        if is_taken {
            bail!("`{}` is not empty: name a directory that is", directory.display());
        }
        let put = |path: PathBuf, text: &str| {
            write_private(&path, text.as_bytes())
                .with_context(|| format!("cannot write `{}`", path.display()))
        };
        let mut arguments = Vec::new();
        for (name, flag) in FILES {
            let Some(objects) = self.files.get(name).filter(|objects| !objects.is_empty()) else { continue };
            let mut text = String::new();
            for object in objects {
                text += &format!("---\n{}", yaml::print(object)?);
            }
            put(directory.join(name), &text)?;
            arguments.push((flag, directory.join(name)));
        }
        for (name, answers) in &self.answers {
            let text = serde_json::to_string_pretty(answers)?;
            put(directory.join("answers").join(format!("{}.json", file_name(name))), &(text + "\n"))?;
        }
        for (number, schema) in self.schemas.iter().enumerate() {
            put(directory.join("schemas").join(format!("{number}.json")), &schema.to_string())?;
        }
        if !self.schemas.is_empty() {
            arguments.push(("--required-schemas", directory.join("schemas")));
        }
        Ok(arguments)
    }
}

/// Writes a new file that its owner alone can read, in directories that are its owner's alone unless they are there. What was composed
/// may hold secrets that nothing marks as such.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)
}

/// How `render` takes each file.
const FILES: [(&str, &str); 7] = [
    ("xr.yaml", ""),
    ("composition.yaml", ""),
    ("functions.yaml", ""),
    ("observed.yaml", "--observed-resources"),
    ("required.yaml", "--required-resources"),
    ("credentials.yaml", "--function-credentials"),
    ("xrd.yaml", "--xrd"),
];

/// What was composed, as it was recorded, by the name the composition knows it by.
fn composed(take: &RecordedRun) -> BTreeMap<String, Value> {
    let outcome: Value = serde_json::from_slice(&take.outcome).unwrap_or_default();
    let apply = outcome["plan"]["apply"].as_array().cloned().unwrap_or_default();
    let name = |wanted: &Value| wanted["resource"].as_str().unwrap_or_default().to_owned();
    apply.into_iter().map(|mut wanted| (name(&wanted), wanted["object"].take())).collect()
}

/// Who owns which field says nothing to functions, and much to those who read files.
fn without_owners(object: &Struct) -> Value {
    let mut object: Object = object.json().cloned().unwrap_or_default();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    Value::Object(object)
}

/// The version of a built-in function whose code ran for a revision of its package.
fn built_in_version(callee: &Callee, function: &str) -> Option<String> {
    let version = callee.built_in.as_deref()?.strip_prefix(function)?.strip_prefix('-')?;
    Some(version.to_owned())
}

fn remove_selectors(step: &mut Value) {
    for field in ["functionRevisionRef", "functionRevisionSelector"] {
        step.as_object_mut().map(|step| step.remove(field));
    }
}

/// Everything that a step said.
fn said_by(take: &RecordedRun, step: &str) -> Vec<Value> {
    let mut said = Vec::new();
    let _ = replay(take.inputs.clone(), take.notes.iter().cloned(), |turn, note| {
        if let Turn::Call(call) = turn
            && call.step() == step
        {
            // `render` remembers no questions, so that it never makes the call whose answer was thrown away.
            if call.has_started_over() {
                said.clear();
            }
            said.push(match &note.input {
                EngineInput::Answered(response) | EngineInput::Recalled(response) => {
                    json!({"answered": to_json(response).unwrap_or_default()})
                }
                EngineInput::Failed { reason, .. } => json!({"failed": reason}),
                EngineInput::Provided(_) => Value::Null,
            });
        }
    });
    said
}

fn secret(namespace: &str, name: &str, data: &BTreeMap<String, Bytes>) -> Value {
    let data = data.iter().map(|(key, value)| (key.clone(), Value::from(STANDARD.encode(value))));
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name},
        "data": data.collect::<Object>(),
    })
}

/// The connection Secret of a composed resource. It has the type with which `render` shows it to functions.
fn recorded_secret(object: &Struct, details: &BTreeMap<String, Bytes>) -> Option<Value> {
    let object = object.json().ok().filter(|_| !details.is_empty())?;
    let SecretReference { namespace, name } = connection_secret(object)?;
    let mut secret = secret(namespace, name, details);
    secret["type"] = keys::CONNECTION_SECRET.into();
    Some(secret)
}

/// The connection Secret of the composite resource itself, which controls it: functions see no other.
fn own_secret(composite: &CompositeSubject) -> Option<Value> {
    let mut secret = recorded_secret(&composite.object, &composite.connection_details)?;
    meta::set_controller(secret.as_object_mut()?, composite.object.json().ok()?);
    Some(secret)
}

/// An OpenAPI document in which a kind has a schema.
fn document(api_version: &str, kind: &str, schema: &Struct) -> Value {
    let mut schema = Value::Object(schema.json().cloned().unwrap_or_default());
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": meta::group(api_version), "version": meta::version(api_version), "kind": kind}]);
    json!({"openapi": "3.0.0", "components": {"schemas": {kind: schema}}})
}

/// A definition that says no more than that composite resources have the old layout.
fn definition(head: &Head) -> Value {
    // A guess is good enough: nothing that is rendered depends on the plural.
    let plural = format!("{}s", head.kind.to_lowercase());
    let group = meta::group(&head.api_version);
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "names": {"kind": head.kind, "plural": plural}, "versions": [
            {"name": meta::version(&head.api_version), "served": true, "referenceable": true, "schema": schema},
        ]},
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// All files below a directory with their modes, and those of their directories.
    fn modes(directory: &Path) -> BTreeMap<PathBuf, u32> {
        let mut modes = BTreeMap::new();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::metadata(&path).unwrap();
            if metadata.is_dir() {
                modes.extend(self::modes(&path));
            }
            modes.insert(path, metadata.permissions().mode() & 0o777);
        }
        modes
    }

    #[test]
    fn files_stay_in_the_directory_and_are_for_their_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        let into = root.path().join("a/b/into");
        let files = TestFiles {
            // The second step that calls a function is told by its name, which somebody else chose.
            answers: BTreeMap::from([("f-x/../../../pwned".to_owned(), vec![json!({})])]),
            files: BTreeMap::from([("xr.yaml", vec![json!({"kind": "Shop"})])]),
            schemas: vec![json!({})],
        };
        files.write(&into).unwrap();
        let expected = [
            ("a", 0o700),
            ("a/b", 0o700),
            ("a/b/into", 0o700),
            ("a/b/into/answers", 0o700),
            ("a/b/into/answers/f-x%2F..%2F..%2F..%2Fpwned.json", 0o600),
            ("a/b/into/schemas", 0o700),
            ("a/b/into/schemas/0.json", 0o600),
            ("a/b/into/xr.yaml", 0o600),
        ];
        let expected: BTreeMap<_, _> =
            expected.into_iter().map(|(path, mode)| (root.path().join(path), mode)).collect();
        assert_eq!(modes(root.path()), expected);
    }
}
