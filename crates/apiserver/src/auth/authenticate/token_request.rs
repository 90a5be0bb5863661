//! `TokenRequest`: a new token for a service account.

use aws_lc_rs::rand;
use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::status::{Resource, Status};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::service_account::{BoundKind, BoundObject, ServiceAccountTokens};
use crate::auth::identity::service_account_name;
use crate::hexadecimal;

const GROUP: &str = "authentication.k8s.io";
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
const DEFAULT: i64 = 3_600;

/// More audiences than any token has.
const MOST_AUDIENCES: usize = 100;

/// The account that a token is for.
#[derive(Debug, Clone, Copy)]
pub struct ServiceAccount<'s> {
    pub namespace: &'s str,
    pub name: &'s str,
    pub uid: &'s str,
}

/// The answer to a request for a token.
#[derive(Debug)]
pub struct TokenAnswer {
    /// The request itself, with the token in its status.
    pub request: Map<String, Value>,
    /// What the client should be told beside.
    pub warnings: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    audiences: Option<Vec<String>>,
    expiration_seconds: Option<i64>,
    bound_object_ref: Option<Reference>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Reference {
    kind: String,
    api_version: String,
    name: String,
    uid: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
}

impl ServiceAccountTokens {
    /// Answers a request for a token. One that asks for a token that holds too long gets one that holds for less, with a warning, as from
    /// kube-apiserver with `--service-account-max-token-expiration`.
    pub fn request(
        &self,
        account: ServiceAccount<'_>,
        request: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<TokenAnswer, Status> {
        let metadata: Metadata = read(request, "metadata")?;
        let mut spec: Spec = read(request, "spec")?;
        check_metadata(&metadata, account)?;
        let requested = *spec.expiration_seconds.get_or_insert(DEFAULT);
        let audiences = match spec.audiences {
            Some(audiences) if !audiences.is_empty() => audiences,
            _ => self.audiences().to_vec(),
        };
        check_spec(requested, &audiences)?;
        let seconds = requested.min(self.max_expiration());
        let is_shortened = seconds < requested;
        let warning =
            || format!("requested expiration of {requested} seconds shortened to {seconds} seconds");
        let bound = spec.bound_object_ref.map(|reference| self.bind(&reference, account)).transpose()?;

        let expiry = now.as_second().saturating_add(seconds);
        let token = self.issue(account, &audiences, now.as_second(), expiry, bound)?;
        let request = answer(request, account, &audiences, seconds, now, &token);
        Ok(TokenAnswer { request, warnings: is_shortened.then(warning).into_iter().collect() })
    }

    fn issue(
        &self,
        account: ServiceAccount<'_>,
        audiences: &[String],
        now: i64,
        expiry: i64,
        bound: Option<(&'static str, Value)>,
    ) -> Result<String, Status> {
        let mut kubernetes = json!({
            "namespace": account.namespace,
            "serviceaccount": {"name": account.name, "uid": account.uid},
        });
        if let Some((claim, reference)) = bound {
            kubernetes[claim] = reference;
        }
        let failed = || Status::internal("failed to generate token");
        let claims = Map::from_iter([
            ("aud".to_owned(), json!(audiences)),
            ("exp".to_owned(), json!(expiry)),
            ("iat".to_owned(), json!(now)),
            ("nbf".to_owned(), json!(now)),
            ("jti".to_owned(), json!(random_uuid().ok_or_else(failed)?)),
            ("sub".to_owned(), json!(service_account_name(account.namespace, account.name))),
            ("kubernetes.io".to_owned(), kubernetes),
        ]);
        self.sign(claims).ok_or_else(failed)
    }

    /// What a token is to be bound to, as a claim.
    fn bind(
        &self,
        reference: &Reference,
        account: ServiceAccount<'_>,
    ) -> Result<(&'static str, Value), Status> {
        let (kind, claim) = match (reference.api_version.as_str(), reference.kind.as_str()) {
            ("v1", "Secret") => (BoundKind::Secret, "secret"),
            ("v1", "Pod") => (BoundKind::Pod, "pod"),
            ("v1", "Node") => (BoundKind::Node, "node"),
            (version, kind) => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                let message = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(Status::bad_request(&message));
            }
        };
        let namespace = if kind == BoundKind::Node { "" } else { account.namespace };
        let found = self.find(BoundObject { kind, namespace, name: &reference.name });
        let resource = Resource::new("", kind.resource());
        let found = found.ok_or_else(|| Status::not_found(&resource, &reference.name))?;
        // A token that is bound to a pod speaks for the pod, so that it must be the account the pod runs as.
        if kind == BoundKind::Pod && found.service_account != account.name {
            let name = ferroplane_golang::strconv::quote(account.name);
            return Err(Status::bad_request(&format!(
                "cannot bind token for serviceaccount {name} to pod running with different serviceaccount name."
            )));
        }
        if !reference.uid.is_empty() && reference.uid != found.uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. \
                 The object might have been deleted and then recreated",
                reference.uid
            );
            return Err(Status::conflict(&Resource::new("", &reference.kind), &reference.name, &why));
        }
        Ok((claim, json!({"name": reference.name, "uid": found.uid})))
    }
}

fn read<'r, T: Deserialize<'r> + Default>(request: &'r Map<String, Value>, field: &str) -> Result<T, Status> {
    match request.get(field) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => T::deserialize(value).map_err(|error| Status::bad_request(&error.to_string())),
    }
}

fn check_metadata(metadata: &Metadata, account: ServiceAccount<'_>) -> Result<(), Status> {
    let path = Path::new("metadata");
    for (given, own, field) in
        [(&metadata.name, account.name, "name"), (&metadata.namespace, account.namespace, "namespace")]
    {
        if !given.is_empty() && given != own {
            let why = format!("must match the service account {field} if specified");
            let error = Error::invalid(&path.child(field), given.as_str(), why);
            return Err(Status::invalid(&kind(), account.name, &[error]));
        }
    }
    if !metadata.uid.is_empty() && metadata.uid != account.uid {
        let why = format!(
            "the UID in the token request ({}) does not match the UID of the service account ({})",
            metadata.uid, account.uid
        );
        return Err(Status::conflict(&kind(), account.name, &why));
    }
    Ok(())
}

fn check_spec(seconds: i64, audiences: &[String]) -> Result<(), Status> {
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    let expiration = spec.child("expirationSeconds");
    if seconds < SHORTEST {
        errors.push(Error::invalid(&expiration, seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > LONGEST {
        errors.push(Error::invalid(
            &expiration,
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        ));
    }
    if audiences.len() > MOST_AUDIENCES || audiences.iter().map(String::len).sum::<usize>() > 4 << 10 {
        let count = i64::try_from(audiences.len()).unwrap_or(i64::MAX);
        errors.push(Error::too_many(&spec.child("audiences"), count, 100));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&kind(), "", &errors)) }
}

fn kind() -> Resource {
    Resource::new(GROUP, "TokenRequest")
}

fn answer(
    request: &Map<String, Value>,
    account: ServiceAccount<'_>,
    audiences: &[String],
    seconds: i64,
    now: Timestamp,
    token: &str,
) -> Map<String, Value> {
    let mut metadata = request.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let created = whole_seconds(now, 0);
    for (key, value) in [
        ("name", account.name),
        ("namespace", account.namespace),
        ("uid", account.uid),
        ("creationTimestamp", &created),
    ] {
        metadata.insert(key.to_owned(), json!(value));
    }
    let bound = request.get("spec").and_then(|spec| spec.get("boundObjectRef")).cloned();
    let spec = json!({"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound});
    let status = json!({"token": token, "expirationTimestamp": whole_seconds(now, seconds)});
    Map::from_iter([
        ("apiVersion".to_owned(), json!(format!("{GROUP}/v1"))),
        ("kind".to_owned(), json!("TokenRequest")),
        ("metadata".to_owned(), Value::Object(metadata)),
        ("spec".to_owned(), spec),
        ("status".to_owned(), status),
    ])
}

/// The time in so many seconds, as the API writes times.
fn whole_seconds(now: Timestamp, seconds: i64) -> String {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    whole.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(whole).to_string()
}

/// A random (version 4) uuid, or none if there is no randomness to be had.
pub(crate) fn random_uuid() -> Option<String> {
    let mut bytes = [0_u8; 16];
    rand::fill(&mut bytes).ok()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hexadecimal::encode(&bytes);
    Some([&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-"))
}
