//! The input as it is written: the `Resources` of `pt.fn.crossplane.io/v1beta1`, field by field.
//!
//! Unknown fields are refused, unless the release ignored them, and null stands for nothing. Whether what is written makes sense is asked in
//! `validate`.

use std::fmt;

use serde_json::{Map, Value};

use super::release::Release;
use ferroplane_golang::json::integer;

#[derive(Debug, Default)]
#[expect(clippy::struct_field_names, reason = "fields are named as they are written")]
pub(super) struct Resources {
    pub(super) patch_sets: Vec<PatchSet>,
    pub(super) environment: Option<Vec<Patch>>,
    pub(super) resources: Vec<Template>,
    pub(super) write_connection_secret_to_ref: Option<SecretReference>,
}

#[derive(Debug)]
pub(super) struct PatchSet {
    pub(super) name: String,
    pub(super) patches: Vec<Patch>,
}

#[derive(Debug)]
pub(super) struct Template {
    pub(super) name: String,
    pub(super) base: Option<Value>,
    pub(super) patches: Vec<Patch>,
    pub(super) connection_details: Vec<ConnectionDetail>,
    pub(super) readiness_checks: Vec<ReadinessCheck>,
}

#[derive(Debug)]
pub(super) struct SecretReference {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) patches: Vec<Patch>,
}

#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "fields are named as they are written")]
pub(super) struct Patch {
    /// What kind of patch it is; [`Patch::DEFAULT`] if nothing is written.
    pub(super) kind: String,
    pub(super) patch_set_name: Option<String>,
    pub(super) from_field_path: Option<String>,
    pub(super) to_field_path: Option<String>,
    pub(super) combine: Option<Combine>,
    pub(super) transforms: Vec<Transform>,
    pub(super) policy: Option<Policy>,
}

#[derive(Debug)]
pub(super) struct Combine {
    pub(super) variables: Vec<String>,
    pub(super) strategy: String,
    /// The format, if there is a `string`.
    pub(super) format: Option<String>,
}

#[derive(Debug)]
pub(super) struct Policy {
    pub(super) from_field_path: Option<String>,
    pub(super) to_field_path: Option<String>,
}

#[derive(Debug)]
pub(super) struct Transform {
    pub(super) kind: String,
    pub(super) math: Option<Math>,
    pub(super) map: Option<Map<String, Value>>,
    pub(super) matching: Option<Match>,
    pub(super) string: Option<StringTransform>,
    pub(super) convert: Option<Convert>,
}

#[derive(Debug)]
pub(super) struct Math {
    pub(super) kind: String,
    pub(super) multiply: Option<i64>,
    pub(super) clamp_min: Option<i64>,
    pub(super) clamp_max: Option<i64>,
}

#[derive(Debug)]
pub(super) struct Match {
    pub(super) patterns: Vec<Pattern>,
    pub(super) fallback_value: Option<Value>,
    pub(super) fallback_to: String,
}

#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) kind: String,
    pub(super) literal: Option<String>,
    pub(super) regexp: Option<String>,
    pub(super) result: Option<Value>,
}

#[derive(Debug)]
pub(super) struct StringTransform {
    pub(super) kind: String,
    pub(super) format: Option<String>,
    pub(super) convert: Option<String>,
    pub(super) trim: Option<String>,
    pub(super) regexp: Option<(String, Option<i64>)>,
    pub(super) join: Option<String>,
    pub(super) replace: Option<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Convert {
    pub(super) to_type: String,
    pub(super) format: Option<String>,
}

#[derive(Debug)]
pub(super) struct ConnectionDetail {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) from_connection_secret_key: Option<String>,
    pub(super) from_field_path: Option<String>,
    pub(super) value: Option<String>,
}

#[derive(Debug)]
pub(super) struct ReadinessCheck {
    pub(super) kind: String,
    pub(super) field_path: Option<String>,
    pub(super) match_string: Option<String>,
    pub(super) match_integer: Option<i64>,
    /// Type and status.
    pub(super) match_condition: Option<(String, String)>,
}

impl Patch {
    pub(super) const DEFAULT: &'static str = "FromCompositeFieldPath";
}

/// What is not as it should be, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    path: String,
    text: String,
}

impl Problem {
    fn new(text: impl Into<String>) -> Self {
        Self { path: String::new(), text: text.into() }
    }

    fn under(self, parent: &str) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        Self { path: format!("{parent}{separator}{}", self.path), text: self.text }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.text) } else { write!(f, "{}: {}", self.path, self.text) }
    }
}

type Result<T> = std::result::Result<T, Problem>;

impl Resources {
    pub(super) fn read(input: &Map<String, Value>, release: Release) -> Result<Self> {
        const NAMES: &[&str] = &[
            "apiVersion",
            "kind",
            "metadata",
            "patchSets",
            "environment",
            "resources",
            "writeConnectionSecretToRef",
        ];
        let fields = Fields { object: Some(input), known: None, release };
        let fields = fields.only(if release.composes_connection_secrets() { NAMES } else { &NAMES[..6] })?;
        // Only for the type: the original decodes it into Go's `TypeMeta` and does not compare it.
        fields.text("apiVersion")?;
        fields.text("kind")?;
        fields.optional("metadata", |_| Ok(()))?;
        Ok(Self {
            patch_sets: fields.list("patchSets", PatchSet::read)?,
            environment: fields.optional("environment", |fields| {
                let may_name_set = release.has_one_kind_of_patch();
                fields.only(&["patches"])?.list("patches", |fields| Patch::read(fields, may_name_set))
            })?,
            resources: fields.list("resources", Template::read)?,
            write_connection_secret_to_ref: fields
                .optional("writeConnectionSecretToRef", SecretReference::read)?,
        })
    }
}

impl PatchSet {
    fn read(fields: Fields<'_>) -> Result<Self> {
        let may_name_set = fields.release.has_one_kind_of_patch();
        let fields = fields.only(&["name", "patches"])?;
        let patches = fields.list("patches", |fields| Patch::read(fields, may_name_set))?;
        Ok(Self { name: fields.text("name")?, patches })
    }
}

impl Template {
    fn read(fields: Fields<'_>) -> Result<Self> {
        let fields = fields.only(&["name", "base", "patches", "connectionDetails", "readinessChecks"])?;
        Ok(Self {
            name: fields.text("name")?,
            base: fields.value("base").cloned(),
            patches: fields.list("patches", |fields| Patch::read(fields, true))?,
            connection_details: fields.list("connectionDetails", ConnectionDetail::read)?,
            readiness_checks: fields.list("readinessChecks", ReadinessCheck::read)?,
        })
    }
}

impl SecretReference {
    fn read(fields: Fields<'_>) -> Result<Self> {
        let fields = fields.only(&["name", "namespace", "patches"])?;
        let patches = fields.list("patches", |fields| Patch::read(fields, false))?;
        Ok(Self { name: fields.text("name")?, namespace: fields.text("namespace")?, patches })
    }
}

impl Patch {
    /// Only patches of composed resources name patch sets.
    fn read(fields: Fields<'_>, may_name_set: bool) -> Result<Self> {
        const NAMES: &[&str] =
            &["patchSetName", "type", "fromFieldPath", "toFieldPath", "combine", "transforms", "policy"];
        // The first one is `patchSetName`.
        let fields = fields.only(if may_name_set { NAMES } else { &NAMES[1..] })?;
        let kind = fields.text("type")?;
        Ok(Self {
            kind: if kind.is_empty() { Self::DEFAULT.to_owned() } else { kind },
            patch_set_name: fields.optional_text("patchSetName")?,
            from_field_path: fields.optional_text("fromFieldPath")?,
            to_field_path: fields.optional_text("toFieldPath")?,
            combine: fields.optional("combine", Combine::read)?,
            transforms: fields.list("transforms", Transform::read)?,
            policy: fields.optional("policy", |fields| {
                const NAMES: &[&str] = &["fromFieldPath", "toFieldPath"];
                let has_both = fields.release.has_to_field_path_policy();
                let fields = fields.only(if has_both { NAMES } else { &NAMES[..1] })?;
                let from_field_path = fields.optional_text("fromFieldPath")?;
                Ok(Policy { from_field_path, to_field_path: fields.optional_text("toFieldPath")? })
            })?,
        })
    }
}

impl Combine {
    fn read(fields: Fields<'_>) -> Result<Self> {
        let fields = fields.only(&["variables", "strategy", "string"])?;
        Ok(Self {
            variables: fields
                .list("variables", |fields| fields.only(&["fromFieldPath"])?.text("fromFieldPath"))?,
            strategy: fields.text("strategy")?,
            format: fields.optional("string", |fields| fields.only(&["fmt"])?.text("fmt"))?,
        })
    }
}

impl Transform {
    fn read(fields: Fields<'_>) -> Result<Self> {
        let fields = fields.only(&["type", "math", "map", "match", "string", "convert"])?;
        Ok(Self {
            kind: fields.text("type")?,
            math: fields.optional("math", Math::read)?,
            map: fields.optional("map", |fields| Ok(fields.object.cloned().unwrap_or_default()))?,
            matching: fields.optional("match", Match::read)?,
            string: fields.optional("string", StringTransform::read)?,
            convert: fields.optional("convert", |fields| {
                let fields = fields.only(&["toType", "format"])?;
                Ok(Convert { to_type: fields.text("toType")?, format: fields.optional_text("format")? })
            })?,
        })
    }
}

impl Math {
    fn read(fields: Fields<'_>) -> Result<Self> {
        let fields = fields.only(&["type", "multiply", "clampMin", "clampMax"])?;
        Ok(Self {
            kind: fields.text("type")?,
            multiply: fields.optional_integer("multiply")?,
            clamp_min: fields.optional_integer("clampMin")?,
            clamp_max: fields.optional_integer("clampMax")?,
        })
    }
}

impl Match {
    fn read(fields: Fields<'_>) -> Result<Self> {
        let fields = fields.only(&["patterns", "fallbackValue", "fallbackTo"])?;
        Ok(Self {
            patterns: fields.list("patterns", |fields| {
                let fields = fields.only(&["type", "literal", "regexp", "result"])?;
                Ok(Pattern {
                    kind: fields.text("type")?,
                    literal: fields.optional_text("literal")?,
                    regexp: fields.optional_text("regexp")?,
                    result: fields.value("result").cloned(),
                })
            })?,
            fallback_value: fields.value("fallbackValue").cloned(),
            fallback_to: fields.text("fallbackTo")?,
        })
    }
}

impl StringTransform {
    fn read(fields: Fields<'_>) -> Result<Self> {
        const NAMES: &[&str] = &["type", "fmt", "convert", "trim", "regexp", "join", "replace"];
        let fields = fields.only(if fields.release.joins_and_replaces() { NAMES } else { &NAMES[..5] })?;
        Ok(Self {
            kind: fields.text("type")?,
            format: fields.optional_text("fmt")?,
            convert: fields.optional_text("convert")?,
            trim: fields.optional_text("trim")?,
            regexp: fields.optional("regexp", |fields| {
                let fields = fields.only(&["match", "group"])?;
                Ok((fields.text("match")?, fields.optional_integer("group")?))
            })?,
            join: fields.optional("join", |fields| fields.only(&["separator"])?.text("separator"))?,
            replace: fields.optional("replace", |fields| {
                let fields = fields.only(&["search", "replace"])?;
                Ok((fields.text("search")?, fields.text("replace")?))
            })?,
        })
    }
}

impl ConnectionDetail {
    fn read(fields: Fields<'_>) -> Result<Self> {
        let fields = fields.only(&["name", "type", "fromConnectionSecretKey", "fromFieldPath", "value"])?;
        Ok(Self {
            name: fields.text("name")?,
            kind: fields.text("type")?,
            from_connection_secret_key: fields.optional_text("fromConnectionSecretKey")?,
            from_field_path: fields.optional_text("fromFieldPath")?,
            value: fields.optional_text("value")?,
        })
    }
}

impl ReadinessCheck {
    fn read(fields: Fields<'_>) -> Result<Self> {
        let fields = fields.only(&["type", "fieldPath", "matchString", "matchInteger", "matchCondition"])?;
        Ok(Self {
            kind: fields.text("type")?,
            field_path: fields.optional_text("fieldPath")?,
            match_string: fields.optional_text("matchString")?,
            match_integer: fields.optional_integer("matchInteger")?,
            match_condition: fields.optional("matchCondition", |fields| {
                let fields = fields.only(&["type", "status"])?;
                Ok((fields.text("type")?, fields.text("status")?))
            })?,
        })
    }
}

/// The fields of an object that is being read. Null has none.
#[derive(Clone, Copy)]
struct Fields<'a> {
    object: Option<&'a Map<String, Value>>,
    /// What the release knows of them. The rest is not there for it.
    known: Option<&'static [&'static str]>,
    release: Release,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value, release: Release) -> Result<Self> {
        let object = match value {
            Value::Object(object) => Some(object),
            Value::Null => None,
            _ => return Err(Problem::new("is not an object")),
        };
        Ok(Self { object, known: None, release })
    }

    /// The same, if it contains only these fields, or if others are accepted.
    fn only(self, names: &'static [&'static str]) -> Result<Self> {
        let is_unknown = |name: &&String| !names.contains(&name.as_str());
        match self.object.and_then(|object| object.keys().find(is_unknown)) {
            Some(name) if !self.release.ignores_unknown_fields() => {
                Err(Problem::new(format!("there is no such field; known are {}", names.join(", ")))
                    .under(name))
            }
            _ => Ok(Self { known: Some(names), ..self }),
        }
    }

    fn value(self, name: &str) -> Option<&'a Value> {
        let is_known = self.known.is_none_or(|known| known.contains(&name));
        self.object?.get(name).filter(|value| is_known && !value.is_null())
    }

    fn text(self, name: &str) -> Result<String> {
        self.optional_text(name).map(Option::unwrap_or_default)
    }

    fn optional_text(self, name: &str) -> Result<Option<String>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Problem::new("is not a string").under(name)),
        }
    }

    fn optional_integer(self, name: &str) -> Result<Option<i64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let whole = value.as_number().and_then(integer);
        whole.map(Some).ok_or_else(|| Problem::new("is not an integer").under(name))
    }

    fn optional<T>(self, name: &str, read: impl FnOnce(Fields<'a>) -> Result<T>) -> Result<Option<T>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        Fields::of(value, self.release).and_then(read).map(Some).map_err(|problem| problem.under(name))
    }

    fn list<T>(self, name: &str, read: impl Fn(Fields<'a>) -> Result<T>) -> Result<Vec<T>> {
        let items = match self.value(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(_) => return Err(Problem::new("is not a list").under(name)),
        };
        let read_item = |(at, item)| {
            Fields::of(item, self.release)
                .and_then(&read)
                .map_err(|problem| problem.under(&format!("{name}[{at}]")))
        };
        items.iter().enumerate().map(read_item).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mistake(input: &Value) -> String {
        Resources::read(input.as_object().unwrap(), Release::V0_10).unwrap_err().to_string()
    }

    #[test]
    fn null_stands_for_nothing() {
        let input = json!({"patchSets": null, "resources": [null, {"name": null, "base": null}], "environment": null});
        let resources = Resources::read(input.as_object().unwrap(), Release::V0_10).unwrap();
        assert_eq!(resources.resources.len(), 2);
        assert!(resources.environment.is_none() && resources.resources[1].base.is_none());
    }

    #[test]
    fn mistake_is_named_with_its_place() {
        let unknown = mistake(&json!({"resources": [{"name": "a", "patches": [{"typo": 1}]}]}));
        assert!(unknown.starts_with("resources[0].patches[0].typo: there is no such field"), "{unknown}");
        assert_eq!(mistake(&json!({"resources": {}})), "resources: is not a list");
        assert_eq!(mistake(&json!({"patchSets": [1]})), "patchSets[0]: is not an object");
        assert_eq!(mistake(&json!({"kind": 1})), "kind: is not a string");
        let check = json!({"resources": [{"readinessChecks": [{"matchInteger": 1.5}]}]});
        assert_eq!(mistake(&check), "resources[0].readinessChecks[0].matchInteger: is not an integer");
    }
}
