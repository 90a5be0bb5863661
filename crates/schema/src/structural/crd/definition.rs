//! A definition in the internal form.
//!
//! Follows apiextensions-apiserver 0.36.4, `pkg/apis/apiextensions/types.go`,
//! `pkg/apis/apiextensions/v1/conversion.go`.

use ferroplane_golang::base64;
use serde_json::{Map, Value};

use super::defaults;
use super::strictness::is_structural;
use crate::field::BadValue;
use crate::structural::internal::{GoStruct, list, null, optional_text};
use crate::structural::object_meta::{Malformed, ObjectMeta};
use crate::structural::{DecodeError, Props, Scale};
use crate::webhook_address::Service;

/// A definition, read from its JSON after defaulting.
#[derive(Debug, Clone, Default)]
pub struct Definition {
    pub metadata: ObjectMeta,
    pub group: String,
    pub names: Names,
    pub scope: String,
    pub preserve_unknown_fields: bool,
    pub versions: Vec<DefinedVersion>,
    pub(crate) conversion: Option<Conversion>,
    /// What all versions have in common.
    pub(crate) common: Common,
    pub(crate) accepted_names: Names,
    pub(crate) stored_versions: Option<Vec<String>>,
    pub(crate) is_established: bool,
    /// Versions are listed, even if there are none.
    has_versions: bool,
}

/// What is said once because all versions say it.
#[expect(clippy::option_option, reason = "a place for a schema may be there without one in it")]
#[derive(Debug, Clone, Default)]
pub(crate) struct Common {
    pub(crate) schema: Option<Option<Props>>,
    pub(crate) subresources: Option<Subresources>,
    pub(crate) columns: Option<Vec<Column>>,
    pub(crate) selectable_fields: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub kind: String,
    pub list_kind: String,
    pub categories: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub struct DefinedVersion {
    pub name: String,
    pub is_served: bool,
    pub is_storage: bool,
    pub is_deprecated: bool,
    pub deprecation_warning: Option<String>,
    /// Absent, or there with or without a schema in it.
    pub schema: Option<Option<Props>>,
    pub subresources: Option<Subresources>,
    pub columns: Option<Vec<Column>>,
    pub selectable_fields: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subresources {
    pub has_status: bool,
    pub scale: Option<Scale>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub json_path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) strategy: String,
    pub(crate) client: Option<Client>,
    pub(crate) review_versions: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) url: Option<String>,
    pub(crate) service: Option<Service>,
    pub(crate) ca_bundle: Vec<u8>,
}

type Fielded = Map<String, Value>;

fn object<'j>(fields: &'j Fielded, name: &str) -> Option<&'j Fielded> {
    fields.get(name).and_then(Value::as_object)
}

fn text(fields: &Fielded, name: &str) -> String {
    optional(fields, name).unwrap_or_default()
}

fn optional(fields: &Fielded, name: &str) -> Option<String> {
    fields.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn flag(fields: &Fielded, name: &str) -> bool {
    fields.get(name) == Some(&Value::Bool(true))
}

fn integer(fields: &Fielded, name: &str) -> i64 {
    fields.get(name).and_then(Value::as_i64).unwrap_or_default()
}

fn objects<'j>(fields: &'j Fielded, name: &str) -> Option<impl Iterator<Item = &'j Fielded>> {
    Some(fields.get(name)?.as_array()?.iter().filter_map(Value::as_object))
}

fn texts(fields: &Fielded, name: &str) -> Option<Vec<String>> {
    let texts = fields.get(name)?.as_array()?.iter();
    Some(texts.map(|value| value.as_str().unwrap_or_default().to_owned()).collect())
}

impl Definition {
    /// Reads a definition. Only schemas can be unreadable; elsewhere, what is not what it should be is absent.
    pub fn decode(json: &Fielded) -> Result<Self, DecodeError> {
        let empty = Map::new();
        let spec = object(json, "spec").unwrap_or(&empty);
        let status = object(json, "status").unwrap_or(&empty);
        let metadata = json.get("metadata").unwrap_or(&Value::Null);
        let versions: Result<Vec<_>, _> =
            objects(spec, "versions").into_iter().flatten().map(DefinedVersion::decode).collect();
        let is_established = objects(status, "conditions")
            .into_iter()
            .flatten()
            .find(|condition| text(condition, "type") == "Established")
            .is_some_and(|condition| text(condition, "status") == "True");
        let mut definition = Self {
            metadata: ObjectMeta::read(metadata, Malformed::Drop, &mut Vec::new()).unwrap_or_default(),
            group: text(spec, "group"),
            names: object(spec, "names").map(Names::decode).unwrap_or_default(),
            scope: text(spec, "scope"),
            preserve_unknown_fields: flag(spec, "preserveUnknownFields"),
            versions: versions?,
            conversion: object(spec, "conversion").map(Conversion::decode).transpose()?,
            common: Common::default(),
            accepted_names: object(status, "acceptedNames").map(Names::decode).unwrap_or_default(),
            stored_versions: texts(status, "storedVersions"),
            is_established,
            has_versions: spec.get("versions").is_some_and(Value::is_array),
        };
        // Kubernetes converts v1 to its internal form, where common parts stand once at the top. Paths in its
        // errors are of that form: `spec.validation`, not `spec.versions[0].schema`.
        definition.hoist();
        Ok(definition)
    }

    /// Moves to the top what all versions have in common.
    fn hoist(&mut self) {
        let Some((first, rest)) = self.versions.split_first() else { return };
        let is_common = |same: &dyn Fn(&DefinedVersion) -> bool| rest.iter().all(same);
        let schema = is_common(&|version| is_same_schema(version.schema.as_ref(), first.schema.as_ref()));
        let subresources = is_common(&|version| version.subresources == first.subresources);
        let columns = is_common(&|it| {
            it.columns.as_deref().unwrap_or_default() == first.columns.as_deref().unwrap_or_default()
        });
        let selectable = is_common(&|version| {
            let fields = |version: &DefinedVersion| version.selectable_fields.clone().unwrap_or_default();
            fields(version) == fields(first)
        });
        let mut common = Common::default();
        // Backwards, so that the first version's is kept.
        for version in self.versions.iter_mut().rev() {
            if schema {
                common.schema = version.schema.take();
            }
            if subresources {
                common.subresources = version.subresources.take();
            }
            if columns {
                common.columns = version.columns.take();
            }
            if selectable {
                common.selectable_fields = version.selectable_fields.take();
            }
        }
        self.common = common;
    }

    /// The schema of a version, wherever it stands.
    pub fn schema(&self, version: &str) -> Option<&Props> {
        let own = self.versions.iter().find(|candidate| candidate.name == version)?.schema.as_ref();
        own.or(self.common.schema.as_ref())?.as_ref()
    }

    /// The subresources of a version, wherever they stand.
    pub fn subresources(&self, version: &str) -> Option<&Subresources> {
        let own = self.versions.iter().find(|candidate| candidate.name == version)?.subresources.as_ref();
        own.or(self.common.subresources.as_ref())
    }

    /// The columns of a version, wherever they stand.
    pub fn columns(&self, version: &str) -> &[Column] {
        let own = self
            .versions
            .iter()
            .find(|candidate| candidate.name == version)
            .and_then(|it| it.columns.as_ref());
        own.or(self.common.columns.as_ref()).map_or(&[], Vec::as_slice)
    }

    /// The paths of the fields of a version that can be selected by.
    pub fn selectable_fields(&self, version: &str) -> &[String] {
        let own =
            self.versions.iter().find(|it| it.name == version).and_then(|it| it.selectable_fields.as_ref());
        own.or(self.common.selectable_fields.as_ref()).map_or(&[], Vec::as_slice)
    }

    /// All schemas.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = &Props> {
        let own = self.versions.iter().filter_map(|version| version.schema.as_ref()?.as_ref());
        self.common.schema.iter().flatten().chain(own)
    }

    /// All versions, as an error shows them: after their defaults have been checked.
    pub(crate) fn shown_versions(&self) -> BadValue {
        let mut versions = self.versions.clone();
        for schema in versions.iter_mut().filter_map(|version| version.schema.as_mut()?.as_mut()) {
            // Looking at defaults coerces them in place in Kubernetes, so that a later error shows the
            // coerced ones.
            if is_structural(schema) {
                *schema = defaults::coerced(schema);
            }
        }
        BadValue::Text(list(Some(&versions).filter(|_| self.has_versions), DefinedVersion::internal))
    }
}

pub(crate) fn is_same_schema(one: Option<&Option<Props>>, other: Option<&Option<Props>>) -> bool {
    match (one, other) {
        (Some(Some(one)), Some(Some(other))) => one.means_the_same(other),
        (Some(None), Some(None)) | (None, None) => true,
        _ => false,
    }
}

impl Names {
    fn decode(json: &Fielded) -> Self {
        Self {
            plural: text(json, "plural"),
            singular: text(json, "singular"),
            short_names: texts(json, "shortNames").unwrap_or_default(),
            kind: text(json, "kind"),
            list_kind: text(json, "listKind"),
            categories: texts(json, "categories").unwrap_or_default(),
        }
    }
}

impl DefinedVersion {
    fn decode(json: &Fielded) -> Result<Self, DecodeError> {
        let schema = match object(json, "schema") {
            None => None,
            Some(schema) => Some(match schema.get("openAPIV3Schema") {
                None | Some(Value::Null) => None,
                Some(schema) => Some(Props::decode(schema)?),
            }),
        };
        Ok(Self {
            name: text(json, "name"),
            is_served: flag(json, "served"),
            is_storage: flag(json, "storage"),
            is_deprecated: flag(json, "deprecated"),
            deprecation_warning: optional(json, "deprecationWarning"),
            schema,
            subresources: object(json, "subresources").map(Subresources::decode),
            columns: objects(json, "additionalPrinterColumns")
                .map(|columns| columns.map(Column::decode).collect()),
            selectable_fields: objects(json, "selectableFields")
                .map(|fields| fields.map(|field| text(field, "jsonPath")).collect()),
        })
    }

    fn internal(&self) -> String {
        let schema = self.schema.as_ref().map_or_else(null, |schema| {
            GoStruct::default()
                .raw("OpenAPIV3Schema", &schema.as_ref().map_or_else(null, Props::internal))
                .close()
        });
        GoStruct::default()
            .text("Name", &self.name)
            .flag("Served", self.is_served)
            .flag("Storage", self.is_storage)
            .flag("Deprecated", self.is_deprecated)
            .raw("DeprecationWarning", &optional_text(self.deprecation_warning.as_ref()))
            .raw("Schema", &schema)
            .raw("Subresources", &self.subresources.as_ref().map_or_else(null, Subresources::internal))
            .raw("AdditionalPrinterColumns", &list(self.columns.as_ref(), Column::internal))
            .raw(
                "SelectableFields",
                &list(self.selectable_fields.as_ref(), |path| {
                    GoStruct::default().text("JSONPath", path).close()
                }),
            )
            .close()
    }
}

impl Subresources {
    fn decode(json: &Fielded) -> Self {
        Self {
            has_status: object(json, "status").is_some(),
            scale: object(json, "scale").map(|scale| Scale {
                spec_replicas: text(scale, "specReplicasPath"),
                status_replicas: text(scale, "statusReplicasPath"),
                label_selector: optional(scale, "labelSelectorPath"),
            }),
        }
    }

    fn internal(&self) -> String {
        let scale = self.scale.as_ref().map_or_else(null, |scale| {
            GoStruct::default()
                .text("SpecReplicasPath", &scale.spec_replicas)
                .text("StatusReplicasPath", &scale.status_replicas)
                .raw("LabelSelectorPath", &optional_text(scale.label_selector.as_ref()))
                .close()
        });
        let status = if self.has_status { "{}" } else { "null" };
        GoStruct::default().raw("Status", status).raw("Scale", &scale).close()
    }
}

impl Column {
    fn decode(json: &Fielded) -> Self {
        Self {
            name: text(json, "name"),
            kind: text(json, "type"),
            format: text(json, "format"),
            description: text(json, "description"),
            priority: integer(json, "priority"),
            json_path: text(json, "jsonPath"),
        }
    }

    fn internal(&self) -> String {
        GoStruct::default()
            .text("Name", &self.name)
            .text("Type", &self.kind)
            .text("Format", &self.format)
            .text("Description", &self.description)
            .raw("Priority", &self.priority.to_string())
            .text("JSONPath", &self.json_path)
            .close()
    }
}

impl Conversion {
    fn decode(json: &Fielded) -> Result<Self, DecodeError> {
        let webhook = object(json, "webhook");
        let client = webhook.and_then(|webhook| object(webhook, "clientConfig"));
        Ok(Self {
            strategy: text(json, "strategy"),
            client: client.map(Client::decode).transpose()?,
            review_versions: webhook.and_then(|webhook| texts(webhook, "conversionReviewVersions")),
        })
    }
}

impl Client {
    fn decode(json: &Fielded) -> Result<Self, DecodeError> {
        let ca_bundle = base64::decode(text(json, "caBundle").as_bytes()).map_err(DecodeError::Base64)?;
        Ok(Self {
            url: optional(json, "url"),
            service: object(json, "service").map(|service| Service {
                namespace: text(service, "namespace"),
                name: text(service, "name"),
                path: optional(service, "path"),
                port: integer(service, "port"),
            }),
            ca_bundle,
        })
    }
}
