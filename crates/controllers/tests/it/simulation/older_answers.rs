//! A function that was given the answer to an older question does not respond in time: the run is repeated at once without it (ADR 58).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferroplane_runner::AsyncFunction;
use ferroplane_testkit::plane::sites::{SETTINGS, is_ready};
use ferroplane_wire::v1::RunFunctionRequest;
use serde_json::json;
use tokio::time::Instant;

use super::functions::{self, Function};
use super::lessons::{AT_ONCE, BLOG, create_by, minutes, offer, paint_of, with_functions};
use super::user::User;

const READER: &str = "function-reader";
const SLOW: &str = "slow";

/// When a function was called, and the paint that it was given.
type Calls = Arc<Mutex<Vec<(Instant, Option<String>)>>>;

/// The paint that a site is annotated with. An annotation changes neither its generation nor its pipeline.
fn wanted_paint(request: &RunFunctionRequest) -> String {
    let site = request.observed.as_ref().and_then(|observed| observed.composite()?.resource.as_ref());
    let annotations = &site.unwrap().json().unwrap()["metadata"]["annotations"];
    annotations["example.org/paint"].as_str().unwrap_or("green").to_owned()
}

/// A function that asks for the paint of its site, and never responds if it is given another one or if the paint is slow.
fn reader(calls: &Calls) -> Function {
    let calls = calls.clone();
    let inside = AsyncFunction::new(move |request: RunFunctionRequest| {
        let (wanted, given) = (wanted_paint(&request), paint_of(&request));
        calls.lock().unwrap().push((Instant::now(), given.clone()));
        async move {
            if wanted == SLOW || given.is_some_and(|given| given != wanted) {
                return functions::hang().await;
            }
            let answer = json!({
                "meta": {},
                "requirements": {"resources": {"paint": {
                    "apiVersion": "v1", "kind": "ConfigMap", "matchName": wanted, "namespace": "default",
                }}},
                "desired": {},
            });
            Ok(ferroplane_wire::from_json(&answer).unwrap())
        }
    });
    (READER.to_owned(), inside)
}

/// Live with a site that is ready, whose function remembers green paint.
fn with_green_site(calls: &Calls, life: impl AsyncFnOnce(&mut User<'_>)) {
    with_functions(vec![reader(calls)], async |user| {
        for color in ["green", "blue"] {
            let paint = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": color}, "data": {"color": color},
            });
            user.world.plane.apply(&format!("{SETTINGS}/{color}"), &paint).await;
        }
        offer(user, READER).await;
        create_by(user, READER, "blog", "red").await;
        user.world.plane.until(BLOG, is_ready).await;
        minutes(1).await;
        calls.lock().unwrap().clear();
        life(user).await;
    });
}

async fn annotate(user: &User<'_>, paint: &str) {
    let change = json!({"metadata": {"annotations": {"example.org/paint": paint}}});
    user.world.plane.merge(BLOG, &change).await;
}

/// How long after a call has timed out the next one is made.
fn pause_after(calls: &[(Instant, Option<String>)], call: usize) -> Duration {
    calls[call + 1].0 - (calls[call].0 + functions::PATIENCE)
}

#[test]
fn run_that_timed_out_with_an_older_answer_is_repeated_at_once_without_it() {
    let calls = Calls::default();
    with_green_site(&calls, async |user| {
        annotate(user, "blue").await;
        minutes(3).await;
        let calls = calls.lock().unwrap().clone();
        let given: Vec<_> = calls.iter().map(|(_, given)| given.as_deref()).collect();
        assert_eq!(given, [Some("green"), None, Some("blue")]);
        assert!(pause_after(&calls, 0) < AT_ONCE, "{:?}", pause_after(&calls, 0));
        let site = user.world.plane.get(BLOG).await;
        assert!(is_ready(&site), "{site:#}");
    });
}

#[test]
fn run_that_timed_out_without_an_older_answer_is_repeated_after_a_pause() {
    let calls = Calls::default();
    with_green_site(&calls, async |user| {
        annotate(user, SLOW).await;
        minutes(4).await;
        let calls = calls.lock().unwrap().clone();
        assert!(calls.len() >= 3, "{calls:?}");
        assert!(calls[1..].iter().all(|(_, given)| given.is_none()), "{calls:?}");
        assert!(pause_after(&calls, 0) < AT_ONCE, "{:?}", pause_after(&calls, 0));
        assert!(pause_after(&calls, 1) >= AT_ONCE, "{:?}", pause_after(&calls, 1));
    });
}
