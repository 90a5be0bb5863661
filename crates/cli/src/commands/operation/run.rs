//! `ferroplane operation run`: run an operation, and wait for its result.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::operation::operation_of_cron;
use ferroplane_offline::manifest::Files;
use jiff::Timestamp;

use crate::Verdict;
use crate::client::Access;
use crate::duration;
use crate::explain::block_on;
use crate::operations::Operations;
use crate::terminal::Terminal;

/// Run an operation, and wait for its result
///
/// Creates the Operation in a file, and prints its events until it is done, and the outputs of its steps. A CronOperation in the file runs
/// now, whatever its schedule says.
///
/// Exit codes: 0 succeeded; 3 failed, deleted, or still running after the timeout; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane operation run operation.yaml
  ferroplane operation run nightly-backup.yaml --timeout 10m
  ferroplane operation run operation.yaml --no-wait")]
pub(crate) struct Run {
    /// The Operation or CronOperation: a file, or `-` for standard input
    file: PathBuf,

    /// How long to wait for the result
    #[arg(long, default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,

    /// Do not wait for the result
    #[arg(long)]
    no_wait: bool,

    #[command(flatten)]
    access: Access,
}

impl Run {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let operation = self.operation()?;
        block_on(async {
            let operations = Operations::connect(&self.access)?;
            let created = terminal.wait_for_server(operations.create(&operation)).await?;
            terminal.line(&format!("Operation `{}` created", meta::name(&created)));
            if self.no_wait {
                return Ok(Verdict::Yes);
            }
            operations.follow(&created, self.timeout, terminal).await
        })
    }

    fn operation(&self) -> anyhow::Result<Object> {
        let file = self.file.display();
        let found = Files::default().load(&self.file)?;
        let [manifest] = found.as_slice() else {
            bail!("{file}: expected one operation, found {} objects", found.len())
        };
        let object = manifest.object();
        match (meta::group(meta::api_version(object)), meta::kind(object)) {
            (keys::OPS, "Operation") => Ok(object.clone()),
            (keys::OPS, "CronOperation") => {
                let mut operation = operation_of_cron(object, Timestamp::now().as_second());
                // It has no owner: the schedule neither counts it nor deletes it.
                meta::child(&mut operation, "metadata").remove("ownerReferences");
                meta::child(&mut operation, "metadata").remove("labels");
                Ok(operation)
            }
            (keys::OPS, "WatchOperation") => bail!(
                "{file}: a WatchOperation runs when something changes; `ferroplane render {file} -w FILE` shows what it would do for an object"
            ),
            (_, kind) => bail!("{file}: expected an Operation or a CronOperation, found {kind}"),
        }
    }
}
