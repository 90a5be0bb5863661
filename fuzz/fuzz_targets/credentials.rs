//! Whatever is shown, it is a credential or it is not: token files, bearer tokens, certificates, impersonation, roles.
#![no_main]

use std::sync::{Arc, LazyLock};

use ferroplane_apiserver::auth::authenticate::{
    Authenticator, ClientCertificate, Impersonation, Peer, ServiceAccountTokens, StaticTokens,
};
use ferroplane_apiserver::auth::identity::Identity;
use ferroplane_apiserver::auth::rbac::{Attributes, Policy, RbacKind, Write};
use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

static AUTHENTICATOR: LazyLock<Authenticator> = LazyLock::new(|| {
    let accounts =
        ServiceAccountTokens::ephemeral("https://issuer", Box::new(|_| None)).expect("there is a key");
    Authenticator::new(StaticTokens::default(), Arc::new(accounts))
});

fuzz_target!(|data: &[u8]| {
    let _ = ClientCertificate::read(data);
    if let Ok(text) = str::from_utf8(data) {
        let _ = StaticTokens::from_csv(text);
    }
    show_headers(data);
    if let Ok(objects) = serde_json::from_slice::<Vec<Map<String, Value>>>(data) {
        obey(&objects);
    }
});

/// Every line is a header. Nobody knows a token that counts.
fn show_headers(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(50) {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':').unwrap_or(line.len()));
        let name = HeaderName::from_bytes(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.get(1..).unwrap_or_default())) {
            headers.append(name, value);
        }
    }
    let found = AUTHENTICATOR.authenticate(&headers, &Peer::Unknown, jiff::Timestamp::UNIX_EPOCH);
    assert!(found.is_ok_and(|identity| identity.is_anonymous()) || headers.contains_key("authorization"));
    let _ = Impersonation::read(&headers);
}

/// Whatever roles say, who has none may do nothing, and nobody grants what they lack.
fn obey(objects: &[Map<String, Value>]) {
    let kinds = [RbacKind::ClusterRole, RbacKind::ClusterRoleBinding, RbacKind::Role, RbacKind::RoleBinding];
    let mut policy = Policy::default();
    for (object, kind) in objects.iter().zip(kinds.into_iter().cycle()) {
        let _ = policy.put(kind, object);
    }
    let bob = Identity::authenticated("bob", ["devs".to_owned()]);
    let attributes = Attributes { verb: "get", resource: "pods", namespace: "n", ..Attributes::default() };
    let _ = policy.decide(&bob, &attributes);
    let _ = policy.rules_of(&bob, "n").to_status();
    for (new, kind) in objects.iter().zip(kinds.into_iter().cycle()) {
        let write = Write { kind, namespace: "n", name: "", new, old: objects.first() };
        let _ = policy.check_escalation(&bob, &write);
    }
}
