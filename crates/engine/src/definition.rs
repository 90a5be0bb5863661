//! Derives CustomResourceDefinitions from a `CompositeResourceDefinition`: that of its composite resources, and that of their claims.
//!
//! The author's schema has the fields of the kind; the fields that every kind has are added here, and win where both define one.
//!
//! # Invariants
//! * The scope decides the layout, never the version of the definition: one that is stored as v1 can be read as v2.
//! * Only JSON is moved: the API server validates the schema.

mod kinds;
pub(crate) mod machinery;
mod roles;

use ferroplane_api::{Object, Scope, keys, meta};
use serde_json::{Map, Value, json};

pub use kinds::{
    Defined, NotOurs, adopt, defined_claim, defined_composite, defined_group, is_reserved_group,
    referenceable_version,
};
pub(crate) use kinds::{keep_certificates, refuse_another_owner};
use machinery::{
    claim_columns, claim_spec, claim_status, composite_columns, composite_spec, composite_status,
};
pub use roles::{adopt_role, cluster_roles, definition_of_role, standing_roles};

/// The categories of all derived kinds: that of composite resources, and that of claims.
const CATEGORIES: [&str; 2] = ["composite", "claim"];

/// Names of composite resources and claims become values of labels, and must not be longer.
const MAX_NAME_LENGTH: u64 = 63;

/// Why no definition can be derived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Underivable {
    /// The invalid field of the `CompositeResourceDefinition`.
    pub field: String,
    pub problem: String,
}

/// The definition of the composite resources.
pub fn composite_definition(xrd: &Object) -> Result<Object, Underivable> {
    let scope = scope(xrd);
    let policy = text(xrd, "defaultCompositionUpdatePolicy");
    let machinery = Machinery {
        spec: composite_spec(scope, policy),
        status: composite_status(scope == Scope::LegacyCluster),
        columns: composite_columns(scope),
    };
    let scope = if scope == Scope::Namespaced { "Namespaced" } else { "Cluster" };
    definition(xrd, meta::name(xrd), names(xrd, "names", CATEGORIES[0]), scope, &machinery)
}

/// The definition of the claims, if there are any.
pub fn claim_definition(xrd: &Object) -> Result<Option<Object>, Underivable> {
    if spec(xrd).and_then(|spec| spec.get("claimNames")).is_none_or(Value::is_null) {
        return Ok(None);
    }
    refuse_ambiguous_names(xrd)?;
    let machinery = Machinery {
        spec: claim_spec(text(xrd, "defaultCompositeDeletePolicy")),
        status: claim_status(),
        columns: claim_columns(),
    };
    let names = names(xrd, "claimNames", CATEGORIES[1]);
    let plural = names.get("plural").and_then(Value::as_str).unwrap_or_default();
    let name = format!("{plural}.{}", text(xrd, "group").unwrap_or_default());
    definition(xrd, &name, names, "Namespaced", &machinery).map(Some)
}

/// The scope of the composite resources. The default depends on the version of the definition.
pub fn scope(xrd: &Object) -> Scope {
    match text(xrd, "scope") {
        Some("Namespaced") => Scope::Namespaced,
        Some("Cluster") => Scope::Cluster,
        // The default of the API differs by version: v1 had no scope, and meant the legacy layout.
        None | Some("") if meta::version(meta::api_version(xrd)) == "v2" => Scope::Namespaced,
        _ => Scope::LegacyCluster,
    }
}

/// The parts that all kinds have.
struct Machinery {
    spec: Object,
    status: Object,
    columns: Vec<Value>,
}

fn definition(
    xrd: &Object,
    name: &str,
    names: Object,
    scope: &str,
    machinery: &Machinery,
) -> Result<Object, Underivable> {
    let versions = spec(xrd).and_then(|spec| spec.get("versions")?.as_array());
    let versions = versions.into_iter().flatten().enumerate();
    let versions: Result<Vec<_>, _> =
        versions.map(|(index, version)| self::version(index, version, machinery)).collect();
    let mut spec_of = Map::from_iter([
        ("group".to_owned(), text(xrd, "group").unwrap_or_default().into()),
        ("names".to_owned(), Value::Object(names)),
        ("scope".to_owned(), scope.into()),
        ("versions".to_owned(), Value::Array(versions?)),
    ]);
    copy(spec(xrd), &mut spec_of, &["conversion"]);
    let mut definition = Map::from_iter([
        ("apiVersion".to_owned(), "apiextensions.k8s.io/v1".into()),
        ("kind".to_owned(), "CustomResourceDefinition".into()),
        ("metadata".to_owned(), Value::Object(metadata(xrd, name))),
        ("spec".to_owned(), Value::Object(spec_of)),
    ]);
    let mut owner = xrd.clone();
    // Whichever version it was read as, it is stored as this one.
    owner.insert("apiVersion".to_owned(), format!("{}/v1", keys::APIEXTENSIONS).into());
    meta::set_controller(&mut definition, &owner);
    Ok(definition)
}

fn metadata(xrd: &Object, name: &str) -> Object {
    let given = spec(xrd).and_then(|spec| spec.get("metadata")?.as_object());
    let entries = |of: Option<&Object>, field: &str| of.and_then(|of| of.get(field)?.as_object().cloned());
    let mut labels = entries(xrd.get("metadata").and_then(Value::as_object), "labels").unwrap_or_default();
    // Metadata that the XRD sets for its CRD replaces its own.
    labels.extend(entries(given, "labels").unwrap_or_default());
    let annotations = entries(given, "annotations").unwrap_or_default();
    let mut metadata = Map::from_iter([("name".to_owned(), name.into())]);
    for (field, entries) in [("labels", labels), ("annotations", annotations)] {
        if !entries.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(entries));
        }
    }
    metadata
}

fn names(xrd: &Object, field: &str, category: &str) -> Object {
    let names = spec(xrd).and_then(|spec| spec.get(field)?.as_object().cloned());
    let mut names = names.unwrap_or_default();
    let categories = names.entry("categories").or_insert_with(|| json!([]));
    if !categories.is_array() {
        *categories = json!([]);
    }
    if let Value::Array(categories) = categories {
        categories.push(category.into());
    }
    names
}

fn refuse_ambiguous_names(xrd: &Object) -> Result<(), Underivable> {
    let name = |holder: &str, field: &str| {
        let name = spec(xrd).and_then(|spec| spec.get(holder)?.get(field)?.as_str());
        name.unwrap_or_default()
    };
    for field in ["kind", "plural", "singular", "listKind"] {
        let (claim, composite) = (name("claimNames", field), name("names", field));
        // Left out of both they are equal and empty, and the API server derives them from names that differ.
        let is_optional = ["singular", "listKind"].contains(&field);
        if claim == composite && !(is_optional && claim.is_empty()) {
            let field = format!("spec.claimNames.{field}");
            let problem = format!("`{claim}` is already a name of the composite resources");
            return Err(Underivable { field, problem });
        }
    }
    Ok(())
}

fn version(index: usize, version: &Value, machinery: &Machinery) -> Result<Value, Underivable> {
    let schema = version.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
    let Some(schema) = schema.filter(|schema| !schema.is_null()) else {
        let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
        return Err(Underivable { field, problem: "a version needs a schema".to_owned() });
    };
    let flag = |field: &str| version.get(field).and_then(Value::as_bool).unwrap_or_default();
    let mut columns = version.get("additionalPrinterColumns").and_then(Value::as_array).cloned();
    columns.get_or_insert_default().extend(machinery.columns.iter().cloned());
    let mut subresources = json!({"status": {}});
    if let Some(scale) = version.get("subresources").and_then(|subresources| subresources.get("scale")) {
        subresources["scale"] = scale.clone();
    }
    let mut derived = Map::from_iter([
        ("served".to_owned(), flag("served").into()),
        // Compositions refer to one version, and that one is stored, so that nothing has to be converted for
        // them.
        ("storage".to_owned(), flag("referenceable").into()),
        ("additionalPrinterColumns".to_owned(), columns.into()),
        ("subresources".to_owned(), subresources),
        ("schema".to_owned(), json!({"openAPIV3Schema": self::schema(schema, machinery)})),
    ]);
    copy(version.as_object(), &mut derived, &["name", "deprecated", "deprecationWarning"]);
    Ok(Value::Object(derived))
}

/// The author's schema with the common fields. Only the listed keywords are copied.
fn schema(author: &Value, machinery: &Machinery) -> Value {
    let of = |field: &str| author.get("properties")?.get(field)?.as_object();
    let spec_keys = [
        "required",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
        "oneOf",
        "description",
    ];
    let status_keys = ["required", "x-kubernetes-validations", "oneOf", "description"];
    let mut root = Map::from_iter([
        ("type".to_owned(), "object".into()),
        ("required".to_owned(), json!(["spec"])),
        (
            "properties".to_owned(),
            json!({
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object", "properties": {
                    "name": {"type": "string", "maxLength": name_length(author)}
                }},
                "spec": part(of("spec"), &spec_keys, &machinery.spec),
                "status": part(of("status"), &status_keys, &machinery.status),
            }),
        ),
    ]);
    copy(author.as_object(), &mut root, &["description", "x-kubernetes-validations"]);
    Value::Object(root)
}

fn name_length(author: &Value) -> u64 {
    let wanted = author.pointer("/properties/metadata/properties/name/maxLength").and_then(Value::as_u64);
    wanted.unwrap_or(MAX_NAME_LENGTH).min(MAX_NAME_LENGTH)
}

fn part(author: Option<&Object>, kept: &[&str], machinery: &Object) -> Value {
    let mut part = Map::from_iter([("type".to_owned(), "object".into())]);
    copy(author, &mut part, kept);
    let mut properties =
        author.and_then(|author| author.get("properties")?.as_object().cloned()).unwrap_or_default();
    // The common fields come last and win: a schema that redeclares `resourceRefs` must not break composing.
    properties.extend(machinery.clone());
    part.insert("properties".to_owned(), Value::Object(properties));
    Value::Object(part)
}

fn copy(from: Option<&Object>, to: &mut Object, fields: &[&str]) {
    for field in fields {
        if let Some(value) = from.and_then(|from| from.get(*field)).filter(|value| !value.is_null()) {
            to.insert((*field).to_owned(), value.clone());
        }
    }
}

fn spec(xrd: &Object) -> Option<&Object> {
    xrd.get("spec")?.as_object()
}

fn text<'x>(xrd: &'x Object, field: &str) -> Option<&'x str> {
    spec(xrd)?.get(field)?.as_str()
}

#[cfg(test)]
mod tests;
