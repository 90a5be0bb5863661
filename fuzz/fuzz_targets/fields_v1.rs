//! Whatever is in managed fields, reading them ends, and what is written is read again.
#![no_main]

use ferroplane_ownership as ownership;
use ferroplane_ownership::merge::fields;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    let _ = ownership::validate(&value);
    let Ok(read) = fields::read(&value) else { return };
    let wire = fields::write(&read.set);
    assert_eq!(read.is_canonical, wire == value);
    let again = fields::read(&wire).expect("it was just written");
    assert!(again.is_canonical);
    assert_eq!(again.set, read.set);
    let text: Value = serde_json::from_str(&fields::write_text(&read.set)).expect("it is JSON");
    assert_eq!(text, wire);
    assert!(read.set.contains_all(&read.set.intersection(&again.set)));
});
