//! Answers requests: finds out what is asked for, whether it may be, and does it.

mod audit_trail;
mod authorize;
mod body;
mod endpoints;
mod filters;
mod guard;
mod labels;
mod loopback;
mod non_resource;
mod resource_handler;
mod routes;
mod turns;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use ferroplane_metrics::Exposition;
use ferroplane_schema::status::Status;
use http::{Request, Response};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::audit_trail::{AuditNotes, AuditTrail, AuditedRequest};
pub use self::endpoints::{EndpointPath, EndpointRequest, InProcessEndpoint, PageStream};
use self::routes::AuthenticatedRequest;
use crate::audit::AuditLog;
use crate::auth::authenticate::{Authenticator, ServiceAccountTokens, StaticTokens};
use crate::auth::authorizer::Authorizer;
use crate::auth::identity::Identity;
use crate::builtin::service_allocator::ServiceAllocator;
use crate::builtin::{self, bootstrap};
use crate::controllers::{self, WorkQueues};
use crate::flow_control::{self, BodyMemory, FlowControl};
use crate::metrics::Metrics;
use crate::negotiate;
use crate::openapi::Documents;
use crate::registry::Registry;
use crate::request::RequestInfo;
use crate::response::{self, Body};
use crate::store::Store;
use crate::webhooks::{InProcessWebhook, Webhooks};

/// A server. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) state: Arc<ServerState>,
    /// End with the last clone of the server.
    _controllers: Arc<JoinSet<()>>,
}

pub(crate) struct ServerState {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    documents: Documents,
    pub(crate) queues: Arc<WorkQueues>,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) service_allocator: Arc<ServiceAllocator>,
    /// Those who can tell who asks, if anybody from outside can.
    pub(crate) authenticator: OnceLock<Authenticator>,
    pub(crate) issuer: OnceLock<Arc<ServiceAccountTokens>>,
    /// The authority that our certificate comes from, in PEM.
    pub(crate) authority: OnceLock<String>,
    flow_control: FlowControl,
    bodies: Arc<BodyMemory>,
    /// For the bodies of administrators.
    reserved_bodies: Arc<BodyMemory>,
    responses: Arc<BodyMemory>,
    /// For the responses to administrators.
    reserved_responses: Arc<BodyMemory>,
    metrics: Metrics,
    /// Metrics of other parts of this process, as text.
    other_metrics: OnceLock<WriteMetrics>,
    endpoints: endpoints::Endpoints,
    pub(crate) audit: OnceLock<AuditLog>,
    /// Says to all watches that it is time to end.
    pub(crate) stop: watch::Sender<bool>,
}

/// How a server behaves.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The authority that its certificate comes from, in PEM, if it can be reached from outside.
    pub authority: Option<String>,
    /// Where it listens, if it can be reached from outside.
    pub address: Option<SocketAddr>,
    /// Groups of custom resources that a rule about all of them ([`CUSTOM_RESOURCES`](crate::auth::rbac::CUSTOM_RESOURCES)) does
    /// not mean.
    pub reserved_groups: Vec<String>,
}

/// Writes metrics of other parts of this process.
type WriteMetrics = Box<dyn Fn(&mut Exposition) + Send + Sync>;

/// What webhooks want to have recorded, noted in the answer.
#[derive(Debug, Clone)]
struct AuditAnnotations(Vec<(String, String)>);

/// Whom someone acted as, noted in the answer.
#[derive(Debug, Clone)]
struct ImpersonatedIdentity(Identity);

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Server")
    }
}

impl Server {
    /// A server for what is in a store, with everything in it that every cluster has.
    pub async fn start(store: Store, settings: Settings) -> Result<Self, Status> {
        let (stop, _) = watch::channel(false);
        let queues = Arc::new(WorkQueues::default());
        let authorizer = Arc::new(Authorizer::reserving(settings.reserved_groups));
        let webhooks = Arc::new(Webhooks::default());
        let (observing, following) = (Arc::clone(&queues), Arc::clone(&authorizer));
        let configured = Arc::clone(&webhooks);
        let service_allocator = Arc::new(ServiceAllocator::default());
        let allocated = Arc::clone(&service_allocator);
        // First the stored objects, then changes. Nothing is written between the two: there is no server yet.
        authorizer.load(&store);
        webhooks.load(&store);
        service_allocator.load(&store);
        store.observe(move |event| {
            following.observe(event);
            configured.observe(event);
            allocated.observe(event);
            // Controllers come last: they check what the others know.
            observing.observe(event);
        });
        let registry = Registry::new(builtin::resources());
        bootstrap::run(&store, &registry.catalogue(), settings.address).await?;
        let state = Arc::new(ServerState {
            store,
            registry,
            documents: Documents::default(),
            queues,
            authorizer,
            webhooks,
            service_allocator,
            authenticator: OnceLock::new(),
            issuer: OnceLock::new(),
            authority: settings.authority.map_or_else(OnceLock::new, OnceLock::from),
            flow_control: FlowControl::new(&flow_control::Settings::default()),
            bodies: BodyMemory::shared(),
            reserved_bodies: BodyMemory::reserved(),
            responses: BodyMemory::shared(),
            reserved_responses: BodyMemory::reserved(),
            metrics: Metrics::default(),
            other_metrics: OnceLock::new(),
            endpoints: endpoints::Endpoints::default(),
            audit: OnceLock::new(),
            stop,
        });
        // Before the first request: a client that comes back after a restart must find its custom resources.
        controllers::serve_established(&state);
        let controllers = controllers::start(&state);
        Ok(Self { state, _controllers: Arc::new(controllers) })
    }

    /// Authenticates remote clients with these tokens. Until then all of them are anonymous.
    pub fn set_authenticators(&self, tokens: StaticTokens, accounts: Arc<ServiceAccountTokens>) {
        let _ = self.state.authenticator.set(Authenticator::new(tokens, Arc::clone(&accounts)));
        let _ = self.state.issuer.set(accounts);
    }

    /// Notes in this log what the policy of the log asks for, of everybody: remote clients, programs in this process, and ourselves.
    pub fn set_audit_log(&self, log: AuditLog) {
        let _ = self.state.audit.set(log);
    }

    /// Calls this function for webhooks that are configured at a host: they are in this process, and need no network.
    pub fn register_webhook(&self, authority: &str, webhook: &InProcessWebhook) {
        self.state.webhooks.register(authority, webhook);
    }

    /// Serves the metrics of other parts of this process beside our own.
    pub fn serve_metrics(&self, write: impl Fn(&mut Exposition) + Send + Sync + 'static) {
        let _ = self.state.other_metrics.set(Box::new(write));
    }

    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// Ends all watches, so that connections can be closed.
    pub fn stop(&self) {
        self.state.stop.send_replace(true);
    }

    /// Answers a request whose user is known: the [`Identity`] among its extensions. Without one, it is unauthenticated.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let received = Timestamp::now();
        let (mut parts, body) = request.into_parts();
        let caller = parts.extensions.remove::<Identity>().unwrap_or_else(Identity::anonymous);
        let info = RequestInfo::parse(&parts.method, &parts.uri);
        let notes = AuditNotes::default();
        let audited =
            AuditedRequest { caller: Some(&caller), info: &info, parts: &parts, received, id: None };
        let trail = AuditTrail::begin(&self.state, audited, &notes);
        let request = AuthenticatedRequest {
            caller: &caller,
            info: &info,
            parts: &parts,
            notes: &notes,
            is_limited: false,
        };
        let response = self.serve(request, body).await;
        match trail {
            Some(trail) => trail.finish(response),
            None => response,
        }
    }

    /// Answers within the time limit, whatever happens, and counts the answer.
    async fn serve<B>(&self, request: AuthenticatedRequest<'_>, body: B) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let AuthenticatedRequest { info, parts, .. } = request;
        let form = negotiate::error_form(&parts.headers);
        let begun = Instant::now();
        let handler = async {
            let handled = self.impersonate(request, body).await;
            handled.unwrap_or_else(|status| response::status(&status, form))
        };
        let response = match guard::time_limit(info) {
            Ok(limit) => guard::guarded(handler, form, limit, parts.extensions.get()).await,
            Err(refused) => response::status(&refused, form),
        };
        // A watch lasts as long as its client wants, which says nothing about the server.
        let took = (!info.is_watch()).then(|| begun.elapsed());
        self.state.metrics.count(self.labels(&parts.method, info), response.status().as_u16(), took);
        response
    }
}
