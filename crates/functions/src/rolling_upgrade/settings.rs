//! What a step says to `function-rolling-upgrade`.

use ferroplane_golang::json::integer;
use ferroplane_wire::Struct;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::fieldpath::Path;
use crate::fleet::{ObjectSelector, changed_field, invalid, read_field};
use crate::input;

/// How many batches there may be.
const MOST_BATCHES: usize = 100;
const VERSION_FIELD: &str = "spec.version";
const HEALTHY: [&str; 1] = ["Ready"];

/// An upgrade that can be carried out.
#[derive(Debug)]
pub(super) struct RollingUpgrade<'a> {
    pub(super) targets: ObjectSelector<'a>,
    /// Parts of the fleet, each larger than the one before.
    pub(super) batches: Vec<f64>,
    /// Empty if all versions are to be left.
    pub(super) from_versions: Vec<Value>,
    pub(super) to_version: Value,
    pub(super) version_field: Path,
    /// Where an object says which version it has come to.
    pub(super) observed_version_field: Option<Path>,
    pub(super) healthy_conditions: Vec<&'a str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Input<'a> {
    #[serde(rename = "apiVersion")]
    _api_version: Option<&'a str>,
    #[serde(rename = "kind")]
    _kind: Option<&'a str>,
    #[serde(rename = "metadata")]
    _metadata: Option<Map<String, Value>>,
    #[serde(borrow, deserialize_with = "input::object")]
    targets: Option<ObjectSelector<'a>>,
    batches: Option<Vec<f64>>,
    from_versions: Option<Vec<Value>>,
    to_version: Option<Value>,
    version_field: Option<&'a str>,
    observed_version_field: Option<&'a str>,
    #[serde(borrow)]
    healthy_conditions: Option<Vec<&'a str>>,
}

impl<'a> RollingUpgrade<'a> {
    pub(super) fn read(input: Option<&'a Struct>) -> Result<Self, String> {
        let input: Input<'a> = input::whole(input)?;
        let targets = input.targets.ok_or_else(|| invalid("targets", "is required"))?;
        targets.check("targets")?;
        let to_version = input.to_version.ok_or_else(|| invalid("toVersion", "is required"))?;
        let from_versions = input.from_versions.unwrap_or_default().into_iter().enumerate();
        let from_versions =
            from_versions.map(|(index, from)| version(&format!("fromVersions[{index}]"), &from));
        let settings = Self {
            targets,
            batches: batches(input.batches.unwrap_or_default())?,
            from_versions: from_versions.collect::<Result<_, _>>()?,
            to_version: version("toVersion", &to_version)?,
            version_field: changed_field("versionField", input.version_field.or(Some(VERSION_FIELD)))?,
            observed_version_field: input
                .observed_version_field
                .map(|text| read_field("observedVersionField", text))
                .transpose()?,
            healthy_conditions: input.healthy_conditions.unwrap_or_else(|| HEALTHY.to_vec()),
        };
        match settings.from_versions.iter().position(|from| *from == settings.to_version) {
            Some(index) => Err(invalid(&format!("fromVersions[{index}]"), "is toVersion, too")),
            None => Ok(settings),
        }
    }
}

fn batches(batches: Vec<f64>) -> Result<Vec<f64>, String> {
    if batches.is_empty() {
        return Err(invalid("batches", "is required, for example [0.01, 0.1, 0.5, 1.0]"));
    }
    if batches.len() > MOST_BATCHES {
        return Err(invalid("batches", &format!("has more than {MOST_BATCHES} batches")));
    }
    for (index, batch) in batches.iter().enumerate() {
        let before = index.checked_sub(1).map_or(0.0, |before| batches[before]);
        // Written so that a number that is none does not pass.
        if !(*batch > before && *batch <= 1.0) {
            let words =
                "has to be larger than the batch before it, and at most 1.0, which is the whole fleet";
            return Err(invalid(&format!("batches[{index}]"), words));
        }
    }
    Ok(batches)
}

/// A version as it is written to objects: text, or a whole number.
fn version(field: &str, version: &Value) -> Result<Value, String> {
    match normal(version) {
        Some(Value::String(text)) if text.is_empty() => Err(invalid(field, "is empty")),
        Some(version) => Ok(version),
        None => Err(invalid(field, "is neither text nor a whole number")),
    }
}

/// Versions that are the same compare as the same: numbers of a protobuf `Struct` are doubles.
pub(super) fn normal(version: &Value) -> Option<Value> {
    match version {
        Value::String(text) => Some(text.clone().into()),
        Value::Number(number) => integer(number).map(Value::from),
        _ => None,
    }
}

/// A version as messages have it.
pub(super) fn shown(version: &Value) -> String {
    version.as_str().map_or_else(|| version.to_string(), str::to_owned)
}
