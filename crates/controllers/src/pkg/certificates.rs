//! Certificates of programs in pods, in the Secrets that revisions name.
//!
//! # Invariants
//! * A valid certificate is left as it is, whatever created it: programs read theirs once, when they start.
//! * A Secret says when its certificate was replaced, so that pods that read the former one are restarted.
//! * A Secret with data that no revision of the package owns is never written.
//! * Every write fails if the Secret was changed since it was read.

use ferroplane_api::{Cause, Object, keys, meta};
use ferroplane_certificates::{Purpose, SignError};
use ferroplane_client::{Error, ObjectPath, Subresource};
use ferroplane_engine::packages::{AlreadyControlled, is_owned_by, secret_owners};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::deployments::{Deployments, Program, RunProblem};
use crate::runtime::refused::cause_of;
use crate::setup::credentials::{LeafSecret, secrets};

/// As long as Crossplane's, which does not renew them: programs continue to run if the user goes back to it.
const LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// Why a program has no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateProblem {
    #[error("cannot read the Secret `{name}` with the certificate of the package")]
    Read { name: String, source: Box<Error> },
    #[error("cannot write the Secret `{name}` with the certificate of the package")]
    Write { name: String, source: Box<Error> },
    #[error(
        "cannot keep a certificate in the Secret `{name}`: it holds something else, and does not belong to the package"
    )]
    Foreign { name: String },
    #[error("cannot keep a certificate: {0}")]
    Controlled(#[from] AlreadyControlled),
    #[error("cannot sign a certificate")]
    Sign(#[source] SignError),
}

impl CertificateProblem {
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => cause_of(source),
            Self::Foreign { .. } | Self::Controlled(_) => Cause::ObjectControlled,
            Self::Sign(_) => Cause::PackageNotRun,
        }
    }

    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.is_conflict() || source.is_already_exists())
    }
}

impl Deployments {
    /// Create or renew the certificate for these names in a Secret. Returns when it took the place of another one, as text. Empty if it is the
    /// first.
    pub(super) async fn keep_certificate(
        &self,
        program: &Program<'_>,
        name: &str,
        names: &[String],
        purpose: Purpose,
    ) -> Result<String, RunProblem> {
        let (authority, now) = (self.authority().await?, self.context.clock.timestamp());
        let resource = secrets();
        let path = ObjectPath { resource: &resource, namespace: &self.namespace, name };
        let live = self.context.cluster.get_object(path).await;
        let live = live
            .map_err(|source| CertificateProblem::Read { name: name.to_owned(), source: Box::new(source) })?;
        if let Some(live) = live.as_ref().filter(|live| program.is_of_newer(live)) {
            return Ok(replaced_at(live));
        }
        let is_new = live.is_none();
        let mut secret = live.unwrap_or_else(|| self.blank_secret(name));
        let leaf = LeafSecret::of(&secret);
        // The common name of a client is not checked: one that Crossplane made has the name of a former revision.
        let required: &[String] = if purpose == Purpose::Client { &[] } else { names };
        let is_good = leaf.is_good(authority, required, now);
        let owners = secret_owners(&secret, program.party).map_err(CertificateProblem::from)?;
        if !is_good && !leaf.is_empty() && !is_owned_by(&secret, program.party) {
            return Err(CertificateProblem::Foreign { name: name.to_owned() }.into());
        }
        if is_good && owners.is_none() {
            return Ok(replaced_at(&secret));
        }
        if !is_good {
            // A user may have deleted the Secret of pods that run.
            if !leaf.is_empty() || self.has_pods(program) {
                meta::set_annotation(&mut secret, keys::CERTIFICATE_REPLACED_AT, &self.context.clock.now());
            }
            let made = LeafSecret::make(authority, names, purpose, now, LIFETIME)
                .map_err(CertificateProblem::Sign)?;
            made.write_to(&mut secret);
        }
        if let Some(owners) = owners {
            meta::child(&mut secret, "metadata").insert("ownerReferences".to_owned(), Value::Array(owners));
        }
        let written = if is_new {
            self.context.cluster.create(&resource, &self.namespace, &secret).await
        } else {
            self.context.cluster.replace(path, Subresource::None, &secret).await
        };
        written.map_err(|source| CertificateProblem::Write {
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        Ok(replaced_at(&secret))
    }

    fn blank_secret(&self, name: &str) -> Object {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": self.namespace},
            "type": "Opaque",
        });
        secret.as_object().cloned().unwrap_or_default()
    }
}

fn replaced_at(secret: &Object) -> String {
    meta::annotation(secret, keys::CERTIFICATE_REPLACED_AT).to_owned()
}
