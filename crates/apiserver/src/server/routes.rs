//! From an authenticated request to what handles it: impersonation, authorization, and the resource that is meant.

use bytes::Bytes;
use ferroplane_schema::status::{Resource as Subject, Status};
use http::request::Parts;
use http::{Method, Response};

use super::audit_trail::AuditNotes;
use super::resource_handler::ResourceHandler;
use super::{ImpersonatedIdentity, Server, body, turns};
use crate::auth::authenticate::Impersonation;
use crate::auth::identity::Identity;
use crate::auth::rbac::Decision;
use crate::negotiate;
use crate::registry::Catalogue;
use crate::request::{RequestInfo, ResourcePath, Verb};
use crate::response::{self, Body};
use crate::verbs::View;

/// A request whose sender and request line are known: what every step behind authentication is handed.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuthenticatedRequest<'r> {
    pub(super) caller: &'r Identity,
    pub(super) info: &'r RequestInfo,
    pub(super) parts: &'r Parts,
    /// What the audit log is to tell of it, noted as soon as it is known.
    pub(super) notes: &'r AuditNotes,
    /// Whether it comes from outside, so that it waits for its turn and its body counts.
    pub(super) is_limited: bool,
}

impl Server {
    /// Answers as the caller, or as the user that the caller impersonates.
    pub(super) async fn impersonate<B>(
        &self,
        request: AuthenticatedRequest<'_>,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let headers = &request.parts.headers;
        let impersonated = match Impersonation::read(headers)? {
            Some(wish) => {
                let allowed = wish.authorize(request.caller, &self.state.authorizer.policy());
                Some(allowed.inspect_err(|refused| {
                    request.notes.authorize(Decision::Denied(refused.message.clone()));
                })?)
            }
            None => None,
        };
        let identity = impersonated.as_ref().unwrap_or(request.caller);
        let routed = self.route(identity, request, body).await;
        let mut response =
            routed.unwrap_or_else(|status| response::status(&status, negotiate::error_form(headers)));
        if let Some(impersonated) = impersonated {
            response.extensions_mut().insert(ImpersonatedIdentity(impersonated));
        }
        Ok(response)
    }

    async fn route<B>(
        &self,
        identity: &Identity,
        request: AuthenticatedRequest<'_>,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // One catalogue for the whole request: a definition that changes meanwhile must not be seen by halves.
        let catalogue = self.state.registry.catalogue();
        if let Some(path) = request.info.resource() {
            self.authorize(identity, path, request)?;
            return self.resource(&catalogue, path, identity, request, body).await;
        }
        self.authorize_path(identity, request)?;
        if let Some(found) = self.endpoint(request) {
            return self.answer_at(found, identity, request, body).await;
        }
        let turn = self.take_turn(request).await?;
        let mut response = self.non_resource(&catalogue, request.info, request.parts)?;
        turns::attach(turn, &mut response);
        Ok(response)
    }

    /// Hands a request to the resource that it is about, unless there is none, or none that can do this.
    ///
    /// Its body is read before it takes a place among those that run: a client decides how fast it sends, and must not decide
    /// how long others wait. What was read counts until the request is answered.
    async fn resource<B>(
        &self,
        catalogue: &Catalogue,
        path: &ResourcePath,
        identity: &Identity,
        request: AuthenticatedRequest<'_>,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let AuthenticatedRequest { info, parts, .. } = request;
        let Some(view) = find_view(catalogue, path) else {
            return not_served(catalogue.is_builtin(&path.group), &parts.method);
        };
        let verb = verb_for(&view, path, request);
        if !is_in_scope(&view, path, verb) {
            return not_served(!view.is_custom(), &parts.method);
        }
        let verb = usable_verb(&view, path, verb, &parts.method)?;
        let reserved = self.reserve_body(verb, request)?;
        let text = if verb.changes_something() {
            body::collect(body, reserved.as_ref()).await?
        } else {
            Bytes::new()
        };
        request.notes.sent(parts, &text, &view.resource.names.kind);
        let turn = self.take_turn(request).await?;
        let handler = ResourceHandler {
            server: &self.state,
            identity,
            view,
            path,
            parts,
            query: &info.query,
            notes: request.notes,
            turn: turn.as_ref(),
        };
        let answered = handler.handle(verb, text).await;
        let form = negotiate::error_form(&parts.headers);
        let mut response = answered.unwrap_or_else(|status| response::status(&status, form));
        if verb == Verb::Watch {
            // A watch has been answered, but continues: it keeps its permit until its body ends.
            response = response.map(|body| body.holding(turn.clone()));
        } else {
            turns::attach(turn.clone(), &mut response);
        }
        if let Some(deprecation) = &handler.view.version().deprecation {
            response::warn(&mut response, std::slice::from_ref(deprecation));
        }
        Ok(response)
    }
}

/// What a request does to a resource. Kubernetes answers `HEAD` for custom resources only, as `GET` without the object.
fn verb_for(view: &View, path: &ResourcePath, request: AuthenticatedRequest<'_>) -> Option<Verb> {
    let AuthenticatedRequest { info, parts, .. } = request;
    let is_head = parts.method == Method::HEAD && view.is_custom();
    if is_head { Verb::of(&Method::GET, path, &info.query) } else { info.verb }
}

/// The resource at a path, in the version of the path.
pub(super) fn find_view(catalogue: &Catalogue, path: &ResourcePath) -> Option<View> {
    View::of(catalogue.find(&path.group, &path.resource)?, &path.version)
}

/// The answer for a path that leads nowhere. Kubernetes' own groups answer with a status, those of definitions with the page
/// that their handler falls back to.
fn not_served(is_builtin: bool, method: &Method) -> Result<Response<Body>, Status> {
    if is_builtin { Err(no_such_resource(method)) } else { Ok(response::page_not_found()) }
}

/// What an unknown resource of a known group gets.
fn no_such_resource(method: &Method) -> Status {
    Status::generic(404, method.as_str(), &Subject::default(), "", "")
}

pub(super) fn has_part(view: &View, subresource: &str) -> bool {
    let version = view.version();
    match subresource {
        "" => true,
        "status" => version.has_status,
        "scale" => version.scale.is_some(),
        other => version.parts.iter().any(|part| part.name == other),
    }
}

/// Whether a path has a namespace where there is one. A list may leave it out.
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
