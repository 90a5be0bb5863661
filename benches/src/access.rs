//! Who asks, whether they may, and whether there is room: what every request pays before anything happens.

use std::sync::Arc;
use std::time::Duration;

use ferroplane_apiserver::auth::authenticate::{
    Authenticator, Found, Peer, ServiceAccount, ServiceAccountTokens, StaticTokens,
};
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::auth::rbac::{Attributes, Policy, RbacKind, bootstrap_objects};
use ferroplane_apiserver::flow_control::{FlowControl, RequestClass, Settings};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Map, Value, json};

use crate::measure::{Times, pretty};

const BUDGET: Duration = Duration::from_millis(300);

/// So many requests are measured as one, because a clock takes as long as some of them.
const TIMES: u32 = 100;

pub(crate) fn run() {
    println!("| what | best | p50 |\n|---|---|---|");
    decisions();
    tokens();
    places();
}

fn report<T>(what: &str, mut measured: impl FnMut() -> T) {
    let times = Times::of(BUDGET, || {
        for _ in 0..TIMES {
            std::hint::black_box(measured());
        }
    });
    println!("| {what} | {} | {} |", pretty(times.best() / TIMES), pretty(times.p50() / TIMES));
}

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).expect("it is an object")
}

/// The roles to begin with, and five hundred users with a role and a binding each, half of them in one namespace.
fn policy() -> Policy {
    let mut policy = Policy::default();
    for (kind, object) in bootstrap_objects() {
        policy.put(kind, &object).expect("it can be read");
    }
    for number in 0..500 {
        let name = format!("team-{number}");
        let namespace = if number % 2 == 0 { "default" } else { "" };
        let pair = json!({"verbs": ["get", "list"], "apiGroups": ["example.org"], "resources": ["widgets"]});
        let role = json!({"metadata": {"name": name}, "rules": [pair.clone(), pair]});
        let binding = json!({
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": name}, {"kind": "Group", "name": name}],
        });
        let kind = if namespace.is_empty() { RbacKind::ClusterRoleBinding } else { RbacKind::RoleBinding };
        policy.put(RbacKind::ClusterRole, &object(role)).expect("it can be read");
        policy.put(kind, &object(binding)).expect("it can be read");
    }
    policy
}

fn decisions() {
    let policy = policy();
    let get = Attributes {
        verb: "get",
        group: "example.org",
        resource: "widgets",
        name: "x",
        namespace: "default",
        ..Attributes::default()
    };
    let user = Identity::authenticated("team-42", ["devs".to_owned()]);
    let member = Identity::authenticated("bob", (0..20).map(|number| format!("team-{number}")));
    let account = Identity::service_account("default", "builder", "");
    report("decision: yes, by name, of 500 bindings", || policy.decide(&user, &get));
    report("decision: yes, by one of 20 groups", || policy.decide(&member, &get));
    report("decision: no, service account", || policy.decide(&account, &get));
    let delete = Attributes { verb: "delete", ..get };
    report("decision: no, 20 bindings read", || policy.decide(&member, &delete));
    aggregated_decisions();
}

/// What the controllers of a plane pay for each request, however many definitions there are: their rights are gathered from the
/// roles of all of them.
fn aggregated_decisions() {
    for definitions in [10, 1_000] {
        let mut policy = policy();
        let mut put = |kind, value| policy.put(kind, &object(value)).expect("it can be read");
        for number in 0..definitions {
            let labels = json!({"to-crossplane": "true"});
            let rule = json!({"verbs": ["*"], "apiGroups": ["example.org"], "resources": [format!("k{number}"), format!("k{number}/status")]});
            put(
                RbacKind::ClusterRole,
                json!({"metadata": {"name": format!("k{number}"), "labels": labels}, "rules": [rule]}),
            );
        }
        let selectors = json!([{"matchLabels": {"to-crossplane": "true"}}]);
        let gatherer =
            json!({"metadata": {"name": "gatherer"}, "aggregationRule": {"clusterRoleSelectors": selectors}});
        put(RbacKind::ClusterRole, gatherer);
        let role =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gatherer"});
        let subjects = json!([{"kind": "User", "name": "controllers"}]);
        put(
            RbacKind::ClusterRoleBinding,
            json!({"metadata": {"name": "gatherer"}, "roleRef": role, "subjects": subjects}),
        );
        let controllers = Identity::authenticated("controllers", []);
        let patch = Attributes {
            verb: "patch",
            group: "example.org",
            resource: "k7",
            subresource: "status",
            name: "x",
            namespace: "default",
            path: None,
        };
        report(&format!("decision: yes, gathered from {definitions} definitions"), || {
            policy.decide(&controllers, &patch)
        });
    }
}

fn tokens() {
    let found = |_: ferroplane_apiserver::auth::authenticate::BoundObject<'_>| {
        Some(Found { uid: "u".to_owned(), ..Found::default() })
    };
    let accounts =
        ServiceAccountTokens::ephemeral("https://issuer", Box::new(found)).expect("there is a key");
    let accounts = Arc::new(accounts);
    let account = ServiceAccount { namespace: "default", name: "builder", uid: "u" };
    let now = jiff::Timestamp::now();
    let answer = accounts.request(account, &Map::new(), now).expect("there is a token");
    let token = answer.request["status"]["token"].as_str().expect("it is text");
    let tokens = StaticTokens::from_csv("sesame,bob,u1,devs").expect("it can be read");
    let authenticator = Authenticator::new(tokens, accounts);
    for (what, token) in [("static token", "sesame"), ("token of a service account", token)] {
        let value = format!("Bearer {token}").parse().expect("it is a header");
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        report(what, || authenticator.authenticate(&headers, &Peer::Unknown, now));
    }
}

fn places() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("it starts");
    let flow_control = FlowControl::new(&Settings::default());
    report("place taken and given back", || {
        runtime.block_on(flow_control.enter(RequestClass::Mutating, "bob"))
    });
}
