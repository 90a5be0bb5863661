//! Performs the requests of phases, within the rights of their ActionSet.
//!
//! # Invariants
//! * Every request is checked against the grants of administrators before it is sent.
//! * A request with an unknown result has no answer: the phase is polled again later, and finds out by reading.
//! * A panic is an answer: without one, the phase would wait for ever, or panic again each time it is polled.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_api::{Cause, Object, meta};
use ferroplane_client::{
    ApiClient, ApplyOptions, CommandEnding, Error, LabelSelector, ObjectPath, PatchType, Propagation, Query,
    Resource, Subresource,
};
use ferroplane_engine::action::{
    Address, Answer, ContainerGroup, FunctionCall, FunctionReturn, NamedBy, PHASE_ANNOTATION, Patch, Refused,
    Request, ResourceName, Secrets,
};
use ferroplane_engine::{ActionAccess, Grants, chain};
use ferroplane_runner::{CallContext, ContainerRunner};
use ferroplane_wire::Struct;
use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tracing::{error, warn};

use super::printed::Printed;
use crate::function_registry::CallableFunctions;
use crate::runtime::refused::cause_of;

/// The most bytes of a log that are read. A longer one is refused: output in it would be lost.
const LONGEST_LOG: u64 = 16 << 20;
/// How many bytes of a log one answer has, unless a single line is longer.
const LOG_CHUNK: u64 = 4 << 20;
/// API servers may send slightly less than they are asked for, although there is more.
const LOG_SLACK: u64 = 4096;

/// Performs requests on behalf of a phase.
pub(super) struct Performer<'a> {
    /// The client with the rights for composed resources.
    pub(super) cluster: &'a ApiClient,
    pub(super) grants: Arc<Grants>,
    /// Runs images where there are no pods.
    pub(super) containers: Option<&'a ContainerRunner>,
    /// The functions that are not built in.
    pub(super) callables: &'a CallableFunctions,
    pub(super) action_set: &'a Object,
    /// The function of the phase. Empty for reads of the action itself.
    pub(super) function: String,
    /// The identity of the phase.
    pub(super) identity: String,
    /// Values that no log may contain.
    pub(super) secrets: Secrets,
}

/// The result of a request is unknown.
pub(super) type Inconclusive = Error;

impl Performer<'_> {
    /// Perform requests, in order. Commands in several pods run at the same time.
    pub(super) async fn perform(&self, requests: &[Request]) -> Result<Vec<Answer>, Inconclusive> {
        answered(requests.len(), &self.identity, self.perform_all(requests)).await
    }

    async fn perform_all(&self, requests: &[Request]) -> Result<Vec<Answer>, Inconclusive> {
        if requests.iter().all(is_long) {
            return try_join_all(requests.iter().map(|request| self.perform_one(request))).await;
        }
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            answers.push(self.perform_one(request).await?);
        }
        Ok(answers)
    }

    async fn perform_one(&self, request: &Request) -> Result<Answer, Inconclusive> {
        match request {
            Request::Get(address) => self.get(address).await,
            Request::List { kind, namespace, labels } => self.list(kind, namespace, labels).await,
            Request::Create { object, field_manager } => self.create(object, field_manager).await,
            Request::Patch { target, patch, field_manager } => self.patch(target, patch, field_manager).await,
            Request::Delete { target, uid } => self.delete(target, uid.as_deref()).await,
            Request::Scale { target, replicas } => self.scale(target, *replicas).await,
            Request::ReadLog { namespace, pod, container, offset } => {
                self.read_log(namespace, pod, container, *offset).await
            }
            Request::Exec { namespace, pod, container, command, timeout } => {
                self.exec((namespace, pod, container), command, *timeout).await
            }
            Request::RunContainers(group) => Ok(self.run_containers(group).await),
            Request::CallFunction(call) => Ok(self.call_function(call).await),
        }
    }

    async fn get(&self, address: &Address) -> Result<Answer, Inconclusive> {
        let permitted = match self.permitted(address, false).await? {
            Ok(permitted) => permitted,
            Err(answer) => return Ok(answer),
        };
        match self.cluster.get_object(permitted.path()).await {
            Ok(Some(object)) => Ok(permitted.found(object)),
            Ok(None) => Ok(Answer::Absent),
            Err(error) => answer(error, || format!("cannot read {permitted}")),
        }
    }

    async fn list(&self, kind: &ResourceName, namespace: &str, labels: &str) -> Result<Answer, Inconclusive> {
        let resource = match self.resource(kind).await? {
            Ok(resource) => resource,
            Err(answer) => return Ok(answer),
        };
        let namespace = if resource.is_namespaced { namespace } else { "" };
        if let Err(answer) = self.check(&resource, namespace, None, false) {
            return Ok(answer);
        }
        let Some(selector) = parse_selector(labels) else {
            let message = format!(
                "cannot select objects by `{labels}`: write labels as `key=value`, separated by commas"
            );
            return Ok(refused(400, "BadRequest", message, Cause::PhaseArgumentsInvalid));
        };
        let query = Query { labels: Some(&selector), ..Query::default() };
        match self.cluster.list_objects(&resource, namespace, &query).await {
            Ok(mut objects) => {
                for object in &mut objects {
                    resource.add_kind(object);
                }
                Ok(Answer::List(objects))
            }
            Err(error) => answer(error, || format!("cannot list {}", resource.plural)),
        }
    }

    async fn create(&self, object: &Object, field_manager: &str) -> Result<Answer, Inconclusive> {
        let address = Address {
            kind: ResourceName::kind(meta::api_version(object), meta::kind(object)),
            namespace: meta::namespace(object).to_owned(),
            name: meta::name(object).to_owned(),
        };
        let permitted = match self.permitted(&address, true).await? {
            Ok(permitted) => permitted,
            Err(answer) => return Ok(answer),
        };
        let mut object = object.clone();
        let metadata = meta::child(&mut object, "metadata");
        if permitted.namespace.is_empty() {
            metadata.remove("namespace");
        } else {
            metadata.insert("namespace".to_owned(), permitted.namespace.as_str().into());
        }
        meta::set_annotation(&mut object, PHASE_ANNOTATION, &self.identity);
        self.own_pod(&mut object);
        match self.cluster.create_as(&permitted.resource, &permitted.namespace, field_manager, &object).await
        {
            Ok(bytes) => Ok(permitted.written(&bytes)),
            Err(error) => answer(error, || format!("cannot create {permitted}")),
        }
    }

    /// Make the ActionSet the owner of a pod that runs for it. Other objects of an action stay when it is deleted.
    fn own_pod(&self, object: &mut Object) {
        let is_pod = meta::kind(object) == "Pod" && meta::api_version(object) == "v1";
        if is_pod && meta::namespace(object) == meta::namespace(self.action_set) {
            let owner = json!([{
                "apiVersion": meta::api_version(self.action_set), "kind": meta::kind(self.action_set),
                "name": meta::name(self.action_set), "uid": meta::uid(self.action_set),
            }]);
            meta::child(object, "metadata").entry("ownerReferences").or_insert(owner);
        }
    }

    async fn patch(
        &self,
        target: &Address,
        patch: &Patch,
        field_manager: &str,
    ) -> Result<Answer, Inconclusive> {
        let permitted = match self.permitted(target, true).await? {
            Ok(permitted) => permitted,
            Err(answer) => return Ok(answer),
        };
        let location = permitted.path();
        let sent = match patch {
            Patch::Apply { object, is_forced } => {
                let options = ApplyOptions { field_manager, is_forced: *is_forced, is_strict: false };
                // An apply may create the object.
                let mut object = object.clone();
                meta::set_annotation(&mut object, PHASE_ANNOTATION, &self.identity);
                self.cluster.apply_with(location, Subresource::None, options, &object).await
            }
            Patch::Strategic(body) => {
                self.patch_as(location, field_manager, PatchType::Strategic, body).await
            }
            Patch::Merge(body) => self.patch_as(location, field_manager, PatchType::Merge, body).await,
            Patch::Json(body) => self.patch_as(location, field_manager, PatchType::Json, body).await,
        };
        match sent {
            Ok(bytes) => Ok(permitted.written(&bytes)),
            Err(error) if error.is_not_found() => Ok(Answer::Absent),
            Err(error) => answer(error, || format!("cannot patch {permitted}")),
        }
    }

    async fn patch_as(
        &self,
        path: ObjectPath<'_>,
        field_manager: &str,
        kind: PatchType,
        body: &Value,
    ) -> Result<bytes::Bytes, Error> {
        self.cluster.patch_as(path, Subresource::None, field_manager, kind, body).await
    }

    async fn delete(&self, target: &Address, uid: Option<&str>) -> Result<Answer, Inconclusive> {
        let permitted = match self.permitted(target, true).await? {
            Ok(permitted) => permitted,
            Err(answer) => return Ok(answer),
        };
        if let Err(error) = self.cluster.delete(permitted.path(), uid, Propagation::Background).await {
            return answer(error, || format!("cannot delete {permitted}"));
        }
        match self.cluster.get_object(permitted.path()).await {
            Ok(Some(object)) if uid.is_none_or(|uid| meta::uid(&object) == uid) => {
                Ok(permitted.found(object))
            }
            // Another object has its name.
            Ok(_) => Ok(Answer::Absent),
            Err(error) => answer(error, || format!("cannot read {permitted}")),
        }
    }

    async fn scale(&self, target: &Address, replicas: i64) -> Result<Answer, Inconclusive> {
        let permitted = match self.permitted(target, true).await? {
            Ok(permitted) => permitted,
            Err(answer) => return Ok(answer),
        };
        let body = json!({"spec": {"replicas": replicas}});
        let scaled = self
            .cluster
            .patch_as(permitted.path(), Subresource::Scale, "ferroplane-scale", PatchType::Merge, &body)
            .await;
        let scaled = match scaled {
            // Not every API server has the subresource.
            Err(error) if error.is_not_found() => {
                self.patch_as(permitted.path(), "ferroplane-scale", PatchType::Merge, &body).await
            }
            scaled => scaled,
        };
        match scaled {
            // The answer is a Scale, not the object.
            Ok(_) => self.get(target).await,
            Err(error) if error.is_not_found() => Ok(Answer::Absent),
            Err(error) => answer(error, || format!("cannot scale {permitted}")),
        }
    }

    async fn read_log(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        offset: u64,
    ) -> Result<Answer, Inconclusive> {
        let address = Address {
            kind: ResourceName::kind("v1", "Pod"),
            namespace: namespace.to_owned(),
            name: pod.to_owned(),
        };
        let permitted = match self.permitted(&address, false).await? {
            Ok(permitted) => permitted,
            Err(answer) => return Ok(answer),
        };
        let mut limit = offset;
        loop {
            limit = limit.saturating_add(LOG_CHUNK).min(LONGEST_LOG);
            let bytes = match self.cluster.log(permitted.path(), container, limit).await {
                Ok(bytes) => bytes,
                Err(error) if error.is_not_found() => return Ok(Answer::Absent),
                Err(error) => return answer(error, || format!("cannot read the log of {permitted}")),
            };
            if let Some(part) = log_from(&bytes, offset, limit) {
                return Ok(part);
            }
            if limit >= LONGEST_LOG {
                let message = format!("the log of {permitted} has more than {} MiB", LONGEST_LOG >> 20);
                return Ok(refused(413, Refused::TOO_LARGE, message, Cause::PhaseFailed));
            }
        }
    }

    /// Run a command. It is never repeated, whatever keeps it from ending.
    async fn exec(
        &self,
        (namespace, pod, container): (&str, &str, &str),
        command: &[String],
        timeout: Option<i64>,
    ) -> Result<Answer, Inconclusive> {
        let address = Address {
            kind: ResourceName::kind("v1", "Pod"),
            namespace: namespace.to_owned(),
            name: pod.to_owned(),
        };
        let permitted = match self.permitted(&address, true).await? {
            Ok(permitted) => permitted,
            Err(answer) => return Ok(answer),
        };
        let mut printed = Printed::default();
        let mut keep = |text: &[u8]| printed.add(text);
        let running = self.cluster.exec(permitted.path(), container, command, &mut keep);
        let timeout = timeout.and_then(|timeout| u64::try_from(timeout).ok()).map(Duration::from_millis);
        let ended = match timeout {
            None => running.await,
            Some(timeout) => {
                if let Ok(ended) = tokio::time::timeout(timeout, running).await {
                    ended
                } else {
                    let message =
                        format!("the command in {permitted} took longer than {} s", timeout.as_secs_f64());
                    return Ok(refused(504, "Timeout", message, Cause::PhaseTimeout));
                }
            }
        };
        Ok(match ended {
            Ok(ending) => answer_of_command(ending, printed, &permitted),
            Err(error) if error.is_not_found() => Answer::Absent,
            Err(error) => {
                let message = format!("cannot run a command in {permitted}: {}", chain(&error));
                let (code, reason) =
                    error.status().map_or((502, "ConnectionLost"), |it| (it.code, it.reason.as_str()));
                let cause = if error.is_inconclusive() { Cause::PhaseInterrupted } else { cause_of(&error) };
                refused(code, reason, message, cause)
            }
        })
    }

    /// Run containers until they end. They are never run again, whatever keeps them from ending.
    async fn run_containers(&self, group: &ContainerGroup) -> Answer {
        let Some(containers) = self.containers else {
            let message = "this control plane runs no images";
            return refused(501, "NotImplemented", message, Cause::PhaseNeedsUnmet);
        };
        let namespace = meta::namespace(self.action_set);
        let has_network = |image: &str| self.grants.gives_network(namespace, &self.function, image);
        match containers.run(group, &has_network).await {
            Ok(endings) => Answer::ContainersEnded(endings),
            Err(error) if error.is_timeout() => refused(504, "Timeout", chain(&error), Cause::PhaseTimeout),
            Err(error) if error.is_interruption() => {
                refused(500, "InternalError", chain(&error), Cause::PhaseInterrupted)
            }
            Err(error) => refused(500, "InternalError", chain(&error), Cause::PhaseFailed),
        }
    }

    /// Call a function. One that is not running yet, or cannot be reached, is called again later.
    async fn call_function(&self, call: &FunctionCall) -> Answer {
        let unavailable = |message: String, cause: Cause| refused(503, Refused::UNAVAILABLE, message, cause);
        if let Some(trouble) = self.callables.trouble(&call.revision) {
            return unavailable(trouble, Cause::FunctionNotConnectable);
        }
        let request = match call.request() {
            Ok(request) => request,
            Err(error) => {
                let message = format!("cannot send the arguments: {}", chain(&error));
                return refused(400, "BadRequest", message, Cause::PhaseArgumentsInvalid);
            }
        };
        // Code sees the time of the ActionSet, and random numbers of its own.
        let subject = Struct::try_from(self.action_set.clone()).ok();
        let context = CallContext { subject, ..CallContext::default() };
        match self.callables.directory.call_for(&call.revision, &request, &context).await {
            Ok(response) => Answer::Returned(FunctionReturn::of(response)),
            Err(error) if error.cause() == Cause::FunctionUnreachable => {
                unavailable(chain(&error), error.cause())
            }
            Err(error) => refused(500, "InternalError", chain(&error), error.cause()),
        }
    }

    /// The address of an object, if the action may access it.
    async fn permitted(
        &self,
        address: &Address,
        is_write: bool,
    ) -> Result<Result<PermittedObject, Answer>, Inconclusive> {
        let resource = match self.resource(&address.kind).await? {
            Ok(resource) => resource,
            Err(answer) => return Ok(Err(answer)),
        };
        let namespace = match (resource.is_namespaced, address.namespace.as_str()) {
            (false, _) => String::new(),
            (true, "") => meta::namespace(self.action_set).to_owned(),
            (true, namespace) => namespace.to_owned(),
        };
        let name = Some(address.name.as_str()).filter(|name| !name.is_empty());
        if let Err(answer) = self.check(&resource, &namespace, name, is_write) {
            return Ok(Err(answer));
        }
        Ok(Ok(PermittedObject { resource, namespace, name: address.name.clone() }))
    }

    async fn resource(&self, name: &ResourceName) -> Result<Result<Arc<Resource>, Answer>, Inconclusive> {
        let (found, word) = match &name.by {
            NamedBy::Kind(kind) => (self.cluster.resource(&name.api_version, kind).await, kind),
            NamedBy::Resource(plural) => {
                (self.cluster.resource_of_plural(&name.api_version, plural).await, plural)
            }
        };
        match found {
            Ok(Some(resource)) => Ok(Ok(resource)),
            Ok(None) => {
                let message = format!("there is no `{word}` in {}: is it installed?", name.api_version);
                Ok(Err(refused(404, "NotFound", message, Cause::RequestRefused)))
            }
            Err(error) => Err(error),
        }
    }

    /// Refuse requests without a grant, and write that to the audit log.
    fn check(
        &self,
        resource: &Resource,
        namespace: &str,
        name: Option<&str>,
        is_write: bool,
    ) -> Result<(), Answer> {
        let access = ActionAccess {
            from: meta::namespace(self.action_set),
            function: &self.function,
            is_write,
            group: resource.group(),
            kind: &resource.kind,
            namespace,
            name,
        };
        let Err(denied) = self.grants.check_action(&access) else { return Ok(()) };
        warn!(
            target: "audit",
            decision = "deny",
            cause = Cause::AccessNotGranted.code(),
            apiVersion = meta::api_version(self.action_set),
            kind = meta::kind(self.action_set),
            namespace = meta::namespace(self.action_set),
            name = meta::name(self.action_set),
            uid = meta::uid(self.action_set),
            phase = self.identity,
            function = self.function,
            reason = self.secrets.redact(&denied.to_string()),
            "denied access to an object"
        );
        Err(refused(403, "AccessNotGranted", denied.to_string(), Cause::AccessNotGranted))
    }
}

/// Whether a request may take long.
pub(super) fn is_long(request: &Request) -> bool {
    matches!(request, Request::Exec { .. } | Request::RunContainers(_) | Request::CallFunction(_))
}

/// An object that the action may access.
struct PermittedObject {
    resource: Arc<Resource>,
    namespace: String,
    name: String,
}

impl PermittedObject {
    fn path(&self) -> ObjectPath<'_> {
        ObjectPath { resource: &self.resource, namespace: &self.namespace, name: &self.name }
    }

    fn found(&self, mut object: Object) -> Answer {
        self.resource.add_kind(&mut object);
        Answer::Object { object, resource: self.resource.plural.clone() }
    }

    fn written(&self, bytes: &[u8]) -> Answer {
        self.found(serde_json::from_slice(bytes).unwrap_or_default())
    }
}

impl std::fmt::Display for PermittedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { resource, namespace, name } = self;
        if namespace.is_empty() {
            write!(f, "{} `{name}`", resource.kind)
        } else {
            write!(f, "{} `{namespace}/{name}`", resource.kind)
        }
    }
}

/// The answers to so many requests of a phase. If performing them panics, all of them count as refused.
async fn answered(
    count: usize,
    phase: &str,
    performing: impl Future<Output = Result<Vec<Answer>, Inconclusive>>,
) -> Result<Vec<Answer>, Inconclusive> {
    AssertUnwindSafe(performing).catch_unwind().await.unwrap_or_else(|_| {
        error!(phase, "the control plane panicked while it performed requests of a phase");
        let message = "the control plane panicked while it performed the request; its log says where";
        Ok(vec![refused(500, "InternalError", message, Cause::PhaseInterrupted); count])
    })
}

/// The refusal of an API server as an answer. If the request may have been performed all the same, there is none.
fn answer(error: Error, what: impl FnOnce() -> String) -> Result<Answer, Inconclusive> {
    if error.is_inconclusive() || error.code() == Some(429) {
        return Err(error);
    }
    let cause = cause_of(&error);
    let message = format!("{}: {}", what(), chain(&error));
    let (code, reason) =
        error.status().map_or((400, "BadRequest"), |status| (status.code, status.reason.as_str()));
    Ok(refused(code, reason, message, cause))
}

/// A command whose output is incomplete counts as refused: a phase must not take a part for the whole.
fn answer_of_command(ending: CommandEnding, printed: Printed, permitted: &PermittedObject) -> Answer {
    let CommandEnding { exit_code, stderr } = ending;
    if let Some(stdout) = printed.into_text() {
        return Answer::Ended { exit_code, stdout, stderr };
    }
    let most = Printed::MOST >> 10;
    let message = format!(
        "the command in {permitted} exited with code {exit_code} and printed more than {most} KiB of output"
    );
    refused(413, Refused::TOO_LARGE, message, Cause::PhaseFailed)
}

fn refused(code: u16, reason: &str, message: impl Into<String>, cause: Cause) -> Answer {
    Answer::Refused(Refused { code, reason: reason.to_owned(), message: message.into(), cause })
}

/// The part of a log from an offset on, of which so many bytes were requested. None if that is less than a line, and there is more.
fn log_from(bytes: &[u8], offset: u64, limit: u64) -> Option<Answer> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    let rest = &bytes[start..];
    let is_end = (bytes.len() as u64).saturating_add(LOG_SLACK) <= limit;
    let lines = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if lines == 0 && !is_end {
        return None;
    }
    // A line or a character that is cut is part of the next chunk.
    let text = String::from_utf8_lossy(if is_end { rest } else { &rest[..lines] }).into_owned();
    Some(Answer::Log { text, next_offset: offset.saturating_add(lines as u64), is_end })
}

/// Parse labels as users write them. None if there is more than `key=value`.
fn parse_selector(labels: &str) -> Option<LabelSelector> {
    let parts = labels.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pairs = parts.map(|part| {
        let (key, value) = part.split_once('=')?;
        let value = value.strip_prefix('=').unwrap_or(value);
        let is_plain = |text: &str| !text.contains(['!', ' ', '(']);
        (is_plain(key) && is_plain(value)).then(|| (key.to_owned(), value.to_owned()))
    });
    pairs.collect::<Option<Vec<_>>>().map(LabelSelector::from_iter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_is_an_answer_to_every_request() {
        let answers = answered(2, "uid/0/p", async { panic!("a function is faulty") }).await.unwrap();
        let [Answer::Refused(first), Answer::Refused(second)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((first.cause, first), (Cause::PhaseInterrupted, second));
        // It is neither tried again nor waited for.
        assert!(!first.is_unavailable() && !first.is_conflict());
        let answers = answered(1, "uid/0/p", async { Ok(vec![Answer::Absent]) }).await.unwrap();
        assert_eq!(answers, [Answer::Absent]);
    }

    fn part(bytes: &[u8], offset: u64, limit: u64) -> Option<(String, u64, bool)> {
        match log_from(bytes, offset, limit)? {
            Answer::Log { text, next_offset, is_end } => Some((text, next_offset, is_end)),
            _ => unreachable!("a log is a log"),
        }
    }

    #[test]
    fn log_is_read_from_an_offset_to_its_end() {
        let log = "aé\nb".as_bytes();
        let rest = |offset| part(log, offset, LOG_CHUNK).unwrap();
        assert_eq!(rest(0), ("aé\nb".to_owned(), 4, true));
        assert_eq!(rest(1), ("é\nb".to_owned(), 4, true));
        assert_eq!(rest(4), ("b".to_owned(), 4, true));
        assert_eq!(rest(9), (String::new(), 9, true));
    }

    #[test]
    fn log_that_goes_on_is_read_in_whole_lines_and_by_its_own_bytes() {
        let log = b"one\n\xff\xfe\ntwo";
        let whole = log.len() as u64;
        assert_eq!(part(log, 0, whole), Some(("one\n\u{fffd}\u{fffd}\n".to_owned(), 7, false)));
        assert_eq!(part(log, 7, whole), None, "a line is not cut");
        // Slightly less than requested does not mean the end.
        assert_eq!(part(log, 4, whole + 100), Some(("\u{fffd}\u{fffd}\n".to_owned(), 7, false)));
        assert_eq!(part(log, 7, whole + LOG_SLACK), Some(("two".to_owned(), 7, true)));
    }

    #[test]
    fn labels_are_read_as_users_write_them() {
        let pairs = |text: &str| parse_selector(text).map(|it| it.equal.into_iter().collect::<Vec<_>>());
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(pairs("a=b, c==d"), Some(vec![pair("a", "b"), pair("c", "d")]));
        assert_eq!(pairs(""), Some(Vec::new()));
        assert_eq!(pairs("a in (b)"), None);
        assert_eq!(pairs("a!=b"), None);
    }
}
