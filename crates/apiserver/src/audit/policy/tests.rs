//! Which rule decides, and what a policy may not say.

use super::*;

fn policy(rules: &str) -> Policy {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}");
    text.parse().unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn path(group: &str, resource: &str, namespace: &str, name: &str) -> ResourcePath {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    ResourcePath {
        group: group.to_owned(),
        version: "v1".to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
    }
}

fn bob() -> Identity {
    Identity::authenticated("bob", ["writers".to_owned()])
}

/// What a policy says of a request of bob's about a resource.
fn level(policy: &Policy, verb: &str, path: &ResourcePath) -> Level {
    let user = bob();
    policy.decide(&Attributes { user: Some(&user), verb, path: "/api", resource: Some(path) }).level
}

#[test]
fn first_rule_that_matches_decides() {
    let policy = policy(
        "- {level: None, users: [eve]}
- {level: Request, userGroups: [writers], verbs: [update]}
- {level: Metadata, verbs: [update, delete]}",
    );
    let pods = path("", "pods", "a", "x");
    assert_eq!(level(&policy, "update", &pods), Level::Request);
    assert_eq!(level(&policy, "delete", &pods), Level::Metadata);
    assert_eq!(level(&policy, "get", &pods), Level::None);
    let eve = Identity::authenticated("eve", []);
    let decide = |user| policy.decide(&Attributes { user, verb: "update", path: "/", resource: Some(&pods) });
    assert_eq!(decide(Some(&eve)).level, Level::None);
    // Nobody knows who it is: rules about users and groups do not match.
    assert_eq!(decide(None).level, Level::Metadata);
}

#[test]
fn resources_are_matched_with_group_subresource_name_and_namespace() {
    let cases = [
        ("{group: '', resources: [pods]}", [true, false, true, false, true]),
        ("{group: '', resources: ['pods/*']}", [true, true, true, false, true]),
        ("{group: '', resources: [pods, pods/log]}", [true, true, true, false, true]),
        ("{group: '', resources: ['*/log']}", [false, true, false, false, false]),
        ("{group: '', resources: ['*']}", [true, true, true, false, true]),
        ("{group: ''}", [true, true, true, false, true]),
        ("{group: '*'}", [true, true, true, true, true]),
        ("{group: example.org}", [false, false, false, true, false]),
        ("{group: '', resources: [pods], resourceNames: [x]}", [true, false, false, false, true]),
    ];
    let requests = [
        path("", "pods", "a", "x"),
        path("", "pods/log", "a", "x"),
        path("", "pods", "a", "y"),
        path("example.org", "pods", "a", "x"),
        path("", "pods", "b", "x"),
    ];
    for (resources, expected) in cases {
        let policy = policy(&format!("- {{level: Metadata, resources: [{resources}]}}"));
        let found = requests.each_ref().map(|path| level(&policy, "get", path) == Level::Metadata);
        assert_eq!(found, expected, "{resources}");
    }
    let policy = policy("- {level: Metadata, namespaces: [b, '']}");
    let found = requests.each_ref().map(|path| level(&policy, "get", path) == Level::Metadata);
    assert_eq!(found, [false, false, false, false, true]);
    assert_eq!(level(&policy, "get", &path("", "nodes", "", "n")), Level::Metadata);
    let namespaces = ["a", "b"].map(|name| level(&policy, "get", &path("", "namespaces", "", name)));
    assert_eq!(namespaces, [Level::None, Level::Metadata], "a namespace is in itself");
}

#[test]
fn other_paths_are_matched_by_their_beginning() {
    let policy = policy("- {level: Metadata, nonResourceURLs: [/metrics, '/healthz*']}");
    let user = bob();
    let decide =
        |path| policy.decide(&Attributes { user: Some(&user), verb: "get", path, resource: None }).level;
    assert_eq!(
        ["/metrics", "/healthz/ping", "/version"].map(decide),
        [Level::Metadata, Level::Metadata, Level::None]
    );
    assert_eq!(level(&policy, "get", &path("", "pods", "a", "x")), Level::None);
}

#[test]
fn stages_of_policy_and_rule_are_left_out_together() {
    let text = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules: [{level: Metadata, omitStages: [ResponseStarted], verbs: [watch], omitManagedFields: false}, {level: Metadata}]";
    let policy: Policy = text.parse().unwrap();
    let decide = |verb| policy.decide(&Attributes { user: None, verb, path: "/", resource: None });
    let includes = |decision: Decision| {
        [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete]
            .map(|stage| decision.includes(stage))
    };
    assert_eq!(includes(decide("watch")), [false, false, true]);
    assert_eq!(includes(decide("get")), [false, true, true]);
    assert!(!decide("watch").omits_managed_fields && decide("get").omits_managed_fields);
}

#[test]
fn policy_that_is_built_in_logs_writes_secrets_and_refusals() {
    let policy = Policy::default();
    let maps = path("", "configmaps", "a", "x");
    let secrets = path("", "secrets", "a", "x");
    for verb in ["create", "update", "patch", "delete", "deletecollection"] {
        assert_eq!(level(&policy, verb, &maps), Level::Metadata, "{verb}");
        assert_eq!(level(&policy, verb, &secrets), Level::Metadata, "{verb}");
    }
    for verb in ["get", "list", "watch"] {
        assert_eq!(level(&policy, verb, &maps), Level::None, "{verb}");
        assert_eq!(level(&policy, verb, &secrets), Level::Metadata, "{verb}");
    }
    let events = path("events.k8s.io", "events", "a", "x");
    assert_eq!(
        (level(&policy, "create", &events), level(&policy, "delete", &events)),
        (Level::None, Level::Metadata)
    );
    assert_eq!(policy.decide_refused().level, Level::Metadata);
}

/// What is said of a policy that cannot be used.
fn mistakes(text: &str) -> String {
    text.parse::<Policy>().unwrap_err().to_string()
}

#[test]
fn mistakes_are_told_with_their_fields_all_at_once() {
    let text = "apiVersion: audit.k8s.io/v1
kind: Policy
metadata: {annotations: {audit.ferroplane.io/refusals: Always}}
omitStages: [Begin]
rules:
- level: metadata
- {level: Metadata, nonResourceURLs: [healthz, '/a*b'], namespaces: [a]}
- {level: Metadata, omitStages: [End], resources: [{group: apps/v1}, {group: '', resourceNames: [x]}]}";
    let told = mistakes(text);
    for expected in [
        "metadata.annotations[audit.ferroplane.io/refusals]: `Always` is not a level",
        "omitStages[0]: `Begin` is not a stage",
        "rules[0].level: `metadata` is not a level; use one of `None`, `Metadata`",
        "rules[1].nonResourceURLs: a rule is about resources or about other paths",
        "rules[1].nonResourceURLs[0]: `healthz` must begin with `/`",
        "rules[1].nonResourceURLs[1]: `/a*b` may have `*` at its end only",
        "rules[2].omitStages[0]: `End` is not a stage",
        "rules[2].resources[0].group: `apps/v1` must be a group without a version",
        "rules[2].resources[1].resourceNames: names need at least one resource",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn what_is_no_policy_is_refused() {
    assert!(
        mistakes("apiVersion: v1\nkind: ConfigMap\n").contains("expected `audit.k8s.io/v1` and `Policy`")
    );
    assert!(mistakes("apiVersion: audit.k8s.io/v1\nkind: Policy\n").contains("at least one rule is needed"));
    let misspelt = mistakes("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, user: [x]}]\n");
    assert!(misspelt.contains("user"), "{misspelt}");
    assert!(mistakes("rules: [").starts_with("cannot read the policy: "));
    assert!(
        mistakes("").starts_with("cannot read the policy: ") || mistakes("").contains("expected"),
        "{}",
        mistakes("")
    );
}
