//! client-go and controller-runtime.

use super::sees;

#[test]
fn client_go_discovers_what_there_is() {
    sees(
        "clients-go",
        "discovery",
        &[
            "aggregated: core is v1",
            "legacy: the same groups and resources",
            "cm: configmaps, ConfigMap, namespace",
            "deploy: deployments.apps, Deployment, namespace",
            "crd: customresourcedefinitions.apiextensions.k8s.io, CustomResourceDefinition, root",
            "leases: leases.coordination.k8s.io, Lease, namespace",
            "sa: serviceaccounts, ServiceAccount, namespace",
            "openapi: both versions",
        ],
    );
}

#[test]
fn client_go_reads_models_of_all_kinds() {
    sees(
        "clients-go",
        "models",
        &[
            "patchAppsV1NamespacedDeployment: 200, #/definitions/io.k8s.api.apps.v1.Deployment",
            "kind: Deployment",
            "replicas: integer (int32), needed: [selector template]",
            "containers: Array of Reference to \"io.k8s.api.core.v1.Container\" by name",
            "labels: *proto.Map of string",
        ],
    );
}

#[test]
fn client_go_uses_typed_clients_that_send_protobuf() {
    sees(
        "clients-go",
        "typed",
        &[
            "created, and refused what is wrong",
            "updated, after a conflict",
            "patched in three ways",
            "applied, with a conflict",
            "listed [3 3 1], 3 odd, 1 by name",
            "watched 7 come and go",
            "deleted, once its finalizer let go",
        ],
    );
}

#[test]
fn client_go_stores_workloads() {
    sees(
        "clients-go",
        "workloads",
        &[
            "defaults: 1 replica, RollingUpdate, /dev/termination-log, probe every 10 s",
            "scaled to 5, 4 ready, generation 2",
            "containers: [web=web:2 side=side:1], ports kept: true",
            "service: ClusterIP, port TCP to 80",
            "secret: Opaque, \"value\"",
            "pods pending: 1",
            "metadata: web",
            "table: Name with web",
            "the namespace is gone with what was in it",
        ],
    );
}

#[test]
fn client_go_works_with_the_token_of_a_service_account() {
    sees(
        "clients-go",
        "tokens",
        &[
            "the token is of system:serviceaccount:default:robot",
            "secrets is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"secrets\" in API group \"\" in the namespace \"default\"",
            "groups: [system:serviceaccounts system:serviceaccounts:default system:authenticated]",
            "may list: true",
            "may delete: false",
            "strangers are refused, and so is who acts as the robot",
        ],
    );
}

#[test]
fn client_go_uses_a_kind_it_does_not_know() {
    sees(
        "clients-go",
        "dynamic",
        &[
            "created: replicas 1, generation 1",
            "Website.example.org \"bad\" is invalid: [spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0, .spec.replicas: Invalid value: -1: should be a non-negative integer]",
            "Website in version \"v1\" cannot be handled as a Website: strict decoding error: unknown field \"spec.colour\"",
            "Website.example.org \"blog\" is invalid: spec: Invalid value: domain is immutable",
            "status: Ready, replicas 1, generation 1",
            "patched: replicas 3, generation 2",
            "applied: replicas 5, Open",
            "listed: 1 of 2 WebsiteList",
            "scaled: 6",
            "watched: MODIFIED shop",
            "watched: DELETED blog",
            "the kind is gone with its objects",
        ],
    );
}

#[test]
fn client_go_informers_follow_streamed_lists() {
    sees(
        "clients-go",
        "informers",
        &[
            "added before",
            "added during",
            "updated during",
            "deleted during",
            "deleted before",
            "added website",
            "left: 0 and 1",
        ],
    );
}

#[test]
fn client_go_elects_leaders() {
    sees(
        "clients-go",
        "leader-election",
        &["ada leads", "the lease is of ada, for 15 s", "bob leads", "the lease changed hands 1 times"],
    );
}

#[test]
fn controller_runtime_reconciles() {
    sees(
        "clients-go",
        "controller",
        &[
            "published: finalizers [example.org/website], generation 1",
            "the page came back, and follows: map[domain:blog.example.org replicas:3]",
            "event: Published \"published blog.example.org\" about Website",
            "the same in the old form: \"published blog.example.org\"",
            "the website is gone, and its page with it",
        ],
    );
}
