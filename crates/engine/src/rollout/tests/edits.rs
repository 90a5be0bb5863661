//! Edits of a `FunctionRollout` while it runs.

use std::ops::Range;

use super::{CallCounts, CallStatistics, Fleet, RolloutDifference, RolloutState};

/// A rollout that has moved one composite resource.
fn under_way() -> Fleet {
    let mut fleet = Fleet::of(100);
    fleet.spec.gates.max_error_percent = 20;
    fleet.install("v2", 2);
    fleet.step();
    assert_eq!((fleet.calling("v2"), fleet.status.state), (1, RolloutState::Progressing));
    fleet
}

#[test]
fn edited_policy_counts_from_then_on_and_nobody_goes_back() {
    let mut fleet = Fleet::of(100);
    fleet.spec.max_unavailable = "100%".to_owned();
    fleet.install("v2", 2);
    while fleet.calling("v2") < 50 {
        fleet.step();
    }
    assert_eq!(fleet.status.wave, 3);
    // Fewer waves than it has been through, and smaller ones.
    fleet.spec.waves = ["5", "100%"].map(str::to_owned).to_vec();
    (fleet.spec.min_ready_seconds, fleet.spec.max_unavailable) = (0, "10".to_owned());
    fleet.step();
    assert_eq!(fleet.calling("v2"), 60, "ten at a time from now on");
    assert_eq!(fleet.finish(), RolloutState::Promoted);
    assert!(fleet.moves.iter().all(|moves| *moves == 1), "nobody went back");
}

#[test]
fn edited_gates_count_from_then_on() {
    let mut fleet = under_way();
    let statistics = |errors: u64| CallStatistics { total: 40, errors, ..CallStatistics::default() };
    fleet.calls = CallCounts { stable: statistics(0), candidate: statistics(4) };
    fleet.step();
    assert_eq!(fleet.status.state, RolloutState::Progressing, "10 of 20 percent fail");
    fleet.spec.gates.max_error_percent = 5;
    fleet.step();
    assert_eq!(fleet.status.state, RolloutState::RollingBack);
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    assert!(fleet.status.history[0].message.contains("4 of 40 calls fail with it"), "{:#?}", fleet.status);

    // The other way: calls that break a gate no longer do.
    let mut fleet = under_way();
    fleet.calls = CallCounts { stable: statistics(0), candidate: statistics(10) };
    fleet.spec.gates.max_error_percent = 100;
    assert_eq!(fleet.finish(), RolloutState::Promoted);
}

#[test]
fn edited_refusals_count_for_those_that_were_moved_before() {
    let mut fleet = under_way();
    for subject in fleet.subjects.iter_mut().filter(|it| it.ran == ["v2"]) {
        subject.trial = Some(RolloutDifference::Added.into());
    }
    fleet.step();
    assert_eq!(fleet.status.state, RolloutState::Progressing, "additions are not refused by default");
    fleet.spec.refuse.push(RolloutDifference::Added);
    fleet.step();
    assert_eq!(fleet.status.state, RolloutState::RollingBack);
    assert_eq!(fleet.finish(), RolloutState::RolledBack);
    assert!(fleet.status.history[0].message.contains("(refused: Added)"), "{:#?}", fleet.status);
    assert_eq!(fleet.calling("v1"), 100);
}

#[test]
fn edited_order_moves_some_earlier_and_others_back_until_their_turn() {
    let (old, new) = (40..45, 60..65);
    let set_first = |fleet: &mut Fleet, first: &Range<usize>| {
        for (number, subject) in fleet.subjects.iter_mut().enumerate() {
            subject.is_first = first.contains(&number);
        }
    };
    let moved = |fleet: &Fleet| -> Vec<usize> {
        let all = fleet.subjects.iter().enumerate();
        all.filter(|(_, subject)| subject.ran == ["v2"]).map(|(number, _)| number).collect()
    };
    let mut fleet = Fleet::of(100);
    set_first(&mut fleet, &old);
    fleet.install("v2", 2);
    while moved(&fleet).len() < 5 {
        fleet.step();
    }
    assert_eq!(moved(&fleet), old.clone().collect::<Vec<_>>());

    set_first(&mut fleet, &new);
    fleet.run();
    assert!(moved(&fleet).iter().all(|number| new.contains(number)), "{:?}", moved(&fleet));
    while moved(&fleet).len() < 5 {
        fleet.step();
    }
    assert_eq!(moved(&fleet), new.collect::<Vec<_>>());
    assert_eq!(fleet.finish(), RolloutState::Promoted);
    for (number, moves) in fleet.moves.iter().enumerate() {
        let expected = if old.contains(&number) { 3 } else { 1 };
        assert_eq!(*moves, expected, "number {number}");
    }
}
