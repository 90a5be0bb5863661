//! What is in the packages, and what a user applies to have them.

use serde_json::{Value, json};

use crate::packages::LocalRegistry;
use crate::xpkg::Workshop;

/// A registry that does not exist. An `ImageConfig` leads to the real one, so that what is in packages does not depend on its port.
const MIRRORED: &str = "registry.example.org";

/// Push all packages.
pub(super) fn push_all(registry: &LocalRegistry) {
    for version in ["v1.0.0", "v1.1.0"] {
        let inputs = crd("inputs", "Input", "own.acme.org");
        registry.push(&image("function-own", version), &package("Function", version, &json!({}), &[inputs]));
        let objects = configuration(version);
        let needs = json!({"dependsOn": [dependency("function-needed", ">=v1.0.0")]});
        registry.push(&image("platform", version), &package("Configuration", version, &needs, &objects));
        let kinds = [
            crd("buckets", "Bucket", "cloud.acme.org"),
            crd("providerconfigs", "ProviderConfig", "cloud.acme.org"),
        ];
        registry.push(&image("provider-cloud", version), &package("Provider", version, &json!({}), &kinds));
    }
    let version = "v1.0.0";
    // Each Function has an image of its own: Crossplane resolves nothing while two packages have the same source.
    for name in ["function-needed", "probe-ferroplane", "probe-crossplane"] {
        registry.push(&image(name, version), &package("Function", version, &json!({}), &[]));
    }
    let held = [definition("holds", "Hold", version)];
    registry.push(&image("held", version), &package("Configuration", version, &json!({}), &held));
    let too_new = json!({"dependsOn": [dependency("function-needed", ">=v9.0.0")]});
    registry.push(&image("wanting", version), &package("Configuration", version, &too_new, &[]));
}

/// Build and push a Configuration with our command line. Returns its image.
pub(super) fn publish(registry: &LocalRegistry) -> String {
    let manifest = json!({
        "apiVersion": "meta.pkg.crossplane.io/v1", "kind": "Configuration", "metadata": {"name": "built"},
    });
    let image = direct(registry, "built", "v1.0.0");
    let workshop = Workshop::new();
    workshop.write("built/crossplane.yaml", &manifest.to_string());
    workshop.write("built/definition.yaml", &definition("builds", "Build", "built").to_string());
    workshop.says(&["build", "-f", "built", "-o", "built.xpkg"]);
    workshop.says(&["push", &image, "-f", "built.xpkg"]);
    image
}

fn image(name: &str, version: &str) -> String {
    format!("acme/{name}:{version}")
}

/// A `package.yaml`.
fn package(kind: &str, version: &str, spec: &Value, objects: &[Value]) -> String {
    let manifest = json!({
        "apiVersion": "meta.pkg.crossplane.io/v1", "kind": kind,
        "metadata": {
            "name": "acme", "labels": {"acme.org/team": "platform"},
            "annotations": {"meta.crossplane.io/license": "Apache-2.0", "acme.org/version": version},
        },
        "spec": spec,
    });
    let documents = [manifest].into_iter().chain(objects.iter().cloned());
    documents.map(|document| document.to_string()).collect::<Vec<_>>().join("\n---\n")
}

fn dependency(function: &str, version: &str) -> Value {
    json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "package": format!("{MIRRORED}/acme/{function}"),
        "version": version,
    })
}

fn crd(plural: &str, kind: &str, group: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Cluster",
            "names": {
                "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List"),
            },
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

fn definition(plural: &str, kind: &str, about: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "description": about}});
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2", "kind": "CompositeResourceDefinition",
        "metadata": {"name": format!("{plural}.acme.org")},
        "spec": {
            "group": "acme.org", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "referenceable": true, "schema": schema}],
        },
    })
}

fn composition(name: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": name},
        "spec": {
            "compositeTypeRef": {"apiVersion": "acme.org/v1", "kind": "Thing"}, "mode": "Pipeline",
            "pipeline": [{"step": "make", "functionRef": {"name": "acme-function-needed"}}],
        },
    })
}

/// The second version leaves one Composition out.
fn configuration(version: &str) -> Vec<Value> {
    let mut objects = vec![definition("things", "Thing", version), composition("things")];
    if version == "v1.0.0" {
        objects.push(composition("more-things"));
    }
    objects
}

/// An image at the address of the real registry.
pub(super) fn direct(registry: &LocalRegistry, name: &str, version: &str) -> String {
    format!("{}/{}", registry.address, image(name, version))
}

/// An image at the address that an `ImageConfig` rewrites.
pub(super) fn mirrored(name: &str, version: &str) -> String {
    format!("{MIRRORED}/{}", image(name, version))
}

/// A package that a user applies.
pub(super) fn installed(kind: &str, name: &str, image: &str, more: &Value) -> Value {
    let mut package = json!({
        "apiVersion": "pkg.crossplane.io/v1", "kind": kind, "metadata": {"name": name}, "spec": {"package": image},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        package["spec"][field] = value.clone();
    }
    package
}

pub(super) fn image_config(registry: &LocalRegistry) -> Value {
    json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "ImageConfig", "metadata": {"name": "mirror"},
        "spec": {
            "matchImages": [{"type": "Prefix", "prefix": format!("{MIRRORED}/")}],
            "rewriteImage": {"prefix": format!("{}/", registry.address)},
        },
    })
}

/// How the pods of a Function run.
pub(super) fn runtime_config() -> Value {
    let container = json!({
        "name": "package-runtime", "args": ["--debug"], "env": [{"name": "LEVEL", "value": "high"}],
        "resources": {"limits": {"memory": "64Mi"}},
    });
    let pods = json!({"metadata": {"labels": {"acme.org/tier": "one"}}, "spec": {"containers": [container]}});
    json!({
        "apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig", "metadata": {"name": "two-pods"},
        "spec": {
            "deploymentTemplate": {
                "metadata": {"labels": {"acme.org/tier": "one"}},
                "spec": {"replicas": 2, "selector": {}, "template": pods},
            },
            "serviceAccountTemplate": {"metadata": {"annotations": {"acme.org/role": "reader"}}},
            "serviceTemplate": {"metadata": {"labels": {"acme.org/tier": "one"}}},
        },
    })
}
