//! What storing alone costs: plain objects, as many and as large as those that waiting `ActionSet`s store, written as often.
//!
//! A process of its own, so that neither side can use what the other has left to the allocator.

use std::process::Command;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{IDLE, MAPS, WAITING, start};
use crate::composition::plane::User;
use crate::measure::{at_rest, for_all, resident, settle};

/// This program as the process that stores.
const STORE: &str = "store-plain-objects";

/// What one `ActionSet` has stored while it waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Footprint {
    /// The size of the object when it is created, and now.
    pub(super) created: usize,
    pub(super) stored: usize,
    /// How often it was written.
    pub(super) writes: usize,
    /// How many Events there are about it, and the size of one.
    pub(super) events: usize,
    pub(super) event: usize,
}

/// What it costs to have this stored.
pub(super) struct Cost {
    pub(super) memory: usize,
    pub(super) processor: Duration,
}

/// Plays the part that this program was started for, if it is this one.
pub(crate) fn plays_a_part(name: &str) -> bool {
    if name != STORE {
        return false;
    }
    let numbers: Vec<usize> = std::env::args().skip(2).filter_map(|number| number.parse().ok()).collect();
    let &[created, stored, writes, events, event] = numbers.as_slice() else {
        panic!("five numbers say what is stored");
    };
    let footprint = Footprint { created, stored, writes, events, event };
    let cost = Runtime::new().expect("there is a runtime").block_on(store(footprint));
    println!("{} {}", cost.memory, cost.processor.as_micros());
    true
}

/// Measure it in a process of its own.
pub(super) fn measure(footprint: Footprint) -> Cost {
    let Footprint { created, stored, writes, events, event } = footprint;
    let own = std::env::current_exe().expect("this program is somewhere");
    let numbers = [created, stored, writes, events, event].map(|number| number.to_string());
    let output = Command::new(own).arg(STORE).args(numbers).output().expect("it runs again");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = output.split_whitespace().map(|number| number.parse::<u64>().expect("it is a number"));
    let mut number = || numbers.next().expect("there are two numbers");
    let memory = usize::try_from(number()).expect("it is the memory of this machine");
    Cost { memory, processor: Duration::from_micros(number()) }
}

async fn store(footprint: Footprint) -> Cost {
    let directory = tempfile::tempdir().expect("there is room");
    let plane = start(directory.path()).await;
    // What it has beside its data.
    let empty = written(&plane.user(), "empty", 0).await;
    let user = plane.user();
    // As the other side does, which has one object before it measures.
    write(user.clone(), WAITING, footprint, empty).await;
    settle().await;
    let before = resident();
    for_all(WAITING, move |number| write(user.clone(), number, footprint, empty)).await;
    settle().await;
    let memory = resident().saturating_sub(before) / WAITING;
    let cost = Cost { memory, processor: at_rest(IDLE).await };
    plane.stop().await;
    cost
}

/// Everything that is stored for one.
async fn write(user: User, number: usize, footprint: Footprint, empty: usize) {
    let Footprint { created, stored, writes, events, event } = footprint;
    let name = format!("plain-{number}");
    written(&user, &name, created.saturating_sub(empty)).await;
    for write in 1..writes {
        let change = json!({"data": {"k": text(stored.saturating_sub(empty), write)}});
        let (code, answer) = user.send(Method::PATCH, &format!("{MAPS}/{name}"), &change).await;
        assert_eq!(code, 200, "{answer}");
    }
    for index in 0..events {
        written(&user, &format!("event-{number}-{index}"), event.saturating_sub(empty)).await;
    }
}

/// Create a map with so much data. Returns its size.
async fn written(user: &User, name: &str, data: usize) -> usize {
    let metadata = json!({"name": name});
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": text(data, 0)}});
    let (code, answer) = user.send(Method::POST, MAPS, &map).await;
    assert_eq!(code, 201, "{answer}");
    answer.to_string().len()
}

/// A text of a length that differs with every write. One that changes nothing would not be stored.
fn text(length: usize, write: usize) -> Value {
    let mut text = write.to_string();
    text.extend(std::iter::repeat_n('x', length.saturating_sub(text.len())));
    Value::from(text)
}
