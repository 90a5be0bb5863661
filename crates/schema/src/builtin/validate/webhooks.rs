//! What is wrong with configurations of webhooks.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/admissionregistration/validation/validation.go`.

use std::collections::HashSet;

use ferroplane_golang::json;
use ferroplane_golang::json::JsonObject;
use serde_json::{Map, Value};

use super::read::{self, by_rule};
use crate::admission::{self, Refusal};
use crate::field::{BadValue, Error, Path};
use crate::names;
use crate::selector;
use crate::webhook_address::{self, Service};

/// Versions of reviews that Kubernetes understands.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const HARMLESS: [&str; 2] = ["None", "NoneOnDryRun"];
const MOST_CONDITIONS: i64 = 64;

/// What is held against a configuration. What was fine when it was stored stays so.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be overlooked")]
struct Rules {
    ignores_conditions: bool,
    allows_side_effects: bool,
    requires_known_review: bool,
    requires_unique_names: bool,
    allows_invalid_values: bool,
}

/// What is wrong with a new configuration.
pub(super) fn create(object: &JsonObject) -> Vec<Error> {
    let rules = Rules {
        ignores_conditions: false,
        allows_side_effects: false,
        requires_known_review: true,
        requires_unique_names: true,
        allows_invalid_values: false,
    };
    check(object, rules)
}

/// What is wrong with a configuration that replaces another.
pub(super) fn update(object: &JsonObject, old: &JsonObject) -> Vec<Error> {
    let before: Vec<_> = webhooks(old).map(|(_, hook)| hook).collect();
    let conditions = |object| webhooks(object).map(|(_, hook)| read::list(hook, "matchConditions"));
    let is_harmless = |hook: &&JsonObject| HARMLESS.contains(&read::text(hook, "sideEffects"));
    let is_known = |hook: &&JsonObject| {
        let versions = read::list(hook, "admissionReviewVersions");
        versions.is_empty() || versions.iter().any(is_known_review)
    };
    let names: HashSet<_> = before.iter().map(|hook| read::text(hook, "name")).collect();
    let rules = Rules {
        // Expressions that did not change are not compiled again, and so cannot be refused later.
        ignores_conditions: conditions(object).eq(conditions(old)),
        allows_side_effects: !before.iter().all(is_harmless),
        requires_known_review: before.iter().all(is_known),
        requires_unique_names: names.len() == before.len(),
        allows_invalid_values: before.iter().any(|hook| has_invalid_selector(hook)),
    };
    check(object, rules)
}

fn webhooks(object: &JsonObject) -> impl Iterator<Item = (usize, &JsonObject)> {
    read::objects(object, "webhooks")
}

fn has_invalid_selector(hook: &JsonObject) -> bool {
    let selectors = ["namespaceSelector", "objectSelector"].into_iter().filter_map(|name| hook.get(name));
    let mut selectors = selectors.filter(|selector| !selector.is_null());
    selectors.any(|selector| !selector::validate(selector, &Path::NIL).is_empty())
}

fn is_known_review(version: &Value) -> bool {
    version.as_str().is_some_and(|version| REVIEWS.contains(&version))
}

fn check(object: &JsonObject, rules: Rules) -> Vec<Error> {
    let mut errors = Vec::new();
    let root = Path::new("webhooks");
    let mut seen = HashSet::new();
    for (index, hook) in webhooks(object) {
        let path = root.index(index);
        check_webhook(hook, rules, &path, &mut errors);
        check_reviews(hook, rules, &path.child("admissionReviewVersions"), &mut errors);
        let name = read::text(hook, "name");
        if rules.requires_unique_names && !name.is_empty() && !seen.insert(name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
    }
    errors
}

fn check_webhook(hook: &JsonObject, rules: Rules, path: &Path<'_>, errors: &mut Vec<Error>) {
    errors.extend(full_name(read::text(hook, "name"), &path.child("name")));
    let at = path.child("rules");
    for (index, rule) in read::objects(hook, "rules") {
        check_rule(rule, &at.index(index), errors);
    }
    errors.extend(allowed(hook, "failurePolicy", &["Fail", "Ignore"], path));
    errors.extend(allowed(hook, "matchPolicy", &["Equivalent", "Exact"], path));
    check_side_effects(hook, rules, path, errors);
    if let Some(seconds) = read::integer(hook, "timeoutSeconds").filter(|it| !(1..=30).contains(it)) {
        let words = "the timeout value must be between 1 and 30 seconds";
        errors.push(Error::invalid(&path.child("timeoutSeconds"), seconds, words));
    }
    for name in ["namespaceSelector", "objectSelector"] {
        check_selector(hook, name, rules, path, errors);
    }
    errors.extend(allowed(hook, "reinvocationPolicy", &["IfNeeded", "Never"], path));
    check_client(hook, &path.child("clientConfig"), errors);
    if !rules.ignores_conditions {
        check_conditions(hook, &path.child("matchConditions"), errors);
    }
}

/// A qualified name: at least three parts.
fn full_name(name: &str, path: &Path<'_>) -> Option<Error> {
    if name.is_empty() {
        return Some(Error::required(path, ""));
    }
    let problems = names::subdomain(name);
    if !problems.is_empty() {
        return Some(Error::invalid(path, name, problems.join(",")));
    }
    let words = "should be a domain with at least three segments separated by dots";
    (name.split('.').count() < 3).then(|| Error::invalid(path, name, words))
}

/// A value of a type of its own, if it is there, is one of those that there are.
fn allowed(fields: &JsonObject, name: &str, values: &[&str], path: &Path<'_>) -> Option<Error> {
    let value = fields.get(name)?.as_str()?;
    (!values.contains(&value)).then(|| Error::not_supported(&path.child(name), typed(value), values))
}

/// Texts of types of their own are shown as JSON.
fn typed(text: &str) -> BadValue {
    BadValue::Text(json::marshal(&Value::from(text)))
}

fn check_side_effects(hook: &JsonObject, rules: Rules, path: &Path<'_>, errors: &mut Vec<Error>) {
    const ALL: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
    let possible: &[&str] = if rules.allows_side_effects { &ALL } else { &HARMLESS };
    if !read::has(hook, "sideEffects") {
        let words = format!("must specify one of {}", possible.join(", "));
        errors.push(Error::required(&path.child("sideEffects"), words));
    }
    errors.extend(allowed(hook, "sideEffects", possible, path));
}

fn check_selector(hook: &JsonObject, name: &str, rules: Rules, path: &Path<'_>, errors: &mut Vec<Error>) {
    let Some(selector) = hook.get(name).filter(|selector| !selector.is_null()) else { return };
    let path = path.child(name);
    let mut found = selector::validate(selector, &path);
    if rules.allows_invalid_values {
        let prefix = path.child("matchExpressions").to_string();
        // Kubernetes passes an option down (`AllowInvalidLabelValueInSelector`); here the errors that it
        // would prevent are taken out again.
        found.retain(|error| !(error.field.starts_with(&prefix) && error.field.contains(".values[")));
    }
    errors.extend(found);
}

fn check_client(hook: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let empty = Map::new();
    let client = read::object(hook, "clientConfig").unwrap_or(&empty);
    match (client.get("url").and_then(Value::as_str), read::object(client, "service")) {
        (Some(url), None) => webhook_address::check_url(url, &path.child("url"), errors),
        (None, Some(service)) => {
            let service = Service {
                namespace: read::text(service, "namespace").to_owned(),
                name: read::text(service, "name").to_owned(),
                path: service.get("path").and_then(Value::as_str).map(str::to_owned),
                port: read::integer(service, "port").unwrap_or_default(),
            };
            webhook_address::check_service(&service, &path.child("service"), errors);
        }
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
}

fn check_reviews(hook: &JsonObject, rules: Rules, path: &Path<'_>, errors: &mut Vec<Error>) {
    let versions = read::list(hook, "admissionReviewVersions");
    if versions.is_empty() {
        let words = format!("must specify one of {}", REVIEWS.join(", "));
        return errors.push(Error::required(path, words));
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let (at, text) = (path.index(index), version.as_str().unwrap_or_default());
        if !seen.insert(text) {
            errors.push(Error::invalid(&at, text, "duplicate version"));
            continue;
        }
        errors.extend(by_rule(text, names::old_label, &at));
    }
    if rules.requires_known_review && !versions.iter().any(is_known_review) {
        let words = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.push(Error::invalid(path, Value::from(versions), words));
    }
}

fn check_rule(rule: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    wildcards(rule, "operations", "operations", path, errors);
    let at = path.child("operations");
    for (index, operation) in texts(rule, "operations") {
        if !OPERATIONS.contains(&operation) {
            errors.push(Error::not_supported(&at.index(index), typed(operation), OPERATIONS));
        }
    }
    wildcards(rule, "apiGroups", "API groups", path, errors);
    wildcards(rule, "apiVersions", "API versions", path, errors);
    let at = path.child("apiVersions");
    let unnamed = texts(rule, "apiVersions").filter(|(_, version)| version.is_empty());
    errors.extend(unnamed.map(|(index, _)| Error::required(&at.index(index), "")));
    check_resources(rule, &path.child("resources"), errors);
    errors.extend(allowed(rule, "scope", &["*", "Cluster", "Namespaced"], path));
}

fn texts<'f>(fields: &'f JsonObject, name: &str) -> impl Iterator<Item = (usize, &'f str)> {
    read::list(fields, name).iter().map(|text| text.as_str().unwrap_or_default()).enumerate()
}

/// There is something, and everything means nothing else.
fn wildcards(rule: &JsonObject, name: &str, what: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    let values = read::list(rule, name);
    if values.is_empty() {
        errors.push(Error::required(&path.child(name), ""));
    }
    if values.len() > 1 && values.iter().any(|value| value == "*") {
        let words = format!("if '*' is present, must not specify other {what}");
        errors.push(Error::invalid(&path.child(name), Value::from(values), words));
    }
}

fn check_resources(rule: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let all = read::list(rule, "resources");
    if all.is_empty() {
        errors.push(Error::required(path, ""));
    }
    let (mut whole, mut parts) = (HashSet::new(), HashSet::new());
    let mut has_plain = false;
    for (index, resource) in texts(rule, "resources") {
        let at = path.index(index);
        if resource.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        let Some((name, part)) = resource.split_once('/') else {
            // The last one counts, as in Kubernetes.
            has_plain = resource != "*";
            continue;
        };
        if whole.contains(name) {
            let words = format!("if '{name}/*' is present, must not specify {resource}");
            errors.push(Error::invalid(&at, resource, words));
        }
        if parts.contains(part) {
            let words = format!("if '*/{part}' is present, must not specify {resource}");
            errors.push(Error::invalid(&at, resource, words));
        }
        if part == "*" {
            whole.insert(name);
        }
        if name == "*" {
            parts.insert(part);
        }
    }
    let has = |text: &str| all.iter().any(|resource| resource == text);
    if all.len() > 1 && has("*/*") {
        let words = "if '*/*' is present, must not specify other resources";
        errors.push(Error::invalid(path, Value::from(all), words));
    }
    if has("*") && has_plain {
        let words = "if '*' is present, must not specify other resources without subresources";
        errors.push(Error::invalid(path, Value::from(all), words));
    }
}

fn check_conditions(hook: &JsonObject, path: &Path<'_>, errors: &mut Vec<Error>) {
    let count = i64::try_from(read::list(hook, "matchConditions").len()).unwrap_or(i64::MAX);
    if count > MOST_CONDITIONS {
        errors.push(Error::too_many(path, count, MOST_CONDITIONS));
    }
    let mut seen = HashSet::new();
    for (index, condition) in read::objects(hook, "matchConditions") {
        let at = path.index(index);
        check_expression(read::text(condition, "expression").trim(), &at.child("expression"), errors);
        let (name, at) = (read::text(condition, "name"), at.child("name"));
        if name.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        errors.extend(by_rule(name, names::qualified, &at));
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at, name));
        }
    }
}

fn check_expression(expression: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    if expression.is_empty() {
        return errors.push(Error::required(path, ""));
    }
    match admission::condition(expression) {
        Ok(_) => {}
        Err(Refusal::Invalid(words)) => errors.push(Error::invalid(path, expression, words)),
        Err(Refusal::Internal(words)) => errors.push(Error::internal(path, words)),
    }
}
