//! What a schema says about a field besides its type.

use schemars::Schema;
use serde_json::{Map, Value, json};

/// Where defaults are noted until those that only Rust has are gone.
pub(super) const DEFAULT: &str = "x-default";
pub(super) const RULES: &str = "x-kubernetes-validations";

/// It cannot be changed.
pub(crate) fn fixed(schema: &mut Schema) {
    rule("self == oldSelf", "cannot be changed")(schema);
}

/// This must hold, in CEL.
pub(crate) fn rule(rule: &'static str, message: &'static str) -> impl FnMut(&mut Schema) {
    move |schema| {
        let rules = fields(schema).entry(RULES).or_insert_with(|| json!([]));
        if let Some(rules) = rules.as_array_mut() {
            rules.push(json!({"rule": rule, "message": message}));
        }
    }
}

/// A list whose items are identified by this field.
pub(crate) fn keyed_by(key: &'static str) -> impl FnMut(&mut Schema) {
    move |schema| {
        set("x-kubernetes-list-type", json!("map"))(schema);
        set("x-kubernetes-list-map-keys", json!([key]))(schema);
    }
}

/// A list that has one owner.
pub(crate) fn atomic(schema: &mut Schema) {
    set("x-kubernetes-list-type", json!("atomic"))(schema);
}

/// An object that has one owner.
pub(crate) fn atomic_map(schema: &mut Schema) {
    set("x-kubernetes-map-type", json!("atomic"))(schema);
}

/// An object of any kind.
pub(crate) fn embedded(schema: &mut Schema) {
    set("x-kubernetes-embedded-resource", json!(true))(schema);
}

/// A quantity, as a number or as text.
pub(crate) fn quantity(schema: &mut Schema) {
    let fields = fields(schema);
    fields.remove("type");
    fields.insert("x-kubernetes-int-or-string".to_owned(), json!(true));
}

/// What it is if nothing is said.
pub(crate) fn or(value: Value) -> impl FnMut(&mut Schema) {
    set(DEFAULT, value)
}

/// Set any keyword.
pub(crate) fn set(keyword: &'static str, value: Value) -> impl FnMut(&mut Schema) {
    move |schema| {
        fields(schema).insert(keyword.to_owned(), value.clone());
    }
}

fn fields(schema: &mut Schema) -> &mut Map<String, Value> {
    schema.ensure_object()
}
