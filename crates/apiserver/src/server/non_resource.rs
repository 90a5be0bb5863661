//! Requests that are not about objects: discovery, OpenAPI, version and health.

use bytes::Bytes;
use ferroplane_metrics::Exposition;
use ferroplane_schema::status::{Resource, Status};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, LOCATION, VARY};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Server, ServerState};
use crate::auth::authenticate::ServiceAccountTokens;
use crate::discovery;
use crate::negotiate::{self, Discovery, Form};
use crate::openapi::{self, Documents, Found};
use crate::registry::Catalogue;
use crate::request::{Query, RequestInfo, Target};
use crate::response::{self, Body};
use crate::store::Health;

/// The version of Kubernetes whose API this is.
const GIT_VERSION: &str = "v1.36.4";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl Server {
    pub(super) fn non_resource(
        &self,
        catalogue: &Catalogue,
        info: &RequestInfo,
        parts: &Parts,
    ) -> Result<Response<Body>, Status> {
        let is_read = parts.method == Method::GET;
        let found = match &info.target {
            Target::Groups { is_core } => return groups(catalogue, *is_core, parts),
            Target::Group(group) => discovery::group(catalogue, group),
            Target::GroupVersion { group, version } => {
                match discovery::resources(catalogue, group, version) {
                    // Discovery of groups that are built in has handlers of its own in kube-apiserver, which say 405 and 404
                    // as JSON. Other paths end at a plain page.
                    Some(_) if !is_read => return Err(not_allowed(parts)),
                    None if catalogue.is_builtin(group) => return Err(not_found(parts)),
                    found => found,
                }
            }
            Target::Resource(_) => None,
            Target::Other(path) if is_below_builtin(catalogue, path) => return Err(not_found(parts)),
            Target::Other(path) if path == "/version" && !is_read => return Err(not_allowed(parts)),
            Target::Other(path) => return Ok(self.page(catalogue, path, &info.query, parts)),
        };
        let form = negotiate::error_form(&parts.headers);
        Ok(found.map_or_else(response::page_not_found, |document| {
            response::document(StatusCode::OK, form, &document)
        }))
    }

    fn page(&self, catalogue: &Catalogue, path: &str, query: &Query, parts: &Parts) -> Response<Body> {
        match path.trim_end_matches('/') {
            "" => response::document(StatusCode::OK, Form::Json, &paths(catalogue)),
            "/version" => response::document(StatusCode::OK, Form::Json, &version()),
            "/metrics" => self.metrics(),
            "/openid/v1/jwks" => self.about_tokens("application/jwk-set+json", ServiceAccountTokens::key_set),
            "/.well-known/openid-configuration" => {
                // HTTP/2 has the host in the request line, HTTP/1 in a header.
                let host = parts.uri.authority().map(ToString::to_string);
                let header = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
                let server = format!("https://{}", host.or(header).unwrap_or_default());
                self.about_tokens("application/json", |accounts| accounts.discovery(&server))
            }
            "/openapi/v2" => {
                let is_protobuf = negotiate::wants_protobuf_of_openapi(&parts.headers);
                let content_type = if is_protobuf { openapi::PROTOBUF } else { Form::Json.media_type() };
                let document = self.state.documents.version_2(catalogue, is_protobuf);
                response::of_type(StatusCode::OK, content_type, document)
            }
            "/openapi/v3" => response::document(StatusCode::OK, Form::Json, &Documents::index(catalogue)),
            path => {
                if let Some(path) = path.strip_prefix("/openapi/v3/") {
                    return self.openapi(catalogue, path, query.get("hash"));
                }
                let page = self.health(path, query.has("verbose"));
                page.unwrap_or_else(response::page_not_found)
            }
        }
    }

    fn metrics(&self) -> Response<Body> {
        let ServerState { store, flow_control, audit, metrics, other_metrics, .. } = &*self.state;
        let mut page = Exposition::default();
        metrics.write(&mut page, store, flow_control, audit.get());
        if let Some(write_others) = other_metrics.get() {
            write_others(&mut page);
        }
        let text = Bytes::from(page.into_text());
        response::of_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
    }

    /// What others need to verify tokens of service accounts.
    fn about_tokens(
        &self,
        content_type: &'static str,
        tell: impl Fn(&ServiceAccountTokens) -> Value,
    ) -> Response<Body> {
        let Some(accounts) = self.state.issuer.get() else { return response::page_not_found() };
        let mut response = response::json(StatusCode::OK, Bytes::from(tell(accounts).to_string()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
        response
    }

    fn openapi(&self, catalogue: &Catalogue, path: &str, hash: &str) -> Response<Body> {
        match self.state.documents.find(catalogue, path, hash) {
            None => response::page_not_found(),
            Some(Found::Moved(location)) => {
                let mut response = response::text(StatusCode::MOVED_PERMANENTLY, "");
                if let Ok(location) = HeaderValue::from_str(&location) {
                    response.headers_mut().insert(LOCATION, location);
                }
                response
            }
            Some(Found::Document { bytes, is_immutable }) => {
                let mut response = response::json(StatusCode::OK, bytes);
                response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
                if is_immutable {
                    let immutable = HeaderValue::from_static("public, immutable");
                    response.headers_mut().insert(CACHE_CONTROL, immutable);
                }
                response
            }
        }
    }

    /// Whether all is well, at `/healthz`, `/livez` and `/readyz`, or one part of it below them.
    fn health(&self, path: &str, is_verbose: bool) -> Option<Response<Body>> {
        let rest = ["/healthz", "/livez", "/readyz"].iter().find_map(|prefix| {
            let rest = path.strip_prefix(prefix)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| (*prefix, rest.trim_start_matches('/')))
        });
        let (prefix, only) = rest?;
        let checks = [("ping", None), ("store", self.trouble_with_store())];
        let wanted: Vec<_> = checks.iter().filter(|(name, _)| only.is_empty() || *name == only).collect();
        if wanted.is_empty() {
            return None;
        }
        let is_well = wanted.iter().all(|(_, trouble)| trouble.is_none());
        let code = if is_well { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
        if is_well && !is_verbose {
            return Some(response::text(code, "ok"));
        }
        let lines = wanted.iter().map(|(name, trouble)| match trouble {
            None => format!("[+]{name} ok\n"),
            Some(trouble) => format!("[-]{name} failed: {trouble}\n"),
        });
        let verdict = if is_well { "passed" } else { "failed" };
        let name = prefix.trim_start_matches('/');
        Some(response::text(code, format!("{}{name} check {verdict}\n", lines.collect::<String>())))
    }

    fn trouble_with_store(&self) -> Option<String> {
        match self.state.store.health() {
            Health::Fine => None,
            Health::Full(error) | Health::Failed(error) => Some(error.to_string()),
        }
    }
}

fn groups(catalogue: &Catalogue, is_core: bool, parts: &Parts) -> Result<Response<Body>, Status> {
    if let Discovery::Aggregated(_) = negotiate::discovery(&parts.headers)? {
        return Ok(aggregated(&discovery::aggregated(catalogue, is_core), parts));
    }
    let document = if is_core {
        discovery::core_versions(
            catalogue,
            &parts.uri.authority().map(ToString::to_string).unwrap_or_default(),
        )
    } else {
        discovery::groups(catalogue)
    };
    Ok(response::document(StatusCode::OK, negotiate::error_form(&parts.headers), &document))
}

/// Whether a path that leads nowhere begins with a group of Kubernetes' own.
fn is_below_builtin(catalogue: &Catalogue, path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    match parts.next() {
        Some("api") => true,
        Some("apis") => parts.next().is_some_and(|group| catalogue.is_builtin(group)),
        _ => false,
    }
}

fn not_found(parts: &Parts) -> Status {
    Status::generic(404, parts.method.as_str(), &Resource::default(), "", "")
}

fn not_allowed(parts: &Parts) -> Status {
    Status::generic(405, parts.method.as_str(), &Resource::default(), "", "")
}

/// Clients keep the document and ask only whether it is still the same.
fn aggregated(document: &Value, parts: &Parts) -> Response<Body> {
    let text = document.to_string();
    let digest = Sha256::digest(text.as_bytes());
    let tag = digest.iter().fold(String::new(), |mut tag, byte| {
        tag.push_str(&format!("{byte:02X}"));
        tag
    });
    let tag = format!("\"{tag}\"");
    let is_known = parts.headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if is_known {
        response::of_type(StatusCode::NOT_MODIFIED, AGGREGATED, Bytes::new())
    } else {
        response::of_type(StatusCode::OK, AGGREGATED, Bytes::from(text))
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}

fn paths(catalogue: &Catalogue) -> Value {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for group in catalogue.groups() {
        if group.is_empty() {
            paths.extend(catalogue.versions(group).into_iter().map(|version| format!("/api/{version}")));
        } else {
            paths.push(format!("/apis/{group}"));
            paths.extend(
                catalogue.versions(group).into_iter().map(|version| format!("/apis/{group}/{version}")),
            );
        }
    }
    paths.extend(
        [
            "/.well-known/openid-configuration",
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/openid/v1/jwks",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    paths.sort();
    json!({ "paths": paths })
}

fn version() -> Value {
    let mut numbers = GIT_VERSION.trim_start_matches('v').split('.');
    json!({
        "major": numbers.next(),
        "minor": numbers.next(),
        "gitVersion": format!("{GIT_VERSION}+ferroplane-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
