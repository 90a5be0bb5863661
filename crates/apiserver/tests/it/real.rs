//! One script of requests, sent to our server and to a real one: are the answers the same?
//!
//! `real/script/*.http` are the requests, `real/answers/*.jsonl` what the real server answered, without what differs
//! between any two runs. Where `FERROPLANE_ORACLE_URL` names a server (`cargo xtask oracle` starts one), it is asked anew;
//! with `FERROPLANE_RECORD` set, what it says is written down. `docs/differences.md` explains every `@except` of the
//! script.

mod exchange;
mod normal;
mod ours;
mod play;
mod script;
mod theirs;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use ours::Ours;
use script::Step;
use theirs::Theirs;

/// Performs a chapter of the script and says what differs.
async fn compare(chapter: &str) {
    let text = fs::read_to_string(path(&format!("script/{chapter}.http"))).expect("there is such a chapter");
    let steps = script::parse(&text);
    let theirs = match Theirs::find() {
        Some(theirs) => {
            let answers = play::play(&theirs, &steps).await;
            if std::env::var_os("FERROPLANE_RECORD").is_some() {
                record(chapter, &answers);
            }
            answers
        }
        None => recorded(chapter),
    };
    assert_eq!(theirs.len(), steps.len(), "the script has changed: record its answers anew");
    let ours = Box::pin(play::play(&Ours::start().await, &steps)).await;
    let differences: Vec<_> = steps
        .iter()
        .zip(ours.iter().zip(&theirs))
        .filter_map(|(step, (ours, theirs))| difference(step, ours, theirs))
        .collect();
    assert!(
        differences.is_empty(),
        "{} of {} answers differ:\n{}",
        differences.len(),
        steps.len(),
        differences.join("\n")
    );
}

fn difference(step: &Step, ours: &Value, theirs: &Value) -> Option<String> {
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    for pointer in &step.exceptions {
        normal::remove(&mut ours, pointer);
        normal::remove(&mut theirs, pointer);
    }
    let parts = if ours["code"] == theirs["code"] {
        normal::differences("", &ours, &theirs)
    } else {
        vec![format!("      ours:   {ours}\n      theirs: {theirs}")]
    };
    (!parts.is_empty())
        .then(|| format!("{} ({} {})\n{}", step.title, step.method, step.path, parts.join("\n")))
}

fn recorded(chapter: &str) -> Vec<Value> {
    let text = fs::read_to_string(path(&format!("answers/{chapter}.jsonl"))).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn record(chapter: &str, answers: &[Value]) {
    let lines: Vec<_> = answers.iter().map(Value::to_string).collect();
    fs::write(path(&format!("answers/{chapter}.jsonl")), lines.join("\n") + "\n")
        .expect("the answers can be written");
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/real").join(name)
}

macro_rules! chapters {
    ($($chapter:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $chapter() {
                compare(stringify!($chapter)).await;
            }
        )*
    };
}

chapters!(
    autoscalers,
    definitions,
    events,
    kinds,
    lists,
    metadata,
    negotiation,
    paths,
    rights,
    services,
    verbs,
    watches,
    webhooks
);
