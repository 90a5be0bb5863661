//! Authorization: what a registry's challenge is answered with, and the tokens that were handed out.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use form_urlencoded::Serializer;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body_util::Full;
use serde::Deserialize;

use super::challenge::Challenge;
use super::endpoint::{Endpoint, is_internal, is_loopback};
use super::exchange::Repository;
use super::http_client::{Answer, Outgoing, host};
use super::{Failure, Registry};
use crate::auth::Credential;

/// How large the answer of a token server may be.
const MAX_ANSWER: u64 = 256 << 10;
/// How long a token is valid that does not say so, as the specification has it.
const DEFAULT_VALIDITY: u64 = 60;
const LONGEST_VALIDITY: u64 = 3600;
const CLIENT: &str = "ferroplane";

/// What convinced a registry before, by repository and actions.
#[derive(Default)]
pub(super) struct TokenCache {
    tokens: Mutex<HashMap<String, Token>>,
}

struct Token {
    authorization: HeaderValue,
    expires_at: Option<Instant>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

impl TokenCache {
    pub(super) fn get(&self, key: &str) -> Option<HeaderValue> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let token = tokens.get(key)?;
        let is_valid = token.expires_at.is_none_or(|end| Instant::now() < end);
        is_valid.then(|| token.authorization.clone())
    }

    fn put(&self, key: String, authorization: HeaderValue, validity: Option<u64>) {
        // Not used in its last tenth: the request takes time, too.
        let expires_at = validity.map(|seconds| Instant::now() + Duration::from_millis(seconds * 900));
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, token| token.expires_at.is_none_or(|end| Instant::now() < end));
        tokens.insert(key, Token { authorization, expires_at });
    }
}

impl Registry {
    /// Answer a challenge. Returns nothing if there is no credential and none that can be obtained without one.
    pub(super) async fn authorize(
        &self,
        repository: &Repository,
        header: &[&str],
    ) -> Result<Option<HeaderValue>, Failure> {
        let endpoint = &repository.endpoint;
        let credential = self.credential(repository).await?;
        let challenges = header.iter().flat_map(|header| Challenge::parse(header));
        for challenge in challenges {
            let (authorization, validity) = match (challenge, &credential) {
                (_, Some(Credential::Bearer(token))) => (bearer(token), None),
                (Challenge::Basic, Some(Credential::Basic { username, password })) => {
                    (basic(username, password), None)
                }
                (Challenge::Basic, _) => continue,
                (Challenge::Bearer { realm, service, scope }, credential) => {
                    let realm = self.token_server(endpoint, &realm)?;
                    let scope = repository.wider(scope);
                    let request = token_request(&realm, service.as_deref(), &scope, credential.as_ref());
                    let request = request.ok_or(protocol(&realm))?;
                    let (token, validity) =
                        self.fetch_token(request, repository, credential.is_some()).await?;
                    (bearer(&token), Some(validity))
                }
            };
            let authorization = authorization
                .ok_or(Failure::Protocol { host: endpoint.registry.clone(), what: "the credential" })?;
            self.inner.tokens.put(repository.key(), authorization.clone(), validity);
            return Ok(Some(authorization));
        }
        Ok(None)
    }

    pub(super) async fn credential(&self, repository: &Repository) -> Result<Option<Credential>, Failure> {
        let credentials = &self.options().credentials;
        Ok(credentials.find(&repository.endpoint.registry, &repository.name).await?)
    }

    /// The address of a token server, if a credential may go there.
    pub(super) fn token_server(&self, endpoint: &Endpoint, realm: &str) -> Result<Uri, Failure> {
        let refuse = |host: String, problem| Failure::TokenServer { host, problem };
        let uri: Uri = realm
            .parse()
            .map_err(|_| refuse(endpoint.registry.clone(), "the registry names no address for it"))?;
        let name = host(&uri);
        let Some(authority) = uri.authority().filter(|authority| !authority.as_str().contains('@')) else {
            return Err(refuse(endpoint.registry.clone(), "the registry names no address for it"));
        };
        // As with redirects: a remote registry must not lead us to servers on this machine or in its network.
        if !endpoint.is_local() && !endpoint.has_host_of(&uri) && is_internal(authority.host()) {
            return Err(refuse(name, "it is at an address of this machine or its link"));
        }
        let is_plain_allowed = self.is_listed_as_plain(authority.as_str())
            || (endpoint.is_local() && is_loopback(authority.host()));
        match uri.scheme_str() {
            Some("https") => Ok(uri),
            Some("http") if endpoint.is_plain() && is_plain_allowed => Ok(uri),
            _ => Err(refuse(name, "it is not reached over HTTPS, and a credential could be read in transit")),
        }
    }

    async fn fetch_token(
        &self,
        request: Outgoing,
        repository: &Repository,
        has_credential: bool,
    ) -> Result<(String, u64), Failure> {
        let answer = self.inner.http.send(request).await?;
        match answer.head.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST => {
                let registry = repository.endpoint.registry.clone();
                return Err(Failure::Unauthorized {
                    registry,
                    repository: repository.name.clone(),
                    has_credential,
                });
            }
            // A redirect would take the credential somewhere else.
            status if status.is_redirection() => {
                let (host, problem) = (answer.host, "it redirects");
                return Err(Failure::TokenServer { host, problem });
            }
            _ => return Err(super::exchange::status_failure("the request for a token", answer).await),
        }
        read_token(answer).await
    }
}

async fn read_token(answer: Answer) -> Result<(String, u64), Failure> {
    let host = answer.host.clone();
    let content = answer.document("the answer of the token server", MAX_ANSWER).await?;
    let nothing = || Failure::TokenServer { host: host.clone(), problem: "it sends no token" };
    let answer: TokenAnswer = serde_json::from_slice(&content).map_err(|_| nothing())?;
    let token = answer.token.or(answer.access_token).filter(|token| !token.is_empty());
    let validity = answer.expires_in.unwrap_or(DEFAULT_VALIDITY).clamp(1, LONGEST_VALIDITY);
    Ok((token.ok_or_else(nothing)?, validity))
}

/// A token is asked for with a query, or with a form if the credential is a token itself.
fn token_request(
    realm: &Uri,
    service: Option<&str>,
    scope: &str,
    credential: Option<&Credential>,
) -> Option<Outgoing> {
    let mut fields = Serializer::new(String::new());
    if let Some(service) = service {
        fields.append_pair("service", service);
    }
    fields.append_pair("scope", scope);
    if let Some(Credential::Identity(token)) = credential {
        fields.append_pair("grant_type", "refresh_token").append_pair("client_id", CLIENT);
        fields.append_pair("refresh_token", token);
        let request = Request::post(realm).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        return request.body(Full::new(Bytes::from(fields.finish()))).ok();
    }
    fields.append_pair("client_id", CLIENT);
    let separator = if realm.query().is_some() { '&' } else { '?' };
    let mut request = Request::get(format!("{realm}{separator}{}", fields.finish()));
    if let Some(Credential::Basic { username, password }) = credential {
        request = request.header(AUTHORIZATION, basic(username, password)?);
    }
    request.body(Full::default()).ok()
}

fn basic(username: &str, password: &str) -> Option<HeaderValue> {
    sensitive(&format!("Basic {}", BASE64_STANDARD.encode(format!("{username}:{password}"))))
}

fn bearer(token: &str) -> Option<HeaderValue> {
    sensitive(&format!("Bearer {token}"))
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    // Keeps it out of debug output.
    value.set_sensitive(true);
    Some(value)
}

fn protocol(realm: &Uri) -> Failure {
    Failure::Protocol { host: host(realm), what: "the address" }
}
