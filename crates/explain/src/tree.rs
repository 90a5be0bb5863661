//! The tree of the objects that belong to an object.

use std::collections::BTreeSet;

use ferroplane_api::{Object, keys, meta};
use serde::Serialize;

use crate::diagnosis::says;
use crate::id::Id;
use crate::inquiry::{DEEPEST, is_ready};
use crate::look::{Role, children, created_at, deleted_at, is_inactive, ready, role, synced};
use crate::snapshot::{Snapshot, State};
use crate::steps::step_of;

/// An object, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    #[serde(flatten)]
    pub id: Id,
    /// `True`, `False` or `Unknown`; nothing if it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// What the composition calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The step that made it, if that can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// When it was created, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// The first thing that is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

impl Node {
    /// Whether nothing is wrong here or below.
    pub fn is_ready(&self) -> bool {
        self.message.is_none() && self.children.iter().all(Self::is_ready)
    }

    /// Only what is wrong, and what leads there. Nothing if nothing is.
    #[must_use]
    pub fn broken(mut self) -> Option<Self> {
        self.children = self.children.into_iter().filter_map(Self::broken).collect();
        (self.message.is_some() || !self.children.is_empty()).then_some(self)
    }

    /// How many objects there are.
    pub fn count(&self) -> usize {
        1 + self.children.iter().map(Self::count).sum::<usize>()
    }
}

/// The tree of an object, given all that [`crate::wants`] asked for.
pub fn tree(snapshot: &Snapshot, root: &Id) -> Node {
    let mut seen = BTreeSet::new();
    grow(snapshot, root, None, 0, &mut seen)
}

fn grow(snapshot: &Snapshot, id: &Id, above: Option<&Object>, depth: usize, seen: &mut BTreeSet<Id>) -> Node {
    let object = snapshot.object(id);
    let mut node = leaf(snapshot, id, object, above);
    // What is referred to twice is shown twice, but what is below it only once.
    if let Some(object) = object.filter(|_| depth < DEEPEST && seen.insert(id.clone())) {
        let children = children(snapshot, id, object);
        // To a depth: a reference that leads back up, or a long chain, must not end in a stack
        // overflow.
        node.children =
            children.iter().map(|child| grow(snapshot, child, Some(object), depth + 1, seen)).collect();
    }
    node
}

fn leaf(snapshot: &Snapshot, id: &Id, object: Option<&Object>, above: Option<&Object>) -> Node {
    let Some(object) = object else {
        // What was not asked for is not known to be missing.
        let is_known =
            matches!(snapshot.state(id), Some(State::Missing | State::UnknownKind | State::Unreadable(_)));
        let message = if is_known { says(snapshot, id) } else { "was not read".to_owned() };
        let (synced, ready, resource, step) = (None, None, None, None);
        return Node {
            id: id.clone(),
            synced,
            ready,
            resource,
            step,
            created_at: None,
            message: Some(message),
            children: Vec::new(),
        };
    };
    let role = role(snapshot, id, object);
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Node {
        id: id.clone(),
        synced: synced(object).and_then(|it| text(it.status)),
        ready: ready(object).and_then(|it| text(it.status)),
        resource: text(meta::annotation(object, keys::RESOURCE_NAME)),
        step: above
            .filter(|above| crate::look::role(snapshot, &Id::of(above), above) == Role::Composite)
            .and_then(|above| step_of(snapshot, above, object))
            .map(str::to_owned),
        created_at: text(created_at(object)),
        message: (!is_well(role, object)).then(|| wrong(snapshot, id, object)),
        children: Vec::new(),
    }
}

/// What was replaced by something newer is well, whatever it says.
fn is_well(role: Role, object: &Object) -> bool {
    is_inactive(object) || is_ready(role, object)
}

fn wrong(snapshot: &Snapshot, id: &Id, object: &Object) -> String {
    let says = says(snapshot, id);
    if !deleted_at(object).is_empty() || says != "is ready" {
        return says;
    }
    if crate::look::is_paused(object) {
        "is paused".to_owned()
    } else {
        "a change has not been reconciled yet".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Plane, bucket, condition, revision, root};

    #[test]
    fn tree_shows_conditions_steps_and_what_is_wrong() {
        let ready = bucket(json!([condition("Ready", "True", "Available", "")]));
        let node = tree(&Plane::unready("bucket").and(ready).read(), &root());
        assert_eq!(node.message.as_deref(), Some("Ready is False: Unready resources: bucket"));
        assert_eq!((node.synced.as_deref(), node.ready.as_deref()), (Some("True"), Some("False")));
        let [child] = &node.children[..] else { panic!("{node:?}") };
        assert_eq!((child.step.as_deref(), child.resource.as_deref()), (Some("compose"), Some("bucket")));
        assert!(child.is_ready() && !node.is_ready());
        let broken = node.broken().map(|node| node.count());
        assert_eq!(broken, Some(1));
    }

    #[test]
    fn object_that_nothing_acts_on_is_shown_as_such() {
        let provider = json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Provider", "metadata": {"name": "p", "generation": 1},
            "status": {"conditions": [
                {"type": "Installed", "status": "False", "reason": "NotSupported", "message": "nothing acts on it", "code": "KindNotSupported"},
                {"type": "Healthy", "status": "False", "reason": "NotSupported", "message": "nothing acts on it", "code": "KindNotSupported"},
            ]},
        });
        // It has no conditions in which it could say so.
        let config = json!({
            "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig", "metadata": {"name": "c"},
        });
        for (object, words) in [(provider, "nothing acts on it"), (config, "has no effect")] {
            let object = crate::testing::object(&object);
            let id = Id::of(&object);
            let mut snapshot = Plane::with(json!([])).read().at(crate::snapshot::Home::Embedded);
            snapshot.put(id.clone(), State::Here(Box::new(object)));
            let node = tree(&snapshot, &id);
            assert!(!node.is_ready(), "{node:?}");
            assert!(node.message.as_deref().is_some_and(|message| message.contains(words)), "{node:?}");
        }
    }

    #[test]
    fn composite_resource_of_a_claim_has_no_step() {
        let plane = Plane::unready("bucket").but("CompositeResourceDefinition", |it| {
            it["spec"]["claimNames"] = json!({"kind": "Bucket", "plural": "buckets"});
            it["spec"]["group"] = "cloud.io".into();
            it["spec"]["names"]["kind"] = "XBucket".into();
        });
        let mut claim = bucket(json!([]));
        claim["spec"] = json!({
            "resourceRef": {"apiVersion": "demo.io/v1", "kind": "App", "name": "hello"},
            "compositionRevisionRef": {"name": "app-1"},
        });
        let snapshot = plane.and(claim).read();
        let id = Id::new("cloud.io/v1", "Bucket", "default", "b");
        let mut snapshot = snapshot;
        snapshot.put(Id::new("demo.io/v1", "App", "", "hello"), snapshot.state(&root()).unwrap().clone());
        let node = tree(&snapshot, &id);
        assert_eq!(node.children[0].step, None);
    }

    #[test]
    fn step_is_the_one_whose_input_names_the_resource() {
        let mut revision = revision("app-1", 1, &[("one", "function-a"), ("two", "function-b")]);
        let step =
            |revision| tree(&Plane::unready("bucket").and(revision).read(), &root()).children[0].step.clone();
        assert_eq!(step(revision.clone()), None);
        revision["spec"]["pipeline"][1]["input"] = json!({"resources": [{"name": "bucket"}]});
        assert_eq!(step(revision).as_deref(), Some("two"));
    }
}
