//! The chart and the manifests of `deploy/`: what they render, what API servers say to it, and what stays when they go.

mod chart;
mod cluster;
mod life;
mod package_rights;
mod rights;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::peers::heavy_peer;
use crate::sandbox::Ran;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn path(name: &str) -> String {
    root().join(name).to_str().unwrap().to_owned()
}

fn chart() -> String {
    path("deploy/chart/ferroplane")
}

/// The addresses of the API server, which the chart insists on, or leave to call from anywhere.
const OPEN: &str = "--set=networkPolicy.webhooksFromAnywhere=true";

/// What Helm makes of the chart with these flags, for an API server that calls from anywhere. Nothing if Helm is not installed.
fn template(flags: &[&str]) -> Option<Ran> {
    template_with(&[&[OPEN], flags].concat())
}

/// What Helm makes of the chart with these flags alone.
fn template_with(flags: &[&str]) -> Option<Ran> {
    let mut command = Command::new(heavy_peer("helm")?);
    command.args(["template", "ferroplane", &chart(), "--namespace", "ferroplane-system"]).args(flags);
    Some(command.stdin(Stdio::null()).output().unwrap().into())
}

/// The objects in a text.
fn objects(manifests: &str) -> Vec<Value> {
    let read = serde_saphyr::from_multiple::<Value>(manifests).unwrap();
    read.into_iter().filter(|object| !object.is_null()).collect()
}

/// The object of a kind and name.
fn find<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn docker_sends_no_more_to_a_build_than_podman_does() {
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    assert_eq!(read(".dockerignore"), read(".containerignore"));
}
