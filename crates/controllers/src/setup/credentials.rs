//! The certificates of a control plane on a cluster, in Secrets with Crossplane's names.
//!
//! | Secret | What it is | How long it is valid |
//! |---|---|---|
//! | root CA | the authority: `tls.crt`, `tls.key` | ten years; never replaced automatically, functions trust it |
//! | server | the certificate of webhooks: `tls.crt`, `tls.key`, `ca.crt` | a year; renewed four months before its end |
//! | client | the certificate for calling functions: the same keys | the same |
//!
//! # Invariants
//! * However many replicas start at the same time, all of them use the same certificates: a write fails if another replica was faster,
//!   and the Secret is read again.
//! * A valid certificate is not replaced, whatever created it.

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
/// How many times to retry after a write conflict.
const ATTEMPTS: usize = 20;

/// The purposes of certificates, and their Secrets.
#[derive(Debug, Clone)]
pub struct Names {
    pub namespace: String,
    pub authority_secret: String,
    pub server_secret: String,
    pub client_secret: String,
    /// The DNS names of webhook servers. Without any, no certificate is created.
    pub server: Vec<String>,
    /// Our name as a client of functions.
    pub client: String,
}

/// The certificates.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The certificate of the authority, in PEM.
    pub authority: String,
    /// Part of the URLs of webhooks, which only API servers and administrators can read: a client that knows it is an API server. Few
    /// clusters can be configured to authenticate to webhooks with a certificate.
    pub webhook_secret: String,
    /// The seed of random values in built-in functions. It must stay secret.
    pub function_secret: String,
    pub server: Option<Issued>,
    pub client: Issued,
    /// When to renew them.
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

/// Valid certificates: the existing ones, or new ones where they are missing or have to be renewed.
pub async fn credentials(
    cluster: &ApiClient,
    names: &Names,
    now: Timestamp,
) -> Result<Credentials, CredentialsError> {
    let secrets = Secrets { cluster, namespace: &names.namespace };
    let (authority, key) = secrets.authority(&names.authority_secret, now).await?;
    // The earliest of all leaves: they are renewed together, so that one timer will do.
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

/// The result that [`credentials`] would have.
#[derive(Debug)]
pub struct CredentialsStanding {
    /// By the names of Secrets.
    pub secrets: Vec<(String, Standing)>,
    /// The CA certificate and the secret of webhooks. None if there is no authority yet.
    pub authority: Option<(String, String)>,
}

/// Compute what [`credentials`] would do. Changes nothing.
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

/// The same for all replicas, and for the lifetime of the authority.
fn webhook_secret(key: &str) -> String {
    to_hex(&derived("webhooks", key)[..16])
}

fn function_secret(key: &str) -> String {
    to_hex(&derived("functions", key))
}

/// Derive a secret for one purpose. It reveals neither the key nor secrets for other purposes.
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

/// A certificate request with Crossplane's organisation, named after the first of its names if that is short enough.
fn request(names: &[String], purpose: Purpose) -> LeafRequest<'_> {
    let name = names.first().map_or("ferroplane", String::as_str);
    // X.509 limits common names to 64; all names are among the alternative names, which are what counts.
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

/// The authority in a Secret. It is created if it does not exist.
pub(crate) async fn authority(
    cluster: &ApiClient,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Result<Authority, CredentialsError> {
    let (authority, _) = Secrets { cluster, namespace }.authority(name, now).await?;
    Ok(authority)
}

/// A certificate, its key and its authority, as Secrets contain them.
pub(crate) struct LeafSecret(Data);

impl LeafSecret {
    pub(crate) fn of(secret: &Object) -> Self {
        Self(decode(secret))
    }

    /// A new certificate with this lifetime.
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

    /// Whether the certificate is valid for all of these names.
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
            // An incomplete authority is not replaced: it may be intended, and everything that trusts it would
            // break.
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
                // No warning: Crossplane's chart creates empty Secrets for us to fill.
                LeafStatus::Missing => {}
                LeafStatus::Bad(why) => warn!(name, why, "creating a new certificate"),
                LeafStatus::Good { .. } => {
                    warn!(name, why = "signed by another authority", "creating a new certificate");
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

    /// The data of a Secret, after it was completed if necessary.
    async fn settle(
        &self,
        name: &str,
        make: impl Fn(&Data) -> Result<Option<Data>, CredentialsError>,
    ) -> Result<Data, CredentialsError> {
        // Replicas start at the same time, and all of them find the same Secret empty.
        for _ in 0..ATTEMPTS {
            let present = self.read(name).await?;
            let data = decode(present.as_ref().unwrap_or(&Object::new()));
            let Some(new) = make(&data)? else { return Ok(data) };
            match self.write(name, present, &new).await {
                Ok(()) => info!(name, "wrote a Secret with a certificate"),
                // Another replica was faster: its certificate is used.
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
        // Other keys stay: charts and users put theirs into the same Secret.
        meta::child(&mut secret, "data").extend(encoded);
        let path = ObjectPath { resource: &resource, namespace: self.namespace, name };
        self.cluster.replace(path, Subresource::None, &secret).await.map(|_| ())
    }
}

/// The relevant data of a Secret. Invalid values are empty.
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
