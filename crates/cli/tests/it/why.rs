//! `ferroplane why` and `ferroplane trace`, against `ferroplane up` with faults in it or, if the environment names an API
//! server, `ferroplane start` beside that one.

mod operations;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ferroplane_testkit::FunctionServer;
use ferroplane_wire::v1::RunFunctionResponse;

use crate::peers::peer;
use crate::plane::{Plane, has_oracle};
use crate::sandbox::{dummy, function, served};

/// How long a fault may take to show.
const PATIENCE: Duration = Duration::from_mins(1);

const GROUND: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.cloud.test.io}
spec:
  group: cloud.test.io
  scope: Namespaced
  names: {kind: Bucket, plural: buckets, singular: bucket, listKind: BucketList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: integer, maximum: 5}, parity: {type: integer}}
            x-kubernetes-validations: [{rule: '!has(self.parity) || self.parity % 2 == 0', message: parity must be even}]
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: broken.test.io}
spec:
  group: test.io
  names: {kind: Broken, plural: broken}
  versions:
  - {name: v1, served: true, referenceable: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: nonsense}}}}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: nobody}
webhooks:
- name: nobody.test.io
  clientConfig: {url: 'https://127.0.0.1:1/'}
  rules: [{apiGroups: [cloud.test.io], apiVersions: [v1], resources: [buckets], operations: [CREATE]}]
  objectSelector: {matchLabels: {reviewed: 'yes'}}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
";

fn definition(kind: &str, scope: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    format!(
        "---\napiVersion: apiextensions.crossplane.io/v2\nkind: CompositeResourceDefinition\nmetadata: {{name: {plural}.test.io}}\n\
         spec:\n  group: test.io\n  scope: {scope}\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n  - name: v1\n    \
         served: true\n    referenceable: true\n    schema:\n      openAPIV3Schema: {{type: object, properties: {{spec: {{type: object}}}}}}\n"
    )
}

/// A Composition whose first step is this, and whose last makes ready what is.
fn composition(name: &str, kind: &str, steps: &[String]) -> String {
    let mut text = format!(
        "---\napiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata: {{name: {name}}}\nspec:\n  mode: Pipeline\n  \
         compositeTypeRef: {{apiVersion: test.io/v1, kind: {kind}}}\n  pipeline:\n"
    );
    for step in steps {
        writeln!(text, "  - {step}").unwrap();
    }
    text
}

fn answering(response: &str) -> String {
    format!("{{step: compose, functionRef: {{name: function-dummy}}, input: {}}}", dummy(response))
}

/// Composes something.
fn composing(resource: &str) -> String {
    answering(&format!("{{desired: {{resources: {{thing: {{resource: {resource}}}}}}}}}"))
}

fn bucket(rest: &str) -> String {
    composing(&format!("{{apiVersion: cloud.test.io/v1, kind: Bucket, {rest}}}"))
}

fn ready() -> String {
    "{step: ready, functionRef: {name: function-auto-ready}}".to_owned()
}

fn xr(kind: &str, name: &str, machinery: &str) -> String {
    let namespace = if kind == "Wide" { "" } else { ", namespace: default" };
    format!(
        "---\napiVersion: test.io/v1\nkind: {kind}\nmetadata: {{name: {name}{namespace}}}\nspec: {{crossplane: {{{machinery}}}}}\n"
    )
}

/// A fault, and what the first line of the answer must say.
struct Fault {
    subject: String,
    words: Vec<&'static str>,
    /// The code of the cause. None if nothing has failed, or another program has said so.
    code: Option<&'static str>,
    manifest: String,
    /// What a user does then.
    then: String,
}

/// A composite resource with a composition of its own, of these steps.
fn fault(name: &str, steps: &[String], words: &[&'static str]) -> Fault {
    let manifest =
        composition(name, "Fault", steps) + &xr("Fault", name, &format!("compositionRef: {{name: {name}}}"));
    other(&format!("fault/{name}"), manifest, words)
}

fn other(subject: &str, manifest: String, words: &[&'static str]) -> Fault {
    Fault { subject: subject.to_owned(), words: words.to_vec(), code: None, manifest, then: String::new() }
}

impl Fault {
    fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Whether programs get the code.
    fn has_code(&self, plane: &Plane) -> bool {
        let Some(code) = self.code else { return true };
        let (_, answer) = why(plane, &format!("{} -o json", self.subject));
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
        answer["cause"]["code"] == code
    }

    fn then(mut self, line: &str) -> Self {
        line.clone_into(&mut self.then);
        self
    }
}

fn named(name: &str) -> String {
    bucket(&format!("metadata: {{name: {name}}}"))
}

fn status(name: &str, conditions: &str) -> String {
    format!(
        "kubectl wait bucket/{name} --for=create --timeout=30s && kubectl patch bucket {name} --subresource=status --type=merge \
         -p '{{\"status\":{{\"conditions\":[{conditions}]}}}}'"
    )
}

fn faults() -> Vec<Fault> {
    let step = |function: &str| format!("{{step: compose, functionRef: {{name: {function}}}}}");
    let target = [
        ("render.crossplane.io/runtime", "Development"),
        ("render.crossplane.io/runtime-development-target", "127.0.0.1:1"),
    ];
    let dead = fault(
        "unreachable",
        &[step("function-dead")],
        &["Function function-dead", "step `compose`", "cannot reach the function at"],
    )
    .code("FunctionUnreachable");
    let idle = fault("inactive", &[step("function-idle")], &["function-idle", "step `compose`"]);
    let taken = xr("Fault", "robbed", "compositionRef: {name: robber}");
    let robber = fault("robber", &[named("taken")], &["robber"]);
    let two = answering(
        "{desired: {resources: {a: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: same}}}, b: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: same}}}}}}",
    );
    let usage = "---\napiVersion: protection.crossplane.io/v1beta1\nkind: Usage\nmetadata: {name: keeps, namespace: default}\n\
                 spec: {reason: it is precious, of: {apiVersion: cloud.test.io/v1, kind: Bucket, resourceRef: {name: used}}}\n";
    let old_usage = "---\napiVersion: apiextensions.crossplane.io/v1beta1\nkind: Usage\nmetadata: {name: guards}\n\
                     spec: {reason: it is shared, of: {apiVersion: test.io/v1, kind: Wide, resourceRef: {name: guarded}}}\n";
    let guarded =
        composition("guarded", "Wide", &[answering("{desired: {composite: {ready: READY_FALSE}}}")])
            + &xr("Wide", "guarded", "compositionRef: {name: guarded}");
    let inner = "{apiVersion: test.io/v1, kind: Fault, metadata: {name: inner}, spec: {crossplane: {compositionRef: {name: fatal}}}}";
    let secret = "{step: compose, functionRef: {name: function-dummy}, credentials: [{name: cloud, source: Secret, secretRef: {namespace: default, name: nope}}]}";
    let required = "{requirements: {resources: {vpc: {apiVersion: nope.io/v1, kind: Vpc, matchName: a}}}}";
    vec![
        other("nope/a", String::new(), &["no XRD and no CRD defines the kind `nope`"]),
        other("broken/a", String::new(), &["CompositeResourceDefinition broken.test.io", "nonsense"]),
        other("fault/absent", String::new(), &["Fault default/absent", "does not exist"]),
        other("lonely/a", xr("Lonely", "a", ""), &["Lonely default/a", "no Composition composes Lonely"]).code("NoMatchingComposition"),
        other("fault/misled", xr("Fault", "misled", "compositionRef: {name: nowhere}"), &["Composition nowhere", "does not exist"]).code("CompositionNotFound"),
        other("fault/stuck", xr("Fault", "stuck", "compositionRef: {name: fatal}, compositionUpdatePolicy: Manual, compositionRevisionRef: {name: fatal-0}"), &["CompositionRevision fatal-0", "does not exist"]).code("CompositionRevisionNotFound"),
        other("fault/astray", composition("wide", "Wide", &[ready()]) + &xr("Fault", "astray", "compositionRef: {name: wide}"), &["composes Wide", "not Fault"]).code("CompositionIncompatible"),
        fault("typo", &[step("function-dumy")], &["Function function-dumy", "step `compose`", "did you mean `function-dummy`"]).code("FunctionNotFound"),
        fault("old", &["{step: compose, functionRef: {name: function-dummy, version: v99.0.0}}".to_owned()], &["Function function-dummy", "step `compose`", "v99.0.0"]).code("FunctionVersionNotFound"),
        Fault { manifest: function("function-idle", &[("a", "b")]) + &idle.manifest, ..idle },
        Fault { manifest: function("function-dead", &target) + &dead.manifest, ..dead },
        fault("fatal", &[answering("{results: [{severity: SEVERITY_FATAL, message: no such region}]}")], &["Fault default/fatal", "step `compose`", "no such region"]).code("FunctionFatalResult"),
        fault("nested", &[composing(inner), ready()], &["Fault default/inner", "step `compose`", "no such region"]).code("FunctionFatalResult"),
        fault("requiring", &[answering(required)], &["step `compose`", "Vpc in nope.io/v1"]).code("RequirementUnavailable"),
        fault("poor", &[secret.to_owned()], &["Secret default/nope", "step `compose`"]).code("CredentialUnavailable"),
        fault("hungry", &["{step: compose, functionRef: {name: function-dummy}, inputRef: {apiVersion: v1, kind: ConfigMap, name: nope, namespace: default}}".to_owned()], &["step `compose`", "nope"]).code("StepInputUnavailable"),
        fault("foreign", &[composing("{apiVersion: nope.io/v1, kind: Queue}")], &["Queue", "nope.io/v1", "step `compose`"]).code("ComposedKindUnavailable"),
        fault("big", &[bucket("metadata: {name: big}, spec: {size: 9}")], &["Bucket default/big", "step `compose`", "field `spec.size`", "less than or equal to 5"]).code("SchemaViolated"),
        fault("odd", &[bucket("metadata: {name: odd}, spec: {parity: 3}")], &["Bucket default/odd", "step `compose`", "parity must be even"]).code("ValidationRuleViolated"),
        fault("mute", &[bucket("metadata: {name: mute, labels: {reviewed: 'yes'}}")], &["step `compose`", "failed calling webhook", "nobody.test.io"]).code("WebhookUnreachable"),
        Fault { manifest: robber.manifest, subject: "fault/robbed".to_owned(), words: vec!["Bucket default/taken", "belongs to Fault `robber`"], code: Some("ObjectControlled"), then: format!("kubectl wait bucket/taken --for=create --timeout=30s && echo '{taken}' | kubectl apply -f -") },
        fault("twins", &[two], &["are the same object", "Fault default/twins"]).code("ComposedResourceDuplicate"),
        fault("reaching", &[composing("{apiVersion: v1, kind: Namespace, metadata: {name: x}}")], &["step `compose`", "is cluster scoped"]).code("ComposedResourceClusterScoped"),
        other("wide/lost", composition("lost", "Wide", &[bucket("metadata: {name: b, namespace: nowhere}")]) + &xr("Wide", "lost", "compositionRef: {name: lost}"), &["Namespace nowhere", "does not exist"]).code("NamespaceNotFound"),
        fault("waiting", &[named("waiting"), ready()], &["Bucket default/waiting", "step `compose`", "the cloud is busy"])
            .then(&status("waiting", r#"{"type":"Ready","status":"False","reason":"Creating","message":"the cloud is busy","lastTransitionTime":"2026-01-01T00:00:00Z"}"#)),
        fault("refused", &[named("refused"), ready()], &["Bucket default/refused", "the cloud says no"])
            .then(&status("refused", r#"{"type":"Synced","status":"False","reason":"ReconcileError","message":"the cloud says no","lastTransitionTime":"2026-01-01T00:00:00Z"}"#)),
        fault("silent", &[named("silent"), ready()], &["Bucket default/silent", "step `compose`", "has no conditions"]),
        fault("undeclared", &[named("undeclared")], &["step `compose`", "no function says whether these are ready", "thing"]),
        fault("paused", &[named("paused"), ready()], &["Fault default/paused", "is paused by the annotation"])
            .then("kubectl annotate fault paused crossplane.io/paused=true"),
        fault("migrating", &[answering("{desired: {composite: {ready: READY_FALSE}}, conditions: [{type: Migrated, status: STATUS_CONDITION_FALSE, reason: Busy, message: three tables left}]}")], &["Fault default/migrating", "Migrated", "three tables left"]),
        fault("used", &[named("used"), ready()], &["Bucket default/used", "Usage default/keeps", "it is precious"])
            .then(&format!("kubectl wait bucket/used --for=create --timeout=30s && echo '{usage}' | kubectl apply -f - && kubectl wait usages.protection.crossplane.io/keeps --for=condition=Ready --timeout=30s && kubectl delete fault used --cascade=foreground --wait=false")),
        other("wide/guarded", guarded, &["Wide guarded", "Usage guards", "it is shared"])
            .then(&format!("echo '{old_usage}' | kubectl apply -f - && kubectl wait usages.apiextensions.crossplane.io/guards --for=condition=Ready --timeout=30s && ! kubectl delete wide guarded --wait=false")),
        fault("kept", &[named("kept"), ready()], &["Bucket default/kept", "the finalizer `test.io/hold`"])
            .then("kubectl wait bucket/kept --for=create --timeout=30s && kubectl patch bucket kept --type=merge -p '{\"metadata\":{\"finalizers\":[\"test.io/hold\"]}}' && kubectl delete fault kept --cascade=foreground --wait=false"),
    ]
}

/// Composes something of a template of patch-and-transform.
fn template(base: &str, rest: &str) -> String {
    format!(
        "{{step: compose, functionRef: {{name: function-patch-and-transform}}, input: {{apiVersion: pt.fn.crossplane.io/v1beta1, \
         kind: Resources, resources: [{{name: thing, base: {base}{rest}}}]}}}}"
    )
}

/// A bucket of a template, by a name.
fn templated(name: &str, rest: &str) -> String {
    template(&format!("{{apiVersion: cloud.test.io/v1, kind: Bucket, metadata: {{name: {name}}}}}"), rest)
}

fn package(kind: &str, name: &str, image: &str) -> String {
    format!(
        "---\napiVersion: pkg.crossplane.io/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{package: 'registry.example/{image}'}}\n"
    )
}

/// A composite resource that the `functions` array of its Composition composes: one image with these fields.
fn image_fault(name: &str, fields: &str, words: &[&'static str]) -> Fault {
    let composition = format!(
        "---\napiVersion: apiextensions.crossplane.io/v2alpha1\nkind: Composition\nmetadata: {{name: {name}}}\nspec:\n  \
         compositeTypeRef: {{apiVersion: test.io/v1, kind: Fault}}\n  \
         functions: [{{name: label, type: Container, container: {{image: '127.0.0.1:1/acme/none:v1', {fields}}}}}]\n"
    );
    let manifest = composition + &xr("Fault", name, &format!("compositionRef: {{name: {name}}}"));
    Fault { manifest, ..fault(name, &[], words) }
}

/// Faults of steps that run images.
fn image_faults() -> Vec<Fault> {
    // Beside a real API server the feature is off, and every such step says so.
    if has_oracle() {
        return vec![image_fault("off", "timeout: 1s", &["step `label`", "--enable-alpha-functions"])];
    }
    vec![
        image_fault(
            "unpulled",
            "imagePullPolicy: Never",
            &[
                "Function function-container",
                "step `label`",
                "127.0.0.1:1/acme/none:v1",
                "the pull policy is Never",
            ],
        ),
        image_fault(
            "online",
            "network: {policy: Runner}",
            &["Fault default/online", "step `label`", "use the network"],
        )
        .code("AccessNotGranted"),
    ]
}

/// Faults of patch-and-transform, of packages, and of what is near a mistake.
fn more_faults() -> Vec<Fault> {
    let required = |kind: &str, field: &str| {
        format!(
            ", patches: [{{type: {kind}, fromFieldPath: {field}, toFieldPath: spec.size, policy: {{fromFieldPath: Required}}}}]"
        )
    };
    let check = ", readinessChecks: [{type: MatchString, fieldPath: status.phase, matchString: Up}]";
    let available =
        ", readinessChecks: [{type: MatchCondition, matchCondition: {type: Available, status: 'True'}}]";
    let app = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: app}, spec: {selector: {matchLabels: {a: b}}, \
               template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}";
    let step = |function: &str| format!("{{step: compose, functionRef: {{name: {function}}}}}");
    let placed_nowhere = composing("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}");
    let placeless = composition("placeless", "Wide", &[placed_nowhere])
        + &xr("Wide", "placeless", "compositionRef: {name: placeless}");
    let near = composition("near", "Lonely", &[ready()]).replace("test.io/v1,", "test.io/v1beta1,");
    vec![
        fault(
            "checked",
            &[templated("checked", check)],
            &[
                "Bucket default/checked",
                "step `compose`",
                "field `status.phase`",
                "is not set",
                "expects `Up`",
            ],
        ),
        fault(
            "started",
            &[template(app, available)],
            // Real clusters have somebody who manages Deployments, but nobody who runs their pods.
            if has_oracle() {
                &["Deployment default/app", "step `compose`", "its condition Available is False"]
            } else {
                &["Deployment default/app", "step `compose`", "has no conditions"]
            },
        ),
        fault(
            "quiet",
            &[templated("quiet", "")],
            &["Bucket default/quiet", "step `compose`", "has no conditions"],
        ),
        fault(
            "needy",
            &[templated("needy", &required("FromCompositeFieldPath", "spec.b"))],
            &[
                "Fault default/needy",
                "step `compose`",
                "field `spec.b`",
                "composed resource `thing` requires it",
            ],
        ),
        fault(
            "barren",
            &[templated("barren", &required("FromEnvironmentFieldPath", "region"))],
            &["Fault default/barren", "step `compose`", "field `region`", "the environment does not have it"],
        ),
        other(
            "wide/placeless",
            placeless,
            &["Wide placeless", "step `compose`", "field `metadata.namespace`", "ConfigMap"],
        )
        .code("ComposedResourceNamespaceMissing"),
        other(
            "provider/p",
            package("Provider", "p", "acme/provider-p:v1.0.0"),
            &["Provider p", "acme/provider-p:v1.0.0"],
        )
        .code("PackageUnavailable"),
        other(
            "function/function-uncovered",
            package("Function", "function-uncovered", "crossplane-contrib/function-auto-ready:v99.0.0"),
            &["Function function-uncovered", "function-auto-ready:v99.0.0", "covers"],
        ),
        fault(
            "uncovered",
            &[step("function-uncovered")],
            &["Function function-uncovered", "step `compose`", "function-auto-ready:v99.0.0"],
        ),
        other(
            "composition/typo",
            String::new(),
            &["CompositionRevision typo-", "step `compose`", "did you mean `function-dummy`"],
        )
        .code("FunctionNotFound"),
        other(
            "lonely/b",
            near + &xr("Lonely", "b", ""),
            &["no Composition composes Lonely", "Composition `near` composes Lonely (test.io/v1beta1)"],
        )
        .code("NoMatchingComposition"),
    ]
}

fn why(plane: &Plane, subject: &str) -> (Option<i32>, String) {
    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    let ran = plane.shell(&format!("{ferroplane} why {subject}")).output().unwrap();
    (ran.status.code(), String::from_utf8(ran.stdout).unwrap())
}

/// A plane on which faults can be made.
fn plane() -> Option<Plane> {
    peer("kubectl")?;
    let plane = Plane::find();
    plane.told("kubectl apply -f -", GROUND);
    let definitions = definition("Fault", "Namespaced")
        + &definition("Lonely", "Namespaced")
        + &definition("Wide", "Cluster");
    plane.told("kubectl apply -f -", &definitions);
    plane.says("kubectl wait xrd faults.test.io lonelys.test.io wides.test.io --for=condition=Established --timeout=60s");
    plane.says("kubectl wait crd buckets.cloud.test.io --for=condition=Established --timeout=60s");
    Some(plane)
}

#[test]
fn injected_faults_are_named_in_the_first_line() {
    let Some(plane) = plane() else { return };
    let mut faults: Vec<_> = [faults(), more_faults(), image_faults()].into_iter().flatten().collect();
    if !plane.says("kubectl version -o json").contains("+ferroplane") {
        // `start` installs packages only where that is enabled, and says so.
        for fault in faults.iter_mut().filter(|fault| fault.subject == "provider/p") {
            fault.words = vec!["Provider p", "does not install packages"];
            fault.code = Some("KindNotSupported");
        }
    }
    check(&plane, &faults);
}

/// Makes all faults, and looks whether each is named in the first line.
fn check(plane: &Plane, faults: &[Fault]) {
    let all: String = faults.iter().map(|fault| fault.manifest.as_str()).collect();
    plane.told("kubectl apply -f -", &all);
    for fault in faults.iter().filter(|fault| !fault.then.is_empty()) {
        plane.says(&fault.then);
    }
    let mut missed = Vec::new();
    for fault in faults {
        let began = Instant::now();
        loop {
            let (code, answer) = why(plane, &fault.subject);
            let first = answer.lines().next().unwrap_or_default().to_owned();
            let has_words = code == Some(3) && fault.words.iter().all(|word| first.contains(word));
            if has_words && fault.has_code(plane) {
                break;
            }
            if began.elapsed() > PATIENCE {
                let Fault { subject, words, code, .. } = fault;
                missed.push(format!("{subject}: wanted {words:?} and the code {code:?}\n{answer}"));
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let (found, total) = (faults.len() - missed.len(), faults.len());
    println!("why names the true cause of {found} of {total} faults in its first line");
    assert!(missed.is_empty(), "{found} of {total}\n\n{}", missed.join("\n"));
}

#[test]
fn what_is_ready_is_said_to_be_and_drawn() {
    let Some(plane) = plane() else { return };
    let well = fault("well", &[named("well"), ready()], &[]);
    plane.told("kubectl apply -f -", &well.manifest);
    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    let drawn = plane.fails(&format!("kubectl wait bucket/well --for=create --timeout=30s >/dev/null; {ferroplane} trace fault/well --broken"), "");
    assert!(drawn.contains("Fault/well (default)"), "{drawn}");
    plane.says(&status("well", r#"{"type":"Ready","status":"True","reason":"Available","lastTransitionTime":"2026-01-01T00:00:00Z"}"#));
    plane.says("kubectl wait fault/well --for=condition=Ready --timeout=60s");
    let rows = plane.rows(&format!("{ferroplane} trace Fault well"));
    let expected = [
        "NAME STEP SYNCED READY AGE STATUS",
        "Fault/well (default) - True True AGE",
        "└─ Bucket/well (default) compose - True AGE",
    ];
    assert_eq!(rows, expected);
    assert!(
        plane
            .says(&format!("{ferroplane} trace fault.test.io/well -o json"))
            .contains("\"step\": \"compose\"")
    );
    assert!(plane.says(&format!("{ferroplane} trace fault.test.io/well -o dot")).contains("n0 -- n1;"));
    assert_eq!(plane.says(&format!("{ferroplane} trace fault/well --broken")), "");
    assert!(plane.says(&format!("{ferroplane} why fault/well")).starts_with("Fault default/well is ready."));
    plane.says(&format!("{ferroplane} trace composition/well; {ferroplane} trace xrd/faults.test.io"));
}

#[tokio::test(flavor = "multi_thread")]
async fn later_step_that_drops_everything_is_named_although_the_xr_is_ready() {
    let Some(plane) = plane() else { return };
    // No built-in function drops what it was given. This one returns nothing.
    let server = FunctionServer::start(|_| Ok(RunFunctionResponse::default())).await;
    let dropping = "{step: drop, functionRef: {name: function-dropping}}".to_owned();
    let dropped = fault("dropped", &[templated("dropped", ""), dropping], &[]);
    let manifest = served("function-dropping", &server.address()) + &dropped.manifest;
    plane.told("kubectl apply -f -", &manifest);
    plane.says("kubectl wait fault/dropped --for=condition=Ready --timeout=60s");
    let (code, answer) = why(&plane, "fault/dropped");
    let first = answer.lines().next().unwrap_or_default();
    assert_eq!(code, Some(0), "{answer}");
    for words in [
        "Fault default/dropped is ready, but: ",
        "step `compose`",
        "composes nothing, although this step makes `thing`",
        "a later step (`drop`) does not pass it on",
    ] {
        assert!(first.contains(words), "wanted {words}\n{answer}");
    }
    assert!(server.calls() > 0);
    assert_eq!(plane.says("kubectl get bucket dropped --ignore-not-found -o name"), "");
}

#[test]
fn server_that_is_not_there_is_an_error() {
    let Some(plane) = plane() else { return };
    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    plane.says("sed -E 's/127\\.0\\.0\\.1:[0-9]+/127.0.0.1:1/' kubeconfig > dead");
    let said = plane.fails(&format!("{ferroplane} why fault/a --kubeconfig dead"), "");
    assert!(said.contains("cannot reach the API server at https://127.0.0.1:1; is it running?"), "{said}");
    let said = plane.fails(&format!("{ferroplane} why fault/a --context nobody"), "");
    assert!(said.contains("there is no context `nobody`"), "{said}");
    assert!(plane.fails(&format!("{ferroplane} trace fault"), "").contains("name an object as KIND/NAME"));
}

#[test]
fn advice_does_not_send_to_pods_where_there_are_none() {
    let Some(plane) = plane() else { return };
    if plane.says("kubectl version -o json").contains("+ferroplane") {
        let still = fault("still", &[named("still"), ready()], &[]);
        plane.told("kubectl apply -f -", &still.manifest);
        plane.says("kubectl wait bucket/still --for=create --timeout=30s");
        plane.says("kubectl wait fault/still --for=condition=Synced --timeout=30s");
        let (_, answer) = why(&plane, "fault/still");
        assert!(
            answer.contains("`ferroplane up` runs no pods: install the Provider of the kind"),
            "{answer}"
        );
        assert!(answer.contains("kubectl get providers"), "{answer}");
    }
}

#[test]
fn kubeconfig_of_the_environment_wins_over_the_data_directory_of_the_environment() {
    if peer("kubectl").is_none() {
        return;
    }
    let (one, other) = (Plane::new(), Plane::new());
    one.says("kubectl create configmap mine");
    let binary = env!("CARGO_BIN_EXE_ferroplane");
    let data = other.path("data");
    let data = data.display();
    // As kubectl beside it: $KUBECONFIG says where.
    one.says(&format!("FERROPLANE_DATA_DIR={data} {binary} why configmap/mine"));
    // What is said on the command line counts more.
    std::fs::copy(other.path("kubeconfig"), other.path("data/kubeconfig")).unwrap();
    let said = one.fails(&format!("{binary} why configmap/mine --data-dir {data}"), "");
    assert!(said.contains("mine"), "{said}");
    let said =
        one.fails(&format!("unset KUBECONFIG; FERROPLANE_DATA_DIR={data} {binary} why configmap/mine"), "");
    assert!(said.contains("mine"), "{said}");
}

#[test]
fn everything_that_is_not_ready_is_told_by_cause() {
    let Some(plane) = plane() else { return };
    let fatal =
        fault("fatal", &[answering("{results: [{severity: SEVERITY_FATAL, message: no such region}]}")], &[]);
    let more: String =
        ["second", "third"].map(|name| xr("Fault", name, "compositionRef: {name: fatal}")).concat();
    plane.told(
        "kubectl apply -f -",
        &(fatal.manifest + &more + &package("Provider", "p", "acme/provider-p:v1.0.0")),
    );
    plane
        .says("kubectl wait fault/fatal fault/second fault/third --for=condition=Synced=false --timeout=60s");
    plane.says("kubectl wait provider/p --for=condition=Installed=false --timeout=60s");
    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    let ran = plane.shell(&format!("{ferroplane} why")).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(3), "{text}");
    let (failing, idle) = (text.find("no such region").unwrap(), text.find("Provider p").unwrap());
    assert!(failing < idle && text.contains("Affects 3: Fault default/"), "{text}");
    let ran = plane.shell(&format!("{ferroplane} why -n default -o json")).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&json["notReady"], &json["causes"][0]["count"]), (&3.into(), &3.into()), "{json}");
    assert_eq!(json["causes"][0]["cause"]["code"], "FunctionFatalResult", "{json}");
    let ran = plane.shell(&format!("{ferroplane} why -n kube-system")).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stdout));
}

/// May read the kinds of the control plane, and no composite resources.
const READER: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- apiGroups: [apiextensions.crossplane.io, pkg.crossplane.io, protection.crossplane.io, ops.crossplane.io,
    rollout.ferroplane.io, cr.kanister.io]
  resources: ['*']
  verbs: [get, list]
";

#[test]
fn kinds_that_the_user_may_not_read_are_listed_and_not_called_ready() {
    if peer("kubectl").is_none() {
        return;
    }
    let plane = Plane::new();
    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    plane.told("kubectl apply -f -", &(definition("Lonely", "Namespaced") + "---" + READER));
    plane.says("kubectl wait xrd lonelys.test.io --for=condition=Established --timeout=60s");
    plane.says("kubectl create clusterrolebinding bob --clusterrole=reader --user=bob");
    plane.says("sed 's/^  user:$/&\\n    as: bob/' kubeconfig > bob && grep -q 'as: bob' bob");
    plane.says(&format!("{ferroplane} why"));

    let unread = "lonelys.test.io is forbidden: User \"bob\" cannot list resource \"lonelys\"";
    let (code, text) = why(&plane, "--kubeconfig bob");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&format!("Could not read:\n  lonelys.test.io: {unread}")), "{text}");
    assert!(text.contains("cannot say whether everything is ready: one kind could not be read"), "{text}");
    let (code, text) = why(&plane, "--kubeconfig bob -n default -o json 2>/dev/null");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &json["unread"][0]["kind"]), (Some(1), &"lonelys.test.io".into()), "{json}");

    // What is not ready among the kinds that can be read counts more.
    plane.told("kubectl apply -f -", &package("Provider", "p", "acme/provider-p:v1.0.0"));
    plane.says("kubectl wait provider/p --for=condition=Installed=false --timeout=60s");
    let (code, text) = why(&plane, "--kubeconfig bob");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("Provider p") && text.contains(unread), "{text}");
}
