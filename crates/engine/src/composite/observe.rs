//! Finds the composed resources among the objects that a composite resource refers to, with their resource names.

use std::collections::BTreeMap;

use ferroplane_api::{Object, keys, meta};
use serde_json::Value;

use crate::access::is_own_webhook_configuration;

/// A referenced object lacks the annotation with its resource name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "observed resource `{name}` ({kind}) has no annotation `{}`, so it is unknown which composed resource it is",
    keys::RESOURCE_NAME
)]
pub struct Unidentified {
    pub kind: String,
    pub name: String,
}

/// The composed resources among the referenced objects, by resource name.
pub fn observe(
    composite: &Object,
    found: impl IntoIterator<Item = Object>,
) -> Result<BTreeMap<String, Object>, Unidentified> {
    let mut observed = BTreeMap::new();
    for object in found {
        // A namespaced composite resource has no composed resources elsewhere. Users can write references, and one
        // to a cluster-scoped kind has no namespace that could be corrected.
        let home = meta::namespace(composite);
        if !home.is_empty() && meta::namespace(&object) != home {
            continue;
        }
        // They hold a secret. They are never composed, but another client can mark them as if they were.
        if is_own_webhook_configuration(&object) {
            continue;
        }
        // An object with another controller is not composed by this composite resource.
        if meta::controller_uid(&object).is_some_and(|uid| uid != meta::uid(composite)) {
            continue;
        }
        let name = resource_name(&object)?.to_owned();
        // Two objects have one resource name only if a user copied the annotation; the last one counts, as in
        // Crossplane.
        observed.insert(name, object);
    }
    Ok(observed)
}

/// The resource name of a composed object.
pub fn resource_name(object: &Object) -> Result<&str, Unidentified> {
    match meta::annotation(object, keys::RESOURCE_NAME) {
        "" => Err(Unidentified { kind: meta::kind(object).to_owned(), name: meta::name(object).to_owned() }),
        name => Ok(name),
    }
}

/// The labels of composed resources.
const COMPOSED_LABELS: [&str; 3] = [keys::COMPOSITE, keys::CLAIM_NAME, keys::CLAIM_NAMESPACE];

/// The merge patch that removes the labels of composed resources. None if the object has none of them.
pub fn disowning_labels(object: &Object) -> Option<Object> {
    let present = COMPOSED_LABELS.into_iter().filter(|label| !meta::label(object, label).is_empty());
    let removal: Object = present.map(|label| (label.to_owned(), Value::Null)).collect();
    (!removal.is_empty()).then_some(removal)
}

/// Remove the labels of composed resources.
pub fn disown(object: &mut Object) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(labels) = metadata.and_then(|metadata| metadata.get_mut("labels")?.as_object_mut()) {
        labels.retain(|key, _| !COMPOSED_LABELS.contains(&key.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(name: &str, controller: Option<&str>, annotation: Option<&str>) -> Object {
        let mut object = json!({"kind": "ConfigMap", "metadata": {"name": name}});
        if let Some(uid) = controller {
            object["metadata"]["ownerReferences"] = json!([{"uid": uid, "controller": true}]);
        }
        if let Some(annotation) = annotation {
            object["metadata"]["annotations"] = json!({keys::RESOURCE_NAME: annotation});
        }
        object.as_object().unwrap().clone()
    }

    fn names(objects: Vec<Object>) -> Result<Vec<String>, Unidentified> {
        let xr = json!({"metadata": {"uid": "1"}}).as_object().unwrap().clone();
        Ok(observe(&xr, objects)?.into_keys().collect())
    }

    #[test]
    fn what_belongs_to_something_else_does_not_exist() {
        let objects = vec![
            found("a", Some("1"), Some("mine")),
            found("b", None, Some("free")),
            found("c", Some("2"), Some("theirs")),
            found("d", Some("2"), None),
        ];
        assert_eq!(names(objects).unwrap(), ["free", "mine"]);
    }

    #[test]
    fn webhooks_of_the_control_plane_itself_do_not_exist() {
        let hooks = |name: &str| {
            let mut hooks = found(name, Some("1"), Some(name));
            hooks.insert("apiVersion".to_owned(), "admissionregistration.k8s.io/v1".into());
            hooks.insert("kind".to_owned(), "ValidatingWebhookConfiguration".into());
            hooks
        };
        let all = ["mine", "crossplane-no-usages", "ferroplane-function-versions"];
        assert_eq!(names(all.map(hooks).into()).unwrap(), ["mine"]);
    }

    #[test]
    fn nothing_outside_of_the_namespace_exists() {
        let mut here = found("a", None, Some("here"));
        meta::set_field(&mut here, "namespace", "shop");
        let mut there = found("b", None, Some("there"));
        meta::set_field(&mut there, "namespace", "other");
        let cluster = found("c", None, Some("cluster"));
        let xr = json!({"metadata": {"uid": "1", "namespace": "shop"}}).as_object().unwrap().clone();
        let observed = observe(&xr, [here, there, cluster]).unwrap();
        assert_eq!(observed.into_keys().collect::<Vec<_>>(), ["here"]);
    }

    #[test]
    fn object_that_does_not_say_what_it_is_is_refused_by_name() {
        let error = names(vec![found("a", Some("1"), None)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "observed resource `a` (ConfigMap) has no annotation `crossplane.io/composition-resource-name`, \
             so it is unknown which composed resource it is"
        );
    }

    #[test]
    fn what_is_no_longer_composed_loses_the_labels_that_say_so() {
        let labels = json!({"crossplane.io/composite": "x", "crossplane.io/claim-name": "y", "mine": "z"});
        let mut object = json!({"metadata": {"labels": labels}}).as_object().unwrap().clone();
        let removal = json!({"crossplane.io/composite": null, "crossplane.io/claim-name": null});
        assert_eq!(disowning_labels(&object).map(Value::Object), Some(removal));
        disown(&mut object);
        assert_eq!(object["metadata"]["labels"], json!({"mine": "z"}));
        assert_eq!(disowning_labels(&object), None);
    }
}
