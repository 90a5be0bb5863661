//! Finds what Crossplane 1 supported in Compositions and a pipeline cannot do: fields without an effect, or with less than they say, and
//! patches that cannot be applied.
//!
//! A field without an effect is reported. A patch that would be lost makes the composition fail: users rely on the values that it wrote.

use ferroplane_api::{CompositionSpec, Mode, Object};
use serde_json::Value;

use crate::external::shortened_timeout;
use crate::pipeline::PipelineError;

/// A field of a composition that is accepted and has no effect, or less than it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IneffectiveField {
    /// The path of the field.
    pub field: String,
    /// Why that is so, and what to do.
    pub message: String,
}

/// A field that has no effect in compositions of a mode, or in none.
struct FormerField {
    name: &'static str,
    path: &'static str,
    /// The mode in which it has no effect. None if it never has one.
    mode: Option<Mode>,
    /// Why, and what to do.
    reason: &'static str,
}

const FORMER: [FormerField; 5] = [
    FormerField {
        name: "publishConnectionDetailsWithStoreConfigRef",
        path: "spec.publishConnectionDetailsWithStoreConfigRef",
        mode: None,
        reason: "external secret stores were removed from Crossplane 2, and connection details go to Secrets; remove the field",
    },
    FormerField {
        name: "environment",
        path: "spec.environment",
        mode: Some(Mode::Pipeline),
        reason: "the mode is Pipeline; call function-environment-configs in a step instead",
    },
    FormerField {
        name: "resources",
        path: "spec.resources",
        mode: Some(Mode::Pipeline),
        reason: "the mode is Pipeline; call function-patch-and-transform in a step, or set `mode: Resources`",
    },
    FormerField {
        name: "patchSets",
        path: "spec.patchSets",
        mode: Some(Mode::Pipeline),
        reason: "the mode is Pipeline; call function-patch-and-transform in a step, or set `mode: Resources`",
    },
    FormerField {
        name: "pipeline",
        path: "spec.pipeline",
        mode: Some(Mode::Resources),
        reason: "the mode is Resources; remove the field, or set `mode: Pipeline`",
    },
];

/// The fields in the spec of a composition that have no effect, or less than they say.
pub fn ineffective_fields(spec: &Value) -> Vec<IneffectiveField> {
    let is_set = |name: &str| match spec.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    };
    let is_pipeline = match spec.get("mode").and_then(Value::as_str) {
        Some(mode) => mode == "Pipeline",
        None => !is_set("resources"),
    };
    let mode = if is_pipeline { Mode::Pipeline } else { Mode::Resources };
    let fields = FORMER.iter().filter(|field| field.mode.is_none_or(|it| it == mode) && is_set(field.name));
    let without_effect = fields.map(|field| IneffectiveField {
        field: field.path.to_owned(),
        message: format!("{} has no effect: {}", field.path, field.reason),
    });
    without_effect.chain(long_timeouts(spec)).collect()
}

/// Timeouts in `functions` that are longer than a call for a composite resource can be.
fn long_timeouts(spec: &Value) -> impl Iterator<Item = IneffectiveField> {
    let functions = spec.get("functions").and_then(Value::as_array).into_iter().flatten().enumerate();
    functions.flat_map(|(index, function)| {
        ["container", "chroot", "webhook"].into_iter().filter_map(move |kind| {
            let timeout = function.get(kind)?.get("timeout")?.as_str()?;
            let effective = shortened_timeout(timeout)?;
            let field = format!("spec.functions[{index}].{kind}.timeout");
            let message = format!(
                "{field}: {timeout} has the effect of {effective}: a composite resource has two minutes for all \
                 its steps"
            );
            Some(IneffectiveField { field, message })
        })
    })
}

/// Refuse patches that write to the composite resource outside of its status.
///
/// Crossplane 1 applied patches of `mode: Resources` to the whole composite resource. A pipeline can only give it a status,
/// so such a patch would be dropped in silence.
pub(crate) fn check_patches(spec: &CompositionSpec) -> Result<(), PipelineError> {
    if spec.mode() != Mode::Resources {
        return Ok(());
    }
    for (index, set) in spec.patch_sets.iter().enumerate() {
        check_list(set, &format!("patchSets[{index}]"), &TO_COMPOSITE)?;
    }
    for (index, resource) in spec.resources.iter().enumerate() {
        check_list(resource, &format!("resources[{index}]"), &TO_COMPOSITE)?;
    }
    // From the environment's point of view, `from` it means to the composite resource.
    spec.environment.as_ref().map_or(Ok(()), |environment| {
        check_list(
            environment,
            "environment",
            &[TO_COMPOSITE[0], TO_COMPOSITE[1], "FromEnvironmentFieldPath"],
        )
    })
}

const TO_COMPOSITE: [&str; 2] = ["ToCompositeFieldPath", "CombineToComposite"];

fn check_list(owner: &Object, at: &str, kinds: &[&str]) -> Result<(), PipelineError> {
    let patches = owner.get("patches").and_then(Value::as_array);
    for (index, patch) in patches.into_iter().flatten().enumerate() {
        let text = |field: &str| patch.get(field).and_then(Value::as_str);
        let path = text("toFieldPath").or_else(|| text("fromFieldPath")).unwrap_or_default();
        let is_checked = text("type").is_some_and(|kind| kinds.contains(&kind));
        if is_checked && path.split(['.', '[']).next() != Some("status") {
            return Err(PipelineError::PatchOfComposite {
                patch: format!("{at}.patches[{index}]"),
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(mut spec: Value) -> Result<(), String> {
        spec["compositeTypeRef"] = json!({"apiVersion": "example.org/v1", "kind": "XR"});
        let spec = serde_json::from_value(spec).unwrap();
        crate::Pipeline::of(&spec).map(|_| ()).map_err(|error| error.to_string())
    }

    fn patched(patch: &Value) -> Value {
        json!({"resources": [{"name": "a", "base": {}}, {"name": "b", "base": {}, "patches": [{"fromFieldPath": "spec.x"}, patch]}]})
    }

    #[test]
    fn patch_to_anything_but_the_status_fails() {
        for path in ["spec.region", "metadata.annotations[x]", "spec[region]"] {
            let patch =
                json!({"type": "ToCompositeFieldPath", "fromFieldPath": "status.a", "toFieldPath": path});
            let said = check(patched(&patch)).unwrap_err();
            assert!(said.starts_with(&format!("`resources[1].patches[1]` writes `{path}`")), "{said}");
        }
        let same_field = json!({"type": "ToCompositeFieldPath", "fromFieldPath": "spec.region"});
        assert!(check(patched(&same_field)).is_err());
        let combined = json!({"type": "CombineToComposite", "toFieldPath": "metadata.name"});
        assert!(check(patched(&combined)).is_err());
        let sets =
            json!({"resources": [{"name": "a"}], "patchSets": [{"name": "s", "patches": [same_field]}]});
        assert!(check(sets).unwrap_err().starts_with("`patchSets[0].patches[0]`"));
        let environment = json!({"patches": [{"type": "ToCompositeFieldPath", "fromFieldPath": "spec.x"}]});
        assert!(check(json!({"resources": [{"name": "a"}], "environment": environment})).is_err());
    }

    #[test]
    fn patch_to_the_status_or_in_a_pipeline_does_not() {
        for path in ["status.a", "status[a]", "status"] {
            let patch =
                json!({"type": "ToCompositeFieldPath", "fromFieldPath": "spec.a", "toFieldPath": path});
            assert_eq!(check(patched(&patch)), Ok(()), "{path}");
        }
        let from =
            json!({"type": "FromCompositeFieldPath", "fromFieldPath": "spec.a", "toFieldPath": "spec.b"});
        assert_eq!(check(patched(&from)), Ok(()));
        let mut pipeline =
            patched(&json!({"type": "ToCompositeFieldPath", "fromFieldPath": "a", "toFieldPath": "spec.b"}));
        pipeline["mode"] = json!("Pipeline");
        pipeline["pipeline"] = json!([{"step": "s", "functionRef": {"name": "f"}}]);
        assert_eq!(check(pipeline), Ok(()));
    }

    #[test]
    fn field_that_has_no_effect_is_named() {
        assert_eq!(ineffective_fields(&json!({"resources": []})), []);
        let named =
            ineffective_fields(&json!({"publishConnectionDetailsWithStoreConfigRef": {"name": "default"}}));
        assert_eq!(named[0].field, "spec.publishConnectionDetailsWithStoreConfigRef");
        assert!(named[0].message.contains("has no effect"));
        let named =
            |spec: Value| ineffective_fields(&spec).into_iter().map(|it| it.field).collect::<Vec<_>>();
        let all = json!({"environment": {}, "resources": [{}], "patchSets": [{}], "pipeline": [{}]});
        let with_mode = |mode: &str| {
            let mut spec = all.clone();
            spec["mode"] = json!(mode);
            spec
        };
        assert_eq!(named(with_mode("Pipeline")), ["spec.environment", "spec.resources", "spec.patchSets"]);
        assert_eq!(named(with_mode("Resources")), ["spec.pipeline"]);
        assert_eq!(named(json!({"environment": {}, "resources": [{}], "pipeline": []})), [""; 0]);
    }

    #[test]
    fn timeout_that_is_longer_than_a_composite_resource_can_wait_is_named() {
        let function =
            |timeout: &str| json!({"name": "a", "type": "Webhook", "webhook": {"timeout": timeout}});
        let spec = json!({"functions": [function("90s"), function("5m"), {"name": "b"}, function("soon")]});
        let [found]: [IneffectiveField; 1] = ineffective_fields(&spec).try_into().unwrap();
        assert_eq!(found.field, "spec.functions[1].webhook.timeout");
        assert_eq!(
            found.message,
            "spec.functions[1].webhook.timeout: 5m has the effect of 90s: a composite resource has two minutes for \
             all its steps"
        );
    }
}
