//! Two tenants on one plane. Whatever one of them tries against the other is refused, changes nothing, shows nothing, and
//! stands in the audit log.
//!
//! The attacker is the administrator of a namespace, together with an author of definitions and Compositions. Each row of the
//! tables is one attempt.

mod composed;
mod ground;
mod learning;
mod requests;
mod starving;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ferroplane_testkit::ApiAnswer;
use serde_json::Value;

use ground::{SECRET, Tenants, Who};
use requests::{Attempt, DEFINING, READING, WRITING};

/// An application of the victim, which has composed what it composes.
fn shop(tenants: &Tenants) {
    let path = "/apis/tenancy.test.io/v1/namespaces/blue/apps/shop";
    let shop = "{apiVersion: tenancy.test.io/v1, kind: App, metadata: {name: shop, namespace: blue}, \
                spec: {crossplane: {compositionRef: {name: app}}}}";
    tenants.apply(Who::Administrator, path, shop);
    tenants.until(path, |app| {
        let conditions = app["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|all| all["type"] == "Ready" && all["status"] == "True")
    });
}

/// What is wrong with the answer to an attempt, if anything.
fn fault(attempt: &Attempt, answer: &ApiAnswer) -> Option<String> {
    let text = String::from_utf8_lossy(&answer.body);
    let shows = [SECRET, &STANDARD.encode(SECRET)].iter().any(|secret| text.contains(*secret));
    let is_refused = attempt.codes.contains(&answer.code);
    (shows || !is_refused).then(|| format!("{}: {} {text}", attempt.what, answer.code))
}

/// Whether the audit log should tell of it: of everything that is refused to somebody, and of every attempt to write. Events
/// are a record themselves.
fn leaves_a_line(attempt: &Attempt, code: u16) -> bool {
    matches!(code, 401 | 403) || attempt.method != "GET" && !attempt.path.ends_with("/events")
}

/// Whether a line of the audit log is about this attempt: who sent what, and how it was answered.
fn is_about(line: &Value, attempt: &Attempt, code: u16) -> bool {
    let is_by = match attempt.who.account() {
        Some(name) => line["user"]["username"] == name,
        // Whoever does not show who they are is nobody, or anonymous.
        None => line["user"]["username"].as_str().is_none_or(|name| name == "system:anonymous"),
    };
    let verbs: &[&str] = match attempt.method {
        "GET" => &["get", "list", "watch"],
        "POST" => &["create", "post"],
        "PUT" => &["update", "put"],
        "PATCH" => &["patch"],
        _ => &["delete", "deletecollection"],
    };
    let is_asked = line["verb"].as_str().is_some_and(|verb| verbs.contains(&verb));
    let is_answered = line["responseStatus"]["code"] == u64::from(code);
    is_by && is_asked && is_answered && line["requestURI"] == attempt.path
}

/// The attempts without a line of their own: a line reports one attempt.
fn untold(mut audit: Vec<Value>, answered: &[(&Attempt, u16)]) -> Vec<String> {
    let mut untold = Vec::new();
    for (attempt, code) in answered.iter().filter(|(attempt, code)| leaves_a_line(attempt, *code)) {
        match audit.iter().position(|line| is_about(line, attempt, *code)) {
            Some(index) => drop(audit.swap_remove(index)),
            None => untold.push(format!("{} ({code})", attempt.what)),
        }
    }
    untold
}

/// What is left untold when the audit log has had time: lines are written behind the answers.
fn settled(untold: impl Fn() -> Vec<String>) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = untold();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn requests_against_another_tenant_are_refused_and_audited() {
    let tenants = Tenants::new();
    shop(&tenants);
    let before = tenants.untouched();
    let attempts: Vec<_> = READING.iter().chain(WRITING).chain(DEFINING).collect();
    assert!(attempts.len() >= 60, "{}", attempts.len());
    let ask = |attempt: &&Attempt| {
        tenants.ask(attempt.who, attempt.method, attempt.path, attempt.headers, attempt.body)
    };
    let answers: Vec<_> = attempts.iter().map(ask).collect();
    let faults: Vec<_> =
        attempts.iter().zip(&answers).filter_map(|(one, answer)| fault(one, answer)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(tenants.untouched(), before);
    let answered: Vec<_> =
        attempts.iter().zip(&answers).map(|(attempt, answer)| (*attempt, answer.code)).collect();
    let audited = answered.iter().filter(|(attempt, code)| leaves_a_line(attempt, *code)).count();
    assert!(audited >= 60, "{audited}");
    let untold = settled(|| untold(tenants.audit(), &answered));
    assert!(untold.is_empty(), "without a line in the audit log: {untold:#?}");
}

#[test]
fn plane_does_nothing_for_a_tenant_that_the_tenant_may_not_do() {
    let tenants = Tenants::new();
    shop(&tenants);
    let before = tenants.untouched();
    assert!(composed::attempt(&tenants) >= 12);
    composed::claim_to_have_composed(&tenants);
    composed::take_over_kinds(&tenants);
    assert_eq!(tenants.untouched(), before);
    let untold = settled(|| composed::untold(&tenants.audit()));
    assert!(untold.is_empty(), "not in the audit log: {untold:#?}");
    assert!(composed::is_taking_over_told(&tenants.audit()));
    tenants.hears_denials_of(&composed::denied_reads());
}

#[test]
fn one_tenant_cannot_starve_another() {
    let tenants = Tenants::new();
    let mut refused = starving::ask_too_much(&tenants);
    refused.extend(starving::flood(&tenants));
    starving::stall(&tenants);
    starving::occupy(&tenants);
    starving::leave_unread(&tenants);
    assert!(refused.len() >= 2, "{refused:?}");
    let untold = settled(|| starving::untold(tenants.audit(), &refused));
    assert!(untold.is_empty(), "without a line in the audit log: {untold:#?}");
}

/// How long a refusal takes must not depend on it, either.
#[test]
fn refusals_take_as_long_for_what_exists_as_for_what_does_not() {
    let tenants = Tenants::new();
    shop(&tenants);
    let kinds = [
        ["/api/v1/namespaces/blue/secrets/payroll", "/api/v1/namespaces/blue/secrets/nothing"],
        [
            "/apis/tenancy.test.io/v1/namespaces/blue/apps/shop",
            "/apis/tenancy.test.io/v1/namespaces/blue/apps/none",
        ],
    ];
    for paths in kinds {
        let [present, absent] = learning::median_times(&tenants, paths).map(|time| time.as_secs_f64());
        let ratio = present.max(absent) / present.min(absent);
        assert!(ratio < 1.5, "{paths:?}: {present} s and {absent} s");
    }
}

/// But for the one counter that everything shares, nothing that a tenant sees counts what others have.
#[test]
fn what_a_tenant_sees_does_not_depend_on_how_much_others_have() {
    let tenants = Tenants::new();
    shop(&tenants);
    let before = learning::sights(&tenants);
    for n in 0..50 {
        let map =
            format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: map-{n}, namespace: blue}}}}");
        tenants.apply(Who::Blue, &format!("/api/v1/namespaces/blue/configmaps/map-{n}"), &map);
    }
    let kiosk =
        "{apiVersion: tenancy.test.io/v1, kind: App, metadata: {name: kiosk, namespace: blue}, spec: {}}";
    tenants.apply(Who::Administrator, "/apis/tenancy.test.io/v1/namespaces/blue/apps/kiosk", kiosk);
    assert_eq!(learning::sights(&tenants), before);
}

/// What a refusal says must not depend on whether the thing is there.
#[test]
fn refusals_do_not_tell_what_exists() {
    let tenants = Tenants::new();
    shop(&tenants);
    let kinds = [
        "/api/v1/namespaces/blue/secrets/NAME",
        "/api/v1/namespaces/blue/configmaps/NAME",
        "/apis/tenancy.test.io/v1/namespaces/blue/apps/NAME",
        "/api/v1/namespaces/blue/serviceaccounts/NAME",
    ];
    for (path, present) in kinds.iter().zip(["payroll", "plans", "shop", "till"]) {
        for method in ["GET", "DELETE", "PATCH"] {
            let words: BTreeSet<_> = [present, "absent"]
                .into_iter()
                .map(|name| {
                    let headers = [("content-type", "application/merge-patch+json")];
                    let answer = tenants.ask(Who::Red, method, &path.replace("NAME", name), &headers, "{}");
                    String::from_utf8_lossy(&answer.body).replace(name, "NAME")
                })
                .collect();
            assert_eq!(words.len(), 1, "{method} {path}: {words:#?}");
        }
    }
}

/// A list continues where a token says; a token of somebody's own making does not lead elsewhere.
#[test]
fn continuation_of_a_list_stays_in_its_namespace() {
    let tenants = Tenants::new();
    let path = "/api/v1/namespaces/red/configmaps";
    for name in ["a", "b", "c"] {
        let map = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: red}}}}");
        tenants.apply(Who::Red, &format!("{path}/{name}"), &map);
    }
    let first = tenants.json(Who::Red, "GET", &format!("{path}?limit=1"), "");
    let token = first["metadata"]["continue"].as_str().unwrap();
    // The code, and how many objects there are, all of them the sender's own.
    let listed = |token: &str| {
        let answer = tenants.ask(Who::Red, "GET", &format!("{path}?limit=50&continue={token}"), &[], "");
        let list: Value = serde_json::from_slice(&answer.body).unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        assert!(items.iter().all(|item| item["metadata"]["namespace"] == "red"), "{list}");
        assert!(!list.to_string().contains(SECRET), "{list}");
        (answer.code, items.len())
    };
    let (code, count) = listed(token);
    assert!(code == 200 && count >= 2, "{code} {count}");
    // A token says only behind which object of the namespace the list continues. These name the other namespace instead.
    let genuine: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
    for (start, code) in [
        ("../blue/", 400),
        ("../blue/a", 400),
        ("/../blue/a", 400),
        ("blue/", 400),
        ("blue/../../blue/a", 400),
        ("blue/a", 200),
        ("/blue/a", 200),
    ] {
        let mut forged = genuine.clone();
        forged["start"] = format!("{start}\0").into();
        assert_ne!(forged, genuine);
        assert_eq!(listed(&URL_SAFE_NO_PAD.encode(forged.to_string())).0, code, "{start}");
    }
    // An administrator's token of all namespaces, at the very beginning of the other's, is worth no more.
    let all = tenants.json(Who::Administrator, "GET", "/api/v1/configmaps?limit=1", "");
    listed(all["metadata"]["continue"].as_str().unwrap());
}
