//! Any text is a selector or an error, and a selector is read as it is written.
#![no_main]

use ferroplane_schema::selector::{FieldSelector, LabelSelector};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(selector) = LabelSelector::parse(text) {
        let _ = selector.matches(|_| Some("1"));
        let again = LabelSelector::parse(&selector.to_string()).expect("what is written can be read");
        assert_eq!(again, selector);
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let again = FieldSelector::parse(&selector.to_string()).expect("what is written can be read");
        // Terms are sorted by how they are written, and `==` is written as `=`.
        assert_eq!(sorted(&again), sorted(&selector));
    }
});

fn sorted(selector: &FieldSelector) -> Vec<String> {
    let mut terms: Vec<_> = selector.requirements().iter().map(ToString::to_string).collect();
    terms.sort();
    terms
}
