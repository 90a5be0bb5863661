//! What requests are counted as.

use http::Method;

use super::Server;
use super::routes::{find_view, has_part};
use crate::metrics::Labels;
use crate::request::{RequestInfo, Verb};

impl Server {
    /// The labels of a request. Resources that do not exist share one series, so that clients cannot create series without end.
    pub(super) fn labels(&self, method: &Method, info: &RequestInfo) -> Labels {
        let method = match *method {
            Method::GET | Method::HEAD => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "other",
        };
        let unknown = Labels { verb: method, ..Labels::default() };
        let Some(path) = info.resource() else { return unknown };
        let view = find_view(&self.state.registry.catalogue(), path);
        if !view.is_some_and(|view| has_part(&view, &path.subresource)) {
            return unknown;
        }
        Labels {
            verb: match info.verb {
                Some(Verb::List) => "LIST",
                Some(Verb::Watch) => "WATCH",
                Some(Verb::DeleteCollection) => "DELETECOLLECTION",
                _ => method,
            },
            group: path.group.clone(),
            version: path.version.clone(),
            resource: path.resource.clone(),
            subresource: path.subresource.clone(),
            scope: match (path.name.is_empty(), path.namespace.is_empty()) {
                (false, _) => "resource",
                (true, false) => "namespace",
                (true, true) => "cluster",
            },
        }
    }
}
