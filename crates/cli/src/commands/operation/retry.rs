//! `ferroplane operation retry`: run an operation again that is done.

use std::time::Duration;

use anyhow::bail;
use ferroplane_api::{Object, meta};
use ferroplane_engine::operation::{Standing, standing};
use jiff::Timestamp;
use serde_json::Value;

use crate::Verdict;
use crate::client::Access;
use crate::duration;
use crate::explain::block_on;
use crate::operations::Operations;
use crate::terminal::Terminal;

/// Run a finished operation again, under a new name
///
/// Creates an Operation with the same spec, called NAME-retry-SECONDS, and prints its events until it is done.
///
/// Exit codes: 0 succeeded; 3 failed, or still running after the timeout; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane operation retry nightly-1700000000")]
pub(crate) struct Retry {
    /// The name of the Operation
    name: String,

    /// How long to wait for the result
    #[arg(long, default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,

    #[command(flatten)]
    access: Access,
}

impl Retry {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        block_on(async {
            let operations = Operations::connect(&self.access)?;
            let operation = operations.get("Operation", &self.name).await?;
            if standing(&operation) == Standing::Running {
                bail!("Operation `{}` still runs", self.name);
            }
            let name = operations.create(&copy(&operation, Timestamp::now().as_second())).await?;
            terminal.line(&format!("Operation `{name}` created"));
            operations.follow(&name, self.timeout, terminal).await
        })
    }
}

/// An operation with the same spec. It belongs to nobody: neither a schedule nor a watch counts it or deletes it.
fn copy(operation: &Object, now: i64) -> Object {
    let mut copy = Object::new();
    for field in ["apiVersion", "kind", "spec"] {
        copy.insert(field.to_owned(), operation.get(field).cloned().unwrap_or(Value::Null));
    }
    // Retries of retries do not grow longer and longer names.
    let name = meta::name(operation).split("-retry-").next().unwrap_or_default();
    meta::set_field(&mut copy, "name", &format!("{name}-retry-{now}"));
    copy
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn copy_has_the_spec_and_nothing_else() {
        let operation = json!({
            "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "spec": {"mode": "Pipeline"},
            "metadata": {"name": "a-retry-1", "labels": {"k": "v"}}, "status": {"failures": 1},
        });
        let expected = json!({
            "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "spec": {"mode": "Pipeline"},
            "metadata": {"name": "a-retry-2"},
        });
        assert_eq!(Value::Object(copy(operation.as_object().unwrap(), 2)), expected);
    }
}
