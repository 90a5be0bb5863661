//! Who comes in, who waits, who is sent away.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use tokio::task::yield_now;

use super::*;
use crate::auth::identity::Identity;

fn flow_control(mutating: usize, queue: usize) -> Arc<FlowControl> {
    let settings =
        Settings { read_only: 1, mutating, queue, watches: 3, watches_of_one: 2, ..Settings::default() };
    Arc::new(FlowControl::new(&settings))
}

type Entered = tokio::task::JoinHandle<Result<Permit, Status>>;

/// Lets a user try to come in, and waits until it waits.
async fn enter(flow_control: &Arc<FlowControl>, user: &str) -> Entered {
    let (flow_control, user) = (Arc::clone(flow_control), user.to_owned());
    let task = tokio::spawn(async move { flow_control.enter(RequestClass::Mutating, &user).await });
    yield_now().await;
    task
}

fn refusal(result: Result<Permit, Status>) -> (u16, u32) {
    let status = result.unwrap_err();
    assert_eq!(
        (&*status.reason, status.message.as_str()),
        ("TooManyRequests", "Too many requests, please try again later.")
    );
    (status.code, status.details.unwrap().retry_after_seconds)
}

#[tokio::test]
async fn place_is_free_when_the_permit_is_dropped() {
    let flow_control = flow_control(1, 1);
    let permit = flow_control.enter(RequestClass::Mutating, "bob").await.unwrap();
    let waiting = enter(&flow_control, "eve").await;
    assert_eq!(flow_control.load(RequestClass::Mutating), (1, 1));
    drop(permit);
    let permit = waiting.await.unwrap().unwrap();
    assert_eq!(flow_control.load(RequestClass::Mutating), (1, 0));
    drop(permit);
    assert_eq!(flow_control.load(RequestClass::Mutating), (0, 0));
}

#[tokio::test]
async fn classes_do_not_take_places_from_each_other() {
    let flow_control = flow_control(1, 0);
    let _writes = flow_control.enter(RequestClass::Mutating, "bob").await.unwrap();
    let _reads = flow_control.enter(RequestClass::ReadOnly, "bob").await.unwrap();
    let _watches = flow_control.enter(RequestClass::Watch, "bob").await.unwrap();
    assert_eq!(refusal(flow_control.enter(RequestClass::Mutating, "bob").await), (429, 1));
}

#[tokio::test]
async fn one_user_does_not_get_all_watches() {
    let flow_control = flow_control(1, 0);
    let first = flow_control.enter(RequestClass::Watch, "bob").await.unwrap();
    let _second = flow_control.enter(RequestClass::Watch, "bob").await.unwrap();
    refusal(flow_control.enter(RequestClass::Watch, "bob").await);
    let _third = flow_control.enter(RequestClass::Watch, "eve").await.unwrap();
    refusal(flow_control.enter(RequestClass::Watch, "ann").await);
    drop(first);
    flow_control.enter(RequestClass::Watch, "ann").await.unwrap();
}

#[tokio::test]
async fn one_user_does_not_get_all_places_and_waits_for_own_ones() {
    let flow_control =
        Arc::new(FlowControl::new(&Settings { mutating: 3, mutating_of_one: 2, ..Settings::default() }));
    let first = flow_control.enter(RequestClass::Mutating, "greedy").await.unwrap();
    let _second = flow_control.enter(RequestClass::Mutating, "greedy").await.unwrap();
    let waiting = enter(&flow_control, "greedy").await;
    assert_eq!(flow_control.load(RequestClass::Mutating), (2, 1));
    let modest = flow_control.enter(RequestClass::Mutating, "modest").await.unwrap();
    drop(modest);
    yield_now().await;
    assert!(!waiting.is_finished(), "the place of another one is free, but the share is used up");
    drop(first);
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn administrators_get_in_when_there_is_no_room_for_anybody_else() {
    let flow_control = flow_control(1, 0);
    let _places = flow_control.enter(RequestClass::Mutating, "bob").await.unwrap();
    refusal(flow_control.enter(RequestClass::Mutating, "eve").await);
    let _own = flow_control.enter_reserved(RequestClass::Mutating, "admin").await.unwrap();
    // There is an end to it: a script that runs wild with the rights of an administrator is refused, too.
    refusal(flow_control.enter_reserved(RequestClass::Mutating, "admin").await);
    assert_eq!(flow_control.load(RequestClass::Mutating), (2, 0));
}

#[tokio::test]
async fn free_place_goes_to_whoever_has_the_fewest() {
    let flow_control = flow_control(2, 10);
    let first = flow_control.enter(RequestClass::Mutating, "greedy").await.unwrap();
    let _second = flow_control.enter(RequestClass::Mutating, "greedy").await.unwrap();
    let third = enter(&flow_control, "greedy").await;
    let fourth = enter(&flow_control, "greedy").await;
    let modest = enter(&flow_control, "modest").await;
    drop(first);
    let permit = modest.await.unwrap().unwrap();
    assert!(!third.is_finished() && !fourth.is_finished());
    drop(permit);
    let _third = third.await.unwrap().unwrap();
    assert!(!fourth.is_finished());
}

#[tokio::test]
async fn users_with_as_many_places_take_turns() {
    let flow_control = flow_control(1, 10);
    let mut permit = flow_control.enter(RequestClass::Mutating, "x").await.unwrap();
    let mut waiting = Vec::new();
    for user in ["a", "a", "a", "b", "b", "b"] {
        waiting.push((user, enter(&flow_control, user).await));
    }
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(permit);
        yield_now().await;
        let position = waiting.iter().position(|(_, task)| task.is_finished()).unwrap();
        let (user, task) = waiting.remove(position);
        order.push(user);
        permit = task.await.unwrap().unwrap();
    }
    assert_eq!(order, ["a", "b", "a", "b", "a", "b"]);
}

#[tokio::test]
async fn full_queue_sends_away_the_last_of_whoever_has_most_in_it() {
    let flow_control = flow_control(1, 2);
    let permit = flow_control.enter(RequestClass::Mutating, "greedy").await.unwrap();
    let first = enter(&flow_control, "greedy").await;
    let second = enter(&flow_control, "greedy").await;
    refusal(enter(&flow_control, "greedy").await.await.unwrap());
    let modest = enter(&flow_control, "modest").await;
    refusal(second.await.unwrap());
    // One each: now the next one is too many, whoever it is.
    refusal(enter(&flow_control, "other").await.await.unwrap());
    drop(permit);
    drop(modest.await.unwrap().unwrap());
    first.await.unwrap().unwrap();
}

#[tokio::test]
async fn queue_that_accounts_of_one_tenant_fill_has_room_for_another_tenant() {
    let flow_control = flow_control(1, 4);
    let flow = |namespace, name| Identity::service_account(namespace, name, "").flow().to_owned();
    let _permit = flow_control.enter(RequestClass::Mutating, &flow("red", "a")).await.unwrap();
    let mut waiting = Vec::new();
    for name in ["b", "c", "d", "e"] {
        waiting.push(enter(&flow_control, &flow("red", name)).await);
    }
    let newcomer = enter(&flow_control, &flow("blue", "a")).await;
    assert!(!newcomer.is_finished());
    refusal(waiting.pop().unwrap().await.unwrap());
    refusal(enter(&flow_control, &flow("red", "f")).await.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let flow_control = flow_control(1, 10);
    let _permit = flow_control.enter(RequestClass::Mutating, "bob").await.unwrap();
    let start = tokio::time::Instant::now();
    refusal(flow_control.enter(RequestClass::Mutating, "eve").await);
    assert_eq!(start.elapsed(), Settings::default().patience);
    assert_eq!(flow_control.load(RequestClass::Mutating), (1, 0));
}

#[tokio::test]
async fn who_goes_away_while_waiting_leaves_no_trace() {
    let flow_control = flow_control(1, 10);
    let permit = flow_control.enter(RequestClass::Mutating, "bob").await.unwrap();
    let waiting = enter(&flow_control, "eve").await;
    let next = enter(&flow_control, "ann").await;
    waiting.abort();
    waiting.await.unwrap_err();
    assert_eq!(flow_control.load(RequestClass::Mutating), (1, 1));
    drop(permit);
    drop(next.await.unwrap().unwrap());
    assert_eq!(flow_control.load(RequestClass::Mutating), (0, 0));
}

#[tokio::test]
async fn who_goes_away_with_a_place_in_hand_gives_it_back() {
    let flow_control = flow_control(1, 10);
    let permit = flow_control.enter(RequestClass::Mutating, "bob").await.unwrap();
    let waiting = enter(&flow_control, "eve").await;
    // The place is given, but not yet taken.
    drop(permit);
    waiting.abort();
    let _ = waiting.await;
    assert_eq!(flow_control.load(RequestClass::Mutating), (0, 0));
}

type Attempt = Pin<Box<dyn Future<Output = Option<Permit>> + Send>>;

/// What may happen: a user comes, someone leaves, someone gives up, someone looks whether it is their turn.
#[derive(Debug, Clone)]
enum Step {
    Come(usize),
    Leave(usize),
    GiveUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_usize..4).prop_map(Step::Come),
        2 => any::<usize>().prop_map(Step::Leave),
        1 => any::<usize>().prop_map(Step::GiveUp),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_places_are_used_and_shared(
        (places, share) in (1_usize..4).prop_flat_map(|places| (Just(places), 1..=places)),
        queue in 0_usize..6,
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let queue = fair_queue::FairQueue::new(places, share, queue);
        let mut waiting: Vec<(usize, Attempt)> = Vec::new();
        let mut running: Vec<(usize, Permit)> = Vec::new();
        for step in steps {
            match step {
                Step::Come(user) => {
                    let queue = Arc::clone(&queue);
                    waiting.push((user, Box::pin(async move { queue.enter(&user.to_string()).await })));
                }
                Step::Leave(which) if !running.is_empty() => drop(running.remove(which % running.len())),
                Step::GiveUp(which) if !waiting.is_empty() => drop(waiting.remove(which % waiting.len())),
                Step::Leave(_) | Step::GiveUp(_) => {}
            }
            let mut counts = HashMap::<usize, usize>::new();
            for (user, _) in &running {
                *counts.entry(*user).or_default() += 1;
            }
            // Twice, because who comes last may send someone away who was asked before.
            for _ in 0..2 {
                let mut still = Vec::new();
                for (user, mut attempt) in waiting {
                    match attempt.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                        Poll::Pending => still.push((user, attempt)),
                        Poll::Ready(Some(permit)) => running.push((user, permit)),
                        Poll::Ready(None) => {}
                    }
                }
                waiting = still;
            }
            queue.check();
            prop_assert_eq!(queue.load(), (running.len(), waiting.len()));
            // Who came in had no more places than anyone who still waits.
            for (user, _) in running.iter().skip(counts.values().sum()) {
                let own = counts.get(user).copied().unwrap_or_default();
                let has_less = |(other, _): &(usize, Attempt)| counts.get(other).copied().unwrap_or_default() < own;
                prop_assert!(!waiting.iter().any(has_less));
            }
        }
        drop(running);
        drop(waiting);
        prop_assert_eq!(queue.load(), (0, 0));
    }
}
