//! Pods as Kanister makes them: what the function needs, changed by what the phase and the ActionSet say about pods.

use std::sync::LazyLock;

use ferroplane_api::Object;
use ferroplane_engine::action::Phase;
use ferroplane_schema::builtin;
use ferroplane_schema::patch::{facts::Facts, strategic};
use serde_json::{Value, json};

use crate::phases::arguments::Arguments;
use crate::phases::moves::{Failure, named, suffix};

/// How pods merge.
static POD: LazyLock<Option<Facts>> =
    LazyLock::new(|| builtin::kind("", "v1", "Pod").map(builtin::BuiltinKind::patch_facts));

/// What a function needs of its pod.
pub(super) struct PodTemplate<'a> {
    /// How its name begins.
    pub(super) prefix: &'a str,
    pub(super) namespace: &'a str,
    pub(super) spec: Object,
}

impl PodTemplate<'_> {
    /// The pod. What the ActionSet says wins over what the phase says, as in Kanister.
    pub(super) fn pod(self, phase: &Phase<'_>) -> Result<Object, Failure> {
        let arguments = Arguments(phase.arguments);
        let mut spec = self.spec;
        spec.insert("restartPolicy".to_owned(), "Never".into());
        let mut pod = Object::from_iter([("spec".to_owned(), Value::Object(spec))]);
        merge(&mut pod, "podOverride", arguments.map("podOverride")?)?;
        merge(&mut pod, "podOverride", phase.pod_override.clone())?;
        let mut labels = Object::from_iter([("createdBy".to_owned(), "kanister".into())]);
        labels.extend(arguments.text_map("podLabels")?);
        labels.extend(phase.pod_labels.clone());
        let mut annotations = arguments.text_map("podAnnotations")?;
        annotations.extend(phase.pod_annotations.clone());
        let name = named(self.prefix, &suffix(phase, "pod"), 63);
        let metadata = json!({
            "name": name, "namespace": self.namespace, "labels": labels, "annotations": annotations,
        });
        pod.extend([
            ("apiVersion".to_owned(), "v1".into()),
            ("kind".to_owned(), "Pod".into()),
            ("metadata".to_owned(), metadata),
        ]);
        Ok(pod)
    }
}

fn merge(pod: &mut Object, argument: &str, override_: Object) -> Result<(), Failure> {
    if override_.is_empty() {
        return Ok(());
    }
    let patch = Object::from_iter([("spec".to_owned(), Value::Object(override_))]);
    let kind = POD.as_ref().and_then(|facts| facts.kind("Pod"));
    let kind = kind.ok_or_else(|| Failure::new("the kind Pod is not known"))?;
    strategic::apply(pod, patch, kind).map_err(|error| Failure::argument(argument, error))
}
