//! Roles and their bindings.
//!
//! Follows Kubernetes 1.36.4, `pkg/apis/rbac/validation/validation.go`.

use ferroplane_golang::json::JsonObject;

use super::super::table::Type;
use super::read;
use crate::field::{Error, Path};
use crate::{names, selector};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(of: &Type, object: &JsonObject) -> Vec<Error> {
    let mut errors = Vec::new();
    let is_namespaced = of.name == "Role";
    let path = Path::new("rules");
    for (index, rule) in read::objects(object, "rules") {
        check_rule(rule, is_namespaced, &path.index(index), &mut errors);
    }
    if let Some(aggregation) = read::object(object, "aggregationRule") {
        let path = Path::new("aggregationRule");
        let path = path.child("clusterRoleSelectors");
        if read::list(aggregation, "clusterRoleSelectors").is_empty() {
            let words = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(Error::required(&path, words));
        }
        for (index, item) in read::list(aggregation, "clusterRoleSelectors").iter().enumerate() {
            errors.extend(selector::validate(item, &path.index(index)));
        }
    }
    errors
}

fn check_rule(rule: &JsonObject, is_namespaced: bool, path: &Path<'_>, errors: &mut Vec<Error>) {
    let is_empty = |name: &str| read::list(rule, name).is_empty();
    if is_empty("verbs") {
        errors.push(Error::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if !is_empty("nonResourceURLs") {
        let path = path.child("nonResourceURLs");
        let urls = rule.get("nonResourceURLs").cloned().unwrap_or_default();
        if is_namespaced {
            let words = "namespaced rules cannot apply to non-resource URLs";
            errors.push(Error::invalid(&path, urls.clone(), words));
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !is_empty(name)) {
            let words = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(&path, urls, words));
        }
        return;
    }
    for (name, words) in [
        ("apiGroups", "resource rules must supply at least one api group"),
        ("resources", "resource rules must supply at least one resource"),
    ] {
        if is_empty(name) {
            errors.push(Error::required(&path.child(name), words));
        }
    }
}

pub(super) fn binding(of: &Type, object: &JsonObject) -> Vec<Error> {
    let mut errors = Vec::new();
    let is_namespaced = of.name == "RoleBinding";
    if let Some(reference) = read::object(object, "roleRef") {
        let path = Path::new("roleRef");
        errors.extend(read::one_of(reference, "apiGroup", &[GROUP], &path));
        let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        errors.extend(read::one_of(reference, "kind", kinds, &path));
        let name = read::text(reference, "name");
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        } else {
            let rule = |name: &str| names::path_segment(name, false);
            errors.extend(read::by_rule(name, rule, &path.child("name")));
        }
    }
    let path = Path::new("subjects");
    for (index, subject) in read::objects(object, "subjects") {
        check_subject(subject, is_namespaced, &path.index(index), &mut errors);
    }
    errors
}

fn check_subject(subject: &JsonObject, is_namespaced: bool, path: &Path<'_>, errors: &mut Vec<Error>) {
    let name = read::text(subject, "name");
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    match read::text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(read::by_rule(name, names::subdomain, &path.child("name")));
            }
            errors.extend(read::one_of(subject, "apiGroup", &[""], path));
            if !is_namespaced && read::text(subject, "namespace").is_empty() {
                errors.push(Error::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => errors.extend(read::one_of(subject, "apiGroup", &[GROUP], path)),
        _ => errors.extend(read::one_of(subject, "kind", &["ServiceAccount", "User", "Group"], path)),
    }
}

/// A binding stays bound to its role.
pub(super) fn update(object: &JsonObject, old: &JsonObject) -> Option<Error> {
    let reference = object.get("roleRef").filter(|reference| Some(*reference) != old.get("roleRef"))?;
    let part = |name: &str| reference.get(name).cloned().unwrap_or_default();
    // The internal type has no names for JSON, so that Go's own show.
    let shown = serde_json::json!({"APIGroup": part("apiGroup"), "Kind": part("kind"), "Name": part("name")});
    Some(Error::invalid(&Path::new("roleRef"), shown, "cannot change roleRef"))
}
