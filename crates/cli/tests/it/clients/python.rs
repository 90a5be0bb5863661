//! The Python clients: kubernetes, kr8s and lightkube.

use super::sees;

#[test]
fn python_kubernetes_does_everything() {
    sees(
        "clients-python",
        "kubernetes",
        &[
            "created one {'key': 'value'}",
            "refused (409, 'Conflict')",
            "refused (404, 'Not Found')",
            "refused (409, 'Conflict')",
            "patched {'strategic': 'yes'}",
            "pages ['page-0', 'page-1', 'page-2', 'page-3'] None",
            "by field ['page-3']",
            "watched ADDED page-0 to DELETED page-4",
            "defaulted {'size': 1}",
            "refused (422, 'Unprocessable Entity')",
            "status {'size': 2} {'phase': 'Ready'}",
            "applied {'size': 3} Apply",
            "listed 2",
            "dynamic ['one', 'two']",
            "applied by force 4",
            "conflict Apply failed with 1 conflict: conflict with \"other\": .spec.size",
            "scaled 4",
            "made made",
            "version 1",
        ],
    );
}

#[test]
fn kr8s_does_everything() {
    sees(
        "clients-python",
        "kr8s",
        &[
            "version 1 known as somebody True",
            "exists True False",
            "patched {'key': 'value', 'more': 'yes'} {'app': 'kr8s', 'colour': 'red'}",
            "selected ['one'] ['one']",
            "status Ready size 2",
            "watched ['ADDED watched', 'DELETED watched']",
            "replicas 3",
            "kinds ['ConfigMap', 'Deployment', 'Lease', 'Role']",
        ],
    );
}

#[test]
fn lightkube_does_everything() {
    sees(
        "clients-python",
        "lightkube",
        &[
            "created one {'key': 'value'}",
            "refused 409 AlreadyExists configmaps \"one\" already exists",
            "refused 409 Conflict",
            "refused 409 .data.key",
            "applied {'key': 'theirs'}",
            "pages ['page-0', 'page-1', 'page-2', 'page-3', 'page-4']",
            "chosen ['applied', 'one']",
            "by field ['one']",
            "generation 1",
            "custom {'size': 2} {'phase': 'Ready'}",
            "listed True",
            "watched DELETED page-0",
            "left []",
            "scaled 6",
        ],
    );
}

#[test]
fn python_program_has_but_a_token() {
    sees(
        "clients-python",
        "in-cluster",
        &["created by OpenAPI-Generator", "who system:serviceaccount:default:robot", "refused 403 Forbidden"],
    );
}
