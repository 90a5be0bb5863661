//! `OpenAPI` documents of Kubernetes' own kinds: one per group and version, as clients fetch them. No explanations.
//!
//! Follows kube-openapi of 2026-03-17, `pkg/builder3`.

mod paths;
mod schema;

use serde_json::{Value, json};

use super::KUBERNETES_VERSION;
use crate::structural::openapi::Edition;

/// The document of a group and version in version 3 of `OpenAPI`; none if there are no resources.
pub fn version_3(group: &str, version: &str) -> Option<Value> {
    let (paths, schemas) = describe(group, version, Edition::Three)?;
    Some(json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": schemas}}))
}

/// The document of a group and version in version 2 of `OpenAPI`; none if there are no resources.
pub fn version_2(group: &str, version: &str) -> Option<Value> {
    let (paths, schemas) = describe(group, version, Edition::Two)?;
    Some(json!({"swagger": "2.0", "info": info(), "paths": paths, "definitions": schemas}))
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": KUBERNETES_VERSION})
}

fn describe(group: &str, version: &str, edition: Edition) -> Option<(Value, Value)> {
    let resources = super::resources().iter();
    let resources: Vec<_> =
        resources.filter(|resource| resource.group == group && resource.version == version).collect();
    if resources.is_empty() {
        return None;
    }
    let mut schemas = schema::Collector::new(edition);
    let mut paths = serde_json::Map::new();
    for resource in resources {
        paths::add(resource, edition, &mut schemas, &mut paths);
    }
    Some((Value::Object(paths), schemas.finish()))
}
