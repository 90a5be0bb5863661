//! Requests of users to promote and to undo revisions.

use super::{Fleet, RolloutState};

/// A rollout that has moved one composite resource.
fn under_way() -> Fleet {
    let mut fleet = Fleet::of(100);
    fleet.install("v2", 2);
    fleet.step();
    assert_eq!((fleet.calling("v2"), fleet.status.state), (1, RolloutState::Progressing));
    fleet
}

/// Nothing happens any more.
fn assert_settled(fleet: &mut Fleet, state: RolloutState, ended: usize) {
    assert_eq!(fleet.finish(), state);
    let (status, events) = (fleet.status.clone(), fleet.events.len());
    for _ in 0..5 {
        fleet.step();
        assert_eq!((&fleet.status, fleet.events.len()), (&status, events), "it goes back and forth");
    }
    assert_eq!(fleet.status.history.len(), ended, "{:#?}", fleet.status.history);
}

#[test]
fn revision_is_undone_if_both_are_requested_at_once() {
    for is_promoted in [false, true] {
        let mut fleet = under_way();
        if is_promoted {
            assert_eq!(fleet.finish(), RolloutState::Promoted);
        }
        (fleet.promote, fleet.undo) = (Some("v2".to_owned()), Some("v2".to_owned()));
        assert_settled(&mut fleet, RolloutState::RolledBack, 1 + usize::from(is_promoted));
        assert_eq!((fleet.calling("v1"), fleet.status.rejected.as_deref()), (100, Some("v2")));
    }
}

#[test]
fn later_of_two_requests_counts_though_the_earlier_one_is_still_there() {
    let mut fleet = under_way();
    fleet.promote = Some("v2".to_owned());
    assert_settled(&mut fleet, RolloutState::Promoted, 1);
    fleet.undo = Some("v2".to_owned());
    assert_settled(&mut fleet, RolloutState::RolledBack, 2);
    assert_eq!(fleet.calling("v1"), 100);

    let mut fleet = under_way();
    fleet.undo = Some("v2".to_owned());
    assert_settled(&mut fleet, RolloutState::RolledBack, 1);
    fleet.promote = Some("v2".to_owned());
    assert_settled(&mut fleet, RolloutState::Promoted, 2);
    assert_eq!(fleet.calling("v2"), 100);
    // To remove a request is none.
    fleet.promote = None;
    assert_settled(&mut fleet, RolloutState::Promoted, 2);
    // It can be made again, also by its time alone.
    fleet.requested_at = Some("2027-01-01T00:00:00Z".to_owned());
    assert_settled(&mut fleet, RolloutState::RolledBack, 3);
    (fleet.promote, fleet.undo) = (Some("v2".to_owned()), None);
    assert_settled(&mut fleet, RolloutState::Promoted, 4);
    fleet.promote = None;
    fleet.step();
    fleet.undo = Some("v2".to_owned());
    assert_settled(&mut fleet, RolloutState::RolledBack, 5);
}

#[test]
fn requests_that_came_too_early_are_handled_when_their_revision_is_there() {
    let mut fleet = Fleet::of(100);
    fleet.promote = Some("v2".to_owned());
    fleet.step();
    assert_eq!(fleet.status.handled_promote, None);
    fleet.install("v2", 2);
    fleet.step();
    assert_eq!((fleet.status.state, fleet.calling("v2")), (RolloutState::Promoted, 100));
    assert_eq!(fleet.status.handled_promote, Some("v2".to_owned()));
    // It says nothing about the next revision, nor about a way back.
    fleet.fate = Box::new(|_, _| super::Fate::Fails);
    fleet.install("v3", 3);
    assert_settled(&mut fleet, RolloutState::RolledBack, 2);
    assert_eq!(fleet.calling("v2"), 100);
}
