//! A server in memory, spoken to without a network.

use std::time::Duration;

use bytes::Bytes;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::store::{Options, Store};
use ferroplane_apiserver::{Body, Server, Settings};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

/// A server with nothing in it but what every server has.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    server: Server,
    user: Option<Identity>,
}

/// An answer, read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        Self::of(Store::in_memory(Options::default()).unwrap()).await
    }

    /// A server with what is in a store.
    pub(crate) async fn of(store: Store) -> Self {
        Self::with(store, Settings::default()).await
    }

    /// The same, that behaves like this.
    pub(crate) async fn with(store: Store, settings: Settings) -> Self {
        Self { server: Server::start(store, settings).await.unwrap(), user: None }
    }

    pub(crate) fn server(&self) -> Server {
        self.server.clone()
    }

    /// The same cluster as someone else sees it.
    pub(crate) fn as_user(&self, name: &str) -> Self {
        Self { user: Some(Identity::authenticated(name, [])), ..self.clone() }
    }

    /// The same cluster as someone sees it who has not said who they are.
    pub(crate) fn as_nobody(&self) -> Self {
        Self { user: Some(Identity::anonymous()), ..self.clone() }
    }

    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let master = || Identity::authenticated("admin", ["system:masters".to_owned()]);
        request.extensions_mut().insert(self.user.clone().unwrap_or_else(master));
        self.server.handle(request).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.raw(method, path, &[("content-type", content_type)], &text).await;
        Answer::read(response).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "application/json", &Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, "application/json", body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, "application/json", body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, "application/json", &Value::Null).await
    }

    pub(crate) async fn merge(&self, path: &str, change: &Value) -> Answer {
        self.send("PATCH", path, "application/merge-patch+json", change).await
    }

    pub(crate) async fn apply(&self, path: &str, manager: &str, object: &Value) -> Answer {
        let path = format!("{path}?fieldManager={manager}");
        self.send("PATCH", &path, "application/apply-patch+yaml", object).await
    }

    /// Waits until a path answers with a code.
    pub(crate) async fn until(&self, path: &str, is_enough: impl Fn(&Answer) -> bool) -> Answer {
        let wait = async {
            loop {
                let answer = self.get(path).await;
                if is_enough(&answer) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), wait).await.expect("it happens within ten seconds")
    }
}

impl Answer {
    pub(crate) async fn read(response: Response<Body>) -> Self {
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::String(text));
        Self { code, body, warnings }
    }

    pub(crate) fn is(&self, code: u16) -> &Value {
        assert_eq!(self.code, code, "{}", self.body);
        &self.body
    }
}

/// The lines of a watch, one after the other.
pub(crate) struct Lines {
    body: Body,
    read: Vec<u8>,
}

impl Lines {
    pub(crate) fn of(response: Response<Body>) -> Self {
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), read: Vec::new() }
    }

    /// The next event: its type and its object. Nothing at the end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.read.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                return Some((event["type"].as_str().unwrap().to_owned(), event["object"].clone()));
            }
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame());
            let frame = frame.await.expect("something happens within ten seconds")?;
            self.read.extend_from_slice(frame.unwrap().data_ref().unwrap());
        }
    }
}
