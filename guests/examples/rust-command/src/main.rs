//! Composes a ConfigMap with a greeting. Reads a RunFunctionRequest from stdin and writes a RunFunctionResponse to stdout.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let request: Value = serde_json::from_str(&text)?;
    // What earlier steps want has to be passed on, or it is deleted.
    let mut desired = request.get("desired").cloned().unwrap_or_else(|| json!({}));
    let name = request["observed"]["composite"]["resource"]["spec"]["name"].as_str().unwrap_or("world");
    desired["resources"]["greeting"]["resource"] = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default"},
        "data": {"greeting": format!("Hello, {name}!")},
    });
    eprintln!("greeted {name}");
    let response = json!({"meta": {"tag": request["meta"]["tag"]}, "desired": desired});
    std::io::stdout().write_all(response.to_string().as_bytes())?;
    Ok(())
}
