//! The kinds we read and write, as data: types, conditions, labels, names. Performs no I/O and knows no client.

mod action_set;
mod blueprint;
mod cause;
mod composition;
mod condition;
mod definition;
mod external;
mod function;
mod grant;
mod intercept;
mod package;
mod profile;
mod rollout;
mod unsupported;
mod usage;

pub mod crds;
#[cfg(feature = "generate")]
pub mod generate;
pub mod image;
pub mod keys;
pub mod meta;
pub mod names;

pub use action_set::{
    ActionProgress, ActionSetError, ActionSetSpec, ActionSetStatus, ActionSpec, ActionState, ActionStatus,
    ExecutionMode, PhaseCallee, PhaseError, PhaseProgress, PhaseState, PhaseStatus, PhaseWarning,
    TransferredBytes, Workload,
};
pub use blueprint::{Artifact, Blueprint, BlueprintAction, BlueprintPhase, KanisterReference};
pub use cause::{Cause, FailurePoint, UnknownCause};
pub use composition::{
    Composition, CompositionSpec, Credential, CredentialSource, FunctionRef, FunctionRevisionRef,
    FunctionRevisionSelector, InputRef, Mode, RequiredResource, RequiredSchema, Requirements, SecretRef,
    Step, TypeRef,
};
pub use condition::{Condition, Status, set_condition};
pub use definition::{
    CompositeResourceDefinition, DefinitionNames, DefinitionSpec, DefinitionVersion, Scope,
};
pub use external::{
    ChrootFunction, CompositionFunction, ContainerFunction, FunctionLimits, FunctionNetwork,
    FunctionProtocol, FunctionResources, FunctionType, ImagePullPolicy, ImagePullSecret, NetworkPolicy,
    WebhookFunction,
};
pub use function::Function;
pub use grant::{
    ANY, AccessGrantSpec, CallGrant, GrantSubjects, GrantedKind, InterceptGrant, Privilege, ReadGrant,
    RunGrant,
};
pub use intercept::{
    FunctionInterceptSpec, FunctionInterceptStatus, InterceptComparison, InterceptMode, InterceptTls,
    InterceptedComposites,
};
pub use package::{
    CosignAttestation, CosignAuthority, CosignIdentity, CosignKey, CosignKeyless, CosignVerification,
    Dependency, ImageConfig, ImageMatch, ImageRewrite, ImageVerification, LockPackage, NameReference,
    PackageKind, PackageSpec, RegistryAuthentication, RegistryConfig, RuntimeConfigReference, RuntimeOfImage,
    lock_packages,
};
pub use profile::{
    CredentialType, KeyPair, KopiaServerSecret, LocationType, Profile, ProfileCredential, ProfileLocation,
    SecretKey,
};
pub use rollout::{
    FunctionRolloutSpec, FunctionRolloutStatus, PROMOTE_ANNOTATION, REQUESTED_AT_ANNOTATION, RevisionCalls,
    RolloutCalls, RolloutCohort, RolloutCounts, RolloutDifference, RolloutFailurePolicy, RolloutFirst,
    RolloutFunction, RolloutGates, RolloutRecord, RolloutState, RolloutTarget, UNDO_ANNOTATION,
};
pub use unsupported::{NOT_SUPPORTED, UNSUPPORTED, UnsupportedKind, unsupported};
pub use usage::{UsageReference, UsageSelector, UsageSpec, UsageTarget};

/// An object of any kind, as the API server and functions exchange it.
pub type Object = serde_json::Map<String, serde_json::Value>;
