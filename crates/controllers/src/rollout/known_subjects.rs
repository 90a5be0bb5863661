//! The composite resources that a rollout is about, as far as they are known.

use ferroplane_engine::rollout::Subject;

#[derive(Debug, Default)]
pub(crate) struct KnownSubjects {
    pub(crate) subjects: Vec<Subject>,
    /// A definition that is not established yet, so that its composite resources are unknown.
    pub(crate) unestablished: Option<String>,
}
