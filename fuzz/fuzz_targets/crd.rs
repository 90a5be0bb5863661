//! Any definition is judged, and one that is accepted can be published.
#![no_main]

use ferroplane_schema::structural::crd::{self, Definition};
use ferroplane_schema::structural::{openapi, strict_json};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let Ok((Value::Object(mut json), _)) = strict_json::read(text) else { return };
    crd::default(&mut json);
    let Ok(definition) = Definition::decode(&json) else { return };
    let errors = crd::validate(&definition);
    for error in errors.iter().chain(&crd::validate_update(&definition, &definition)) {
        let _ = error.to_string();
    }
    for version in &definition.versions {
        let _ = openapi::version_3(&definition, &version.name);
        let _ = openapi::version_2(&definition, &version.name);
    }
});
