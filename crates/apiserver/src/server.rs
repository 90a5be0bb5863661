//! Answers requests: finds out what is asked for, whether it may be, and does it.

mod body;
mod filters;
mod guard;
mod loopback;
mod non_resource;
mod resource_handler;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use ferroplane_schema::selector::FieldSelector;
use ferroplane_schema::status::{Resource as Subject, Status};
use http::request::Parts;
use http::{Method, Request, Response};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::audit::AuditLog;
use crate::auth::authenticate::{Authenticator, Impersonation, ServiceAccountTokens, StaticTokens};
use crate::auth::authorizer::Authorizer;
use crate::auth::identity::Identity;
use crate::auth::rbac::Attributes;
use crate::builtin::service_allocator::ServiceAllocator;
use crate::builtin::{self, bootstrap};
use crate::controllers::{self, WorkQueues};
use crate::flow_control::{self, FlowControl};
use crate::metrics::{Labels, Metrics};
use crate::negotiate;
use crate::openapi::Documents;
use crate::registry::{Catalogue, Registry};
use crate::request::{Query, ResourcePath, Target, Verb};
use crate::response::{self, Body};
use crate::store::Store;
use crate::verbs::View;
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
    metrics: Metrics,
    /// What somebody else in this process has counted, as text.
    other_metrics: OnceLock<Box<dyn Fn() -> String + Send + Sync>>,
    audit: OnceLock<AuditLog>,
    /// Says to all watches that it is time to end.
    pub(crate) stop: watch::Sender<bool>,
}

/// How a server behaves.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The authority that its certificate comes from, in PEM, if it can be reached from outside.
    pub authority: Option<String>,
}

/// What webhooks want to have written down, noted in the answer.
#[derive(Debug, Clone)]
struct AuditAnnotations(Vec<(String, String)>);

/// Why someone may do what they ask for, noted with the request as soon as that is known.
#[derive(Debug, Clone, Default)]
struct GrantReason(Arc<OnceLock<String>>);

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
        let (queues, authorizer) = (Arc::new(WorkQueues::default()), Arc::new(Authorizer::default()));
        let webhooks = Arc::new(Webhooks::default());
        let (observing, following) = (Arc::clone(&queues), Arc::clone(&authorizer));
        let configured = Arc::clone(&webhooks);
        let service_allocator = Arc::new(ServiceAllocator::default());
        let allocated = Arc::clone(&service_allocator);
        authorizer.load(&store);
        webhooks.load(&store);
        service_allocator.load(&store);
        store.observe(move |event| {
            following.notice(event);
            configured.notice(event);
            allocated.notice(event);
            // Controllers come last: they look at what the others know.
            observing.notice(event);
        });
        let registry = Registry::new(builtin::resources());
        bootstrap::run(&store, &registry.catalogue()).await?;
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
            metrics: Metrics::default(),
            other_metrics: OnceLock::new(),
            audit: OnceLock::new(),
            stop,
        });
        controllers::recall(&state);
        let controllers = controllers::start(&state);
        Ok(Self { state, _controllers: Arc::new(controllers) })
    }

    /// Authenticates remote clients with these tokens. Until then all of them are anonymous.
    pub fn set_authenticators(&self, tokens: StaticTokens, accounts: Arc<ServiceAccountTokens>) {
        let _ = self.state.authenticator.set(Authenticator::new(tokens, Arc::clone(&accounts)));
        let _ = self.state.issuer.set(accounts);
    }

    /// Notes in this log what remote clients change.
    pub fn set_audit_log(&self, log: AuditLog) {
        let _ = self.state.audit.set(log);
    }

    /// Calls this function for webhooks that are configured at a host: they are in this process, and need no network.
    pub fn register_webhook(&self, authority: &str, webhook: &InProcessWebhook) {
        self.state.webhooks.register(authority, webhook);
    }

    /// Serves the numbers of somebody else in this process beside our own.
    pub fn serve_metrics(&self, text: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.state.other_metrics.set(Box::new(text));
    }

    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// Ends all watches, so that connections can be closed.
    pub fn stop(&self) {
        self.state.stop.send_replace(true);
    }

    /// Answers a request whose sender is known: the [`Identity`] among its extensions. Without one, nobody knows.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (mut parts, body) = request.into_parts();
        let caller = parts.extensions.remove::<Identity>().unwrap_or_else(Identity::anonymous);
        let form = negotiate::error_form(&parts.headers);
        let begun = Instant::now();
        let handler = async {
            self.attempt(&caller, &parts, body).await.unwrap_or_else(|status| response::status(&status, form))
        };
        let response = guard::guarded(handler, form).await;
        let (labels, is_watch) = self.labels(&parts);
        let took = (!is_watch).then(|| begun.elapsed());
        self.state.metrics.count(labels, response.status().as_u16(), took);
        response
    }

    /// What a request is counted as, and whether it is a watch.
    fn labels(&self, parts: &Parts) -> (Labels, bool) {
        let method = match parts.method {
            Method::GET | Method::HEAD => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "other",
        };
        let unknown = Labels { verb: method, ..Labels::default() };
        let Target::Resource(path) = Target::parse(parts.uri.path()) else { return (unknown, false) };
        let verb = Verb::of(&parts.method, &path, &Query::parse(parts.uri.query()));
        let is_watch = verb == Some(Verb::Watch);
        let catalogue = self.state.registry.catalogue();
        let view = catalogue.find(&path.group, &path.resource).and_then(|it| View::of(it, &path.version));
        if !view.is_some_and(|view| has_part(&view, &path.subresource)) {
            return (unknown, is_watch);
        }
        let scope = match (path.name.is_empty(), path.namespace.is_empty()) {
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        let verb = match verb {
            Some(Verb::List) => "LIST",
            Some(Verb::Watch) => "WATCH",
            Some(Verb::DeleteCollection) => "DELETECOLLECTION",
            _ => method,
        };
        let ResourcePath { group, version, resource, subresource, .. } = path;
        (Labels { verb, group, version, resource, subresource, scope }, is_watch)
    }

    async fn attempt<B>(&self, caller: &Identity, parts: &Parts, body: B) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let impersonated = match Impersonation::read(&parts.headers)? {
            Some(wish) => Some(wish.authorize(caller, &self.state.authorizer.policy())?),
            None => None,
        };
        let identity = impersonated.as_ref().unwrap_or(caller);
        let form = negotiate::error_form(&parts.headers);
        let mut answer = self
            .answer_as(identity, parts, body)
            .await
            .unwrap_or_else(|status| response::status(&status, form));
        if let Some(impersonated) = impersonated {
            answer.extensions_mut().insert(ImpersonatedIdentity(impersonated));
        }
        Ok(answer)
    }

    async fn answer_as<B>(
        &self,
        identity: &Identity,
        parts: &Parts,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let catalogue = self.state.registry.catalogue();
        let target = Target::parse(parts.uri.path());
        if let Target::Resource(path) = &target {
            return self.resource(&catalogue, path, identity, parts, body).await;
        }
        let verb = parts.method.as_str().to_lowercase();
        let attributes = Attributes { verb: &verb, path: Some(parts.uri.path()), ..Attributes::default() };
        self.state.authorizer.policy().check(identity, &attributes)?;
        self.non_resource(&catalogue, &target, parts)
    }

    async fn resource<B>(
        &self,
        catalogue: &Catalogue,
        path: &ResourcePath,
        identity: &Identity,
        parts: &Parts,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let query = Query::parse(parts.uri.query());
        let verb = Verb::of(&parts.method, path, &query);
        self.may(identity, path, verb, &query, parts)?;
        if !catalogue.has_version(&path.group, &path.version) {
            if catalogue.is_builtin(&path.group) {
                return Err(no_such_resource(&parts.method));
            }
            return Ok(response::page_not_found());
        }
        let resource = catalogue.find(&path.group, &path.resource);
        let view = resource.and_then(|resource| View::of(resource, &path.version));
        let Some(view) = view else {
            return if catalogue.is_builtin(&path.group) {
                Err(no_such_resource(&parts.method))
            } else {
                Ok(response::page_not_found())
            };
        };
        // Custom resources can be asked for without being sent.
        let is_head = parts.method == Method::HEAD && view.is_custom();
        let verb = if is_head { Verb::of(&Method::GET, path, &query) } else { verb };
        if !is_in_scope(&view, path, verb) {
            return if view.is_custom() {
                Ok(response::page_not_found())
            } else {
                Err(no_such_resource(&parts.method))
            };
        }
        let verb = usable_verb(&view, path, verb, &parts.method)?;
        let request =
            resource_handler::ResourceHandler { server: &self.state, identity, view, path, parts, query };
        let answered = request.handle(verb, body).await;
        let form = negotiate::error_form(&parts.headers);
        let mut response = answered.unwrap_or_else(|status| response::status(&status, form));
        if let Some(deprecation) = &request.view.version().deprecation {
            response::warn(&mut response, std::slice::from_ref(deprecation));
        }
        Ok(response)
    }
}

impl Server {
    /// Whether someone may do this.
    fn may(
        &self,
        identity: &Identity,
        path: &ResourcePath,
        verb: Option<Verb>,
        query: &Query,
        parts: &Parts,
    ) -> Result<(), Status> {
        // Who may read may also ask whether there is anything to read.
        let head = if path.name.is_empty() { "list" } else { "get" };
        let unknown = if parts.method == Method::HEAD { head } else { "" };
        // Who asks for one object by its name may do so with the right to see just that one.
        let fields = FieldSelector::parse(query.get("fieldSelector")).ok();
        let selected = fields.as_ref().and_then(|fields| fields.required_value("metadata.name"));
        let name = if path.name.is_empty() { selected.unwrap_or_default() } else { &path.name };
        let attributes = Attributes {
            verb: verb.map_or(unknown, Verb::name),
            group: &path.group,
            resource: &path.resource,
            subresource: &path.subresource,
            name: if verb == Some(Verb::Create) { "" } else { name },
            namespace: &path.namespace,
            path: None,
        };
        let decision = self.state.authorizer.policy().decide(identity, &attributes);
        if !decision.is_allowed() {
            return Err(attributes.forbidden(identity, &decision.reason()));
        }
        if let Some(granted) = parts.extensions.get::<GrantReason>() {
            let _ = granted.0.set(decision.reason());
        }
        Ok(())
    }
}

/// What an unknown resource of a known group gets.
fn no_such_resource(method: &Method) -> Status {
    Status::generic(404, method.as_str(), &Subject::default(), "", "")
}

fn has_part(view: &View, subresource: &str) -> bool {
    let version = view.version();
    match subresource {
        "" => true,
        "status" => version.has_status,
        "scale" => version.scale.is_some(),
        other => version.parts.iter().any(|part| part.name == other),
    }
}

/// Whether a path has a namespace where there is one. A list may do without.
fn is_in_scope(view: &View, path: &ResourcePath, verb: Option<Verb>) -> bool {
    if !view.resource.is_namespaced {
        return path.namespace.is_empty();
    }
    let spans_all = !view.is_custom() || matches!(verb, Some(Verb::List | Verb::Watch));
    !path.namespace.is_empty() || path.name.is_empty() && spans_all
}

/// What is to be done, if it can be. Custom resources and others are refused in different words.
fn usable_verb(
    view: &View,
    path: &ResourcePath,
    verb: Option<Verb>,
    method: &Method,
) -> Result<Verb, Status> {
    let identity = &view.resource.identity;
    let is_named = !path.name.is_empty();
    if !has_part(view, &path.subresource) {
        return Err(if view.is_custom() {
            Status::not_found(identity, &path.name)
        } else {
            no_such_resource(method)
        });
    }
    if let Some(verb) = verb.filter(|verb| is_possible(view, path, *verb)) {
        return Ok(verb);
    }
    Err(match *method {
        _ if !view.is_custom() => Status::generic(405, method.as_str(), &Subject::default(), "", ""),
        Method::PUT | Method::PATCH if !is_named => Status::bad_request("name must be provided"),
        _ => Status::method_not_supported(identity, verb.map_or("", Verb::name)),
    })
}

fn is_possible(view: &View, path: &ResourcePath, verb: Verb) -> bool {
    if path.subresource.is_empty() {
        let needs_namespace =
            matches!(verb, Verb::Create | Verb::DeleteCollection) && view.resource.is_namespaced;
        let is_misplaced = verb == Verb::Create && !path.name.is_empty() && !view.is_custom();
        let lacks_namespace = needs_namespace && path.namespace.is_empty();
        return view.version().verbs.contains(&verb) && !lacks_namespace && !is_misplaced;
    }
    let part = view.version().parts.iter().find(|part| part.name == path.subresource);
    part.map_or(matches!(verb, Verb::Get | Verb::Update | Verb::Patch), |part| part.verbs.contains(&verb))
}
