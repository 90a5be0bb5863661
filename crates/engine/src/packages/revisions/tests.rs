//! Which revisions a package gets, and which of them are active.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

const DIGEST: &str = "552a394a8accd2b4d37fc5858abe93d311e727eafb3c00636e11c72572873e48";
const OTHER: &str = "1112223334445556667778889990001112223334445556667778889990001112";

fn object(value: Value) -> Object {
    let Value::Object(object) = value else { panic!("no object: {value}") };
    object
}

fn package(generation: i64, spec: &Value) -> Object {
    let mut package = object(json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function",
        "metadata": {"name": "f", "uid": "uid-f", "generation": generation},
        "spec": {"package": "registry.example.org/f:v1"},
    }));
    meta::child(&mut package, "spec").extend(object(spec.clone()));
    package
}

/// A package, and the revisions that came of it.
struct PackageModel {
    kind: PackageKind,
    package: Object,
    revisions: BTreeMap<String, Object>,
    options: RevisionOptions,
}

impl PackageModel {
    fn new(spec: &Value) -> Self {
        let options =
            RevisionOptions { function_revision_selectors: true, runs_packages: true, reports_runtime: true };
        Self { kind: PackageKind::Function, package: package(1, spec), revisions: BTreeMap::new(), options }
    }

    /// Change the spec, as an API server would.
    fn change(&mut self, spec: &Value) {
        let generation = meta::generation(&self.package) + 1;
        meta::child(&mut self.package, "spec").extend(object(spec.clone()));
        meta::child(&mut self.package, "metadata").insert("generation".to_owned(), generation.into());
    }

    /// Do what is decided, and return it.
    fn reconcile(&mut self, digest: &str) -> PackageRevisions {
        let revisions: Vec<Object> = self.revisions.values().cloned().collect();
        let fetched = FetchedPackage { digest };
        let plan =
            plan_package_revisions(self.kind, &self.package, &revisions, fetched, self.options).unwrap();
        let written = plan.deactivate.iter().chain(&plan.create).chain(&plan.update);
        for revision in written {
            self.revisions.insert(meta::name(revision).to_owned(), revision.clone());
        }
        for name in &plan.delete {
            self.revisions.remove(name);
        }
        plan
    }

    /// Let what a revision runs answer, or not.
    fn serve(&mut self, name: &str, status: &str) {
        let condition = json!({"conditions": [{"type": "RuntimeHealthy", "status": status}]});
        self.revisions.get_mut(name).unwrap().insert("status".to_owned(), condition);
    }

    /// The numbers of all revisions, and whether each is active.
    fn states(&self) -> Vec<(i64, bool)> {
        let mut states: Vec<(i64, bool)> = self
            .revisions
            .values()
            .map(|revision| (number(revision), desired_state(revision) == ACTIVE))
            .collect();
        states.sort_unstable();
        states
    }
}

#[test]
fn first_revision_is_active_and_named_as_in_crossplane() {
    let mut model = PackageModel::new(&json!({}));
    let plan = model.reconcile(DIGEST);
    assert_eq!((&*plan.current, plan.is_active), ("f-fc53eaee07bb", true));
    let revision = plan.create.unwrap();
    assert_eq!(meta::label(&revision, keys::PACKAGE), "f");
    assert_eq!(meta::controller_uid(&revision), Some("uid-f"));
    assert_eq!(revision["spec"]["image"], "registry.example.org/f:v1");
    assert_eq!(revision["spec"]["tlsServerSecretName"], "f-fc53eaee07bb-tls-server");
    assert_eq!(model.states(), [(1, true)]);
    let again = model.reconcile(DIGEST);
    assert_eq!((again.create, again.update, again.deactivate), (None, vec![], vec![]), "nothing changed");
}

#[test]
fn secret_changes_hands_when_revisions_come_to_have_their_own_and_lose_them() {
    let mut model = PackageModel::new(&json!({}));
    for (is_on, secret) in [
        (false, "f-tls-server"),
        (true, "f-fc53eaee07bb-tls-server"),
        (true, "f-fc53eaee07bb-tls-server"),
        (false, "f-tls-server"),
    ] {
        model.options.function_revision_selectors = is_on;
        let current = model.reconcile(DIGEST).current;
        assert_eq!(model.revisions[&current]["spec"]["tlsServerSecretName"], secret);
    }
    // One that somebody else has named stays.
    let current = model.reconcile(DIGEST).current;
    let spec = meta::child(model.revisions.get_mut(&current).unwrap(), "spec");
    spec.insert("tlsServerSecretName".to_owned(), "mine".into());
    model.options.function_revision_selectors = true;
    model.reconcile(DIGEST);
    assert_eq!(model.revisions[&current]["spec"]["tlsServerSecretName"], "mine");
}

#[test]
fn old_revision_of_a_function_serves_until_the_new_one_answers() {
    let mut model = PackageModel::new(&json!({}));
    let first = model.reconcile(DIGEST).current;
    model.serve(&first, "True");
    model.change(&json!({"package": "registry.example.org/f:v2"}));
    let second = model.reconcile(OTHER).current;
    assert_eq!(model.states(), [(1, true), (2, true)]);
    model.serve(&second, "False");
    model.reconcile(OTHER);
    assert_eq!(model.states(), [(1, true), (2, true)], "a new one that fails replaces nothing");
    model.serve(&second, "True");
    model.reconcile(OTHER);
    assert_eq!(model.states(), [(1, false), (2, true)]);
}

#[test]
fn provider_never_runs_twice() {
    let mut model = PackageModel::new(&json!({}));
    model.kind = PackageKind::Provider;
    let first = model.reconcile(DIGEST).current;
    model.serve(&first, "True");
    model.change(&json!({"package": "registry.example.org/f:v2"}));
    let plan = model.reconcile(OTHER);
    assert_eq!(model.states(), [(1, false), (2, true)]);
    assert_eq!(plan.create.unwrap()["spec"]["tlsClientSecretName"], "f-tls-client");
}

#[test]
fn as_many_are_active_as_the_limit_says() {
    let mut model = PackageModel::new(&json!({"activeRevisionLimit": 2, "revisionHistoryLimit": 4}));
    for version in 2..6 {
        let current = model.reconcile(DIGEST).current;
        model.serve(&current, "True");
        model.reconcile(DIGEST);
        model.change(&json!({"package": format!("registry.example.org/f:v{version}")}));
    }
    assert_eq!(model.states(), [(1, false), (2, false), (3, true), (4, true)]);
    model.options.function_revision_selectors = false;
    let current = model.reconcile(DIGEST).current;
    model.serve(&current, "True");
    model.reconcile(DIGEST);
    assert_eq!(model.states().iter().filter(|(_, active)| *active).count(), 1, "the feature is off");
}

#[test]
fn manual_states_are_the_users() {
    let mut model =
        PackageModel::new(&json!({"revisionActivationPolicy": "Manual", "revisionHistoryLimit": 0}));
    let first = model.reconcile(DIGEST);
    assert!(!first.is_active);
    assert_eq!(model.states(), [(1, false)]);
    assert_eq!(first.create.unwrap()["spec"]["desiredState"], INACTIVE, "never empty");
    model.change(&json!({"package": "registry.example.org/f:v2"}));
    let second = model.reconcile(OTHER).current;
    for name in [first.current, second] {
        let activated = with_state(&model.revisions[&name], ACTIVE);
        model.revisions.insert(name, activated);
    }
    model.reconcile(OTHER);
    assert_eq!(model.states(), [(1, true), (2, true)]);
}

#[test]
fn history_keeps_what_is_active_and_forgets_the_oldest() {
    let mut model = PackageModel::new(&json!({"revisionHistoryLimit": 1}));
    for version in 2..6 {
        let current = model.reconcile(DIGEST).current;
        model.serve(&current, "True");
        model.reconcile(DIGEST);
        model.reconcile(DIGEST);
        model.change(&json!({"package": format!("registry.example.org/f:v{version}")}));
    }
    assert_eq!(model.states(), [(3, false), (4, true)]);
    let all: Vec<String> = model.revisions.keys().cloned().collect();
    for name in all {
        let active = with_state(&model.revisions[&name], ACTIVE);
        model.revisions.insert(name, active);
    }
    model.change(&json!({"revisionActivationPolicy": "Manual", "revisionHistoryLimit": 1}));
    assert_eq!(model.reconcile(DIGEST).delete, Vec::<String>::new(), "all of them are active");
}

#[test]
fn old_content_that_comes_back_gets_the_highest_number() {
    let mut model = PackageModel::new(&json!({"revisionHistoryLimit": 0}));
    model.kind = PackageKind::Configuration;
    model.reconcile(DIGEST);
    model.reconcile(OTHER);
    // The tag moved back: the same generation and digest as at first, so the same revision.
    let plan = model.reconcile(DIGEST);
    assert_eq!(plan.create, None);
    assert_eq!(model.states(), [(2, false), (3, true)]);
}

#[test]
fn what_an_older_crossplane_installed_is_not_installed_anew() {
    let mut model = PackageModel::new(&json!({}));
    let mut former = model.reconcile(DIGEST).create.unwrap();
    model.revisions.clear();
    meta::set_field(&mut former, "name", &friendly_id("f", DIGEST));
    model.revisions.insert(meta::name(&former).to_owned(), former);
    assert_eq!(model.reconcile(DIGEST).create, None);
    model.change(&json!({"package": "registry.example.org/f:v2"}));
    assert!(model.reconcile(DIGEST).create.is_some(), "its spec says something else");
}

#[test]
fn labels_of_the_package_reach_the_current_revision_only() {
    let mut model = PackageModel::new(&json!({"activeRevisionLimit": 2, "revisionHistoryLimit": 2}));
    let first = model.reconcile(DIGEST).current;
    meta::set_label(&mut model.package, "channel", "alpha");
    meta::set_label(&mut model.package, keys::PACKAGE, "somebody-else");
    model.change(&json!({"package": "registry.example.org/f:v2"}));
    let second = model.reconcile(OTHER).current;
    let label =
        |model: &PackageModel, name: &str, key: &str| meta::label(&model.revisions[name], key).to_owned();
    assert_eq!(
        (label(&model, &first, "channel"), label(&model, &second, "channel")),
        (String::new(), "alpha".into())
    );
    assert_eq!(label(&model, &second, keys::PACKAGE), "f", "the label of the parent comes last");
    meta::set_label(model.revisions.get_mut(&second).unwrap(), "by-hand", "stays");
    meta::child(&mut model.package, "metadata").remove("labels");
    model.reconcile(OTHER);
    assert_eq!(label(&model, &second, "channel"), "", "a label that the package lost goes");
    assert_eq!(label(&model, &second, "by-hand"), "stays");
}

#[test]
fn revision_of_somebody_else_is_refused() {
    let mut model = PackageModel::new(&json!({}));
    let mut foreign = model.reconcile(DIGEST).create.unwrap();
    meta::child(&mut foreign, "metadata").remove("ownerReferences");
    let other = object(json!({"kind": "Function", "metadata": {"name": "other", "uid": "uid-other"}}));
    meta::set_controller(&mut foreign, &other);
    let fetched = FetchedPackage { digest: DIGEST };
    let refused =
        plan_package_revisions(PackageKind::Function, &model.package, &[foreign], fetched, model.options);
    assert_eq!(refused.unwrap_err().name, "other");
}
