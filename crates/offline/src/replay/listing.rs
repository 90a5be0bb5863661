//! Recordings as lines.

use ferroplane_recorder::{Ending, Head};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::began_at;
use crate::table::{TableLayout, print};
use crate::times;

/// The number of characters of a message that a table shows.
const MESSAGE: usize = 100;

/// The number of columns of a terminal from which on a table shows times beside ages. With fewer, they would be cut.
const WIDE: usize = 120;

/// One line for each, within the columns of a terminal if there is one.
pub fn table(heads: &[Head], now: Timestamp, room: Option<usize>) -> String {
    if heads.is_empty() {
        return String::new();
    }
    let titles = ["ID", "STARTED", "AGE", "RESOURCE", "REVISION", "RESULT", "MESSAGE"].map(str::to_owned);
    let rows = std::iter::once(titles).chain(heads.iter().map(|head| row(head, now)));
    let is_wide = room.is_none_or(|room| room >= WIDE);
    let shown = |row: [String; 7]| {
        let cells = row.into_iter().enumerate().filter(|(column, _)| is_wide || *column != 1);
        cells.map(|(_, cell)| cell).collect::<Vec<_>>()
    };
    let rows: Vec<_> = rows.map(shown).collect();
    print(&rows, TableLayout { gap: 2, room }, str::to_owned)
}

fn row(head: &Head, now: Timestamp) -> [String; 7] {
    let began_at = began_at(head);
    [
        head.id.to_string(),
        times::local_with_milliseconds(began_at),
        times::age(began_at, now),
        composite(head),
        head.revision.clone(),
        came_to(head),
        message(head),
    ]
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

/// The number, resource and time of a recording, in a line.
pub fn title(head: &Head, now: Timestamp) -> String {
    let redacted = if head.is_redacted { ", without its secrets" } else { "" };
    let time = times::with_age(began_at(head), now);
    format!("recording {}: {} of {time}{redacted}", head.id, composite(head))
}

/// The composite resource that a recording is of.
pub fn composite(head: &Head) -> String {
    match head.namespace.as_str() {
        "" => format!("{}/{}", head.kind, head.name),
        namespace => format!("{}/{} in {namespace}", head.kind, head.name),
    }
}

/// The result of a reconcile, in a word or two.
pub fn came_to(head: &Head) -> String {
    match head.ending() {
        Ending::Succeeded if head.is_ready && head.is_operation() => "succeeded",
        Ending::Succeeded if head.is_ready && head.is_action_set() => "complete",
        Ending::Succeeded if head.is_action_set() => "running",
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

/// In UTC, always with the same number of digits, so that programs can sort the texts.
fn to_millisecond(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
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
        let (now, began) = (Timestamp::from_second(300).unwrap(), Timestamp::from_second(0).unwrap());
        let (started, long) = (times::local_with_milliseconds(began), "x".repeat(100));
        let space = " ".repeat(started.len() - "STARTED".len());
        let expected = format!(
            "ID  STARTED{space}  AGE  RESOURCE  REVISION  RESULT  MESSAGE\n7   {started}  5m   App/shop  apps-1    failed  {long}…\n",
        );
        assert_eq!(table(std::slice::from_ref(&head), now, None), expected);
        assert_eq!(table(&[], now, None), "");
        let narrow = table(&[head], now, Some(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80));
        assert!(narrow.starts_with("ID  AGE  RESOURCE  "), "{narrow}");
        let document = document(&[Head { began_at: 1_700_000_000_690, ..Head::default() }]);
        assert_eq!(document["recordings"][0]["startedAt"], "2023-11-14T22:13:20.690Z");
    }
}
