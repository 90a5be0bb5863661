//! The page for users lists every function with its state.

use std::fs;
use std::path::Path;

use ferroplane_template::sprig;

use crate::calls::UNREPEATABLE;
use crate::oracle::is_recording;

const BEGIN: &str = "<!-- begin of the table -->\n";
const END: &str = "<!-- end of the table -->\n";

/// The names of all functions of sprig 3.3.0.
const NAMES: &str = include_str!("names.txt");

fn table() -> String {
    let mut table = "| Class | Function | State |\n|---|---|---|\n".to_owned();
    for (class, functions) in sprig::classes() {
        for function in functions {
            let refusal = sprig::REFUSED.iter().find(|(name, _)| *name == function.name);
            let state = match refusal {
                Some((_, reason)) => format!("refused by name: {reason}"),
                None if UNREPEATABLE.contains(&function.name) => "works; compared in part".to_owned(),
                None => "works".to_owned(),
            };
            table.push_str(&format!("| {class} | `{}` | {state} |\n", function.name));
        }
    }
    table
}

#[test]
fn every_function_of_sprig_is_there() {
    let ours: Vec<_> =
        sprig::classes().flat_map(|(_, functions)| functions).map(|function| function.name).collect();
    let missing: Vec<_> = NAMES.split_whitespace().filter(|name| !ours.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?} are missing");
    assert_eq!(ours.len(), NAMES.split_whitespace().count());
}

#[test]
fn documentation_lists_every_function_with_its_state() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/templates.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let wanted = format!("{before}{BEGIN}{}{END}{after}", table());
    if is_recording() {
        fs::write(&path, wanted).unwrap();
        return;
    }
    assert!(
        page == wanted,
        "docs/templates.md is not up to date; run this test with FERROPLANE_UPDATE_GOLDEN=1"
    );
}
