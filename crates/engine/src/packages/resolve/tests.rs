//! Which packages are installed or moved because others depend on them.

use ferroplane_api::Dependency;

use super::*;

fn package(source: &str, version: &str, dependencies: &[(&str, &str)]) -> LockPackage {
    let dependency = |(package, constraints): &(&str, &str)| Dependency {
        kind: Some("Provider".to_owned()),
        package: format!("registry.example.org/org/{package}"),
        constraints: (*constraints).to_owned(),
        ..Dependency::default()
    };
    LockPackage {
        name: format!("{source}-1"),
        source: format!("registry.example.org/org/{source}"),
        version: version.to_owned(),
        dependencies: dependencies.iter().map(dependency).collect(),
        ..LockPackage::default()
    }
}

fn installed(name: &str, source: &str, version: &str) -> InstalledPackage {
    InstalledPackage {
        kind: PackageKind::Provider,
        name: name.to_owned(),
        source: format!("registry.example.org/org/{source}"),
        version: version.to_owned(),
    }
}

fn tags(source: &str, tags: &[&str]) -> KnownTags {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    KnownTags::from([(format!("registry.example.org/org/{source}"), Ok(tags))])
}

/// What is done about `b`, in a line.
fn check(
    lock: &[LockPackage],
    existing: &[InstalledPackage],
    known: &[&str],
    options: ResolveOptions,
) -> String {
    let resolution = resolve_dependencies(lock, existing, &tags("b", known), options);
    let changes = resolution.changes.iter().map(|change| match change {
        PackageChange::Install { name, image, .. } => format!("install {name} {image}"),
        PackageChange::Move { name, image, .. } => format!("move {name} {image}"),
    });
    let conflicts = resolution.conflicts.iter().map(ToString::to_string);
    let asks = resolution.ask.iter().map(|source| format!("ask {source}"));
    changes
        .chain(conflicts)
        .chain(asks)
        .collect::<Vec<_>>()
        .join("\n")
        .replace("registry.example.org/org/", "")
}

const NONE: ResolveOptions = ResolveOptions { upgrades: false, downgrades: false };
const UP: ResolveOptions = ResolveOptions { upgrades: true, downgrades: false };
const DOWN: ResolveOptions = ResolveOptions { upgrades: true, downgrades: true };

#[test]
fn missing_package_is_installed_in_the_highest_version_that_is_accepted() {
    for (constraints, known, line) in [
        ("v1.0.0", &["v1", "v1.0", "v1.0.0", "v1.0.1", "v2", "v2.0.0"][..], "install org-b b:v1.0.0"),
        (">v1.0.0", &["v0.2.0", "v0.3.0", "v1.0.0", "v1.2.0"], "install org-b b:v1.2.0"),
        ("*", &["1.0.0", "latest", "v1.9.0-rc.1"], "install org-b b:1.0.0"),
    ] {
        let lock = [package("a", "v1.0.0", &[("b", constraints)])];
        assert_eq!(check(&lock, &[], known, NONE), line, "{constraints}");
    }
    let digest = format!("sha256:{}", "0".repeat(64));
    let lock = [package("a", "v1.0.0", &[("b", &digest)])];
    assert_eq!(check(&lock, &[], &[], NONE), format!("install org-b b@{digest}"));
}

#[test]
fn nothing_that_fits_is_a_conflict_with_the_whole_way_and_stops_nobody_else() {
    let lock =
        [package("root", "v1.0.0", &[("a", "*")]), package("a", "v1.0.0", &[("b", ">=v9.0.0"), ("c", "*")])];
    let mut known = tags("b", &["v1.0.0"]);
    known.extend(tags("c", &["v1.0.0"]));
    let resolution = resolve_dependencies(&lock, &[], &known, NONE);
    assert_eq!(resolution.changes.len(), 1, "{resolution:?}");
    assert_eq!(
        resolution.conflicts[0].to_string().replace("registry.example.org/org/", ""),
        "cannot resolve `b`: none of the 1 tags of its registry is a version that all constraints accept; \
         wanted by root:v1.0.0 → a:v1.0.0 (>=v9.0.0)"
    );
    assert_eq!(resolve_dependencies(&lock, &[], &KnownTags::new(), NONE).ask.len(), 2);
}

#[test]
fn dependency_whose_name_another_package_has_is_a_conflict() {
    let lock = [package("a", "v1.0.0", &[("b", "*")])];
    let mirrored = InstalledPackage {
        source: "mirror.example.org/org/b".to_owned(),
        ..installed("org-b", "b", "v1.0.0")
    };
    let resolution = resolve_dependencies(&lock, &[mirrored], &tags("b", &["v1.0.0"]), NONE);
    assert_eq!(resolution.changes, []);
    assert_eq!(
        resolution.conflicts[0].to_string().replace("registry.example.org/org/", ""),
        "cannot resolve `b`: its name would be `org-b`, which Provider `mirror.example.org/org/b` has; install it under \
         another name; wanted by a:v1.0.0 (*)"
    );
}

#[test]
fn installed_package_moves_only_where_that_is_allowed() {
    let lock = |version: &str, constraints: &[&str]| {
        let mut lock = vec![package("b", version, &[])];
        for (number, constraint) in constraints.iter().enumerate() {
            lock.push(package(&format!("a{number}"), "v1.0.0", &[("b", constraint)]));
        }
        lock
    };
    let known = ["v1.0.0", "v2.0.0", "v2.1.0", "v3.0.0"];
    for (version, constraints, options, line) in [
        ("v2.0.0", &[">v2.0.0", "<=v3.0.0"][..], UP, "move mine b:v2.1.0"),
        ("v2.0.0", &[">v2.0.0", "<=v3.0.0"], NONE, ""),
        ("v3.0.0", &[">=v0.0.1", "<v3.0.0"], DOWN, "move mine b:v2.1.0"),
        ("v2.0.0", &[">=v1.0.0"], DOWN, ""),
        ("some-branch", &[">=v1.0.0"], UP, "move mine b:v3.0.0"),
    ] {
        let existing = [installed("mine", "b", version)];
        assert_eq!(check(&lock(version, constraints), &existing, &known, options), line, "{constraints:?}");
    }
    let stuck = check(&lock("v3.0.0", &["<v3.0.0"]), &[installed("mine", "b", "v3.0.0")], &known, UP);
    assert!(stuck.contains("`v2.1.0` is accepted, but older"), "{stuck}");
    let digest = format!("sha256:{}", "0".repeat(64));
    let mixed =
        check(&lock("v3.0.0", &["<v3.0.0", &digest]), &[installed("mine", "b", "v3.0.0")], &known, UP);
    assert!(mixed.contains("some want a digest and others a range of versions"), "{mixed}");
}

#[test]
fn circle_installs_nothing_more_and_others_go_on() {
    let lock = [
        package("x", "v1.0.0", &[("y", "*"), ("b", "*")]),
        package("y", "v1.0.0", &[("x", "*")]),
        package("z", "v1.0.0", &[("c", "*"), ("x", "*")]),
    ];
    let mut known = tags("b", &["v1.0.0"]);
    known.extend(tags("c", &["v1.0.0"]));
    let resolution = resolve_dependencies(&lock, &[], &known, NONE);
    let conflict = resolution.conflicts[0].to_string();
    assert!(conflict.contains("depend on each other"), "{conflict}");
    assert_eq!(resolution.conflicts.len(), 1);
    assert!(matches!(&resolution.changes[..], [PackageChange::Install { name, .. }] if name == "org-c"));
}
