//! Whether the sender of a request may do what it asks for.

use ferroplane_schema::selector::FieldSelector;
use ferroplane_schema::status::Status;
use http::Method;
use http::request::Parts;

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
        let verb = request.info.verb;
        // Who may read may also ask whether there is anything to read.
        let head = if path.name.is_empty() { "list" } else { "get" };
        let unknown = if request.parts.method == Method::HEAD { head } else { "" };
        // Who asks for one object by its name may do so with the right to see just that one.
        let fields = FieldSelector::parse(request.info.query.get("fieldSelector")).ok();
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
        if let Some(grant) = request.grant {
            let _ = grant.set(decision.reason());
        }
        Ok(())
    }

    /// Refuses a request about no resource that its sender may not make.
    pub(super) fn authorize_path(&self, identity: &Identity, parts: &Parts) -> Result<(), Status> {
        let verb = parts.method.as_str().to_lowercase();
        let attributes = Attributes { verb: &verb, path: Some(parts.uri.path()), ..Attributes::default() };
        self.state.authorizer.policy().check(identity, &attributes)
    }
}
