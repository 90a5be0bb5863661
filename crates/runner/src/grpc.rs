//! Calls functions that are served over gRPC, with or without TLS.
//!
//! # Invariants
//! * What a function may have worked on is not sent again: only what it has not seen, or says that it has not
//!   touched.
//! * New certificates break off no call: what is under way ends on the connection that it began on.
//! * A call ends at its deadline, whatever the peer does or does not do.
//! * A function that is known not to be there is waited for no longer than [`PATIENCE`]: its deadline is for working on a request, and
//!   the caller has to report the failure.

mod attempt;
mod balance;
mod connector;
mod explain;
mod reachability;
mod route;
mod target;

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ferroplane_wire::methods;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use prost::Message as _;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tower_service::Service as _;
use tracing::warn;

pub use balance::Resolve;
pub use connector::Connector;
pub use target::{BadTarget, Target};

use crate::error::CallError;
use crate::observer::Peer;
use attempt::{Attempt, Progress};
use explain::{Fault, is_untouched};
use reachability::Reachability;
use route::{ConnectMethod, Route, endpoint};

/// How soon a function that cannot be reached is tried again. Doubles up to [`SLOWEST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(2);
const SLOWEST_RETRY: Duration = Duration::from_millis(500);
/// How long a call waits for a function that is known not to be there, because nothing listens at its address or its name has none.
/// Long enough for one that is just being restarted. Until it was seen again, further calls do not wait at all.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it waits for a connection of which nothing is known. A little more than making one may take.
const SILENT_PATIENCE: Duration = Duration::from_secs(11);
/// How much later than ours the deadline is that the function gets. If both fell together, it would be a
/// matter of luck which of two errors there is.
const DEADLINE_SLACK: Duration = Duration::from_secs(1);
/// A timeout above this is none. Clocks overflow somewhere.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// How functions are called.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long one call may take.
    pub timeout: Duration,
    pub max_request: usize,
    pub max_response: usize,
    /// Without it, plain text.
    pub tls: Option<Tls>,
    /// Certificates that take the place of those in `tls` when they change.
    pub renewed_tls: Option<watch::Receiver<Tls>>,
    /// What to tell functions beside the request.
    pub metadata: Option<Metadata>,
}

/// Writes the metadata of each request, such as its trace.
#[derive(Clone)]
pub struct Metadata(Arc<dyn Fn(&mut http::HeaderMap) + Send + Sync>);

impl Metadata {
    pub fn new(write: impl Fn(&mut http::HeaderMap) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    fn write(&self, headers: &mut http::HeaderMap) {
        (self.0)(headers);
    }
}

impl std::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metadata")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(1),
            max_request: 32 << 20,
            max_response: 32 << 20,
            tls: None,
            renewed_tls: None,
            metadata: None,
        }
    }
}

/// Who we are, and whom we trust. All in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    /// Signs the certificates of functions.
    pub ca: Vec<u8>,
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

/// Certificates that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
pub struct UnreadableTls {
    path: PathBuf,
    source: std::io::Error,
}

impl Tls {
    /// Read `ca.crt`, `tls.crt` and `tls.key` from a directory.
    pub fn read(directory: &Path) -> Result<Self, UnreadableTls> {
        let read = |name: &str| {
            let path = directory.join(name);
            std::fs::read(&path).map_err(|source| UnreadableTls { path, source })
        };
        Ok(Self { ca: read("ca.crt")?, certificate: read("tls.crt")?, key: read("tls.key")? })
    }
}

impl std::fmt::Debug for Tls {
    /// Says nothing: one of the fields is a private key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// A function that is served somewhere. Connects when it is first called, and stays connected.
#[derive(Debug)]
pub struct Client {
    target: Target,
    /// The target as text.
    address: String,
    options: Options,
    way: ConnectMethod,
    reachability: Reachability,
    connection: Mutex<Connection>,
    /// The function is known to serve only v1beta1.
    is_beta: AtomicBool,
    /// The function has answered before, so it does speak what we speak.
    has_answered: AtomicBool,
}

/// How the function is reached at the moment.
#[derive(Debug)]
struct Connection {
    /// With the certificates that the endpoint is made with.
    options: Options,
    endpoint: Endpoint,
    route: Option<Arc<Route>>,
}

impl Connection {
    /// Connect with new certificates from now on, if there are any.
    fn renew(&mut self, target: &Target) {
        let Some(renewed) = &mut self.options.renewed_tls else { return };
        if !renewed.has_changed().unwrap_or(false) {
            return;
        }
        let tls = Some(renewed.borrow_and_update().clone());
        let options = Options { tls, ..self.options.clone() };
        match endpoint(target, target.host(), &options) {
            Ok(endpoint) => *self = Self { options, endpoint, route: None },
            // Those that we have may still do.
            Err(error) => warn!(%target, %error, "cannot use new certificates; keeping the old ones"),
        }
    }
}

/// A call under way.
struct Call {
    message: Bytes,
    deadline: Instant,
    /// The attempt that is made now, or was made last.
    progress: Arc<Progress>,
    route: Arc<Route>,
    /// Why the attempts before it failed.
    trouble: Option<String>,
}

impl Client {
    /// A client of the function at this target.
    pub fn new(target: Target, options: Options) -> Result<Self, CallError> {
        Self::with_resolver(target, options, balance::system())
    }

    /// The same, with another way to turn names into addresses.
    pub fn with_resolver(target: Target, options: Options, resolve: Resolve) -> Result<Self, CallError> {
        Self::by_way(target, options, ConnectMethod::Address(resolve))
    }

    /// A client of a function with a foreign connection. The target is its name, in errors and in HTTP.
    pub fn with_connector(target: Target, options: Options, connector: Connector) -> Result<Self, CallError> {
        Self::by_way(target, options, ConnectMethod::Connector(connector))
    }

    fn by_way(target: Target, options: Options, way: ConnectMethod) -> Result<Self, CallError> {
        // Needed even for a name with many addresses: what is wrong with certificates is said here and now.
        let endpoint = endpoint(&target, target.host(), &options)?;
        let connection = Connection { options: options.clone(), endpoint, route: None };
        Ok(Self {
            address: target.to_string(),
            target,
            options,
            way,
            reachability: Reachability::default(),
            connection: Mutex::new(connection),
            is_beta: AtomicBool::default(),
            has_answered: AtomicBool::default(),
        })
    }

    /// Where the function is, and by which method it is called, as far as that is known.
    pub(crate) fn peer(&self) -> Peer<'_> {
        let is_beta = self.is_beta.load(Ordering::Relaxed);
        Peer { target: &self.address, method: if is_beta { methods::V1BETA1 } else { methods::V1 } }
    }

    /// Have this called whenever the function can be reached again after it could not. It is looked for as soon as a call has
    /// missed it.
    pub fn on_return(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.reachability.on_return(Arc::new(listener));
    }

    /// Call the function. Waits a little for one that is not there to come up.
    pub async fn call(&self, request: &RunFunctionRequest) -> Result<RunFunctionResponse, CallError> {
        let limit = self.options.max_request;
        if request.encoded_len() > limit {
            return Err(CallError::RequestTooLarge { target: self.target.to_string(), limit });
        }
        let mut call = Call {
            // Encoded once, however many attempts and versions of the protocol it takes.
            message: request.encode_to_vec().into(),
            deadline: Instant::now() + self.options.timeout.min(LONGEST_TIMEOUT),
            progress: Arc::default(),
            route: self.route(),
            trouble: None,
        };
        let any_sent = call.progress.any_sent();
        let (deadline, route) = (call.deadline, call.route.clone());
        let result = tokio::select! {
            biased;
            result = self.call_when_ready(&mut call) => result,
            () = out_of_reach(&any_sent, &route) => Err(self.unreachable(&call)),
            () = tokio::time::sleep_until(deadline) => Err(self.give_up(&call)),
        };
        match &result {
            Err(CallError::Unreachable { .. }) => self.reachability.missed(&self.target, &self.way),
            _ => self.reachability.found(),
        }
        result
    }

    async fn call_when_ready(&self, call: &mut Call) -> Result<RunFunctionResponse, CallError> {
        let patience = if self.reachability.is_missing() { Duration::ZERO } else { PATIENCE };
        let (ready_by, mut pause) = (Instant::now() + patience, FIRST_RETRY);
        loop {
            let error = match self.call_either_version(call).await {
                Ok(response) => return Ok(response),
                Err(status) => self.explain(&status, &call.progress),
            };
            match error {
                // Functions may have side effects, whatever they promise; a request that may have arrived is
                // not repeated.
                CallError::Lost { reason, .. } if !call.progress.is_sent() || is_untouched(&reason) => {
                    call.trouble = Some(reason);
                }
                error => return Err(error),
            }
            // One that was there until it told us to go away is being replaced: that may take as long as it may.
            if Instant::now() >= ready_by && !call.progress.is_sent() {
                return Err(self.unreachable(call));
            }
            call.route.resolve_again();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(SLOWEST_RETRY);
        }
    }

    /// Try the version that worked the last time, then the other one.
    async fn call_either_version(&self, call: &mut Call) -> Result<RunFunctionResponse, Status> {
        let is_beta = self.is_beta.load(Ordering::Relaxed);
        let result = self.call_version(call, is_beta).await;
        if !is_unimplemented(&result, &call.progress) {
            return result;
        }
        let result = self.call_version(call, !is_beta).await;
        if result.is_ok() {
            // Remembered only when the other version answered: a proxy that answers "unimplemented" for a
            // while must not flip it.
            self.is_beta.store(!is_beta, Ordering::Relaxed);
        }
        result
    }

    async fn call_version(&self, call: &mut Call, is_beta: bool) -> Result<RunFunctionResponse, Status> {
        (call.route, call.progress) = (self.route(), Arc::new(call.progress.next()));
        let mut channel = call.route.channel();
        if let Err(error) = poll_fn(|cx| channel.poll_ready(cx)).await {
            // A channel ends with the runtime it was made in. The next attempt gets one of its own.
            self.abandon(&call.route);
            return Err(Status::from_error(error.into()));
        }
        let attempt = Attempt {
            method: if is_beta { methods::V1BETA1 } else { methods::V1 },
            message: call.message.clone(),
            timeout: call.deadline.saturating_duration_since(Instant::now()) + DEADLINE_SLACK,
            max_response: self.options.max_response,
            metadata: self.options.metadata.clone(),
            progress: call.progress.clone(),
        };
        let result = attempt.make(channel).await;
        if result.is_ok() || call.progress.has_verdict() {
            self.has_answered.store(true, Ordering::Relaxed);
        }
        result
    }

    fn explain(&self, status: &Status, progress: &Progress) -> CallError {
        let has_answered = self.has_answered.load(Ordering::Relaxed);
        Fault { target: &self.target, options: &self.options, progress, has_answered }.explain(status)
    }

    /// The deadline has come.
    fn give_up(&self, call: &Call) -> CallError {
        if !call.progress.is_sent() {
            return self.unreachable(call);
        }
        // The connection may be dead without a sign of it: the next call gets another one.
        self.abandon(&call.route);
        CallError::Timeout { target: self.target.to_string(), after: self.options.timeout }
    }

    /// There is no server to send the request to. What is said about that is the same however long this call waited: it is repeated in
    /// conditions.
    fn unreachable(&self, call: &Call) -> CallError {
        let known = call.trouble.clone().or_else(|| call.route.dead_end());
        let waited = if known.is_some() { PATIENCE } else { SILENT_PATIENCE }.min(self.options.timeout);
        let reason = known.unwrap_or_else(|| "connecting takes too long".to_owned());
        CallError::Unreachable { target: self.target.to_string(), waited, reason }
    }

    fn route(&self) -> Arc<Route> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.renew(&self.target);
        let Connection { options, endpoint, route } = &mut *connection;
        let new = || Arc::new(Route::new(&self.target, endpoint, options, &self.way));
        route.get_or_insert_with(new).clone()
    }

    /// Use this route no more. Calls that are under way on it may still end well.
    fn abandon(&self, old: &Arc<Route>) {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        // Another call may have abandoned it already and made a new one, which has to stay.
        if connection.route.as_ref().is_some_and(|route| Arc::ptr_eq(route, old)) {
            connection.route = None;
        }
    }
}

/// Waits until it is certain that there is no server to send a request to. Never, once it was sent.
async fn out_of_reach(any_sent: &AtomicBool, route: &Route) {
    let began_at = Instant::now();
    tokio::time::sleep(PATIENCE).await;
    // A name without addresses does not get any by waiting for connections to them.
    if route.dead_end().is_none() || any_sent.load(Ordering::Relaxed) {
        tokio::time::sleep_until(began_at + SILENT_PATIENCE).await;
    }
    if any_sent.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// Whether the peer knows no such method.
fn is_unimplemented(result: &Result<RunFunctionResponse, Status>, progress: &Progress) -> bool {
    progress.has_verdict() && result.as_ref().is_err_and(|status| status.code() == Code::Unimplemented)
}
