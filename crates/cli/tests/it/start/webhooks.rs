//! Whoever stands by answers the API server's questions, too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_testkit::{ApiAddress, ApiClient};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::ground::{Ground, MAPS, SECRETS};
use super::replica::Replica;
use crate::peers::free_ports;

const USAGES: &str = "/apis/protection.crossplane.io/v1beta1/namespaces/default/usages";

#[test]
fn what_is_in_use_is_not_deleted_whoever_is_asked() {
    let ground = Ground::new();
    let ports: [u16; 3] = free_ports();
    let url = format!("https://localhost:{}", ports[2]);
    let flags = ["--webhook-url", &url];
    let leader = Replica::start(&ground, &flags);
    leader.until("leads");
    let asked = Replica::begin_on(&ground, ports, &flags);
    asked.until("stands by");

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
fn questions_that_make_no_sense_are_answered() {
    let ground = Ground::new();
    let ports: [u16; 3] = free_ports();
    let url = format!("https://localhost:{}", ports[2]);
    let replica = Replica::begin_on(&ground, ports, &["--webhook-url", &url]);
    replica.until("is ready");
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
    let path = "/validate-no-usages";
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
    let (code, answer) = ask("POST", "/advise-on-versions", &review.to_string());
    assert_eq!((code, &answer["response"]["allowed"]), (200, &json!(true)));
    replica.stop();
}
