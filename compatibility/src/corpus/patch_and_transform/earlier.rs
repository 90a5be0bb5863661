//! Requests for earlier releases: most of what a release does not know yet is taken out, so that there is something to
//! compare beyond the refusal.

use serde_json::{Value, json};

use super::super::minor;
use crate::dice::Dice;

/// How many of a hundred requests are left as they are, to be refused.
const UNTOUCHED: usize = 15;

/// Take out what the release does not know.
pub(super) fn adapt(version: &str, dice: &mut Dice, request: &mut Value) {
    let minor = minor(version);
    if dice.chance(UNTOUCHED) {
        return;
    }
    let input = &mut request["input"];
    if minor < 10 {
        input.as_object_mut().and_then(|input| input.remove("writeConnectionSecretToRef"));
    }
    if let Some(patches) = input.pointer_mut("/environment/patches").and_then(Value::as_array_mut) {
        for patch in patches {
            adapt_environment(minor, patch);
        }
    }
    for_each_patch(input, &mut |patch| {
        if minor < 7 {
            let has_new = |transform: &Value| {
                ["Join", "Replace"].iter().any(|kind| transform["string"]["type"] == *kind)
            };
            if let Some(transforms) = patch.get_mut("transforms").and_then(Value::as_array_mut) {
                transforms.retain(|transform| !has_new(transform));
            }
        }
        if minor < 5 && patch["policy"]["toFieldPath"].is_string() {
            let known = ["Replace", "MergeObject", "AppendArray", "AppendArray"];
            patch["policy"]["toFieldPath"] = json!(dice.pick(&known));
        }
    });
}

/// What the types of patches of the environment have been called.
fn adapt_environment(minor: u32, patch: &mut Value) {
    let kind = patch["type"].as_str().unwrap_or("FromCompositeFieldPath");
    let adapted = match (minor, kind) {
        (..3, "FromCompositeFieldPath") => "ToEnvironmentFieldPath",
        (..3, "ToCompositeFieldPath") => "FromEnvironmentFieldPath",
        (..3, "CombineFromComposite") => "CombineToEnvironment",
        (..3, "CombineToComposite") => "CombineFromEnvironment",
        (3..6, "ToEnvironmentFieldPath") => "FromCompositeFieldPath",
        (3..6, "FromEnvironmentFieldPath") => "ToCompositeFieldPath",
        _ => return,
    };
    patch["type"] = json!(adapted);
}

fn for_each_patch(value: &mut Value, change: &mut dyn FnMut(&mut Value)) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| {
            if let ("patches", Value::Array(patches)) = (name.as_str(), &mut *value) {
                patches.iter_mut().filter(|patch| patch.is_object()).for_each(&mut *change);
            } else if name != "base" {
                for_each_patch(value, change);
            }
        }),
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_patch(item, change)),
        _ => {}
    }
}
