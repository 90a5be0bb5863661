//! Of several replicas one leads, and the others take over.

use ferroplane_testkit::plane::sites::is_ready;
use rustix::process::Signal;

use super::ground::{Ground, SITES, composed};
use super::replica::Replica;

/// Short, so that nothing waits for long.
const SHORT: &[&str] = &["--lease-duration", "3s"];

/// Two replicas, the first of which leads and has composed a site.
fn two(ground: &Ground) -> (Replica, Replica, String) {
    let first = Replica::start(ground, SHORT);
    first.until("became the leader");
    let second = Replica::start(ground, SHORT);
    second.until("replica stands by");
    assert_eq!(second.page("/readyz").0, 200);
    assert!(second.page("/readyz").1.ends_with("stands by\n"));
    ground.define();
    ground.create_site("blog", "red");
    let site = ground.until(&format!("{SITES}/blog"), Ground::is_ready);
    let map = composed(&site);
    (first, second, map)
}

#[test]
fn leader_that_is_told_to_end_hands_over() {
    let ground = Ground::new();
    let (first, second, map) = two(&ground);
    first.stop();
    second.until("became the leader");
    ground.paint("blog", "blue");
    ground.until(&map, |map| map["data"]["colour"] == "blue");
    assert_eq!(ground.lease()["leaseTransitions"], 1);
    second.stop();
    assert_eq!(ground.lease()["holderIdentity"], "");
}

#[test]
fn other_replica_takes_over_when_the_leader_is_killed() {
    let ground = Ground::new();
    let (mut first, second, map) = two(&ground);
    let paths = [map.clone(), format!("{SITES}/blog")];
    let before = ground.versions(&paths);
    first.signal(Signal::KILL);
    first.end();
    ground.create_site("shop", "green");
    second.until("became the leader");
    ground.until(&format!("{SITES}/shop"), Ground::is_ready);
    // What was done already is not done again.
    assert_eq!(ground.versions(&paths), before);
    ground.paint("blog", "blue");
    ground.until(&map, |map| map["data"]["colour"] == "blue");
    second.stop();
}

#[test]
fn leader_that_slept_through_its_term_writes_nothing_any_more() {
    let ground = Ground::new();
    let (mut first, second, map) = two(&ground);
    first.signal(Signal::STOP);
    second.until("became the leader");
    ground.paint("blog", "blue");
    ground.until(&map, |map| map["data"]["colour"] == "blue");
    // It had something to do, and would find it when it wakes.
    ground.paint("blog", "green");
    ground.until(&map, |map| map["data"]["colour"] == "green");
    let paths = [map, format!("{SITES}/blog")];
    ground.until(&paths[1], is_ready);
    let before = ground.versions(&paths);
    let holder = ground.lease()["holderIdentity"].clone();
    first.signal(Signal::CONT);
    let status = first.end();
    assert_eq!(status.code(), Some(1), "{status}");
    assert_eq!(ground.versions(&paths), before);
    assert_eq!(ground.lease()["holderIdentity"], holder);
    second.stop();
}
