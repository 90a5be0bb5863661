//! Asks the API server whether a client that shows a token may read a page.
//!
//! The question is sent with the token of the caller and with nothing of ours. So the API server authenticates and authorizes in
//! one answer, this process needs no right to review tokens, and a token is worth here what it is worth there.

use std::time::Duration;

use ferroplane_client::{ApiClient, BearerToken, Endpoint, Error, Transport};
use http::{HeaderMap, StatusCode, header};
use serde_json::json;
use tracing::warn;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who may read pages that are not for everybody.
#[derive(Debug, Clone)]
pub(super) struct Callers {
    /// The API server, without credentials.
    endpoint: Endpoint,
}

/// Why a page is not shown: a code, and words for a person.
type Refusal = (StatusCode, String);

impl Callers {
    /// Those whom this API server knows. Of the endpoint's own credentials none is used: with a client certificate beside it, a
    /// token would not be checked, and everybody would be us.
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        Self { endpoint: Endpoint { identity: None, token: None, impersonation: None, ..endpoint.clone() } }
    }

    /// Nothing if a client that sent these headers may do this with a path.
    pub(super) async fn authorize(&self, headers: &HeaderMap, verb: &str, path: &str) -> Result<(), Refusal> {
        let client = self.client(headers)?;
        let answer = tokio::time::timeout(PATIENCE, may(&client, verb, path)).await;
        match answer {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err((StatusCode::FORBIDDEN, forbidden(verb, path))),
            Ok(Err(Error::Refused(status))) if status.code == StatusCode::UNAUTHORIZED.as_u16() => {
                Err((StatusCode::UNAUTHORIZED, "the API server does not accept the token\n".to_owned()))
            }
            Ok(Err(Error::Refused(status))) if status.code == StatusCode::FORBIDDEN.as_u16() => {
                Err((StatusCode::FORBIDDEN, forbidden(verb, path)))
            }
            Ok(Err(error)) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    path, "cannot check whether a client may read a page"
                );
                Err((StatusCode::SERVICE_UNAVAILABLE, "cannot reach the API server; try again\n".to_owned()))
            }
            Err(_) => Err((
                StatusCode::SERVICE_UNAVAILABLE,
                "the API server does not answer; try again\n".to_owned(),
            )),
        }
    }

    /// The API server as a client that sent these headers sees it.
    pub(super) fn client(&self, headers: &HeaderMap) -> Result<ApiClient, Refusal> {
        let Some(token) = bearer_token(headers) else {
            let words = "show a token of the API server: curl -H \"Authorization: Bearer $(kubectl create token …)\"\n";
            return Err((StatusCode::UNAUTHORIZED, words.to_owned()));
        };
        let token = Some(BearerToken::Text(token.to_owned()));
        let endpoint = Endpoint { token, ..self.endpoint.clone() };
        let transport = Transport::new(endpoint).map_err(|error| {
            warn!(
                error = &error as &dyn std::error::Error,
                "cannot connect to the API server with the token of a client"
            );
            (StatusCode::SERVICE_UNAVAILABLE, "cannot reach the API server; try again\n".to_owned())
        })?;
        Ok(ApiClient::new(kube::Client::new(transport, "default")).with_timeout(PATIENCE))
    }
}

async fn may(client: &ApiClient, verb: &str, path: &str) -> Result<bool, Error> {
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"verb": verb, "path": path}},
    });
    let answer = client.review(REVIEWS, &question).await?;
    Ok(answer["status"]["allowed"] == true)
}

fn forbidden(verb: &str, path: &str) -> String {
    format!(
        "you may not {verb} {path}: take a ClusterRole with the verb {verb} on the nonResourceURL {path}\n"
    )
}

/// The token, if there is one and only one.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && !token.contains(' ')).then_some(token)
}

#[cfg(test)]
mod tests {
    use ferroplane_client::{ClientCertificate, ClientIdentity, Impersonation};

    use super::*;

    fn token_of(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        bearer_token(&headers).map(str::to_owned)
    }

    #[test]
    fn only_one_bearer_token_counts() {
        assert_eq!(token_of(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(token_of(&["bearer  abc "]).as_deref(), Some("abc"));
        for nothing in [
            &[][..],
            &[""],
            &["abc"],
            &["Bearer "],
            &["Bearer a b"],
            &["Basic abc"],
            &["Bearer a", "Bearer b"],
        ] {
            assert_eq!(token_of(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn own_credentials_are_left_out() {
        let endpoint = Endpoint {
            identity: Some(ClientIdentity::Certificate(ClientCertificate {
                certificate: b"certificate".to_vec(),
                key: b"key".to_vec(),
            })),
            token: Some(BearerToken::Text("ours".to_owned())),
            impersonation: Some(Impersonation { user: "ours".to_owned(), ..Impersonation::default() }),
            ..Endpoint::default()
        };
        let callers = Callers::of(&endpoint);
        assert!(callers.endpoint.identity.is_none() && callers.endpoint.token.is_none());
        // A caller is not whom we impersonate.
        assert!(callers.endpoint.impersonation.is_none());
    }

    #[tokio::test]
    async fn who_shows_nothing_is_refused_without_asking_anybody() {
        let callers =
            Callers::of(&Endpoint { server: "https://127.0.0.1:1".to_owned(), ..Endpoint::default() });
        let refusal = callers.authorize(&HeaderMap::new(), "get", "/recordings").await.unwrap_err();
        assert_eq!(refusal.0, StatusCode::UNAUTHORIZED);
    }

    /// What cannot be found out is not allowed.
    #[tokio::test]
    async fn without_an_api_server_nobody_may() {
        let callers =
            Callers::of(&Endpoint { server: "https://127.0.0.1:1".to_owned(), ..Endpoint::default() });
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, "Bearer abc".parse().unwrap())]);
        let refusal = callers.authorize(&headers, "get", "/recordings").await.unwrap_err();
        assert_eq!(refusal.0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
