//! A client for registries: pulls images into a [`Store`](crate::store::Store), pushes them from there, resolves and lists tags.
//!
//! Follows the OCI distribution specification 1.1. ADR 0028 says why it is our own.
//!
//! # Invariants
//! * TLS is verified. Plain HTTP is spoken to the loopback, if what listens there does not speak TLS, and to listed registries.
//! * Credentials go to the registry that they are for and to its token server, never along a redirect to another host.
//! * Every answer is bounded in size and time, before and while it is read. Retries are bounded in number and time.
//! * What is pulled has the digest under which it was asked for; a tag is resolved once.

mod attestations;
mod blobs;
mod bundles;
mod challenge;
mod connector;
mod endpoint;
mod error;
mod exchange;
mod http_client;
mod manifests;
mod proxy;
mod pull;
mod pull_all;
mod push;
mod retry;
mod signatures;
mod tags;
mod token;
mod upload;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use endpoint::Endpoint;
use http::HeaderValue;
use http_client::HttpClient;
use token::TokenCache;
use tokio::time::timeout;

use crate::auth::Credentials;

pub use connector::TlsError;
pub use error::{Error, Failure};
pub use proxy::Proxies;
pub use pull::{Progress, Pull, PullPolicy, Pulled};
pub use pull_all::PulledIndex;
pub use push::Push;
pub use retry::RetryPolicy;
pub use signatures::{ImageSignature, SignedStatement};

/// How to talk to registries.
#[derive(Debug, Clone)]
pub struct Options {
    pub credentials: Credentials,
    /// Certificate authorities in PEM, beside those of the system.
    pub authorities: Vec<u8>,
    /// Registries (`host` or `host:port`) that are spoken to without TLS.
    pub plain_http: Vec<String>,
    /// Those that the variables of this process name, unless said otherwise.
    pub proxies: Proxies,
    /// What registries are shown as the name of the client.
    pub user_agent: HeaderValue,
    pub retries: RetryPolicy,
    pub timeouts: Timeouts,
    /// How many blobs of an image are transferred at the same time.
    pub parallel_blobs: usize,
    /// How large an image may be, all its blobs together.
    pub max_image_bytes: u64,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// To connect, with TLS.
    pub connect: Duration,
    /// From a request to the head of its answer.
    pub answer: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
    /// A whole question: the tags of a repository, a digest, or the signatures of an image, with all retries.
    pub question: Duration,
    /// A whole pull or push.
    pub total: Duration,
}

/// A client for registries. Clones share connections and tokens.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    http: HttpClient,
    options: Options,
    endpoints: Mutex<HashMap<String, Endpoint>>,
    tokens: TokenCache,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            credentials: Credentials::anonymous(),
            authorities: Vec::new(),
            plain_http: Vec::new(),
            proxies: Proxies::from_environment(),
            user_agent: HeaderValue::from_static(concat!("ferroplane/", env!("CARGO_PKG_VERSION"))),
            retries: RetryPolicy::default(),
            timeouts: Timeouts::default(),
            // As many as Docker and containerd fetch at the same time.
            parallel_blobs: 3,
            // A limit for what a manifest claims, so that a mistyped image cannot fill a disk.
            max_image_bytes: 8 << 30,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            answer: Duration::from_secs(30),
            idle: Duration::from_secs(30),
            // Longer than a registry may ask to wait.
            question: Duration::from_mins(2),
            total: Duration::from_mins(30),
        }
    }
}

impl Registry {
    /// Connects when something is asked for.
    pub fn new(options: Options) -> Result<Self, TlsError> {
        let http = HttpClient::new(&options.authorities, options.proxies.clone(), options.timeouts)?;
        let (endpoints, tokens) = (Mutex::default(), TokenCache::default());
        Ok(Self { inner: Arc::new(Inner { http, options, endpoints, tokens }) })
    }

    fn options(&self) -> &Options {
        &self.inner.options
    }

    /// The answer to a question, if there is one in time: a registry may send a byte now and then for ever.
    async fn in_time<T>(&self, asking: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let limit = self.options().timeouts.question;
        timeout(limit, asking).await.unwrap_or(Err(Failure::Deadline { seconds: limit.as_secs() }))
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Registry").finish_non_exhaustive()
    }
}
