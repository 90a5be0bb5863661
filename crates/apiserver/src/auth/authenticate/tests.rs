//! Requests with and without credentials, good and bad.

use std::sync::Mutex;

use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use super::*;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const BUILDER: ServiceAccount<'_> = ServiceAccount { namespace: "default", name: "builder", uid: "u1" };

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn after(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

/// A world with one service account, one secret and one pod, which can be changed.
struct Fixture {
    authenticator: Authenticator,
    objects: Arc<Mutex<std::collections::HashMap<(BoundKind, String), Found>>>,
}

impl Fixture {
    fn new() -> Self {
        let found = |uid: &str| Found { uid: uid.to_owned(), ..Found::default() };
        let pod = Found { service_account: "builder".to_owned(), ..found("p1") };
        let objects = Arc::new(Mutex::new(std::collections::HashMap::from([
            ((BoundKind::ServiceAccount, "builder".to_owned()), found("u1")),
            ((BoundKind::Secret, "secret".to_owned()), found("s1")),
            ((BoundKind::Pod, "pod".to_owned()), pod),
        ])));
        let shared = Arc::clone(&objects);
        let lookup = move |object: BoundObject<'_>| {
            shared.lock().unwrap().get(&(object.kind, object.name.to_owned())).cloned()
        };
        let accounts = ServiceAccountTokens::ephemeral(ISSUER, Box::new(lookup)).unwrap();
        let tokens = StaticTokens::from_csv("sesame,bob,u7,devs").unwrap();
        Self { authenticator: Authenticator::new(tokens, Arc::new(accounts)), objects }
    }

    fn change(&self, kind: BoundKind, name: &str, found: Option<Found>) {
        let mut objects = self.objects.lock().unwrap();
        objects.remove(&(kind, name.to_owned()));
        if let Some(found) = found {
            objects.insert((kind, name.to_owned()), found);
        }
    }

    fn request(&self, spec: &Value) -> Result<Map<String, Value>, Status> {
        let request = json!({"spec": spec});
        let accounts = &self.authenticator.service_accounts;
        Ok(accounts.request(BUILDER, request.as_object().unwrap(), now())?.request)
    }

    fn token(&self, spec: &Value) -> String {
        self.request(spec).unwrap()["status"]["token"].as_str().unwrap().to_owned()
    }

    fn ask(&self, authorization: &str, now: Timestamp) -> Result<Identity, Status> {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, authorization.parse().unwrap())]);
        self.authenticator.authenticate(&headers, &Peer::Unknown, now)
    }

    fn show(&self, token: &str, now: Timestamp) -> Result<Identity, Status> {
        self.ask(&format!("Bearer {token}"), now)
    }

    fn review(&self, spec: &Value, now: Timestamp) -> Value {
        let review = json!({"spec": spec});
        self.authenticator.review(review.as_object().unwrap(), now).unwrap()["status"].clone()
    }
}

#[test]
fn nothing_shown_is_anonymous() {
    let world = Fixture::new();
    let found = world.authenticator.authenticate(&HeaderMap::new(), &Peer::Unknown, now()).unwrap();
    assert_eq!(found, Identity::anonymous());
    assert!(world.ask("Basic Ym9iOnNlY3JldA==", now()).unwrap().is_anonymous());
    assert!(world.ask("Bearer ", now()).unwrap().is_anonymous());
}

#[test]
fn static_token_names_its_user() {
    let world = Fixture::new();
    for header in ["Bearer sesame", "bearer sesame", " BEARER sesame "] {
        let bob = world.ask(header, now()).unwrap();
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob", "u7"));
        assert_eq!(bob.groups, ["devs", "system:authenticated"]);
    }
}

#[test]
fn bad_token_is_refused_not_anonymous() {
    let world = Fixture::new();
    for token in ["sesam", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "\u{e9}"] {
        let refusal = world.show(token, now()).unwrap_err();
        assert_eq!(
            (refusal.code, &*refusal.reason, refusal.message.as_str()),
            (401, "Unauthorized", "Unauthorized")
        );
    }
}

#[test]
fn token_of_a_service_account_names_it_until_it_expires() {
    let world = Fixture::new();
    let token = world.token(&json!({"expirationSeconds": 600}));
    let builder = world.show(&token, now()).unwrap();
    assert_eq!(
        (builder.name.as_str(), builder.uid.as_str()),
        ("system:serviceaccount:default:builder", "u1")
    );
    assert!(builder.extra[CREDENTIAL_ID][0].starts_with("JTI="));
    world.show(&token, after(600)).unwrap();
    assert_eq!(world.show(&token, after(661)).unwrap_err().code, 401);
    assert_eq!(world.show(&token, after(-61)).unwrap_err().code, 401);
}

#[test]
fn token_dies_with_its_service_account() {
    let world = Fixture::new();
    let token = world.token(&json!({}));
    let again = Found { uid: "u2".to_owned(), ..Found::default() };
    world.change(BoundKind::ServiceAccount, "builder", Some(again));
    let status = world.review(&json!({"token": token}), now());
    let error = "[invalid bearer token, service account UID (u2) does not match claim (u1)]";
    assert_eq!(status["error"], error);
    world.change(BoundKind::ServiceAccount, "builder", None);
    assert_eq!(world.show(&token, now()).unwrap_err().code, 401);
}

#[test]
fn token_dies_with_what_it_is_bound_to() {
    let world = Fixture::new();
    let reference = json!({"kind": "Secret", "apiVersion": "v1", "name": "secret"});
    let token = world.token(&json!({"boundObjectRef": reference}));
    world.show(&token, now()).unwrap();
    let dying = Found { uid: "s1".to_owned(), deleted: Some(now()), ..Found::default() };
    world.change(BoundKind::Secret, "secret", Some(dying));
    world.show(&token, after(60)).unwrap();
    world.show(&token, after(61)).unwrap_err();
    world.change(BoundKind::Secret, "secret", None);
    let error = "[invalid bearer token, service account token has been invalidated]";
    let status = world.review(&json!({"token": token}), now());
    assert_eq!(status, json!({"user": {}, "error": error}));
}

#[test]
fn token_bound_to_a_pod_names_it() {
    let world = Fixture::new();
    let reference = json!({"kind": "Pod", "apiVersion": "v1", "name": "pod", "uid": "p1"});
    let identity = world.show(&world.token(&json!({"boundObjectRef": reference})), now()).unwrap();
    assert_eq!(identity.extra["authentication.kubernetes.io/pod-name"], ["pod"]);
}

#[test]
fn token_for_others_is_not_for_us() {
    let world = Fixture::new();
    let token = world.token(&json!({"audiences": ["vault"]}));
    assert_eq!(world.show(&token, now()).unwrap_err().code, 401);
    let status = world.review(&json!({"token": token, "audiences": ["vault", "x"]}), now());
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["vault"])));
    let status = world.review(&json!({"token": token}), now());
    let error = format!(
        "[invalid bearer token, token audiences [\"vault\"] is invalid for the target audiences [\"{ISSUER}\"]]"
    );
    assert_eq!(status["error"], error);
}

#[test]
fn review_of_a_static_token_shows_its_user() {
    let world = Fixture::new();
    let status = world.review(&json!({"token": "sesame"}), now());
    let user = json!({"username": "bob", "uid": "u7", "groups": ["devs", "system:authenticated"]});
    assert_eq!(status, json!({"authenticated": true, "user": user, "audiences": [ISSUER]}));
    let status = world.review(&json!({"token": "sesame", "audiences": ["vault"]}), now());
    assert_eq!(status, json!({"user": {}, "error": "invalid bearer token"}));
}

#[test]
fn request_for_a_token_is_answered_in_full() {
    let answer = Fixture::new().request(&json!({})).unwrap();
    let metadata = json!({
        "name": "builder", "namespace": "default", "uid": "u1", "creationTimestamp": "2027-01-15T08:00:00Z",
    });
    assert_eq!(answer["metadata"], metadata);
    let spec = json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null});
    assert_eq!(answer["spec"], spec);
    assert_eq!(answer["status"]["expirationTimestamp"], "2027-01-15T09:00:00Z");
}

#[test]
fn token_for_a_hundred_years_holds_for_two_days() {
    let accounts = Fixture::new().authenticator.service_accounts;
    let request = json!({"spec": {"expirationSeconds": 1_i64 << 32}});
    let answer = accounts.request(BUILDER, request.as_object().unwrap(), now()).unwrap();
    assert_eq!(answer.request["spec"]["expirationSeconds"], 172_800);
    assert_eq!(answer.request["status"]["expirationTimestamp"], "2027-01-17T08:00:00Z");
    assert_eq!(answer.warnings, ["requested expiration of 4294967296 seconds shortened to 172800 seconds"]);
    let short = accounts.request(BUILDER, &Map::new(), now()).unwrap();
    assert!(short.warnings.is_empty());
    let found = |_: BoundObject<'_>| Some(Found { uid: "u1".to_owned(), ..Found::default() });
    let accounts = ServiceAccountTokens::ephemeral(ISSUER, Box::new(found)).unwrap();
    let accounts = accounts.with_max_expiration(std::time::Duration::from_hours(8_760));
    let answer = accounts.request(BUILDER, request.as_object().unwrap(), now()).unwrap();
    assert_eq!(answer.request["spec"]["expirationSeconds"], 31_536_000);
}

#[test]
fn request_for_a_token_that_cannot_be_is_refused() {
    let world = Fixture::new();
    let reference =
        |kind: &str, name: &str| json!({"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name}});
    let other =
        json!({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "secret", "uid": "x"}});
    let cases = [
        (
            json!({"expirationSeconds": 599}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not \
             specify a duration less than 10 minutes",
        ),
        (reference("Secret", "none"), 404, "secrets \"none\" not found"),
        (reference("ConfigMap", "x"), 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        (
            other,
            409,
            "Operation cannot be fulfilled on Secret \"secret\": the UID in the bound object reference (x) does not \
             match the UID in record. The object might have been deleted and then recreated",
        ),
    ];
    for (spec, code, message) in cases {
        let refusal = world.request(&spec).unwrap_err();
        assert_eq!((refusal.code, refusal.message.as_str()), (code, message));
    }
    world.request(&json!({"expirationSeconds": i64::MAX})).unwrap_err();
    world.request(&json!({"audiences": vec!["x"; 5_000]})).unwrap_err();
    world.request(&json!({"audiences": 7})).unwrap_err();
}

#[test]
fn key_is_kept_and_the_previous_one_still_counts() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let found = |_: BoundObject<'_>| Some(Found { uid: "u1".to_owned(), ..Found::default() });
        ServiceAccountTokens::open(directory.path(), ISSUER, Box::new(found)).unwrap()
    };
    let answer = open().request(BUILDER, &Map::new(), now()).unwrap().request;
    let token = answer["status"]["token"].as_str().unwrap();
    let audiences = [ISSUER.to_owned()];
    open().verify(token, &audiences, now()).unwrap();

    let file = |name: &str| directory.path().join(name);
    std::fs::rename(file("service-accounts.key"), file("service-accounts-previous.key")).unwrap();
    open().verify(token, &audiences, now()).unwrap();
    assert_eq!(open().key_set()["keys"].as_array().unwrap().len(), 2);
    std::fs::remove_file(file("service-accounts-previous.key")).unwrap();
    open().verify(token, &audiences, now()).unwrap_err();
}

fn certificate(names: &[(rcgen::DnType, &str)]) -> ClientCertificate {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, name) in names {
        parameters.distinguished_name.push(kind.clone(), *name);
    }
    let key = rcgen::KeyPair::generate().unwrap();
    ClientCertificate::read(parameters.self_signed(&key).unwrap().der()).unwrap()
}

#[test]
fn certificate_names_user_and_groups_and_comes_before_a_token() {
    let world = Fixture::new();
    let names = [(rcgen::DnType::CommonName, "eve"), (rcgen::DnType::OrganizationName, "ops")];
    let peer = Peer::Verified(certificate(&names));
    let headers = HeaderMap::from_iter([(AUTHORIZATION, "Bearer sesame".parse().unwrap())]);
    let eve = world.authenticator.authenticate(&headers, &peer, now()).unwrap();
    assert_eq!(eve.name, "eve");
    assert_eq!(eve.groups, ["ops", "system:authenticated"]);
    assert!(eve.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
}

#[test]
fn certificate_without_a_name_is_nobody() {
    let world = Fixture::new();
    let peer = Peer::Verified(certificate(&[(rcgen::DnType::OrganizationName, "system:masters")]));
    let found = world.authenticator.authenticate(&HeaderMap::new(), &peer, now()).unwrap();
    assert_eq!(found, Identity::anonymous());
}

#[test]
fn certificate_that_does_not_count_is_refused_unless_a_token_does() {
    let world = Fixture::new();
    let expired = Peer::Verified(certificate(&[(rcgen::DnType::CommonName, "eve")]));
    let later = Timestamp::from_second(200_000_000_000).unwrap();
    for (peer, now) in [(Peer::Refused, now()), (expired, later)] {
        let refusal = world.authenticator.authenticate(&HeaderMap::new(), &peer, now).unwrap_err();
        assert_eq!(refusal.code, 401);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, "Bearer sesame".parse().unwrap())]);
        assert_eq!(world.authenticator.authenticate(&headers, &peer, now).unwrap().name, "bob");
    }
}

#[test]
fn garbage_is_no_certificate() {
    assert_eq!(ClientCertificate::read(b"garbage"), None);
    assert_eq!(ClientCertificate::read(&[0x30; 4_096]), None);
}
