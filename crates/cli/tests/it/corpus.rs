//! Compositions in the shapes that published ones have, with what they render to.
//!
//! A case is one file in `tests/corpus`: a Composition, a composite resource, and what they need besides. Beside it stands
//! what becomes of it, short. `FERROPLANE_WRITE_CORPUS=1` writes that anew, to be
//! looked at. Where upstream's functions are installed, every case that pins one of them has to print the same with it.

use std::path::{Path, PathBuf};

use ferroplane_offline::manifest::yaml;
use serde_json::Value;

use crate::peers;
use crate::sandbox::{Ran, Sandbox, composition, dummy};

/// The upstream functions that `cargo xtask test` installs, and their versions.
const PEERS: [(&str, &str); 2] =
    [("function-patch-and-transform", "v0.5.0"), ("function-auto-ready", "v0.6.0")];

/// A directory of more of them, named as in `function-auto-ready@v0.2.1`.
const ORIGINALS: &str = "FERROPLANE_ORIGINALS";

#[test]
fn compositions_render_as_they_say() {
    let cases = cases();
    assert!(cases.len() >= 60, "there are only {} cases", cases.len());
    let mut different = Vec::new();
    for case in &cases {
        let printed = printed(&case.render(&case.functions));
        let expected = case.path.with_extension("expected");
        if std::env::var_os("FERROPLANE_WRITE_CORPUS").is_some() {
            std::fs::write(&expected, &printed).unwrap();
        }
        if std::fs::read_to_string(&expected).unwrap_or_default() != printed {
            different.push(format!("--- {}\n{printed}", case.path.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn compositions_render_the_same_with_the_functions_that_they_pin() {
    let cases = cases();
    let pins_peers = cases.iter().filter(|case| case.pins_peers_only()).count();
    assert!(pins_peers > 0, "no case pins functions that `cargo xtask test` installs, and no others");
    let (mut compared, mut compared_with_peers) = (0, 0);
    for case in &cases {
        let Some(functions) = case.with_originals() else { continue };
        let (ours, theirs) = (case.render(&case.functions), case.render(&functions));
        assert_eq!(results(&ours), results(&theirs), "{}", case.path.display());
        assert_eq!(documents(&ours), documents(&theirs), "{}", case.path.display());
        compared += 1;
        compared_with_peers += usize::from(case.pins_peers_only());
    }
    if std::env::var_os("FERROPLANE_REQUIRE_PEERS").is_some() {
        assert_eq!(compared_with_peers, pins_peers, "not every case of installed functions was compared");
    }
    eprintln!("{compared} compositions were rendered with the functions that they pin, too");
}

/// Crossplane 1 applied such patches. Here they would be lost.
#[test]
fn patch_of_the_composite_resource_fails_with_its_place() {
    let composition = "apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata:
  name: old
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: App}
  resources:
  - name: bucket
    base: {apiVersion: example.org/v1, kind: Bucket}
    patches:
    - type: ToCompositeFieldPath
      fromFieldPath: status.region
      toFieldPath: spec.region
";
    let sandbox = Sandbox::new().with("composition.yaml", composition);
    let said = sandbox.render(&[]).fails_with(1);
    let expected = "error: composition.yaml:11: `resources[0].patches[0]` writes `spec.region` of the composite resource";
    assert!(said.starts_with(expected), "{said}");
    let ran = sandbox.run(&["validate", "composition.yaml", "composition.yaml"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("spec.resources[0].patches[0]"), "{ran:?}");
}

#[test]
fn field_that_has_no_effect_is_read_and_said_to_have_none() {
    let composition = composition(&[("one", "function-dummy", &dummy("{results: []}"))]);
    let fields = [
        "publishConnectionDetailsWithStoreConfigRef: {name: default}",
        "environment: {environmentConfigs: []}",
        "resources: [{name: a, base: {}}]",
        "patchSets: [{name: a, patches: []}]",
    ];
    for text in fields {
        let with_field = format!("  mode: Pipeline\n  {text}\n");
        let composition = composition.replace("  mode: Pipeline\n", &with_field);
        let sandbox = Sandbox::new().with("composition.yaml", &composition);
        let (field, _) = text.split_once(':').unwrap();
        let ran = sandbox.render(&[]);
        assert!(ran.stderr.contains(&format!("composition.yaml:10: spec.{field} has no effect")), "{ran:?}");
        ran.ok();
        let ran = sandbox.run(&["validate", "composition.yaml", "composition.yaml"]);
        assert!(ran.stdout.contains("has no effect") || ran.stderr.contains("has no effect"), "{ran:?}");
        ran.ok();
    }
}

/// A case, read.
struct Case {
    path: PathBuf,
    composition: String,
    xr: String,
    definition: String,
    functions: Vec<Value>,
    observed: String,
    required: String,
}

fn cases() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|it| it == "yaml")).collect();
    paths.sort();
    paths.into_iter().map(Case::read).collect()
}

impl Case {
    fn read(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut case = Self {
            composition: String::new(),
            xr: String::new(),
            definition: String::new(),
            functions: Vec::new(),
            observed: String::new(),
            required: String::new(),
            path,
        };
        let mut composed = Value::Null;
        for document in text.split("---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            let annotations = &object["metadata"]["annotations"];
            let is_composed = annotations.get("crossplane.io/composition-resource-name").is_some();
            let kind = serde_json::json!({"apiVersion": object["apiVersion"], "kind": object["kind"]});
            match object["kind"].as_str().unwrap() {
                "Composition" => {
                    composed = object["spec"]["compositeTypeRef"].clone();
                    document.clone_into(&mut case.composition);
                }
                "CompositeResourceDefinition" => document.clone_into(&mut case.definition),
                "Function" => case.functions.push(object),
                _ if is_composed => case.observed += &format!("---\n{document}"),
                _ if kind == composed && case.xr.is_empty() => document.clone_into(&mut case.xr),
                _ => case.required += &format!("---\n{document}"),
            }
        }
        case
    }

    /// Whether it pins upstream's functions, and only such as `cargo xtask test` installs.
    fn pins_peers_only(&self) -> bool {
        let mut functions = self.functions.iter();
        !self.functions.is_empty() && functions.all(|function| PEERS.contains(&pinned(function)))
    }

    /// The Functions with upstream's programs to call, if all of them are installed and there are any.
    fn with_originals(&self) -> Option<Vec<Value>> {
        let mut functions = self.functions.clone();
        for function in &mut functions {
            let (name, version) = pinned(function);
            let program = original(name, version)?;
            function["metadata"]["annotations"] =
                serde_json::json!({"render.ferroplane.io/command": format!("'{}'", program.display())});
        }
        (!functions.is_empty()).then_some(functions)
    }

    fn render(&self, functions: &[Value]) -> Ran {
        let documents: Vec<_> = functions.iter().map(ToString::to_string).collect();
        let functions = documents.join("\n---\n");
        let sandbox = Sandbox::new()
            .with("composition.yaml", &self.composition)
            .with("xr.yaml", &self.xr)
            .with("xrd.yaml", &self.definition)
            .with("observed.yaml", &self.observed)
            .with("required.yaml", &self.required)
            .with("functions.yaml", &functions);
        let mut arguments = vec!["render", "xr.yaml", "composition.yaml"];
        let optional: [(&[&str], &str, &str); 4] = [
            (&[], "functions.yaml", &functions),
            (&["--xrd"], "xrd.yaml", &self.definition),
            (&["-o"], "observed.yaml", &self.observed),
            (&["-e"], "required.yaml", &self.required),
        ];
        for (flags, file, content) in optional {
            if !content.is_empty() {
                arguments.extend(flags);
                arguments.push(file);
            }
        }
        arguments.extend(["--include-function-results", "--allow-commands"]);
        sandbox.run(&arguments)
    }
}

/// The name and the version of the package that a Function pins.
fn pinned(function: &Value) -> (&str, &str) {
    let package = function["spec"]["package"].as_str().unwrap();
    package.rsplit('/').next().unwrap().split_once(':').unwrap()
}

/// Upstream's program for this version of a function.
fn original(name: &str, version: &str) -> Option<PathBuf> {
    let directory = std::env::var_os(ORIGINALS).map(PathBuf::from);
    let given = directory.map(|directory| directory.join(format!("{name}@{version}")));
    if let Some(given) = given.filter(|given| given.exists()) {
        return Some(given);
    }
    PEERS.contains(&(name, version)).then(|| peers::peer(name)).flatten()
}

/// What the terminal shows, short: words, results and conditions are comments, and what every composed resource has is left
/// out.
fn printed(ran: &Ran) -> String {
    let mut printed = String::new();
    for line in ran.stderr.lines() {
        printed += &format!("# {line}\n");
    }
    for document in documents_of(ran) {
        printed += &match document["kind"].as_str() {
            Some("Result") => result(&document),
            _ if document["metadata"]["ownerReferences"].is_null() => composite(document),
            _ => composed(document),
        };
    }
    printed
}

/// A result, unless it says what is said elsewhere.
fn result(document: &Value) -> String {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    if text("reason") == "SelectComposition" || text("message").ends_with(" is not yet ready") {
        return String::new();
    }
    format!("# {}: {}\n", text("severity"), text("message"))
}

/// The composite resource: its conditions, and what else is in its status.
fn composite(mut document: Value) -> String {
    let mut printed = String::new();
    for condition in document["status"]["conditions"].as_array().into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        if !matches!(text("type"), "Responsive" | "Synced") {
            let line = format!("# {}: {} {}", text("type"), text("status"), text("message"));
            printed += &format!("{}\n", line.trim_end());
        }
    }
    let mut kept = serde_json::json!({"kind": document["kind"], "metadata": document["metadata"]});
    if let Some(status) = document["status"].as_object_mut() {
        status.remove("conditions");
        if !status.is_empty() {
            kept["status"] = document["status"].take();
        }
    }
    printed + "---\n" + &yaml::print(&kept).unwrap()
}

/// A composed resource, without what ties it to the composite resource.
fn composed(mut document: Value) -> String {
    const NAME: &str = "crossplane.io/composition-resource-name";
    let metadata = document["metadata"].as_object_mut().unwrap();
    for field in ["ownerReferences", "generateName"] {
        metadata.remove(field);
    }
    let mut name = Value::Null;
    for (field, key) in [("labels", "crossplane.io/composite"), ("annotations", NAME)] {
        let entries = metadata.get_mut(field).and_then(Value::as_object_mut);
        let removed = entries.and_then(|entries| entries.remove(key)).unwrap_or_default();
        if key == NAME {
            name = removed;
        }
        if metadata.get(field).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
            metadata.remove(field);
        }
    }
    format!("---\n# {}\n{}", name.as_str().unwrap_or_default(), yaml::print(&document).unwrap())
}

/// What the functions said. Where a result is about is not in the protocol of older ones, and means the same if it is left out.
fn results(ran: &Ran) -> Vec<(String, String)> {
    let text = |document: &Value, field: &str| document[field].as_str().unwrap_or_default().to_owned();
    let results = documents_of(ran).into_iter().filter(|document| document["kind"] == "Result");
    results.map(|result| (text(&result, "severity"), text(&result, "message"))).collect()
}

fn documents(ran: &Ran) -> Vec<Value> {
    documents_of(ran).into_iter().filter(|document| document["kind"] != "Result").collect()
}

fn documents_of(ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    serde_saphyr::from_multiple(&ran.stdout).unwrap()
}
