//! A function is rolled out gradually on `up`, with kubectl, as docs/rollout.md says.

use serde_json::Value;

use crate::packages::LocalRegistry;
use crate::peers::peer;
use crate::plane::Plane;

pub(crate) const DEFINITION: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: acmebuckets.custom-api.example.org}
spec:
  group: custom-api.example.org
  scope: Namespaced
  names: {kind: AcmeBucket, plural: acmebuckets}
  versions:
  - {name: v1alpha1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object}}}
";

/// A Function with two active revisions, whose current one is in this channel.
pub(crate) fn function(name: &str, image: &str, channel: &str) -> String {
    format!(
        "
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {{name: {name}, labels: {{release-channel: {channel}}}}}
spec: {{package: '{image}', revisionHistoryLimit: 4, activeRevisionLimit: 2}}
"
    )
}

fn composition(name: &str, channel: &str, input: &str) -> String {
    format!(
        "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {{name: example, labels: {{release-channel: {channel}}}}}
spec:
  compositeTypeRef: {{apiVersion: custom-api.example.org/v1alpha1, kind: AcmeBucket}}
  mode: Pipeline
  pipeline:
  - step: compose
    functionRef: {{name: {name}}}
    functionRevisionSelector: {{matchLabels: {{release-channel: {channel}}}}}
    {input}
"
    )
}

fn bucket(name: &str, channel: &str) -> String {
    format!(
        "
apiVersion: custom-api.example.org/v1alpha1
kind: AcmeBucket
metadata: {{name: {name}, namespace: default}}
spec:
  crossplane:
    compositionUpdatePolicy: Manual
    compositionRevisionSelector: {{matchLabels: {{release-channel: {channel}}}}}
"
    )
}

/// Step by step what the design shows: two versions of a function in two channels, and an XR in each. Returns the versions that ran.
pub(crate) fn roll_out(plane: &Plane, name: &str, [old, new]: [&str; 2], input: &str) -> [String; 2] {
    plane.told("kubectl apply -f -", DEFINITION);
    plane.says(
        "kubectl wait xrd/acmebuckets.custom-api.example.org --for=condition=Established --timeout=60s",
    );
    for (image, channel, xr) in [(old, "stable", "other"), (new, "alpha", "my-bucket")] {
        plane.told("kubectl apply -f -", &function(name, image, channel));
        plane.says(&format!(
            "kubectl wait function/{name} --for=jsonpath={{.status.currentIdentifier}}={image} --timeout=60s"
        ));
        plane.says(&format!("kubectl wait function/{name} --for=condition=Healthy --timeout=120s"));
        plane.told("kubectl apply -f -", &composition(name, channel, input));
        plane.says(&format!(
            "kubectl wait compositionrevision -l release-channel={channel} --for=condition=ValidPipeline --timeout=60s"
        ));
        plane.told("kubectl apply -f -", &bucket(xr, channel));
        plane.says(&format!("kubectl wait acmebucket/{xr} --for=condition=Synced --timeout=60s"));
    }
    let states = plane.says("kubectl get functionrevisions -o jsonpath='{.items[*].spec.desiredState}'");
    assert_eq!(states, "Active Active");
    ["other", "my-bucket"].map(|xr| {
        let xr = plane.says(&format!("kubectl get acmebucket {xr} -o json"));
        let xr: Value = serde_json::from_str(&xr).unwrap();
        let ran = &xr["status"]["ferroplane"]["functions"][0];
        assert!(ran["revision"].as_str().is_some_and(|revision| revision.starts_with(name)), "{xr:#}");
        ran["version"].as_str().unwrap_or_default().to_owned()
    })
}

#[test]
fn function_that_is_built_in_is_rolled_out_by_labels() {
    let (Some(_), Some(registry)) = (peer("kubectl"), LocalRegistry::start()) else { return };
    let images = ["v0.8.1", "v0.8.2"].map(|version| {
        let image = format!("crossplane-contrib/function-patch-and-transform:{version}");
        let meta = format!(
            "# {version}\napiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: function-patch-and-transform}}\n"
        );
        registry.push(&image, &meta);
        format!("{}/{image}", registry.address)
    });
    let plane = Plane::new();
    let input = "input: {apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resources: [{name: a, base: {apiVersion: v1, kind: ConfigMap}}]}";
    let name = "function-patch-and-transform";
    let versions = roll_out(&plane, name, images.each_ref().map(String::as_str), input);
    assert_eq!(versions, ["v0.8.1", "v0.8.2"]);
    let said = plane.says("kubectl get functionrevisions -o jsonpath='{.items[*].status.conditions[?(@.type==\"RuntimeHealthy\")].message}'");
    assert_eq!(said.matches("runs the same code, so that nothing changes between them").count(), 2, "{said}");
}

/// What `ferroplane rollout` does is seen in what it says, and in the status of the rollout.
#[test]
fn rollout_is_watched_undone_and_promoted_on_the_command_line() {
    let (Some(_), Some(registry)) = (peer("kubectl"), LocalRegistry::start()) else { return };
    let name = "function-patch-and-transform";
    let images = ["v0.8.1", "v0.8.2"].map(|version| {
        let image = format!("crossplane-contrib/{name}:{version}");
        let meta = format!(
            "# {version}\napiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: {name}}}\n"
        );
        registry.push(&image, &meta);
        format!("{}/{image}", registry.address)
    });
    let plane = Plane::new();
    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    let until = |path: &str, value: &str| {
        plane.says(&format!(
            "kubectl wait functionrollout/buckets --for=jsonpath='{{.status.{path}}}'={value} --timeout=120s"
        ));
    };
    plane.told("kubectl apply -f -", DEFINITION);
    plane.says(
        "kubectl wait xrd/acmebuckets.custom-api.example.org --for=condition=Established --timeout=60s",
    );
    plane.told("kubectl apply -f -", &function(name, &images[0], "any"));
    plane.says(&format!("kubectl wait function/{name} --for=condition=Healthy --timeout=120s"));
    let input = "input: {apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resources: [{name: a, base: {apiVersion: v1, kind: ConfigMap}, readinessChecks: [{type: None}]}]}";
    let open = composition(name, "any", input)
        .replace("    functionRevisionSelector: {matchLabels: {release-channel: any}}\n", "");
    plane.told("kubectl apply -f -", &open);
    plane.told("kubectl apply -f -", &bucket("one", "any"));
    plane.says("kubectl wait acmebucket/one --for=condition=Ready --timeout=60s");
    plane.says(
        r#"kubectl patch acmebucket one --type=merge -p '{"spec":{"crossplane":{"compositionUpdatePolicy":"Automatic"}}}'"#,
    );
    let rollout = format!(
        "{{apiVersion: rollout.ferroplane.io/v1alpha1, kind: FunctionRollout, metadata: {{name: buckets}}, \
          spec: {{functionRef: {{name: {name}}}, minReadySeconds: 0}}}}"
    );
    plane.told("kubectl apply -f -", &rollout);
    until("state", "Idle");
    plane.says(&format!("{ferroplane} rollout pause buckets"));
    plane.told("kubectl apply -f -", &function(name, &images[1], "any"));
    until("state", "Paused");
    let said = plane.says(&format!("{ferroplane} rollout status; test $? = 3"));
    assert!(said.contains("Paused") && said.contains("0/1"), "{said}");
    plane.says(&format!("{ferroplane} rollout resume buckets"));
    let said = plane.says(&format!("{ferroplane} rollout status buckets --watch"));
    assert!(said.contains("Promoted"), "{said}");
    let said = plane.says(&format!("{ferroplane} rollout undo buckets"));
    assert!(said.contains("undoes `function-patch-and-transform-"), "{said}");
    until("state", "RolledBack");
    plane.says(&format!("{ferroplane} rollout status buckets; test $? = 3"));
    plane.says(&format!("{ferroplane} rollout promote buckets"));
    until("state", "Promoted");
    let said = plane.says(&format!("{ferroplane} rollout history buckets"));
    assert_eq!((said.matches("Promoted").count(), said.matches("RolledBack").count()), (2, 1), "{said}");
}
