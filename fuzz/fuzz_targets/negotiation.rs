//! Whatever forms a client takes or sends, it is given one of those it takes, or told that there is none.
#![no_main]

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const BODY: &[u8] = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n0"}}"#;

/// Requests that depend on forms.
const REQUESTS: [(&str, &str); 13] = [
    ("GET", "/api/v1/namespaces/a/configmaps/n0"),
    ("GET", "/api/v1/namespaces/a/configmaps"),
    ("GET", "/api/v1/namespaces/a/configmaps?watch=true"),
    ("GET", "/apis/example.org/v1/namespaces/a/things/n0"),
    ("GET", "/apis/example.org/v1/things"),
    ("GET", "/apis/example.org/v1/namespaces/a/things/n0/scale"),
    ("GET", "/apis"),
    ("GET", "/api"),
    ("GET", "/apis/example.org/v1"),
    ("POST", "/api/v1/namespaces/a/configmaps"),
    ("PUT", "/api/v1/namespaces/a/configmaps/n0"),
    ("PATCH", "/api/v1/namespaces/a/configmaps/n0"),
    ("DELETE", "/api/v1/namespaces/a/configmaps/n0"),
];

// The first byte chooses the request; then come `Accept` and `Content-Type`, each in a line, and the body.
fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let (method, path) = REQUESTS[usize::from(*choice) % REQUESTS.len()];
    let mut parts = rest.splitn(3, |byte| *byte == b'\n');
    let mut headers = HeaderMap::new();
    for name in [ACCEPT, CONTENT_TYPE] {
        let value = parts.next().unwrap_or_default();
        // Several headers are as good as one with commas.
        for value in value.split(|byte| *byte == b'\r').take(8) {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                headers.append(&name, value);
            }
        }
    }
    let body = parts.next().filter(|body| !body.is_empty()).unwrap_or(BODY);
    let uri = fuzz::dry(path).expect("it is a path");
    let method = method.parse::<Method>().expect("it is a method");
    let body = if method == Method::GET { &[] } else { body };
    let answer = fuzz::ask(&method, &uri, &headers, body);
    assert!(answer.code < 500, "{} {}", answer.code, String::from_utf8_lossy(&answer.body));
    match answer.content_type.split(';').next().unwrap_or_default() {
        "application/json" if !answer.body.is_empty() => {
            serde_json::from_slice::<Value>(&answer.body).expect("it is JSON");
        }
        "application/yaml" => {
            let text = str::from_utf8(&answer.body).expect("it is text");
            serde_saphyr::from_str::<Value>(text).expect("it is YAML");
            let takes = headers
                .get_all(ACCEPT)
                .iter()
                .any(|value| value.as_bytes().windows(4).any(|at| at == b"yaml"));
            assert!(takes, "YAML was asked for");
        }
        _ => {}
    }
});
