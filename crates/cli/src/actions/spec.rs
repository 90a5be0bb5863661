//! ActionSets as data: one action for each object, or the actions of one that is complete, once more.

use ferroplane_api::{Object, meta};
use serde_json::{Value, json};

use super::{API_VERSION, state};

/// What a user says about the actions of an ActionSet. Whatever is empty was not said.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActionParameters {
    pub(crate) action: String,
    pub(crate) blueprint: Option<String>,
    pub(crate) objects: Vec<Object>,
    pub(crate) config_maps: Object,
    pub(crate) secrets: Object,
    pub(crate) profile: Option<Object>,
    pub(crate) options: Object,
    pub(crate) preferred_version: Option<String>,
    pub(crate) pod_labels: Object,
    pub(crate) pod_annotations: Object,
}

/// What an ActionSet takes over from one that it continues from.
const INHERITED: [&str; 10] = [
    "blueprint",
    "object",
    "configMaps",
    "secrets",
    "profile",
    "options",
    "preferredVersion",
    "podOverride",
    "podLabels",
    "podAnnotations",
];

/// How an ActionSet is called.
#[derive(Debug, Clone, Default)]
pub(crate) struct Naming {
    pub(crate) name: Option<String>,
    pub(crate) namespace: String,
    pub(crate) labels: Object,
}

/// An ActionSet with an action for each object, or one about none.
pub(crate) fn new(parameters: &ActionParameters, naming: &Naming) -> Result<Object, String> {
    let Some(blueprint) = &parameters.blueprint else {
        return Err("name the Blueprint with --blueprint, or a complete ActionSet with --from".to_owned());
    };
    let about = if parameters.objects.is_empty() { vec![Object::new()] } else { parameters.objects.clone() };
    let actions = about.into_iter().map(|object| {
        let mut action = json!({"name": parameters.action, "blueprint": blueprint});
        if !object.is_empty() {
            action["object"] = object.into();
        }
        override_with(&mut action, parameters);
        action
    });
    Ok(action_set(actions.collect(), &format!("{}-", parameters.action), naming))
}

/// An ActionSet that continues where another one ended: for each action of the parent one with what it left.
///
/// What the parent was given is given on, the version of functions that it preferred included: what a backup made should be restored by
/// the same version. Kanister forgets that, and the overrides of pods.
pub(crate) fn child(
    parent: &Object,
    parameters: &ActionParameters,
    naming: &Naming,
) -> Result<Object, String> {
    let parent_name = meta::name(parent);
    // One that failed may have left half of its artifacts, and a restore from those is worse than none.
    if state(parent) != "complete" {
        return Err(format!(
            "ActionSet `{parent_name}` is {}: only a complete ActionSet can be continued",
            state(parent)
        ));
    }
    let actions =
        |place: &str| parent.get(place).and_then(|it| it["actions"].as_array()).cloned().unwrap_or_default();
    let (specs, statuses) = (actions("spec"), actions("status"));
    if specs.is_empty() {
        return Err(format!("ActionSet `{parent_name}` has no actions"));
    }
    if !parameters.objects.is_empty() && parameters.objects.len() != specs.len() {
        return Err(format!(
            "ActionSet `{parent_name}` has {} actions, and {} objects are named: name as many, or none",
            specs.len(),
            parameters.objects.len()
        ));
    }
    let children = specs.iter().enumerate().map(|(index, spec)| {
        let mut action = json!({"name": parameters.action});
        // The spec of the parent, and not its status: the status has what was resolved, not what was asked for.
        for field in INHERITED {
            if let Some(value) = spec.get(field) {
                action[field] = value.clone();
            }
        }
        if let Some(artifacts) = statuses.get(index).and_then(|status| status.get("artifacts"))
            && artifacts.as_object().is_some_and(|it| !it.is_empty())
        {
            action["artifacts"] = artifacts.clone();
        }
        if let Some(blueprint) = &parameters.blueprint {
            action["blueprint"] = blueprint.clone().into();
        }
        if let Some(object) = parameters.objects.get(index) {
            action["object"] = object.clone().into();
        }
        override_with(&mut action, parameters);
        action
    });
    Ok(action_set(children.collect(), &format!("{}-{parent_name}-", parameters.action), naming))
}

/// What the user says wins, key by key.
fn override_with(action: &mut Value, parameters: &ActionParameters) {
    let maps = [
        ("configMaps", &parameters.config_maps),
        ("secrets", &parameters.secrets),
        ("options", &parameters.options),
        ("podLabels", &parameters.pod_labels),
        ("podAnnotations", &parameters.pod_annotations),
    ];
    for (field, said) in maps {
        if !said.is_empty() {
            let mut merged = action[field].as_object().cloned().unwrap_or_default();
            merged.extend(said.clone());
            action[field] = merged.into();
        }
    }
    if let Some(profile) = &parameters.profile {
        action["profile"] = profile.clone().into();
    }
    if let Some(version) = &parameters.preferred_version {
        action["preferredVersion"] = version.clone().into();
    }
}

fn action_set(actions: Vec<Value>, prefix: &str, naming: &Naming) -> Object {
    let mut metadata = json!({"namespace": naming.namespace});
    match &naming.name {
        Some(name) => metadata["name"] = name.clone().into(),
        // Not the name of the action alone: the same backup is taken many times.
        None => metadata["generateName"] = prefix.into(),
    }
    if !naming.labels.is_empty() {
        metadata["labels"] = naming.labels.clone().into();
    }
    let action_set = json!({
        "apiVersion": API_VERSION, "kind": "ActionSet", "metadata": metadata,
        "spec": {"actions": Value::Array(actions)},
    });
    match action_set {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        match value {
            Value::Object(object) => object,
            other => panic!("{other} is no object"),
        }
    }

    fn naming() -> Naming {
        Naming { namespace: "shop".to_owned(), ..Naming::default() }
    }

    fn restore() -> ActionParameters {
        ActionParameters { action: "restore".to_owned(), ..ActionParameters::default() }
    }

    fn parent(state: &str) -> Object {
        object(json!({
            "metadata": {"name": "backup-x"},
            "spec": {"actions": [{
                "name": "backup", "blueprint": "db", "object": {"kind": "Deployment", "name": "db", "namespace": "shop"},
                "options": {"a": "1", "b": "2"}, "preferredVersion": "v0.1.0", "podOverride": {"priorityClassName": "low"},
                "podLabels": {"l": "1"}, "secrets": {"login": {"name": "s", "namespace": "shop"}},
            }]},
            "status": {"state": state, "actions": [{"name": "backup", "artifacts": {"copy": {"keyValue": {"path": "/a"}}}}]},
        }))
    }

    #[test]
    fn every_object_has_an_action() {
        let parameters = ActionParameters {
            action: "backup".to_owned(),
            blueprint: Some("db".to_owned()),
            objects: vec![object(json!({"name": "a"})), object(json!({"name": "b"}))],
            options: object(json!({"k": "v"})),
            ..ActionParameters::default()
        };
        let made = Value::Object(new(&parameters, &naming()).unwrap());
        assert_eq!(made["metadata"], json!({"namespace": "shop", "generateName": "backup-"}));
        let names: Vec<_> =
            made["spec"]["actions"].as_array().unwrap().iter().map(|it| &it["object"]["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(made["spec"]["actions"][1]["options"], json!({"k": "v"}));
        assert!(new(&restore(), &naming()).unwrap_err().contains("--blueprint"));
    }

    #[test]
    fn child_goes_on_with_what_its_parent_had_and_left() {
        let made = Value::Object(child(&parent("complete"), &restore(), &naming()).unwrap());
        assert_eq!(made["metadata"]["generateName"], "restore-backup-x-");
        let action = &made["spec"]["actions"][0];
        assert_eq!(action["name"], "restore");
        assert_eq!(action["artifacts"], json!({"copy": {"keyValue": {"path": "/a"}}}));
        // Kanister drops these three.
        assert_eq!(action["preferredVersion"], "v0.1.0");
        assert_eq!(action["podOverride"], json!({"priorityClassName": "low"}));
        assert_eq!(action["podLabels"], json!({"l": "1"}));
    }

    #[test]
    fn what_is_said_about_a_child_wins() {
        let parameters = ActionParameters {
            blueprint: Some("other".to_owned()),
            options: object(json!({"b": "3"})),
            preferred_version: Some("v0.2.0".to_owned()),
            ..restore()
        };
        let made = Value::Object(child(&parent("complete"), &parameters, &naming()).unwrap());
        let action = &made["spec"]["actions"][0];
        assert_eq!(action["options"], json!({"a": "1", "b": "3"}));
        assert_eq!((&action["blueprint"], &action["preferredVersion"]), (&json!("other"), &json!("v0.2.0")));
    }

    #[test]
    fn only_a_complete_parent_has_children() {
        for state in ["pending", "running", "failed"] {
            let refused = child(&parent(state), &restore(), &naming()).unwrap_err();
            assert!(refused.contains(&format!("`backup-x` is {state}")), "{refused}");
        }
        let two = ActionParameters { objects: vec![Object::new(), Object::new()], ..restore() };
        assert!(
            child(&parent("complete"), &two, &naming()).unwrap_err().contains("has 1 actions, and 2 objects")
        );
    }
}
