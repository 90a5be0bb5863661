//! Verifies the signatures of packages, where an `ImageConfig` demands it.
//!
//! # Invariants
//! * An image is verified whenever a policy matches it, also if it was fetched before the policy came.
//! * Keys are read each time. An image that was verified with the same keys is not verified again.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use ferroplane_api::{CosignAuthority, ImageConfig, ImageVerification};
use ferroplane_package::signature::{Authority, SignaturePolicy, Trust, Unverified};

use super::images::{ImageProblem, PreparedImage, secret_value};
use super::{Manager, PackagePullPolicy, SourceError};
use crate::runtime::queue::Slot;

/// How many verified images are remembered. Whoever is forgotten is verified again.
const REMEMBERED: usize = 10_000;
const COSIGN: &str = "Cosign";

/// What an `ImageConfig` demands of the signatures of an image.
#[derive(Debug)]
pub(super) struct SignatureDemands {
    config: String,
    policy: SignaturePolicy,
}

/// Why an image does not count as verified.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerificationProblem {
    #[error("{0}")]
    Source(SourceError),
    #[error("cannot use `{image}`: it is not signed as ImageConfig `{config}` demands: {problem}")]
    Unverified { image: String, config: String, problem: Unverified },
}

/// The images that were verified since this process began, each with the policy that it satisfies.
#[derive(Debug, Default)]
pub(super) struct VerifiedImages(Mutex<BTreeSet<(String, SignaturePolicy)>>);

impl VerifiedImages {
    fn contains(&self, image: &(String, SignaturePolicy)) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(image)
    }

    fn insert(&self, image: (String, SignaturePolicy)) {
        let mut verified = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= REMEMBERED {
            verified.clear();
        }
        verified.insert(image);
    }
}

impl Manager {
    /// Verify the image with this digest, if an `ImageConfig` demands that.
    pub(super) async fn verify(
        &self,
        image: &PreparedImage,
        digest: &str,
        slot: &Slot,
    ) -> Result<(), VerificationProblem> {
        let Some(SignatureDemands { config, policy }) = &image.demands else { return Ok(()) };
        let satisfied = (digest.to_owned(), policy.clone());
        if self.verified.contains(&satisfied) {
            return Ok(());
        }
        let anew = image.request.policy == PackagePullPolicy::Always;
        let mut outcome = self.judge(image, digest, policy, anew, slot).await?;
        // It may have been signed since its signatures were fetched.
        if outcome.is_err() && !anew && image.request.policy != PackagePullPolicy::Never {
            outcome = self.judge(image, digest, policy, true, slot).await?;
        }
        match outcome {
            Ok(()) => {
                self.verified.insert(satisfied);
                Ok(())
            }
            Err(problem) => {
                let (image, config) = (image.request.image.clone(), config.clone());
                Err(VerificationProblem::Unverified { image, config, problem })
            }
        }
    }

    async fn judge(
        &self,
        image: &PreparedImage,
        digest: &str,
        policy: &SignaturePolicy,
        anew: bool,
        slot: &Slot,
    ) -> Result<Result<(), Unverified>, VerificationProblem> {
        let asking = self.options.source.signatures(image.pinned(digest), anew);
        let signatures = slot.wait_for(asking).await.map_err(VerificationProblem::Source)?;
        Ok(policy.verify(digest, &signatures))
    }

    /// What a config demands, with the keys that it names.
    pub(super) async fn signature_demands(
        &self,
        config: &ImageConfig,
    ) -> Result<SignatureDemands, ImageProblem> {
        let written = config.verification.clone().unwrap_or_default();
        let read: Option<ImageVerification> = serde_json::from_value(written).ok();
        let authorities = read.filter(|it| it.provider == COSIGN).and_then(|it| it.cosign);
        let mut policy = SignaturePolicy::default();
        for authority in authorities.map(|cosign| cosign.authorities).unwrap_or_default() {
            let trust = self.trust(&authority).await?;
            policy.authorities.push(Authority { name: authority.name, trust });
        }
        Ok(SignatureDemands { config: config.name.clone(), policy })
    }

    async fn trust(&self, authority: &CosignAuthority) -> Result<Trust, ImageProblem> {
        if !authority.attestations.is_empty() {
            return Ok(Trust::Unknown("this release cannot verify attestations".to_owned()));
        }
        let Some(key) = &authority.key else {
            let why = "this release verifies signatures by keys only, not by identities";
            return Ok(Trust::Unknown(why.to_owned()));
        };
        let (name, namespace) = (&key.secret_ref.name, &self.options.namespace);
        let Some(secret) = self.secret(name).await? else {
            return Ok(Trust::Unknown(format!("there is no Secret `{name}` in namespace `{namespace}`")));
        };
        Ok(match secret_value(&secret, &key.secret_ref.key) {
            Some(pem) => Trust::Key { pem, hash: key.hash_algorithm.clone() },
            None => Trust::Unknown(format!("Secret `{name}` has no key `{}`", key.secret_ref.key)),
        })
    }
}
