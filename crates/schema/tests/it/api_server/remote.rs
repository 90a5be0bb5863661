//! A real API server.

use std::env;
use std::sync::Arc;

use serde_json::{Value, json};
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// The first part of the user agent, which becomes the manager of those who name none.
pub(crate) const AGENT: &str = "api-server-test";

/// A server, and how to reach it.
pub(crate) struct Remote {
    agent: Agent,
    url: String,
    token: String,
}

/// What a server says.
pub(crate) struct Answer {
    /// Zero if it says nothing.
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
    /// When, as HTTP writes it.
    pub(crate) date: String,
}

impl Remote {
    /// The server that the environment names, if it does.
    pub(crate) fn find() -> Option<Self> {
        let url = env::var("FERROPLANE_ORACLE_URL").ok().filter(|url| !url.is_empty())?;
        let token = env::var("FERROPLANE_ORACLE_TOKEN").expect("the server has a token");
        let authority = env::var("FERROPLANE_ORACLE_CA").expect("the server has a certificate");
        let authority = Certificate::from_pem(&std::fs::read(authority).unwrap()).unwrap();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(vec![authority])))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .build();
        let config = Agent::config_builder().tls_config(tls).proxy(None).http_status_as_error(false);
        let agent = config.user_agent(format!("{AGENT}/1")).build().new_agent();
        Some(Self { agent, url, token: format!("Bearer {token}") })
    }

    pub(crate) fn ask(&self, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Authorization", &self.token)
            .header("Content-Type", content_type)
            .header("Accept", "application/json")
            .body(body.to_owned())
            .unwrap();
        match self.agent.run(request) {
            Ok(response) => read(response),
            // There are requests at which a real server panics and hangs up.
            Err(error) => {
                Answer { code: 0, body: error.to_string().into(), warnings: Vec::new(), date: String::new() }
            }
        }
    }
}

fn read(mut response: Response<Body>) -> Answer {
    let code = response.status().as_u16();
    let text = |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let warnings = response.headers().get_all("Warning").iter().map(text).collect();
    let date = response.headers().get("Date").map(text).unwrap_or_default();
    let body = response.body_mut().read_to_string().unwrap();
    let body = serde_json::from_str(&body).unwrap_or_else(|_| json!(body));
    Answer { code, body, warnings, date }
}
