//! Calls that take long, and who waits for whom.

use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;

use ferroplane_functions::{Effort, TakesLong};
use ferroplane_wire::from_json;
use serde_json::json;

use super::*;
use crate::{CallContext, Directory, Runner};

fn request(uid: &str) -> RunFunctionRequest {
    from_json(&json!({"observed": {"composite": {"resource": {"metadata": {"uid": uid}}}}})).unwrap()
}

async fn is_waiting(future: std::pin::Pin<&mut impl Future>) -> bool {
    let mut future = future;
    std::future::poll_fn(|ctx| Poll::Ready(future.as_mut().poll(ctx).is_pending())).await
}

/// Ends only when nothing waits for it.
fn endless(_: &RunFunctionRequest, effort: Effort<'_>) -> Result<RunFunctionResponse, TakesLong> {
    let Effort::Full(elapsed) = effort else { return Err(TakesLong) };
    while elapsed() < Duration::MAX {
        std::thread::yield_now();
    }
    Ok(RunFunctionResponse::default())
}

#[tokio::test]
async fn caller_that_used_less_passes_those_that_used_more() {
    let calls = LongCalls::at_most(1);
    let running = calls.turn("hostile-0").await;
    for number in 0..100 {
        calls.queue().note(format!("hostile-{number}"), Duration::from_secs(1));
    }
    let mut hostile: Vec<_> =
        (0..100).map(|number| calls.queue().wait(&format!("hostile-{number}"))).collect();
    let mut other = pin!(calls.turn("other"));
    assert!(is_waiting(other.as_mut()).await);
    running.end("hostile-0".to_owned(), Duration::from_secs(1));
    let other = other.await;
    assert!(hostile.iter_mut().all(|waiting| waiting.try_recv().is_err()));
    // Hostile ones come to their turn, too: the one that came first of those that used as much.
    drop(other);
    assert!(hostile.iter_mut().any(|waiting| waiting.try_recv().is_ok()));
}

#[tokio::test]
async fn turn_of_a_call_that_nobody_waits_for_is_passed_on() {
    let calls = LongCalls::at_most(1);
    let running = calls.turn("a").await;
    let abandoned = [(); 2].map(|()| calls.queue().wait("b"));
    let mut last = calls.queue().wait("b");
    drop(abandoned);
    drop(running);
    drop(last.try_recv().unwrap());
    assert_eq!(calls.queue().free, 1);
    // Also if it had its turn already, but did not take it.
    let running = calls.turn("a").await;
    let waiting = calls.queue().wait("b");
    drop(running);
    assert_eq!(calls.queue().free, 0);
    drop(waiting);
    assert_eq!(calls.queue().free, 1);
}

#[tokio::test]
async fn call_that_nobody_waits_for_ends() {
    let calls = LongCalls::at_most(1);
    let function = Implementation::new_long(endless);
    let request = request("a");
    {
        let mut call = pin!(calls.run(&function, &request));
        assert!(is_waiting(call.as_mut()).await);
    }
    // Its thread is free again, so that this call comes to its turn.
    let answer = Implementation::new(|_| RunFunctionResponse::default());
    calls.run(&answer, &request).await;
}

#[tokio::test]
async fn call_that_takes_long_is_signalled_before_it_waits_for_its_turn() {
    let function = Runner::Builtin(Implementation::new_long(endless));
    let directory: Directory = [("f".to_owned(), function)].into_iter().collect();
    let signal = LongCallSignal::default();
    let context = CallContext { long_calls: Some(signal.clone()), ..CallContext::default() };
    let (received, request) = (signal.next(), request("a"));
    let call = directory.call_for("f", &request, &context);
    let mut call = pin!(call);
    tokio::select! {
        biased;
        _ = call.as_mut() => panic!("it never ends"),
        () = received => {}
    }
    // A signal counts only for those that wait for it when it is sent.
    assert!(is_waiting(pin!(signal.next())).await);
}

#[tokio::test]
async fn call_makes_room_for_others_and_is_made_again() {
    // It takes a quarter of a second without a pause, and others come all the time.
    fn long(_: &RunFunctionRequest, effort: Effort<'_>) -> Result<RunFunctionResponse, TakesLong> {
        let Effort::Full(elapsed) = effort else { return Err(TakesLong) };
        let mut response = RunFunctionResponse::default();
        while elapsed() < Duration::from_millis(250) {
            std::thread::yield_now();
        }
        if elapsed() == Duration::MAX {
            response.results.push(ferroplane_wire::v1::Result::default());
        }
        Ok(response)
    }
    let calls = LongCalls::at_most(1);
    let (call, others) = (calls.clone(), calls.clone());
    let call = tokio::spawn(async move { call.run(&Implementation::new_long(long), &request("long")).await });
    while calls.queue().free > 0 {
        tokio::task::yield_now().await;
    }
    let mut passed = 0;
    while !call.is_finished() {
        drop(others.turn(&format!("other-{passed}")).await);
        passed += 1;
        tokio::task::yield_now().await;
    }
    assert!(call.await.unwrap().results.is_empty(), "an answer that was cut short was taken for one");
    assert!(passed > 1);
}

#[tokio::test]
async fn no_more_calls_run_at_once_than_there_are_threads_for() {
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let function = Implementation::new(|_| {
        MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        for _ in 0..1000 {
            std::thread::yield_now();
        }
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        RunFunctionResponse::default()
    });
    let calls = LongCalls::at_most(2);
    let mut all = tokio::task::JoinSet::new();
    for number in 0..50 {
        let (calls, function, request) = (calls.clone(), function.clone(), request(&number.to_string()));
        all.spawn(async move { calls.run(&function, &request).await });
    }
    assert_eq!(all.join_all().await.len(), 50);
    assert!(MOST.load(Ordering::SeqCst) <= 2);
    assert_eq!(calls.queue().free, 2);
}

#[test]
fn use_is_forgotten_in_time_and_within_a_bound() {
    let long_ago = Instant::now().checked_sub(Duration::from_mins(10)).unwrap();
    assert!(Used { time: Duration::from_secs(100), at: long_ago }.lately() < Duration::from_millis(110));
    let calls = LongCalls::at_most(1);
    for number in 0..3 * REMEMBERED {
        calls.queue().note(number.to_string(), Duration::from_secs(1));
    }
    assert!(calls.queue().used.len() <= REMEMBERED);
}
