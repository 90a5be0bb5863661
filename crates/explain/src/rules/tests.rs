//! One snapshot for every rule, and the first line that it comes to.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use ferroplane_api::crds::{self, Crd};
use ferroplane_api::{AccessGrantSpec, Cause, FailurePoint, TypeRef};
use ferroplane_engine::versions::{Unresolved, Version};
use ferroplane_engine::wording::{
    CANNOT_SELECT_COMPOSITION, CANNOT_SELECT_REVISION, cannot_apply, cannot_use_revision,
};
use ferroplane_engine::{
    Failure, InvalidPipeline, PipelineError, Trouble, UnresolvedStep, Unselectable, chain, refusal_cause,
};

use super::{RULES, SHOWN, actions, operations};
use crate::testing::{Plane, SINCE, bucket, composition, condition, established, revision, root};
use crate::{Home, Id, State, diagnose};

const STEP: &str = "compose";

fn text(text: &str) -> String {
    text.to_owned()
}

/// A run of the pipeline that fails.
#[expect(clippy::needless_pass_by_value, reason = "it reads better in a table")]
fn run(failure: Failure) -> Plane {
    Plane::troubled(&Trouble::of(&failure))
}

/// A function that cannot be called.
fn call(cause: Cause, error: &'static str) -> Plane {
    run(Failure::Call { step: text(STEP), cause, source: error.into() })
}

fn select(operation: &str, error: &Unselectable) -> Plane {
    Plane::troubled(&Trouble::new("", format!("{operation}: {error}"), error.cause()))
}

/// A revision that cannot be used.
fn unusable(error: &str, failure: FailurePoint) -> Plane {
    Plane::troubled(&Trouble::new("", format!("{}: {error}", cannot_use_revision("app-1")), failure))
}

fn unresolved(source: Unresolved) -> Plane {
    let step = UnresolvedStep { index: 0, step: text(STEP), source };
    unusable(&chain(&step), step.point())
}

/// A composed resource that an API server refuses, in its words.
fn apply(reason: &str, refusal: &str) -> Plane {
    let failure = FailurePoint::new(refusal_cause(reason, refusal)).in_step(STEP).of_resource("bucket");
    Plane::troubled(&Trouble::new("", format!("{}: {refusal}", cannot_apply("bucket", STEP)), failure))
}

/// A step that asks for what it may not read, by this name.
fn denied_read(secret: &str) -> Failure {
    let spec = json!({
        "to": {"namespaces": ["default"], "functions": ["function-compose"]},
        "read": [{"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["platform"], "names": [secret]}],
    });
    let grant: AccessGrantSpec = serde_json::from_value(spec).unwrap();
    Failure::Denied { step: text(STEP), requirement: text("token"), read: Box::new(grant.into()) }
}

fn leaving(finalizer: &str) -> impl Fn(&mut Value) {
    let finalizer = finalizer.to_owned();
    move |it| {
        it["metadata"]["deletionTimestamp"] = SINCE.into();
        it["metadata"]["finalizers"] = json!([finalizer]);
    }
}

#[expect(clippy::too_many_lines, reason = "a table with one entry for each rule")]
fn cases() -> Vec<(&'static str, Plane, &'static str)> {
    let function = || text("function-compose");
    let app = || TypeRef { api_version: text("demo.io/v1"), kind: text("App") };
    let resource = || text("bucket");
    let synced = || condition("Synced", "True", "ReconcileSuccess", "");
    let usage = json!({
        "apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": "u", "namespace": "default"},
        "spec": {"of": {"apiVersion": "cloud.io/v1", "kind": "Bucket", "resourceRef": {"name": "b"}}, "reason": "it is precious"},
    });
    vec![
        ("definition-invalid", Plane { objects: vec![established(condition("Established", "False", "ReconcileError", "spec.versions: bad"))], ..Plane::default() },
         "CompositeResourceDefinition apps.demo.io: spec.versions: bad"),
        ("definition-not-established", Plane { objects: vec![established(condition("Other", "True", "", ""))], ..Plane::default() },
         "CompositeResourceDefinition apps.demo.io: is not established yet: is the control plane running?"),
        ("definition-not-established", Plane::unready("bucket").but("CustomResourceDefinition", |it| it["status"]["conditions"] = json!([condition("NamesAccepted", "False", "ListKindConflict", "the name is taken")])),
         "CustomResourceDefinition apps.demo.io: NamesAccepted is False: the name is taken"),
        ("provider-not-installed", Plane::unready("bucket").without("Bucket"),
         "Bucket default/b: the API server has no kind Bucket in cloud.io/v1: its provider is not installed"),
        ("unreadable", Plane { unreadable: vec![root()], ..Plane::default() }, "App default/hello: cannot be read: no"),
        ("not-found", Plane::unready("bucket").without("App"), "App default/hello: does not exist"),
        ("usage", Plane::unready("bucket").but("App", leaving("foregroundDeletion")).and(usage),
         "Bucket default/b: cannot be deleted because of Usage default/u: it is precious"),
        ("finalizer", Plane::unready("bucket").but("App", leaving("foregroundDeletion")).but("Bucket", leaving("finalizer.cloud.io")),
         "Bucket default/b: field `metadata.finalizers`: is being deleted, but the finalizer `finalizer.cloud.io` keeps it: the controller that set it has not removed it"),
        ("paused", Plane::unready("bucket").but("App", |it| it["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"})),
         "App default/hello: field `metadata.annotations[crossplane.io/paused]`: is paused by the annotation `crossplane.io/paused`: it is not reconciled"),
        ("no-composition", select(CANNOT_SELECT_COMPOSITION, &Unselectable::NoComposition { labels: None, api_version: app().api_version, kind: app().kind }),
         "App default/hello: no Composition composes App (demo.io/v1)"),
        ("composition-missing", select(CANNOT_SELECT_REVISION, &Unselectable::UnknownComposition(text("app"))),
         "Composition app: field `spec.crossplane.compositionRef.name`: does not exist, but App default/hello names it"),
        ("revision-missing", select(CANNOT_SELECT_REVISION, &Unselectable::UnknownRevision(text("app-1"))),
         "CompositionRevision app-1: field `spec.crossplane.compositionRevisionRef.name`: does not exist, but App default/hello names it"),
        ("revision-incompatible", select(CANNOT_SELECT_REVISION, &Unselectable::Incompatible { revision: text("app-1"), composes: TypeRef { kind: text("Other"), ..app() }, wanted: app() }),
         "App default/hello: field `spec.crossplane.compositionRef.name`: CompositionRevision `app-1` composes Other (demo.io/v1), not App (demo.io/v1)"),
        ("function-missing", unresolved(Unresolved::UnknownFunction { function: function(), similar: None }), "Function function-compose: step `compose`: there is no function `function-compose`"),
        ("function-not-runnable", unusable("Nothing runs package `a.b/c:v1`", FailurePoint::new(Cause::FunctionNotRunnable).in_step(STEP)),
         "Function function-compose: step `compose`: Nothing runs package `a.b/c:v1`"),
        ("kind-not-supported", Plane::troubled(&Trouble::new("", "nothing acts on it", Cause::KindNotSupported)), "App default/hello: nothing acts on it"),
        ("function-missing", unresolved(Unresolved::UnknownFunction { function: function(), similar: None }).and(json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "function-compose"},
            "status": {"conditions": [{"type": "Installed", "status": "False", "message": "nothing runs it", "code": "FunctionNotRunnable"}]},
         })), "Function function-compose: step `compose`: nothing runs it"),
        ("function-inactive", unresolved(Unresolved::NoActiveRevision { function: function(), labels: None }), "Function function-compose: step `compose`: function `function-compose` has no active revision"),
        ("function-version", unresolved(Unresolved::VersionNotFound { function: function(), version: version("v9.9.9"), served: text("v1.0.0") }), "Function function-compose: step `compose`: function `function-compose` has no version v9.9.9: there is v1.0.0"),
        ("function-selectors-off", unresolved(Unresolved::RevisionSelectorsDisabled { function: function(), field: "functionRevisionRef" }), "App default/hello: step `compose`: function `function-compose`: `functionRevisionRef` says which revision to call, and the control plane runs without --enable-function-revision-selectors: have it started with that flag, or leave the field out"),
        ("function-capability", incapable(InvalidPipeline::MissingCapability { step: text(STEP), function: function(), revision: text("r"), missing: "composition" }),
         "Function function-compose: step `compose`: function `function-compose` (active revision `r`) does not have the capability `composition`"),
        ("function-tls", call(Cause::FunctionTlsFailed, "cannot establish TLS with the function at a:9443: unknown issuer"), "Function function-compose: step `compose`: cannot establish TLS with the function at a:9443: unknown issuer"),
        ("function-slow", call(Cause::FunctionTimeout, "the function at a:9443 did not answer within 10s"), "Function function-compose: step `compose`: the function at a:9443 did not answer within 10s"),
        ("function-crashing", call(Cause::FunctionConnectionLost, "lost the connection to the function at a:9443 before it answered: reset"), "Function function-compose: step `compose`: lost the connection to the function at a:9443 before it answered: reset"),
        ("function-unreachable", call(Cause::FunctionUnreachable, "cannot reach the function at a:9443 within 5s: refused"), "Function function-compose: step `compose`: cannot reach the function at a:9443 within 5s: refused"),
        ("function-answer", run(Failure::NotAnObject { step: text(STEP), resource: resource() }),
         "Function function-compose: step `compose`: composed resource `bucket` of step `compose` is not an object"),
        ("function-fatal", run(Failure::Fatal { step: text(STEP), message: text("no region") }), "App default/hello: step `compose`: no region"),
        ("function-requirements-unstable", run(Failure::NeverSettles { step: text(STEP), calls: 5 }),
         "Function function-compose: step `compose`: it changed its requirements after each of 5 calls"),
        ("requirement", run(Failure::Requirement { step: text(STEP), requirement: text("vpc"), reason: text("there is no kind VPC in a/v1") }),
         "App default/hello: step `compose`: field `vpc`: cannot fetch `vpc`, which pipeline step `compose` requires: there is no kind VPC in a/v1"),
        ("credential", run(Failure::Credential { step: text(STEP), credential: text("aws"), secret: text("ns/aws"), reason: text("it does not exist") }).but("CompositionRevision", |it| it["spec"]["pipeline"][0]["credentials"] = json!([{"name": "aws", "secretRef": {"namespace": "ns", "name": "aws"}}])),
         "Secret ns/aws: step `compose`: cannot get credential `aws` of pipeline step `compose` from Secret `ns/aws`: it does not exist"),
        ("access-not-granted", run(denied_read("token")),
         "App default/hello: step `compose`: cannot let pipeline step `compose` read Secret `platform/token`: the composite resource is in namespace `default`, and no AccessGrant allows that"),
        ("step-input", run(Failure::Input { step: text(STEP), object: text("Palette `warm`"), reason: text("it does not exist") }),
         "App default/hello: step `compose`: cannot get the input of pipeline step `compose`, Palette `warm`: it does not exist"),
        ("function-failed", call(Cause::FunctionCallFailed, "the function at a:9443 failed with Internal: oops"), "Function function-compose: step `compose`: the function at a:9443 failed with Internal: oops"),
        ("revision-invalid", incapable(InvalidPipeline::NotReady(PipelineError::DuplicateStep(text("a")))), "CompositionRevision app-1: step `a`: cannot make the pipeline ready: two steps are named `a`"),
        ("kind-not-installed", unknown_kind().without("Bucket"), "Bucket default/b: step `compose`: there is no kind Bucket in cloud.io/v1: is it installed?"),
        ("quota", apply("Forbidden", "buckets.cloud.io \"b\" is forbidden: exceeded quota: few, requested: 1, used: 1, limited: 1"),
         "Bucket default/b: step `compose`: buckets.cloud.io \"b\" is forbidden: exceeded quota: few, requested: 1, used: 1, limited: 1"),
        ("namespace-terminating", apply("Forbidden", "buckets.cloud.io \"b\" is forbidden: unable to create new content in namespace default because it is being terminated"),
         "Namespace default: step `compose`: buckets.cloud.io \"b\" is forbidden: unable to create new content in namespace default because it is being terminated"),
        ("namespace-missing", apply("NotFound", "namespaces \"nope\" not found"), "Namespace nope: step `compose`: does not exist"),
        ("rights", denied(),
         "Bucket default/b: step `compose`: x is not allowed to [patch] resource buckets.cloud.io/v1 in namespace default"),
        ("webhook-unreachable", apply("InternalError", "Internal error occurred: failed calling webhook \"a.b\": refused"), "Bucket default/b: step `compose`: Internal error occurred: failed calling webhook \"a.b\": refused"),
        ("webhook-denied", apply("Forbidden", "admission webhook \"a.b\" denied the request: too big"), "Bucket default/b: step `compose`: admission webhook \"a.b\" denied the request: too big"),
        ("name-conflict", apply("Invalid", "Bucket.cloud.io \"b\" is invalid: metadata.ownerReferences: Invalid value: []: Only one reference can have Controller set to true")
            .but("Bucket", |it| it["metadata"]["ownerReferences"] = json!([{"kind": "Other", "name": "o", "uid": "9", "controller": true}])),
         "Bucket default/b: step `compose`: field `metadata.ownerReferences`: belongs to Other `o`, so App default/hello cannot control it: give one of them another name"),
        ("same-name", run(Failure::SameObject { first: text("a"), second: text("b"), object: text("Bucket `x`") }),
         "App default/hello: field `metadata.name`: composed resources `a` and `b` are the same object, Bucket `x`: give them different names"),
        ("field-conflict", apply("Conflict", "Apply failed with 1 conflict: conflict with \"kubectl\": .spec.size"), "Bucket default/b: step `compose`: Apply failed with 1 conflict: conflict with \"kubectl\": .spec.size"),
        ("immutable", apply("Invalid", "Bucket.cloud.io \"b\" is invalid: spec.region: Invalid value: \"x\": field is immutable"), "Bucket default/b: step `compose`: field `spec.region`: Invalid value: \"x\": field is immutable"),
        ("rule-rejection", apply("Invalid", "Bucket.cloud.io \"b\" is invalid: spec: Invalid value: \"object\": size must be even"), "Bucket default/b: step `compose`: field `spec`: Invalid value: \"object\": size must be even"),
        ("schema-rejection", apply("Invalid", "Bucket.cloud.io \"b\" is invalid: spec.size: Required value"), "Bucket default/b: step `compose`: field `spec.size`: Required value"),
        ("scope", run(Failure::ClusterScoped { step: text(STEP), resource: text("x"), kind: text("ClusterRole") }),
         "App default/hello: step `compose`: composed resource `x` of step `compose` is cluster scoped (ClusterRole), but the composite resource is namespaced and may only compose resources in its own namespace"),
        ("namespace-not-set", run(Failure::NamespaceMissing { step: text(STEP), resource: text("x"), kind: text("ConfigMap") }),
         "App default/hello: step `compose`: field `metadata.namespace`: composed resource `x` of step `compose` lives in a namespace (ConfigMap), but has no metadata.namespace, and the composite resource is cluster scoped: set metadata.namespace, or make the composite resource namespaced"),
        ("overload", Plane::troubled(&Trouble::new("", format!("{}: cannot reach the API server: there was no answer in time", cannot_apply("bucket", STEP)), FailurePoint::new(Cause::ApiServerUnreachable).in_step(STEP).of_resource("bucket"))), "App default/hello: step `compose`: cannot reach the API server: there was no answer in time"),
        ("claim-bound", Plane::troubled(&Trouble::new("", "cannot bind the composite resource `x`: it is bound to the claim `b/c`", Cause::CompositeResourceBound)), "App default/hello: field `spec.resourceRef`: cannot bind the composite resource `x`: it is bound to the claim `b/c`"),
        ("sync-error", Plane::unready("bucket").and(bucket(json!([condition("Synced", "False", "ReconcileError", "the cloud says no")]))), "Bucket default/b: the cloud says no"),
        ("contested", Plane::with(json!([synced(), condition("Ready", "True", "", ""), condition("Uncontested", "False", "FieldConflict", "Bucket `b` .spec.size is also set by `kubectl`")])),
         "App default/hello: Bucket `b` .spec.size is also set by `kubectl`"),
        ("storm", Plane::with(json!([synced(), condition("Ready", "True", "", ""), condition("Responsive", "False", "WatchCircuitOpen", "too much happens")])), "App default/hello: too much happens"),
        ("waiting-for-deletion", Plane::unready("bucket").without("Bucket").but("App", leaving("mine.io/f")),
         "App default/hello: field `metadata.finalizers`: is being deleted, but the finalizer `mine.io/f` keeps it: the controller that set it has not removed it"),
        ("stale", Plane::with(json!([synced(), condition("Ready", "True", "", "")])).but("App", |it| it["metadata"]["generation"] = 2.into()),
         "App default/hello: field `metadata.generation`: its generation is 2, but the control plane has only reconciled generation 1: it is behind, or not running"),
        ("unattended", Plane::with(json!([])), "App default/hello: no controller has finished reconciling it yet: it is new, or the control plane is not running"),
        ("unattended", begun(), "App default/hello: its pipeline runs for the first time, and has not ended yet"),
        ("unattended", begun().and(json!({
            "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "function-compose", "annotations": {
                "render.crossplane.io/runtime": "Development", "render.crossplane.io/runtime-development-target": "127.0.0.1:1",
            }},
         })), "Function function-compose: step `compose`: its pipeline runs for the first time, and has not ended yet: does the function answer at 127.0.0.1:1?"),
        ("readiness-check", templated(json!([{"type": "MatchString", "fieldPath": "status.phase", "matchString": "Up"}]))
            .but("Bucket", |it| it["status"]["phase"] = "Pending".into()),
         "Bucket default/b: step `make`: field `status.phase`: is `Pending`, and a readiness check expects `Up`"),
        ("readiness-check", templated(json!([{"type": "NonEmpty", "fieldPath": "spec.address"}])),
         "Bucket default/b: step `make`: field `spec.address`: is not set, and a readiness check waits for it"),
        ("readiness-check", templated(json!([])).and(bucket(json!([condition("Available", "True", "", "")]))),
         "Bucket default/b: step `make`: it has no condition Ready, and a readiness check expects it to be True; it has Available"),
        ("not-ready", templated(json!([])).and(bucket(json!([condition("Ready", "False", "Creating", "the cloud is busy")]))),
         "Bucket default/b: step `make`: its condition Ready is False: Creating: the cloud is busy"),
        ("controller-not-running", templated(json!([{"type": "MatchCondition", "matchCondition": {"type": "Available", "status": "True"}}])),
         "Bucket default/b: step `make`: has no conditions: no controller here manages Bucket; is its provider or controller running?"),
        ("controller-not-running", templated(json!([])).but("CompositionRevision", |it| {
            it["spec"]["resources"] = it["spec"]["pipeline"][0]["input"]["resources"].take();
            it["spec"]["pipeline"] = json!([]);
         }),
         "Bucket default/b: step `patch-and-transform`: has no conditions: no controller here manages Bucket; is its provider or controller running?"),
        ("required-patch", skipped("FromCompositeFieldPath", "spec.b"),
         "App default/hello: step `make`: field `spec.b`: is not set, and composed resource `other` requires it: a patch of type FromCompositeFieldPath is `Required`"),
        ("required-patch", skipped("FromEnvironmentFieldPath", "region"),
         "App default/hello: step `make`: field `region`: the environment does not have it, and composed resource `other` requires it: a patch of type FromEnvironmentFieldPath is `Required`"),
        ("function-warning", warning(Plane::with(json!([synced(), condition("Ready", "False", "Creating", "")])), "the moon is full"),
         "App default/hello: step `make`: the moon is full"),
        ("nothing-composed", templated(json!([])).but("App", |it| {
            it["spec"]["crossplane"]["resourceRefs"] = json!([]);
            it["status"]["conditions"] = json!([condition("Synced", "True", "", ""), condition("Ready", "True", "", "")]);
         }).but("CompositionRevision", |it| {
            it["spec"]["pipeline"].as_array_mut().unwrap().push(json!({"step": "drop", "functionRef": {"name": "f"}}));
         }),
         "App default/hello: step `make`: composes nothing, although this step makes `bucket`: a later step (`drop`) does not pass it on"),
        ("no-composition", select(CANNOT_SELECT_COMPOSITION, &Unselectable::NoComposition { labels: None, api_version: app().api_version, kind: app().kind })
            .and(composition("old")).but("Composition", |it| it["spec"]["compositeTypeRef"]["apiVersion"] = "demo.io/v1alpha1".into()),
         "App default/hello: no Composition composes App (demo.io/v1): Composition `app` composes App (demo.io/v1alpha1) (and 1 more)"),
        ("schema-rejection", apply("Invalid", "Bucket.cloud.io \"b\" is invalid: []: Too long: may not be more than 9 bytes"),
         "Bucket default/b: step `compose`: Too long: may not be more than 9 bytes"),
        ("not-ready", Plane::unready("bucket").and(bucket(json!([condition("Ready", "False", "Creating", "the cloud is busy")]))),
         "Bucket default/b: step `compose`: its condition Ready is False: Creating: the cloud is busy"),
        ("controller-not-running", Plane::unready("bucket"),
         "Bucket default/b: step `compose`: has no conditions: no controller here manages Bucket; is its provider or controller running?"),
        ("readiness-undeclared", Plane::unready("bucket").and(revision("app-1", 1, &[("compose", "function-compose")])),
         "CompositionRevision app-1: step `compose`: field `spec.pipeline`: no function says whether these are ready: bucket; the pipeline has no step for it"),
        ("condition", Plane::with(json!([synced(), condition("Ready", "False", "Creating", ""), condition("DatabaseMigrated", "False", "Waiting", "for the backup")])),
         "App default/hello: a function has set DatabaseMigrated to False: for the backup"),
        ("pinned", Plane::with(json!([synced(), condition("Ready", "False", "Creating", "")])).and(revision("app-2", 2, &[]))
            .but("App", |it| it["spec"]["crossplane"]["compositionUpdatePolicy"] = "Manual".into()),
         "App default/hello: field `spec.crossplane.compositionUpdatePolicy`: stays at revision 1 of Composition `app`, of which revision 2 is the latest"),
        ("several-compositions", Plane::with(json!([synced(), condition("Ready", "False", "Creating", "")])).and(composition("other")),
         "App default/hello: field `spec.crossplane.compositionRef.name`: 2 Compositions compose it (`app`, `other`), and `app` is used: is that the one you mean?"),
        ("intercepted", composed_by("own@intercept/debug", json!({})), "App default/hello: its calls of function `own` are answered by a developer's process, because of FunctionIntercept `debug`"),
        ("held-by-rollout", composed_by("own-1", json!({"state": "Paused", "message": "Paused by `spec.paused`", "candidate": "own-2"})),
         "App default/hello: calls revision `own-1` of function `own`: FunctionRollout `own` is not moving it to `own-2`: Paused by `spec.paused`"),
        ("held-by-rollout", composed_by("own-1", json!({"state": "Progressing", "candidate": "own-2", "composites": {"total": 9, "moved": 2}})),
         "App default/hello: calls revision `own-1` of function `own`: FunctionRollout `own` has not moved it to `own-2` yet; 2 of 9 have been moved"),
        ("held-by-rollout", composed_by("own-1", json!({"state": "RolledBack", "message": "it fails", "rejected": "own-2"})),
         "App default/hello: calls revision `own-1` of function `own`: FunctionRollout `own` has rolled back `own-2`: it fails"),
        ("held-by-rollout", following(json!({"state": "Progressing", "candidate": "app-2", "composites": {"total": 9, "moved": 2}})),
         "App default/hello: follows revision `app-1` of Composition `app`: FunctionRollout `own` has not moved it to `app-2` yet; 2 of 9 have been moved"),
        ("held-by-rollout", following(json!({"state": "RolledBack", "message": "it deletes", "rejected": "app-2"})),
         "App default/hello: follows revision `app-1` of Composition `app`: FunctionRollout `own` has rolled back `app-2`: it deletes"),
        ("declared-unready", Plane::with(json!([synced(), condition("Ready", "False", "Creating", "")])), "App default/hello: a function says that it is not ready"),
    ]
}

/// One that is ready, was composed by a revision of a function, and is subject to a rollout with this status.
#[expect(clippy::needless_pass_by_value, reason = "it reads better in a table")]
fn composed_by(revision: &str, rollout: Value) -> Plane {
    let revision = revision.to_owned();
    let rollout = json!({
        "apiVersion": "rollout.ferroplane.io/v1alpha1", "kind": "FunctionRollout", "metadata": {"name": "own"},
        "spec": {"functionRef": {"name": "own"}}, "status": rollout,
    });
    Plane::with(json!([
        condition("Synced", "True", "ReconcileSuccess", ""),
        condition("Ready", "True", "Available", "")
    ]))
    .but("App", |it| {
        it["status"]["ferroplane"] =
            json!({"functions": [{"step": "own", "function": "own", "revision": revision}]});
    })
    .and(rollout)
}

/// The same for one whose Composition is subject to a rollout with this status.
fn following(rollout: Value) -> Plane {
    composed_by("own-1", rollout)
        .but("FunctionRollout", |it| it["spec"] = json!({"compositionRef": {"name": "app"}}))
}

/// One that the control plane has begun to check.
fn begun() -> Plane {
    Plane::with(json!([]))
        .but("App", |it| it["metadata"]["labels"] = json!({"crossplane.io/composite": "hello"}))
}

/// One whose bucket is made of a template of patch-and-transform, with these readiness checks, and is not ready.
#[expect(clippy::needless_pass_by_value, reason = "it reads better in a table")]
fn templated(checks: Value) -> Plane {
    let mut revision = revision("app-1", 1, &[("make", "some-function")]);
    revision["spec"]["pipeline"][0]["input"] = json!({
        "apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources",
        "resources": [{"name": "bucket", "base": {}, "readinessChecks": checks}],
    });
    Plane::unready("bucket").and(revision)
}

/// One of which patch-and-transform leaves out a resource because a field is missing.
fn skipped(patch: &str, field: &str) -> Plane {
    let plane = Plane::with(json!([
        condition("Synced", "True", "ReconcileSuccess", ""),
        condition("Ready", "False", "Creating", "")
    ]));
    let text = format!(
        "not adding new composed resource \"other\" to desired state because \"{patch}\" patch at index 0 has 'policy.fromFieldPath: Required': {field}: no such field"
    );
    warning(plane, &text)
}

/// The same, after a function has warned of something.
fn warning(mut plane: Plane, text: &str) -> Plane {
    plane.events.push(json!({
        "about": "hello", "type": "Warning", "reason": "ComposeResources", "lastTimestamp": SINCE,
        "message": format!("Pipeline step \"make\": {text}"),
    }));
    plane
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "it reads better in a table")]
fn incapable(error: InvalidPipeline) -> Plane {
    unusable(&chain(&error), error.point())
}

/// As the controller says it if discovery does not list the kind.
fn unknown_kind() -> Plane {
    let failure = FailurePoint::new(Cause::ComposedKindUnavailable).in_step(STEP).of_resource("bucket");
    let message = "there is no kind Bucket in cloud.io/v1: is it installed?";
    Plane::troubled(&Trouble::new("", format!("{}: {message}", cannot_apply("bucket", STEP)), failure))
}

/// A right that is missing is told in an event of its own.
fn denied() -> Plane {
    let mut plane = apply(
        "Forbidden",
        "buckets.cloud.io \"b\" is forbidden: User \"x\" cannot patch resource \"buckets\"",
    );
    plane.events.push(json!({
        "about": "hello", "type": "Warning", "reason": "RoleBasedAccessControl", "lastTimestamp": SINCE,
        "metadata": {"annotations": {
            "ferroplane.io/cause": "PermissionDenied", "ferroplane.io/step": STEP, "ferroplane.io/resource": "bucket",
        }},
        "message": "x is not allowed to [patch] resource buckets.cloud.io/v1 in namespace default",
    }));
    plane
}

#[test]
fn every_cause_is_named_in_the_first_line() {
    let mut wrong = Vec::new();
    for (rule, plane, line) in cases() {
        let diagnosis = diagnose(&plane.read(), &root());
        let found = diagnosis.cause.map(|cause| (cause.rule.to_owned(), cause.to_string()));
        let expected = Some((rule.to_owned(), line.to_owned()));
        if found != expected {
            wrong.push(format!("\n  {expected:?}\n  {found:?}"));
        }
        // Those go well enough to be used.
        assert_eq!(
            diagnosis.is_ready,
            ["contested", "storm", "nothing-composed", "intercepted", "held-by-rollout"].contains(&rule),
            "{rule}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_case() {
    // One is about a kind, not about an object of it, and one about kinds that are not composed: they have tests of their own.
    let proven = cases().into_iter().map(|(rule, ..)| rule).chain(["no-definition", "reported"]);
    let proven: BTreeSet<_> = proven
        .chain(operations::tests::cases().into_iter().map(|case| case.rule))
        .chain(actions::tests::cases().into_iter().map(|case| case.rule))
        .collect();
    let known: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(proven, known);
    assert!(known.len() >= 30);
}

#[test]
fn every_code_has_a_rule_or_is_shown_with_its_message() {
    for cause in Cause::ALL {
        let rules: Vec<_> =
            RULES.iter().filter(|rule| rule.causes.contains(cause)).map(|rule| rule.name).collect();
        let is_shown = SHOWN.contains(cause);
        assert_eq!(
            rules.len() + usize::from(is_shown),
            1,
            "{cause}: in the rules {rules:?}, shown: {is_shown}"
        );
    }
}

#[test]
fn failure_that_no_rule_knows_is_shown_with_its_message() {
    let cause = |plane: Plane| diagnose(&plane.read(), &root()).cause.unwrap();
    for shown in SHOWN {
        let found = cause(Plane::troubled(&Trouble::new("", "it is so", *shown)));
        assert_eq!(
            (found.rule, found.code, found.message.as_str()),
            ("sync-error", Some(shown.code()), "it is so")
        );
    }
    // What a later release says, and what an older one said.
    let later =
        Plane::saying("it is so").but("App", |it| it["status"]["conditions"][0]["code"] = "Later".into());
    for plane in [later, Plane::saying("it is so")] {
        let found = cause(plane);
        assert_eq!((found.rule, found.code, found.message.as_str()), ("sync-error", None, "it is so"));
    }
}

#[test]
fn crossplanes_failures_are_named_by_their_words() {
    let cases = [
        (
            "cannot compose resources: cannot run Composition pipeline step \"compose\": cannot run Function \"function-compose\": rpc error: code = Unavailable desc = connection refused",
            "function-unreachable",
            "Function function-compose: step `compose`: cannot run Function \"function-compose\": rpc error: code = Unavailable desc = connection refused",
        ),
        (
            "cannot compose resources: pipeline step \"compose\" returned a fatal result: no region",
            "function-fatal",
            "App default/hello: step `compose`: no region",
        ),
        (
            "cannot compose resources: cannot apply composed resource \"bucket\": Bucket.cloud.io \"b\" is invalid: spec.size: Required value",
            "schema-rejection",
            "Bucket default/b: field `spec.size`: Required value",
        ),
        (
            "cannot select Composition: no compatible Compositions found",
            "no-composition",
            "App default/hello: cannot select Composition: no compatible Compositions found",
        ),
    ];
    for (message, rule, line) in cases {
        let cause = diagnose(&Plane::saying(message).read(), &root()).cause.unwrap();
        assert_eq!((cause.rule, cause.to_string().as_str()), (rule, line));
    }
}

#[test]
fn every_rule_is_documented() {
    let documentation = include_str!("../../../../docs/why.md");
    let missing: Vec<_> = crate::causes()
        .filter(|(name, means)| !documentation.contains(&format!("| `{name}` | {means} |")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn kind_that_nothing_defines_is_said_to_be_so() {
    let mut snapshot = Plane::with(json!([])).read();
    let id = Id::new("", "apps2", "", "x");
    snapshot.put(id.clone(), State::UnknownKind);
    let diagnosis = diagnose(&snapshot, &id);
    assert_eq!(
        diagnosis.cause.unwrap().to_string(),
        "apps2 x: no XRD and no CRD defines the kind `apps2`: did you mean `App`?"
    );
}

#[test]
fn what_is_ready_has_no_cause() {
    let ready = Plane::with(json!([condition("Synced", "True", "", ""), condition("Ready", "True", "", "")]));
    let diagnosis = diagnose(&ready.read(), &root());
    assert!(diagnosis.is_ready && diagnosis.cause.is_none(), "{diagnosis:?}");
}

#[test]
fn condition_that_only_says_where_to_look_is_followed_there() {
    let mut plane =
        Plane::with(json!([condition("Synced", "False", "ReconcileError", "Unsynced resources: bucket")]))
            .but("App", |it| {
                it["status"]["conditions"][0]["code"] = Cause::ComposedResourcesUnsynced.code().into();
            });
    let event = |resource: &str, time: &str, problem: &str| {
        let refusal = format!("Bucket.cloud.io \"b\" is invalid: {problem}");
        let annotations = json!({
            "ferroplane.io/cause": refusal_cause("Invalid", &refusal).code(), "ferroplane.io/step": STEP,
            "ferroplane.io/resource": resource,
        });
        let message = format!("{}: {refusal}", cannot_apply(resource, STEP));
        json!({"about": "hello", "type": "Warning", "message": message, "lastTimestamp": time, "metadata": {"annotations": annotations}})
    };
    plane.events = vec![
        event("bucket", "2025-12-31T00:00:00Z", "spec.old: Required value"),
        event("bucket", "2026-01-01T00:00:05Z", "spec.size: Required value"),
        event("other", "2026-01-01T00:00:06Z", "spec.other: Required value"),
        json!({"about": "hello", "type": "Warning", "message": "there is no Composition `app`", "lastTimestamp": "2026-01-01T00:00:09Z"}),
    ];
    let cause = diagnose(&plane.read(), &root()).cause.unwrap();
    assert_eq!(cause.to_string(), "Bucket default/b: step `compose`: field `spec.size`: Required value");
    assert_eq!((cause.code, cause.since.as_str()), (Some("SchemaViolated"), SINCE));
}

#[test]
fn references_in_a_circle_end() {
    let plane = Plane::unready("bucket").but("App", |it| {
        it["spec"]["crossplane"]["resourceRefs"] =
            json!([{"apiVersion": "demo.io/v1", "kind": "App", "name": "hello"}]);
    });
    assert!(diagnose(&plane.read(), &root()).cause.is_some());
    assert_eq!(crate::tree(&plane.read(), &root()).count(), 2);
}

#[test]
fn what_patch_and_transform_makes_is_not_said_to_be_judged_by_nobody() {
    // Of two resources that are waited for, one is patch-and-transform's: only the other has nobody who says that it is ready.
    let mut revision = revision("app-1", 1, &[("make", "f"), ("more", "g")]);
    revision["spec"]["pipeline"][0]["input"] = json!({
        "apiVersion": "pt.fn.crossplane.io/v1beta1", "resources": [{"name": "bucket", "readinessChecks": [{"type": "None"}]}],
    });
    let mut queue = bucket(json!([]));
    queue["metadata"]["name"] = "q".into();
    queue["metadata"]["annotations"]["crossplane.io/composition-resource-name"] = "queue".into();
    let plane = Plane::unready("bucket, queue").and(revision).and(queue).but("App", |it| {
        let reference = |name: &str| json!({"apiVersion": "cloud.io/v1", "kind": "Bucket", "name": name});
        it["spec"]["crossplane"]["resourceRefs"] = json!([reference("b"), reference("q")]);
    });
    let cause = diagnose(&plane.read(), &root()).cause.unwrap();
    assert_eq!(cause.rule, "readiness-undeclared");
    assert!(cause.message.contains("are ready: queue;"), "{}", cause.message);
}

#[test]
fn advice_for_what_is_not_granted_is_the_grant_that_helps() {
    let advice =
        |secret: &str| diagnose(&run(denied_read(secret)).read(), &root()).cause.unwrap().advice.join("\n");
    assert_eq!(
        advice("token"),
        "have the step read objects in namespace `default`\n\
         or ask an administrator whether the step may read it: an AccessGrant would allow that\n\
         kubectl apply -f - <<< '{\"apiVersion\":\"ferroplane.io/v1alpha1\",\"kind\":\"AccessGrant\",\
         \"metadata\":{\"name\":\"default-hello\"},\"spec\":{\"read\":[{\"apiGroups\":[\"\"],\"kinds\":[\"Secret\"],\
         \"names\":[\"token\"],\"namespaces\":[\"platform\"]}],\"to\":{\"functions\":[\"function-compose\"],\
         \"namespaces\":[\"default\"]}}}'"
    );
    // A function may ask for something of any name.
    assert!(!advice("'; rm -rf ~ #").contains("kubectl"));
    let forged = "a; one with this spec would: {\"to\":{\"namespaces\":[\"*\"]},\"read\":[]}";
    assert!(!advice(forged).contains("kubectl"), "{}", advice(forged));
}

#[test]
fn advice_for_a_missing_function_begins_with_the_remedy() {
    let missing = Unresolved::UnknownFunction { function: text("function-compose"), similar: None };
    let advice = diagnose(&unresolved(missing).read(), &root()).cause.unwrap().advice;
    let remedy = "install the Function, or correct `functionRef.name`";
    assert_eq!(advice, [remedy, "kubectl get functions", "ferroplane functions versions"]);
}

#[test]
fn advice_fits_the_home() {
    let advice =
        |plane: Plane, home| diagnose(&plane.read().at(home), &root()).cause.unwrap().advice.join("; ");
    let untrusted: fn() -> Plane =
        || call(Cause::FunctionTlsFailed, "cannot establish TLS with the function at a:9443: unknown issuer");
    let planes: [fn() -> Plane; 5] = [
        || Plane::unready("bucket"),
        || Plane::unready("bucket").without("Bucket"),
        || unknown_kind().without("Bucket"),
        || call(Cause::FunctionUnreachable, "cannot reach the function at a:9443 within 5s: refused"),
        untrusted,
    ];
    for plane in planes {
        let on_cluster = advice(plane(), Home::Cluster);
        assert!(["get providers", "get pods"].iter().any(|it| on_cluster.contains(it)), "{on_cluster}");
        let embedded = advice(plane(), Home::Embedded);
        // `up` runs Providers, and no pods.
        assert!(!embedded.contains("get pods"), "{embedded}");
        // Not every control plane is installed there.
        assert!(!on_cluster.contains("crossplane-system"), "{on_cluster}");
    }
    // `start` ignores the directory, and `up` has no Secrets of its own.
    let of_certificates = |home| {
        let advice = advice(untrusted(), home);
        ["crossplane-tls-client", "--tls-client-certs-dir"].map(|place| advice.contains(place))
    };
    assert_eq!(
        (of_certificates(Home::Cluster), of_certificates(Home::Embedded)),
        ([true, false], [false, true])
    );
}

/// What is found out about an object that is alone.
fn alone(object: &Value, home: Home) -> crate::Diagnosis {
    let id = Id::of(&crate::testing::object(object));
    let mut snapshot = Plane::with(json!([])).read().at(home);
    snapshot.put(id.clone(), State::Here(Box::new(crate::testing::object(object))));
    diagnose(&snapshot, &id)
}

#[test]
fn object_that_nothing_acts_on_is_not_called_ready() {
    let provider = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Provider", "metadata": {"name": "p"},
        "status": {"conditions": [{"type": "Installed", "status": "False", "message": "nothing acts on it", "code": "KindNotSupported"}]},
    });
    let lock = json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "Lock", "metadata": {"name": "lock"},
        "status": {"conditions": [{"type": "Resolved", "status": "False", "message": "has no effect", "code": "KindNotSupported"}]},
    });
    for object in [provider, lock] {
        let diagnosis = alone(&object, Home::Cluster);
        let cause = diagnosis.cause.unwrap();
        assert_eq!(
            (diagnosis.is_ready, cause.rule, cause.code),
            (false, "kind-not-supported", Some("KindNotSupported"))
        );
    }
    // A kind without a status says nothing itself, and on a cluster somebody may act on it.
    let config = json!({"apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig", "metadata": {"name": "c"}});
    assert!(alone(&config, Home::Cluster).is_ready);
    let embedded = alone(&config, Home::Embedded);
    assert_eq!((embedded.is_ready, embedded.cause.unwrap().rule), (false, "kind-not-supported"));
}

/// The condition that says whether an object of one of our kinds can be used.
fn deciding_condition(kind: &str) -> &'static str {
    match kind {
        "Usage" | "ClusterUsage" | "FunctionRollout" => "Ready",
        "CompositeResourceDefinition" | "ManagedResourceDefinition" => "Established",
        "CompositionRevision" => "ValidPipeline",
        "Function" | "Provider" | "Configuration" | "ManagedResourceActivationPolicy" => "Healthy",
        "FunctionRevision" | "ProviderRevision" | "ConfigurationRevision" => "RevisionHealthy",
        "Operation" | "ActionSet" => "Succeeded",
        "CronOperation" => "Scheduling",
        "WatchOperation" => "Watching",
        "Lock" => "Resolved",
        "FunctionIntercept" => "Active",
        kind => panic!("which condition of {kind} says whether it can be used?"),
    }
}

/// An object of one of our kinds, with these conditions.
fn own(crd: &Crd, conditions: &Value) -> Value {
    json!({
        "apiVersion": format!("{}/v1", crd.group), "kind": crd.kind,
        "metadata": {"name": "o", "generation": 1, "creationTimestamp": SINCE},
        "status": {"conditions": conditions},
    })
}

fn kinds_with_conditions() -> impl Iterator<Item = &'static Crd> {
    crds::ALL.iter().filter(|crd| crd.has_conditions())
}

#[test]
fn object_of_ours_is_ready_when_it_says_so_and_not_when_it_says_no() {
    assert_eq!(kinds_with_conditions().count(), 20);
    for crd in kinds_with_conditions() {
        let decided = |status: &str| {
            let conditions = json!([
                condition("Synced", "True", "ReconcileSuccess", ""),
                condition(deciding_condition(crd.kind), status, "Because", "it is so"),
            ]);
            alone(&own(crd, &conditions), Home::Cluster)
        };
        let well = decided("True");
        assert!(well.is_ready && well.cause.is_none(), "{well:?}");
        let unwell = decided("False");
        let cause = unwell.cause.unwrap_or_else(|| panic!("{} has no cause", crd.kind));
        assert!(!unwell.is_ready && cause.message.contains("it is so"), "{cause:?}");
    }
}

#[test]
fn object_of_ours_that_says_nothing_is_not_called_ready() {
    // A Crossplane of an older release writes no conditions to these. Of revisions, what they belong to speaks.
    let may_be_silent = |kind: &str| kind.ends_with("Revision") || kind == "Lock";
    for crd in kinds_with_conditions() {
        let diagnosis = alone(&own(crd, &json!([])), Home::Cluster);
        if may_be_silent(crd.kind) {
            assert!(diagnosis.is_ready && diagnosis.cause.is_none(), "{diagnosis:?}");
            continue;
        }
        let cause = diagnosis.cause.unwrap_or_else(|| panic!("{} has no cause", crd.kind));
        let expected = match crd.kind {
            "CompositeResourceDefinition" => ("definition-not-established", None),
            _ => ("unattended", Some(Cause::NotReconciled.code())),
        };
        assert_eq!((diagnosis.is_ready, (cause.rule, cause.code)), (false, expected), "{}", crd.kind);
    }
}

#[test]
fn package_that_is_installed_and_does_not_say_that_it_is_healthy_is_not_called_ready() {
    for crd in kinds_with_conditions().filter(|crd| ["Function", "Provider"].contains(&crd.kind)) {
        let installed = json!([condition("Installed", "True", "ActivePackageRevision", "")]);
        let diagnosis = alone(&own(crd, &installed), Home::Cluster);
        assert_eq!((diagnosis.is_ready, diagnosis.cause.unwrap().rule), (false, "unattended"));
    }
}

#[test]
fn usage_of_the_older_group_is_named_too() {
    let shared = json!({
        "apiVersion": "cloud.io/v1", "kind": "Network",
        "metadata": {"name": "shared", "uid": "4", "deletionTimestamp": SINCE, "finalizers": ["foregroundDeletion"]},
    });
    let usage = json!({
        "apiVersion": "apiextensions.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": "u"},
        "spec": {"of": {"apiVersion": "cloud.io/v1", "kind": "Network", "resourceRef": {"name": "shared"}},
                 "by": {"apiVersion": "cloud.io/v1", "kind": "Cluster", "resourceRef": {"name": "c"}}},
    });
    let id = Id::of(&crate::testing::object(&shared));
    let plane = Plane { objects: vec![shared, usage], ..Plane::default() };
    let cause = diagnose(&plane.read_from(&id), &id).cause.unwrap();
    assert_eq!(
        (cause.rule, cause.to_string().as_str()),
        ("usage", "Network shared: cannot be deleted because of Usage u: it is used by Cluster `c`")
    );
    assert!(cause.advice.iter().any(|it| it.ends_with("kubectl delete usage.apiextensions.crossplane.io/u")));
}

#[test]
fn failure_that_is_in_an_event_alone_is_told() {
    let usage = json!({
        "apiVersion": "protection.crossplane.io/v1beta1", "kind": "ClusterUsage", "metadata": {"name": "u", "uid": "3"},
    });
    let id = Id::of(&crate::testing::object(&usage));
    let event = |kind: &str, time: &str, message: &str| {
        json!({
            "about": "u", "type": kind, "lastTimestamp": time, "message": message,
            "metadata": {"annotations": {"ferroplane.io/cause": "UsageTargetNotFound"}},
        })
    };
    let events = vec![
        event("Warning", "2026-01-01T00:00:01Z", "there is no Bucket `old`"),
        event("Warning", "2026-01-01T00:00:02Z", "there is no Bucket `b`"),
        event("Normal", "2026-01-01T00:00:03Z", "The used resource is protected"),
    ];
    let plane = Plane { objects: vec![usage], events, ..Plane::default() };
    let diagnosis = diagnose(&plane.read_from(&id), &id);
    let cause = diagnosis.cause.unwrap();
    assert_eq!(
        (diagnosis.is_ready, cause.rule, cause.code, cause.to_string().as_str()),
        (false, "reported", Some("UsageTargetNotFound"), "ClusterUsage u: there is no Bucket `b`")
    );
}

#[test]
fn active_means_something_else_in_kinds_of_others() {
    let scaled = json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "s", "namespace": "default"},
        "status": {"conditions": [condition("Active", "False", "ScalerNotActive", "scaled to zero")]},
    });
    assert!(alone(&scaled, Home::Cluster).is_ready);
}

#[test]
fn composition_whose_newest_revision_is_invalid_is_not_called_ready() {
    let invalid = |number: i64, status: &str| {
        let mut revision = revision(&format!("app-{number}"), number, &[("compose", "nope")]);
        revision["status"] = json!({"conditions": [
            {"type": "ValidPipeline", "status": status, "reason": "InvalidPipeline", "message": "there is no function `nope`",
             "code": "FunctionNotFound", "step": "compose"},
        ]});
        revision
    };
    let id = Id::new("apiextensions.crossplane.io/v1", "Composition", "", "app");
    let diagnosis = |latest: &str| {
        let plane = Plane::with(json!([])).and(invalid(1, "False")).and(invalid(2, latest));
        let mut snapshot = plane.read();
        for want in crate::wants(&snapshot.clone(), &id, crate::Purpose::Cause) {
            plane.answer(want, &mut snapshot);
        }
        diagnose(&snapshot, &id)
    };
    assert!(diagnosis("True").is_ready);
    let wrong = diagnosis("False");
    let cause = wrong.cause.unwrap();
    assert_eq!(
        (wrong.is_ready, cause.object.name.as_str(), cause.code),
        (false, "app-2", Some("FunctionNotFound"))
    );
    assert_eq!(cause.step.as_deref(), Some("compose"));
}
