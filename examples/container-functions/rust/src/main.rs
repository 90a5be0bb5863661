//! Puts a label on every resource that earlier steps want.

use std::io::{stdin, stdout};

use serde_json::{Value, json};

fn main() -> Result<(), serde_json::Error> {
    let mut request: Value = serde_json::from_reader(stdin().lock())?;
    let resources = request["desired"]["resources"].as_object_mut();
    for resource in resources.into_iter().flat_map(|resources| resources.values_mut()) {
        resource["resource"]["metadata"]["labels"]["labelizer.xfn.crossplane.io/processed"] = "true".into();
    }
    let answer = json!({"desired": request["desired"], "context": request["context"]});
    serde_json::to_writer(stdout().lock(), &answer)
}
