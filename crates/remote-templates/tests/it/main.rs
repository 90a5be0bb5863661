//! Templates from a real registry and from a real server of git, both on this machine, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has to stop")]

mod artifacts;
mod repositories;

use ferroplane_remote_templates::{Error, Fetcher, Limits, Options};
use ferroplane_wire::Struct;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// Whether a program is there. If somebody insists, it has to be.
fn is_there(program: &str) -> bool {
    if Command::new(program).arg("--version").output().is_ok() {
        return true;
    }
    assert!(std::env::var_os("FERROPLANE_REQUIRE_PEERS").is_none(), "{program} is not there");
    eprintln!("skipped: {program} is not installed");
    false
}

/// A fetcher that may fetch from these places, and tries again at once.
fn fetcher(allowed: &[&str]) -> Fetcher {
    Fetcher::new(options(allowed)).unwrap()
}

fn options(allowed: &[&str]) -> Options {
    let limits = Limits { pause: Duration::ZERO, ..Limits::default() };
    Options {
        allowed: allowed.iter().map(|place| (*place).to_owned()).collect(),
        limits,
        ..Options::default()
    }
}

/// The files in an object.
fn files(object: &Struct) -> BTreeMap<String, String> {
    let data = object.json().unwrap()["data"].as_object().unwrap();
    data.iter().map(|(name, text)| (name.clone(), text.as_str().unwrap().to_owned())).collect()
}

/// An error with all its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[tokio::test]
async fn nothing_is_fetched_from_where_nobody_allowed_it() {
    let commit = "0".repeat(40);
    for allowed in [&[][..], &["git.example.org/platform"], &["example.org"]] {
        let fetcher = fetcher(allowed);
        let error = fetcher.fetch(&format!("git://git.example.org/other@{commit}")).await.unwrap_err();
        assert!(matches!(error, Error::NotAllowed), "{error}");
        assert!(error.to_string().contains("--allow-remote-templates"));
    }
    let error = fetcher(&["git.example.org"]).fetch("git://git.example.org/t@main").await.unwrap_err();
    assert!(error.to_string().contains("templates have to be pinned"), "{error}");
}
