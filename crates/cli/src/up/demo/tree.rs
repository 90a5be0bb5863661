//! Prints the composed resources of the demo as a tree.

use ferroplane_api::{Object, meta};
use serde_json::Value;

use super::platform::{conditions, is_true};
use super::watching::{BACKEND, Picture};
use crate::terminal::Terminal;

/// How wide the names are.
const WIDTH: usize = 24;

/// Every composite resource and what it became.
pub(super) fn print(picture: &Picture, terminal: &Terminal) -> String {
    let heading = format!("\n{:WIDTH$} SYNCED  READY   DETAILS\n", "NAME");
    picture.of(BACKEND).fold(heading, |text, backend| text + &branch(picture, backend, terminal))
}

fn branch(picture: &Picture, backend: &Object, terminal: &Terminal) -> String {
    let mut text = line("", BACKEND, backend, terminal);
    let composed: Vec<_> = picture.composed(backend).collect();
    for (position, (kind, object)) in composed.iter().enumerate() {
        let bough = if position + 1 == composed.len() { "└─ " } else { "├─ " };
        text += &line(bough, kind, object, terminal);
    }
    text
}

fn line(bough: &str, kind: &str, object: &Object, terminal: &Terminal) -> String {
    let name = format!("{bough}{kind}/{}", meta::name(object));
    let (synced, ready) = (state(object, "Synced", terminal), state(object, "Ready", terminal));
    format!("{name:WIDTH$} {synced}{ready}{}\n", details(object))
}

fn state(object: &Object, kind: &str, terminal: &Terminal) -> String {
    let condition = conditions(object).find(|condition| condition["type"] == kind);
    let status = condition.and_then(|condition| condition["status"].as_str()).unwrap_or("-");
    let padded = format!("{status:8}");
    let colour = if is_true(object, kind) { "32" } else { "33" };
    terminal.painted(colour, &padded)
}

/// The most interesting thing in its status.
fn details(object: &Object) -> String {
    let Some(status) = object.get("status") else { return String::new() };
    let details = ["/endpoint", "/atProvider/endpoint", "/atProvider/url", "/atProvider/id"];
    let details = details.iter().find_map(|path| status.pointer(path)?.as_str());
    match (details, status.pointer("/atProvider/storageGB").and_then(Value::as_i64)) {
        (Some(details), Some(size)) => format!("{details}, {size} GB"),
        (details, _) => details.unwrap_or_default().to_owned(),
    }
}
