//! Composite resources, from `kubectl apply` to `kubectl delete`.

use std::path::Path;

use super::plane;
use crate::plane::Plane;

/// A plane with the example that everybody tries first.
fn plane_with_hello() -> Option<Plane> {
    let example = |name: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hello");
        std::fs::read_to_string(root.join(name)).unwrap()
    };
    let mut plane = plane()?;
    for name in ["definition.yaml", "composition.yaml", "xr.yaml"] {
        plane = plane.with(name, &example(name));
    }
    plane.says("kubectl apply -f definition.yaml -f composition.yaml");
    plane.says("kubectl wait xrd/apps.demo.ferroplane.io --for=condition=Established --timeout=60s");
    Some(plane)
}

fn wait_until_synced(plane: &Plane) {
    plane.says("kubectl wait app/hello --for=condition=Synced --timeout=60s");
}

#[test]
fn example_becomes_real() {
    let Some(plane) = plane_with_hello() else { return };
    plane.says("kubectl apply -f xr.yaml");
    wait_until_synced(&plane);
    let composed =
        plane.says("kubectl get configmap,deployment,service -l crossplane.io/composite=hello -o name");
    assert_eq!(composed.lines().count(), 3, "{composed}");

    let deployment = "$(kubectl get deployment -l crossplane.io/composite=hello -o name)";
    let ready = r#"{"status":{"conditions":[{"type":"Available","status":"True","reason":"x"}],"availableReplicas":2,"replicas":2,"readyReplicas":2,"updatedReplicas":2,"observedGeneration":1}}"#;
    plane.says(&format!("kubectl patch {deployment} --subresource=status --type=merge -p '{ready}'"));
    plane.says("kubectl wait app/hello --for=condition=Ready --timeout=60s");
    let told = plane.says("kubectl get app hello -o jsonpath={.status.availableReplicas}");
    assert_eq!(told, "2");

    plane.says("kubectl delete app hello --cascade=foreground --timeout=60s");
    assert_eq!(plane.says("kubectl get deployment,service -l crossplane.io/composite=hello -o name"), "");
}

#[test]
fn what_was_composed_is_still_there_after_a_restart() {
    let Some(plane) = plane_with_hello() else { return };
    plane.says("kubectl apply -f xr.yaml");
    wait_until_synced(&plane);
    let versions =
        "kubectl get app,configmap,deployment,service -A -o jsonpath='{.items[*].metadata.resourceVersion}'";
    let before = plane.says(versions);
    let plane = Plane::start(plane.stop(), &["--data-dir", "data"]);
    plane.says("kubectl patch app hello --type=merge -p '{\"spec\":{\"greeting\":\"again\"}}'");
    plane.says("kubectl wait configmap -l crossplane.io/composite=hello --for=jsonpath={.data.greeting}=again --timeout=60s");
    let after = plane.says(versions);
    let unchanged =
        before.split(' ').filter(|version| after.split(' ').any(|other| other == *version)).count();
    // The Deployment, the Service, and what has nothing to do with it.
    assert!(unchanged >= 2, "{before}\n{after}");
}

#[test]
fn mistake_in_a_composition_is_told_to_who_describes_the_composite_resource() {
    let Some(plane) = plane_with_hello() else { return };
    plane.says("sed -i s/function-auto-ready/function-auto-redy/ composition.yaml; kubectl apply -f composition.yaml");
    plane.says("kubectl apply -f xr.yaml; kubectl wait app/hello --for=condition=Synced=False --timeout=60s");
    let told = plane.says("kubectl describe app hello");
    assert!(
        told.contains("there is no function `function-auto-redy`: did you mean `function-auto-ready`?"),
        "{told}"
    );
}
