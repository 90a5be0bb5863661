//! What is wrong with how versions are converted.

use base64::Engine as _;

use super::bundle;
use super::definition::{Client, Conversion, Service};
use crate::field::{BadValue, Error, Path};
use crate::go_text;
use crate::names;
use crate::structural::format::split_scheme;

/// Versions of reviews that Kubernetes understands.
const UNDERSTOOD: [&str; 2] = ["v1", "v1beta1"];

pub(super) struct Rules {
    pub(super) requires_understood_version: bool,
    pub(super) allows_invalid_bundle: bool,
}

/// Whether a review could be understood, or nothing is said.
pub(super) fn has_understood_version(versions: &[String]) -> bool {
    versions.is_empty() || versions.iter().any(|version| UNDERSTOOD.contains(&version.as_str()))
}

pub(super) fn check(conversion: &Conversion, rules: &Rules, path: &Path<'_>, errors: &mut Vec<Error>) {
    const DETAIL: &str = "should not be set when strategy is not set to Webhook";
    super::check::one_of(&path.child("strategy"), &conversion.strategy, &["None", "Webhook"], errors);
    let client_path = path.child("webhookClientConfig");
    let versions_path = path.child("conversionReviewVersions");
    let versions = conversion.review_versions.as_deref().unwrap_or_default();
    if conversion.strategy == "Webhook" {
        match &conversion.client {
            None => errors.push(Error::required(&client_path, "required when strategy is set to Webhook")),
            Some(client) => check_client(client, rules, &client_path, errors),
        }
        check_versions(versions, rules, &versions_path, errors);
        return;
    }
    if conversion.client.is_some() {
        errors.push(Error::forbidden(&client_path, DETAIL));
    }
    if !versions.is_empty() {
        errors.push(Error::forbidden(&versions_path, DETAIL));
    }
}

fn check_client(client: &Client, rules: &Rules, path: &Path<'_>, errors: &mut Vec<Error>) {
    match (&client.url, &client.service) {
        (Some(url), None) => check_url(url, &path.child("url"), errors),
        (None, Some(service)) => check_service(service, &path.child("service"), errors),
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
    if !client.ca_bundle.is_empty()
        && !rules.allows_invalid_bundle
        && let Some(problem) = bundle::problem(&client.ca_bundle)
    {
        let shown = base64::engine::general_purpose::STANDARD.encode(&client.ca_bundle);
        errors.push(Error::invalid(&path.child("caBundle"), &shown, problem));
    }
}

fn check_versions(versions: &[String], rules: &Rules, path: &Path<'_>, errors: &mut Vec<Error>) {
    if versions.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let at = path.index(index);
        if versions[..index].contains(version) {
            errors.push(Error::invalid(&at, version, "duplicate version"));
            continue;
        }
        errors.extend(
            names::old_label(version).into_iter().map(|problem| Error::invalid(&at, version, problem)),
        );
    }
    if rules.requires_understood_version && !has_understood_version(versions) {
        let shown: Vec<_> =
            versions.iter().map(|version| serde_json::Value::from(version.as_str())).collect();
        let detail = format!("must include at least one of {}", UNDERSTOOD.join(", "));
        errors.push(Error::invalid(path, serde_json::Value::Array(shown), detail));
    }
}

fn check_url(url: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let parsed = match Url::parse(url) {
        Ok(parsed) => parsed,
        Err(problem) => {
            let detail = format!("url must be a valid URL: parse {}: {problem}{FORM}", go_text::quote(url));
            errors.push(Error::required(path, detail));
            return;
        }
    };
    if parsed.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(Error::invalid(path, parsed.scheme.as_str(), detail));
    }
    if parsed.host.is_empty() {
        errors.push(Error::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = parsed.user {
        errors.push(Error::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !parsed.fragment.is_empty() {
        errors.push(Error::invalid(path, parsed.fragment, "fragments are not permitted in the URL"));
    }
    if !parsed.query.is_empty() {
        errors.push(Error::invalid(path, parsed.query, "query parameters are not permitted in the URL"));
    }
}

struct Url<'t> {
    scheme: String,
    user: Option<&'t str>,
    host: &'t str,
    query: &'t str,
    fragment: &'t str,
}

impl<'t> Url<'t> {
    fn parse(text: &'t str) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let Some((scheme, rest)) = split_scheme(text) else {
            return Err("missing protocol scheme".to_owned());
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let scheme = scheme.to_lowercase();
        let nothing = Self { scheme: scheme.clone(), user: None, host: "", query, fragment };
        let Some(after) = rest.strip_prefix("//") else {
            let first = rest.split('/').next().unwrap_or_default();
            if scheme.is_empty() && first.contains(':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
            return Ok(nothing);
        };
        let authority = after.split('/').next().unwrap_or_default();
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        if let Some(port) = host.rfind(':').filter(|_| !host.starts_with('[')).map(|colon| &host[colon..])
            && !port[1..].bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(format!("invalid port {} after host", go_text::quote(port)));
        }
        if let Some(bad) = host.chars().find(|it| matches!(it, ' ' | '|' | '\\' | '^' | '`' | '{' | '}')) {
            return Err(format!("invalid character {} in host name", go_text::quote(&bad.to_string())));
        }
        Ok(Self { user, host, ..nothing })
    }
}

fn check_service(service: &Service, path: &Path<'_>, errors: &mut Vec<Error>) {
    // Kubernetes mixes the two up.
    if service.namespace.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    if service.name.is_empty() {
        errors.push(Error::required(&path.child("namespace"), ""));
    }
    if !(1..=65535).contains(&service.port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(Error::invalid(&path.child("port"), service.port, detail));
    }
    let Some(url_path) = service.path.as_deref() else { return };
    let at = path.child("path");
    let invalid = |detail: String| Error::invalid(&at, BadValue::from(url_path), detail);
    match url_path {
        "" | "/" => return,
        "//" => return errors.push(invalid("segment[0] may not be empty".to_owned())),
        _ => {}
    }
    if !url_path.starts_with('/') {
        errors.push(invalid("must start with a '/'".to_owned()));
    }
    let mut characters = url_path.chars();
    characters.next();
    let rest = characters.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            errors.push(invalid(format!("segment[{index}] may not be empty")));
            continue;
        }
        errors.extend(
            names::subdomain(segment).into_iter().map(|it| invalid(format!("segment[{index}]: {it}"))),
        );
    }
}
