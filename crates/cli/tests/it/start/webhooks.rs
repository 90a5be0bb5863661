//! Whoever stands by answers the API server's questions, too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_testkit::{ApiAddress, ApiClient, free_ports};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::ground::{BLUEPRINTS, Ground, MAPS, SECRETS};
use super::replica::Replica;

const USAGES: &str = "/apis/protection.crossplane.io/v1beta1/namespaces/default/usages";

#[test]
fn what_is_in_use_is_not_deleted_whoever_is_asked() {
    let ground = Ground::new();
    let ports: [u16; 3] = free_ports();
    let url = format!("https://localhost:{}", ports[2]);
    let flags = ["--webhook-url", &url];
    let leader = Replica::start(&ground, &flags);
    leader.until("became the leader");
    let asked = Replica::begin_on(&ground, ports, &flags);
    asked.until("replica stands by");

    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "precious"}});
    ground.create(MAPS, &map);
    let of = json!({"apiVersion": "v1", "kind": "ConfigMap", "resourceRef": {"name": "precious"}});
    let usage = json!({
        "apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": "keep"},
        "spec": {"of": of, "reason": "it is needed"},
    });
    ground.create(USAGES, &usage);
    let path = format!("{MAPS}/precious");
    ground.until(&path, |map| map["metadata"]["labels"]["crossplane.io/in-use"] == "true");
    ground.until(&format!("{USAGES}/keep"), Ground::is_ready);
    let (code, answer) = ground.send("DELETE", &path, &Value::Null);
    assert_eq!(code, 409, "{answer:#}");
    let map = ground.get(&path);
    let noted = &map["metadata"]["annotations"]["usage.crossplane.io/deletion-attempt-with-policy"];
    assert_eq!(noted, "Background", "{map:#}");

    ground.send("DELETE", &format!("{USAGES}/keep"), &Value::Null);
    ground.until(&path, |map| map["metadata"]["labels"]["crossplane.io/in-use"].is_null());
    assert_eq!(ground.send("DELETE", &path, &Value::Null).0, 200);
    asked.stop();
    leader.stop();
}

#[test]
fn blueprint_whose_phase_cannot_run_is_refused() {
    let ground = Ground::new();
    let ports: [u16; 3] = free_ports();
    let url = format!("https://localhost:{}", ports[2]);
    let flags = ["--webhook-url", &url, "--enable-blueprints", "--strict-function-versions"];
    let replica = Replica::begin_on(&ground, ports, &flags);
    replica.until("became the leader");
    let blueprint = |version: &str, args: &Value| {
        let phase = json!({"func": "KubeOps", "name": "copy", "funcVersion": version, "args": args});
        json!({
            "apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "b"},
            "actions": {"backup": {"phases": [phase]}},
        })
    };
    let merge = json!({"operation": "patch", "patchType": "merge", "objectReference": {}, "spec": "{}"});
    let nothing = json!({});
    let table = [
        ("v9.9.9", &merge, "has no version v9.9.9"),
        ("v0.0.0", &merge, "there is no argument `patchType`"),
        ("v0.1.0", &nothing, "argument `operation` is required"),
    ];
    // Nothing is stored, so that nothing is left on a server that tests share.
    let path = format!("{BLUEPRINTS}?dryRun=All");
    for (version, args, why) in table {
        let refusal = ground.until_refused(&path, &blueprint(version, args));
        assert!(refusal.contains("actions.backup.phases[0]") && refusal.contains(why), "{refusal}");
    }
    let (code, answer) = ground.send("POST", &path, &blueprint("v0.1.0", &merge));
    assert_eq!(code, 201, "{answer:#}");
    replica.stop();
}

#[test]
fn questions_of_strangers_change_nothing_and_are_told_no_names() {
    let ground = Ground::new();
    let ports: [u16; 3] = free_ports();
    let url = format!("https://localhost:{}", ports[2]);
    let replica = Replica::begin_on(&ground, ports, &["--webhook-url", &url]);
    replica.until("became the leader");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "payroll"}});
    ground.create(MAPS, &map);
    let of = json!({"apiVersion": "v1", "kind": "ConfigMap", "resourceRef": {"name": "payroll"}});
    let usage = json!({
        "apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": "secret-plan"},
        "spec": {"of": of, "reason": "it is needed", "replayDeletion": true},
    });
    ground.create(USAGES, &usage);
    let path = format!("{MAPS}/payroll");
    ground.until(&format!("{USAGES}/secret-plan"), Ground::is_ready);
    let payroll = ground.until(&path, |map| map["metadata"]["labels"]["crossplane.io/in-use"] == "true");

    let authority = ground.get(&format!("{SECRETS}/crossplane-root-ca"))["data"]["tls.crt"].clone();
    let authority = STANDARD.decode(authority.as_str().unwrap()).unwrap();
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "u", "operation": "DELETE", "oldObject": payroll, "options": {"propagationPolicy": "Foreground"},
    }});
    let known = path_of_usages(&ground, &url);
    for path in [
        "validatingwebhookconfigurations/crossplane-no-usages",
        "validatingwebhookconfigurations/ferroplane-function-versions",
    ] {
        let configuration = ground.get(&format!("/apis/admissionregistration.k8s.io/v1/{path}"));
        let webhooks = configuration["webhooks"].as_array().unwrap();
        let secret = known.rsplit('/').next().unwrap();
        let ends = webhooks.iter().map(|it| it["clientConfig"]["url"].as_str().unwrap().ends_with(secret));
        assert!(
            secret.len() >= 32 && ends.clone().count() > 0 && ends.clone().all(|ends| ends),
            "{configuration:#}"
        );
    }
    let guess = format!("{}x", &known[..known.len() - 1]);
    let advice = known.replace("/validate-no-usages", "/advise-on-versions");
    let paths = ["/validate-no-usages", "/validate-no-usages/", &guess, &known[..known.len() - 1]];
    let paths = paths.into_iter().chain(["/advise-on-versions", "/advise-on-versions/guess"]);
    for path in paths {
        // Nothing of the body is read.
        for body in [review.to_string(), "{".to_owned()] {
            let (code, answer) = post(&url, &authority, path, &body);
            assert_eq!((code, answer.contains("secret-plan")), (403, false), "{path}: {answer}");
        }
    }
    let (code, answer) = post(&url, &authority, &advice, &review.to_string());
    assert_eq!(code, 200, "{answer}");
    let attempt = |map: &Value| {
        map["metadata"]["annotations"]["usage.crossplane.io/deletion-attempt-with-policy"].clone()
    };
    assert_eq!(attempt(&ground.get(&path)), Value::Null);
    // The API server is believed, but not about which object it is.
    let mut other = review.clone();
    other["request"]["oldObject"]["metadata"]["uid"] = "another".into();
    post(&url, &authority, &known, &other.to_string());
    assert_eq!(attempt(&ground.get(&path)), Value::Null);
    let (_, answer) = post(&url, &authority, &known, &review.to_string());
    assert!(answer.contains("secret-plan"), "{answer}");
    assert_eq!(attempt(&ground.get(&path)), "Foreground");
    replica.stop();
}

/// The path of the webhook for usages, which only the API server is told.
fn path_of_usages(ground: &Ground, url: &str) -> String {
    let configuration = ground
        .get("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/crossplane-no-usages");
    let told = configuration["webhooks"][0]["clientConfig"]["url"].as_str().unwrap();
    told.strip_prefix(url).unwrap().to_owned()
}

/// What the webhooks at an address answer.
fn post(url: &str, authority: &[u8], path: &str, body: &str) -> (u16, String) {
    let address = ApiAddress::with_token(url, authority, None);
    Runtime::new().unwrap().block_on(async {
        let mut client = ApiClient::connect(&address).await.unwrap();
        let answer = client.send("POST", path, body).await.unwrap();
        (answer.code, String::from_utf8_lossy(&answer.body).into_owned())
    })
}

#[test]
fn questions_that_make_no_sense_are_answered() {
    let ground = Ground::new();
    let ports: [u16; 3] = free_ports();
    let url = format!("https://localhost:{}", ports[2]);
    let replica = Replica::begin_on(&ground, ports, &["--webhook-url", &url]);
    replica.until("became the leader");
    let secret = ground.get(&format!("{SECRETS}/crossplane-root-ca"));
    let authority = STANDARD.decode(secret["data"]["tls.crt"].as_str().unwrap()).unwrap();
    let address = ApiAddress::with_token(&url, &authority, None);
    let ask = |method: &str, path: &str, body: &str| {
        Runtime::new().unwrap().block_on(async {
            let mut client = ApiClient::connect(&address).await.unwrap();
            let answer = client.send(method, path, body).await.unwrap();
            (answer.code, serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
        })
    };
    let path = path_of_usages(&ground, &url);
    let path = path.as_str();
    assert_eq!(ask("POST", "/elsewhere", "{}").0, 404);
    assert_eq!(ask("GET", path, "").0, 405);
    for garbage in ["", "{", "[]", "null", "{\"kind\":\"AdmissionReview\"}", &"[".repeat(100_000)] {
        assert_eq!(ask("POST", path, garbage).0, 400, "{}", &garbage[..garbage.len().min(20)]);
    }
    assert_eq!(ask("POST", path, &" ".repeat(17 << 20)).0, 413);
    let review = json!({"kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE"}});
    let (code, answer) = ask("POST", path, &review.to_string());
    assert_eq!(
        (code, &answer["response"]["uid"], &answer["response"]["allowed"]),
        (200, &json!("u"), &json!(false))
    );
    let (code, answer) =
        ask("POST", &path.replace("/validate-no-usages", "/advise-on-versions"), &review.to_string());
    assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)));
    replica.stop();
}
