//! Any strategic merge patch applies or does not.
#![no_main]

use ferroplane_schema::patch::facts::{Facts, PatchField, PatchShape, Strategy};
use ferroplane_schema::patch::strategic;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|input: (&str, &str)| {
    let (Ok(mut object), Ok(patch)) = (
        serde_json::from_str::<Map<String, Value>>(input.0),
        serde_json::from_str::<Map<String, Value>>(input.1),
    ) else {
        return;
    };
    let list = PatchField::new(PatchShape::list(PatchShape::object("Thing"))).with_strategy(Strategy::Merge);
    let values =
        PatchField::new(PatchShape::list(PatchShape::other("string"))).with_strategy(Strategy::Merge);
    let facts = Facts::default()
        .with("Thing", "a", list.with_merge_key("k"))
        .with("Thing", "b", PatchField::new(PatchShape::object("Thing")))
        .with("Thing", "c", values)
        .with("Thing", "d", PatchField::new(PatchShape::list(PatchShape::object("Thing"))));
    if let Some(kind) = facts.kind("Thing") {
        let _ = strategic::apply(&mut object, patch, kind);
    }
});
