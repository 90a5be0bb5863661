//! Where a webhook is: an address, or a service. What is wrong with either, in Kubernetes' words.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/util/webhook/validation.go`.

use ferroplane_golang::url;

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
pub(crate) fn check_url(address: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let parsed = match url::parse(address) {
        Ok(parsed) => parsed,
        Err(problem) => {
            let detail = format!("url must be a valid URL: {problem}{FORM}");
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
        errors.push(Error::invalid(path, &user.to_string(), "user information is not permitted in the URL"));
    }
    if !parsed.fragment.is_empty() {
        errors.push(Error::invalid(path, &parsed.fragment, "fragments are not permitted in the URL"));
    }
    if !parsed.query.is_empty() {
        errors.push(Error::invalid(path, &parsed.query, "query parameters are not permitted in the URL"));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(address: &str) -> Vec<String> {
        let mut errors = Vec::new();
        check_url(address, &Path::new("url"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn address_that_go_cannot_read_is_refused() {
        assert_eq!(problems("https://a.b/c"), Vec::<String>::new());
        assert_eq!(
            problems("https://a/%zz"),
            [
                r#"url: Required value: url must be a valid URL: parse "https://a/%zz": invalid URL escape "%zz"; desired format: https://host[/path]"#
            ]
        );
        for address in ["https://a%zz/", "https://[::1/", "https://[1.2.3.4]/", "https://a:b:80/"] {
            assert_eq!(problems(address).len(), 1, "{address}");
        }
        assert_eq!(
            problems("https://u:p!@a/?b#c"),
            [
                r#"url: Invalid value: "u:p%21": user information is not permitted in the URL"#,
                r#"url: Invalid value: "c": fragments are not permitted in the URL"#,
                r#"url: Invalid value: "b": query parameters are not permitted in the URL"#,
            ]
        );
    }
}
