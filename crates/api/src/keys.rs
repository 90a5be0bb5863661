//! Labels, annotations and well-known names. They are Crossplane's, so that existing objects keep their meaning.

/// On composite and composed resources: the name of the outermost composite resource.
pub const COMPOSITE: &str = "crossplane.io/composite";
/// On composite and composed resources: the name of the claim.
pub const CLAIM_NAME: &str = "crossplane.io/claim-name";
/// On composite and composed resources: the namespace of the claim.
pub const CLAIM_NAMESPACE: &str = "crossplane.io/claim-namespace";
/// On composed resources: the name the composition knows them by.
pub const RESOURCE_NAME: &str = "crossplane.io/composition-resource-name";
/// On revisions: the name of the composition.
pub const COMPOSITION_NAME: &str = "crossplane.io/composition-name";
/// On revisions: the hash of the composition, as much of it as fits.
pub const COMPOSITION_HASH: &str = "crossplane.io/composition-hash";
/// On claims, composite and managed resources: what it is called out there.
pub const EXTERNAL_NAME: &str = "crossplane.io/external-name";
/// On claims and composite resources: `true` stops reconciling.
pub const PAUSED: &str = "crossplane.io/paused";

/// Owns the fields of composite resources that composing writes.
pub const COMPOSITE_MANAGER: &str = "apiextensions.crossplane.io/composite";
/// What the name of every owner of composed resources starts with.
pub const COMPOSED_MANAGER_PREFIX: &str = "apiextensions.crossplane.io/composed/";

/// The API group of compositions.
pub const APIEXTENSIONS: &str = "apiextensions.crossplane.io";
/// The API group of packages.
pub const PKG: &str = "pkg.crossplane.io";
/// The group of the manifests of packages.
pub const META_PKG: &str = "meta.pkg.crossplane.io";
/// On revisions of packages: the name of the package.
pub const PACKAGE: &str = "pkg.crossplane.io/package";
/// On composite resources: change it to have one reconciled.
pub const RECONCILE_REQUESTED_AT: &str = "crossplane.io/reconcile-requested-at";
/// On composite resources: how often to look, whatever happens.
pub const POLL_INTERVAL: &str = "crossplane.io/poll-interval";
/// Keeps a composite resource until the plane has let go of it.
pub const COMPOSITE_FINALIZER: &str = "composite.apiextensions.crossplane.io";
/// Keeps a claim until its composite resource is gone, or told to go.
pub const CLAIM_FINALIZER: &str = "finalizer.apiextensions.crossplane.io";
/// Owns the fields of composite resources that claims set.
pub const CLAIM_MANAGER: &str = "apiextensions.crossplane.io/claim";
/// The type of Secrets that hold connection details.
pub const CONNECTION_SECRET: &str = "connection.crossplane.io/v1alpha1";
/// The API group of usages.
pub const PROTECTION: &str = "protection.crossplane.io";
/// The API group of the kinds that only Ferroplane has.
pub const FERROPLANE: &str = "ferroplane.io";
/// The API group of rollouts.
pub const ROLLOUT: &str = "rollout.ferroplane.io";
/// In rules of roles on Ferroplane's own API server: the groups of all custom resources. No kind is in it.
pub const CUSTOM_RESOURCES: &str = "custom-resources.ferroplane.io";
/// The group of Blueprints and ActionSets.
pub const KANISTER: &str = "cr.kanister.io";
/// Keeps an ActionSet until the phase that runs at the end has run, and until pods of its phases are deleted.
pub const ACTION_SET_FINALIZER: &str = "actionset.ferroplane.io/defer-phase";
/// On ActionSets: `true` ends it as if a phase had failed. The phase that runs at the end runs.
pub const CANCEL: &str = "ferroplane.io/cancel";
/// The group of operations.
pub const OPS: &str = "ops.crossplane.io";
/// On objects in use: with `true`, the webhook checks their deletion.
pub const IN_USE: &str = "crossplane.io/in-use";
/// On usages: who uses what, for people.
pub const USAGE_DETAILS: &str = "crossplane.io/usage-details";
/// On objects in use: a deletion with this policy was refused.
pub const DELETION_ATTEMPT: &str = "usage.crossplane.io/deletion-attempt-with-policy";
/// Keeps a usage until what it is of is no longer marked.
pub const USAGE_FINALIZER: &str = "usage.apiextensions.crossplane.io";
/// On Functions: `Development` has it called where it is running already.
pub const FUNCTION_RUNTIME: &str = "render.crossplane.io/runtime";
/// On Functions: where that is.
pub const FUNCTION_TARGET: &str = "render.crossplane.io/runtime-development-target";
/// Where that is if nothing is said.
pub const DEFAULT_FUNCTION_TARGET: &str = "localhost:9443";
/// On Functions: the command that starts a program which serves it.
pub const FUNCTION_COMMAND: &str = "render.ferroplane.io/command";
/// On Functions: whether what is built in may run in place of a package, or must.
pub const NATIVE: &str = "ferroplane.io/native";
/// On Functions: what their code may see of the machine, if their program is WebAssembly.
pub const WASM_GRANTS: &str = "ferroplane.io/wasm-grants";
/// On Functions: how long their server may go on without being called, where the control plane runs it.
pub const IDLE_TIMEOUT: &str = "ferroplane.io/idle-timeout";
/// On Providers and Functions: the network that their program has, where the control plane runs it (`Isolated` or `Runner`).
pub const NETWORK: &str = "ferroplane.io/network";
/// On revisions of packages: the digest of the image that they were made of, with its algorithm.
pub const PACKAGE_DIGEST: &str = "ferroplane.io/package-digest";
/// On Secrets with the certificate of a package, and on the pods that read it: when the certificate was replaced. Absent on the first one.
pub const CERTIFICATE_REPLACED_AT: &str = "ferroplane.io/certificate-replaced-at";
/// On `ImageConfig`s: the Secret with the trusted root of Sigstore, in place of the public one.
pub const TRUSTED_ROOT: &str = "ferroplane.io/trusted-root";
/// The annotation by which an administrator of `CustomResourceDefinition`s lets a definition take one over.
pub const ADOPT: &str = "ferroplane.io/adopt";
/// On events: the code of what failed.
pub const CAUSE: &str = "ferroplane.io/cause";
/// On a definition (XRD): paths of fields whose values are secret and are not recorded, such as `spec.pin, spec.users[*].code`.
pub const SENSITIVE_FIELDS: &str = "ferroplane.io/sensitive-fields";
/// On events: the step of the pipeline that failed.
pub const STEP: &str = "ferroplane.io/step";
/// On events: what the composition calls the composed resource that failed.
pub const RESOURCE: &str = "ferroplane.io/resource";
/// On operations of a `WatchOperation`: the state of the watched object that it was created for, so that there is only one for it.
pub const WATCHED_STATE: &str = "ferroplane.io/watched-state";
