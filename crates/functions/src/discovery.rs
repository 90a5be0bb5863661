//! Which functions there are in which versions, as a document, and as an answer to a web request.
//!
//! Performs no I/O. `ferroplane functions versions` prints the document, and control planes answer with it at `/versions`. It tells
//! nothing about users.

use ferroplane_engine::versions::{Catalogue, Family, LifecycleState, Question, Record, Version, resolve};
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::Library;

/// Everything that can be called, to be told about.
#[derive(Debug, Clone, Copy)]
pub struct Versions<'v> {
    pub catalogue: &'v Catalogue,
    /// Knows more about what is built in.
    pub library: &'v Library,
}

/// What of it to tell.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only versions in one of these states. None: all.
    pub states: Vec<LifecycleState>,
    /// Only versions from there: `builtin` or `package`.
    pub source: Option<String>,
}

impl Versions<'_> {
    /// All functions with the versions that pass the filter. Functions without any are left out.
    pub fn document(&self, filter: &Filter) -> Value {
        let functions: Vec<_> = self
            .catalogue
            .families()
            .map(|family| self.function(family, filter))
            .filter(|function| function["versions"].as_array().is_some_and(|versions| !versions.is_empty()))
            .collect();
        json!({"release": self.catalogue.release().plain(), "functions": functions})
    }

    /// One function with the versions that pass the filter.
    pub fn function_document(&self, function: &str, filter: &Filter) -> Option<Value> {
        let family = self.catalogue.family(function)?;
        let mut document = self.function(family, filter);
        document["release"] = self.catalogue.release().plain().into();
        Some(document)
    }

    fn function(&self, family: &Family, filter: &Filter) -> Value {
        // Asked of the same code that steps are resolved with, so that this document cannot disagree with it.
        let by_default = resolve(self.catalogue, &Question::about(&family.function)).ok();
        let by_default = by_default.and_then(|resolution| resolution.record.version.clone());
        let versions = family.records.iter().filter(|record| self.passes(family, record, filter));
        let contract = self.library.contract(&family.function);
        let mut document = Map::from_iter([
            ("name".to_owned(), family.function.clone().into()),
            ("versions".to_owned(), versions.map(|record| self.version(family, record)).collect()),
        ]);
        let package = contract.and_then(|contract| contract.package.clone());
        insert(&mut document, "about", contract.map(|contract| contract.about.clone()));
        insert(&mut document, "package", package);
        insert(&mut document, "stable", family.stable.as_ref().map(Version::to_string));
        insert(&mut document, "default", by_default.as_ref().map(Version::to_string));
        Value::Object(document)
    }

    fn version(&self, family: &Family, record: &Record) -> Value {
        let metadata = record
            .version
            .as_ref()
            .and_then(|version| self.library.version_metadata(&family.function, version));
        let life = &record.lifecycle;
        let mut document = Map::from_iter([
            ("state".to_owned(), family.state(record, self.catalogue.release()).as_str().into()),
            ("revision".to_owned(), record.revision.number.into()),
            ("revisionName".to_owned(), record.revision.name.clone().into()),
            ("active".to_owned(), self.is_active(family, record).into()),
            ("source".to_owned(), record.source.as_str().into()),
        ]);
        insert(&mut document, "version", record.version.as_ref().map(Version::to_string));
        insert(&mut document, "introducedIn", life.introduced_in.as_ref().map(Version::plain));
        insert(&mut document, "deprecatedIn", life.deprecated_in.as_ref().map(Version::plain));
        insert(&mut document, "removedIn", life.removed_in.as_ref().map(Version::plain));
        insert(&mut document, "replacedBy", life.replaced_by.as_ref().map(Version::to_string));
        if let Some(metadata) = metadata {
            insert(&mut document, "covers", metadata.covers.as_ref().map(ToString::to_string));
            for (field, releases) in [("compared", &metadata.compared), ("readNotCompared", &metadata.read)] {
                if !releases.is_empty() {
                    let releases: Vec<_> = releases.iter().map(ToString::to_string).collect();
                    document.insert(field.to_owned(), releases.into());
                }
            }
            document.insert("capabilities".to_owned(), metadata.capabilities.clone().into());
        }
        let phase = record
            .version
            .as_ref()
            .and_then(|version| self.library.phase_function(&family.function, version));
        if let Some(phase) = phase {
            let contract = phase.contract();
            let needs: Vec<_> = contract.needs.iter().map(|need| need.as_str()).collect();
            document.insert(
                "args".to_owned(),
                json!({"required": contract.required, "optional": contract.optional}),
            );
            document.insert("outputs".to_owned(), contract.outputs.into());
            document.insert("needs".to_owned(), needs.into());
        }
        Value::Object(document)
    }

    fn passes(&self, family: &Family, record: &Record, filter: &Filter) -> bool {
        let state = family.state(record, self.catalogue.release());
        let is_from_there = filter.source.as_deref().is_none_or(|source| source == record.source.as_str());
        is_from_there && (filter.states.is_empty() || filter.states.contains(&state))
    }

    fn is_active(&self, family: &Family, record: &Record) -> bool {
        record.is_active && family.state(record, self.catalogue.release()) != LifecycleState::Removed
    }

    /// Answer `GET /versions` and `GET /versions/{name}`, with `?state=` and `?source=`.
    pub fn answer<B>(&self, request: &Request<B>) -> Response<String> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut refusal = problem(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        let filter = match filter(request.uri().query().unwrap_or_default()) {
            Ok(filter) => filter,
            Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
        };
        let document = match request.uri().path().trim_end_matches('/').strip_prefix("/versions") {
            Some("") => Some(self.document(&filter)),
            Some(rest) => rest.strip_prefix('/').and_then(|name| self.function_document(name, &filter)),
            None => None,
        };
        let Some(document) = document else {
            let name = request.uri().path().trim_start_matches("/versions/");
            return problem(StatusCode::NOT_FOUND, &format!("there is no function `{name}`"));
        };
        if prefers_yaml(request) {
            return found(request, ferroplane_golang::yaml::to_yaml(&document), "application/yaml");
        }
        found(request, format!("{document:#}\n"), "application/json")
    }
}

/// Whether YAML is among what a client accepts, and JSON is not.
fn prefers_yaml<B>(request: &Request<B>) -> bool {
    let accepted = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let types: Vec<_> = accepted
        .flat_map(|list| list.split(','))
        .map(|kind| kind.split(';').next().unwrap_or_default().trim())
        .collect();
    let has = |wanted: &[&str]| types.iter().any(|kind| wanted.contains(kind));
    has(&["application/yaml", "application/x-yaml", "text/yaml"]) && !has(&["application/json"])
}

fn insert(document: &mut Map<String, Value>, key: &str, value: Option<String>) {
    document.extend(value.map(|value| (key.to_owned(), value.into())));
}

fn filter(query: &str) -> Result<Filter, String> {
    let mut filter = Filter::default();
    for (key, value) in query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    {
        match (key, value) {
            ("state", _) => filter.states.push(value.parse()?),
            ("source", "builtin" | "package") => filter.source = Some(value.to_owned()),
            ("source", _) => return Err(format!("`{value}` is not a source: expected builtin or package")),
            _ => return Err(format!("`{key}` is not a filter: expected state or source")),
        }
    }
    Ok(filter)
}

fn found<B>(request: &Request<B>, body: String, media_type: &'static str) -> Response<String> {
    let digest = Sha256::digest(&body);
    // Half of the digest is far more than enough to tell versions of one document apart.
    let tag = format!("\"{}\"", ferroplane_wire::to_hex(&digest[..16]));
    let known = request.headers().get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|list| list.split(',')).any(|known| {
        let known = known.trim();
        // `If-None-Match` compares weakly (RFC 9110, 13.1.2).
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    });
    let status = if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    // The tag of a HEAD is that of the body it does not get.
    let has_body = !is_known && request.method() != Method::HEAD;
    let mut response = response_of(status, if has_body { body } else { String::new() }, media_type);
    // A cache must not give JSON to a caller that asks for YAML.
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    let tag = HeaderValue::try_from(tag).expect("hexadecimal digits in quotes");
    response.headers_mut().insert(ETAG, tag);
    // Caches may keep it but have to ask each time: a package can be installed at any moment.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn problem(status: StatusCode, why: &str) -> Response<String> {
    response_of(status, format!("{:#}\n", json!({"error": why})), "application/json")
}

fn response_of(status: StatusCode, body: String, media_type: &'static str) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

#[cfg(test)]
mod tests {
    use ferroplane_engine::versions::Lifecycle;

    use super::*;
    use crate::{Contract, Declaration, Implementation, VersionMetadata, response};

    /// `f` in release 0.5.0: v0.1.0 is removed, v0.2.0 deprecated, v0.3.0 stable, v0.4.0 available.
    fn library() -> Library {
        let mut library = Library::empty(Version::new(0, 5, 0));
        let life = |deprecated: Option<u64>, removed: Option<u64>| VersionMetadata {
            lifecycle: Lifecycle {
                introduced_in: Some(Version::new(0, 1, 0)),
                deprecated_in: deprecated.map(|minor| Version::new(0, minor, 0)),
                removed_in: removed.map(|minor| Version::new(0, minor, 0)),
                replaced_by: None,
            },
            ..VersionMetadata::default()
        };
        let code = || Some(Implementation::new(response::to));
        let versions = vec![
            ("v0.1.0".to_owned(), life(Some(2), Some(5)), None),
            ("v0.2.0".to_owned(), life(Some(5), Some(7)), code()),
            ("v0.3.0".to_owned(), life(None, None), code()),
            ("v0.4.0".to_owned(), life(None, None), code()),
        ];
        let contract = Contract { about: "Tests".to_owned(), ..Contract::default() };
        let (function, stable) = ("f".to_owned(), "v0.3.0".to_owned());
        library.register(Declaration { function, contract, stable, versions }).unwrap();
        library
            .register_unversioned("plain", Contract::default(), Implementation::new(response::to))
            .unwrap();
        library
    }

    fn get(path: &str, headers: &[(&str, &str)]) -> Response<String> {
        let library = library();
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Versions { catalogue: library.catalogue(), library: &library }.answer(&request.body(()).unwrap())
    }

    fn body(path: &str) -> Value {
        serde_json::from_str(get(path, &[]).body()).unwrap()
    }

    fn states(function: &Value) -> Vec<String> {
        let versions = function["versions"].as_array().unwrap().iter();
        versions
            .map(|version| format!("{} {}", version["version"], version["state"]).replace('"', ""))
            .collect()
    }

    #[test]
    fn every_function_is_listed_with_all_its_versions_even_those_that_were_removed() {
        let all = body("/versions");
        assert_eq!(all["release"], "0.5.0");
        assert_eq!(all["functions"][0]["stable"], "v0.3.0");
        assert_eq!(all["functions"][0]["default"], "v0.3.0");
        let expected = ["v0.1.0 removed", "v0.2.0 deprecated", "v0.3.0 stable", "v0.4.0 available"];
        assert_eq!(states(&all["functions"][0]), expected);
        assert_eq!(all["functions"][0]["versions"][0]["active"], false);
        assert_eq!(all["functions"][0]["versions"][0]["removedIn"], "0.5.0");
        assert_eq!(states(&all["functions"][1]), ["v0.0.0 stable"]);
    }

    #[test]
    fn filters_leave_out_versions_and_functions_without_any() {
        let deprecated = body("/versions?state=deprecated");
        assert_eq!(deprecated["functions"].as_array().unwrap().len(), 1);
        assert_eq!(states(&deprecated["functions"][0]), ["v0.2.0 deprecated"]);
        assert_eq!(
            states(&body("/versions/f?state=stable&state=removed")),
            ["v0.1.0 removed", "v0.3.0 stable"]
        );
        assert_eq!(body("/versions?source=package")["functions"], json!([]));
    }

    #[test]
    fn mistakes_are_explained() {
        let table = [
            ("/versions/Nope", 404, "there is no function `Nope`"),
            ("/versions/f/more", 404, "there is no function `f/more`"),
            ("/versionsf", 404, "there is no function `/versionsf`"),
            (
                "/versions?state=old",
                400,
                "`old` is not a state: expected one of available, stable, deprecated, removed",
            ),
            ("/versions?colour=red", 400, "`colour` is not a filter: expected state or source"),
            ("/versions?source=moon", 400, "`moon` is not a source: expected builtin or package"),
        ];
        for (path, status, message) in table {
            let response = get(path, &[]);
            assert_eq!(response.status(), status, "{path}");
            assert_eq!(body(path)["error"], message);
        }
    }

    #[test]
    fn what_did_not_change_is_not_sent_again() {
        let first = get("/versions", &[]);
        let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
        for known in [tag.clone(), format!("\"other\", {tag}"), format!("W/{tag}"), "*".to_owned()] {
            let again = get("/versions", &[("if-none-match", &known)]);
            assert_eq!((again.status(), again.body().as_str()), (StatusCode::NOT_MODIFIED, ""), "{known}");
        }
        assert_eq!(get("/versions", &[("if-none-match", "\"other\"")]).status(), StatusCode::OK);
        assert_ne!(get("/versions/f", &[]).headers()[ETAG].to_str().unwrap(), tag);
    }

    #[test]
    fn revisions_of_a_package_are_listed_beside_what_is_built_in() {
        let library = library();
        let mut catalogue = library.catalogue().clone();
        let record = |number: u64, is_active: bool| Record {
            revision: ferroplane_engine::versions::Revision { name: format!("own-{number}"), number },
            version: Some(Version::new(1, number, 0)),
            labels: std::collections::BTreeMap::new(),
            lifecycle: Lifecycle::default(),
            is_active,
            is_serving: is_active,
            built_in: None,
            source: ferroplane_engine::versions::VersionSource::Package,
            is_implemented: true,
        };
        let records = vec![record(1, false), record(2, true), record(3, true)];
        catalogue.add(Family { function: "own".to_owned(), stable: None, records }).unwrap();
        let versions = Versions { catalogue: &catalogue, library: &library };
        let document = versions.document(&Filter { source: Some("package".to_owned()), ..Filter::default() });
        let [own] = &document["functions"].as_array().unwrap()[..] else { panic!("{document:#}") };
        assert_eq!(own["default"], "v1.3.0");
        let listed: Vec<_> = own["versions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| (it["revision"].clone(), it["active"].clone()))
            .collect();
        assert_eq!(listed, [(json!(1), json!(false)), (json!(2), json!(true)), (json!(3), json!(true))]);
        assert!(versions.document(&Filter::default())["functions"].as_array().unwrap().len() > 2);
    }

    #[test]
    fn who_asks_for_yaml_gets_yaml() {
        let yaml = get("/versions/f", &[("accept", "application/yaml")]);
        assert_eq!(yaml.headers()[CONTENT_TYPE], "application/yaml");
        assert!(yaml.body().contains("\nname: f\n"), "{}", yaml.body());
        for accepted in ["*/*", "application/json, application/yaml"] {
            assert_eq!(
                get("/versions/f", &[("accept", accepted)]).headers()[CONTENT_TYPE],
                "application/json"
            );
        }
        assert_ne!(yaml.headers()[ETAG], get("/versions/f", &[]).headers()[ETAG]);
    }

    #[test]
    fn functions_of_phases_are_listed_with_their_arguments_and_needs() {
        let library = Library::built_in().unwrap();
        let versions = Versions { catalogue: library.catalogue(), library: &library };
        let document = versions.function_document("KubeOps", &Filter::default()).unwrap();
        assert_eq!(document["stable"], "v0.1.0");
        let later = &document["versions"][1];
        assert_eq!(later["args"]["required"], json!(["operation"]));
        assert!(later["args"]["optional"].as_array().unwrap().contains(&json!("patchType")));
        assert_eq!((&later["needs"], &later["capabilities"]), (&json!(["api"]), &json!(["action"])));
        assert!(
            !document["versions"][0]["args"]["optional"].as_array().unwrap().contains(&json!("patchType"))
        );
    }

    #[test]
    fn every_function_has_exactly_one_stable_version() {
        let library = Library::built_in().unwrap();
        let document =
            Versions { catalogue: library.catalogue(), library: &library }.document(&Filter::default());
        for function in document["functions"].as_array().unwrap() {
            let versions = function["versions"].as_array().unwrap().iter();
            assert_eq!(versions.filter(|version| version["state"] == "stable").count(), 1, "{function}");
        }
    }

    #[test]
    fn only_reading_is_answered() {
        let library = library();
        let request = Request::post("/versions").body(()).unwrap();
        let refused = Versions { catalogue: library.catalogue(), library: &library }.answer(&request);
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers()[ALLOW], "GET, HEAD");
    }
}
