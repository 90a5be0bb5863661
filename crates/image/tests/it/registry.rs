//! The registry client, against Debian's registry and against servers that do as no registry should.

mod auth;
mod hostile;
mod images;
mod limits;
mod programs;
mod proxies;
mod pull;
mod push;
mod redirects;
mod retries;
mod signatures;
mod token_server;
mod uploads;

use std::time::Duration;

use ferroplane_image::registry::{Options, Registry, RetryPolicy, Timeouts};
use ferroplane_image::store::{Limits, Store};
use ferroplane_image::{Platform, Reference};
use tempfile::TempDir;

/// Small pauses and limits, for servers that misbehave on purpose.
fn quick() -> Options {
    let retries = RetryPolicy {
        attempts: 3,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(5),
        longest_wait: Duration::from_secs(2),
    };
    let second = Duration::from_secs(1);
    let timeouts = Timeouts {
        connect: second * 5,
        answer: second,
        idle: second,
        question: second * 60,
        total: second * 60,
    };
    Options { retries, timeouts, ..Options::default() }
}

fn client(options: Options) -> Registry {
    Registry::new(options).unwrap()
}

fn store() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("store"), Limits::default()).unwrap();
    (directory, store)
}

fn platform() -> Platform {
    "linux/amd64".parse().unwrap()
}

fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        words.push(cause.to_string());
        next = cause.source();
    }
    words.join(": ")
}
