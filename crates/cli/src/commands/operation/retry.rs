//! `ferroplane operation retry`: runs a finished operation again.

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

/// How the annotations begin that say for which object a WatchOperation made an operation.
const WATCHED: &str = "ops.crossplane.io/watched-resource-";

/// Run a finished operation again, under a new name
///
/// Creates an Operation with the same spec, called NAME-retry-SECONDS, and prints its events until it is done.
///
/// Exit codes: 0 succeeded; 3 failed, deleted, or still running after the timeout; 1 error
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
            let created = terminal.wait_for_server(self.create(&operations)).await?;
            terminal.line(&format!("Operation `{}` created", meta::name(&created)));
            operations.follow(&created, self.timeout, terminal).await
        })
    }

    async fn create(&self, operations: &Operations) -> anyhow::Result<Object> {
        let operation = operations.get("Operation", &self.name).await?;
        if standing(&operation) == Standing::Running {
            bail!("Operation `{}` still runs", self.name);
        }
        operations.create(&copy(&operation, Timestamp::now().as_second())).await
    }
}

/// An operation with the same spec. It has no owner: neither a schedule nor a watch counts it or deletes it.
fn copy(operation: &Object, now: i64) -> Object {
    let mut copy = Object::new();
    for field in ["apiVersion", "kind", "spec"] {
        copy.insert(field.to_owned(), operation.get(field).cloned().unwrap_or(Value::Null));
    }
    // Retries of retries do not grow longer and longer names.
    let name = meta::name(operation).split("-retry-").next().unwrap_or_default();
    meta::set_field(&mut copy, "name", &format!("{name}-retry-{now}"));
    // What it was made for: functions are notified of an object that is gone by these alone.
    let annotations = operation.get("metadata").and_then(|metadata| metadata.get("annotations")?.as_object());
    for (key, value) in annotations.into_iter().flatten().filter(|(key, _)| key.starts_with(WATCHED)) {
        meta::set_annotation(&mut copy, key, value.as_str().unwrap_or_default());
    }
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

    #[test]
    fn copy_is_about_the_object_for_which_the_operation_was_made() {
        let annotations = json!({
            "ops.crossplane.io/watched-resource-name": "orders", "ferroplane.io/watched-state": "u.1.s.0.1", "note": "x",
        });
        let operation = json!({"metadata": {"name": "w-1", "annotations": annotations}, "spec": {}});
        let copy = copy(operation.as_object().unwrap(), 2);
        // Not the number by which the watch counts it: the copy is not one of its own.
        let expected = json!({"ops.crossplane.io/watched-resource-name": "orders"});
        assert_eq!(copy["metadata"]["annotations"], expected);
    }
}
