//! The effect of a change on a control plane, as data: which composite resources it affects, and what happens to each of their objects,
//! field by field. Compares and groups; reads nothing.
//!
//! # Invariants
//! * The same objects always give the same changes, in the same order: deletions and replacements first.
//! * No value of a Secret is in a change.

mod compare;
mod group;
mod schema;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use compare::{FieldChange, REDACTED, agree_on, comparable, compare};
pub use group::{ChangeGroup, group_alike};
pub use schema::harmful_schema_change;

use ferroplane_api::{Object, meta};

/// The name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl ObjectName {
    pub fn of(object: &Object) -> Self {
        Self {
            api_version: meta::api_version(object).to_owned(),
            kind: meta::kind(object).to_owned(),
            namespace: meta::namespace(object).to_owned(),
            name: meta::name(object).to_owned(),
        }
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, namespace, name, .. } = self;
        match namespace.as_str() {
            "" => write!(f, "{kind}/{name}"),
            namespace => write!(f, "{kind}/{name} in {namespace}"),
        }
    }
}

/// What happens to an object, in the order in which changes are shown: changes that cannot be undone come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Delete,
    /// It is deleted, and a new object of another name or kind becomes the same composed resource.
    Replace,
    Create,
    Update,
}

/// What happens to one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub action: Action,
    pub object: ObjectName,
    /// The resource name in the composition, if the object is composed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The object that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ObjectName>,
    /// All fields, if the object is created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// Why the API server would refuse the change, if it would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Change {
    /// The change from one version of an object to another. None if nothing changes.
    pub fn between(before: Option<&Object>, after: Option<&Object>) -> Option<Self> {
        let object = ObjectName::of(after.or(before)?);
        let action = match (before, after) {
            (None, _) => Action::Create,
            (_, None) => Action::Delete,
            // Another object has the name now.
            (Some(before), Some(after)) if meta::uid(before) != meta::uid(after) => Action::Replace,
            _ => Action::Update,
        };
        // A deleted object loses all of its fields: to list them adds nothing.
        let fields = if action == Action::Delete { Vec::new() } else { compare(before, after) };
        if action == Action::Update && fields.is_empty() {
            return None;
        }
        let known_as = after.or(before).map(|object| resource_of(object).to_owned()).unwrap_or_default();
        let replaces = (action == Action::Replace).then(|| object.clone());
        Some(Self { action, object, resource: known_as, replaces, fields, refused: None })
    }
}

fn resource_of(object: &Object) -> &str {
    meta::annotation(object, ferroplane_api::keys::RESOURCE_NAME)
}

/// Pair deletions with creations of the same composed resource, and sort: changes that cannot be undone come first.
pub fn arrange(changes: Vec<Change>) -> Vec<Change> {
    let (deleted, mut others): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.action == Action::Delete);
    for deletion in deleted {
        let takes_its_place = |change: &&mut Change| {
            change.action == Action::Create
                && !deletion.resource.is_empty()
                && change.resource == deletion.resource
        };
        match others.iter_mut().find(takes_its_place) {
            Some(creation) => {
                creation.action = Action::Replace;
                creation.replaces = Some(deletion.object);
            }
            None => others.push(deletion),
        }
    }
    others.sort_by(|one, other| {
        (one.action, &one.resource, &one.object).cmp(&(other.action, &other.resource, &other.object))
    });
    others
}

/// The effect on a composite resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum Verdict {
    /// Nothing changes.
    Unchanged,
    /// The changes are known exactly.
    Changed,
    /// Its reconcile would fail. Its composed resources stay as they are.
    Fails { reason: String },
    /// The effect cannot be predicted.
    Refused { reason: String },
    /// Nothing happens to it, because it is paused or being deleted.
    Skipped { reason: String },
}

/// The effect of a change on one composite resource and its composed resources. Nested composite resources have a plan of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompositePlan {
    pub composite: ObjectName,
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The CompositionRevision that it would use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// How many objects change that the user who requested the plan may not read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hidden: usize,
}

/// The effect of a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangePlan {
    /// The changes of the objects in the files themselves.
    #[serde(default)]
    pub proposed: Vec<Change>,
    /// The composite resources that the change affects.
    #[serde(default)]
    pub composites: Vec<CompositePlan>,
    /// How many more it affects that the user who requested the plan may not read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hidden: usize,
    /// How many composite resources there are in all.
    pub considered: usize,
    /// Identifies all objects that the plan was made from.
    pub basis: String,
    /// The versions of those objects, as far as the user who requested the plan may read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<ObjectVersion>,
}

/// A version of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectVersion {
    #[serde(flatten)]
    pub object: ObjectName,
    /// Empty if the object does not exist.
    pub resource_version: String,
}

impl ChangePlan {
    /// Whether anything would change, or the effect cannot be predicted.
    pub fn has_differences(&self) -> bool {
        let is_touched = |composite: &CompositePlan| {
            !matches!(composite.verdict, Verdict::Unchanged | Verdict::Skipped { .. })
        };
        !self.proposed.is_empty() || self.hidden > 0 || self.composites.iter().any(is_touched)
    }

    /// Whether the effect on some composite resource cannot be predicted.
    pub fn is_refused(&self) -> bool {
        self.composites.iter().any(|composite| matches!(composite.verdict, Verdict::Refused { .. }))
    }
}

/// The objects whose versions differ between two plans for the same change.
pub fn moved(before: &ChangePlan, after: &ChangePlan) -> Vec<ObjectName> {
    let only_in = |one: &ChangePlan, other: &ChangePlan| {
        let versions = one.versions.iter().filter(|version| !other.versions.contains(version));
        versions.map(|version| version.object.clone()).collect::<Vec<_>>()
    };
    let mut names = only_in(before, after);
    names.extend(only_in(after, before));
    names.sort();
    names.dedup();
    names
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Replace placeholders for strings that are unknown before an object exists.
pub fn substitute(value: &mut Value, replacements: &std::collections::BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(replacement) = replacements.get(text) {
                text.clone_from(replacement);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| substitute(item, replacements)),
        Value::Object(fields) => fields.values_mut().for_each(|field| substitute(field, replacements)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
