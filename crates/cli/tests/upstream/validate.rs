//! Upstream's own validation: it must find what `ferroplane resource validate` finds, but for what is different on
//! purpose.

use std::path::Path;
use std::process::Command;

use ferroplane_api::crds;
use serde_json::Value;

/// Where upstream looks for the kinds of its core before it asks a registry for them.
const CORE: &str = "registry.example/core@v1";
const CORE_IMAGE: &str = "registry.example/core:v1";

/// What each of the two found, by object.
pub(crate) fn compare(ours: &Path, theirs: &Path) -> Vec<String> {
    let directory = tempfile::tempdir().expect("there is room for files");
    let core = directory.path().join("cache").join(CORE);
    std::fs::create_dir_all(&core).expect("there is room for files");
    let definitions: Vec<_> = crds::ALL.iter().map(|crd| crd.yaml).collect();
    std::fs::write(core.join("package.yaml"), definitions.join("---\n")).expect("there is room for files");
    for (name, text) in [
        ("extensions.yaml", include_str!("validate/extensions.yaml")),
        ("resources.yaml", include_str!("validate/resources.yaml")),
    ] {
        std::fs::write(directory.path().join(name), text).expect("there is room for files");
    }
    let ask = |program: &Path| {
        let output = Command::new(program)
            .args(["resource", "validate", "extensions.yaml", "resources.yaml", "--output=json"])
            .args(["--cache-dir=cache", &format!("--crossplane-image={CORE_IMAGE}")])
            .current_dir(directory.path())
            .env("HOME", directory.path())
            .output()
            .expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "some objects are invalid");
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
    };
    let (ours, theirs) = (ask(ours), ask(theirs));
    let list = |report: &Value| report["resources"].as_array().cloned().unwrap_or_default();
    let (ours, theirs) = (list(&ours), list(&theirs));
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(&theirs).filter_map(|(ours, theirs)| difference(ours, theirs)).collect()
}

/// What is different about an object, unless it is so on purpose.
fn difference(ours: &Value, theirs: &Value) -> Option<String> {
    let name = ours["name"].as_str().unwrap_or_default();
    let statuses = (ours["status"].as_str(), theirs["status"].as_str());
    let expected = if name.starts_with("stricter-") {
        statuses.0 == Some("invalid") && statuses.1 != Some("invalid")
    } else if name.starts_with("laxer-") {
        statuses == (Some("valid"), Some("invalid"))
    } else {
        let is_same =
            ["apiVersion", "kind", "name", "namespace"].iter().all(|field| ours[field] == theirs[field]);
        is_same && statuses.0 == statuses.1 && (is_built_in(ours) || errors(ours) == errors(theirs))
    };
    (!expected).then(|| format!("{name}\nours: {ours:#}\ntheirs: {theirs:#}"))
}

/// Upstream stops at the first mistake in Kubernetes' own kinds, and names no fields.
fn is_built_in(resource: &Value) -> bool {
    ["v1", "apps/v1"].contains(&resource["apiVersion"].as_str().unwrap_or_default())
}

/// The errors that both find, sorted: Kubernetes goes through fields in no particular order.
fn errors(resource: &Value) -> Vec<(String, String, String)> {
    let found = resource["errors"].as_array().into_iter().flatten();
    let is_sound = found.clone().all(|error| error["type"] != "schema");
    let mut errors: Vec<_> = found
        .map(|error| {
            let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
            // Upstream reads every number as a float. An API server does not.
            let message = text("message").replace("\"number\"", "\"integer\"");
            (text("type"), text("field"), message)
        })
        .filter(|(kind, _, message)| {
            // Only we check what is defined, and we say nothing of rules that other mistakes keep from working.
            kind != "definition" && (is_sound || kind != "cel" || !message.contains(" evaluating rule: "))
        })
        .collect();
    errors.sort();
    errors
}
