//! Recordings as lines.

use ferroplane_recorder::{Ending, Head};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::began_at;
use crate::table::{TableLayout, print};

/// How much of a message stands in a table.
const MESSAGE: usize = 100;

/// One line for each, in so many columns of a terminal if there is an end to them.
pub fn table(heads: &[Head], room: Option<usize>) -> String {
    if heads.is_empty() {
        return String::new();
    }
    let rows = heads.iter().map(|head| {
        [
            head.id.to_string(),
            to_millisecond(began_at(head)),
            composite(head),
            head.revision.clone(),
            came_to(head),
            message(head),
        ]
    });
    let titles = ["ID", "STARTED", "RESOURCE", "REVISION", "RESULT", "MESSAGE"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(titles).chain(rows).collect();
    print(&rows, TableLayout { gap: 2, room }, str::to_owned)
}

/// The same for programs.
pub fn document(heads: &[Head]) -> Value {
    let recordings = heads.iter().map(|head| {
        json!({
            "id": head.id, "startedAt": to_millisecond(began_at(head)), "durationMicroseconds": head.micros,
            "apiVersion": head.api_version, "kind": head.kind, "namespace": head.namespace, "name": head.name,
            "uid": head.uid, "composition": head.composition, "revision": head.revision,
            "result": came_to(head), "message": head.trouble,
        })
    });
    json!({"recordings": recordings.collect::<Vec<_>>()})
}

/// What a recording is of, in a line.
pub fn title(head: &Head) -> String {
    let redacted = if head.is_redacted { ", without its secrets" } else { "" };
    format!("recording {}: {} of {}{redacted}", head.id, composite(head), to_second(began_at(head)))
}

/// The composite resource that a recording is of.
pub fn composite(head: &Head) -> String {
    match head.namespace.as_str() {
        "" => format!("{}/{}", head.kind, head.name),
        namespace => format!("{}/{} in {namespace}", head.kind, head.name),
    }
}

/// What came of a reconcile, in a word or two.
pub fn came_to(head: &Head) -> String {
    match head.ending() {
        Ending::Succeeded if head.is_ready && head.is_operation() => "succeeded",
        Ending::Succeeded if head.is_ready => "ready",
        Ending::Succeeded => "not ready yet",
        Ending::Failed => "failed",
        Ending::Conflict => "tried again",
        Ending::Gone => "gone",
        Ending::Unknown => "unknown",
    }
    .to_owned()
}

fn message(head: &Head) -> String {
    let mut line: String = head.trouble.lines().next().unwrap_or_default().chars().take(MESSAGE).collect();
    if line.len() < head.trouble.len() {
        line.push('…');
    }
    line
}

/// Always as long, so that columns line up and texts sort as times do.
fn to_millisecond(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn to_second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_have_to_be() {
        let head = Head {
            id: 7,
            kind: "App".to_owned(),
            name: "shop".to_owned(),
            revision: "apps-1".to_owned(),
            trouble: format!("{}\nmore", "x".repeat(200)),
            ending: Ending::Failed.into(),
            ..Head::default()
        };
        let expected = format!(
            "ID  STARTED                   RESOURCE  REVISION  RESULT  MESSAGE\n7   1970-01-01T00:00:00.000Z  App/shop  apps-1    failed  {}…\n",
            "x".repeat(100)
        );
        assert_eq!(table(std::slice::from_ref(&head), None), expected);
        assert_eq!(table(&[], None), "");
        assert!(table(&[head], Some(80)).lines().all(|line| line.chars().count() <= 80));
        let document = document(&[Head { began_at: 1_700_000_000_690, ..Head::default() }]);
        assert_eq!(document["recordings"][0]["startedAt"], "2023-11-14T22:13:20.690Z");
    }
}
