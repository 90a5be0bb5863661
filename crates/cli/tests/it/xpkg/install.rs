//! Installing and updating packages on a control plane.

use crate::plane::Plane;

const PACKAGE: &str = "registry.example.org/team/function-example";

/// A plane whose controllers leave packages alone.
fn plane() -> Plane {
    Plane::new()
}

fn xpkg(plane: &Plane, arguments: &str) -> String {
    plane.says(&format!("{} xpkg {arguments}", env!("CARGO_BIN_EXE_ferroplane")))
}

#[test]
fn package_is_installed_and_updated_as_the_flags_say() {
    let plane = plane();
    let printed = xpkg(
        &plane,
        &format!(
            "install function {PACKAGE}:v1.0.0 -m -r 3 --package-pull-secrets one,two --runtime-config custom"
        ),
    );
    assert!(printed.contains("function/team-function-example created"), "{printed}");
    let field = |path: &str| {
        plane.says(&format!(
            "kubectl get function.pkg.crossplane.io team-function-example -o jsonpath='{{.spec.{path}}}'"
        ))
    };
    assert_eq!(field("package"), format!("{PACKAGE}:v1.0.0"));
    assert_eq!(field("revisionActivationPolicy"), "Manual");
    assert_eq!(field("revisionHistoryLimit"), "3");
    assert_eq!(field("packagePullSecrets[*].name"), "one two");
    assert_eq!(field("runtimeConfigRef.name"), "custom");

    let ferroplane = env!("CARGO_BIN_EXE_ferroplane");
    let refused = plane.fails(&format!("{ferroplane} xpkg install function {PACKAGE}:v1.0.0"), "");
    assert!(
        refused.contains("it exists already; change its version with `ferroplane xpkg update`"),
        "{refused}"
    );
    let printed = xpkg(&plane, &format!("update function {PACKAGE}:v1.1.0"));
    assert!(printed.contains("function/team-function-example updated"), "{printed}");
    assert_eq!(field("package"), format!("{PACKAGE}:v1.1.0"));
    assert_eq!(field("revisionHistoryLimit"), "3");

    let refused = plane.fails(&format!("{ferroplane} xpkg update provider {PACKAGE}:v1.1.0 nobody"), "");
    assert!(refused.contains("there is no such package"), "{refused}");
    let refused =
        plane.fails(&format!("{ferroplane} xpkg install configuration {PACKAGE}:v1 --runtime-config a"), "");
    assert!(refused.contains("a Configuration has no program"), "{refused}");
    let refused = plane.fails(&format!("{ferroplane} xpkg install function localhost:5000/a/b:v1"), "");
    assert!(refused.contains("has no dot"), "{refused}");
}
