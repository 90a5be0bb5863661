//! Kinds that nothing acts on, and Functions: each object says in its conditions, and in an event, what becomes of it.
//!
//! # Invariants
//! * What somebody else has written to a status stays: a condition with a reason that is not ours belongs to a package manager
//!   that was here before, or that will be here again.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{
    Cause, Condition, NOT_SUPPORTED, Object, Status, UNSUPPORTED, UnsupportedKind, meta, set_condition,
};
use ferroplane_client::{Informer, InformerScope, ObjectPath, Resource, Subresource};
use ferroplane_engine::{chain, conditions_in, conditions_to_json, is_own_condition};
use serde_json::Value;
use tracing::warn;

use crate::context::Context;
use crate::function_registry::FunctionRegistry;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "support/ferroplane";
const CONCURRENCY: usize = 2;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Which object: the place of its kind in the list, none for a Function, and its name.
type Key = (Option<usize>, String);

/// Tell all of them what becomes of them, until dropped.
pub(crate) async fn run(context: Arc<Context>, registry: Arc<FunctionRegistry>) {
    let kinds = UNSUPPORTED.iter().map(|kind| follow(&context, kind)).collect();
    let controller =
        Arc::new(Controller { recorder: context.recorder.of(COMPONENT), context, registry, kinds });
    let queue = controller.context.queue(LONGEST_PAUSE, COMPONENT);
    controller.listen(&queue);
    queue.work(CONCURRENCY, |key| controller.clone().reconcile(key)).await;
}

struct Controller {
    context: Arc<Context>,
    recorder: Recorder,
    registry: Arc<FunctionRegistry>,
    /// In the order of the list.
    kinds: Vec<Arc<Informer>>,
}

/// What becomes of an object.
struct Verdict {
    conditions: Vec<Condition>,
    reason: String,
    message: String,
    cause: Option<Cause>,
}

impl Drop for Controller {
    fn drop(&mut self) {
        for informer in &self.kinds {
            informer.stop();
        }
    }
}

impl Controller {
    fn listen(&self, queue: &Queue<Key>) {
        for (place, informer) in self.kinds.iter().enumerate() {
            let queue = queue.clone();
            informer.listen(move |_, change| {
                queue.add((Some(place), change.header().metadata.name.to_string()));
            });
        }
        let functions = queue.clone();
        self.context
            .functions
            .listen(move |_, change| functions.add((None, change.header().metadata.name.to_string())));
        let functions = queue.clone();
        self.context.function_revisions.listen(move |_, change| {
            let package = change.header().label(ferroplane_api::keys::PACKAGE).unwrap_or_default();
            functions.add((None, package.to_owned()));
        });
    }

    async fn reconcile(self: Arc<Self>, (place, name): Key) -> Next {
        let informer = match place {
            Some(place) => &self.kinds[place],
            None => &self.context.functions,
        };
        let Some(object) = informer.object("", &name).filter(|object| !meta::is_being_deleted(object)) else {
            return Next::Rest;
        };
        let verdict = match place {
            Some(place) => Some(unsupported(&UNSUPPORTED[place])),
            None => self.function(&object),
        };
        // A Function that a program serves is told elsewhere how that is doing. What was said before would stay for ever.
        let Some(verdict) = verdict else {
            return match withdrawn(object) {
                Some(object) => self.write(informer, &object).await.unwrap_or_else(|next| next),
                None => Next::Rest,
            };
        };
        // What has no status can only be told once, in an event.
        if verdict.conditions.is_empty() {
            self.say(&object, &verdict);
            return Next::Rest;
        }
        let Some(changed) = self.told(object, &verdict) else { return Next::Rest };
        match self.write(informer, &changed).await {
            Ok(next) => {
                self.say(&changed, &verdict);
                next
            }
            Err(next) => next,
        }
    }

    /// Write a status. The error is what to do if that fails.
    async fn write(&self, informer: &Informer, object: &Object) -> Result<Next, Next> {
        let path = ObjectPath { resource: informer.resource(), namespace: "", name: meta::name(object) };
        match self.context.cluster.replace(path, Subresource::Status, object).await {
            Ok(bytes) => {
                informer.insert_written(&bytes);
                Ok(Next::Rest)
            }
            Err(error) if error.is_conflict() => Err(Next::Conflict),
            Err(error) if error.is_not_found() => Err(Next::Rest),
            Err(error) => {
                let (kind, name) = (&informer.resource().kind, meta::name(object));
                warn!(kind, name, error = chain(&error), "cannot say what becomes of an object");
                Err(Next::Retry)
            }
        }
    }

    fn function(&self, function: &Object) -> Option<Verdict> {
        let revisions = self.context.function_revisions.objects();
        let standing = self.registry.standing(function, &revisions)?;
        let conditions = standing.conditions();
        Some(Verdict {
            reason: conditions[0].reason.clone(),
            conditions: conditions.into(),
            message: standing.message(),
            cause: standing.cause(),
        })
    }

    /// The object with what becomes of it in its status. Nothing if it says so already, or if somebody else says something.
    fn told(&self, mut object: Object, verdict: &Verdict) -> Option<Object> {
        let generation = meta::generation(&object);
        let status = meta::child(&mut object, "status");
        let before = conditions_in(status.get("conditions").unwrap_or(&Value::Null));
        if !before.iter().all(is_own_condition) {
            return None;
        }
        let mut conditions = before.clone();
        for condition in &verdict.conditions {
            let last_transition_time = self.context.clock.now();
            let observed_generation = generation;
            set_condition(
                &mut conditions,
                Condition { last_transition_time, observed_generation, ..condition.clone() },
            );
        }
        status.insert("conditions".to_owned(), conditions_to_json(&conditions).into());
        (conditions != before).then_some(object)
    }

    fn say(&self, object: &Object, verdict: &Verdict) {
        match verdict.cause {
            Some(cause) => self.recorder.failure(object, &verdict.reason, &verdict.message, cause),
            None => self.recorder.normal(object, &verdict.reason, &verdict.message),
        }
    }
}

/// The object without what we have said. None if we have said nothing.
fn withdrawn(mut object: Object) -> Option<Object> {
    let status = meta::child(&mut object, "status");
    let before = conditions_in(status.get("conditions").unwrap_or(&Value::Null));
    let kept: Vec<_> = before.iter().filter(|condition| !is_own_condition(condition)).cloned().collect();
    status.insert("conditions".to_owned(), conditions_to_json(&kept).into());
    (kept.len() < before.len()).then_some(object)
}

fn unsupported(kind: &UnsupportedKind) -> Verdict {
    let condition = |word: &&str| {
        let condition = Condition::new(word, Status::False, NOT_SUPPORTED);
        condition.with_message(kind.message()).with_failure(Cause::KindNotSupported.into())
    };
    Verdict {
        conditions: kind.conditions.iter().map(condition).collect(),
        reason: NOT_SUPPORTED.to_owned(),
        message: kind.message().to_owned(),
        cause: Some(Cause::KindNotSupported),
    }
}

fn follow(context: &Context, kind: &UnsupportedKind) -> Arc<Informer> {
    let resource = Resource {
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
        is_namespaced: false,
    };
    Informer::start(context.cluster.clone(), InformerScope::new(Arc::new(resource)))
}
