//! Functions that are programs of their own, in place of those that are built in.

use serde_json::{Value, json};

use super::plane::Functions;
use crate::served_functions::{Program, ServedFunctions};

/// Functions that run. They end when this is dropped.
pub(super) struct Served(ServedFunctions);

impl Served {
    /// Start them, if they are installed.
    pub(super) fn start() -> Option<Self> {
        ServedFunctions::start(&["function-patch-and-transform", "function-auto-ready"]).map(Self)
    }

    pub(super) fn functions(&self) -> Functions {
        Functions {
            patch_and_transform: "served-patch-and-transform".to_owned(),
            auto_ready: "served-auto-ready".to_owned(),
            template: None,
            calls: self.0.calls(),
            revisions: self.0.programs.iter().map(revision).collect(),
        }
    }
}

/// A revision of a function, as a package manager would write it.
fn revision(program: &Program) -> Value {
    let function = program.name.replace("function-", "served-");
    json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "FunctionRevision",
        "metadata": {"name": format!("{function}-1"), "labels": {"pkg.crossplane.io/package": function}},
        "spec": {"desiredState": "Active", "image": format!("example.org/{function}:v0.1.0"), "revision": 1},
        "status": {"endpoint": program.endpoint, "capabilities": ["composition"]},
    })
}
