//! `FunctionIntercept`s: reports their results, and deletes those that are not renewed. The function registry decides what is called.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Cause, FunctionInterceptStatus, Object, Status, meta};
use ferroplane_client::{Informer, ObjectPath, Propagation};
use ferroplane_engine::intercept::{Intercept, InterceptFacts, calls_are_sent, standing};
use ferroplane_engine::wording::capitalised;
use ferroplane_engine::{chain, conditions_in};
use serde_json::Value;
use tracing::warn;

use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::ops::status::{status_with, write_status};
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "functionintercept/functionintercept.rollout.ferroplane.io";
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often to check whether there is something to report. That costs nothing if there is not.
const TICK: Duration = Duration::from_millis(200);
/// How long an expired intercept can be inspected before it is deleted.
const KEPT: Duration = Duration::from_mins(10);

/// Manage intercepts, until dropped.
pub(crate) async fn run(context: Arc<Context>, functions: Arc<FunctionRegistry>) {
    let recorder = context.recorder.of(COMPONENT);
    let queue = context.queue(LONGEST_PAUSE, COMPONENT);
    let intercepts = context.intercepts.clone();
    let controller = Arc::new(Controller { context, functions, recorder, intercepts });
    listen(&controller.intercepts, &queue);
    // One worker: there are a few intercepts at most, and a tick of one costs nothing.
    queue.work(1, |name| controller.clone().reconcile(name)).await;
}

struct Controller {
    context: Arc<Context>,
    functions: Arc<FunctionRegistry>,
    recorder: Recorder,
    intercepts: Arc<Informer>,
}

fn listen(informer: &Informer, queue: &Queue<String>) {
    let queue = queue.clone();
    informer.listen(move |_, change| queue.add(change.header().metadata.name.to_string()));
}

impl Controller {
    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let found = self.intercepts.object("", &name);
        let intercept = found.as_ref().and_then(Intercept::read);
        let (Some(object), Some(intercept)) = (found, intercept) else {
            let all = self.intercepts.objects();
            // By all that are left, and not by the deleted one: its uid is no longer known.
            self.functions.interceptions().keep(&all.iter().map(meta::uid).collect::<BTreeSet<_>>());
            return Next::Rest;
        };
        let left = self.functions.leases().left(&intercept.uid);
        if left.is_none() && self.is_to_be_removed(&intercept) {
            return self.remove(&name).await;
        }
        if let Err(next) = self.tell(object, &intercept, left.is_some()).await {
            return next;
        }
        // The expiry of a lease is no event of the API server: the controller has to requeue itself.
        Next::After(left.map_or(KEPT, |left| left.min(TICK)))
    }

    /// Report whether calls are sent, and their results.
    async fn tell(&self, mut object: Object, intercept: &Intercept, is_renewed: bool) -> Result<(), Next> {
        let (denied, status) = self.functions.interceptions().status(&intercept.uid);
        let status = FunctionInterceptStatus { client_ca: self.functions.client_ca(), ..status };
        let trouble = self.functions.trouble_of(&intercept.revision());
        let facts = InterceptFacts {
            is_renewed,
            allows_plain_text: self.functions.allows_development(),
            trouble: trouble.as_deref(),
            denied: denied.as_deref(),
            composites: usize::try_from(status.composites).unwrap_or_default(),
        };
        let condition = standing(intercept, facts);
        let (is_active, reason) = (condition.status, condition.reason.clone());
        let (message, cause) = (condition.message.clone(), condition.code.parse::<Cause>());
        let before = reason_of(&object);
        let mut fields = status_with(&object, [condition], &self.context.clock.now());
        let conditions = fields.remove("conditions").unwrap_or_default();
        let Ok(Value::Object(mut fields)) = serde_json::to_value(&status) else { return Err(Next::Rest) };
        fields.insert("conditions".to_owned(), conditions);
        write_status(&self.context.cluster, &self.intercepts, &mut object, fields).await?;
        // An event for each change of the reason, not for each message: the message counts calls.
        if before.as_deref() != Some(&reason) {
            let message = if message.is_empty() { words(intercept) } else { message };
            match (is_active, cause) {
                (Status::True, _) => self.recorder.normal(&object, &reason, message),
                (_, Ok(cause)) => self.recorder.failure(&object, &reason, message, cause),
                // It has ended, as it does when its user stops it.
                (_, Err(_)) => self.recorder.warning(&object, &reason, message),
            }
        }
        Ok(())
    }

    fn is_to_be_removed(&self, intercept: &Intercept) -> bool {
        self.functions.leases().expired_for(&intercept.uid).is_some_and(|it| it >= KEPT)
    }

    async fn remove(&self, name: &str) -> Next {
        let path = ObjectPath { resource: self.intercepts.resource(), namespace: "", name };
        match self.context.cluster.delete(path, None, Propagation::Background).await {
            Ok(()) => Next::Rest,
            Err(error) if error.is_not_found() => Next::Rest,
            Err(error) => {
                warn!(name, error = chain(&error), "cannot remove a FunctionIntercept");
                Next::Retry
            }
        }
    }
}

/// The reason of the last report.
fn reason_of(object: &Object) -> Option<String> {
    let conditions = conditions_in(object.get("status")?.get("conditions")?);
    conditions.into_iter().find(|it| it.kind == ferroplane_engine::intercept::ACTIVE).map(|it| it.reason)
}

/// The message while calls are sent.
fn words(intercept: &Intercept) -> String {
    capitalised(&calls_are_sent(intercept.function(), &intercept.spec.to, intercept.is_for_real()))
}
