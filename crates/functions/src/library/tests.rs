//! Tests of what comes together, and what does not.

use std::collections::BTreeSet;
use std::path::Path;

use super::listed::ListedVersion;
use super::*;

fn answer(text: &'static str) -> Implementation {
    Implementation::new(move |request| crate::response::fatal(crate::response::to(request), text.to_owned()))
}

fn declare(stable: &str, versions: &[&str]) -> Declaration {
    let versions = versions
        .iter()
        .map(|number| ((*number).to_owned(), VersionMetadata::default(), Some(answer("declared"))));
    Declaration {
        function: "mine".to_owned(),
        contract: Contract::default(),
        stable: stable.to_owned(),
        versions: versions.collect(),
    }
}

fn empty() -> Library {
    Library::empty(Version::new(0, 1, 0))
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn said(implementation: &Implementation) -> String {
    implementation.run(&RunFunctionRequest::default()).results[0].message.clone()
}

#[test]
fn what_is_built_in_is_in_order() {
    let library = Library::built_in().unwrap();
    for family in library.catalogue().families() {
        for record in &family.records {
            let version = record.version.as_ref().unwrap();
            assert_eq!(library.implementation(&family.function, version).is_some(), record.is_implemented);
        }
    }
}

#[test]
fn dates_and_ranges_of_every_version_can_be_read() {
    let parse = |text: &str| text.parse::<Version>().unwrap();
    for version in LISTED.iter().flat_map(|function| function.versions) {
        parse(version.version);
        parse(version.introduced_in);
        for text in [version.deprecated_in, version.removed_in, version.replaced_by].into_iter().flatten() {
            parse(text);
        }
        assert!(version.covers.is_none_or(|range| semver::VersionReq::parse(range).is_ok()), "{version:?}");
    }
}

/// A version that was once released may not vanish, and one that is new has to be remembered.
#[test]
fn every_version_is_in_the_ledger_and_every_line_of_the_ledger_is_a_version() {
    let listed: BTreeSet<_> = LISTED
        .iter()
        .flat_map(|function| {
            function.versions.iter().map(|listed| (function.function, version(listed.version)))
        })
        .collect();
    let ledger = include_str!("../../versions.ledger").lines();
    let remembered: BTreeSet<_> = ledger
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, number)| (name, version(number)))
        .collect();
    let vanished: Vec<_> = remembered.difference(&listed).collect();
    assert!(vanished.is_empty(), "these were released and may not vanish from versions.yaml: {vanished:?}");
    let forgotten: Vec<_> = listed.difference(&remembered).collect();
    assert!(forgotten.is_empty(), "add these to versions.ledger: {forgotten:?}");
}

#[test]
fn contract_of_every_function_can_be_read() {
    let library = Library::built_in().unwrap();
    for family in library.catalogue().families() {
        let contract = library.contract(&family.function).unwrap();
        assert!(!contract.about.is_empty() && !contract.about.ends_with('.'), "{}", family.function);
        if let Some(input) = contract.input {
            let schema: serde_json::Value = serde_json::from_str(input).unwrap();
            assert_eq!(schema["type"], "object", "{}", family.function);
        }
    }
}

#[test]
fn every_version_that_is_registered_has_its_own_implementation() {
    let mut library = empty();
    let mut declaration = declare("v0.1.0", &["v0.0.0", "v0.1.0", "v0.2.0"]);
    declaration.versions[1].2 = Some(answer("one"));
    declaration.versions[2].2 = Some(answer("two"));
    library.register(declaration).unwrap();
    assert_eq!(said(library.implementation("mine", &version("0.1.0")).unwrap()), "one");
    assert_eq!(said(library.implementation("mine", &version("v0.2.0")).unwrap()), "two");
}

#[test]
fn function_without_versions_is_v0_0_0() {
    let mut library = empty();
    library.register_unversioned("mine", Contract::default(), answer("plain")).unwrap();
    let family = library.catalogue().family("mine").unwrap();
    assert_eq!(family.stable, Some(Version::UNVERSIONED));
    assert_eq!(said(library.implementation("mine", &Version::UNVERSIONED).unwrap()), "plain");
}

#[test]
fn duplicate_is_refused_and_the_first_stays() {
    let refused = empty().register(declare("v0.1.0", &["v0.1.0", "0.1.0"])).unwrap_err().to_string();
    assert!(refused.contains("`mine` has version v0.1.0 twice"), "{refused}");

    let mut library = empty();
    library.register_unversioned("mine", Contract::default(), answer("first")).unwrap();
    let refused = library.register_unversioned("mine", Contract::default(), answer("second")).unwrap_err();
    assert_eq!(refused.to_string(), "cannot list the functions: function `mine` is registered already");
    assert_eq!(said(library.implementation("mine", &Version::UNVERSIONED).unwrap()), "first");
}

#[test]
fn bad_version_is_refused_with_function_text_and_form() {
    for text in ["abc", "v1", "1.2", ""] {
        let refused = empty().register(declare("v0.1.0", &[text])).unwrap_err().to_string();
        assert!(refused.contains("`mine`") && refused.contains(&format!("`{text}`")), "{refused}");
        assert!(refused.contains("v1.2.3"), "{refused}");
    }
}

const FILE: [Listed; 1] = [Listed {
    function: "mine",
    about: "Mine",
    stable: "v0.1.0",
    package: Some("maker/function-mine"),
    mirrors: &["other-maker/function-mine"],
    never_composes: false,
    declares_readiness: false,
    input: None,
    example: None,
    versions: &[ListedVersion {
        version: "v0.1.0",
        introduced_in: "0.1.0",
        deprecated_in: None,
        removed_in: None,
        replaced_by: None,
        covers: Some(">=0.2.0, <0.4.0"),
        compared: &["v0.3.1"],
        read: &["v0.2.0"],
        capabilities: &["composition"],
    }],
}];

fn code(stable: &str, versions: &[&str]) -> BTreeMap<&'static str, CodedVersions> {
    let versions = versions.iter().map(|number| (version(number), answer("code"))).collect();
    BTreeMap::from([("mine", CodedVersions { stable: version(stable), versions })])
}

fn join(code: &BTreeMap<&str, CodedVersions>) -> Result<Library, String> {
    Library::of(&FILE, code, Version::new(0, 1, 0)).map_err(|disorder| disorder.to_string())
}

#[test]
fn file_and_code_have_to_agree() {
    assert!(join(&code("v0.1.0", &["v0.1.0"])).is_ok());
    let table = [
        (code("v0.1.0", &[]), "`mine` v0.1.0 is listed, but there is no code for it"),
        (BTreeMap::new(), "`mine` v0.1.0 is listed, but there is no code for it"),
        (
            code("v0.1.0", &["v0.1.0", "v0.2.0"]),
            "`mine` v0.2.0 is there, but is not listed in the versions file",
        ),
        (code("v0.2.0", &["v0.1.0"]), "the versions file says v0.1.0 is stable, the code says v0.2.0"),
    ];
    for (code, expected) in table {
        let refused = join(&code).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn package_is_replaced_when_its_maker_and_version_are_covered() {
    let library = join(&code("v0.1.0", &["v0.1.0"])).unwrap();
    let covered = Native::Covered { function: "mine".to_owned(), version: version("v0.1.0") };
    let not_covered =
        Native::NotCovered { function: "mine".to_owned(), covered: vec![">=0.2.0, <0.4.0".to_owned()] };
    let table = [
        ("registry.example/maker/function-mine:v0.3.1", &covered),
        ("registry.example:5000/mirror/maker/function-mine:0.2.0@sha256:abc", &covered),
        ("maker/function-mine:v0.2.0", &covered),
        ("registry.example/other-maker/function-mine:v0.3.1", &covered),
        ("registry.example/other-maker/function-mine:v0.4.0", &not_covered),
        ("registry.example/maker/function-mine:v0.4.0", &not_covered),
        ("registry.example/maker/function-mine:latest", &not_covered),
        ("registry.example/maker/function-mine", &not_covered),
        ("registry.example:5000/maker/function-mine@sha256:abc", &not_covered),
        ("registry.example/other/function-mine:v0.3.1", &Native::Unknown),
        ("registry.example/othermaker/function-mine:v0.3.1", &Native::Unknown),
        ("", &Native::Unknown),
    ];
    for (package, expected) in table {
        assert_eq!(&library.native(package), expected, "{package}");
    }
}

/// Crossplane's package manager names a Function that it installs as a dependency after its package.
#[test]
fn function_is_found_by_the_names_that_the_package_manager_gives_it() {
    let library = join(&code("v0.1.0", &["v0.1.0"])).unwrap();
    for name in ["mine", "maker-function-mine", "other-maker-function-mine"] {
        assert_eq!(library.listed_name(name), Some("mine"), "{name}");
        let family = library.catalogue().family(name).unwrap();
        assert_eq!((family.function.as_str(), family.records.len()), (name, 1));
    }
    assert_eq!(library.listed_name("somebody-function-mine"), None);
    assert_eq!(library.catalogue().families().count(), 1, "each function is listed once");
}

/// A release that is covered was compared, or at least its source was read. Both ends of the range are named, so that
/// the range claims no more than the lists do.
#[test]
fn every_version_that_is_covered_was_compared_or_read() {
    for function in LISTED.iter().filter(|function| function.package.is_some()) {
        for version in function.versions.iter().map(ListedVersion::version_metadata) {
            let range = version.covers.expect("a version of a package covers something");
            let known: Vec<_> = version.compared.iter().chain(&version.read).collect();
            assert!(
                known.iter().all(|release| range.matches(release.semver())),
                "{}: {range}",
                function.function
            );
            for end in &range.comparators {
                let text = format!("v{}.{}.{}", end.major, end.minor.unwrap(), end.patch.unwrap());
                let is_named = known.iter().any(|release| release.to_string() == text);
                assert!(is_named, "{}: {text} of {range} was neither compared nor read", function.function);
            }
        }
    }
}

/// The page says from which release on, and up to which, a package is built in.
#[test]
fn page_has_the_first_and_the_last_release_of_every_package() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/functions.md");
    let page = std::fs::read_to_string(page).unwrap();
    for function in LISTED.iter().filter(|function| function.package.is_some()) {
        let versions = function.versions.iter().map(ListedVersion::version_metadata);
        let mut known: Vec<_> =
            versions.flat_map(|version| [version.compared, version.read].concat()).collect();
        known.sort();
        let row = format!("| `{}` | ", function.function);
        let row = page.lines().find_map(|line| line.strip_prefix(&row)).expect(function.function);
        let releases = row.split(" |").next().unwrap();
        let mut named: Vec<_> = releases.split([' ', ',']).filter(|word| word.starts_with('v')).collect();
        named.dedup();
        let ends = [known.first().unwrap(), known.last().unwrap()].map(ToString::to_string);
        assert_eq!([named[0], named[named.len() - 1]], ends, "{}", function.function);
        for release in named {
            assert!(known.contains(&version(release)), "{}: {release} is not built in", function.function);
        }
    }
}
