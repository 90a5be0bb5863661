//! `ferroplane operation history`: which operations ran, and what became of them.

use ferroplane_api::{Object, meta};
use ferroplane_engine::operation::{Standing, standing};

use crate::Verdict;
use crate::client::Access;
use crate::explain::block_on;
use crate::operations::{Operations, created, message, parent};
use crate::terminal::Terminal;

/// List operations and what became of them, newest first
///
/// History limits of CronOperations and WatchOperations say how many are kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane operation history
  ferroplane operation history cronoperation/nightly")]
pub(crate) struct History {
    /// Only those that this one made: `cronoperation/NAME` or `watchoperation/NAME`
    #[arg(value_name = "KIND/NAME")]
    parent: Option<String>,

    #[command(flatten)]
    access: Access,
}

impl History {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let all = block_on(async { Operations::connect(&self.access)?.list().await })?;
        let wanted = self.parent.as_deref().map(str::to_lowercase);
        let is_wanted = |operation: &&Object| {
            wanted.as_ref().is_none_or(|wanted| parent(operation).to_lowercase() == *wanted)
        };
        let rows: Vec<_> = all.iter().rev().filter(is_wanted).map(row).collect();
        if rows.is_empty() {
            terminal.note("there are no operations");
            return Ok(Verdict::Yes);
        }
        terminal.text(&table(&rows))?;
        Ok(Verdict::Yes)
    }
}

fn row(operation: &Object) -> [String; 5] {
    let result = match standing(operation) {
        Standing::Running => "Running",
        Standing::Succeeded => "Succeeded",
        Standing::Failed => "Failed",
    };
    let message = message(operation).replace('\n', " ");
    [
        meta::name(operation).to_owned(),
        parent(operation),
        created(operation).to_owned(),
        result.to_owned(),
        message,
    ]
}

/// Columns as wide as their widest cell.
fn table(rows: &[[String; 5]]) -> String {
    let head = ["NAME", "MADE BY", "CREATED", "RESULT", "MESSAGE"].map(str::to_owned);
    let all: Vec<_> = std::iter::once(&head).chain(rows).collect();
    let widths: Vec<_> = (0..head.len())
        .map(|column| all.iter().map(|row| row[column].chars().count()).max().unwrap_or_default())
        .collect();
    let line = |row: &&[String; 5]| {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("   ").trim_end().to_owned() + "\n"
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_are_listed_in_columns() {
        let operation = json!({
            "metadata": {
                "name": "nightly-1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"ops.crossplane.io/cronoperation": "nightly"},
            },
            "status": {"conditions": [{"type": "Succeeded", "status": "False", "reason": "x", "message": "no\nway"}]},
        });
        let text = table(&[row(operation.as_object().unwrap())]);
        let expected = "\
NAME        MADE BY                 CREATED                RESULT   MESSAGE
nightly-1   CronOperation/nightly   2026-01-01T00:00:00Z   Failed   no way
";
        assert_eq!(text, expected);
    }
}
