//! The function that operations call, which notes when it was called and for what.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ferroplane_functions::Implementation;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};
use jiff::Timestamp;
use serde_json::Value;

use super::PATIENCE;

pub(super) const FUNCTION: &str = "function-measured";
const WATCHED: &str = "ops.crossplane.io/watched-resource";

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The name of the object that the operation was made for, or that of the input.
    pub(super) name: String,
    pub(super) at: Instant,
    pub(super) time: Timestamp,
}

/// All calls. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    pub(super) fn function(&self) -> (String, Implementation) {
        let calls = self.clone();
        let answer = move |request: &RunFunctionRequest| {
            let call = Call { name: name_of(request), at: Instant::now(), time: Timestamp::now() };
            calls.lock().push(call);
            RunFunctionResponse::default()
        };
        (FUNCTION.to_owned(), Implementation::new(answer))
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.lock())
    }

    /// When the function was called for this, if it was. The latest calls come first.
    pub(super) fn find(&self, name: &str) -> Option<Instant> {
        self.lock().iter().rev().find(|call| call.name == name).map(|call| call.at)
    }

    /// Wait until there were so many.
    pub(super) async fn wait_for(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.len() < count {
            assert!(Instant::now() < deadline, "{} of {count} calls", self.len());
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock().expect("no thread panics")
    }
}

/// For how many names that begin so there were calls, and for how many of them more than one.
pub(super) fn handled(calls: &[Call], prefix: &str) -> (usize, usize) {
    let mut counts = HashMap::<&str, usize>::new();
    for call in calls.iter().filter(|call| call.name.starts_with(prefix)) {
        *counts.entry(&call.name).or_default() += 1;
    }
    (counts.len(), counts.values().filter(|count| **count > 1).count())
}

/// When the function was called for the last of the names that begin so.
pub(super) fn last(calls: &[Call], prefix: &str) -> Option<Instant> {
    calls.iter().filter(|call| call.name.starts_with(prefix)).map(|call| call.at).max()
}

fn name_of(request: &RunFunctionRequest) -> String {
    let watched = request.required_resources.get(WATCHED).and_then(|found| found.items.first());
    let object = watched.and_then(|item| item.resource.as_ref()?.json().ok());
    let input = || request.input.as_ref().and_then(|input| input.json().ok());
    let name =
        object.map(|object| &object["metadata"]["name"]).or_else(|| input().map(|input| &input["name"]));
    name.and_then(Value::as_str).unwrap_or_default().to_owned()
}
