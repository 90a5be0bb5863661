//! Numbers that users may set count.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ferroplane_controllers::CircuitBreakerTuning;
use ferroplane_testkit::FunctionServer;
use ferroplane_testkit::plane::sites::{SETTINGS, SITES, is_ready, plane_with_sites};
use ferroplane_testkit::plane::{Plane, condition};
use ferroplane_wire::v1::RunFunctionResponse;
use serde_json::{Value, json};

use crate::pipelines::serve_at;

/// How many composite resources of one kind may be reconciled at a time, as metrics have it.
fn limit(metrics: &str, controller: &str) -> Option<String> {
    let name = format!(r#"controller_runtime_max_concurrent_reconciles{{controller="{controller}"}} "#);
    metrics.lines().find_map(|line| line.strip_prefix(&name)).map(str::to_owned)
}

#[tokio::test]
async fn limit_of_concurrent_reconciles_is_in_the_metrics() {
    let mut plane = plane_with_sites().await;
    plane.stop().await;
    plane.tuning.max_concurrent_reconciles = NonZeroUsize::new(1);
    plane.start().await;
    plane.create_site("blog", "red").await;
    plane.until(&format!("{SITES}/blog"), is_ready).await;
    assert_eq!(limit(&plane.metrics(), "composite/sites.example.org").as_deref(), Some("1"));
}

#[tokio::test]
async fn no_more_are_reconciled_at_a_time_than_is_set() {
    let mut plane = Plane::new().await;
    plane.stop().await;
    plane.tuning.max_concurrent_reconciles = NonZeroUsize::new(1);
    plane.start().await;
    let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = most.clone();
    let server = FunctionServer::start_async(move |_| {
        let (under_way, highest) = (under_way.clone(), highest.clone());
        async move {
            highest.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // So long that the others would be called meanwhile if they could be.
            tokio::time::sleep(Duration::from_millis(200)).await;
            under_way.fetch_sub(1, Ordering::SeqCst);
            Ok(RunFunctionResponse::default())
        }
    })
    .await;
    plane.define_sites().await;
    serve_at(&plane, &server.address()).await;
    plane.compose_sites_of(&json!([{"step": "test", "functionRef": {"name": "function-served"}}])).await;
    let names = ["blog", "docs", "shop"];
    for name in names {
        plane.create_site(name, "red").await;
    }
    for name in names {
        plane.until(&format!("{SITES}/{name}"), is_ready).await;
    }
    assert!(server.calls() >= names.len(), "{}", server.calls());
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// The condition about the circuit breaker of a composite resource.
fn responsive(site: &Value) -> Option<String> {
    condition(site, "Responsive")
}

/// A plane with this tuning, after ten changes of what its site `blog` composes.
async fn plane_with_changes(circuit_breaker: CircuitBreakerTuning) -> Plane {
    let mut plane = plane_with_sites().await;
    plane.stop().await;
    plane.tuning.circuit_breaker = circuit_breaker;
    plane.start().await;
    let blog = format!("{SITES}/blog");
    plane.create_site("blog", "red").await;
    plane.until(&blog, is_ready).await;
    let name = plane.settings_of("blog").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let setting = format!("{SETTINGS}/{name}");
    for number in 0..10 {
        plane.merge(&setting, &json!({"metadata": {"annotations": {"number": number.to_string()}}})).await;
    }
    plane
}

#[tokio::test]
async fn circuit_opens_after_as_many_changes_as_are_said() {
    let cooldown = Duration::from_mins(10);
    let tuning = CircuitBreakerTuning { burst: 3.0, refill_per_second: 0.001, cooldown };
    let plane = plane_with_changes(tuning).await;
    let is_open = |site: &Value| responsive(site).as_deref() == Some("False/WatchCircuitOpen");
    plane.until(&format!("{SITES}/blog"), is_open).await;
}

#[tokio::test]
async fn circuit_closes_when_the_cooldown_is_over_and_stays_closed() {
    let cooldown = Duration::from_secs(3);
    let tuning = CircuitBreakerTuning { burst: 3.0, refill_per_second: 0.001, cooldown };
    let plane = plane_with_changes(tuning).await;
    let blog = format!("{SITES}/blog");
    for wanted in ["False/WatchCircuitOpen", "True/WatchCircuitClosed"] {
        plane.until(&blog, |site| responsive(site).as_deref() == Some(wanted)).await;
    }
    plane.quiet().await;
    assert_eq!(responsive(&plane.get(&blog).await).as_deref(), Some("True/WatchCircuitClosed"));
}
