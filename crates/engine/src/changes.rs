//! What a change would do to a control plane, as plain data: which composite resources it reaches, and what happens to each of their
//! objects, field by field. Compares and groups; reads nothing.
//!
//! # Invariants
//! * The same objects always give the same changes, in the same order: deletions and replacements first.
//! * No value of a Secret is in a change.

mod compare;
mod group;
mod schema;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use compare::{FieldChange, REDACTED, comparable, compare};
pub use group::{ChangeGroup, group_alike};
pub use schema::harmful_schema_change;

use ferroplane_api::{Object, meta};

/// An object, by what it is called.
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

/// What happens to an object. In the order in which changes are shown: what cannot be undone comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Delete,
    /// It is deleted, and another object takes its place under the name that the composition knows it by.
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
    /// The name that the composition knows it by, if it is composed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// What is deleted in its favour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ObjectName>,
    /// Of what is created, all of its fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// Why the API server would refuse it, if it would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Change {
    /// What happens to an object that is one thing before and another after. None if nothing does.
    pub fn between(before: Option<&Object>, after: Option<&Object>) -> Option<Self> {
        let object = ObjectName::of(after.or(before)?);
        let action = match (before, after) {
            (None, _) => Action::Create,
            (_, None) => Action::Delete,
            // Something else bears the name now.
            (Some(before), Some(after)) if meta::uid(before) != meta::uid(after) => Action::Replace,
            _ => Action::Update,
        };
        // What is deleted is gone as a whole: its fields say nothing more.
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

/// Pair deletions with creations of the same composed resource, and sort: what cannot be undone comes first.
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

/// What becomes of a composite resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum Verdict {
    /// Everything stays as it is.
    Unchanged,
    /// What changes is known exactly.
    Changed,
    /// It would be reconciled, and fail. What it composes stays as it is.
    Fails { reason: String },
    /// Nobody can say what would happen.
    Refused { reason: String },
    /// Nothing happens to it, because it is paused or being deleted.
    Skipped { reason: String },
}

/// What a change does to one composite resource and what it composes. Composite resources that it composes have a plan of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompositePlan {
    pub composite: ObjectName,
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The revision of a Composition that it would follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Changes of objects that whoever asked may not read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hidden: usize,
}

/// What a change would do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangePlan {
    /// What happens to the objects in the files themselves.
    #[serde(default)]
    pub proposed: Vec<Change>,
    /// The composite resources that the change reaches.
    #[serde(default)]
    pub composites: Vec<CompositePlan>,
    /// How many more it reaches that whoever asked may not read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hidden: usize,
    /// How many composite resources there are in all.
    pub considered: usize,
    /// What identifies everything that the plan was made from.
    pub basis: String,
    /// The versions of what it was made from, as far as whoever asked may read it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<ObjectVersion>,
}

/// A version of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectVersion {
    #[serde(flatten)]
    pub object: ObjectName,
    /// Empty if there is no such object.
    pub resource_version: String,
}

impl ChangePlan {
    /// Whether anything would change, or somebody cannot say.
    pub fn has_differences(&self) -> bool {
        let is_touched = |composite: &CompositePlan| {
            !matches!(composite.verdict, Verdict::Unchanged | Verdict::Skipped { .. })
        };
        !self.proposed.is_empty() || self.hidden > 0 || self.composites.iter().any(is_touched)
    }

    /// Whether it is not known of some composite resource what would happen to it.
    pub fn is_refused(&self) -> bool {
        self.composites.iter().any(|composite| matches!(composite.verdict, Verdict::Refused { .. }))
    }
}

/// What moved between two plans for the same change: objects whose versions differ.
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

/// Replace strings that are not known before an object exists, wherever they stand.
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
