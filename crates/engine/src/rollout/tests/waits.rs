//! What a rollout waits for before it moves more composite resources.

use super::{Fate, Fleet, Health, RolloutState, START};
use crate::rollout::decide::key;

#[test]
fn wave_is_observed_from_when_its_last_composite_resource_is_ready() {
    let mut fleet = Fleet::of(100).with_fate(|_, _| Fate::NeverReady);
    fleet.install("v2", 2);
    let moved_at = fleet.now;
    // It takes longer to become ready than a wave is observed.
    while fleet.now < moved_at + 300 {
        let decision = fleet.decide();
        fleet.status = decision.status;
        fleet.now += 10;
        fleet.run();
    }
    assert_eq!((fleet.status.wave, fleet.status.wave_ready_at.as_deref()), (1, None));
    fleet.fate = Box::new(|_, _| Fate::Ready);
    fleet.run();
    let ready_at = fleet.now;
    while fleet.status.wave == 1 {
        let before = fleet.now;
        fleet.step();
        assert!(fleet.status.wave == 1 || before - ready_at >= 30, "wave 2 after {} s", before - ready_at);
    }
    assert_eq!(fleet.finish(), RolloutState::Promoted);
}

#[test]
fn composite_resource_that_was_not_ready_before_is_waited_for_until_the_revision_composed_it() {
    let mut fleet = Fleet::of(10);
    for subject in &mut fleet.subjects {
        subject.health = Health::Failed;
    }
    fleet.install("v2", 2);
    fleet.status = fleet.decide().status;
    assert_eq!((fleet.status.composites.moved, fleet.status.unready_before.len()), (1, 1));
    fleet.now += 5;
    let status = fleet.decide().status;
    assert_eq!((status.composites.ready, status.wave_ready_at), (0, None), "it was not reconciled yet");
    let moved = fleet.status.unready_before[0].clone();
    for subject in &mut fleet.subjects {
        if key("v2", subject) == moved {
            subject.ran = vec!["v2".to_owned()];
        }
    }
    let status = fleet.decide().status;
    assert_eq!(status.composites.ready, 1);
    assert!(status.wave_ready_at.is_some());
    // One that cannot be composed at all holds up nobody for longer.
    for subject in &mut fleet.subjects {
        subject.ran = vec!["v1".to_owned()];
    }
    fleet.now += 60;
    assert_eq!(fleet.decide().status.composites.ready, 1);
}

#[test]
fn composite_resource_that_is_never_ready_fails_in_time_though_the_clock_was_set_back() {
    let mut fleet = Fleet::of(20).with_fate(|_, _| Fate::NeverReady);
    fleet.install("v2", 2);
    fleet.step();
    let set_back = START - 100_000;
    assert!(fleet.subjects.iter().any(|it| it.health == Health::NotReady && it.since > START));
    fleet.now = set_back;
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    let took = fleet.now - set_back;
    assert!(took < 2 * fleet.spec.progress_deadline_seconds, "it took {took} s");
}

#[test]
fn clock_that_is_a_little_slower_makes_nobody_late_who_has_only_just_become_unready() {
    let mut fleet = Fleet::of(20);
    fleet.install("v2", 2);
    fleet.step();
    // It was moved long ago.
    fleet.now += 1000;
    fleet.fate = Box::new(|_, _| Fate::NeverReady);
    fleet.run();
    // Another replica leads, whose clock is behind.
    fleet.now -= 5;
    let status = fleet.decide().status;
    assert_eq!((status.state, status.composites.failed), (RolloutState::Progressing, 0));
}

#[test]
fn newer_revision_that_is_not_in_service_yet_is_named() {
    let told = |fleet: &mut Fleet| {
        fleet.step();
        fleet.status.message.clone()
    };
    let mut fleet = Fleet::of(10);
    let idle = "All composite resources call `v1`";
    assert_eq!(told(&mut fleet), format!("{idle}: there is no newer revision"));
    fleet.install("v2", 2);
    fleet.revisions[1].is_serving = false;
    assert_eq!(told(&mut fleet), format!("{idle}: revision `v2` is not in service yet"));
    assert_eq!(fleet.status.state, RolloutState::Idle);
    fleet.revisions[1].is_serving = true;
    assert_eq!(fleet.finish(), RolloutState::Promoted);
    let promoted = fleet.status.message.clone();
    assert!(promoted.starts_with("Promoted `v2`: "), "{promoted}");
    fleet.install("v3", 3);
    fleet.revisions[2].is_serving = false;
    assert_eq!(told(&mut fleet), format!("{promoted}; revision `v3` is not in service yet"));
    fleet.revisions[2].is_active = false;
    assert_eq!(told(&mut fleet), promoted);

    // One that was rolled back is not waited for, although it cannot be called.
    (fleet.revisions[2].is_active, fleet.revisions[2].is_serving) = (true, true);
    fleet.fate = Box::new(|_, _| Fate::Fails);
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    let rolled_back = fleet.status.message.clone();
    fleet.revisions[2].is_serving = false;
    assert_eq!(told(&mut fleet), rolled_back);
}

#[test]
fn nothing_is_moved_while_a_definition_is_not_established() {
    for preview in [false, true] {
        let mut fleet = Fleet::of(100);
        fleet.spec.preview = preview;
        fleet.unestablished = Some("shops.example.org".to_owned());
        fleet.install("v2", 2);
        for _ in 0..20 {
            fleet.step();
            assert_eq!(fleet.status.composites.moved, 0);
            assert!(fleet.status.message.contains("`shops.example.org`"), "{}", fleet.status.message);
        }
        fleet.unestablished = None;
        assert_eq!(fleet.finish(), RolloutState::Promoted);
    }
    // Nor is anything promoted because no composite resource is known.
    let mut fleet = Fleet::of(0);
    fleet.unestablished = Some("shops.example.org".to_owned());
    fleet.install("v2", 2);
    fleet.step();
    fleet.step();
    assert_eq!(fleet.status.candidate.as_deref(), Some("v2"));
}

#[test]
fn revision_that_fails_goes_back_though_a_definition_is_not_established() {
    let mut fleet = Fleet::of(100);
    fleet.install("v2", 2);
    fleet.step();
    assert_eq!(fleet.calling("v2"), 1);
    fleet.unestablished = Some("shops.example.org".to_owned());
    fleet.fate = Box::new(|_, _| Fate::Fails);
    fleet.run();
    fleet.step();
    assert_eq!(fleet.status.state, RolloutState::RollingBack);
    fleet.step();
    assert_eq!(fleet.status.state, RolloutState::RollingBack, "who calls it is not known yet");
    fleet.unestablished = None;
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
}
