//! The client for Node.

use super::sees;

#[test]
fn node_client_does_everything() {
    sees(
        "clients-typescript",
        "client",
        &[
            "created one {\"key\":\"value\"} true",
            "refused 409 AlreadyExists",
            "refused 404 NotFound",
            "refused 409 Conflict",
            "patched {\"json\":\"1\",\"key\":\"second\",\"merge\":\"1\",\"strategic\":\"1\"}",
            "pages [\"page-0\",\"page-1\"] [\"page-2\"]",
            "by field [\"one\"]",
            "defaulted {\"size\":1}",
            "refused 422 Invalid",
            "status {\"size\":1} {\"phase\":\"Ready\"}",
            "applied {\"size\":3} Apply",
            "refused 409 Conflict",
            "read {\"size\":3}",
            "listed 2",
            "scaled 4",
            "version 1",
            "who system:serviceaccount:default:robot",
            "refused 403 Forbidden",
        ],
    );
}

#[test]
fn node_client_watches() {
    sees("clients-typescript", "watch", &["ADDED one 1", "MODIFIED one 2", "DELETED one 2"]);
}

#[test]
fn node_client_informer_follows() {
    sees(
        "clients-typescript",
        "informer",
        &["added before", "added during", "updated during", "deleted before", "left [\"during\"]"],
    );
}
