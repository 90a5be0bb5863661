//! Developers' processes that are called instead of functions.

use std::sync::Arc;

use ferroplane_api::{Object, meta};
use ferroplane_client::{CachedObject, Change};
use ferroplane_engine::intercept::Intercept;
use ferroplane_runner::{Runner, grpc};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::listing::{Address, DialError, Listing};
use super::{FunctionRegistry, State};
use crate::rollout::{Interceptions, Leases};

impl FunctionRegistry {
    /// The results of calls that were sent to developers' processes.
    pub(crate) fn interceptions(&self) -> &Interceptions {
        &self.interceptions
    }

    /// The leases of intercepts.
    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Whether developers' processes are called in plain text, and without a grant.
    pub(crate) fn allows_development(&self) -> bool {
        self.allows_development
    }

    /// The CA of our client certificate, in PEM.
    pub(crate) fn client_ca(&self) -> Option<String> {
        String::from_utf8(self.tls()?.ca).ok()
    }

    /// Why a revision cannot be called, if that is known.
    pub(crate) fn trouble_of(&self, revision: &str) -> Option<String> {
        self.current().troubles.get(revision).cloned()
    }

    /// An intercept has changed. Returns whether other functions are called from now on.
    pub(super) fn note_intercept(&self, change: Change<'_>) -> bool {
        let read = |object: &CachedObject| serde_json::from_slice::<Object>(&object.bytes).ok();
        match change {
            Change::Applied { object, before, .. } => {
                let Some(object) = read(object) else { return true };
                let is_back = self.leases.observe(&object);
                let before = before.and_then(read).as_ref().and_then(Intercept::read);
                // A renewal or a new status changes nothing.
                is_back || before != Intercept::read(&object)
            }
            Change::Deleted { object, .. } => {
                if let Some(object) = read(object) {
                    self.leases.forget(meta::uid(&object));
                }
                true
            }
        }
    }

    /// Add the processes that are called instead of functions. Returns when the first intercept expires if it is not renewed.
    pub(super) fn list_intercepts(&self, listing: &mut Listing) -> Option<Instant> {
        let intercepts = self.intercepts.objects();
        // Intercepts from before the listener was added are seen for the first time now.
        for intercept in &intercepts {
            self.leases.observe(intercept);
        }
        let mut intercepts: Vec<_> = intercepts.iter().filter_map(Intercept::read).collect();
        intercepts.retain(|intercept| self.leases.left(&intercept.uid).is_some());
        intercepts.sort_by(|one, other| one.name.cmp(&other.name));
        for intercept in &intercepts {
            let revision = intercept.revision();
            listing.callables.name(&revision, intercept.function(), "", false);
            let is_secure = intercept.spec.tls.is_some();
            if !is_secure && !self.allows_development {
                continue;
            }
            let ours = self.tls().filter(|_| is_secure);
            let address = Address {
                revision: revision.clone(),
                target: intercept.spec.to.clone(),
                is_secure,
                parties: Some(parties(intercept, ours.as_ref())),
            };
            let known = listing.known.get(&address).cloned();
            match known.map_or_else(|| self.dial_process(intercept, ours), Ok) {
                Ok(runner) => {
                    listing.callables.directory.insert_changeable(revision, runner.clone());
                    listing.used.insert(address, runner);
                    listing.callables.intercepts.push(intercept.clone());
                }
                Err(trouble) => {
                    listing.callables.troubles.insert(revision, ferroplane_engine::chain(&trouble));
                }
            }
        }
        self.leases.first_expiry(intercepts.iter().map(|intercept| intercept.uid.as_str()))
    }

    /// Whether an intercept in the list has expired.
    pub(super) fn has_expired(&self, state: &mut State) -> bool {
        let now = Instant::now();
        if state.expires_at.is_none_or(|expires_at| expires_at > now) {
            return false;
        }
        // It may have been renewed since that time was computed.
        let called = state.current.intercepts.iter().map(|intercept| intercept.uid.as_str());
        state.expires_at = self.leases.first_expiry(called);
        state.current.intercepts.iter().any(|intercept| self.leases.left(&intercept.uid).is_none())
    }

    fn dial_process(&self, intercept: &Intercept, ours: Option<grpc::Tls>) -> Result<Arc<Runner>, DialError> {
        let target: grpc::Target = intercept.spec.to.parse()?;
        let mut options = grpc::Options { tls: None, renewed_tls: None, ..self.options.clone() };
        if let Some(tls) = &intercept.spec.tls {
            let ours = ours.ok_or(DialError::NoCertificate)?;
            options.tls = Some(grpc::Tls { ca: tls.ca_bundle.clone().into_bytes(), ..ours });
        }
        let client = grpc::Client::new(target, options)?;
        let returned = self.returned.clone();
        client.on_return(move || returned.tell());
        Ok(Arc::new(Runner::Grpc(client)))
    }

    /// Our current client certificate.
    fn tls(&self) -> Option<grpc::Tls> {
        let renewed = self.options.renewed_tls.as_ref().map(|renewed| renewed.borrow().clone());
        renewed.or_else(|| self.options.tls.clone())
    }
}

/// Identifies the parties of a connection to a process: its intercept, the trusted CA, and our certificate. If one of them changes, a new
/// connection is made.
fn parties(intercept: &Intercept, ours: Option<&grpc::Tls>) -> [u8; 32] {
    let trusted = intercept.spec.tls.as_ref().map(|tls| tls.ca_bundle.as_bytes()).unwrap_or_default();
    let ours = ours.map(|ours| ours.certificate.as_slice()).unwrap_or_default();
    let mut digest = Sha256::new();
    for part in [intercept.uid.as_bytes(), trusted, ours] {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}
