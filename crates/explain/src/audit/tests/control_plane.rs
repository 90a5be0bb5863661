//! What can be caused through the control plane.

use serde_json::json;

use super::*;

const DEFINITIONS: &str = "apiextensions.crossplane.io";

fn everything() -> serde_json::Value {
    json!([rule("*", "*", "*")])
}

fn composes_config_maps() -> ClusterFixture {
    ClusterFixture::embedded().composer(everything()).apps(json!([base("v1", "ConfigMap")]))
}

#[test]
fn who_changes_a_composition_has_the_composer_write_where_its_objects_are() {
    let fixture = composes_config_maps().app_in("prod").gives(
        "ann",
        "",
        json!([rule("patch", DEFINITIONS, "compositions")]),
    );
    let expected =
        "prod: changes Composition app of App.demo.io → User system:ferroplane:composer may delete secrets";
    let perhaps = "perhaps all namespaces: changes Composition app of App.demo.io, once a user creates such an object → User \
                   system:ferroplane:composer may delete secrets";
    assert_eq!(fixture.about("ann", secrets("delete")), [perhaps, expected]);
    assert_eq!(fixture.about("ann", secrets_in("delete", "prod")), [expected]);
    let elsewhere = fixture.about("ann", secrets_in("delete", "dev"));
    assert!(elsewhere.len() == 1 && elsewhere[0].starts_with("perhaps "), "{elsewhere:?}");
}

#[test]
fn namespaced_composite_resources_lead_to_nothing_cluster_scoped() {
    let bindings = Question::about("create", "rbac.authorization.k8s.io", "clusterrolebindings", false);
    let fixture = composes_config_maps().app_in("prod").gives(
        "ann",
        "",
        json!([rule("*", DEFINITIONS, "compositions"), rule("*", "demo.io", "apps")]),
    );
    assert_eq!(fixture.about("ann", bindings.clone()).len(), 0);
    let fixture = fixture.with(definition("XNet", "xnets", "Cluster", None)).gives(
        "ann",
        "",
        json!([rule("create", "demo.io", "xnets")]),
    );
    let expected = "cluster: adds a Composition of XNet.demo.io, and writes such objects → User system:ferroplane:composer may create \
                    clusterrolebindings.rbac.authorization.k8s.io";
    assert_eq!(fixture.about("ann", bindings), [expected]);
}

#[test]
fn what_the_composer_may_not_do_nobody_can_do_by_it() {
    let fixture = ClusterFixture::embedded()
        .composer(json!([rule("*", "", "configmaps")]))
        .apps(json!([base("v1", "ConfigMap")]))
        .app_in("prod")
        .gives("ann", "", json!([rule("patch", DEFINITIONS, "compositions")]));
    assert_eq!(fixture.about("ann", secrets("delete")).len(), 0);
    assert_eq!(fixture.about("ann", Question::about("delete", "", "configmaps", true)).len(), 2);
}

#[test]
fn who_writes_composite_resources_gets_what_their_compositions_compose() {
    let fixture = composes_config_maps().gives("ann", "prod", json!([rule("create", "demo.io", "apps")]));
    let maps = |verb: &str| Question::about(verb, "", "configmaps", true);
    let expected = "prod: writes App.demo.io in namespace prod, composed by Composition app → User system:ferroplane:composer may create configmaps";
    assert_eq!(fixture.about("ann", maps("create")), [expected]);
    assert_eq!(fixture.about("ann", secrets("create")).len(), 0);
    assert_eq!(fixture.about("ann", maps("get")).len(), 0, "what it composes is not thereby shown");
}

#[test]
fn nobody_knows_what_other_functions_compose() {
    let composition = calling("app", "App", "function-of-theirs", json!({}));
    let fixture = ClusterFixture::embedded()
        .composer(everything())
        .with(definition("App", "apps", "Namespaced", None))
        .with(composition)
        .gives("ann", "prod", json!([rule("create", "demo.io", "apps")]));
    let answers = fixture.about("ann", secrets("create"));
    assert!(answers.len() == 1 && answers[0].starts_with("perhaps prod: "), "{answers:?}");
}

/// A function may be called like another one, and a patch may change what a resource is.
#[test]
fn names_and_bases_that_deceive_are_not_believed() {
    let mut patched = base("v1", "ConfigMap");
    patched["patches"] =
        json!([{"type": "FromCompositeFieldPath", "fromFieldPath": "spec.kind", "toFieldPath": "kind"}]);
    let foreign = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "metadata": {"name": "function-patch-and-transform"},
        "spec": {"package": "registry.example.org/evil/other:v1"},
    });
    let writes = json!([rule("create", "demo.io", "apps")]);
    let patching = ClusterFixture::embedded().composer(everything()).apps(json!([patched])).gives(
        "ann",
        "prod",
        writes.clone(),
    );
    let posing = composes_config_maps().with(foreign).gives("ann", "prod", writes);
    for fixture in [patching, posing] {
        let answers = fixture.about("ann", secrets("create"));
        assert!(answers.len() == 1 && answers[0].starts_with("perhaps "), "{answers:?}");
    }
}

/// A claim in a namespace makes an object that is in none.
#[test]
fn claims_lead_out_of_their_namespace() {
    let fixture = ClusterFixture::embedded()
        .composer(everything())
        .with(definition("XNet", "xnets", "LegacyCluster", Some(("Net", "nets"))))
        .with(composition("net", "XNet", json!([base("v1", "Secret")])))
        .gives("ann", "prod", json!([rule("create", "demo.io", "nets")]));
    let answers = fixture.about("ann", secrets_in("create", "dev"));
    assert!(answers.len() == 1 && answers[0].starts_with("dev: writes claims"), "{answers:?}");
}

/// What composes claims is out of its namespace with them.
#[test]
fn composed_claims_lead_out_of_the_namespace_of_what_composes_them() {
    let fixture = ClusterFixture::embedded()
        .composer(everything())
        .with(definition("XNet", "xnets", "LegacyCluster", Some(("Net", "nets"))))
        .with(composition("net", "XNet", json!([base("v1", "Secret")])))
        .apps(json!([base("demo.io/v1", "Net")]))
        .gives("ann", "prod", json!([rule("create", "demo.io", "apps")]));
    let answers = fixture.about("ann", secrets_in("create", "dev"));
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(
        answers[0].contains("writes App.demo.io in namespace prod") && answers[0].contains("writes claims"),
        "{answers:?}"
    );
}

#[test]
fn who_replaces_a_function_composes_with_it() {
    let functions = json!([rule("update", "pkg.crossplane.io", "functions")]);
    let fixture = composes_config_maps().app_in("prod").gives("ann", "", functions);
    let answers = fixture.about("ann", secrets_in("delete", "prod"));
    let expected = "prod: replaces Function function-auto-ready, which composes App.demo.io → User system:ferroplane:composer may delete secrets";
    assert_eq!(answers, [expected]);
}

const ROLLOUT: &str = "rollout.ferroplane.io";

/// A kind that is served, too.
fn serving(mut fixture: ClusterFixture, kind: [&str; 3], is_namespaced: bool) -> ClusterFixture {
    let [group, kind, plural] = kind.map(str::to_owned);
    fixture.input.kinds.push(AuditKind { group, kind, plural, is_namespaced });
    fixture
}

/// FunctionIntercepts are served, and `ann` may create them.
fn intercepting(fixture: ClusterFixture) -> ClusterFixture {
    let fixture = serving(fixture, [ROLLOUT, "FunctionIntercept", "functionintercepts"], false);
    fixture.gives("ann", "", json!([rule("create", ROLLOUT, "functionintercepts")]))
}

#[test]
fn who_writes_operations_has_the_control_plane_do_what_it_may() {
    const OPS: &str = "ops.crossplane.io";
    let kinds = [
        ("Operation", "operations", "create"),
        ("CronOperation", "cronoperations", "patch"),
        ("WatchOperation", "watchoperations", "update"),
    ];
    for (kind, plural, verb) in kinds {
        let may = json!([rule(verb, OPS, plural)]);
        let fixture = composes_config_maps().gives("ann", "", may.clone());
        assert_eq!(fixture.about("ann", secrets_in("delete", "prod")).len(), 0, "{kind} is not served");
        let answers = serving(fixture, [OPS, kind, plural], false).about("ann", secrets_in("delete", "prod"));
        let route = format!(
            " {kind} of functions that they choose → User system:ferroplane:composer may delete secrets"
        );
        assert!(answers.len() == 1 && answers[0].ends_with(&route), "{answers:?}");
        assert!(!answers[0].starts_with("perhaps "), "{answers:?}");

        let mut cluster = ClusterFixture::cluster().gives("plane", "", everything()).gives("ann", "", may);
        cluster.input.composer = Some("plane".to_owned());
        let answers = serving(cluster, [OPS, kind, plural], false).about("ann", secrets_in("delete", "prod"));
        assert!(answers.len() == 1 && answers[0].starts_with("perhaps "), "{answers:?}");
    }
}

#[test]
fn action_sets_lead_no_further_than_their_namespace() {
    let fixture = serving(composes_config_maps(), ["cr.kanister.io", "ActionSet", "actionsets"], true);
    let fixture = fixture.gives("ann", "prod", json!([rule("create", "cr.kanister.io", "actionsets")]));
    let answers = fixture.about("ann", secrets_in("delete", "prod"));
    assert!(
        answers.len() == 1 && answers[0].starts_with("perhaps prod: creates an ActionSet in namespace prod"),
        "{answers:?}"
    );
    assert_eq!(fixture.about("ann", secrets_in("delete", "dev")).len(), 0);
}

#[test]
fn blueprints_lead_no_further_than_their_namespace() {
    let fixture = serving(composes_config_maps(), ["cr.kanister.io", "Blueprint", "blueprints"], true);
    let fixture = fixture.gives("ann", "prod", json!([rule("patch", "cr.kanister.io", "blueprints")]));
    let answers = fixture.about("ann", secrets_in("delete", "prod"));
    assert!(
        answers.len() == 1
            && answers[0].starts_with("perhaps prod: writes a Blueprint in namespace prod, once"),
        "{answers:?}"
    );
    assert_eq!(fixture.about("ann", secrets_in("delete", "dev")).len(), 0);
}

#[test]
fn who_installs_packages_composes_what_they_like() {
    const PKG: &str = "pkg.crossplane.io";
    for (kind, plural) in [
        ("Configuration", "configurations"),
        ("ConfigurationRevision", "configurationrevisions"),
        ("Provider", "providers"),
        ("ProviderRevision", "providerrevisions"),
    ] {
        let may = json!([rule("create", PKG, plural)]);
        let fixture = composes_config_maps().gives("ann", "", may);
        assert_eq!(fixture.about("ann", secrets_in("create", "prod")).len(), 0, "{kind} is not served");
        let fixture = serving(fixture, [PKG, kind, plural], false);
        let answers = fixture.about("ann", Question::about("create", "apps", "deployments", true));
        assert!(
            answers.len() == 1
                && answers[0].starts_with(&format!("perhaps all namespaces: installs a {kind} with a ")),
            "{answers:?}"
        );
        let reads = json!([rule("get list watch", PKG, plural)]);
        let reading = serving(composes_config_maps().gives("ann", "", reads), [PKG, kind, plural], false);
        assert_eq!(reading.about("ann", secrets_in("create", "prod")).len(), 0);
    }
}

/// Providers have rights on Secrets, also where the control plane composes none.
#[test]
fn who_installs_providers_reaches_secrets_by_their_programs() {
    const PKG: &str = "pkg.crossplane.io";
    let may = |plural| json!([rule("create", PKG, plural)]);
    let fixture = serving(ClusterFixture::cluster(), [PKG, "Provider", "providers"], false);
    let fixture = serving(fixture, [PKG, "Configuration", "configurations"], false);
    let fixture = fixture.gives("ann", "", may("providers")).gives("ben", "", may("configurations"));
    let expected = "perhaps all namespaces: installs a Provider with a program of their own → the program may get secrets";
    assert_eq!(fixture.about("ann", secrets("get")), [expected]);
    assert_eq!(fixture.about("ben", secrets("get")).len(), 0);
    assert_eq!(fixture.about("ann", Question::about("create", "", "pods", true)).len(), 0);
}

#[test]
fn who_replaces_images_composes_with_one_of_their_own() {
    const PKG: &str = "pkg.crossplane.io";
    let may = |verb| json!([rule(verb, PKG, "imageconfigs")]);
    let fixture = composes_config_maps().gives("ann", "", may("patch"));
    assert_eq!(fixture.about("ann", secrets("get")).len(), 0, "ImageConfigs are not served");
    let fixture = serving(fixture, [PKG, "ImageConfig", "imageconfigs"], false).gives("ben", "", may("get"));
    let expected = "perhaps all namespaces: writes an ImageConfig that replaces the image of a package, once one is installed or \
                    upgraded → User system:ferroplane:composer may create deployments.apps";
    let deployments = Question::about("create", "apps", "deployments", true);
    assert_eq!(fixture.about("ann", deployments.clone()), [expected]);
    assert_eq!(fixture.about("ben", deployments).len(), 0);
    let cluster = serving(ClusterFixture::cluster(), [PKG, "ImageConfig", "imageconfigs"], false);
    let expected = "perhaps all namespaces: writes an ImageConfig that replaces the image of a Provider, once one is installed or \
                    upgraded → the program may get secrets";
    assert_eq!(cluster.gives("ann", "", may("create")).about("ann", secrets("get")), [expected]);
}

/// They run beside the control plane, as any service account there.
#[test]
fn who_configures_the_pods_of_packages_acts_as_the_control_plane_of_a_cluster() {
    const PKG: &str = "pkg.crossplane.io";
    let gathering = json!({
        "apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "ferroplane"}, "rules": [rule("delete", "", "pods")],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"rbac.crossplane.io/aggregate-to-crossplane": "true"}}]},
    });
    let bound = json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": "ferroplane"},
        "roleRef": {"kind": "ClusterRole", "name": "ferroplane"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "plane", "name": "plane"}],
    });
    let configs = ["DeploymentRuntimeConfig", "deploymentruntimeconfigs"];
    let pods = Question::about("delete", "", "pods", true);
    for (fixture, count) in [(ClusterFixture::cluster(), 1), (ClusterFixture::embedded(), 0)] {
        let fixture = fixture.with(gathering.clone()).with(bound.clone());
        let fixture = fixture.gives("ann", "", json!([rule("update", PKG, configs[1])]));
        assert_eq!(fixture.about("ann", pods.clone()).len(), 0, "DeploymentRuntimeConfigs are not served");
        let answers = serving(fixture, [PKG, configs[0], configs[1]], false).about("ann", pods.clone());
        let route = "perhaps all namespaces: writes a DeploymentRuntimeConfig for the pods of packages in namespace plane → ";
        assert_eq!(answers.len(), count, "{answers:?}");
        assert!(answers.iter().all(|answer| answer.starts_with(route)), "{answers:?}");
    }
}

#[test]
fn who_intercepts_a_function_composes_with_a_process_of_their_own() {
    let fixture = composes_config_maps().app_in("prod");
    let expected = "prod: has a process of their own called in place of Function function-auto-ready, which composes App.demo.io → User \
                    system:ferroplane:composer may delete secrets";
    let intercepted = intercepting(fixture.clone());
    assert_eq!(intercepted.about("ann", secrets_in("delete", "prod")), [expected]);
    let elsewhere = intercepted.about("ann", secrets_in("delete", "dev"));
    assert!(elsewhere.iter().all(|it| it.starts_with("perhaps ")), "{elsewhere:?}");
    // To renew what somebody else has made is no way, nor is a kind that is not served.
    let renews = json!([rule("update patch", ROLLOUT, "functionintercepts")]);
    let creates = json!([rule("create", ROLLOUT, "functionintercepts")]);
    let without = fixture.gives("ben", "", creates);
    assert_eq!(without.about("ben", secrets_in("delete", "prod")).len(), 0);
    let renewing = intercepted.gives("cat", "", renews);
    assert_eq!(renewing.about("cat", secrets_in("delete", "prod")).len(), 0);
}

#[test]
fn intercepts_of_a_cluster_lead_as_far_as_grants_let_them() {
    let mut fixture = ClusterFixture::cluster().gives("plane", "", everything());
    fixture.input.composer = Some("plane".to_owned());
    let fixture = intercepting(fixture.apps(json!([base("v1", "ConfigMap")])).app_in("prod").app_in("dev"));
    let grant = |mode: &str, functions: serde_json::Value| {
        json!({
            "apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "g"},
            "spec": {
                "to": {"namespaces": ["prod"], "functions": functions},
                "intercept": [{"hosts": ["laptop"], "modes": [mode]}],
            },
        })
    };
    let can = |fixture: &ClusterFixture, verb: &str, namespace: &str| {
        fixture.about("ann", secrets_in(verb, namespace))
    };
    for verb in ["get", "delete"] {
        assert_eq!(can(&fixture, verb, "prod"), Vec::<String>::new(), "nothing is granted");
        let other = fixture.clone().with(grant("ForReal", json!(["function-other"])));
        assert_eq!(can(&other, verb, "prod"), Vec::<String>::new(), "another function is granted");
    }
    let shadow = fixture.clone().with(grant("Shadow", json!([])));
    let read = can(&shadow, "get", "prod");
    assert!(read.len() == 1 && read[0].starts_with("perhaps prod: has a process"), "{read:?}");
    assert_eq!(can(&shadow, "delete", "prod"), Vec::<String>::new(), "in shadow nothing is written");
    let granted = fixture.clone().with(grant("ForReal", json!([])));
    let written = can(&granted, "delete", "prod");
    assert!(written.len() == 1 && written[0].starts_with("perhaps prod: has a process"), "{written:?}");
    assert_eq!(can(&granted, "delete", "dev"), Vec::<String>::new(), "elsewhere nothing is granted");
    // Whoever grants it to themselves needs nobody.
    let granting = fixture.gives("ann", "", json!([rule("create", "ferroplane.io", "accessgrants")]));
    let written = can(&granting, "delete", "prod");
    assert!(written.len() == 1 && written[0].starts_with("prod: has a process"), "{written:?}");
}

#[test]
fn grants_let_functions_read_elsewhere() {
    let reads = json!([rule("get", "", "secrets")]);
    let compositions = json!([rule("patch", DEFINITIONS, "compositions")]);
    let fixture = composes_config_maps().app_in("prod").gives("system:ferroplane", "", reads).gives(
        "ann",
        "",
        compositions,
    );
    assert_eq!(fixture.about("ann", secrets_in("get", "prod")).len(), 1);
    let elsewhere = fixture.about("ann", secrets_in("get", "vault"));
    assert!(elsewhere.iter().all(|it| it.starts_with("perhaps ")), "{elsewhere:?}");
    let grant = json!({
        "apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "g"},
        "spec": {"to": {"namespaces": ["prod"]}, "read": [{"apiGroups": [""], "kinds": ["Secret"], "namespaces": ["vault"], "names": ["token"]}]},
    });
    let granted = fixture.clone().with(grant).about("ann", secrets_in("get", "vault"));
    assert!(
        granted.iter().any(|it| it.starts_with("vault [token]: ") && it.ends_with("by an AccessGrant")),
        "{granted:?}"
    );
    let writer = fixture.gives("ann", "", json!([rule("create", "ferroplane.io", "accessgrants")]));
    let written = writer.about("ann", secrets_in("get", "vault"));
    assert!(written.iter().any(|it| it.starts_with("vault: ") && it.contains("AccessGrant")), "{written:?}");
}

#[test]
fn usages_keep_objects_of_their_namespace_from_being_deleted() {
    let usages = |plural: &str| json!([rule("create", "protection.crossplane.io", plural)]);
    let fixture = ClusterFixture::embedded().gives("ann", "prod", usages("usages")).gives(
        "bob",
        "",
        usages("clusterusages"),
    );
    let block = Question { verb: super::super::BLOCK_DELETE.to_owned(), ..secrets("") };
    assert!(
        fixture.about("ann", block.clone())[0]
            .starts_with("prod: may create usages.protection.crossplane.io")
    );
    assert!(fixture.about("bob", block)[0].starts_with("all namespaces: may create clusterusages"));
    let usage = json!({
        "apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": "u", "namespace": "prod"},
        "spec": {"of": {"apiVersion": "v1", "kind": "Secret", "resourceRef": {"name": "s"}}, "reason": "x"},
    });
    let audit = fixture.with(usage).audit();
    assert_eq!(
        audit.notes(Some(&secrets_in("delete", "prod"))),
        ["Usage u keeps Secret prod/s from being deleted by any user"]
    );
    assert_eq!(audit.notes(Some(&secrets_in("delete", "dev"))), Vec::<String>::new());
}

#[test]
fn who_deletes_a_definition_deletes_its_objects_and_what_they_compose() {
    let fixture = composes_config_maps().gives(
        "ann",
        "",
        json!([rule("delete", DEFINITIONS, "compositeresourcedefinitions")]),
    );
    let answers = fixture.about("ann", Question::about("delete", "", "configmaps", true));
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(fixture.about("ann", Question::about("create", "", "configmaps", true)).len(), 0);
}

/// On a cluster the user that composes is found by the role that gathers others, and by who impersonates whom.
#[test]
fn composer_of_a_cluster_is_found() {
    let account = |name: &str| json!({"kind": "ServiceAccount", "namespace": "plane", "name": name});
    let gathering = json!({
        "apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "ferroplane"}, "rules": [rule("*", "", "secrets")],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"rbac.crossplane.io/aggregate-to-crossplane": "true"}}]},
    });
    let bound = |role: &str, accounts: &[&str]| {
        let subjects: Vec<_> = accounts.iter().map(|name| account(name)).collect();
        json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": role}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects})
    };
    let mut impersonate = rule("impersonate", "", "serviceaccounts");
    impersonate["resourceNames"] = json!(["composer"]);
    let fixture = ClusterFixture::cluster()
        .with(gathering)
        .with(bound("ferroplane", &["plane", "composer"]))
        .with(cluster_role("impersonating", json!([impersonate])))
        .with(bound("impersonating", &["plane"]))
        .apps(json!([base("v1", "Secret")]))
        .gives("ann", "prod", json!([rule("create", "demo.io", "apps")]));
    let answers = fixture.about("ann", secrets("create"));
    assert!(
        answers.len() == 1 && answers[0].contains("ServiceAccount plane/composer may create secrets"),
        "{answers:?}"
    );
    let without = ClusterFixture::cluster().apps(json!([])).audit().notes(None);
    assert!(without[0].contains("--composer"), "{without:?}");
}

#[test]
fn overview_has_the_strongest_first_and_does_not_repeat_itself() {
    let fixture = composes_config_maps()
        .app_in("prod")
        .gives("ann", "", json!([rule("patch", DEFINITIONS, "compositions")]))
        .gives("boss", "", everything());
    let powers = fixture.audit().powers(None);
    let of = |user: &str| -> Vec<&str> {
        let own = powers.iter().filter(|held| held.answer.subject == crate::audit::Subject::user(user));
        own.map(|held| held.power).collect()
    };
    assert_eq!(of("boss"), ["everything"]);
    assert!(
        of("ann").contains(&"write-compositions") && of("ann").contains(&"write-secrets"),
        "{:?}",
        of("ann")
    );
    assert_eq!(powers[0].power, "everything");
}
