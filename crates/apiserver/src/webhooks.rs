//! Webhooks: programs elsewhere that may change or refuse what is about to be written (admission), or that make of an object
//! of one version one of another ([`Converter`]).
//!
//! Which want to be asked about writes is read from the `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration`
//! objects in the store, and follows them. Some may be in this process (see [`InProcessWebhook`]), which changes only how they are
//! reached. Knows nothing of how objects are stored or written.
//!
//! # Guarantees
//! * A webhook that hangs, or says more than fits, costs its time limit and a bounded amount of memory, no more.
//! * Redirections are not followed: a webhook cannot make the server call another host.
//! * The objects that configure webhooks are shown to no webhook, so that a broken one can be taken away.

mod admission_request;
mod admission_review;
mod call;
mod connections;
mod conversion;
mod destination;
mod dispatch;
mod in_process;
mod match_conditions;
mod rules;
mod trust;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;
use tracing::warn;

use crate::store::{Entry, Event, EventKind, Store};
pub(crate) use admission_request::{AdmissionRequest, GroupVersionKind, Operation, RequestTarget};
pub(crate) use conversion::Converter;
pub(crate) use dispatch::Remarks;
use dispatch::is_exempt;
pub use in_process::InProcessWebhook;
use in_process::InProcessWebhooks;
use webhook::Webhook;

const MUTATING: &str = "admissionregistration.k8s.io/mutatingwebhookconfigurations";
const VALIDATING: &str = "admissionregistration.k8s.io/validatingwebhookconfigurations";

/// The webhooks that are configured now.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    mutating: ArcSwap<Configurations>,
    validating: ArcSwap<Configurations>,
    in_process: InProcessWebhooks,
}

/// Webhooks by the names of their configurations, which is the order in which they are asked.
type Configurations = BTreeMap<Box<str>, Vec<Arc<Webhook>>>;

impl Webhooks {
    /// Learns what is stored.
    pub(crate) fn load(&self, store: &Store) {
        for collection in [MUTATING, VALIDATING] {
            for entry in &store.snapshot(&store.collection(collection)) {
                self.put(entry);
            }
        }
    }

    /// Follows what happens. A webhook counts from the moment at which its configuration is stored.
    pub(crate) fn observe(&self, event: &Event) {
        let entry = event.entry();
        let Some(configurations) = self.configurations(entry) else { return };
        if event.kind() == EventKind::Deleted {
            change(configurations, |all| drop(all.remove(entry.key().name())));
        } else {
            self.put(entry);
        }
    }

    /// Webhooks that are configured at this host are in this process.
    pub(crate) fn register(&self, authority: &str, webhook: &InProcessWebhook) {
        self.in_process.register(authority, webhook);
    }

    /// Whether anybody may want to change the object of such a request.
    pub(crate) fn may_mutate(&self, request: &RequestTarget<'_>) -> bool {
        concerns_anybody(&self.mutating, request)
    }

    /// Whether anybody may want to refuse such a request.
    pub(crate) fn may_refuse(&self, request: &RequestTarget<'_>) -> bool {
        concerns_anybody(&self.validating, request)
    }

    fn put(&self, entry: &Entry) {
        let Some(configurations) = self.configurations(entry) else { return };
        let name = entry.key().name();
        match serde_json::from_slice::<Value>(entry.bytes()) {
            Ok(configuration) => {
                let hooks: Vec<_> = Webhook::all(&configuration).map(Arc::new).collect();
                change(configurations, |all| drop(all.insert(name.into(), hooks.clone())));
            }
            Err(error) => {
                // Whatever was configured before stays. It was validated when it was stored, so that this cannot happen by a
                // write of today.
                warn!(object = %entry.key(), %error, "cannot read the webhooks; they are not called");
            }
        }
    }

    fn configurations(&self, entry: &Entry) -> Option<&ArcSwap<Configurations>> {
        match entry.key().collection().name() {
            MUTATING => Some(&self.mutating),
            VALIDATING => Some(&self.validating),
            _ => None,
        }
    }
}

/// Whether the rules of a webhook are about a request. Known without its objects: to show them costs copies, and most writes concern no webhook.
fn concerns_anybody(configurations: &ArcSwap<Configurations>, request: &RequestTarget<'_>) -> bool {
    let configurations = configurations.load();
    let mut hooks = configurations.values().flatten();
    !is_exempt(request.resource) && hooks.any(|hook| hook.version(request).is_some())
}

fn change(configurations: &ArcSwap<Configurations>, change: impl Fn(&mut Configurations)) {
    // Readers never wait: a request goes by the configuration that it found, even if it changes meanwhile.
    configurations.rcu(|current| {
        let mut next = Configurations::clone(current);
        change(&mut next);
        next
    });
}
