//! What is there besides the composite resource and what it composes: resources, secrets, schemas.

use serde_json::{Value, json};

use super::{API_VERSION, KIND};
use crate::dice::Dice;

/// Resources that functions may ask for.
pub(crate) fn required(dice: &mut Dice) -> Value {
    let config = |name: &str, namespace: Option<&str>, labels: Value| {
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
            "data": {"name": name, "size": "1"}
        });
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    };
    let mut referenced = config("referenced", Some("team"), json!({}));
    referenced["metadata"]["annotations"] = json!({"crossplane.io/composition-resource-name": "referenced"});
    let all = [
        config("settings", Some("team"), json!({"tier": "gold"})),
        config("settings", Some("elsewhere"), json!({"tier": "gold", "team": "blue"})),
        config("a-first", Some("team"), json!({"tier": "silver"})),
        config("z-last", None, json!({"tier": "gold"})),
        config("0", Some("te"), json!({"tier": "gold"})),
        referenced,
        json!({
            "apiVersion": "example.org/v1alpha1", "kind": "Plan", "metadata": {"name": "cheap"},
            "spec": {"price": 9.5, "seats": 3, "none": null, "list": []}
        }),
        json!({"apiVersion": "example.org/v1beta1", "kind": "Plan", "metadata": {"name": "cheap"}}),
    ];
    let mut some = dice.some(&all, 80);
    some.push(grant());
    Value::Array(some)
}

/// To Crossplane, every namespace is open to every function. To us, an administrator has to say so.
pub(crate) fn grant() -> Value {
    json!({
        "apiVersion": "ferroplane.io/v1alpha1", "kind": "AccessGrant", "metadata": {"name": "everything"},
        "spec": {
            "to": {"namespaces": ["*"]},
            "read": [{"apiGroups": ["*"], "kinds": ["*", "Secret"], "namespaces": ["*"]}],
        },
    })
}

/// What a function, or a composition for it, may ask for.
pub(super) fn selector(dice: &mut Dice) -> Value {
    let (api_version, kind) = dice.pick(&[
        ("v1", "ConfigMap"),
        ("v1", "ConfigMap"),
        ("v1", "ConfigMap"),
        ("example.org/v1alpha1", "Plan"),
        ("example.org/v1beta1", "Plan"),
        ("example.org/v9", "Unknown"),
        (API_VERSION, KIND),
    ]);
    let mut selector = json!({"apiVersion": api_version, "kind": kind});
    match dice.below(3) {
        0 => selector["matchName"] = dice.pick(&["settings", "cheap", "gone", "z-last", "xr"]).into(),
        1 => {
            let labels = [
                json!({"tier": "gold"}),
                json!({"tier": "gold", "team": "blue"}),
                json!({"no": "one"}),
                json!({}),
            ];
            selector["matchLabels"] = json!({"labels": dice.pick(&labels)});
        }
        _ => {}
    }
    if dice.chance(50) {
        selector["namespace"] = dice.pick(&["team", "elsewhere", ""]).into();
    }
    selector
}

/// The kinds whose schemas may be asked for.
pub(super) fn schema_selector(dice: &mut Dice) -> Value {
    let (api_version, kind) = dice.pick(&[
        ("v1", "ConfigMap"),
        ("example.org/v1", "Tree"),
        ("example.org/v1", "Twice"),
        ("example.org/v1", "Loop"),
        ("example.org/v1", "Unknown"),
        ("example.org/v9", "Tree"),
    ]);
    json!({"apiVersion": api_version, "kind": kind})
}

/// Secrets: credentials of functions, and connection details.
pub(crate) fn credentials() -> Value {
    json!([
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "namespace": "secrets"},
            "type": "Opaque", "data": {"token": "dG9rZW4=", "binary": "AP8Q", "empty": ""}
        },
        {"metadata": {"name": "kindless", "namespace": "secrets"}, "data": {"key": "a2V5"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bare", "namespace": "secrets"}},
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "connection", "namespace": "secrets"},
            // To Crossplane, every Secret is open to what names it. To us, one of this type is.
            "type": "connection.crossplane.io/v1alpha1", "data": {"endpoint": "ZGI6NTQzMg=="}
        },
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "connection", "namespace": "team"},
            "data": {"endpoint": "dGVhbQ=="}
        },
    ])
}

/// `OpenAPI` documents: one for the core group, one for another.
pub(crate) fn schemas(dice: &mut Dice) -> Value {
    let core = json!({
        "openapi": "3.0.0", "info": {"title": "core", "version": "v1"},
        "components": {"schemas": {
            "io.k8s.api.core.v1.ConfigMap": {
                "type": "object", "description": "ConfigMap holds configuration data.",
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ConfigMap"}],
                "properties": {
                    "data": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
                    "immutable": {"type": "boolean"},
                    "metadata": {
                        "description": "Standard object's metadata.", "default": {},
                        "allOf": [{"$ref": "#/components/schemas/io.k8s.meta.v1.ObjectMeta"}]
                    }
                }
            },
            "io.k8s.meta.v1.ObjectMeta": {
                "type": "object", "description": "Metadata.",
                "properties": {
                    "name": {"type": "string"}, "generation": {"type": "integer", "format": "int64"},
                    "creationTimestamp": {"$ref": "#/components/schemas/io.k8s.meta.v1.Time"},
                    "finalizers": {
                        "type": "array", "items": {"type": "string", "default": ""},
                        "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"
                    }
                }
            },
            "io.k8s.meta.v1.Time": {"type": "string", "format": "date-time"}
        }}
    });
    let other = json!({
        "openapi": "3.0.0", "info": {"title": "example", "version": "v1"},
        "components": {"schemas": {
            "org.example.v1.Tree": {
                "type": "object",
                "x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "Tree"}],
                "required": ["leaf"],
                "properties": {
                    "leaf": {"$ref": "#/components/schemas/org.example.v1.Leaf"},
                    "size": {
                        "type": "integer", "minimum": 1, "maximum": 10, "default": 3, "enum": [1, 2, 3],
                        "x-kubernetes-validations": [{"rule": "self > 0", "message": "must grow"}]
                    },
                    "any": {"x-kubernetes-preserve-unknown-fields": true, "nullable": true}
                }
            },
            "org.example.v1.Leaf": {
                "type": "object", "properties": {"colour": {"type": "string", "pattern": "^#", "maxLength": 7}},
                "oneOf": [{"required": ["colour"]}, {"required": ["shade"]}]
            },
            "org.example.v1.Loop": {
                "type": "object", "description": "Contains itself, and what contains it.",
                "x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "Loop"}],
                "properties": {
                    "self": {"$ref": "#/components/schemas/org.example.v1.Loop"},
                    "list": {"type": "array", "items": {"$ref": "#/components/schemas/org.example.v1.Knot"}}
                }
            },
            "org.example.v1.Knot": {
                "type": "object",
                "additionalProperties": {"$ref": "#/components/schemas/org.example.v1.Loop"},
                "properties": {
                    "again": {"$ref": "#/components/schemas/org.example.v1.Knot"},
                    "leaf": {"$ref": "#/components/schemas/org.example.v1.Leaf"}
                }
            },
            "org.example.v1.Twice": {
                "type": "object",
                "x-kubernetes-group-version-kind": [
                    {"group": "example.org", "version": "v1", "kind": "Twice"},
                    {"group": "example.org", "version": "v2", "kind": "Twice"}
                ]
            }
        }}
    });
    Value::Array(dice.some(&[core, other], 80))
}
