//! One webhook, as its configuration describes it.

use std::time::Duration;

use ferroplane_schema::selector::LabelSelector;
use ferroplane_schema::status::{Resource as Subject, Status};
use serde_json::{Map, Value};

use super::admission_request::{AdmissionRequest, Operation, RequestTarget, VersionedAttributes};
use super::connections::Connections;
use super::destination::Destination;
use super::match_conditions::MatchConditions;
use super::rules::{WebhookRule, texts};
use crate::builtin::NAMESPACES;
use crate::store::Store;

/// What a webhook has if it says nothing else, and the most that it may say.
const TIMEOUT_SECONDS: (u64, u64) = (10, 30);

/// Whether other versions of what its rules name concern a webhook, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matching {
    Exact,
    Equivalent,
}

/// A webhook.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) name: String,
    rules: Vec<WebhookRule>,
    matching: Matching,
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
    conditions: MatchConditions,
    /// Whether a request continues if the webhook cannot be asked.
    pub(super) fails_open: bool,
    pub(super) timeout: Duration,
    /// Whether it may be asked about what is only tried.
    pub(super) allows_dry_run: bool,
    /// Whether it wants to be asked again after others changed something.
    pub(super) is_asked_again: bool,
    /// The versions of `AdmissionReview` that it reads.
    pub(super) versions: Vec<String>,
    pub(super) destination: Destination,
    /// They end with the configuration that they were made for.
    pub(super) connections: Connections,
}

impl Webhook {
    /// All webhooks of a configuration.
    pub(super) fn all(configuration: &Value) -> impl Iterator<Item = Self> + '_ {
        configuration["webhooks"].as_array().into_iter().flatten().map(Self::read)
    }

    fn read(hook: &Value) -> Self {
        let (usual, most) = TIMEOUT_SECONDS;
        let seconds = hook["timeoutSeconds"].as_u64().unwrap_or(usual).clamp(1, most);
        let fails_open = hook["failurePolicy"] == "Ignore";
        Self {
            name: hook["name"].as_str().unwrap_or_default().to_owned(),
            rules: hook["rules"].as_array().into_iter().flatten().map(WebhookRule::read).collect(),
            matching: if hook["matchPolicy"] == "Exact" { Matching::Exact } else { Matching::Equivalent },
            namespaces: selector(&hook["namespaceSelector"]),
            objects: selector(&hook["objectSelector"]),
            // Conditions that cannot be evaluated follow the failure policy, as a webhook that cannot be called does.
            conditions: MatchConditions::read(&hook["matchConditions"], fails_open),
            fails_open,
            timeout: Duration::from_secs(seconds),
            allows_dry_run: matches!(hook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            is_asked_again: hook["reinvocationPolicy"] == "IfNeeded",
            versions: texts(&hook["admissionReviewVersions"]),
            destination: Destination::read(&hook["clientConfig"]),
            connections: Connections::default(),
        }
    }

    /// What the webhook wants to see; nothing if it does not want to be asked.
    pub(super) async fn wants(
        &self,
        request: &AdmissionRequest<'_>,
        store: &Store,
    ) -> Result<Option<VersionedAttributes>, Status> {
        // What is wrong with a selector matters only if the webhook is about the request at all.
        let is_in_namespace = self.is_in_namespace(request, store);
        let has_labels = self.has_labels(request);
        if matches!(is_in_namespace, Ok(false)) || matches!(has_labels, Ok(false)) {
            return Ok(None);
        }
        let target = request.target();
        let Some(version) = self.version(&target) else { return Ok(None) };
        is_in_namespace?;
        has_labels?;
        let shown = request.shown(version, store).await?;
        Ok(self.conditions.hold(request, &shown)?.then_some(shown))
    }

    /// The version of the resource that it wants to see; nothing if its rules are not about the request.
    pub(super) fn version<'h>(&self, request: &RequestTarget<'h>) -> Option<&'h str> {
        if self.rules.iter().any(|rule| rule.matches(request, request.version)) {
            return Some(request.version);
        }
        if self.matching == Matching::Exact {
            return None;
        }
        let versions = request.resource.versions.iter().filter(|version| version.is_served);
        let others: Vec<_> = versions.map(|version| version.name.as_str()).collect();
        self.rules
            .iter()
            .find_map(|rule| others.iter().copied().find(|version| rule.matches(request, version)))
    }

    fn is_in_namespace(&self, request: &AdmissionRequest<'_>, store: &Store) -> Result<bool, Status> {
        let is_namespace = request.resource.group.is_empty() && request.resource.names.plural == "namespaces";
        if request.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(|error| Status::internal(error))?;
        if selector.is_empty() {
            return Ok(true);
        }
        if is_namespace && request.subresource.is_empty() && request.operation != Operation::Delete {
            return Ok(matches(selector, &request.object));
        }
        match store.get(&store.collection(NAMESPACES).key("", request.namespace)) {
            Some(namespace) => Ok(selector.matches(|label| namespace.metadata().labels.get(label))),
            None => Err(Status::not_found(&Subject::new("", "namespaces"), request.namespace)),
        }
    }

    /// Whether the object has the labels, or had them.
    fn has_labels(&self, request: &AdmissionRequest<'_>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(|error| Status::internal(error))?;
        Ok(selector.is_empty() || matches(selector, &request.object) || matches(selector, &request.old))
    }
}

fn matches(selector: &LabelSelector, object: &Value) -> bool {
    object.as_object().is_some_and(|object| selector.matches_object(object))
}

/// Nothing said selects everything.
fn selector(selector: &Value) -> Result<LabelSelector, String> {
    let everything = Value::Object(Map::new());
    LabelSelector::from_object(if selector.is_null() { &everything } else { selector })
}
