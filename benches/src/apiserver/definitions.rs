//! What many definitions cost.

use std::time::{Duration, Instant};

use super::contestant::Contestant;
use super::{definition, mega, send, until_served};
use crate::measure::pretty;

/// Defines kinds, waits until all are served, and prints how much memory that took.
pub(super) async fn measure(contestant: &Contestant, definitions: usize) {
    let before = contestant.resident();
    let mut client = contestant.client().await;
    let started = Instant::now();
    for number in 0..definitions {
        let definition = definition(&format!("gadget{number}s"), &format!("Gadget{number}"));
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let answer = send(&mut client, "POST", path, &definition.to_string()).await;
        assert_eq!(answer.code, 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    for number in 0..definitions {
        let path = format!("/apis/bench.ferroplane.io/v1/namespaces/default/gadget{number}s");
        until_served(&mut client, &path).await;
    }
    let served = started.elapsed();
    // The server may still be describing kinds to clients.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let after = contestant.resident();
    println!(
        "| {}: {definitions} | {} | {:.0} MB | {:.0} kB |",
        contestant.name(),
        pretty(served),
        mega(after),
        mega(after.saturating_sub(before) * 1000 / definitions),
    );
}
