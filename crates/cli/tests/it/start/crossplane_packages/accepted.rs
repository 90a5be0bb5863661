//! Differences that are meant. `docs/differences.md` says why, under the same name.

use serde_json::Value;

use super::difference::Difference;

const DIGEST: &str = "/metadata/annotations/ferroplane.io/package-digest";

/// A difference that is meant.
pub(super) struct Accepted {
    pub(super) name: &'static str,
    /// As the chapter of the comparison has it.
    pub(super) reason: &'static str,
    pub(super) explains: fn(&Difference<'_>) -> bool,
}

/// Each has to explain something when both sides are compared.
pub(super) const ACCEPTED: &[Accepted] = &[
    Accepted {
        name: "PackageDigest",
        reason: "A revision says which image it was made of, and reads no other",
        explains: |difference| {
            let is_revision = difference.kind().ends_with("Revision");
            is_revision && difference.path == DIGEST && difference.is_ours_alone()
        },
    },
    Accepted {
        name: "ImageByDigest",
        reason: "Pods run the image that the revision was made of, by its digest",
        explains: |difference| {
            let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
            let (theirs, ours) = (text(difference.theirs), text(difference.ours));
            let repository = theirs.rsplit_once(':').map(|(repository, _)| repository);
            difference.kind() == "Deployment"
                && difference.path == "/spec/template/spec/containers/0/image"
                && ours.split_once("@sha256:").map(|(repository, _)| repository) == repository
        },
    },
    Accepted {
        name: "Answered",
        reason: "A FunctionRevision says whether it has answered since it was activated",
        explains: |difference| {
            difference.kind() == "FunctionRevision"
                && difference.path == "/status/conditions/InService"
                && difference.is_ours_alone()
        },
    },
    Accepted {
        name: "NothingRuns",
        reason: "A revision that is not active says nothing of its pods, because it has none",
        explains: |difference| {
            ["FunctionRevision", "ProviderRevision"].contains(&difference.kind())
                && difference.path == "/status/conditions/RuntimeHealthy"
                && difference.ours.is_none()
        },
    },
    Accepted {
        name: "NoDependencies",
        reason: "A revision that depends on nothing says so",
        explains: |difference| {
            let fields = ["foundDependencies", "installedDependencies", "invalidDependencies"];
            let field = difference.path.strip_prefix("/status/").unwrap_or_default();
            difference.kind().ends_with("Revision")
                && fields.contains(&field)
                && difference.is_ours_alone()
                && difference.ours.is_some_and(|count| *count == 0)
        },
    },
    Accepted {
        name: "InputKinds",
        reason: "The input kinds of a Function are installed",
        explains: |difference| {
            let is_kind = difference.kind() == "CustomResourceDefinition"
                && difference.name().ends_with(".own.acme.org");
            let is_reference =
                difference.kind() == "FunctionRevision" && difference.path == "/status/objectRefs";
            (is_kind || is_reference) && difference.is_ours_alone()
        },
    },
    Accepted {
        name: "InactiveState",
        reason: "A revision that waits for its activation is inactive, and does nothing",
        explains: |difference| {
            let is_held =
                difference.kind() == "ConfigurationRevision" && difference.name().starts_with("held-");
            is_held || difference.kind() == "Lock" && differs_in_held(difference)
        },
    },
];

/// Whether Crossplane has one more package in the lock: the one that waits for its activation.
fn differs_in_held(difference: &Difference<'_>) -> bool {
    let (Some(Value::Array(theirs)), Some(Value::Array(ours))) = (difference.theirs, difference.ours) else {
        return false;
    };
    let is_held = |package: &Value| package["name"].as_str().is_some_and(|name| name.starts_with("held-"));
    difference.path == "/packages" && theirs.iter().filter(|&package| !is_held(package)).eq(ours)
}

/// Whether a pod, an owner or a revision notices: on one cluster, that is never accepted.
pub(super) fn is_protected(difference: &Difference<'_>) -> bool {
    if difference.path.is_empty() {
        return difference.ours.is_none() || difference.kind() != "CustomResourceDefinition";
    }
    ["/metadata", "/spec", "/packages", "/data"].iter().any(|part| difference.path.starts_with(part))
}

#[test]
fn change_of_pods_owners_and_revisions_is_never_accepted() {
    let value = Value::Null;
    let change = |object: &'static str, path: &str| {
        let (theirs, ours) = (None, Some(&value));
        is_protected(&Difference { title: "", object, path: path.to_owned(), theirs, ours })
    };
    assert!(change("FunctionRevision own-2", ""), "a new revision");
    assert!(change("Pod own-1-x", "/metadata/uid"), "another pod");
    assert!(change("Deployment own-1", "/spec/template/spec/containers/0/image"), "a new template");
    assert!(change("Service own", "/metadata/ownerReferences/0/controller"), "another owner");
    assert!(change("Lock lock", "/packages/0/version"), "another lock");
    assert!(!change("CustomResourceDefinition inputs.own.acme.org", ""), "the kind of an input");
    assert!(!change("FunctionRevision own-1", "/status/conditions/InService"), "a new condition");
}
