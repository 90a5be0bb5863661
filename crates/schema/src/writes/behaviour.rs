//! How kinds differ in what a write does to them.
//!
//! Follows k8s.io/apiserver 0.36.4, `pkg/registry/rest/create.go`, `pkg/registry/rest/update.go`.

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::{Convert, ResetFields, VersionedKind};
use serde_json::Value;

use crate::field::Error;
use crate::patch::facts;
use crate::status::Resource;

/// Which part of an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    #[default]
    Whole,
    Status,
    /// How many replicas there shall be.
    Scale,
    /// What keeps a namespace from going.
    Finalize,
    /// Containers that were added to a pod to look into it.
    EphemeralContainers,
}

impl Part {
    /// As owners of fields name it.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::EphemeralContainers => "ephemeralcontainers",
        }
    }
}

/// What is special about a kind, in one version.
pub trait Behaviour: std::fmt::Debug + Send + Sync {
    /// Its group and kind, as errors name them.
    fn kind(&self) -> &Resource;

    /// Whether it is one of Kubernetes' own. Objects of those need not say what they are, for the path does; and what says
    /// that it is something else is not read at all.
    fn is_builtin(&self) -> bool;

    /// Its group and version, as objects say them.
    fn api_version(&self) -> &str;

    fn is_namespaced(&self) -> bool;

    /// What its fields are for their owners, in all versions.
    fn ownership(&self) -> &VersionedKind;

    /// Who knows what objects are in other versions. None if they are the same but for their version, or if that cannot be known here.
    fn converter(&self) -> Option<&dyn Convert>;

    /// What a write to a part may not change.
    fn reset_fields(&self, part: Part) -> Option<&ResetFields>;

    /// What strategic merge patches need to know, if they may be sent at all.
    fn strategy(&self) -> Option<facts::PatchedKind<'_>>;

    /// Whether an update without a resource version is taken as one of the newest.
    fn allows_unconditional_update(&self) -> bool;

    /// Whether an update of what does not exist creates it.
    fn allows_create_on_update(&self) -> bool;

    /// Brings an object that was sent into its normal form, with defaults. Says what was unknown, or why it is no such
    /// object.
    fn normalise(&self, object: &mut JsonObject) -> Result<Vec<String>, String>;

    /// Reads a stored object of this version. It has been fine once, so that what does not fit any more is dropped rather
    /// than refused.
    fn revive(&self, object: &mut JsonObject);

    /// Makes of an object of another version, which has been read, one of this version. It gets no defaults: those of the
    /// version in which it is stored count.
    fn adopt(&self, object: &mut JsonObject);

    /// The fields of an object that exist before any write, if there are any. No manager comes to own them by writing them.
    fn blank(&self) -> Option<&JsonObject>;

    /// Gives an object its defaults that came of merging a configuration into the stored one, and nothing else that
    /// [`Self::normalise`] does.
    fn default(&self, object: &mut JsonObject);

    fn prepare_create(&self, object: &mut JsonObject);

    fn prepare_update(&self, part: Part, object: &mut JsonObject, old: &JsonObject);

    /// Whether checking an object can take long however small it is, so that it should not delay other requests.
    fn may_take_long(&self) -> bool;

    fn check_create(&self, object: &Value) -> Vec<Error>;

    fn check_update(&self, part: Part, object: &Value, old: &Value) -> Vec<Error>;

    /// What a client should be told about an object that is fine.
    fn warnings(&self, object: &JsonObject, old: Option<&JsonObject>) -> Vec<String>;
}
