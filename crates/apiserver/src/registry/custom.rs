//! Descriptors of custom resources, made of their definitions.

use std::sync::Arc;

use ferroplane_ownership::merge::shape::Shapes;
use ferroplane_ownership::{Version as OwnedVersion, VersionedKind};
use ferroplane_schema::selector::SelectableFields;
use ferroplane_schema::status;
use ferroplane_schema::structural::crd::{DefinedVersion, Definition};
use ferroplane_schema::structural::{CustomResource, Schema};
use ferroplane_schema::table::Printer;
use ferroplane_schema::writes::Custom;
use serde_json::Value;
use tokio::sync::watch;

use super::resource::collection;
use super::{DeletionStrategy, Names, Origin, Resource, Version, by_preference};
use crate::request::Verb;
use crate::webhooks::Converter;

const VERBS: [Verb; 8] = [
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Create,
    Verb::Update,
    Verb::Watch,
];

/// Why a definition cannot be served. It has been validated, so that only a stored one of another release can be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefinitionError {
    #[error("the definition is not an object")]
    NotAnObject,
    #[error("no version is stored")]
    NoStoredVersion,
    #[error("{0}")]
    Definition(String),
    #[error("{0}")]
    Fields(String),
    #[error("{0}")]
    PrinterColumns(String),
    #[error("{0}")]
    SelectableFields(String),
}

/// The descriptor of what a definition defines. The definition has been validated.
pub(crate) fn custom(definition: &Value) -> Result<Resource, DefinitionError> {
    let fields = definition.as_object().ok_or(DefinitionError::NotAnObject)?;
    let decoded = Definition::decode(fields);
    let defined = Arc::new(decoded.map_err(|error| DefinitionError::Definition(error.to_string()))?);
    let builder =
        VersionBuilder { json: definition, defined: &defined, ownership: ownership(definition, &defined)? };
    let versions =
        defined.versions.iter().map(|version| builder.version(version)).collect::<Result<_, _>>()?;
    let storage = defined.versions.iter().position(|version| version.is_storage);
    let storage = storage.ok_or(DefinitionError::NoStoredVersion)?;
    let names = &defined.names;
    Ok(Resource {
        deletion: DeletionStrategy::PLAIN,
        shows_deleted: false,
        fingerprint: fingerprint(definition),
        converter: Converter::read(&definition["spec"]["conversion"], &names.kind),
        end: watch::Sender::default(),
        group: defined.group.clone(),
        names: Names {
            plural: names.plural.clone(),
            singular: names.singular.clone(),
            kind: names.kind.clone(),
            list_kind: names.list_kind.clone(),
            short: names.short_names.clone(),
            categories: names.categories.clone(),
        },
        is_namespaced: defined.scope == "Namespaced",
        versions,
        storage,
        collection: collection(&defined.group, &names.plural),
        identity: status::Resource::new(defined.group.clone(), names.plural.clone()),
        origin: Origin::Custom { definition: Arc::clone(&defined) },
    })
}

/// What tells one edition of a definition from all others. What is said in its status, or of its metadata, makes no difference.
pub(crate) fn fingerprint(definition: &Value) -> String {
    let metadata = &definition["metadata"];
    format!("{} {}", metadata["uid"], metadata["generation"])
}

/// What the fields of all versions are for their owners.
fn ownership(json: &Value, defined: &Definition) -> Result<VersionedKind, DefinitionError> {
    let version = |version: &DefinedVersion| {
        let schema = raw_version(json, &version.name).map(|version| &version["schema"]["openAPIV3Schema"]);
        let shapes = Shapes::of_custom_resource(schema);
        let shapes = shapes.map_err(|error| DefinitionError::Fields(error.to_string()))?;
        let api_version = format!("{}/{}", defined.group, version.name);
        Ok(OwnedVersion { api_version, shapes: Arc::new(shapes) })
    };
    let versions = defined.versions.iter().map(version).collect::<Result<_, DefinitionError>>()?;
    Ok(VersionedKind { name: defined.names.kind.clone(), versions })
}

fn raw_version<'j>(json: &'j Value, name: &str) -> Option<&'j Value> {
    json["spec"]["versions"].as_array()?.iter().find(|version| version["name"] == name)
}

/// What the versions of one definition share.
struct VersionBuilder<'d> {
    json: &'d Value,
    defined: &'d Definition,
    ownership: VersionedKind,
}

impl VersionBuilder<'_> {
    fn version(&self, version: &DefinedVersion) -> Result<Version, DefinitionError> {
        let defined = self.defined;
        let name = version.name.as_str();
        let props = defined.schema(name).cloned().unwrap_or_default();
        let subresources = defined.subresources(name).cloned().unwrap_or_default();
        let resource = CustomResource {
            group: defined.group.clone(),
            version: name.to_owned(),
            kind: defined.names.kind.clone(),
            is_namespaced: defined.scope == "Namespaced",
            preserves_unknown_fields: defined.preserve_unknown_fields,
            scale: subresources.scale.clone(),
            schema: Schema::compile(&props),
        };
        let columns = raw_version(self.json, name)
            .and_then(|version| version["additionalPrinterColumns"].as_array())
            .map_or(&[][..], Vec::as_slice);
        let selectable = defined.selectable_fields(name).iter().map(String::as_str);
        Ok(Version {
            name: name.to_owned(),
            is_served: version.is_served,
            // Then the stored bytes are sent as they are, without parsing them.
            is_verbatim: version.is_storage && !self.may_lack_defaults(),
            behaviour: Arc::new(Custom::new(resource, self.ownership.clone(), subresources.has_status)),
            has_status: subresources.has_status,
            scale: subresources.scale,
            printer: Printer::read(columns).map_err(DefinitionError::PrinterColumns)?,
            selectable: SelectableFields::new(selectable).map_err(DefinitionError::SelectableFields)?,
            deprecation: self.deprecation(version),
            verbs: VERBS.to_vec(),
            parts: &[],
        })
    }

    /// Objects are stored with their defaults. Only a definition that has changed since may have others by now.
    fn may_lack_defaults(&self) -> bool {
        self.json["metadata"]["generation"].as_i64().is_some_and(|generation| generation > 1)
    }

    fn deprecation(&self, version: &DefinedVersion) -> Option<String> {
        if !version.is_deprecated {
            return None;
        }
        let (group, kind) = (&self.defined.group, &self.defined.names.kind);
        let words = || {
            let instead = self.better_version(version).map(|better| format!("; use {group}/{better} {kind}"));
            format!("{group}/{} {kind} is deprecated{}", version.name, instead.unwrap_or_default())
        };
        Some(version.deprecation_warning.clone().unwrap_or_else(words))
    }

    /// The version to use instead of one that is deprecated, if there is a better one.
    fn better_version(&self, version: &DefinedVersion) -> Option<&str> {
        let served = self.defined.versions.iter().filter(|other| other.is_served && !other.is_deprecated);
        let mut better: Vec<_> = served.map(|other| other.name.as_str()).collect();
        // Only a more stable version is recommended: from `v1beta1` to `v1`, never back.
        better.retain(|other| by_preference(other, &version.name).is_lt());
        better.sort_unstable_by(|one, other| by_preference(one, other));
        better.first().copied()
    }
}
