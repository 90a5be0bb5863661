//! One script of requests, sent to our server and to a real one: are the answers the same?
//!
//! `real/script/*.http` are the requests, `real/answers/*.jsonl` what the real server answered, without what differs
//! between any two runs. Where `FERROPLANE_ORACLE_URL` names a server (`cargo xtask oracle` starts one), it is asked anew;
//! with `FERROPLANE_RECORD` set, what it says is recorded. The chapter about owners needs `--controllers`. `docs/differences.md` explains every `@except` of the
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
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use ours::Ours;
use script::Step;
use theirs::Theirs;

static TURNS: RwLock<()> = RwLock::const_new(());

/// Whether others may talk to the same server meanwhile.
#[allow(dead_code, reason = "they are held, not looked at")]
enum Turn {
    Alone(RwLockWriteGuard<'static, ()>),
    Together(RwLockReadGuard<'static, ()>),
}

/// Performs a chapter of the script and says what differs.
async fn compare(chapter: &str) {
    let text = fs::read_to_string(path(&format!("script/{chapter}.http"))).expect("there is such a chapter");
    let steps = script::parse(&text);
    let forgets = steps.iter().any(|step| step.forgets.is_some());
    // What one chapter has a server forget, others may still need.
    let _alone = if forgets { Turn::Alone(TURNS.write().await) } else { Turn::Together(TURNS.read().await) };
    let theirs = match Theirs::find(chapter == "owners") {
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
    let ours = Box::pin(play::play(&Ours::start(forgets).await, &steps)).await;
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
    let all = || step.exceptions.iter().chain(&step.chances);
    let mut parts = parts(all(), ours, theirs);
    let holds =
        |exception: &&String| !self::parts(all().filter(|other| other != exception), ours, theirs).is_empty();
    if parts.is_empty() {
        let stale = step.exceptions.iter().filter(|exception| !holds(exception));
        parts.extend(stale.map(|exception| format!("    @except {exception} is no longer true")));
    }
    (!parts.is_empty())
        .then(|| format!("{} ({} {})\n{}", step.title, step.method, step.path, parts.join("\n")))
}

/// What differs but for exceptions.
fn parts<'s>(exceptions: impl Iterator<Item = &'s String>, ours: &Value, theirs: &Value) -> Vec<String> {
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    for pointer in exceptions {
        normal::remove(&mut ours, pointer);
        normal::remove(&mut theirs, pointer);
    }
    if ours["code"] == theirs["code"] {
        return normal::differences("", &ours, &theirs);
    }
    vec![format!("      ours:   {ours}\n      theirs: {theirs}")]
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
    expiry,
    kinds,
    lists,
    metadata,
    negotiation,
    owners,
    paths,
    rights,
    services,
    verbs,
    watches,
    webhooks
);
