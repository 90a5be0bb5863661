//! Our server, as strangers see it.

use std::sync::Arc;

use bytes::Bytes;
use ferroplane_apiserver::auth::authenticate::{ServiceAccountTokens, StaticTokens};
use ferroplane_apiserver::store::{Options, Store, Window};
use ferroplane_apiserver::{Server, Settings};
use http::Request;
use http_body_util::Full;

use super::exchange::{self, Answer};

const MASTER: &str = "master";
const TOKENS: &str = "master,oracle,oracle,system:masters\nalice,alice,alice-1,\"dev,ops\"\nbob,bob,bob-1\n";

pub(super) struct Ours(Server);

impl Ours {
    /// A server that remembers nothing of the past if it is to forget something.
    pub(super) async fn start(forgets: bool) -> Self {
        let events = if forgets { 0 } else { Window::default().events };
        let options = Options { window: Window { events, ..Window::default() }, ..Options::default() };
        let store = Store::in_memory(options).unwrap();
        let server = Server::start(store, Settings::default()).await.unwrap();
        let lookup = server.bound_object_lookup();
        let accounts = ServiceAccountTokens::ephemeral("https://kubernetes.default.svc", lookup).unwrap();
        server.set_authenticators(StaticTokens::from_csv(TOKENS).unwrap(), Arc::new(accounts));
        Self(server)
    }
}

impl exchange::Server for Ours {
    async fn ask(&self, request: Request<Full<Bytes>>) -> Answer {
        // Nobody has to sit out the time that a watch lasts.
        let query = request.uri().query().unwrap_or_default();
        let takes_time = query.contains("timeoutSeconds=") || query.contains("resourceVersion=99999999");
        if takes_time {
            tokio::time::pause();
        }
        let answer = Answer::read(self.0.handle_remote(request).await).await;
        if takes_time {
            tokio::time::resume();
        }
        answer
    }

    async fn forget(&self, _version: &str) {}

    fn master(&self) -> String {
        MASTER.to_owned()
    }
}
