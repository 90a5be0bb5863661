//! Objects that protect a resource from being deleted while another still uses it.

use ferroplane_wire::Struct;
use ferroplane_wire::v1::{Ready, Resource};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Crossplane has two generations of such objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum UsageVersion {
    /// One kind, for cluster-scoped resources only.
    V1,
    /// One kind for cluster-scoped and one for namespaced resources.
    #[default]
    V2,
}

const V1: &str = "apiextensions.crossplane.io/v1beta1";
const V2: &str = "protection.crossplane.io/v1beta1";

/// Whether the observed resource protects others itself. Who would protect the protector?
pub(super) fn is_usage(resource: &Resource, version: UsageVersion) -> bool {
    let object = ObservedObject::of(resource);
    let (api_version, kind) = (object.text("apiVersion"), object.text("kind"));
    match version {
        UsageVersion::V1 => api_version == V1 && kind == "Usage",
        UsageVersion::V2 => api_version == V2 && matches!(kind, "Usage" | "ClusterUsage"),
    }
}

/// An object that protects `of` while `by` exists. It is ready as soon as it is there.
pub(super) fn new(
    of: &Resource,
    by: &Resource,
    replays: bool,
    version: UsageVersion,
) -> Result<Resource, String> {
    let (of, by) = (ObservedObject::of(of), ObservedObject::of(by));
    // The name must be the same each time, or every call would ask for another object.
    let mut metadata = json!({"name": name(of, by)});
    let (api_version, kind) = match (version, of.metadata("namespace")) {
        (UsageVersion::V1, _) => (V1, "Usage"),
        (UsageVersion::V2, "") => (V2, "ClusterUsage"),
        // A `Usage` is for resources in its own namespace, so that it goes where the protected one is.
        (UsageVersion::V2, namespace) => {
            metadata["namespace"] = namespace.into();
            (V2, "Usage")
        }
    };
    let spec = json!({"by": by.reference(), "of": of.reference(), "reason": "dependency", "replayDeletion": replays});
    let usage =
        [("apiVersion", api_version.into()), ("kind", kind.into()), ("metadata", metadata), ("spec", spec)];
    let usage = usage.into_iter().map(|(field, value)| (field.to_owned(), value)).collect::<Map<_, _>>();
    let usage = Struct::try_from(usage).map_err(|error| format!("cannot make a Usage: {error}"))?;
    Ok(Resource { resource: Some(usage), ready: Ready::True.into(), ..Resource::default() })
}

/// The longest name that fits everywhere in Kubernetes.
const MAX_NAME: usize = 63;

/// A name that tells who uses what, ends in a digest of that, and is as short as it must be.
fn name(of: ObservedObject<'_>, by: ObservedObject<'_>) -> String {
    let parts = [by.text("kind"), by.metadata("name"), of.text("kind"), of.metadata("name")];
    let readable = lower(&parts.join("-"));
    // Six digits, of the name before it is cut: the same as the original's `GenerateName`, so that its usages
    // keep their names here.
    let digest = ferroplane_wire::to_hex(&Sha256::digest(&readable)[..3]);
    let suffix = format!("{digest}-dependency");
    if readable.len() + 1 + suffix.len() <= MAX_NAME {
        return format!("{readable}-{suffix}");
    }
    let start = &readable.as_bytes()[..MAX_NAME - suffix.len() - 1];
    let start = String::from_utf8_lossy(start);
    format!("{}-{suffix}", start.strip_suffix('-').unwrap_or(&start))
}

/// Lower case, letter by letter.
fn lower(text: &str) -> String {
    // Go's `unicode.ToLower` maps one letter to one, where Rust would give two for `İ`.
    text.chars().filter_map(|letter| letter.to_lowercase().next()).collect()
}

/// An observed object, whose fields read as empty if they are not text.
#[derive(Clone, Copy)]
struct ObservedObject<'a>(Option<&'a Map<String, Value>>);

impl<'a> ObservedObject<'a> {
    fn of(resource: &'a Resource) -> Self {
        Self(resource.resource.as_ref().and_then(|object| object.json().ok()))
    }

    fn text(self, field: &str) -> &'a str {
        self.0.and_then(|object| object.get(field)).and_then(Value::as_str).unwrap_or_default()
    }

    fn metadata(self, field: &str) -> &'a str {
        let metadata = self.0.and_then(|object| object.get("metadata"));
        metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
    }

    fn reference(self) -> Value {
        json!({
            "apiVersion": self.text("apiVersion"),
            "kind": self.text("kind"),
            "resourceRef": {"name": self.metadata("name")},
        })
    }
}
