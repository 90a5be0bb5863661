//! The scenarios of `tests/scenarios`, each against a control plane of its own, with `kubectl`.
//!
//! Their steps and checks are those of Crossplane's end-to-end tests (`test/e2e` of v2.4.0), which makes this the nearest we come to
//! running the tests of the people that our users come from.

use std::collections::BTreeSet;
use std::path::Path;

use ferroplane_testkit::{FunctionServer, Versions, free_port};
use ferroplane_wire::{from_json, to_json};
use serde_json::{Value, json};

use crate::peers::peer;
use crate::plane::Plane;

/// Where the scripts and their manifests are.
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/scenarios");

/// Runs the script of one scenario, and ends with what it said if it fails.
fn run(name: &str) {
    if peer("kubectl").is_none() {
        return;
    }
    let (plane, reader) = (Plane::find(), SchemaReader::serve());
    let said = plane.says(&format!("FUNCTION_ADDRESS={} sh {DIRECTORY}/run {name}", reader.address));
    assert!(said.contains("---"), "the scenario {name} has no steps: {said}");
}

/// A function that requires the schema of the kind which the composite resource names, and records what it was given. No function
/// that is built in requires schemas.
struct SchemaReader {
    address: String,
    _server: FunctionServer,
    _runtime: tokio::runtime::Runtime,
}

impl SchemaReader {
    fn serve() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let server = FunctionServer::serve(&address, Versions::Both, None, |request| {
            Ok(from_json(&read_schema(&to_json(&request).unwrap())).unwrap())
        });
        let server = runtime.block_on(server);
        Self { address, _server: server, _runtime: runtime }
    }
}

fn read_schema(request: &Value) -> Value {
    let kind = &request["observed"]["composite"]["resource"]["spec"];
    let capabilities = request["meta"]["capabilities"].as_array().cloned().unwrap_or_default();
    let given = &request["requiredSchemas"]["wanted"];
    let schema = &given["openapiV3"];
    let fields = |schema: &Value| {
        let properties = schema["properties"].as_object();
        let names: BTreeSet<_> = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        names.into_iter().collect::<Vec<_>>().join(" ")
    };
    let status = json!({
        "isOffered": capabilities.contains(&json!("CAPABILITY_REQUIRED_SCHEMAS")),
        "isAnswered": given.is_object(),
        "hasReferences": schema.to_string().contains("\"$ref\""),
        "fields": fields(schema),
        "metadataFields": fields(&schema["properties"]["metadata"]),
    });
    json!({
        "meta": {"tag": request["meta"]["tag"], "ttl": "60s"},
        "desired": {"composite": {"resource": {"status": status}}},
        "requirements": {"schemas": {"wanted": {"apiVersion": kind["apiVersion"], "kind": kind["kind"]}}},
    })
}

macro_rules! scenarios {
    ($($test:ident: $directory:literal,)*) => {
        const ALL: &[&str] = &[$($directory),*];

        $(
            #[test]
            fn $test() {
                run($directory);
            }
        )*
    };
}

scenarios! {
    basic_cluster: "basic-cluster",
    basic_namespaced: "basic-namespaced",
    bind_existing: "bind-existing",
    circuit_breaker: "circuit-breaker",
    claim: "claim",
    composition_selection: "composition-selection",
    composition_validation: "composition-validation",
    definition_validation: "definition-validation",
    environment: "environment",
    follows_revisions: "follows-revisions",
    lack_of_rights: "lack-of-rights",
    namespaced_composes_cluster: "namespaced-composes-cluster",
    referenceable_version: "referenceable-version",
    removed_fields: "removed-fields",
    required_resources: "required-resources",
    required_schemas: "required-schemas",
    scale: "scale",
    usage_cluster: "usage-cluster",
    usage_composed: "usage-composed",
    usage_legacy: "usage-legacy",
    usage_namespaced: "usage-namespaced",
}

#[test]
fn every_scenario_is_run() {
    let entries = std::fs::read_dir(Path::new(DIRECTORY)).unwrap().map(|entry| entry.unwrap());
    let directories = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<_> = directories.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ALL);
}
