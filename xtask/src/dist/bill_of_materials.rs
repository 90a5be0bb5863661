//! A bill of materials in the form of `CycloneDX` 1.5: every package that is in the program, and every one that helped to build it.
//!
//! It carries no time and no random number, so that the same sources have the same bill.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::packages::{PROGRAM, Package, Packages};

pub(super) fn write(packages: &Packages) -> Result<String> {
    let Packages(all) = packages;
    let program = all.values().find(|package| package.name == PROGRAM);
    let program = program.with_context(|| format!("there is no package `{PROGRAM}`"))?;
    let mut parts: Vec<_> = all.values().filter(|package| package.name != PROGRAM).collect();
    parts.sort_by_key(|package| (&package.name, &package.version));
    let mut dependencies: Vec<_> = all.values().map(|package| needs(package, packages)).collect();
    dependencies.sort_by_key(|entry| entry["ref"].to_string());
    let mut root = component(program);
    root["type"] = "application".into();
    let bill = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": root},
        "components": parts.into_iter().map(component).collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

fn component(package: &Package) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": package.url(),
        "name": package.name,
        "version": package.version,
        "purl": package.url(),
        // What only helps to build is not part of what runs.
        "scope": if package.is_shipped { "required" } else { "excluded" },
    });
    if !package.licence.is_empty() {
        component["licenses"] = json!([{"expression": package.licence}]);
    }
    if let Some(checksum) = &package.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

fn needs(package: &Package, Packages(all): &Packages) -> Value {
    let mut needs: Vec<_> = package.dependencies.iter().filter_map(|id| Some(all.get(id)?.url())).collect();
    needs.sort();
    json!({"ref": package.url(), "dependsOn": needs})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_listed_with_its_digest_and_licence() {
        let bill: Value =
            serde_json::from_str(&write(&super::super::packages::tests::packages()).unwrap()).unwrap();
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/ferroplane@1.0.0");
        let used = &bill["components"][1];
        assert_eq!(used["purl"], "pkg:cargo/used@2.0.0");
        assert_eq!(used["hashes"], json!([{"alg": "SHA-256", "content": "aa"}]));
        assert_eq!(used["licenses"], json!([{"expression": "MIT OR Apache-2.0"}]));
        assert_eq!(
            (&used["scope"], &bill["components"][0]["scope"]),
            (&json!("required"), &json!("excluded"))
        );
        let needs = json!({"ref": "pkg:cargo/ferroplane@1.0.0",
            "dependsOn": ["pkg:cargo/built@3.0.0", "pkg:cargo/used@2.0.0"]});
        assert_eq!(bill["dependencies"][1], needs);
    }
}
