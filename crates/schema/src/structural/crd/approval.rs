//! Groups of the Kubernetes community need an approval, which an annotation gives or waives.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apihelpers/helpers.go`.

use ferroplane_golang::{strconv, url};

use super::definition::Definition;
use crate::field::{Error, Path};

const APPROVAL: &str = "api-approved.kubernetes.io";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    Invalid,
    Approved,
    Bypassed,
    Missing,
}

fn approval(definition: &Definition) -> (Approval, String) {
    let annotation = definition.metadata.entries("annotations").find(|(name, _)| *name == APPROVAL);
    let annotation = annotation.map_or("", |(_, value)| value);
    let must = format!("protected groups must have approval annotation {}", strconv::quote(APPROVAL));
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    if annotation.is_empty() {
        return (Approval::Missing, format!("{must}, {see}"));
    }
    if annotation.starts_with("unapproved") {
        return (Approval::Bypassed, String::new());
    }
    if url::parse_request(annotation).is_ok_and(|url| !url.scheme.is_empty() && !url.host.is_empty()) {
        return (Approval::Approved, String::new());
    }
    (Approval::Invalid, format!("{must} with either a URL or a reason starting with \"unapproved\", {see}"))
}

pub(super) fn check(definition: &Definition, old: Option<&Definition>, errors: &mut Vec<Error>) {
    let group = definition.group.as_str();
    let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|community| {
        group.strip_suffix(community).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    let (state, reason) = approval(definition);
    // A state that did not change is tolerated, so that old definitions without approval can be updated.
    if !is_protected || old.is_some_and(|old| approval(old).0 == state) {
        return;
    }
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    let path = annotations.key(APPROVAL);
    let written = definition.metadata.entries("annotations").find(|(name, _)| *name == APPROVAL);
    match state {
        Approval::Approved | Approval::Bypassed => {}
        Approval::Missing => errors.push(Error::required(&path, reason)),
        Approval::Invalid => {
            errors.push(Error::invalid(&path, written.map_or("", |(_, value)| value), reason));
        }
    }
}
