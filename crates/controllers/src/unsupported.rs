//! Reports on objects of kinds without a controller, and on Functions: each gets conditions and an event about what happens to it.
//!
//! # Invariants
//! * Conditions of other writers stay: one with a reason that is not ours belongs to a package manager that was here before, or that will
//!   be here again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{
    Cause, Condition, NOT_SUPPORTED, Object, Status, UNSUPPORTED, UnsupportedKind, keys, meta, set_condition,
};
use ferroplane_client::{Informer, InformerScope, ObjectPath, Resource, Subresource};
use ferroplane_engine::wording::capitalised;
use ferroplane_engine::{
    COMMAND_DOES_NOT_HELP, COMMAND_IS_NOT_NEEDED, FunctionStanding, chain, conditions_in, conditions_to_json,
    is_own_condition,
};
use serde_json::Value;
use tracing::warn;

use crate::context::Context;
use crate::function_registry::{FunctionRegistry, WithoutCommand};
use crate::local_functions::LocalFunctions;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};

const COMPONENT: &str = "support/ferroplane";
const CONCURRENCY: usize = 2;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// How old an object has to be, in milliseconds, before its lack of a status says that no controller of another program acts on it.
const PATIENCE: i64 = 60_000;

/// The kinds that have a controller where packages are installed.
const INSTALLED: [&str; 8] = [
    "Provider",
    "ProviderRevision",
    "Configuration",
    "ConfigurationRevision",
    "ImageConfig",
    "Lock",
    "ManagedResourceDefinition",
    "ManagedResourceActivationPolicy",
];

/// The kinds that have a controller where operations are run.
const RUN: [&str; 3] = ["Operation", "CronOperation", "WatchOperation"];

/// Which other controllers run.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Acting {
    pub(crate) installs_packages: bool,
    /// Whether programs of packages run in pods.
    pub(crate) runs_pods: bool,
    pub(crate) runs_operations: bool,
    /// Whether ActionSets are run.
    pub(crate) runs_actions: bool,
}

impl Acting {
    fn is_on(self, kind: &UnsupportedKind) -> bool {
        self.installs_packages && INSTALLED.contains(&kind.kind)
            || self.runs_pods && kind.kind == "DeploymentRuntimeConfig"
            || self.runs_operations && RUN.contains(&kind.kind)
            || self.runs_actions && kind.kind == "ActionSet"
    }
}

/// The key of an object: the index of its kind in the list, none for a Function, its namespace and its name.
type ObjectKey = (Option<usize>, String, String);

/// Report on all of them, until dropped.
pub(crate) async fn run(
    context: Arc<Context>,
    registry: Arc<FunctionRegistry>,
    local: Arc<LocalFunctions>,
    acting: Acting,
) {
    let kinds = UNSUPPORTED.iter().filter(|kind| !acting.is_on(kind));
    let kinds = kinds.map(|kind| (kind, follow(&context, kind))).collect();
    let recorder = context.recorder.of(COMPONENT);
    let controller = Arc::new(Controller {
        context,
        recorder,
        registry,
        kinds,
        installs_packages: acting.installs_packages,
        reported: Mutex::default(),
    });
    let queue = controller.context.queue(LONGEST_PAUSE, COMPONENT);
    controller.listen(&queue);
    let programs = controller.clone().follow_programs(&local, &queue);
    tokio::join!(queue.work(CONCURRENCY, |key| controller.clone().reconcile(key)), programs);
}

struct Controller {
    context: Arc<Context>,
    recorder: Recorder,
    registry: Arc<FunctionRegistry>,
    kinds: Vec<(&'static UnsupportedKind, Arc<Informer>)>,
    /// Whether another controller reports on packages.
    installs_packages: bool,
    /// The reports on commands without effect, by the names of Functions.
    reported: Mutex<BTreeMap<String, CommandReport>>,
}

/// The last report on a command that has no effect.
struct CommandReport {
    /// The UID of the Function.
    uid: String,
    command: String,
    outcome: WithoutCommand,
}

/// The report on an object.
struct Verdict {
    conditions: Vec<Condition>,
    reason: &'static str,
    message: String,
    cause: Option<Cause>,
    /// Whether a program on this machine serves the Function, or should. Conditions of package managers are removed then, and there are
    /// no events: the program is restarted whenever its files change.
    is_program: bool,
}

impl Drop for Controller {
    fn drop(&mut self) {
        for (_, informer) in &self.kinds {
            informer.stop();
        }
    }
}

impl Controller {
    fn listen(&self, queue: &Queue<ObjectKey>) {
        for (place, (_, informer)) in self.kinds.iter().enumerate() {
            let queue = queue.clone();
            informer.listen(move |_, change| {
                let metadata = &change.header().metadata;
                queue.add((Some(place), metadata.namespace.to_string(), metadata.name.to_string()));
            });
        }
        let functions = queue.clone();
        self.context
            .functions
            .listen(move |_, change| functions.add(function_key(&change.header().metadata.name)));
        let functions = queue.clone();
        self.context.function_revisions.listen(move |_, change| {
            let package = change.header().label(keys::PACKAGE).unwrap_or_default();
            functions.add(function_key(package));
        });
    }

    /// Reconcile all Functions again whenever a program is started or ends. The write of the condition also wakes the composite resources
    /// that call the function, as every change of a Function does.
    async fn follow_programs(self: Arc<Self>, local: &LocalFunctions, queue: &Queue<ObjectKey>) {
        let mut changes = local.changes();
        while changes.changed().await.is_ok() {
            for function in self.context.functions.objects() {
                queue.add(function_key(meta::name(&function)));
            }
        }
    }

    async fn reconcile(self: Arc<Self>, (place, namespace, name): ObjectKey) -> Next {
        let informer = match place {
            Some(place) => &self.kinds[place].1,
            None => &self.context.functions,
        };
        let object = informer.object(&namespace, &name).filter(|object| !meta::is_being_deleted(object));
        let Some(object) = object else {
            if place.is_none() {
                self.reported.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            }
            return Next::Rest;
        };
        if place.is_none() {
            self.report_command(&object);
        }
        let verdict = match place {
            Some(place) => unsupported(self.kinds[place].0),
            None if self.installs_packages && !self.registry.is_served_by_hand(&object) => return Next::Rest,
            None => self.function(&object),
        };
        // Kinds whose status is not ours get an event only once.
        if verdict.conditions.is_empty() {
            let has_other_controller = place.is_some_and(|place| self.kinds[place].0.has_other_controller);
            return self.say_without_status(&object, &verdict, has_other_controller);
        }
        let Some(changed) = self.with_report(object, &verdict) else { return Next::Rest };
        match self.write(informer, &changed).await {
            Ok(next) => {
                if !verdict.is_program && speaks(&verdict, &conditions_of(&changed)) {
                    self.say(&changed, &verdict);
                }
                next
            }
            Err(next) => next,
        }
    }

    /// Record that the command that a Function names has no effect, once for each command. A warning is followed by another event when the
    /// Function is served after all.
    fn report_command(&self, function: &Object) {
        let Some(outcome) = self.registry.without_command(function) else { return };
        let command = meta::annotation(function, keys::FUNCTION_COMMAND);
        let (name, uid) = (meta::name(function), meta::uid(function));
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let last = reported.get(name).filter(|last| last.uid == uid && last.command == command);
        // A Function that was served once may fail later, which its conditions report.
        if last.is_some_and(|last| last.outcome == outcome || last.outcome == WithoutCommand::Served) {
            return;
        }
        match outcome {
            WithoutCommand::Served => {
                self.recorder.normal(function, "CommandNotRun", capitalised(COMMAND_IS_NOT_NEEDED));
            }
            WithoutCommand::Failed => {
                self.recorder.warning(function, "CommandNotRun", capitalised(COMMAND_DOES_NOT_HELP));
            }
        }
        let report = CommandReport { uid: uid.to_owned(), command: command.to_owned(), outcome };
        reported.insert(name.to_owned(), report);
    }

    /// Record the event about an object whose status is not ours, unless another program acts on it.
    fn say_without_status(&self, object: &Object, verdict: &Verdict, has_other_controller: bool) -> Next {
        // Another program, which wrote the status, acts on it.
        if object.contains_key("status") {
            return Next::Rest;
        }
        // Clients create objects without a status. The other program gets time to write one.
        let left = if has_other_controller { self.patience_left(object) } else { Duration::ZERO };
        if !left.is_zero() {
            return Next::After(left);
        }
        self.say(object, verdict);
        Next::Rest
    }

    /// How long another program may still take to write the status of an object.
    fn patience_left(&self, object: &Object) -> Duration {
        let created = object.get("metadata").and_then(|metadata| metadata.get("creationTimestamp")?.as_str());
        let Some(created) = created.and_then(|time| time.parse::<jiff::Timestamp>().ok()) else {
            return Duration::ZERO;
        };
        let age = self.context.clock.timestamp().as_millisecond().saturating_sub(created.as_millisecond());
        // The clock of the API server may be ahead.
        let left = PATIENCE.saturating_sub(age).min(PATIENCE);
        Duration::from_millis(u64::try_from(left).unwrap_or_default())
    }

    /// Write a status. The error is how to requeue if that fails.
    async fn write(&self, informer: &Informer, object: &Object) -> Result<Next, Next> {
        let path = ObjectPath {
            resource: informer.resource(),
            namespace: meta::namespace(object),
            name: meta::name(object),
        };
        match self.context.cluster.replace(path, Subresource::Status, object).await {
            Ok(bytes) => {
                informer.insert_written(&bytes);
                Ok(Next::Rest)
            }
            Err(error) if error.is_conflict() => Err(Next::Conflict),
            Err(error) if error.is_not_found() => Err(Next::Rest),
            Err(error) => {
                let (kind, name) = (&informer.resource().kind, meta::name(object));
                warn!(
                    kind,
                    name,
                    error = chain(&error),
                    "cannot write the status of an object that is not supported"
                );
                Err(Next::Retry)
            }
        }
    }

    fn function(&self, function: &Object) -> Verdict {
        let revisions = self.registry.revisions_of(meta::name(function));
        let standing = self.registry.standing(function, &revisions);
        Verdict {
            conditions: standing.conditions(),
            reason: standing.reason(),
            message: standing.message(),
            cause: standing.cause(),
            is_program: matches!(standing, FunctionStanding::Program { .. }) || self.installs_packages,
        }
    }

    /// The object with its report in the status. None if it has that already.
    fn with_report(&self, mut object: Object, verdict: &Verdict) -> Option<Object> {
        let before = conditions_of(&object);
        let (last_transition_time, observed_generation) =
            (self.context.clock.now(), meta::generation(&object));
        let wanted = verdict.conditions.iter().cloned().map(|condition| Condition {
            last_transition_time: last_transition_time.clone(),
            observed_generation,
            ..condition
        });
        let wanted: Vec<_> = if speaks(verdict, &before) { wanted.collect() } else { Vec::new() };
        let conditions = concluded(&before, wanted);
        meta::child(&mut object, "status")
            .insert("conditions".to_owned(), conditions_to_json(&conditions).into());
        (conditions != before).then_some(object)
    }

    fn say(&self, object: &Object, verdict: &Verdict) {
        match verdict.cause {
            Some(cause) => self.recorder.failure(object, verdict.reason, &verdict.message, cause),
            None => self.recorder.normal(object, verdict.reason, &verdict.message),
        }
    }
}

fn function_key(name: &str) -> ObjectKey {
    (None, String::new(), name.to_owned())
}

fn conditions_of(object: &Object) -> Vec<Condition> {
    conditions_in(object.get("status").and_then(|status| status.get("conditions")).unwrap_or(&Value::Null))
}

/// Whether we report on an object with these conditions.
fn speaks(verdict: &Verdict, conditions: &[Condition]) -> bool {
    verdict.is_program || conditions.iter().all(is_own_condition)
}

/// The conditions, with these as the only ones of ours.
fn concluded(before: &[Condition], wanted: Vec<Condition>) -> Vec<Condition> {
    let is_wanted = |kind: &str| wanted.iter().any(|condition| condition.kind == kind);
    // Otherwise an earlier condition of ours would stay for ever: no other controller removes it.
    let kept = before.iter().filter(|it| !is_own_condition(it) || is_wanted(&it.kind));
    let mut conditions: Vec<_> = kept.cloned().collect();
    for condition in wanted {
        set_condition(&mut conditions, condition);
    }
    conditions
}

fn unsupported(kind: &UnsupportedKind) -> Verdict {
    let condition = |word: &&str| {
        let condition = Condition::new(word, Status::False, NOT_SUPPORTED);
        condition.with_message(kind.message()).with_failure(Cause::KindNotSupported.into())
    };
    Verdict {
        conditions: kind.conditions.iter().map(condition).collect(),
        reason: NOT_SUPPORTED,
        message: kind.message().to_owned(),
        cause: Some(Cause::KindNotSupported),
        is_program: false,
    }
}

fn follow(context: &Context, kind: &UnsupportedKind) -> Arc<Informer> {
    let resource = Resource {
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
        is_namespaced: kind.is_namespaced,
    };
    Informer::start(context.cluster.clone(), InformerScope::new(Arc::new(resource)))
}

#[cfg(test)]
mod tests {
    use ferroplane_api::{crds, keys, unsupported};

    use super::Acting;

    /// The kinds that every control plane acts on, with what does.
    const ACTED_ON: [(&str, &str, &str); 11] = [
        (keys::APIEXTENSIONS, "CompositeResourceDefinition", "apiextensions::definition"),
        (keys::APIEXTENSIONS, "Composition", "apiextensions::composition"),
        (keys::APIEXTENSIONS, "CompositionRevision", "apiextensions::revision"),
        (keys::APIEXTENSIONS, "Usage", "protection::usage"),
        (keys::PROTECTION, "Usage", "protection::usage"),
        (keys::PROTECTION, "ClusterUsage", "protection::usage"),
        (keys::PKG, "Function", "unsupported"),
        (keys::PKG, "FunctionRevision", "function_registry"),
        (keys::ROLLOUT, "FunctionRollout", "rollout::controller"),
        (keys::ROLLOUT, "FunctionIntercept", "rollout::intercept_controller"),
        // Checked when it is applied, whatever runs ActionSets.
        (keys::KANISTER, "Blueprint", "blueprints::admission"),
    ];

    /// The kinds that others name or read. Nothing can be left undone about them.
    const READ: [(&str, &str); 3] = [
        (keys::APIEXTENSIONS, "EnvironmentConfig"),
        (keys::FERROPLANE, "AccessGrant"),
        (keys::KANISTER, "Profile"),
    ];

    #[test]
    fn every_kind_that_is_served_is_acted_on_or_says_that_it_is_not() {
        for crd in crds::ALL {
            let is_it = |group: &str, kind: &str| (group, kind) == (crd.group, crd.kind);
            let lists = [
                ACTED_ON.iter().any(|(group, kind, _)| is_it(group, kind)),
                READ.iter().any(|(group, kind)| is_it(group, kind)),
                unsupported(crd.group, crd.kind).is_some(),
            ];
            let count = lists.iter().filter(|is_listed| **is_listed).count();
            assert_eq!(count, 1, "{} of {} is in so many lists", crd.kind, crd.group);
        }
    }

    #[test]
    fn every_kind_has_a_controller_somewhere() {
        let nobody = Acting {
            installs_packages: false,
            runs_pods: false,
            runs_operations: false,
            runs_actions: false,
        };
        let everybody =
            Acting { installs_packages: true, runs_pods: true, runs_operations: true, runs_actions: true };
        for kind in ferroplane_api::UNSUPPORTED {
            assert_eq!((nobody.is_on(kind), everybody.is_on(kind)), (false, true), "{}", kind.kind);
        }
    }
}
