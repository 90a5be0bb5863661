//! Whether the sender of a request may do what it asks for.

use ferroplane_schema::selector::FieldSelector;
use ferroplane_schema::status::Status;
use http::Method;

use super::Server;
use super::routes::AuthenticatedRequest;
use crate::auth::identity::Identity;
use crate::auth::rbac::Attributes;
use crate::request::{ResourcePath, Verb};

impl Server {
    /// Refuses a request about a resource that its sender may not make. Whether there is such a resource comes later: who
    /// may not see it is not told.
    pub(super) fn authorize(
        &self,
        identity: &Identity,
        path: &ResourcePath,
        request: AuthenticatedRequest<'_>,
    ) -> Result<(), Status> {
        // Who may read may also ask whether there is anything to read.
        let head = if path.name.is_empty() { "list" } else { "get" };
        let unknown = if request.parts.method == Method::HEAD { head } else { "" };
        let verb = request.info.verb.map_or(unknown, Verb::name);
        // Who asks for one object by its name may do so with the right to see just that one.
        let fields = FieldSelector::parse(request.info.query.get("fieldSelector")).ok();
        let selected = fields.as_ref().and_then(|fields| fields.required_value("metadata.name"));
        let name = match verb {
            "list" | "watch" if path.name.is_empty() => selected.unwrap_or_default(),
            // What is created takes its name from its body; only a part is created of what the path names.
            "create" if path.subresource.is_empty() => "",
            _ => &path.name,
        };
        let attributes = Attributes {
            verb,
            group: &path.group,
            resource: &path.resource,
            subresource: &path.subresource,
            name,
            namespace: path.request_namespace(),
            path: None,
        };
        self.decide(identity, &attributes, request)
    }

    /// Refuses a request about no resource that its sender may not make.
    pub(super) fn authorize_path(
        &self,
        identity: &Identity,
        request: AuthenticatedRequest<'_>,
    ) -> Result<(), Status> {
        let verb = request.parts.method.as_str().to_lowercase();
        let path = Some(request.parts.uri.path());
        self.decide(identity, &Attributes { verb: &verb, path, ..Attributes::default() }, request)
    }

    /// Decides, and notes for the audit log what and why.
    fn decide(
        &self,
        identity: &Identity,
        attributes: &Attributes<'_>,
        request: AuthenticatedRequest<'_>,
    ) -> Result<(), Status> {
        let decision = self.state.authorizer.policy().decide(identity, attributes);
        let refused = (!decision.is_allowed()).then(|| attributes.forbidden(identity, &decision.reason()));
        request.notes.authorize(decision);
        refused.map_or(Ok(()), Err)
    }
}
