//! One request to a registry: with authorization, along redirects, with a message if it fails.

use bytes::Bytes;
use ferroplane_api::image::Reference;
use http::header::{AUTHORIZATION, LOCATION, RETRY_AFTER, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use jiff::Timestamp;

use super::endpoint::Endpoint;
use super::http_client::Answer;
use super::retry::retry_after;
use super::{Failure, Registry};

/// How often a registry may redirect.
const MAX_REDIRECTS: usize = 5;
/// How much of an error is read and shown.
const MAX_ERROR_BYTES: usize = 8 << 10;
const MAX_ERROR_CHARACTERS: usize = 200;

/// A repository of a registry, and what is to be done with it.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    pub(super) endpoint: Endpoint,
    pub(super) name: String,
    actions: &'static str,
    /// Another repository of the registry, to take content from.
    source: Option<String>,
}

/// What to ask a registry.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// For messages.
    pub(super) what: &'static str,
}

impl Repository {
    /// Whom a token is for.
    pub(super) fn scope(&self) -> String {
        let own = format!("repository:{}:{}", self.name, self.actions);
        match &self.source {
            Some(source) => format!("{own} repository:{source}:pull"),
            None => own,
        }
    }

    /// What to ask a token server for: all that is to be done, where the registry names less for one request, else what it names.
    pub(super) fn wider(&self, asked: Option<String>) -> String {
        let own = format!("repository:{}:", self.name);
        asked.filter(|asked| !asked.starts_with(&own)).unwrap_or_else(|| self.scope())
    }

    pub(super) fn key(&self) -> String {
        format!("{} {}", self.endpoint.registry, self.scope())
    }

    /// The address of something in the repository.
    pub(super) fn uri(&self, path: &str) -> Result<Uri, Failure> {
        self.endpoint.uri(&format!("/v2/{}/{path}", self.name))
    }
}

impl Ask {
    pub(super) fn new(method: Method, uri: Uri, what: &'static str) -> Self {
        Self { method, uri, headers: HeaderMap::new(), body: Bytes::new(), what }
    }

    pub(super) fn get(uri: Uri, what: &'static str) -> Self {
        Self::new(Method::GET, uri, what)
    }

    #[must_use]
    pub(super) fn with(mut self, name: http::HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }
}

impl Registry {
    pub(super) async fn pulling(&self, reference: &Reference) -> Result<Repository, Failure> {
        self.repository(reference, "pull", None).await
    }

    pub(super) async fn pushing(
        &self,
        reference: &Reference,
        source: Option<&str>,
    ) -> Result<Repository, Failure> {
        self.repository(reference, "pull,push", source.map(str::to_owned)).await
    }

    async fn repository(
        &self,
        reference: &Reference,
        actions: &'static str,
        source: Option<String>,
    ) -> Result<Repository, Failure> {
        // Connecting is the first thing that fails when a registry starts.
        let endpoint = self.options().retries.run(|| self.endpoint(reference.registry())).await?;
        Ok(Repository { endpoint, name: reference.repository().to_owned(), actions, source })
    }

    /// Ask, and log in if the registry wants that. What is no success is a failure.
    pub(super) async fn ask(&self, repository: &Repository, ask: &Ask) -> Result<Answer, Failure> {
        let answer = self.ask_any(repository, ask).await?;
        match answer.head.status {
            status if status.is_success() => Ok(answer),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let has_credential = self.credential(repository).await?.is_some();
                let registry = repository.endpoint.registry.clone();
                Err(Failure::Unauthorized { registry, repository: repository.name.clone(), has_credential })
            }
            _ => Err(status_failure(ask.what, answer).await),
        }
    }

    /// The same, whatever the status is.
    pub(super) async fn ask_any(&self, repository: &Repository, ask: &Ask) -> Result<Answer, Failure> {
        let cached = self.inner.tokens.get(&repository.key());
        let answer = self.follow(repository, ask, cached.as_ref()).await?;
        if answer.head.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let challenges = answer.head.headers.get_all(WWW_AUTHENTICATE);
        let challenges: Vec<&str> = challenges.iter().filter_map(|value| value.to_str().ok()).collect();
        // Once: a new token that is refused, too, will not become better.
        match self.authorize(repository, &challenges).await? {
            Some(authorization) => self.follow(repository, ask, Some(&authorization)).await,
            None => Ok(answer),
        }
    }

    async fn follow(
        &self,
        repository: &Repository,
        ask: &Ask,
        authorization: Option<&HeaderValue>,
    ) -> Result<Answer, Failure> {
        let mut uri = ask.uri.clone();
        for _ in 0..=MAX_REDIRECTS {
            let is_origin = repository.endpoint.is_origin_of(&uri);
            let mut request = request(ask, &uri, authorization.filter(|_| is_origin), &repository.endpoint)?;
            request.headers_mut().insert(USER_AGENT, self.options().user_agent.clone());
            let answer = self.inner.http.send(request).await?;
            let may_follow = [Method::GET, Method::HEAD].contains(&ask.method);
            match answer.header(LOCATION) {
                Some(location) if answer.head.status.is_redirection() && may_follow => {
                    uri = self.redirected(&repository.endpoint, &uri, location)?;
                }
                // What another host thinks of us is no reason to send it a credential.
                _ if answer.head.status == StatusCode::UNAUTHORIZED && !is_origin => {
                    return Err(status_failure(ask.what, answer).await);
                }
                _ => return Ok(answer),
            }
        }
        let host = repository.endpoint.registry.clone();
        Err(Failure::Redirect { host, problem: "more than 5 times" })
    }
}

fn request(
    ask: &Ask,
    uri: &Uri,
    authorization: Option<&HeaderValue>,
    endpoint: &Endpoint,
) -> Result<Request<Full<Bytes>>, Failure> {
    let malformed = |_| Failure::Protocol { host: endpoint.registry.clone(), what: "an address" };
    let body = Full::new(ask.body.clone());
    let mut request = Request::builder().method(ask.method.clone()).uri(uri).body(body).map_err(malformed)?;
    *request.headers_mut() = ask.headers.clone();
    if let Some(authorization) = authorization {
        request.headers_mut().insert(AUTHORIZATION, authorization.clone());
    }
    Ok(request)
}

/// What an unwanted status means, with the registry's own words.
pub(super) async fn status_failure(what: &'static str, answer: Answer) -> Failure {
    let (host, status) = (answer.host.clone(), answer.head.status);
    let pause = answer.header(RETRY_AFTER).and_then(|header| retry_after(header, Timestamp::now()));
    let said = message(&answer.beginning(MAX_ERROR_BYTES).await);
    Failure::Status { host, what, status, said, pause }
}

/// The first message of an error as the specification has it. Other pages are not repeated.
fn message(content: &[u8]) -> String {
    let errors: serde_json::Value = serde_json::from_slice(content).unwrap_or_default();
    let text = |name: &str| errors["errors"][0][name].as_str().unwrap_or_default();
    let said = if text("message").is_empty() { text("code") } else { text("message") };
    said.chars().filter(|character| !character.is_control()).take(MAX_ERROR_CHARACTERS).collect()
}
