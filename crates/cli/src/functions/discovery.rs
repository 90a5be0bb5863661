//! The versions of everything that a control plane can call, at `/versions` and `/versions/{name}`.
//!
//! `ferroplane up` answers at its API server, `ferroplane start` where it serves plans and recordings, both to those who may `get` the path.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use ferroplane_apiserver::{EndpointPath, EndpointRequest, InProcessEndpoint, Server};
use ferroplane_client::{ApiClient, Error};
use ferroplane_controllers::FunctionCatalogue;
use ferroplane_functions::{Library, Versions};
use http::{Method, Request, Response};
use serde_json::Value;

/// Where they are.
pub(crate) const PATH: &str = "/versions";
const BELOW: &str = "/versions/";

/// Whether a path is one of these.
pub(crate) fn is_at(path: &str) -> bool {
    path == PATH || path.starts_with(BELOW)
}

/// Tells the versions of a control plane that runs.
#[derive(Debug, Clone)]
pub(crate) struct VersionsPage {
    catalogue: FunctionCatalogue,
    library: Arc<Library>,
}

impl VersionsPage {
    pub(crate) fn new(catalogue: FunctionCatalogue) -> anyhow::Result<Self> {
        let library = Library::built_in().context("cannot list the functions that are built in")?;
        Ok(Self { catalogue, library: Arc::new(library) })
    }

    pub(crate) fn answer<B>(&self, request: &Request<B>) -> Response<String> {
        let catalogue = self.catalogue.current();
        Versions { catalogue: &catalogue, library: &self.library }.answer(request)
    }

    /// Have an API server tell them.
    pub(crate) fn serve(self, server: &Server) {
        let endpoint = InProcessEndpoint::new(move |request: EndpointRequest| {
            std::future::ready(self.answer(&Request::from_parts(request.parts, ())))
        });
        for path in [EndpointPath::At(PATH), EndpointPath::Below(BELOW)] {
            server.register_endpoint(Method::GET, path, endpoint.clone());
        }
    }
}

/// The versions that a control plane has, of all functions or of one.
pub(crate) async fn ask(
    client: &ApiClient,
    name: Option<&str>,
    query: &str,
) -> anyhow::Result<Option<Value>> {
    let path = match name {
        Some(name) => format!("{BELOW}{name}{query}"),
        None => format!("{PATH}{query}"),
    };
    let document = match client.read(&path).await {
        Ok(Some(document)) => document,
        Ok(None) if name.is_some() => return Ok(None),
        Ok(None) => bail!(
            "this API server lists no functions: it is not `ferroplane up`; for `ferroplane start` on a cluster, forward a port to it and \
             name it with --plane"
        ),
        Err(Error::Refused(status)) => bail!("{}", status.message),
        Err(error) => {
            return Err(error).context("cannot get the versions of functions from the control plane");
        }
    };
    serde_json::from_slice(&document).context("cannot read the response of the control plane").map(Some)
}
