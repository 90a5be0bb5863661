//! `ferroplane operation history`: lists operations with their results.

use std::str::FromStr;

use ferroplane_api::{Object, meta};
use ferroplane_engine::operation::{Standing, operation_parent, standing};
use ferroplane_offline::times;
use jiff::Timestamp;

use crate::Verdict;
use crate::client::Access;
use crate::explain::ask;
use crate::functions::table::table as columns;
use crate::operations::{Operations, created, message};
use crate::terminal::Terminal;

/// List operations with their results, newest first
///
/// History limits of CronOperations and WatchOperations say how many are kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane operation history
  ferroplane operation history cronoperation/nightly")]
pub(crate) struct History {
    /// Only those that this one made: `cronoperation/NAME` or `watchoperation/NAME`
    #[arg(value_name = "KIND/NAME")]
    parent: Option<Parent>,

    #[command(flatten)]
    access: Access,
}

/// What makes operations.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parent {
    kind: &'static str,
    name: String,
}

impl FromStr for Parent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected cronoperation/NAME or watchoperation/NAME, got `{text}`");
        let (kind, name) = text.split_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(expected)?;
        let kind = match kind.to_lowercase().as_str() {
            "cronoperation" | "cronoperations" | "cronops" => "CronOperation",
            "watchoperation" | "watchoperations" | "watchops" => "WatchOperation",
            _ => return Err(expected()),
        };
        Ok(Self { kind, name: name.to_owned() })
    }
}

impl History {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let all = ask(terminal, async {
            let operations = Operations::connect(&self.access)?;
            if let Some(Parent { kind, name }) = &self.parent {
                operations.get(kind, name).await?;
            }
            operations.list().await
        })?;
        let is_wanted = |operation: &&Object| {
            let wanted = self.parent.as_ref().map(|wanted| format!("{}/{}", wanted.kind, wanted.name));
            wanted.is_none_or(|wanted| operation_parent(operation) == wanted)
        };
        let now = Timestamp::now();
        let rows: Vec<_> = all.iter().rev().filter(is_wanted).map(|it| row(it, now)).collect();
        if rows.is_empty() {
            match &self.parent {
                Some(Parent { kind, name }) => {
                    terminal.note(&format!("{kind} `{name}` has made no operations that are still kept"));
                }
                None => terminal.note("there are no operations"),
            }
            return Ok(Verdict::Yes);
        }
        terminal.text(&table(&rows, terminal.width()))?;
        Ok(Verdict::Yes)
    }
}

fn row(operation: &Object, now: Timestamp) -> [String; 5] {
    let result = match standing(operation) {
        Standing::Running => "Running",
        Standing::Succeeded => "Succeeded",
        Standing::Failed => "Failed",
    };
    let message = message(operation).replace('\n', " ");
    [
        meta::name(operation).to_owned(),
        operation_parent(operation),
        result.to_owned(),
        times::age_of(created(operation), now),
        message,
    ]
}

/// A line for each operation, within the columns of a terminal if there is one.
fn table(rows: &[[String; 5]], room: Option<usize>) -> String {
    let rows: Vec<_> = rows.iter().map(|row| row.to_vec()).collect();
    columns(&["NAME", "MADE BY", "RESULT", "AGE", "MESSAGE"], &rows, room)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parent_is_named_by_kind_and_name() {
        let parse =
            |text: &str| text.parse::<Parent>().map(|parent| format!("{}/{}", parent.kind, parent.name));
        assert_eq!(parse("CronOperation/nightly").as_deref(), Ok("CronOperation/nightly"));
        assert_eq!(parse("watchops/w").as_deref(), Ok("WatchOperation/w"));
        for wrong in ["nightly", "cronoperation", "cronoperation/", "operation/x", "/x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn operations_are_listed_in_columns() {
        let operation = json!({
            "metadata": {
                "name": "nightly-1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"ops.crossplane.io/cronoperation": "nightly"},
            },
            "status": {"conditions": [{"type": "Succeeded", "status": "False", "reason": "x", "message": "no\nway"}]},
        });
        let now = "2026-01-04T04:00:00Z".parse().unwrap();
        let text = table(&[row(operation.as_object().unwrap(), now)], None);
        let expected = "\
NAME        MADE BY                 RESULT   AGE    MESSAGE
nightly-1   CronOperation/nightly   Failed   3d4h   no way
";
        assert_eq!(text, expected);
    }
}
