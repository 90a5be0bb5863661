//! Tokens of service accounts: who they are for, how long they hold, and what they are bound to.
//!
//! A token counts as long as its account, and whatever else it is bound to, still exists with the same uid.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::jwt::{self, KeyError, SigningKey};
use super::static_tokens::fingerprint;
use super::token_error::TokenError;
use super::{CREDENTIAL_ID, intersection};
use crate::auth::identity::Identity;
use crate::private_file;

/// How far clocks may differ, in seconds. What was deleted counts that much longer, too, as in Kubernetes.
const LEEWAY: i64 = 60;

/// The default limit of a token's lifetime. Kubernetes has no limit of its own, but those who run it for others
/// have: a token cannot be revoked but with its account, so that a copied one should expire.
pub const DEFAULT_MAX_EXPIRATION: Duration = Duration::from_hours(48);

/// Of how many tokens to remember that their signature is good.
const MOST_REMEMBERED: usize = 4_096;

/// What a token can be bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BoundKind {
    ServiceAccount,
    Secret,
    Pod,
    Node,
}

impl BoundKind {
    pub(super) fn resource(self) -> &'static str {
        match self {
            Self::ServiceAccount => "serviceaccounts",
            Self::Secret => "secrets",
            Self::Pod => "pods",
            Self::Node => "nodes",
        }
    }

    /// The name of the kind, as messages and claims begin with it.
    pub(super) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::ServiceAccount => ("service account", "serviceaccount"),
            Self::Secret => ("secret", "secret"),
            Self::Pod => ("pod", "pod"),
            Self::Node => ("node", "node"),
        }
    }
}

/// Where to look for what a token is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BoundObject<'b> {
    pub kind: BoundKind,
    /// Empty for nodes.
    pub namespace: &'b str,
    pub name: &'b str,
}

/// What was found there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    pub uid: String,
    /// The `deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// The service account that a pod runs as.
    pub service_account: String,
}

/// Finds the objects that tokens are bound to.
pub type Lookup = dyn Fn(BoundObject<'_>) -> Option<Found> + Send + Sync;

/// Issues and verifies tokens.
pub struct ServiceAccountTokens {
    issuer: String,
    audiences: Vec<String>,
    /// The first one signs. Others are on their way out.
    keys: Vec<SigningKey>,
    lookup: Box<Lookup>,
    /// For how many seconds a token holds at most.
    max_expiration: i64,
    /// Claims of tokens that a key of ours signed, by the digest of the token. To verify a signature takes longer than
    /// most requests, and its result never changes. Everything else is checked every time.
    signed: Mutex<HashMap<[u8; 32], Arc<Claims>>>,
}

impl std::fmt::Debug for ServiceAccountTokens {
    fn fmt(&self, output: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(output, "ServiceAccountTokens({})", self.issuer)
    }
}

/// Why the key of service accounts cannot be obtained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read or write `{path}`")]
    File { path: String, source: std::io::Error },
    #[error("cannot use the key in `{path}`")]
    Key { path: String, source: KeyError },
}

impl ServiceAccountTokens {
    /// Uses the key in a directory, and makes one if there is none. Tokens of the previous key count as well, if
    /// `service-accounts-previous.key` has it.
    pub fn open(directory: &Path, issuer: &str, lookup: Box<Lookup>) -> Result<Self, Error> {
        let path = directory.join("service-accounts.key");
        let key = match read_key(&path)? {
            Some(key) => key,
            None => make_key(&path)?,
        };
        let previous = read_key(&directory.join("service-accounts-previous.key"))?;
        let keys = std::iter::once(key).chain(previous).collect();
        Ok(Self::new(issuer, keys, lookup))
    }

    /// Issues tokens with a key that is not stored.
    pub fn ephemeral(issuer: &str, lookup: Box<Lookup>) -> Result<Self, KeyError> {
        Ok(Self::new(issuer, vec![SigningKey::generate()?], lookup))
    }

    fn new(issuer: &str, keys: Vec<SigningKey>, lookup: Box<Lookup>) -> Self {
        let (issuer, audiences) = (issuer.to_owned(), vec![issuer.to_owned()]);
        let max_expiration = DEFAULT_MAX_EXPIRATION.as_secs().cast_signed();
        Self { issuer, audiences, keys, lookup, max_expiration, signed: Mutex::default() }
    }

    /// Issue tokens that hold for another time at most.
    #[must_use]
    pub fn with_max_expiration(self, longest: Duration) -> Self {
        Self { max_expiration: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX), ..self }
    }

    pub(super) fn max_expiration(&self) -> i64 {
        self.max_expiration
    }

    /// Whom tokens for this server name.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// `/openid/v1/jwks`: the keys to verify tokens with.
    pub fn key_set(&self) -> Value {
        json!({"keys": self.keys.iter().map(SigningKey::to_jwk).collect::<Vec<_>>()})
    }

    /// `/.well-known/openid-configuration`: where to find the keys.
    pub fn discovery(&self, server: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("{server}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    pub(super) fn find(&self, object: BoundObject<'_>) -> Option<Found> {
        (self.lookup)(object)
    }

    pub(super) fn sign(&self, mut claims: Map<String, Value>) -> Option<String> {
        claims.insert("iss".to_owned(), json!(self.issuer));
        self.keys.first()?.sign(&Value::Object(claims))
    }

    /// Whose token it is, and for which of the audiences it is meant; or what is wrong with it.
    pub(super) fn verify(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<(Identity, Vec<String>), TokenError> {
        let claims = self.claims(token)?;
        if claims.issuer != self.issuer {
            return Err(TokenError::Invalid);
        }
        let meant = claims.audience.list();
        let common = intersection(meant, audiences);
        if common.is_empty() {
            return Err(TokenError::Audience { meant: meant.to_vec(), wanted: audiences.to_vec() });
        }
        claims.check_time(now)?;
        self.check_bound(&claims.kubernetes, now)?;
        Ok((claims.identity(), common))
    }

    /// What a token says, if a key of ours signed it.
    fn claims(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        let fingerprint = fingerprint(token);
        let lock = || self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claims) = lock().get(&fingerprint) {
            return Ok(Arc::clone(claims));
        }
        let claims = jwt::verify(token, &self.keys)?;
        let claims = Arc::new(Claims::deserialize(claims).map_err(|_| TokenError::Invalid)?);
        let mut signed = lock();
        // Everything at once: to know which was used last would cost every request a write, and each is verified again for
        // the price of one signature.
        if signed.len() >= MOST_REMEMBERED {
            signed.clear();
        }
        signed.insert(fingerprint, Arc::clone(&claims));
        Ok(claims)
    }

    /// Whether everything still exists.
    fn check_bound(&self, claims: &Kubernetes, now: Timestamp) -> Result<(), TokenError> {
        let namespace = claims.namespace.as_str();
        self.check_object(BoundKind::ServiceAccount, namespace, &claims.service_account, now)?;
        if let Some(secret) = &claims.secret {
            self.check_object(BoundKind::Secret, namespace, secret, now)?;
        }
        match (&claims.pod, &claims.node) {
            // The node of a pod is said for information.
            (Some(pod), _) => self.check_object(BoundKind::Pod, namespace, pod, now),
            (None, Some(node)) => self.check_object(BoundKind::Node, "", node, now),
            (None, None) => Ok(()),
        }
    }

    fn check_object(
        &self,
        kind: BoundKind,
        namespace: &str,
        claimed: &Reference,
        now: Timestamp,
    ) -> Result<(), TokenError> {
        let name = || claimed.name.clone();
        let invalidated = || match kind {
            BoundKind::ServiceAccount => {
                TokenError::ServiceAccountDeleted { namespace: namespace.to_owned(), name: name() }
            }
            _ => TokenError::Invalidated,
        };
        let found = self.find(BoundObject { kind, namespace, name: &claimed.name });
        let found = found.ok_or_else(|| match kind {
            BoundKind::ServiceAccount => TokenError::NoServiceAccount(name()),
            _ => invalidated(),
        })?;
        if found.uid != claimed.uid {
            // A client deleted it and made another one of the same name, which the token was not issued for.
            return Err(TokenError::Uid { kind, found: found.uid, claimed: claimed.uid.clone() });
        }
        let is_gone = |deleted: Timestamp| deleted.as_second() < now.as_second() - LEEWAY;
        if found.deleted.is_some_and(is_gone) { Err(invalidated()) } else { Ok(()) }
    }
}

fn read_key(path: &Path) -> Result<Option<SigningKey>, Error> {
    let shown = || path.display().to_string();
    let text = private_file::read(path).map_err(|source| Error::File { path: shown(), source })?;
    text.map(|pem| SigningKey::from_pem(&pem).map_err(|source| Error::Key { path: shown(), source }))
        .transpose()
}

fn make_key(path: &Path) -> Result<SigningKey, Error> {
    let shown = || path.display().to_string();
    let key = SigningKey::generate().map_err(|source| Error::Key { path: shown(), source })?;
    private_file::write(path, key.pem().as_bytes())
        .map_err(|source| Error::File { path: shown(), source })?;
    Ok(key)
}

#[derive(Deserialize)]
struct Claims {
    #[serde(rename = "iss")]
    issuer: String,
    #[serde(rename = "aud")]
    audience: Audience,
    #[serde(rename = "exp")]
    expiry: i64,
    #[serde(rename = "nbf")]
    not_before: Option<i64>,
    #[serde(rename = "iat")]
    issued_at: Option<i64>,
    #[serde(rename = "jti", default)]
    id: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
struct Kubernetes {
    namespace: String,
    #[serde(rename = "serviceaccount")]
    service_account: Reference,
    secret: Option<Reference>,
    pod: Option<Reference>,
    node: Option<Reference>,
}

#[derive(Deserialize)]
struct Reference {
    name: String,
    #[serde(default)]
    uid: String,
}

impl Audience {
    fn list(&self) -> &[String] {
        match self {
            Self::One(audience) => std::slice::from_ref(audience),
            Self::Many(list) => list,
        }
    }
}

impl Claims {
    fn check_time(&self, now: Timestamp) -> Result<(), TokenError> {
        let now = now.as_second();
        let begins = now.saturating_add(LEEWAY);
        if self.not_before.is_some_and(|time| begins < time) {
            return Err(TokenError::NotValidYet);
        }
        if now.saturating_sub(LEEWAY) > self.expiry {
            return Err(TokenError::Expired);
        }
        if self.issued_at.is_some_and(|time| begins < time) {
            return Err(TokenError::IssuedInFuture);
        }
        Ok(())
    }

    fn identity(&self) -> Identity {
        let Kubernetes { namespace, service_account, pod, node, .. } = &self.kubernetes;
        let mut identity = Identity::service_account(namespace, &service_account.name, &service_account.uid);
        let mut say = |key: &str, value: &str| {
            if !value.is_empty() {
                identity.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
            }
        };
        if let Some(pod) = pod {
            say("pod-name", &pod.name);
            say("pod-uid", &pod.uid);
        }
        if let Some(node) = node {
            say("node-name", &node.name);
            say("node-uid", &node.uid);
        }
        if !self.id.is_empty() {
            identity.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={}", self.id)]);
        }
        identity
    }
}
