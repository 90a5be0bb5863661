//! `ferroplane start` as a process: on an API server of ours without controllers or, if the environment names one
//! (`cargo xtask oracle -- cargo test …`), on a real one.

mod action_sets;
mod company;
mod crossplane_packages;
mod ground;
mod intercept;
mod leaders;
mod registries;
mod replica;
mod rollout;
#[cfg(feature = "wasm")]
mod webassembly;
mod webhooks;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use ground::{Ground, MAPS, SECRETS, SITES, composed};
use replica::Replica;

use crate::plane::ferroplane;
use crate::sandbox::Ran;

#[test]
fn composite_resource_becomes_ready_on_a_cluster() {
    let ground = Ground::new();
    let replica = Replica::start(&ground, &[]);
    replica.until("became the leader");
    ground.define();
    ground.create_site("blog", "red");
    let site = ground.until(&format!("{SITES}/blog"), Ground::is_ready);
    let map = composed(&site);
    assert_eq!(ground.get(&map)["data"]["colour"], "red");
    assert_eq!(replica.page("/readyz").0, 200);
    assert!(replica.page("/readyz").1.ends_with("leads\n"));
    assert_eq!(replica.page("/livez").0, 200);
    assert_eq!(replica.page("/nowhere").0, 404);
    let (_, numbers) = replica.metrics();
    let leads = r#"leader_election_master_status{name="crossplane-leader-election-core"} 1"#;
    assert!(numbers.contains(leads), "{numbers}");
    assert!(numbers.contains("controller_runtime_reconcile_total"), "{numbers}");
    replica.stop();
}

#[test]
fn operations_run_on_a_cluster_once_they_are_enabled() {
    const OPERATIONS: &str = "/apis/ops.crossplane.io/v1alpha1/operations";
    let is_said = |object: &Value, kind: &str, reason: &str| {
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == kind && condition["reason"] == reason)
    };
    let ground = Ground::new();
    let rules = json!([{"name": "r", "rule": "true", "message": "it does not hold"}]);
    let input =
        json!({"apiVersion": "validation.fn.ferroplane.io/v1beta1", "kind": "Validation", "rules": rules});
    let step = json!({"step": "check", "functionRef": {"name": "function-cel-validation"}, "input": input});
    let operation = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "Operation", "metadata": {"name": "checked"},
        "spec": {"mode": "Pipeline", "pipeline": [step]},
    });
    let path = format!("{OPERATIONS}/checked");
    ground.send("DELETE", &path, &Value::Null);
    let replica = Replica::start(&ground, &[]);
    replica.until("became the leader");
    ground.create(OPERATIONS, &operation);
    ground.until(&path, |it| is_said(it, "Synced", "NotSupported"));
    replica.stop();
    // Nothing but the flag is needed: what waited runs.
    let replica = Replica::start(&ground, &["--enable-operations"]);
    let done = ground.until(&path, |it| is_said(it, "Succeeded", "PipelineSuccess"));
    assert!(is_said(&done, "Synced", "ReconcileSuccess"), "{done:#}");
    replica.stop();
}

#[test]
fn object_that_nothing_acts_on_is_traced_as_such() {
    const PROVIDER: &str = "/apis/pkg.crossplane.io/v1/providers/traced";
    let ground = Ground::new();
    let replica = Replica::start(&ground, &[]);
    replica.until("became the leader");
    ground.until("/apis/pkg.crossplane.io/v1/providers", |list| list["items"].is_array());
    let provider = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Provider", "metadata": {"name": "traced"},
        "spec": {"package": "registry.example/acme/provider:v1.0.0"},
    });
    ground.apply(PROVIDER, &provider);
    ground.until(PROVIDER, |it| it["status"].to_string().contains("KindNotSupported"));
    let mut trace = ferroplane(&ground.path(""), &["trace", "provider/traced", "-o", "wide"]);
    let ran = Ran::from(trace.arg("--kubeconfig").arg(ground.kubeconfig()).output().unwrap());
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(ran.stdout.contains("Provider/traced") && ran.stdout.contains("nothing acts on it"), "{ran:#?}");
    ground.send("DELETE", PROVIDER, &Value::Null);
    replica.stop();
}

#[test]
fn composed_resources_are_written_with_the_rights_of_another_user() {
    let ground = Ground::new();
    let replica = Replica::start(&ground, &["--compose-as", "composer"]);
    replica.until("became the leader");
    ground.define();
    ground.create_site("blog", "red");
    let refusal = "User \\\"composer\\\" cannot patch resource \\\"configmaps\\\"";
    ground.until(&format!("{SITES}/blog"), |site| site["status"].to_string().contains(refusal));
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "composer"},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]},
            // Clusters with `OwnerReferencesPermissionEnforcement` ask for it, since composed resources block the deletion of their owner.
            {"apiGroups": ["test.io"], "resources": ["sites/finalizers"], "verbs": ["update"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "composer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "composer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "composer"}],
    });
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    ground.create(&format!("{rbac}/roles"), &role);
    ground.create(&format!("{rbac}/rolebindings"), &binding);
    ground.paint("blog", "blue");
    let site = ground.until(&format!("{SITES}/blog"), Ground::is_ready);
    assert_eq!(ground.get(&composed(&site))["data"]["colour"], "blue");
    for kind in ["roles", "rolebindings"] {
        ground.send("DELETE", &format!("{rbac}/{kind}/composer"), &Value::Null);
    }
    replica.stop();
}

#[test]
fn second_start_writes_nothing() {
    let ground = Ground::new();
    let replica = Replica::start(&ground, &[]);
    replica.until("became the leader");
    ground.define();
    ground.create_site("blog", "red");
    let site = ground.until(&format!("{SITES}/blog"), Ground::is_ready);
    let mut paths = ground.everything();
    paths.extend([format!("{SITES}/blog"), composed(&site)]);
    replica.stop();
    let before = ground.versions(&paths);

    let replica = Replica::start(&ground, &[]);
    replica.until("became the leader");
    // Once this is done, so is everything that was there before.
    ground.create_site("shop", "blue");
    ground.until(&format!("{SITES}/shop"), Ground::is_ready);
    assert_eq!(ground.versions(&paths), before);
    replica.stop();
}

#[test]
fn replicas_that_start_at_the_same_time_agree_on_certificates() {
    let ground = Ground::new();
    let replicas: Vec<_> = (0..3).map(|_| Replica::begin(&ground, &[])).collect();
    for replica in &replicas {
        replica.until("replica is ready");
    }
    let secret = |name: &str| ground.get(&format!("{SECRETS}/{name}"))["data"].clone();
    let authority = secret("crossplane-root-ca")["tls.crt"].clone();
    assert!(authority.is_string());
    for name in ["crossplane-tls-server", "crossplane-tls-client"] {
        assert_eq!(secret(name)["ca.crt"], authority, "{name}");
    }
    for name in ["crossplane-no-usages", "ferroplane-function-versions"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}");
        assert_eq!(ground.get(&path)["webhooks"][0]["clientConfig"]["caBundle"], authority, "{name}");
    }
    let leaders = replicas.iter().filter(|replica| replica.page("/readyz").1.contains("leads")).count();
    assert!(leaders <= 1, "{leaders} lead");
    for replica in replicas {
        replica.stop();
    }
}

#[test]
fn dry_run_writes_nothing_and_tells_what_would_be() {
    let ground = Ground::new();
    let touch = |count: u32| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "clock"}, "data": {"at": count.to_string()}});
        let (method, path) =
            if count == 0 { ("POST", MAPS.to_owned()) } else { ("PUT", format!("{MAPS}/clock")) };
        let map = ground.send(method, &path, &map).1;
        map["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
    };
    let before = touch(0);
    let (code, said) = replica::dry_run(&ground);
    let after = touch(1);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("create   Secret `crossplane-root-ca`"), "{said}");
    assert!(said.contains("create   ValidatingWebhookConfiguration `crossplane-no-usages`"), "{said}");
    assert!(said.contains("none found"), "{said}");
    // A real server writes to itself.
    if ground.is_embedded() {
        assert!(
            said.contains("create   CustomResourceDefinition `compositions.apiextensions.crossplane.io`"),
            "{said}"
        );
        assert_eq!(after, before + 1);
    }
    assert_eq!(ground.get(&format!("{SECRETS}/crossplane-root-ca")), Value::Null);

    let replica = Replica::start(&ground, &[]);
    replica.until("became the leader");
    ground.define();
    let (code, said) = replica::dry_run(&ground);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("leave    Secret `crossplane-tls-client`"), "{said}");
    assert!(said.contains("Ferroplane: `ferroplane_"), "{said}");
    assert!(said.contains("1 CompositeResourceDefinition"), "{said}");
    assert!(!said.contains("create") && !said.contains("change  "), "{said}");
    replica.stop();
}

#[test]
fn start_without_its_namespace_says_so() {
    let ground = Ground::new();
    let said = replica::refused(&ground, &["--namespace", "nowhere"]);
    assert!(said.contains("there is no namespace `nowhere`; create it first"), "{said}");
    let (code, said) = replica::dry_run_with(&ground, &["--namespace", "nowhere", "--sync-interval", "1m"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("It would refuse to start: there is no namespace `nowhere`"), "{said}");
    assert!(said.contains("note: --sync-interval has no effect"), "{said}");
    let said = replica::refused(&ground, &["--enable-pipeline-inspector"]);
    assert!(said.contains("pipelines cannot be inspected"), "{said}");
    std::fs::write(ground.path("options.yaml"), "namspace: x\n").unwrap();
    let said = replica::refused(&ground, &["--config", "options.yaml"]);
    assert!(said.contains("options.yaml") && said.contains("namspace"), "{said}");
}

#[test]
fn leader_plans_for_those_who_may_post_and_shows_what_they_may_read() {
    let ground = Ground::new();
    let replica = Replica::begin(&ground, &[]);
    let gives = replica.until("serving recordings");
    let port = gives["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    replica.until("became the leader");
    ground.define();
    ground.create_site("blog", "red");
    ground.until(&format!("{SITES}/blog"), Ground::is_ready);
    let site = json!({
        "apiVersion": "test.io/v1", "kind": "Site", "metadata": {"name": "blog", "namespace": "default"},
        "spec": {"colour": "blue"},
    });
    let request = json!({"objects": [site]}).to_string();
    let ask = |token: &str| replica::post_with(token, port, "/ferroplane/plans", &request);
    assert_eq!(replica::fetch(port, "/ferroplane/plans").0, 404);
    assert_eq!(ask("nonsense").0, 401);
    let (stranger, author) = (ground.token_of("stranger"), ground.token_of("author"));
    assert_eq!(ask(&stranger).0, 403);
    let may_post = json!({"verbs": ["post"], "nonResourceURLs": ["/ferroplane/plans"]});
    ground.allow("stranger", &json!([may_post]));
    // Who may plan and not write the file is refused by the API server, by name.
    let (code, said) = ask(&stranger);
    assert_eq!(code, 422);
    assert!(String::from_utf8(said).unwrap().contains("stranger"));
    let sites =
        json!({"apiGroups": ["test.io"], "resources": ["sites"], "verbs": ["get", "patch", "create"]});
    ground.allow("author", &json!([may_post, sites]));
    let everything = ground.everything();
    let versions = ground.versions(&everything);
    let (code, said) = ask(&author);
    assert_eq!(code, 200, "{}", String::from_utf8_lossy(&said));
    let plan: Value = serde_json::from_slice(&said).unwrap();
    let Some(changes) = plan["composites"][0]["changes"].as_array() else { panic!("{plan:#}") };
    // They may read sites, and not what those compose.
    assert!(changes.iter().all(|change| change["object"]["kind"] == "Site"), "{plan:#}");
    assert_eq!(plan["composites"][0]["hidden"], 1);
    assert_eq!(ground.versions(&everything), versions);
    plan_on_the_command_line(&ground, port, &author, &site);
    replica.stop();
}

/// `ferroplane diff --plane` asks at a forwarded port, with the token of the kubeconfig.
fn plan_on_the_command_line(ground: &Ground, port: u16, token: &str, site: &Value) {
    std::fs::write(ground.path("site.yaml"), site.to_string()).unwrap();
    let written = std::fs::read_to_string(ground.kubeconfig()).unwrap();
    // That of a real API server is JSON, and ours is YAML.
    let cluster = match serde_json::from_str::<Value>(&written) {
        Ok(written) => written["contexts"][0]["context"]["cluster"].as_str().unwrap().to_owned(),
        Err(_) => written.lines().find_map(|line| line.trim().strip_prefix("cluster: ")).unwrap().to_owned(),
    };
    let user = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "author",
        "users": [{"name": "author", "user": {"token": token}}],
        "contexts": [{"name": "author", "context": {"cluster": cluster, "user": "author"}}],
    });
    std::fs::write(ground.path("author"), user.to_string()).unwrap();
    let kubeconfigs = std::env::join_paths([&ground.path("author"), ground.kubeconfig()]).unwrap();
    let diff = |plane: &str| {
        let arguments = ["diff", "site.yaml", "--plane", plane, "--context", "author"];
        let mut command = ferroplane(&ground.path(""), &arguments);
        Ran::from(command.env("KUBECONFIG", &kubeconfigs).output().unwrap())
    };
    let told = diff(&format!("http://127.0.0.1:{port}"));
    assert_eq!(told.code, Some(3), "{told:?}");
    assert!(told.stdout.contains(r#"spec.colour: "red" → "blue""#), "{told:?}");
    assert!(told.stdout.contains("1 change of objects that you may not read"), "{told:?}");
    // A token is sent to nobody who is not on this machine.
    let refused = diff("http://plane.example.org:8082");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("is not a loopback address"), "{refused:?}");
}

#[test]
fn versions_of_functions_are_listed_for_those_who_may_get_them() {
    let ground = Ground::new();
    let replica = Replica::begin(&ground, &[]);
    let gives = replica.until("serving recordings");
    let port = gives["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    replica.until("became the leader");
    assert_eq!(replica::fetch_as("evil.example:8082", port, "/versions").0, 421);
    assert_eq!(replica::fetch(port, "/versions").0, 401);
    let (stranger, reader) = (ground.token_of("stranger"), ground.token_of("reader"));
    assert_eq!(replica::fetch_with(&stranger, port, "/versions").0, 403);
    ground.allow("reader", &json!([{"verbs": ["get"], "nonResourceURLs": ["/versions", "/versions/*"]}]));
    let (code, said) = replica::fetch_with(&reader, port, "/versions");
    assert_eq!(code, 200, "{}", String::from_utf8_lossy(&said));
    let document: Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(document["release"], env!("CARGO_PKG_VERSION"));
    let (code, said) = replica::fetch_with(&reader, port, "/versions/KubeOps");
    assert_eq!((code, String::from_utf8_lossy(&said).contains("\"v0.1.0\"")), (200, true));
    assert_eq!(replica::fetch_with(&reader, port, "/versions/Nope").0, 404);
    replica.stop();
}

#[test]
fn what_was_recorded_on_a_cluster_can_be_had_again() {
    let ground = Ground::new();
    let replica = Replica::begin(&ground, &[]);
    let gives = replica.until("serving recordings");
    let port = gives["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    replica.until("became the leader");
    ground.define();
    ground.create_site("blog", "red");
    ground.until(&format!("{SITES}/blog"), Ground::is_ready);
    assert_eq!(replica::fetch(port, "/").0, 404);
    // A page of somebody else whose name leads here.
    assert_eq!(replica::fetch_as("evil.example:8082", port, "/recordings").0, 421);
    // Who may forward ports is not therefore who may read what is recorded of everybody.
    assert_eq!(replica::fetch(port, "/recordings").0, 401);
    assert_eq!(replica::fetch_with("nonsense", port, "/recordings").0, 401);
    let (stranger, reader) = (ground.token_of("stranger"), ground.token_of("reader"));
    ground.let_read("reader", "/recordings");
    let (code, said) = replica::fetch_with(&stranger, port, "/recordings");
    assert_eq!(code, 403);
    assert!(String::from_utf8(said).unwrap().contains("nonResourceURL /recordings"));
    let began = Instant::now();
    // It is kept a little later than it is seen.
    let said = loop {
        let (code, file) = replica::fetch_with(&reader, port, "/recordings");
        assert_eq!(code, 200);
        std::fs::write(ground.path("file"), file).unwrap();
        let arguments = ["replay", "site/blog", "--recordings", "file"];
        let ran = Ran::from(ferroplane(&ground.path(""), &arguments).output().unwrap());
        if ran.code == Some(0) {
            break ran.stdout;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{ran:#?}");
    };
    assert!(said.contains("same, byte for byte"), "{said}");
    replica.stop();
}

#[test]
fn certificates_are_made_only_where_those_that_are_there_will_not_do() {
    let ground = Ground::new();
    // As Crossplane's chart leaves it.
    let empty = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "crossplane-tls-client", "labels": {"theirs": "yes"}}});
    ground.create(SECRETS, &empty);
    Replica::start(&ground, &[]).stop();
    let secret = |name: &str| ground.get(&format!("{SECRETS}/{name}"));
    let (authority, client) = (secret("crossplane-root-ca"), secret("crossplane-tls-client"));
    assert!(client["data"]["tls.crt"].is_string(), "{client:#}");
    assert_eq!(client["metadata"]["labels"]["theirs"], "yes");

    let mut broken = secret("crossplane-tls-server");
    let before = broken["data"]["tls.crt"].take();
    broken["data"]["tls.crt"] = client["data"]["tls.crt"].clone();
    assert_eq!(ground.send("PUT", &format!("{SECRETS}/crossplane-tls-server"), &broken).0, 200);
    Replica::start(&ground, &[]).stop();
    let after = secret("crossplane-tls-server");
    assert!(after["data"]["tls.crt"] != client["data"]["tls.crt"] && after["data"]["tls.crt"] != before);
    assert_eq!(after["data"]["ca.crt"], authority["data"]["tls.crt"]);
    assert_eq!(secret("crossplane-root-ca"), authority);
    assert_eq!(secret("crossplane-tls-client"), client);

    // Functions trust the authority: it is not replaced because it cannot be read.
    let mut broken = authority.clone();
    broken["data"]["tls.key"] = "eA==".into();
    assert_eq!(ground.send("PUT", &format!("{SECRETS}/crossplane-root-ca"), &broken).0, 200);
    let said = replica::refused(&ground, &[]);
    assert!(
        said.contains("cannot use the certificate authority in the Secret `crossplane-root-ca`"),
        "{said}"
    );
    assert_eq!(secret("crossplane-root-ca")["data"]["tls.key"], "eA==");
}
