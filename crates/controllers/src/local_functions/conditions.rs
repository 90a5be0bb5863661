//! Says in a condition of every Function that names a command whether a program serves it.
//!
//! To write the condition also wakes the composite resources that call the function, as every change of a Function does.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Condition, Object, Status, keys, meta, set_condition};
use ferroplane_client::{ObjectPath, Subresource};
use ferroplane_engine::{chain, conditions_in, conditions_to_json};
use tracing::warn;

use super::{COMMAND_IS_NOT_RUN, LocalFunctions, LocalState, command_of};
use crate::context::Context;
use crate::runtime::queue::Next;

const COMPONENT: &str = "command/function.pkg.crossplane.io";
const CONCURRENCY: usize = 4;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const HEALTHY: &str = "Healthy";
const RUNNING: &str = "CommandRunning";
const STARTING: &str = "CommandStarting";
const FAILED: &str = "CommandFailed";
const NOT_RUN: &str = "CommandNotRun";
/// The reasons that nobody else gives.
const REASONS: [&str; 4] = [RUNNING, STARTING, FAILED, NOT_RUN];

/// Keep the conditions of all Functions true, until dropped.
pub(crate) async fn run(context: Arc<Context>, local: Arc<LocalFunctions>) {
    let queue = context.queue(LONGEST_PAUSE, COMPONENT);
    let functions = queue.clone();
    context.functions.listen(move |_, change| functions.add(change.header().metadata.name.to_string()));
    let packages = queue.clone();
    context.function_revisions.listen(move |_, change| {
        packages.add(change.header().label(keys::PACKAGE).unwrap_or_default().to_owned());
    });
    let mut changes = local.changes();
    let controller = Arc::new(Controller { context: context.clone(), local });
    let following = async {
        while changes.changed().await.is_ok() {
            context
                .functions
                .objects()
                .iter()
                .for_each(|function| queue.add(meta::name(function).to_owned()));
        }
    };
    tokio::join!(queue.work(CONCURRENCY, |name| controller.clone().reconcile(name)), following);
}

struct Controller {
    context: Arc<Context>,
    local: Arc<LocalFunctions>,
}

impl Controller {
    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let Some(mut function) = self.context.functions.object("", &name) else { return Next::Rest };
        if meta::is_being_deleted(&function) || !self.conclude(&mut function) {
            return Next::Rest;
        }
        let path = ObjectPath { resource: self.context.functions.resource(), namespace: "", name: &name };
        match self.context.cluster.replace(path, Subresource::Status, &function).await {
            Ok(_) => Next::Rest,
            Err(error) if error.is_conflict() => Next::Conflict,
            Err(error) if error.is_not_found() => Next::Rest,
            Err(error) => {
                warn!(function = name, error = chain(&error), "cannot write the status of a Function");
                Next::Retry
            }
        }
    }

    /// Put the condition into the Function. Returns whether it says something new.
    fn conclude(&self, function: &mut Object) -> bool {
        let before = function.get("status").and_then(|status| status.get("conditions"));
        let before = before.map(conditions_in).unwrap_or_default();
        let mut conditions = before.clone();
        match self.condition(function) {
            Some(condition) => set_condition(&mut conditions, condition),
            // What we said of a command that is named no longer would stay forever.
            None => conditions.retain(|it| it.kind != HEALTHY || !REASONS.contains(&it.reason.as_str())),
        }
        if conditions == before {
            return false;
        }
        meta::child(function, "status")
            .insert("conditions".to_owned(), conditions_to_json(&conditions).into());
        true
    }

    /// What to say of a Function. None if it names no command, or is called otherwise.
    fn condition(&self, function: &Object) -> Option<Condition> {
        let command = command_of(function)?;
        let condition = match self.local.state_of(function) {
            Some(LocalState::Running { address, .. }) => {
                let message = format!("`{command}` serves the function at {address}");
                Condition::new(HEALTHY, Status::True, RUNNING).with_message(message)
            }
            Some(LocalState::Starting) => Condition::new(HEALTHY, Status::Unknown, STARTING),
            Some(LocalState::Down(why)) => Condition::new(HEALTHY, Status::False, FAILED).with_message(why),
            // A package that is installed says itself how it is doing.
            None if self.has_revision(meta::name(function)) => return None,
            None => Condition::new(HEALTHY, Status::False, NOT_RUN).with_message(COMMAND_IS_NOT_RUN),
        };
        let last_transition_time = self.context.clock.now();
        Some(Condition { last_transition_time, observed_generation: meta::generation(function), ..condition })
    }

    fn has_revision(&self, function: &str) -> bool {
        let revisions = self.context.function_revisions.objects();
        revisions.iter().any(|revision| meta::label(revision, keys::PACKAGE) == function)
    }
}
