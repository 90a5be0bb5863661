//! Usages: objects in use are marked, so that their deletion can be refused.
//!
//! Nothing is polled. The marked objects of every kind with usages are watched: a mark that is removed is set again.

mod registry;
mod release;
mod watches;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Cause, Condition, Object, Status, UsageSpec, UsageTarget, keys, meta, set_condition};
use ferroplane_client::{Error, LabelSelector, ObjectPath, Query, Resource, Subresource};
use ferroplane_engine::{
    chain, choose, conditions_in, conditions_to_json, configured_usage, out_of_namespace, out_of_scope,
    usage_reach, usage_spec,
};
use serde_json::{Value, json};

use crate::context::Context;
use crate::runtime::events::Recorder;
use crate::runtime::queue::Next;
use crate::runtime::refused::cause_of;

pub(crate) use registry::{UsageKey, Usages, as_used};
use watches::{Waits, Watches};

const CONTROLLER: &str = "usage/usage.protection.crossplane.io";
const CONCURRENCY: usize = 16;
/// The reason of conditions and events about a usage that protects nothing.
const OUT_OF_REACH: &str = "OutOfReach";
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Mark objects in use, until dropped.
pub(crate) async fn run(context: Arc<Context>, usages: Arc<Usages>) {
    let queue = context.queue(LONGEST_PAUSE, CONTROLLER);
    let controller = Arc::new(Controller {
        watches: Watches::new(context.cluster.clone(), &usages, &queue),
        waits: Waits::new(context.cluster.clone(), &queue),
        context,
        usages,
        releasing: Mutex::default(),
    });
    let keys = queue.clone();
    controller.usages.listen(move |key| keys.add(key));
    queue.work(CONCURRENCY, |key| controller.clone().reconcile(key)).await;
}

struct Controller {
    context: Arc<Context>,
    usages: Arc<Usages>,
    watches: Watches,
    waits: Waits,
    /// Usages that are being deleted, and no longer protect anything.
    releasing: Mutex<HashSet<UsageKey>>,
}

/// Why a usage protects nothing, and the reason of its event.
struct UsageFailure {
    reason: &'static str,
    message: String,
    cause: Cause,
    is_conflict: bool,
}

impl UsageFailure {
    fn new(reason: &'static str, cause: Cause, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), cause, is_conflict: false }
    }

    /// A failed request to the API server.
    fn api(reason: &'static str) -> impl FnOnce(Error) -> Self {
        move |error| {
            let (message, cause) = (chain(&error), cause_of(&error));
            Self { reason, message, cause, is_conflict: error.is_conflict() }
        }
    }
}

impl Controller {
    async fn reconcile(self: Arc<Self>, key: UsageKey) -> Next {
        let Some(usage) = self.usages.object(&key) else {
            self.forget(&key);
            return Next::Rest;
        };
        let outcome = match read_spec(&usage) {
            Ok(spec) if meta::is_being_deleted(&usage) => self.release(&key, &usage, &spec).await,
            Ok(spec) => self.protect(&key, usage.clone(), &spec).await.map(|()| Next::Rest),
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(next) => next,
            Err(failure) if failure.is_conflict => Next::Conflict,
            Err(failure) if failure.cause == Cause::UsageOutOfReach => {
                self.refuse(&key, usage, failure).await
            }
            Err(failure) => {
                self.recorder(&key).failure(&usage, failure.reason, failure.message, failure.cause);
                Next::Retry
            }
        }
    }

    /// Protect the object of a usage. Each line must hold before the next may happen: an object that is marked before the finalizer is
    /// set could stay marked for ever.
    async fn protect(&self, key: &UsageKey, usage: Object, spec: &UsageSpec) -> Result<(), UsageFailure> {
        // Another usage of the same name may have ended.
        self.releasing.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.check_reach(&usage, spec).await?;
        let of = self.resolve("of", &spec.of, &usage).await?;
        let by = match &spec.by {
            Some(by) => self.resolve("by", by, &usage).await?,
            None => None,
        };
        let using = self.find_using(&usage, spec, by.as_ref()).await?;
        let owner = if let Using::Found(using) = &using { Some(&**using) } else { None };
        let wanted = configured_usage(&usage, of.as_ref(), by.as_ref(), owner);
        let is_new = wanted != usage;
        let usage = self.configure(key, &usage, wanted).await?;
        let Some(spec) = usage_spec(&usage) else { return Ok(()) };
        let is_marked_now = self.mark(&usage, &spec).await?;
        // Reported only now: the object is protected even while the object that uses it cannot be found.
        if let Using::Missing(what) = using {
            let message = format!("cannot find {what}, which uses it");
            return Err(UsageFailure::new("GetUsingResource", Cause::UsageTargetNotFound, message));
        }
        self.conclude(key, usage, is_new || is_marked_now).await
    }

    /// A namespaced usage protects objects of its own namespace only.
    async fn check_reach(&self, usage: &Object, spec: &UsageSpec) -> Result<(), UsageFailure> {
        let unreached = |message| UsageFailure::new(OUT_OF_REACH, Cause::UsageOutOfReach, message);
        if let Some(message) = out_of_namespace(usage, spec) {
            return Err(unreached(message));
        }
        let is_everywhere = meta::namespace(usage).is_empty();
        if is_everywhere || self.kind(&spec.of, "GetUsedResource").await?.is_namespaced {
            return Ok(());
        }
        Err(unreached(out_of_scope(spec)))
    }

    /// The object that a selector selects, unless there is a reference already.
    async fn resolve(
        &self,
        field: &str,
        target: &UsageTarget,
        usage: &Object,
    ) -> Result<Option<Object>, UsageFailure> {
        const REASON: &str = "ResolveSelectors";
        if target.reference().is_some() {
            return Ok(None);
        }
        let missing = |why: &str| {
            let message = format!("cannot resolve spec.{field}: {why}");
            UsageFailure::new(REASON, Cause::UsageTargetNotFound, message)
        };
        let selector = target.resource_selector.as_ref().ok_or_else(|| missing("there is no selector"))?;
        let resource = self.kind(target, REASON).await?;
        let namespace = usage_reach(usage, selector.namespace.as_deref());
        let namespace = namespace.ok_or_else(|| missing("it is in another namespace"))?;
        let labels: LabelSelector = selector.match_labels.iter().collect();
        let query = Query { labels: Some(&labels), ..Query::default() };
        let objects = self.context.cluster.list_objects(&resource, namespace, &query).await;
        let objects = objects.map_err(UsageFailure::api(REASON))?;
        let chosen = choose(selector, &objects, usage).cloned();
        let nothing =
            || missing(&format!("no {} has the labels and controller that it selects", target.kind));
        chosen.map(Some).ok_or_else(nothing)
    }

    /// The object that uses the other one, unless it owns the usage already.
    async fn find_using(
        &self,
        usage: &Object,
        spec: &UsageSpec,
        chosen: Option<&Object>,
    ) -> Result<Using, UsageFailure> {
        const REASON: &str = "GetUsingResource";
        let Some(by) = &spec.by else { return Ok(Using::Nothing) };
        if let Some(chosen) = chosen {
            return Ok(Using::Found(Box::new(chosen.clone())));
        }
        let name = by.reference().map_or("", |reference| reference.name.as_str());
        if is_owned(usage, by, name) {
            return Ok(Using::Known);
        }
        let resource = self.kind(by, REASON).await?;
        let target = ObjectPath { resource: &resource, namespace: meta::namespace(usage), name };
        let using = self.context.cluster.get_object(target).await.map_err(UsageFailure::api(REASON))?;
        let missing = || Using::Missing(format!("{} `{name}`", by.kind));
        Ok(using.map_or_else(missing, |using| Using::Found(Box::new(using))))
    }

    /// Write the usage with everything that the controller sets, if it changed.
    async fn configure(
        &self,
        key: &UsageKey,
        usage: &Object,
        wanted: Object,
    ) -> Result<Object, UsageFailure> {
        if wanted == *usage {
            return Ok(wanted);
        }
        let has = |object: &Object, pointer: &str| {
            object.get("metadata").and_then(|it| it.pointer(pointer)).cloned()
        };
        let is_new = |pointer: &str| has(usage, pointer) != has(&wanted, pointer);
        let reason = match () {
            () if wanted.get("spec") != usage.get("spec") => "ResolveSelectors",
            () if is_new("/finalizers") => "AddFinalizer",
            () if is_new("/ownerReferences") => "AddOwnerRefToUsage",
            () => "AddDetailsToUsage",
        };
        let target = self.path(key);
        let bytes = self.context.cluster.replace(target, Subresource::None, &wanted).await;
        let bytes = bytes.map_err(UsageFailure::api(reason))?;
        self.usages.learn(key, &bytes);
        serde_json::from_slice(&bytes)
            .map_err(|error| UsageFailure::api(reason)(Error::invalid_answer(error)))
    }

    /// Mark the object in use. Returns whether it was not marked.
    async fn mark(&self, usage: &Object, spec: &UsageSpec) -> Result<bool, UsageFailure> {
        const REASON: &str = "GetUsedResource";
        let Some((name, namespace)) = used_place(usage, spec) else { return Ok(false) };
        let resource = self.kind(&spec.of, REASON).await?;
        if !is_within_reach(usage, &resource) {
            return Ok(false);
        }
        // From the cache, without a request: most reconciles find everything up to date.
        if self.watches.is_marked(&resource, namespace, name).await {
            return Ok(false);
        }
        let target = ObjectPath { resource: &resource, namespace, name };
        let used = self.context.cluster.get_object(target).await.map_err(UsageFailure::api(REASON))?;
        let Some(used) = used else {
            return Err(UsageFailure::new(
                REASON,
                Cause::UsageTargetNotFound,
                format!("cannot find {} `{name}`, which is used", spec.of.kind),
            ));
        };
        if meta::label(&used, keys::IN_USE) == "true" {
            return Ok(false);
        }
        self.set_mark(target, &used, &json!("true")).await.map_err(UsageFailure::api("AddInUseLabel"))?;
        Ok(true)
    }

    /// Set or remove the mark of an object, if it has not changed since.
    async fn set_mark(&self, target: ObjectPath<'_>, used: &Object, mark: &Value) -> Result<(), Error> {
        let patch = json!({"metadata": {
            "uid": meta::uid(used), "resourceVersion": meta::resource_version(used), "labels": {keys::IN_USE: mark},
        }});
        self.context.cluster.merge(target, Subresource::None, &patch).await.map(drop)
    }

    async fn conclude(
        &self,
        key: &UsageKey,
        mut usage: Object,
        has_changed: bool,
    ) -> Result<(), UsageFailure> {
        let is_new = self.set_ready(&mut usage, Condition::new("Ready", Status::True, "Available"));
        if has_changed || is_new {
            self.recorder(key).normal(&usage, "UsageConfigured", "The used resource is protected");
        }
        self.report(key, &usage, is_new).await.map_err(UsageFailure::api("UsageConfigured"))
    }

    /// Report that a usage protects nothing, and why. It is reconciled again when it changes.
    async fn refuse(&self, key: &UsageKey, mut usage: Object, failure: UsageFailure) -> Next {
        let ready = Condition::new("Ready", Status::False, OUT_OF_REACH)
            .with_message(&*failure.message)
            .with_failure(failure.cause.into());
        let is_new = self.set_ready(&mut usage, ready);
        if is_new {
            self.recorder(key).failure(&usage, failure.reason, failure.message, failure.cause);
        }
        match self.report(key, &usage, is_new).await {
            Ok(()) => Next::Rest,
            Err(error) if error.is_conflict() => Next::Conflict,
            Err(_) => Next::Retry,
        }
    }

    /// Set a condition of a usage. Returns whether it changed.
    fn set_ready(&self, usage: &mut Object, mut ready: Condition) -> bool {
        ready.last_transition_time = self.context.clock.now();
        ready.observed_generation = meta::generation(usage);
        let status = meta::child(usage, "status");
        let before = conditions_in(status.get("conditions").unwrap_or(&Value::Null));
        let mut conditions = before.clone();
        set_condition(&mut conditions, ready);
        status.insert("conditions".to_owned(), conditions_to_json(&conditions).into());
        conditions != before
    }

    async fn report(&self, key: &UsageKey, usage: &Object, is_new: bool) -> Result<(), Error> {
        if is_new {
            let bytes = self.context.cluster.replace(self.path(key), Subresource::Status, usage).await?;
            self.usages.learn(key, &bytes);
        }
        Ok(())
    }

    /// The resource of a kind.
    async fn kind(&self, target: &UsageTarget, reason: &'static str) -> Result<Arc<Resource>, UsageFailure> {
        let (api_version, kind) = (&target.api_version, &target.kind);
        let resource =
            self.context.cluster.resource(api_version, kind).await.map_err(UsageFailure::api(reason))?;
        resource.ok_or_else(|| {
            let message = format!("there is no kind {kind} in {api_version}");
            UsageFailure::new(reason, Cause::UsageTargetNotFound, message)
        })
    }

    fn path<'k>(&'k self, key: &'k UsageKey) -> ObjectPath<'k> {
        ObjectPath { resource: self.usages.resource(key.flavour), namespace: &key.namespace, name: &key.name }
    }

    fn recorder(&self, key: &UsageKey) -> Recorder {
        self.context.recorder.of(key.flavour.component())
    }
}

/// The object that uses another one.
enum Using {
    /// There is none: the usage has another reason.
    Nothing,
    /// It owns the usage already.
    Known,
    Found(Box<Object>),
    Missing(String),
}

/// The name and namespace of the object in use, once it is resolved and if the usage may refer to it.
fn used_place<'u>(usage: &'u Object, spec: &'u UsageSpec) -> Option<(&'u str, &'u str)> {
    let reference = spec.of.reference()?;
    Some((&reference.name, usage_reach(usage, reference.namespace.as_deref())?))
}

/// Whether a usage may refer to objects of a kind: the path of a cluster-scoped object has no namespace.
fn is_within_reach(usage: &Object, resource: &Resource) -> bool {
    resource.is_namespaced || meta::namespace(usage).is_empty()
}

/// Whether this object owns the usage.
fn is_owned(usage: &Object, by: &UsageTarget, name: &str) -> bool {
    let owners = usage.get("metadata").and_then(|metadata| metadata.get("ownerReferences")?.as_array());
    owners.into_iter().flatten().any(|owner| {
        let api_version = owner["apiVersion"].as_str().unwrap_or_default();
        owner["kind"] == *by.kind
            && owner["name"] == name
            && meta::group(api_version) == meta::group(&by.api_version)
    })
}

/// The spec of a usage. The definitions of other releases may accept what this one cannot read.
fn read_spec(usage: &Object) -> Result<UsageSpec, UsageFailure> {
    usage_spec(usage).ok_or_else(|| {
        UsageFailure::new("ResolveSelectors", Cause::UsageInvalid, "cannot read spec.of and spec.by")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_that_cannot_be_read_is_invalid() {
        let cause = |spec: Value| {
            let usage = json!({"spec": spec}).as_object().cloned().unwrap_or_default();
            read_spec(&usage).err().map(|failure| failure.cause)
        };
        let of = json!({"apiVersion": "v1", "kind": "ConfigMap", "resourceRef": {"name": "a"}});
        assert_eq!(cause(json!({"of": of, "reason": "b"})), None);
        assert_eq!(cause(json!({"by": of})), Some(Cause::UsageInvalid));
        assert_eq!(cause(json!({"of": "a"})), Some(Cause::UsageInvalid));
    }
}
