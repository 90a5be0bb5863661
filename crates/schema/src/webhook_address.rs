//! Where a webhook is: an address, or a service. What is wrong with either, in Kubernetes' words.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/util/webhook/validation.go`.

use ferroplane_golang::strconv;
use ferroplane_golang::url::split_scheme;

use crate::field::{BadValue, Error, Path};
use crate::names;

/// A service that is a webhook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) path: Option<String>,
    pub(crate) port: i64,
}

/// What is wrong with the address of a webhook.
pub(crate) fn check_url(url: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let parsed = match Url::parse(url) {
        Ok(parsed) => parsed,
        Err(problem) => {
            let detail = format!("url must be a valid URL: parse {}: {problem}{FORM}", strconv::quote(url));
            // Required although it is there: so says `ValidateWebhookURL`.
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
            return Err(format!("invalid port {} after host", strconv::quote(port)));
        }
        if let Some(bad) = host.chars().find(|it| matches!(it, ' ' | '|' | '\\' | '^' | '`' | '{' | '}')) {
            return Err(format!("invalid character {} in host name", strconv::quote(&bad.to_string())));
        }
        Ok(Self { user, host, ..nothing })
    }
}

/// What is wrong with the service that a webhook is.
pub(crate) fn check_service(service: &Service, path: &Path<'_>, errors: &mut Vec<Error>) {
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
