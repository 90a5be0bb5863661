//! What a tenant could learn about others without reading anything of theirs: from how long answers take, and from numbers in them.

use std::time::{Duration, Instant};

use ferroplane_testkit::ApiClient;
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::ground::{Tenants, Who};

/// How often each of two things is asked for.
const ROUNDS: usize = 400;

/// How long refusals of two things take. They are asked for in turn, so that whatever slows the machine down slows down both.
pub(super) fn median_times(tenants: &Tenants, paths: [&str; 2]) -> [Duration; 2] {
    tenants.runtime().block_on(async {
        let mut client = ApiClient::connect(&tenants.address(Who::Red)).await.unwrap();
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            // Each of them comes first as often as the other.
            for index in [round % 2, (round + 1) % 2] {
                let began = Instant::now();
                let answer = client.send("GET", paths[index], "").await.unwrap();
                times[index].push(began.elapsed());
                assert_eq!(answer.code, 403);
            }
        }
        times.map(|mut times| {
            times.sort_unstable();
            times[ROUNDS / 2]
        })
    })
}

/// What a tenant may check.
const OWN: &[&str] = &[
    "/api/v1/namespaces/red/configmaps",
    "/api/v1/namespaces/red/configmaps?limit=1",
    "/api/v1/namespaces/red/configmaps?fieldSelector=metadata.name%3Down",
    "/api/v1/namespaces/red/configmaps/own",
    "/api/v1/namespaces/red/secrets",
    "/api/v1/namespaces/red/events",
    "/apis/events.k8s.io/v1/namespaces/red/events",
    "/apis/tenancy.test.io/v1/namespaces/red/apps",
    "/api",
    "/apis",
    "/apis/tenancy.test.io/v1",
];

/// Headers that differ with every answer, or with the number of digits of a resource version.
const FICKLE: &[&str] = &["audit-id", "content-length", "date"];

/// Everything that a tenant is answered who reads its own, but for resource versions of lists.
pub(super) fn sights(tenants: &Tenants) -> Vec<String> {
    tenants.runtime().block_on(async {
        let mut client = ApiClient::connect(&tenants.address(Who::Red)).await.unwrap();
        let mut sights = Vec::new();
        for path in OWN {
            let answer = client.begin("GET", path, "").await.unwrap();
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let headers = parts.headers.iter().filter(|(name, _)| !FICKLE.contains(&name.as_str()));
            let mut headers: Vec<_> = headers.map(|(name, value)| format!("{name}: {value:?}")).collect();
            headers.sort_unstable();
            let mut body: Value = serde_json::from_slice(&body).unwrap();
            hide_revision(&mut body);
            sights.push(format!("{path}: {} {headers:?} {body}", parts.status));
        }
        sights
    })
}

/// The resource version of a list counts all writes to the server, as in Kubernetes, and where a list continues says it, too.
fn hide_revision(body: &mut Value) {
    let is_list = body.get("items").is_some();
    if let Some(metadata) = body["metadata"].as_object_mut().filter(|_| is_list) {
        metadata.remove("resourceVersion");
        metadata.remove("continue");
    }
}
