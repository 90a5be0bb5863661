//! Verifies the signatures of packages, where an `ImageConfig` requires it.
//!
//! # Invariants
//! * An image is verified whenever a policy matches it, also if it was fetched before the policy was created.
//! * Keys and trusted roots are read each time. An image that was verified with the same ones is not verified again.
//! * A revision notes in its status which image satisfied which policy. As long as both are the same, a registry that does not answer stops
//!   nothing: signatures are of a digest, which never changes.
//! * Any other image that cannot be verified, because its registry gives no usable answer or a Secret cannot be read, counts as one that is not
//!   signed.
//! * A policy that was replaced while a registry was asked decides nothing: callers prepare the image again, and compare.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use ferroplane_api::{
    CosignAuthority, CosignIdentity, CosignKey, CosignKeyless, ImageConfig, ImageVerification, Object, keys,
    meta,
};
use ferroplane_package::signature::{
    Authority, Identity, Keyless, SignaturePolicy, TextMatch, Trust, Unverified,
};
use ferroplane_wire::to_hex;
use sha2::{Digest as _, Sha256};

use super::images::{ImageProblem, PreparedImage, secret_value};
use super::{Manager, PackagePullPolicy, SourceError};
use crate::runtime::queue::Slot;

/// How many verified images are remembered. One that is forgotten is verified again.
const REMEMBERED: usize = 10_000;
const COSIGN: &str = "Cosign";
/// The key of a trusted root of Sigstore in a Secret.
const TRUSTED_ROOT_KEY: &str = "trusted_root.json";
/// The field of the status of a revision with what its image satisfied.
pub(super) const VERIFICATION: &str = "verification";

/// The signatures that an `ImageConfig` requires of an image.
#[derive(Debug, PartialEq)]
pub(super) struct SignatureDemands {
    pub(super) config: String,
    policy: SignaturePolicy,
}

impl SignatureDemands {
    /// What the status of a revision notes of an image that satisfies them: a hash, since a policy may contain a trusted root.
    pub(super) fn note(&self, digest: &str) -> String {
        let text = serde_json::to_vec(&(&self.policy, digest));
        to_hex(&Sha256::digest(text.expect("a policy consists of texts, lists and flags")))
    }

    /// Whether a revision notes that the image with this digest satisfies them.
    fn are_noted(&self, revision: &Object, digest: &str) -> bool {
        let noted = revision.get("status").and_then(|status| status.get(VERIFICATION)?.as_str());
        noted.is_some_and(|noted| noted == self.note(digest))
    }
}

/// Whether signatures satisfy a policy, or why there are none to judge.
type Judgement = Result<Result<(), Unverified>, SourceError>;

fn is_unreachable(judgement: &Judgement) -> bool {
    judgement.as_ref().is_err_and(|error| error.is_unreachable)
}

/// Why an image is not verified.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerificationProblem {
    #[error("cannot use `{image}`: it cannot be verified as ImageConfig `{config}` demands: {why}")]
    Unanswered { image: String, config: String, why: String },
    #[error("cannot use `{image}`: it is not signed as ImageConfig `{config}` demands: {problem}")]
    Unverified { image: String, config: String, problem: Unverified },
}

impl VerificationProblem {
    /// An image that this config demands signatures of, and whose registry answers with an error.
    fn unanswered(image: &PreparedImage, config: &str, error: &SourceError) -> Self {
        let (image, why) = (image.request.image.clone(), image.explain(error));
        Self::Unanswered { image, config: config.to_owned(), why }
    }

    /// The same for any image. None if no signatures are demanded of it.
    pub(super) fn of_demanded(image: &PreparedImage, error: &SourceError) -> Option<Self> {
        image.demands.as_ref().map(|demands| Self::unanswered(image, &demands.config, error))
    }
}

/// The images that were verified since the start, by the policy that they satisfy. A policy may contain a trusted root: it is kept once,
/// and not with each image.
#[derive(Debug, Default)]
pub(super) struct VerifiedImages(Mutex<BTreeMap<SignaturePolicy, BTreeSet<String>>>);

impl VerifiedImages {
    fn contains(&self, policy: &SignaturePolicy, digest: &str) -> bool {
        let verified = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        verified.get(policy).is_some_and(|digests| digests.contains(digest))
    }

    fn insert(&self, policy: &SignaturePolicy, digest: &str) {
        let mut verified = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropping all entries is simple, and costs some verifications. No order has to be maintained.
        if verified.values().map(BTreeSet::len).sum::<usize>() >= REMEMBERED {
            verified.clear();
        }
        verified.entry(policy.clone()).or_default().insert(digest.to_owned());
    }
}

impl Manager {
    /// Whether the image with this digest has what is required of it, as far as is known without its registry.
    pub(super) fn is_verified(&self, image: &PreparedImage, digest: &str) -> bool {
        image.demands.as_ref().is_none_or(|demands| self.verified.contains(&demands.policy, digest))
    }

    /// Whether one of these revisions was made of this image, as its package names it, and has what is required of it.
    pub(super) fn has_verified(&self, demands: &SignatureDemands, image: &str, revisions: &[Object]) -> bool {
        revisions.iter().any(|revision| {
            let source = revision.get("spec").and_then(|spec| spec.get("image")?.as_str());
            let digest = meta::annotation(revision, keys::PACKAGE_DIGEST);
            let is_known =
                || self.verified.contains(&demands.policy, digest) || demands.are_noted(revision, digest);
            source == Some(image) && !digest.is_empty() && is_known()
        })
    }

    /// Verify the image with this digest, if an `ImageConfig` requires it. What one of these revisions notes counts while the registry does not
    /// answer.
    pub(super) async fn verify(
        &self,
        image: &PreparedImage,
        digest: &str,
        revisions: &[Object],
        slot: &Slot,
    ) -> Result<(), VerificationProblem> {
        let Some(demands) = &image.demands else { return Ok(()) };
        let SignatureDemands { config, policy } = demands;
        if self.is_verified(image, digest) {
            return Ok(());
        }
        // With the pull policy `Always`, cached signatures are not used either.
        let anew = image.request.policy == PackagePullPolicy::Always;
        let mut outcome = self.judge(image, digest, policy, anew, slot).await;
        // It may have been signed since its signatures were fetched.
        if matches!(outcome, Ok(Err(_))) && !anew && image.request.policy != PackagePullPolicy::Never {
            outcome = self.judge(image, digest, policy, true, slot).await;
        }
        if is_unreachable(&outcome) {
            // What was signed stays signed: the digest never changes.
            if anew && let Ok(Ok(())) = self.judge(image, digest, policy, false, slot).await {
                outcome = Ok(Ok(()));
            } else if revisions.iter().any(|revision| demands.are_noted(revision, digest)) {
                // Not remembered: the signatures are read as soon as the registry answers.
                return Ok(());
            }
        }
        match outcome.map_err(|error| VerificationProblem::unanswered(image, config, &error))? {
            Ok(()) => {
                self.verified.insert(policy, digest);
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
    ) -> Judgement {
        let asking = self.options.source.signatures(image.pinned(digest), anew);
        let mut signatures = slot.wait_for(asking).await?;
        if policy.demands_attestations() {
            let asking = self.options.source.attestations(image.pinned(digest), anew);
            signatures.extend(slot.wait_for(asking).await?);
        }
        Ok(policy.verify(digest, &signatures))
    }

    /// The requirements of a config, with the keys that it names.
    pub(super) async fn signature_demands(
        &self,
        config: &ImageConfig,
    ) -> Result<SignatureDemands, ImageProblem> {
        let written = config.verification.clone().unwrap_or_default();
        let read: Option<ImageVerification> = serde_json::from_value(written).ok();
        let authorities = read.filter(|it| it.provider == COSIGN).and_then(|it| it.cosign);
        let mut policy = SignaturePolicy::default();
        for authority in authorities.map(|cosign| cosign.authorities).unwrap_or_default() {
            let trust = self.trust(&authority, config).await?;
            let attestations = authority.attestations.into_iter().map(|it| it.predicate_type).collect();
            policy.authorities.push(Authority { name: authority.name, trust, attestations });
        }
        Ok(SignatureDemands { config: config.name.clone(), policy })
    }

    async fn trust(&self, authority: &CosignAuthority, config: &ImageConfig) -> Result<Trust, ImageProblem> {
        match (&authority.key, &authority.keyless) {
            (Some(key), _) => self.trust_in_key(key).await,
            (None, Some(keyless)) => self.trust_in_identities(keyless, &config.trusted_root).await,
            (None, None) => Ok(Trust::Unknown("it has neither a key nor identities".to_owned())),
        }
    }

    async fn trust_in_key(&self, key: &CosignKey) -> Result<Trust, ImageProblem> {
        let read = self.read_secret(&key.secret_ref.name, &key.secret_ref.key).await?;
        let hash = key.hash_algorithm.clone();
        Ok(read.map_or_else(Trust::Unknown, |pem| Trust::Key { pem, hash }))
    }

    /// Trust in keyless identities, with the trusted root in a Secret or, without a name, the public one.
    async fn trust_in_identities(&self, keyless: &CosignKeyless, root: &str) -> Result<Trust, ImageProblem> {
        let mut trusted_root = None;
        if !root.is_empty() {
            match self.read_secret(root, TRUSTED_ROOT_KEY).await? {
                Ok(content) => trusted_root = Some(content),
                Err(why) => return Ok(Trust::Unknown(why)),
            }
        }
        let identities = keyless.identities.iter().map(identity).collect();
        Ok(Trust::Keyless(Keyless { identities, ignores_sct: keyless.insecure_ignore_sct, trusted_root }))
    }

    /// The value of a key of a Secret in the namespace of the control plane, or why there is none.
    async fn read_secret(&self, name: &str, key: &str) -> Result<Result<Vec<u8>, String>, ImageProblem> {
        let namespace = &self.options.namespace;
        let Some(secret) = self.secret(name).await? else {
            return Ok(Err(format!("there is no Secret `{name}` in namespace `{namespace}`")));
        };
        let value = secret_value(&secret, key);
        Ok(value.ok_or_else(|| format!("Secret `{name}` has no key `{key}`")))
    }
}

fn identity(written: &CosignIdentity) -> Identity {
    Identity {
        issuer: demand(&written.issuer, &written.issuer_reg_exp),
        subject: demand(&written.subject, &written.subject_reg_exp),
    }
}

/// The requirement on a text. The pattern counts if there are both, as in cosign.
fn demand(text: &str, pattern: &str) -> Option<TextMatch> {
    match (text, pattern) {
        ("", "") => None,
        (text, "") => Some(TextMatch::Equal(text.to_owned())),
        (_, pattern) => Some(TextMatch::Pattern(pattern.to_owned())),
    }
}
