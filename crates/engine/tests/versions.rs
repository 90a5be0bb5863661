//! Which version of a function runs, and what its user is told: the life of versions across releases.
//!
//! Design 003 lists 38 behaviours. These tests hold them; those without a file are here, and `action` is `crates/engine/src/action/tests.rs`:
//!
//! | Behaviours | Tests |
//! |---|---|
//! | 1–4, 36: register functions with and without versions | `function_without_versions_is_v0_0_0` and `every_version_that_is_registered_has_its_own_implementation` (`crates/functions/src/library/tests.rs`) |
//! | 5: a later version builds on an earlier one | `later_versions_take_what_earlier_ones_take` (`crates/functions/src/phases.rs`) |
//! | 6: a version without code is an error | `what_is_listed_has_code_and_what_is_removed_has_none`, `file_and_code_have_to_agree` (`library/tests.rs`) |
//! | 7, 8: a version that cannot be read, or is registered twice, is an error | `bad_version_is_refused_with_function_text_and_form`, `duplicate_is_refused_and_the_first_stays` (`library/tests.rs`) |
//! | 9: registration is safe under concurrency | none is needed: it takes `&mut self` |
//! | 10, 37: `funcVersion` of a phase | `blueprint_keeps_the_versions_of_its_phases` (`crates/controllers/tests/it/actions.rs`) |
//! | 11, 12, 17: what decides on the version | `version_is_chosen_by_the_phase_then_the_action_then_stability`, `version_of_a_phase_beats_the_preferred_one_and_that_beats_stable` (`action`) |
//! | 13, 14: no version is named | `function_without_a_version_runs_stable_or_unversioned` (`action`) |
//! | 15, 16, 19: unknown functions and versions | `unknown_function_is_named_with_what_was_perhaps_meant`, `text_that_is_no_version_is_an_error_that_shows_the_form`, `unknown_version_is_an_error_where_there_is_nothing_to_fall_back_to` |
//! | 18, 20: fallback to v0.0.0, by phase | `version_that_does_not_exist_falls_back_unless_strict`, `fallback_is_decided_by_phase_and_told` (`action`) |
//! | 21: the same in a `deferPhase` | `defer_phase_gets_its_version_as_other_phases_do` (`action`) |
//! | 22–24, 28: four releases of a version | `version_lives_through_four_releases_as_announced`; before any effect: `deprecated_version_runs_with_one_warning_on_every_surface` (`action`) |
//! | 25–27: warnings in log, event and status | `deprecated_version_of_a_phase_is_reported_once_in_log_event_and_status` (`crates/controllers/tests/it/actions/versions.rs`) |
//! | 29: numbers are never used again | `removed_version_stays_on_record`, `every_version_is_in_the_ledger_and_every_line_of_the_ledger_is_a_version` (`library/tests.rs`) |
//! | 30: when to promote is for the author to decide | `rules_refuse_what_would_surprise_users`, which accepts any release |
//! | 31–34: the versions file, in the binary | `function_has_one_stable_version` (`xtask/src/catalogue.rs`), `what_is_built_in_is_in_order` (`library/tests.rs`) |
//! | 35: the endpoint | `versions_of_functions_are_listed_for_those_who_may_get_them` (`crates/cli/tests/it/start.rs`) |
//! | 38: Blueprints without versions run as before | the other tests of `crates/controllers/tests/it/actions.rs`, `cargo xtask compare --actions` |
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use ferroplane_engine::versions::{
    Advice, Catalogue, Family, Fault, Lifecycle, LifecycleState, Question, Record, Revision, Unresolved,
    UnusableFunction, Version, VersionSource, resolve,
};
use ferroplane_engine::{Cause, CompositeSubject, Inputs, Layout, Outcome, Pipeline, Turn, start};
use ferroplane_wire::v1::RunFunctionResponse;

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// `introduced deprecated removed replacement`, each a version or `-`.
fn life(text: &str) -> Lifecycle {
    let mut events = text.split(' ').map(|event| (event != "-").then(|| version(event)));
    let mut next = || events.next().unwrap_or_default();
    Lifecycle { introduced_in: next(), deprecated_in: next(), removed_in: next(), replaced_by: next() }
}

/// A built-in function. Versions whose removal has come have no code.
fn family(function: &str, stable: &str, versions: &[(&str, &str)], release: &str) -> Family {
    let versions = versions.iter().map(|(number, lifecycle)| {
        let lifecycle = life(lifecycle);
        let is_implemented = lifecycle.state(false, &version(release)) != LifecycleState::Removed;
        (version(number), lifecycle, is_implemented)
    });
    Family::built_in(function, version(stable), versions)
}

const VERSIONS: [(&str, &str); 3] = [("v0.0.0", "0.1.0"), ("v0.1.0", "0.1.0"), ("v0.2.0", "0.1.0")];

/// `f` has v0.0.0, v0.1.0, which is stable, and v0.2.0; `plain` was never given a version.
fn catalogue() -> Catalogue {
    let mut catalogue = Catalogue::new(version("0.1.0"));
    catalogue.add(family("f", "v0.1.0", &VERSIONS, "0.1.0")).unwrap();
    catalogue.add(Family::unversioned("plain")).unwrap();
    catalogue
}

fn revision(number: u64, is_active: bool, channel: &str) -> Record {
    Record {
        revision: Revision { name: format!("package-{number}"), number },
        version: None,
        labels: BTreeMap::from([("channel".to_owned(), channel.to_owned())]),
        lifecycle: Lifecycle::default(),
        is_active,
        is_serving: true,
        built_in: None,
        source: VersionSource::Package,
        is_implemented: true,
    }
}

/// A package with revisions 1 to 4, of which 4 is not active.
fn packages() -> Catalogue {
    let mut catalogue = Catalogue::new(version("0.1.0"));
    let records = [(1, true, "old"), (2, true, "new"), (3, true, "new"), (4, false, "new")];
    let records = records.map(|(number, is_active, channel)| revision(number, is_active, channel)).to_vec();
    catalogue.add(Family { function: "package".to_owned(), stable: None, records }).unwrap();
    catalogue
}

/// What runs, and what is said about it; or what is wrong.
fn ask(catalogue: &Catalogue, question: &Question) -> String {
    match resolve(catalogue, question) {
        Ok(resolution) => {
            let said: Vec<_> = resolution.advisories.iter().map(ToString::to_string).collect();
            format!("{}; {}", resolution.record.revision.name, said.join("; "))
                .trim_end_matches("; ")
                .to_owned()
        }
        Err(error) => error.to_string(),
    }
}

fn phase(function: &str, phase_version: &str, preferred_version: &str) -> Question {
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Question {
        phase_version: said(phase_version),
        preferred_version: said(preferred_version),
        ..Question::about(function)
    }
}

fn exactly(function: &str, version: &str) -> Question {
    Question { version: Some(version.to_owned()), ..Question::about(function) }
}

fn labelled(function: &str, labels: &[(&str, &str)]) -> Question {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Question { labels: Some(labels), ..Question::about(function) }
}

#[test]
fn version_is_chosen_by_the_phase_then_the_action_then_stability() {
    let table = [
        ("", "", "f-v0.1.0"),
        ("v0.2.0", "v0.0.0", "f-v0.2.0"),
        ("", "v0.2.0", "f-v0.2.0"),
        ("0.2.0", "", "f-v0.2.0"),
        ("v9.9.9", "", "f-v0.0.0; function `f` has no version v9.9.9: v0.0.0 runs instead"),
        ("", "v9.9.9", "f-v0.0.0; function `f` has no version v9.9.9: v0.0.0 runs instead"),
    ];
    for (phase_version, preferred_version, expected) in table {
        assert_eq!(ask(&catalogue(), &phase("f", phase_version, preferred_version)), expected);
    }
}

#[test]
fn unversioned_function_is_listed_once_and_runs_for_those_who_name_nothing() {
    let catalogue = catalogue();
    let family = catalogue.family("plain").unwrap();
    assert_eq!(family.records.len(), 1);
    assert_eq!(family.stable, Some(Version::UNVERSIONED));
    assert_eq!(ask(&catalogue, &Question::about("plain")), "plain-v0.0.0");
}

#[test]
fn function_with_a_further_name_is_listed_once_and_gives_the_name_up() {
    let mut catalogue = catalogue();
    let before = catalogue.families().count();
    let family = catalogue.family("f").unwrap().clone();
    catalogue.name_further("maker-f", &family);
    assert_eq!(ask(&catalogue, &Question::about("maker-f")), "f-v0.1.0");
    assert_eq!(ask(&catalogue.at(version("0.1.0")), &Question::about("maker-f")), "f-v0.1.0");
    assert_eq!(catalogue.families().count(), before);

    catalogue.add(Family::unversioned("maker-f")).unwrap();
    assert_eq!(
        ask(&catalogue, &Question::about("maker-f")),
        "maker-f-v0.0.0",
        "a function of that name wins"
    );
    catalogue.remove("maker-f");
    assert!(
        catalogue.family("maker-f").is_none(),
        "nothing else takes the place of a function that was removed"
    );
    assert!(catalogue.family("f").is_some());
}

#[test]
fn fallback_is_decided_for_each_function_by_itself() {
    let mut catalogue = catalogue();
    catalogue.add(family("g", "v9.9.9", &[("v0.0.0", "-"), ("v9.9.9", "-")], "0.1.0")).unwrap();
    assert_eq!(ask(&catalogue, &phase("g", "", "v9.9.9")), "g-v9.9.9");
    assert!(ask(&catalogue, &phase("f", "", "v9.9.9")).starts_with("f-v0.0.0; "));
}

#[test]
fn nothing_stands_for_a_version_that_is_asked_for_strictly() {
    let strict = Question { is_strict: true, ..phase("f", "v9.9.9", "") };
    let expected = "function `f` has no version v9.9.9: there is v0.0.0, v0.1.0, v0.2.0";
    assert_eq!(ask(&catalogue(), &strict), expected);
    assert_eq!(ask(&catalogue(), &exactly("f", "v9.9.9")), expected);
}

#[test]
fn unknown_version_is_an_error_where_there_is_nothing_to_fall_back_to() {
    let mut catalogue = Catalogue::new(version("0.1.0"));
    catalogue.add(family("f", "v1.0.0", &[("v1.0.0", "-")], "0.1.0")).unwrap();
    assert_eq!(
        ask(&catalogue, &phase("f", "", "v1.2.3")),
        "function `f` has no version v1.2.3: there is v1.0.0"
    );
}

#[test]
fn text_that_is_no_version_is_an_error_that_shows_the_form() {
    for question in [phase("f", "banana", ""), phase("f", "", "v1"), exactly("f", "1.2")] {
        let error = resolve(&catalogue(), &question).unwrap_err();
        assert!(matches!(error, Unresolved::InvalidVersion { .. }), "{error}");
        assert!(error.to_string().contains("v1.2.3"), "{error}");
    }
}

#[test]
fn unknown_function_is_named_with_what_was_perhaps_meant() {
    let mut catalogue = catalogue();
    catalogue.add(Family::unversioned("function-auto-ready")).unwrap();
    let table = [
        ("nope", "there is no function `nope`"),
        ("auto-ready", "there is no function `auto-ready`: did you mean `function-auto-ready`?"),
        (
            "function-autoready",
            "there is no function `function-autoready`: did you mean `function-auto-ready`?",
        ),
    ];
    for (function, expected) in table {
        assert_eq!(ask(&catalogue, &Question::about(function)), expected);
    }
}

/// Stable moves from v0.1.0 to v0.2.0 in release 0.3.0. The old one is warned about from then on, and gone in 0.5.0.
fn promoted(release: &str) -> Catalogue {
    let is_promoted = version(release) >= version("0.3.0");
    let versions = [
        ("v0.0.0", "0.1.0"),
        ("v0.1.0", if is_promoted { "0.1.0 0.3.0 0.5.0 v0.2.0" } else { "0.1.0" }),
        ("v0.2.0", "0.2.0"),
    ];
    let stable = if is_promoted { "v0.2.0" } else { "v0.1.0" };
    let mut catalogue = Catalogue::new(version(release));
    catalogue.add(family("f", stable, &versions, release)).unwrap();
    catalogue
}

#[test]
fn version_lives_through_four_releases_as_announced() {
    let warned = "f-v0.1.0; function `f` v0.1.0 is deprecated and will be removed in release 0.5.0: use v0.2.0 instead";
    let gone = "function `f` v0.1.0 reached the end of its support and was removed in release 0.5.0: use v0.2.0 instead";
    let table = [
        ("0.2.0", "f-v0.1.0", "f-v0.1.0"),
        ("0.3.0", "f-v0.2.0", warned),
        ("0.4.0", "f-v0.2.0", warned),
        ("0.5.0", "f-v0.2.0", gone),
    ];
    for (release, unpinned, pinned) in table {
        let catalogue = promoted(release);
        assert_eq!(ask(&catalogue, &Question::about("f")), unpinned, "unpinned in {release}");
        assert_eq!(ask(&catalogue, &exactly("f", "v0.1.0")), pinned, "pinned in {release}");
        assert_eq!(ask(&catalogue, &phase("f", "v0.1.0", "")), pinned, "a removed version never falls back");
        assert_eq!(ask(&catalogue, &phase("f", "", "v0.1.0")), pinned, "not even a preferred one");
    }
}

#[test]
fn removed_version_stays_on_record() {
    let catalogue = promoted("0.5.0");
    let family = catalogue.family("f").unwrap();
    let record = family.version(&version("v0.1.0")).unwrap();
    assert_eq!(family.state(record, catalogue.release()), LifecycleState::Removed);
    assert_eq!(record.lifecycle, life("0.1.0 0.3.0 0.5.0 v0.2.0"));
}

#[test]
fn fallback_warns_twice_when_deprecated_and_fails_when_removed() {
    let versions = [("v0.0.0", "0.1.0 0.2.0 0.4.0 v1.0.0"), ("v1.0.0", "0.1.0")];
    let mut catalogue = Catalogue::new(version("0.3.0"));
    catalogue.add(family("f", "v1.0.0", &versions, "0.3.0")).unwrap();
    let question = phase("f", "v9.9.9", "");
    let advisories = resolve(&catalogue, &question).unwrap().advisories;
    assert!(matches!(advisories[0].advice, Advice::Fallback { .. }));
    assert!(matches!(advisories[1].advice, Advice::Deprecated { .. }));
    let later = catalogue.at(version("0.4.0"));
    assert!(matches!(resolve(&later, &question), Err(Unresolved::EndOfSupport { .. })));
}

#[test]
fn exact_revision_runs_or_nothing_does() {
    let named = |name: &str| Question { revision: Some(name.to_owned()), ..Question::about("package") };
    let table = [
        ("package-1", "package-1"),
        ("package-4", "revision `package-4` of function `package` is not active"),
        (
            "package-9",
            "function `package` has no revision `package-9`: there is `package-1`, `package-2`, `package-3`",
        ),
    ];
    for (name, expected) in table {
        assert_eq!(ask(&packages(), &named(name)), expected);
    }
}

#[test]
fn labels_choose_the_highest_active_revision() {
    let table = [
        ("new", "package-3"),
        ("old", "package-1"),
        ("none", "function `package` has no active revision with the labels channel=none"),
    ];
    for (channel, expected) in table {
        assert_eq!(ask(&packages(), &labelled("package", &[("channel", channel)])), expected);
    }
    assert_eq!(ask(&packages(), &Question::about("package")), "package-3");
}

#[test]
fn labels_choose_among_built_in_versions_too() {
    let table = [
        (&[("ferroplane.io/version", "v0.2.0")][..], "f-v0.2.0"),
        (&[("ferroplane.io/stability", "stable")], "f-v0.1.0"),
        (&[("ferroplane.io/stability", "available")], "f-v0.2.0"),
        (&[], "f-v0.2.0"),
    ];
    for (labels, expected) in table {
        assert_eq!(ask(&catalogue(), &labelled("f", labels)), expected, "{labels:?}");
    }
}

#[test]
fn version_revision_and_labels_exclude_each_other() {
    let both = Question { version: Some("v0.1.0".to_owned()), ..labelled("f", &[("a", "b")]) };
    let expected = "function `f`: functionRef.version and functionRevisionSelector both say which version to call: leave one of \
                    them out";
    assert_eq!(ask(&catalogue(), &both), expected);
    let both = Question { revision: Some("f-v0.2.0".to_owned()), ..labelled("f", &[("a", "b")]) };
    let expected = "function `f`: functionRevisionRef and functionRevisionSelector both say which version to call: leave one \
                    of them out";
    assert_eq!(ask(&catalogue(), &both), expected);
}

#[test]
fn function_that_is_installed_but_cannot_run_says_so_and_nothing_runs_in_its_place() {
    let mut catalogue = catalogue();
    let why = UnusableFunction { package: "fork/f:v9".to_owned(), reason: "nothing runs it".to_owned() };
    let family = catalogue.family("f").unwrap().clone();
    catalogue.name_further("further", &family);
    for name in ["f", "further"] {
        catalogue.add_unusable(name, why.clone());
        assert!(matches!(resolve(&catalogue, &Question::about(name)), Err(Unresolved::NotRunnable { .. })));
    }
    let unresolved = resolve(&catalogue, &Question::about("f")).unwrap_err();
    assert_eq!(
        unresolved.to_string(),
        "function `f` is installed as fork/f:v9, but cannot be called: nothing runs it"
    );
    assert_eq!(unresolved.cause(), Cause::FunctionNotRunnable);
}

/// Revisions of a package, in the order of their numbers: tag, and whether it is active.
fn revisions(tags: &[(&str, bool)]) -> Catalogue {
    let record = |(number, (tag, is_active)): (u64, &(&str, bool))| Record {
        revision: Revision { name: format!("package-{number}"), number },
        version: tag.parse().ok(),
        labels: BTreeMap::new(),
        lifecycle: Lifecycle::default(),
        is_active: *is_active,
        is_serving: true,
        built_in: None,
        source: VersionSource::Package,
        is_implemented: true,
    };
    let records = (1..).zip(tags).map(record).collect();
    let mut catalogue = Catalogue::new(version("v0.1.0"));
    catalogue.add(Family { function: "package".to_owned(), stable: None, records }).unwrap();
    catalogue
}

#[test]
fn package_that_is_tagged_as_unversioned_is_one_revision_among_others() {
    let catalogue = revisions(&[("v0.0.0", true), ("v0.1.0", true)]);
    assert_eq!(ask(&catalogue, &Question::about("package")), "package-2");
}

#[test]
fn version_means_the_latest_active_revision_that_has_it() {
    let exact = Question { version: Some("v1.0.0".to_owned()), ..Question::about("package") };
    let table = [
        (&[("v1.0.0", true), ("v1.0.0", false)][..], "package-1"),
        (&[("v1.0.0", true), ("v1.0.0", true)], "package-2"),
        (&[("v1.0.0", false), ("v1.0.0", false)], "revision `package-2` of function `package` is not active"),
    ];
    for (tags, expected) in table {
        assert_eq!(ask(&revisions(tags), &exact), expected);
    }
}

fn faults(release: &str, family: Family) -> Vec<String> {
    let refused = Catalogue::new(version(release)).add(family).err().unwrap_or_default();
    refused.iter().map(ToString::to_string).collect()
}

#[test]
fn rules_refuse_what_would_surprise_users() {
    let table = [
        ("v0.1.0", &[("v0.1.0", "0.1.0 0.3.0 0.4.0"), ("v0.2.0", "-")][..], "at least 2 minor releases"),
        ("v0.1.0", &[("v0.1.0", "0.1.0 0.9.0 1.0.0")], "at least 2 minor releases"),
        ("v0.1.0", &[("v0.1.0", "0.1.0 - 0.9.0")], "never deprecated"),
        ("v0.1.0", &[("v0.1.0", "0.5.0 0.4.0")], "before it is introduced"),
        ("v0.1.0", &[("v0.1.0", "- - - v0.7.0")], "replaced by v0.7.0, which is not among its versions"),
        ("v0.3.0", &[("v0.1.0", "-"), ("v0.2.0", "-")], "v0.3.0 is not among its versions (v0.1.0, v0.2.0)"),
        (
            "v0.1.0",
            &[("v0.1.0", "0.1.0 0.2.0")],
            "v0.1.0 is deprecated in release 0.2.0: promote another one",
        ),
        ("v0.1.0", &[("v0.1.0", "-"), ("0.1.0", "-")], "has version v0.1.0 twice"),
    ];
    for (stable, versions, expected) in table {
        let faults = faults("0.2.0", family("f", stable, versions, "0.2.0"));
        assert!(
            faults.iter().any(|fault| fault.contains("`f`") && fault.contains(expected)),
            "{expected}: {faults:?}"
        );
    }
    let fair = [("v0.1.0", "0.1.0 0.3.0 0.5.0"), ("v0.2.0", "-")];
    assert_eq!(faults("0.4.0", family("f", "v0.2.0", &fair, "0.4.0")), <[String; 0]>::default());
    let fair = [("v0.1.0", "0.1.0 0.9.0 1.1.0"), ("v0.2.0", "-")];
    assert_eq!(faults("0.9.0", family("f", "v0.2.0", &fair, "0.9.0")), <[String; 0]>::default());
}

#[test]
fn what_is_listed_has_code_and_what_is_removed_has_none() {
    let listed = |life_of: &str, is_implemented| {
        let versions = [
            (version("v0.1.0"), life(life_of), is_implemented),
            (version("v0.2.0"), Lifecycle::default(), true),
        ];
        faults("0.5.0", Family::built_in("f", version("v0.2.0"), versions))
    };
    assert_eq!(listed("-", false), ["function `f` v0.1.0 is listed, but there is no code for it"]);
    assert_eq!(
        listed("0.1.0 0.3.0 0.5.0", true),
        ["function `f` v0.1.0 was removed, but there still is code for it"]
    );
}

#[test]
fn function_cannot_be_added_twice() {
    let mut catalogue = catalogue();
    let refused = catalogue.add(Family::unversioned("f")).unwrap_err();
    assert_eq!(refused, [Fault::DuplicateFunction { function: "f".to_owned() }]);
    assert_eq!(ask(&catalogue, &Question::about("f")), "f-v0.1.0");
}

/// Two steps that call `f`, of which the second one pins v0.1.0.
fn pipeline(release: &str) -> Result<Pipeline, String> {
    let steps = serde_json::json!([
        {"step": "free", "functionRef": {"name": "f"}},
        {"step": "pinned", "functionRef": {"name": "f", "version": "v0.1.0"}},
    ]);
    let steps: Vec<ferroplane_api::Step> = serde_json::from_value(steps).unwrap();
    let pipeline = Pipeline::new(&steps).unwrap().resolve(&promoted(release));
    pipeline.map_err(|error| format!("{error}: {}", error.source))
}

fn run(pipeline: Pipeline) -> Outcome {
    let composite =
        serde_json::json!({"metadata": {"name": "a", "labels": {"crossplane.io/composite": "a"}}});
    let mut turn = start(Inputs {
        subject: CompositeSubject::new(
            composite.as_object().unwrap().clone().try_into().unwrap(),
            Layout::Modern,
        )
        .into(),
        pipeline: Arc::new(pipeline),
        remembered: Vec::new(),
        context: None,
        grants: std::sync::Arc::default(),
    });
    loop {
        turn = match turn {
            Turn::Call(call) => call.answer(RunFunctionResponse::default()),
            Turn::Fetch(_) => panic!("nothing was asked for"),
            Turn::Done(outcome) => return *outcome,
        }
    }
}

#[test]
fn use_of_a_deprecated_version_is_told_once_and_what_ran_is_recorded() {
    let pipeline = pipeline("0.3.0").unwrap();
    assert_eq!(pipeline.advisories().count(), 1);
    let outcome = run(pipeline);
    let [event] = outcome.events.as_slice() else { panic!("{:?}", outcome.events) };
    assert_eq!(event.reason, "FunctionVersionDeprecated");
    assert_eq!(
        event.detailed(),
        "Pipeline step \"pinned\": function `f` v0.1.0 is deprecated and will be removed in release 0.5.0: use v0.2.0 \
         instead"
    );
    let ran: Vec<_> = outcome.ran.iter().map(|ran| ran.callee.as_ref().unwrap().revision.as_str()).collect();
    assert_eq!(ran, ["f-v0.2.0", "f-v0.1.0"]);
}

#[test]
fn removed_version_stops_the_pipeline_before_its_first_step() {
    let error = pipeline("0.5.0").unwrap_err();
    assert!(
        error.starts_with("step `pinned`: function `f` v0.1.0 reached the end of its support"),
        "{error}"
    );
}

/// The revisions 1 to 3 of a package, all active, of which these have answered.
fn serving(answered: &[u64]) -> Catalogue {
    let mut catalogue = Catalogue::new(version("0.1.0"));
    let record = |number| {
        let record = revision(number, true, if number == 1 { "old" } else { "new" });
        Record { is_serving: answered.contains(&number), ..record }
    };
    let records = (1..=3).map(record).collect();
    catalogue.add(Family { function: "package".to_owned(), stable: None, records }).unwrap();
    catalogue
}

#[test]
fn new_revision_is_called_once_it_has_answered_unless_a_step_names_it() {
    let any = Question::about("package");
    let new = labelled("package", &[("channel", "new")]);
    for (answered, anyone, channel) in [
        (&[1][..], "package-1", "package-3"),
        (&[1, 2], "package-2", "package-2"),
        (&[1, 2, 3], "package-3", "package-3"),
        // What is wrong with the newest is what there is to tell.
        (&[], "package-3", "package-3"),
    ] {
        let catalogue = serving(answered);
        assert_eq!((ask(&catalogue, &any), ask(&catalogue, &new)), (anyone.to_owned(), channel.to_owned()));
        let named = Question { revision: Some("package-3".to_owned()), ..Question::about("package") };
        assert_eq!(ask(&catalogue, &named), "package-3", "whoever names one gets it");
    }
}

#[test]
fn revisions_and_labels_are_refused_where_that_is_off() {
    let mut catalogue = packages();
    catalogue.disable_revision_selectors();
    let named = Question { revision: Some("package-2".to_owned()), ..Question::about("package") };
    for question in [named, labelled("package", &[("channel", "new")])] {
        let unresolved = resolve(&catalogue, &question).unwrap_err();
        assert_eq!(unresolved.cause(), Cause::FunctionRevisionSelectorsDisabled);
        assert!(unresolved.to_string().contains("--enable-function-revision-selectors"), "{unresolved}");
    }
    assert_eq!(ask(&catalogue, &Question::about("package")), "package-3", "all else is as before");
}

#[test]
fn revisions_of_a_package_come_before_the_function_that_runs_them() {
    let mut catalogue = catalogue();
    let family = catalogue.family("f").unwrap().clone();
    catalogue.alias("mine", &family, Some(&version("v0.2.0")));
    assert_eq!(ask(&catalogue, &Question::about("mine")), "f-v0.2.0");
    let run_by = |number| Record { built_in: Some("f-v0.2.0".to_owned()), ..revision(number, true, "new") };
    catalogue.add_revisions("mine", vec![run_by(2), run_by(1)]);
    assert_eq!(ask(&catalogue, &Question::about("mine")), "package-2");
    assert_eq!(ask(&catalogue, &labelled("mine", &[("channel", "new")])), "package-2");
    assert_eq!(ask(&catalogue, &exactly("mine", "v0.2.0")), "f-v0.2.0", "its version can still be named");
}
