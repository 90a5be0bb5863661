//! A function is rolled out gradually on `up`, with kubectl, as docs/rollout.md says.

use serde_json::Value;

use crate::packages::LocalRegistry;
use crate::peers::peer;
use crate::plane::{Plane, Shell};

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

/// What patches and transforms is part of the binary.
pub(crate) const BUILT_IN: &str = "function-patch-and-transform";

/// Two versions of its package that run the same code.
pub(crate) fn built_in_packages(registry: &LocalRegistry) -> [String; 2] {
    ["v0.8.1", "v0.8.2"].map(|version| {
        let image = format!("crossplane-contrib/{BUILT_IN}:{version}");
        let meta = format!(
            "# {version}\napiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {{name: {BUILT_IN}}}\n"
        );
        registry.push(&image, &meta);
        format!("{}/{image}", registry.address)
    })
}

/// The input with which it composes these settings.
pub(crate) fn settings(names: &[&str]) -> String {
    let resource = |name: &&str| {
        format!(
            "{{name: {name}, base: {{apiVersion: v1, kind: ConfigMap}}, readinessChecks: [{{type: None}}]}}"
        )
    };
    let resources: Vec<_> = names.iter().map(resource).collect();
    format!(
        "input: {{apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resources: [{}]}}",
        resources.join(", ")
    )
}

/// A Composition that does not say which revision is called.
pub(crate) fn open_composition(input: &str) -> String {
    let selector = "    functionRevisionSelector: {matchLabels: {release-channel: any}}\n";
    composition(BUILT_IN, "any", input).replace(selector, "")
}

/// An XR that follows the latest revision of its Composition.
pub(crate) fn open_bucket(name: &str) -> String {
    format!(
        "---\napiVersion: custom-api.example.org/v1alpha1\nkind: AcmeBucket\nmetadata: {{name: {name}, namespace: default}}\nspec: {{}}\n"
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

/// Define buckets.
pub(crate) fn define(shell: &Shell) {
    shell.told("kubectl apply -f -", DEFINITION);
    shell.says(
        "kubectl wait xrd/acmebuckets.custom-api.example.org --for=condition=Established --timeout=60s",
    );
}

/// A rollout called `buckets`, with these fields.
pub(crate) fn rollout(spec: &str) -> String {
    format!(
        "{{apiVersion: rollout.ferroplane.io/v1alpha1, kind: FunctionRollout, metadata: {{name: buckets}}, spec: {{{spec}}}}}"
    )
}

/// Wait until a field of its status is so.
pub(crate) fn until_status(shell: &Shell, path: &str, value: &str) {
    shell.says(&format!(
        "kubectl wait functionrollout/buckets --for=jsonpath='{{.status.{path}}}'={value} --timeout=120s"
    ));
}

/// Step by step what the design shows: two versions of a function in two channels, and an XR in each. Returns the versions that ran.
pub(crate) fn roll_out(shell: &Shell, name: &str, [old, new]: [&str; 2], input: &str) -> [String; 2] {
    define(shell);
    for (image, channel, xr) in [(old, "stable", "other"), (new, "alpha", "my-bucket")] {
        shell.told("kubectl apply -f -", &function(name, image, channel));
        shell.says(&format!(
            "kubectl wait function/{name} --for=jsonpath={{.status.currentIdentifier}}={image} --timeout=60s"
        ));
        shell.says(&format!("kubectl wait function/{name} --for=condition=Healthy --timeout=120s"));
        shell.told("kubectl apply -f -", &composition(name, channel, input));
        shell.says(&format!(
            "kubectl wait compositionrevision -l release-channel={channel} --for=condition=ValidPipeline --timeout=60s"
        ));
        shell.told("kubectl apply -f -", &bucket(xr, channel));
        shell.says(&format!("kubectl wait acmebucket/{xr} --for=condition=Synced --timeout=60s"));
    }
    let states = shell.says("kubectl get functionrevisions -o jsonpath='{.items[*].spec.desiredState}'");
    assert_eq!(states, "Active Active");
    let ran = ["other", "my-bucket"].map(|xr| {
        let xr = shell.says(&format!("kubectl get acmebucket {xr} -o json"));
        let xr: Value = serde_json::from_str(&xr).unwrap();
        let ran = &xr["status"]["ferroplane"]["functions"][0];
        let [revision, version] =
            ["revision", "version"].map(|it| ran[it].as_str().unwrap_or_default().to_owned());
        assert!(revision.starts_with(name), "{xr:#}");
        (revision, version)
    });
    let [(old, _), (new, _)] = &ran;
    assert_ne!(old, new);
    move_to(shell, "other", ("alpha", new));
    move_to(shell, "other", ("stable", old));
    ran.map(|(_, version)| version)
}

/// Let an XR that exists follow another channel, whose revision of the function composes it then.
fn move_to(shell: &Shell, xr: &str, (channel, revision): (&str, &str)) {
    // With the update policy Manual, a selector counts while there is no reference.
    let patch = format!(
        r#"{{"spec":{{"crossplane":{{"compositionRevisionRef":null,"compositionRevisionSelector":{{"matchLabels":{{"release-channel":"{channel}"}}}}}}}}}}"#
    );
    shell.says(&format!("kubectl patch acmebucket {xr} --type=merge -p '{patch}'"));
    shell.says(&format!(
        "kubectl wait acmebucket/{xr} --for=jsonpath='{{.status.ferroplane.functions[0].revision}}'={revision} --timeout=60s"
    ));
    shell.says(&format!("kubectl wait acmebucket/{xr} --for=condition=Synced --timeout=60s"));
}

#[test]
fn function_that_is_built_in_is_rolled_out_by_labels() {
    let (Some(_), Some(registry)) = (peer("kubectl"), LocalRegistry::start()) else { return };
    let images = built_in_packages(&registry);
    let plane = Plane::new();
    let versions =
        roll_out(&plane.beside(), BUILT_IN, images.each_ref().map(String::as_str), &settings(&["a"]));
    assert_eq!(versions, ["v0.8.1", "v0.8.2"]);
    let said = plane.says("kubectl get functionrevisions -o jsonpath='{.items[*].status.conditions[?(@.type==\"RuntimeHealthy\")].message}'");
    assert_eq!(said.matches("runs the same code, so that nothing changes between them").count(), 2, "{said}");
}

/// What `ferroplane rollout` does is seen in what it says, and in the status of the rollout.
#[test]
fn rollout_is_watched_undone_and_promoted_on_the_command_line() {
    let (Some(_), Some(registry)) = (peer("kubectl"), LocalRegistry::start()) else { return };
    let images = built_in_packages(&registry);
    let plane = Plane::new();
    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    let until = |path: &str, value: &str| until_status(&plane.beside(), path, value);
    define(&plane.beside());
    plane.told("kubectl apply -f -", &function(BUILT_IN, &images[0], "any"));
    plane.says(&format!("kubectl wait function/{BUILT_IN} --for=condition=Healthy --timeout=120s"));
    plane.told("kubectl apply -f -", &open_composition(&settings(&["a"])));
    plane.told("kubectl apply -f -", &open_bucket("one"));
    plane.says("kubectl wait acmebucket/one --for=condition=Ready --timeout=60s");
    let target = format!("functionRef: {{name: {BUILT_IN}}}");
    plane.told("kubectl apply -f -", &rollout(&format!("{target}, minReadySeconds: 0")));
    until("state", "Idle");
    plane.says(&format!("{ferroplane} rollout pause buckets"));
    plane.told("kubectl apply -f -", &function(BUILT_IN, &images[1], "any"));
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

/// The differences that a preview finds are printed, and what is refused can be looked up in a recording.
#[test]
fn preview_is_printed_and_the_recording_that_it_names_shows_both_revisions() {
    let Some(_) = peer("kubectl") else { return };
    let plane = Plane::new();
    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    define(&plane.beside());
    plane.told("kubectl apply -f -", &open_composition(&settings(&["a", "b"])));
    plane.told("kubectl apply -f -", &open_bucket("one"));
    plane.says("kubectl wait acmebucket/one --for=condition=Ready --timeout=60s");
    let policy = "compositionRef: {name: example}, minReadySeconds: 0, preview: true, paused: true";
    plane.told("kubectl apply -f -", &rollout(policy));
    until_status(&plane.beside(), "state", "Idle");
    let preview = |code: u8| plane.says(&format!("{ferroplane} rollout preview buckets; test $? = {code}"));
    let said = preview(1);
    assert!(said.contains("no revision has been tried for FunctionRollout `buckets` yet"), "{said}");

    plane.told("kubectl apply -f -", &open_composition(&settings(&["a", "b", "c"])));
    until_status(&plane.beside(), "state", "Paused");
    let said = preview(0);
    assert!(said.contains("Added            1\n") && said.contains("composes `c` besides"), "{said}");
    plane.says(&format!("{ferroplane} rollout resume buckets"));
    until_status(&plane.beside(), "state", "Promoted");

    plane.told("kubectl apply -f -", &open_composition(&settings(&["a", "c"])));
    until_status(&plane.beside(), "state", "RolledBack");
    let said = preview(3);
    assert!(said.contains("Deleted          1\n") && said.contains("no longer composes `b`"), "{said}");
    let composed = "kubectl get configmaps -l crossplane.io/composite=one -o name | wc -l";
    assert_eq!(plane.says(composed).trim(), "3", "nothing is deleted");
    let said = plane.says(&format!("{ferroplane} why acmebucket/one"));
    let words = "of Composition `example`: FunctionRollout `buckets` has rolled back";
    assert!(said.replace('\n', " ").contains(words), "{said}");
    let recording =
        plane.says("kubectl get functionrollout buckets -o jsonpath='{.status.history[0].recording}'");
    assert!(recording.starts_with("AcmeBucket/one -n default --at "), "{recording}");
    // It is kept a little later than it is named, and until then the one before it is found.
    let show = format!("{ferroplane} replay show {recording} --data-dir data");
    let is_kept = format!("{show} | grep -q \"onlyTried: true\"");
    plane.says(&format!("timeout 60 sh -c 'until {is_kept}; do sleep 0.2; done'"));
    let shown = plane.says(&show);
    assert!(shown.contains("onlyTried: false"), "what counts is in it, too: {shown}");
}
