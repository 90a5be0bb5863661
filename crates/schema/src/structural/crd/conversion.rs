//! What is wrong with how versions are converted.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/validation/validation.go`.

use std::collections::HashSet;

use base64::Engine as _;

use super::bundle;
use super::definition::{Client, Conversion};
use crate::field::{Error, Path};
use crate::names;
use crate::webhook_address;

/// Versions of reviews that Kubernetes understands.
const UNDERSTOOD: [&str; 2] = ["v1", "v1beta1"];

pub(super) struct ConversionRules {
    pub(super) requires_understood_version: bool,
    pub(super) allows_invalid_bundle: bool,
}

/// Whether a review could be understood, or nothing is said.
pub(super) fn has_understood_version(versions: &[String]) -> bool {
    versions.is_empty() || versions.iter().any(|version| UNDERSTOOD.contains(&version.as_str()))
}

pub(super) fn check(
    conversion: &Conversion,
    rules: &ConversionRules,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    const DETAIL: &str = "should not be set when strategy is not set to Webhook";
    super::check::one_of(&path.child("strategy"), &conversion.strategy, &["None", "Webhook"], errors);
    // The names of the internal form, which is older than v1 and has no `webhook` around them.
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

fn check_client(client: &Client, rules: &ConversionRules, path: &Path<'_>, errors: &mut Vec<Error>) {
    match (&client.url, &client.service) {
        (Some(url), None) => webhook_address::check_url(url, &path.child("url"), errors),
        (None, Some(service)) => webhook_address::check_service(service, &path.child("service"), errors),
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

fn check_versions(versions: &[String], rules: &ConversionRules, path: &Path<'_>, errors: &mut Vec<Error>) {
    if versions.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let at = path.index(index);
        if !seen.insert(version) {
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
