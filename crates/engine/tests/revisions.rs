//! Shows the same Compositions to us and to Crossplane's own code, and tells where we hash them otherwise.
//!
//! `golden.jsonl` holds what the original said of some; that comparison always runs. With the peer
//! `crossplane-compositions` installed (`cargo xtask peers`), generated ones are compared too. To record anew, set
//! `FERROPLANE_UPDATE_GOLDEN=1`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "revisions/generate.rs"]
mod generate;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use ferroplane_api::Object;
use ferroplane_engine::{composition_hash, plan_revisions};
use serde_json::{Value, json};

use generate::composition;

/// So many of the generated ones are recorded.
const RECORDED: u64 = 100;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/revisions/golden.jsonl")
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// The peer, if it is installed. Panics where it must be.
fn peer() -> Option<PathBuf> {
    let chosen = env::var_os("FERROPLANE_PEERS").filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || env::home_dir().unwrap_or_default().join(".cache/ferroplane/peers");
    let path = chosen.unwrap_or_else(home).join("crossplane-compositions");
    if !path.exists() {
        let words = "crossplane-compositions is not installed; run cargo xtask peers";
        assert!(env::var_os("FERROPLANE_REQUIRE_PEERS").is_none_or(|value| value != "1"), "{words}");
        let _ = writeln!(io::stderr(), "skipped: {words}");
        return None;
    }
    Some(path)
}

/// What the original says of each.
fn ask(peer: &Path, compositions: &[Value]) -> Vec<Value> {
    let mut child = Command::new(peer).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: Vec<_> = compositions.iter().map(Value::to_string).collect();
    let writer = thread::spawn(move || lines.iter().for_each(|line| writeln!(input, "{line}").unwrap()));
    let output = BufReader::new(child.stdout.take().unwrap());
    let answers: Vec<_> = output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(answers.len(), compositions.len());
    answers
}

/// Whether the original always says the same.
fn is_decided(peer: &Path, composition: &Value) -> bool {
    let answers = ask(peer, &vec![composition.clone(); 30]);
    answers.iter().all(|answer| *answer == answers[0])
}

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

/// What we say of a composition, as the original says it.
fn answer(composition: &Value) -> Value {
    let composition = object(composition);
    let revision = plan_revisions(&composition, &[]).unwrap().create.unwrap();
    json!({"hash": composition_hash(&composition), "spec": revision["spec"]})
}

/// The hashes that differ.
fn differences<'c>(cases: impl Iterator<Item = &'c (Value, Value)>) -> Vec<String> {
    // Some texts cannot be hashed there at all.
    let cases = cases.filter(|(_, theirs)| theirs["hash"] != "unknown");
    let different = |(composition, theirs): &(Value, Value)| {
        let ours = answer(composition);
        (ours["hash"] != theirs["hash"]).then(|| format!("{composition}\n  ours {ours}\n  theirs {theirs}"))
    };
    cases.filter_map(different).collect()
}

#[test]
fn known_compositions_have_the_hash_that_crossplane_gives_them() {
    if env::var_os("FERROPLANE_UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        let compositions: Vec<_> = (0..RECORDED).map(composition).collect();
        let answers = ask(&peer().unwrap(), &compositions);
        let lines = compositions.iter().zip(&answers).map(|case| format!("{}\n", json!([case.0, case.1])));
        fs::write(golden(), lines.collect::<String>()).unwrap();
    }
    let text = fs::read_to_string(golden()).unwrap();
    let cases: Vec<(Value, Value)> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() >= 100, "golden.jsonl is not complete");
    let differences = differences(cases.iter());
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn generated_compositions_have_the_hash_that_crossplane_gives_them() {
    let Some(peer) = peer() else { return };
    let (seed, cases) = (number("FERROPLANE_SEED", 1_000), number("FERROPLANE_CASES", 2_000));
    let compositions: Vec<_> = (seed..seed + cases).map(composition).collect();
    let answers = ask(&peer, &compositions);
    let hashed = answers.iter().filter(|answer| answer["hash"].as_str().is_some_and(|hash| hash.len() == 64));
    assert!(hashed.count() > compositions.len() * 9 / 10);
    let cases: Vec<_> = compositions.into_iter().zip(answers).collect();
    // Where keys compare in circles, the original says something else every time.
    let doubtful = cases.iter().filter(|case| !differences([*case].into_iter()).is_empty());
    let decided = doubtful.filter(|(composition, _)| is_decided(&peer, composition));
    let differences = differences(decided);
    let (count, all) = (differences.len(), cases.len());
    let _ = writeln!(io::stderr(), "{all} generated compositions, {count} hashed differently");
    let shown = differences.iter().take(3).map(String::as_str).collect::<Vec<_>>();
    assert!(differences.is_empty(), "{count} of {all} differ:\n{}", shown.join("\n"));
}

#[test]
fn whatever_changes_in_the_functions_array_changes_the_hash() {
    let function = |name: &str, image: &str| {
        json!({"name": name, "type": "Container", "config": {"color": "red"},
            "container": {"image": image, "network": {"policy": "Isolated"}, "resources": {"limits": {"memory": "64Mi"}}}})
    };
    let (one, other) =
        (function("a", "registry.example.org/a:v1"), function("b", "registry.example.org/b:v1"));
    let hash = |functions: &[&Value]| {
        composition_hash(&object(&json!({
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": "c"},
            "spec": {"compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "functions": functions},
        })))
    };
    let with = |pointer: &str, value: Value| {
        let mut function = one.clone();
        *function.pointer_mut(pointer).unwrap() = value;
        function
    };
    let changes = [
        with("/name", json!("c")),
        with("/config/color", json!("blue")),
        with("/container/image", json!("registry.example.org/a:v2")),
        with("/container/network/policy", json!("Runner")),
        with("/container/resources/limits/memory", json!("128Mi")),
    ];
    let mut hashes: Vec<_> = changes.iter().map(|change| hash(&[change, &other])).collect();
    hashes.extend([hash(&[&one, &other]), hash(&[&other, &one]), hash(&[&one]), hash(&[])]);
    let distinct: BTreeSet<_> = hashes.iter().collect();
    assert_eq!(distinct.len(), hashes.len(), "{hashes:#?}");
    assert_eq!(hash(&[&one, &other]), hash(&[&one.clone(), &other.clone()]));
}

#[test]
fn revision_says_what_crossplane_would_say() {
    let text = fs::read_to_string(golden()).unwrap();
    for line in text.lines() {
        let (composition, theirs): (Value, Value) = serde_json::from_str(line).unwrap();
        let mut ours = answer(&composition)["spec"].clone();
        // The original is asked before it has a number.
        ours["revision"] = json!(0);
        assert_eq!(without_nothing(ours), without_nothing(theirs["spec"].clone()), "{composition}");
    }
}

/// Lists and maps that say nothing may be left out.
fn without_nothing(mut spec: Value) -> Value {
    for step in spec["pipeline"].as_array_mut().unwrap() {
        let step = step.as_object_mut().unwrap();
        step.retain(|key, value| key != "credentials" || !value.as_array().unwrap().is_empty());
        let Some(requirements) = step.get_mut("requirements") else { continue };
        let requirements = requirements.as_object_mut().unwrap();
        requirements.retain(|_, value| !value.as_array().unwrap().is_empty());
        for required in requirements.values_mut().flat_map(|list| list.as_array_mut().unwrap()) {
            let required = required.as_object_mut().unwrap();
            required.retain(|key, value| key != "matchLabels" || !value.as_object().unwrap().is_empty());
        }
    }
    spec
}
