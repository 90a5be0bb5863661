//! `OpenAPI` documents of custom resources: version 3, which clients need, and version 2, which older ones look for.
//!
//! One document describes one version of one definition; who serves several merges their paths and schemas. Schemas of
//! types that every API has are here without explanations.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/controller/openapi/builder/builder.go`.

mod meta;
pub(crate) mod operation;
mod paths;
mod protobuf;
mod schema;

use serde_json::{Map, Value, json};

use super::crd::Definition;
pub use protobuf::version_2_in_protobuf;

/// Which specification to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edition {
    Two,
    Three,
}

impl Edition {
    pub(crate) fn reference(self, name: &str) -> Value {
        let prefix = match self {
            Self::Two => "#/definitions/",
            Self::Three => "#/components/schemas/",
        };
        json!({"$ref": format!("{prefix}{name}")})
    }

    /// A reference that something else may stand beside.
    pub(crate) fn wrapped_reference(self, name: &str) -> Value {
        match self {
            Self::Two => self.reference(name),
            // Version 3.0 ignores everything beside a `$ref`.
            Self::Three => json!({"allOf": [self.reference(name)]}),
        }
    }
}

/// The kind that is described, and how it is called.
pub(super) struct Subject<'d> {
    pub(super) definition: &'d Definition,
    pub(super) version: &'d str,
    pub(super) edition: Edition,
}

impl Subject<'_> {
    fn group_version_kind(&self, kind: &str) -> Value {
        json!({"group": self.definition.group, "version": self.version, "kind": kind})
    }

    /// The name of a schema: the group backwards, the version, the kind.
    fn model(&self, kind: &str) -> String {
        let group: Vec<_> = self.definition.group.split('.').rev().collect();
        format!("{}.{}.{kind}", group.join("."), self.version)
    }
}

/// The document of one version, in version 3 of `OpenAPI`. Nothing if there is no such version.
pub fn version_3(definition: &Definition, version: &str) -> Option<Value> {
    let subject = Subject { definition, version, edition: Edition::Three };
    let (paths, schemas) = describe(&subject)?;
    Some(json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": schemas}}))
}

/// The document of one version, in version 2 of `OpenAPI`. Nothing if there is no such version.
pub fn version_2(definition: &Definition, version: &str) -> Option<Value> {
    let subject = Subject { definition, version, edition: Edition::Two };
    let (paths, schemas) = describe(&subject)?;
    Some(json!({"swagger": "2.0", "info": info(), "paths": paths, "definitions": schemas}))
}

fn info() -> Value {
    // Kubernetes' own words for documents of definitions.
    json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
}

fn describe(subject: &Subject<'_>) -> Option<(Value, Value)> {
    subject.definition.versions.iter().find(|version| version.name == subject.version)?;
    let names = &subject.definition.names;
    let subresources = subject.definition.subresources(subject.version);
    let has_scale = subresources.is_some_and(|subresources| subresources.scale.is_some());
    let mut schemas: Map<String, Value> = meta::schemas(subject.edition, has_scale);
    schemas.insert(subject.model(&names.kind), schema::of_kind(subject));
    schemas.insert(subject.model(&names.list_kind), schema::of_list(subject));
    Some((paths::of_kind(subject), Value::Object(schemas)))
}
