//! Certificates that a control plane on a cluster has, kept in Secrets under the names that Crossplane has for them.
//!
//! | Secret | What it is | How long it holds |
//! |---|---|---|
//! | root CA | the authority: `tls.crt`, `tls.key` | ten years; never replaced by itself, functions trust it |
//! | server | what webhooks are served with: `tls.crt`, `tls.key`, `ca.crt` | a year; renewed four months before its end |
//! | client | what functions are called with: the same keys | the same |
//!
//! # Invariants
//! * However many replicas start at the same time, all of them use the same certificates: what is written is written only if
//!   nobody else did, and read again otherwise.
//! * What is there and will do is not written again, whoever made it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_api::{Object, meta};
use ferroplane_certificates::{
    Authority, Issued, LeafRequest, LeafStatus, Profile, Purpose, SignError, Unusable, leaf_status,
};
use ferroplane_client::{ApiClient, Error, ObjectPath, Resource, Subresource};
use ferroplane_wire::to_hex;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tracing::{info, warn};

use crate::setup::webhook::Standing;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITY: &str = "ca.crt";
/// How often to look again because somebody else was faster.
const ATTEMPTS: usize = 20;

/// What certificates are for, and where they are kept.
#[derive(Debug, Clone)]
pub struct Names {
    pub namespace: String,
    pub authority_secret: String,
    pub server_secret: String,
    pub client_secret: String,
    /// What servers of webhooks are called. No certificate is made for none.
    pub server: Vec<String>,
    /// What we are called by functions.
    pub client: String,
}

/// Certificates to work with.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The certificate of the authority, in PEM.
    pub authority: String,
    /// Part of the addresses of webhooks, which only API servers and administrators can read: who asks at such an address is an
    /// API server. Few clusters can be told to show a certificate to webhooks.
    pub webhook_secret: String,
    /// What random values of built-in functions are drawn from. Nobody else knows it.
    pub function_secret: String,
    pub server: Option<Issued>,
    pub client: Issued,
    /// When to ask for them again.
    pub renewal: Timestamp,
}

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("cannot read or write the Secret `{name}`")]
    Secret { name: String, source: Error },
    #[error("cannot write the Secret `{name}`: there is no namespace `{namespace}`; create it first")]
    NoNamespace { name: String, namespace: String },
    #[error("cannot write the Secret `{name}`: it keeps changing")]
    Contested { name: String },
    #[error(
        "cannot use the certificate authority in the Secret `{name}`: {why}; delete that Secret, and restart everything that trusts it, to have a new one made"
    )]
    Authority { name: String, why: String },
    #[error("cannot sign a certificate")]
    Sign(#[source] SignError),
}

/// Certificates that hold: those that are there, or new ones where they are missing or have to be renewed.
pub async fn credentials(
    cluster: &ApiClient,
    names: &Names,
    now: Timestamp,
) -> Result<Credentials, CredentialsError> {
    let secrets = Secrets { cluster, namespace: &names.namespace };
    let (authority, key) = secrets.authority(&names.authority_secret, now).await?;
    let mut renewal = Timestamp::MAX;
    let mut server = None;
    if !names.server.is_empty() {
        let leaf =
            secrets.leaf(&names.server_secret, &authority, &names.server, Purpose::Server, now).await?;
        renewal = renewal.min(leaf.1);
        server = Some(leaf.0);
    }
    let client = std::slice::from_ref(&names.client);
    let (client, client_renewal) =
        secrets.leaf(&names.client_secret, &authority, client, Purpose::Client, now).await?;
    renewal = renewal.min(client_renewal);
    let authority = authority.certificate().to_owned();
    let (webhook_secret, function_secret) = (webhook_secret(&key), function_secret(&key));
    Ok(Credentials { authority, webhook_secret, function_secret, server, client, renewal })
}

/// What [`credentials`] would come to.
#[derive(Debug)]
pub struct CredentialsStanding {
    /// By the names of Secrets.
    pub secrets: Vec<(String, Standing)>,
    /// The certificate of the authority and the secret of webhooks. Nothing if there is no authority yet.
    pub authority: Option<(String, String)>,
}

/// What [`credentials`] would come to. Changes nothing.
pub async fn credentials_standing(
    cluster: &ApiClient,
    names: &Names,
    now: Timestamp,
) -> Result<CredentialsStanding, CredentialsError> {
    let secrets = Secrets { cluster, namespace: &names.namespace };
    let present = secrets.read(&names.authority_secret).await?;
    let data = decode(present.as_ref().unwrap_or(&Object::new()));
    let is_empty = data[CERTIFICATE].is_empty() && data[KEY].is_empty();
    let mut found = vec![(names.authority_secret.clone(), standing(present.is_some(), !is_empty))];
    let mut authority = None;
    if !is_empty {
        let name = &names.authority_secret;
        let unusable = |why| CredentialsError::Authority { name: name.clone(), why: explain(why) };
        authority = Some(Authority::read(&data[CERTIFICATE], &data[KEY], now).map_err(unusable)?);
    }
    let server = (!names.server.is_empty()).then_some((&names.server_secret, names.server.as_slice()));
    let client = (&names.client_secret, std::slice::from_ref(&names.client));
    for (secret, wanted) in server.into_iter().chain([client]) {
        let present = secrets.read(secret).await?;
        let leaf = decode(present.as_ref().unwrap_or(&Object::new()));
        let is_good = authority.as_ref().is_some_and(|authority| is_good(&leaf, authority, wanted, now));
        found.push((secret.clone(), standing(present.is_some(), is_good)));
    }
    let known = |authority: Authority| (authority.certificate().to_owned(), webhook_secret(&data[KEY]));
    Ok(CredentialsStanding { secrets: found, authority: authority.map(known) })
}

/// The same for all replicas, and as long as the authority is.
fn webhook_secret(key: &str) -> String {
    to_hex(&derived("webhooks", key)[..16])
}

fn function_secret(key: &str) -> String {
    to_hex(&derived("functions", key))
}

/// A secret for one purpose. Who knows it learns nothing of the key, nor of secrets for other purposes.
fn derived(purpose: &str, key: &str) -> [u8; 32] {
    let digest = Sha256::new().chain_update(format!("ferroplane.io/{purpose}\n")).chain_update(key.trim());
    digest.finalize().into()
}

fn standing(is_present: bool, is_good: bool) -> Standing {
    match (is_present, is_good) {
        (false, _) => Standing::Missing,
        (true, false) => Standing::Different,
        (true, true) => Standing::Same,
    }
}

fn is_good(data: &Data, authority: &Authority, names: &[String], now: Timestamp) -> bool {
    let status = leaf_status(&issued(data), authority, names, now);
    matches!(status, LeafStatus::Good { .. }) && data[AUTHORITY].trim() == authority.certificate().trim()
}

type Data = BTreeMap<&'static str, String>;

fn issued(data: &Data) -> Issued {
    Issued { certificate: data[CERTIFICATE].clone(), key: data[KEY].clone() }
}

/// A certificate with Crossplane's organization, named after the first of its names, as far as there is room for it.
fn request(names: &[String], purpose: Purpose) -> LeafRequest<'_> {
    let name = names.first().map_or("ferroplane", String::as_str);
    let common_name = &name[..name.floor_char_boundary(64)];
    LeafRequest { common_name, organizations: &["Crossplane"], names, purpose }
}

fn explain(why: Unusable) -> String {
    match why {
        Unusable::NotACertificate => "`tls.crt` is not a certificate".to_owned(),
        Unusable::NotAnAuthority => "`tls.crt` is not the certificate of an authority".to_owned(),
        Unusable::OtherKey => "`tls.key` is not a key, or belongs to another certificate".to_owned(),
        Unusable::Expired => "it has expired".to_owned(),
        Unusable::Other(why) => why,
    }
}

/// The authority in a Secret. It is made if there is none.
pub(crate) async fn authority(
    cluster: &ApiClient,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Result<Authority, CredentialsError> {
    let (authority, _) = Secrets { cluster, namespace }.authority(name, now).await?;
    Ok(authority)
}

/// A certificate, its key and its authority, as Secrets hold them.
pub(crate) struct LeafSecret(Data);

impl LeafSecret {
    pub(crate) fn of(secret: &Object) -> Self {
        Self(decode(secret))
    }

    /// A new certificate, which holds so long.
    pub(crate) fn make(
        authority: &Authority,
        names: &[String],
        purpose: Purpose,
        now: Timestamp,
        lifetime: SignedDuration,
    ) -> Result<Self, SignError> {
        let made = authority.issue_lasting(&request(names, purpose), now, lifetime)?;
        let authority = authority.certificate().to_owned();
        Ok(Self([(CERTIFICATE, made.certificate), (KEY, made.key), (AUTHORITY, authority)].into()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.values().all(String::is_empty)
    }

    /// Whether the certificate will do for all of these names.
    pub(crate) fn is_good(&self, authority: &Authority, names: &[String], now: Timestamp) -> bool {
        is_good(&self.0, authority, names, now)
    }

    pub(crate) fn write_to(&self, secret: &mut Object) {
        meta::child(secret, "data").extend(encode(&self.0));
    }
}

fn encode(data: &Data) -> Object {
    data.iter().map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value).into())).collect()
}

struct Secrets<'a> {
    cluster: &'a ApiClient,
    namespace: &'a str,
}

impl Secrets<'_> {
    /// The authority, and its key in PEM.
    async fn authority(&self, name: &str, now: Timestamp) -> Result<(Authority, String), CredentialsError> {
        let unusable = |why| CredentialsError::Authority { name: name.to_owned(), why: explain(why) };
        let data = self.settle(name, |data| {
            if !data[CERTIFICATE].is_empty() || !data[KEY].is_empty() {
                return Ok(None);
            }
            let made = Profile::Crossplane.make(now).map_err(CredentialsError::Sign)?;
            Ok(Some(Data::from([(CERTIFICATE, made.certificate), (KEY, made.key)])))
        });
        let data = data.await?;
        let authority = Authority::read(&data[CERTIFICATE], &data[KEY], now).map_err(unusable)?;
        Ok((authority, data[KEY].clone()))
    }

    /// A certificate for these names, and when to renew it.
    async fn leaf(
        &self,
        name: &str,
        authority: &Authority,
        names: &[String],
        purpose: Purpose,
        now: Timestamp,
    ) -> Result<(Issued, Timestamp), CredentialsError> {
        let status = |data: &Data| leaf_status(&issued(data), authority, names, now);
        let data = self.settle(name, |data| {
            let is_of_authority = data[AUTHORITY].trim() == authority.certificate().trim();
            match status(data) {
                LeafStatus::Good { .. } if is_of_authority => return Ok(None),
                LeafStatus::Missing => {}
                LeafStatus::Bad(why) => warn!(name, why, "creating a new certificate"),
                LeafStatus::Good { .. } => {
                    warn!(name, why = "it is another authority's", "creating a new certificate");
                }
            }
            let made = authority.issue(&request(names, purpose), now).map_err(CredentialsError::Sign)?;
            let authority = authority.certificate().to_owned();
            Ok(Some(Data::from([(CERTIFICATE, made.certificate), (KEY, made.key), (AUTHORITY, authority)])))
        });
        let data = data.await?;
        let renewal = match status(&data) {
            LeafStatus::Good { renewal } => renewal,
            LeafStatus::Missing | LeafStatus::Bad(_) => now,
        };
        Ok((issued(&data), renewal))
    }

    /// What a Secret says once nothing has to be made of it any more.
    async fn settle(
        &self,
        name: &str,
        make: impl Fn(&Data) -> Result<Option<Data>, CredentialsError>,
    ) -> Result<Data, CredentialsError> {
        for _ in 0..ATTEMPTS {
            let present = self.read(name).await?;
            let data = decode(present.as_ref().unwrap_or(&Object::new()));
            let Some(new) = make(&data)? else { return Ok(data) };
            match self.write(name, present, &new).await {
                Ok(()) => info!(name, "wrote a Secret with a certificate"),
                // Another replica was faster: what it made counts.
                Err(error) if error.is_conflict() || error.is_already_exists() => {}
                Err(error) if error.is_not_found() => {
                    let namespace = self.namespace.to_owned();
                    return Err(CredentialsError::NoNamespace { name: name.to_owned(), namespace });
                }
                Err(source) => return Err(CredentialsError::Secret { name: name.to_owned(), source }),
            }
        }
        Err(CredentialsError::Contested { name: name.to_owned() })
    }

    async fn read(&self, name: &str) -> Result<Option<Object>, CredentialsError> {
        let resource = secrets();
        let path = ObjectPath { resource: &resource, namespace: self.namespace, name };
        let secret = self.cluster.get_object(path).await;
        secret.map_err(|source| CredentialsError::Secret { name: name.to_owned(), source })
    }

    async fn write(&self, name: &str, present: Option<Object>, data: &Data) -> Result<(), Error> {
        let resource = secrets();
        let encoded = encode(data);
        let Some(mut secret) = present else {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": self.namespace},
                "type": "Opaque", "data": encoded,
            });
            let Value::Object(secret) = secret else { return Ok(()) };
            return self.cluster.create(&resource, self.namespace, &secret).await.map(|_| ());
        };
        meta::child(&mut secret, "data").extend(encoded);
        let path = ObjectPath { resource: &resource, namespace: self.namespace, name };
        self.cluster.replace(path, Subresource::None, &secret).await.map(|_| ())
    }
}

/// What of a Secret is of interest. What cannot be read is empty.
fn decode(secret: &Object) -> Data {
    let text = |key: &str| {
        let encoded = secret.get("data").and_then(|data| data.get(key)?.as_str()).unwrap_or_default();
        let bytes = STANDARD.decode(encoded).ok();
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    };
    [CERTIFICATE, KEY, AUTHORITY].map(|key| (key, text(key))).into()
}

pub(crate) fn secrets() -> Resource {
    Resource {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        plural: "secrets".to_owned(),
        is_namespaced: true,
    }
}
