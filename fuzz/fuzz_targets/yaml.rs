//! Any text is documents or an error, and what was read can be printed and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/offline/src/manifest/node.rs"]
#[allow(dead_code, reason = "the target uses only a part of the file")]
mod node;
#[path = "../../crates/offline/src/manifest/scalar.rs"]
#[allow(dead_code, reason = "the target uses only a part of the file")]
mod scalar;
#[path = "../../crates/offline/src/manifest/yaml.rs"]
#[allow(dead_code, reason = "the target uses only a part of the file")]
mod yaml;

use node::Node;

fuzz_target!(|text: &str| {
    let Ok(documents) = yaml::parse(text) else { return };
    for document in documents {
        let json = document.to_json();
        let _ = document.line_of(&["metadata", "name"]);
        let printed = yaml::print(&json).expect("JSON prints");
        let again = yaml::parse(&printed).expect("we printed it");
        assert_eq!(again.first().map(Node::to_json).unwrap_or_default(), json, "{printed}");
    }
});
