//! What is secret is in no log line, no span and no metric, however much is told.

use serde_json::Value;
use tempfile::TempDir;

use super::collector::Collector;
use super::{Greeter, SITE, bare, define};
use crate::peers::peer;

/// A secret for each way in which one comes here.
const CREDENTIAL: &str = "planted-credential-of-a-function";
const COMPOSED: &str = "planted-in-a-composed-secret";
const HEADER: &str = "planted-header-for-the-collector";
const TOKEN: &str = "planted-token-of-a-client";

const PLATFORM: &str = "
apiVersion: v1
kind: Secret
metadata: {name: credential, namespace: default}
stringData: {password: planted-credential-of-a-function}
---
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata:
  name: greeter
  annotations: {render.crossplane.io/runtime: Development, render.crossplane.io/runtime-development-target: '127.0.0.1:PORT'}
spec: {package: example.org/greeter:v1.0.0}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: site}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: Site}
  mode: Pipeline
  pipeline:
  - step: greet
    functionRef: {name: greeter}
    credentials: [{name: password, source: Secret, secretRef: {namespace: default, name: credential}}]
  - step: publish
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: connection
        base: {apiVersion: v1, kind: Secret, stringData: {password: planted-in-a-composed-secret}}
      - name: refused
        base: {apiVersion: v1, kind: Secret, type: kubernetes.io/tls, stringData: {tls.key: planted-in-a-composed-secret}}
";

#[test]
fn what_is_secret_is_told_nobody() {
    let (Some(_), Some(greeter)) = (peer("kubectl"), Greeter::start()) else { return };
    let directory = TempDir::new().unwrap();
    let Some(collector) = Collector::start(directory.path()) else { return };
    let tokens = directory.path().join("tokens.csv");
    std::fs::write(&tokens, format!("{TOKEN},operator,1,\"system:masters\"\n")).unwrap();
    let header = format!("authorization=Bearer {HEADER}");
    let mut plane = bare(
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint), ("OTEL_EXPORTER_OTLP_HEADERS", &header)],
        &["--log-format", "json", "--log-level", "trace", "--token-auth-file", tokens.to_str().unwrap()],
    );
    define(&plane, &PLATFORM.replace("PORT", &greeter.port.to_string()));
    plane.told("kubectl apply -f -", SITE);
    plane.says(&format!("kubectl --token={TOKEN} get secrets"));
    let metrics = plane.says("kubectl get --raw /metrics");
    plane.says("kubectl wait site/blog --for=condition=Synced=False --timeout=60s");
    plane.signal(rustix::process::Signal::TERM);
    let lines = plane.heard_until("stopping");
    plane.end();

    let traces = collector.text();
    assert!(traces.contains("step greet") && traces.contains("Secret"), "{traces}");
    let log = lines.join("\n");
    let looks = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let looks: Vec<_> = looks.filter(|line| line["message"] == "reconciled a composite resource").collect();
    assert!(looks.iter().any(|line| line["kind"] == "Site" && line["name"] == "blog"), "{log}");
    for secret in [CREDENTIAL, COMPOSED, HEADER, TOKEN] {
        for (place, text) in [("the log", &log), ("a trace", &traces), ("a metric", &metrics)] {
            assert!(!text.contains(secret), "{secret} is in {place}:\n{text}");
            let encoded = base64(secret);
            assert!(!text.contains(&encoded), "{secret} is in {place}, encoded:\n{text}");
        }
    }
}

/// What a Secret has of it, but for the end, which depends on what follows.
fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(&text[..text.len() / 3 * 3])
}
