//! An API server that is stopped and started again, and finds what it had stored. It does the same each time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::listeners::HttpService;
use ferroplane_apiserver::store::{Batch, Log, LogError, Marks, Options, Row, RowError, Store, Window};
use ferroplane_apiserver::{Body, InProcessWebhook, Server, Settings};
use http::{Request, Response};
use tower_service::Service;

/// How many events are remembered: few, so that it happens that a watch cannot continue where it was.
const EVENTS: usize = 300;

/// What a server has stored. Clones are the same state.
#[derive(Clone, Default)]
pub struct StoredState(Arc<Mutex<Recorded>>);

#[derive(Clone, Default)]
struct Recorded {
    rows: BTreeMap<u64, Arc<Stored>>,
    marks: Marks,
    /// Who may write: whoever opened it last.
    era: u64,
}

struct Stored {
    collection: String,
    namespace: String,
    name: String,
    is_deleted: bool,
    object: Bytes,
}

/// A way to write to a state.
struct Head {
    state: StoredState,
    era: u64,
}

impl StoredState {
    /// Another state that says the same.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().unwrap().clone())))
    }

    fn open(&self) -> Store {
        let mut recorded = self.0.lock().unwrap();
        recorded.era += 1;
        let head = Head { state: self.clone(), era: recorded.era };
        drop(recorded);
        let window = Window { events: EVENTS, ..Window::default() };
        let options = Options { writes_in_place: true, window, ..Options::default() };
        Store::with_log(Box::new(head), options).unwrap()
    }
}

impl Log for Head {
    fn marks(&mut self) -> Result<Marks, LogError> {
        let recorded = self.state.0.lock().unwrap();
        let newest = recorded.rows.keys().next_back().copied().unwrap_or(0);
        Ok(Marks { revision: recorded.marks.revision.max(newest), ..recorded.marks })
    }

    fn load(&mut self, visit: &mut dyn FnMut(Row<'_>) -> Result<(), RowError>) -> Result<(), LogError> {
        let recorded = self.state.0.lock().unwrap().clone();
        for (revision, row) in recorded.rows {
            let Stored { collection, namespace, name, is_deleted, object } = &*row;
            visit(Row { revision, collection, namespace, name, is_deleted: *is_deleted, object }).unwrap();
        }
        Ok(())
    }

    fn append(&mut self, batch: &Batch<'_>) -> Result<(), LogError> {
        let mut recorded = self.state.0.lock().unwrap();
        if recorded.era != self.era {
            let source = "somebody else has it".into();
            return Err(LogError::Failed { action: "write to", file: "state".into(), source });
        }
        for event in batch.events {
            let (entry, key) = (event.entry(), event.entry().key());
            let stored = Stored {
                collection: key.collection().name().to_owned(),
                namespace: key.namespace().to_owned(),
                name: key.name().to_owned(),
                is_deleted: entry.is_deleted(),
                object: entry.bytes().clone(),
            };
            recorded.rows.insert(entry.revision(), Arc::new(stored));
        }
        for revision in batch.forget {
            recorded.rows.remove(revision);
        }
        if !batch.forget.is_empty() {
            recorded.marks = batch.marks;
        }
        Ok(())
    }

    fn tidy(&mut self, _is_urgent: bool) -> Result<bool, LogError> {
        Ok(false)
    }
}

/// A server that may be another one from one request to the next. Clones are the same.
#[derive(Clone)]
pub struct RestartableServer {
    server: Arc<Mutex<Server>>,
    state: StoredState,
    /// Who sits where, at whatever server it is.
    webhooks: Arc<Mutex<BTreeMap<&'static str, InProcessWebhook>>>,
}

impl RestartableServer {
    pub async fn start(state: StoredState) -> Self {
        let server = Server::start(state.open(), Settings::default()).await.unwrap();
        Self { server: Arc::new(Mutex::new(server)), state, webhooks: Arc::default() }
    }

    /// Stop the server, whatever it is about, and start another one with what it had stored.
    pub async fn restart(&self) {
        self.current().stop();
        let server = Server::start(self.state.open(), Settings::default()).await.unwrap();
        for (authority, webhook) in &*self.webhooks.lock().unwrap() {
            server.register_webhook(authority, webhook);
        }
        *self.server.lock().unwrap() = server;
    }

    pub fn register_webhook(&self, authority: &'static str, webhook: InProcessWebhook) {
        self.current().register_webhook(authority, &webhook);
        self.webhooks.lock().unwrap().insert(authority, webhook);
    }

    pub fn service(&self, who: &Identity) -> RestartableService {
        RestartableService { to: self.clone(), who: who.clone() }
    }

    fn current(&self) -> Server {
        self.server.lock().unwrap().clone()
    }
}

/// The way to a server that moves.
#[derive(Clone)]
pub struct RestartableService {
    to: RestartableServer,
    who: Identity,
}

impl<B> Service<Request<B>> for RestartableService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        HttpService::in_process(self.to.current(), self.who.clone()).call(request)
    }
}
