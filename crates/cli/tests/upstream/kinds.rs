//! The definitions of Crossplane's kinds: ours are its own, but for words and what is different on purpose.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ferroplane_api::crds;
use serde_json::{Map, Value};

/// Where Go keeps the sources that the peer `crossplane` is made of.
pub(crate) fn definitions() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join("go/pkg/mod"));
    let modules = std::env::var_os("GOMODCACHE").map(PathBuf::from).or_else(home)?;
    let path = modules.join("github.com/crossplane/crossplane/v2@v2.4.0/cluster/crds");
    path.is_dir().then_some(path)
}

/// The paths at which our definitions and upstream's differ.
pub(crate) fn differences(theirs: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // What Crossplane does not have cannot differ.
    for ours in crds::ALL.iter().filter(|crd| crd.group.ends_with(".crossplane.io")) {
        let mut ours: Value = serde_saphyr::from_str(ours.yaml).expect("it is YAML");
        let names = ours["spec"]["names"].clone();
        let group = ours["spec"]["group"].as_str().unwrap_or_default();
        let plural = names["plural"].as_str().unwrap_or_default();
        let text =
            std::fs::read_to_string(theirs.join(format!("{group}_{plural}.yaml"))).expect("they have it");
        let theirs: Value = serde_saphyr::from_str(&text).expect("it is YAML");
        let kind = names["kind"].as_str().unwrap_or_default();
        for version in take_own_versions(&mut ours, &theirs) {
            found.insert(format!("{kind}.versions.{version}"));
        }
        compare(&plain(&ours["spec"]), &plain(&theirs["spec"]), kind, &mut found);
    }
    found
}

/// Leave out the versions that only we serve, so that the others are compared one by one. Returns their names.
fn take_own_versions(ours: &mut Value, theirs: &Value) -> Vec<String> {
    let is_theirs = |version: &Value| {
        let theirs = theirs["spec"]["versions"].as_array();
        theirs.is_some_and(|theirs| theirs.iter().any(|their| their["name"] == version["name"]))
    };
    let Some(versions) = ours["spec"]["versions"].as_array_mut() else { return Vec::new() };
    let (shared, own): (Vec<_>, Vec<_>) = std::mem::take(versions).into_iter().partition(is_theirs);
    *versions = shared;
    own.iter().filter_map(|version| version["name"].as_str()).map(str::to_owned).collect()
}

/// Without the words.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_word = |name: &str, value: &Value| {
                ["description", "message", "deprecationWarning"].contains(&name) && value.is_string()
            };
            let fields = fields.iter().filter(|(name, value)| !is_word(name, value));
            Value::Object(fields.map(|(name, value)| (name.clone(), plain(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(plain).collect();
            // What is required, or allowed, has no order.
            if items.iter().all(Value::is_string) {
                items.sort_by_key(ToString::to_string);
            }
            Value::Array(items)
        }
        other => other.clone(),
    }
}

fn compare(ours: &Value, theirs: &Value, path: &str, found: &mut BTreeSet<String>) {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            for name in one.keys().chain(other.keys().filter(|name| !one.contains_key(*name))) {
                // The parts of a schema that only hold others are left out of paths.
                let is_frame =
                    ["properties", "items", "schema", "openAPIV3Schema", "versions"].contains(&name.as_str());
                let path = if is_frame { path.to_owned() } else { format!("{path}.{name}") };
                compare(&ours[name], &theirs[name], &path, found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            one.iter().zip(other).for_each(|(one, other)| compare(one, other, path, found));
        }
        _ if ours == theirs => {}
        _ => {
            found.insert(path.to_owned());
        }
    }
}
