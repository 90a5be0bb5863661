//! Decides what a composite resource should become, what an operation does, and what an action does. Performs no I/O, has no clock and no
//! randomness.
//!
//! A pipeline is a conversation: [`start`] returns the first turn, every answer returns the next one, until there is an [`Outcome`]. The
//! caller answers by calling functions and reading objects; `ferroplane render` reads them from files.
//!
//! ```text
//! start(inputs) ─▶ Turn::Fetch(what a step needs) ─provide─▶ Turn::Call(step, request) ─answer─▶ … ─▶ Turn::Done
//! ```
//!
//! # Invariants
//! * The same inputs and answers always give the same outcome.
//! * A plan never creates a resource whose reference is not in [`Plan::references`].
//! * No answer, however wrong, makes the engine panic or ask for ever.

mod access;
pub mod action;
mod advice;
pub mod changes;
mod claim;
pub mod composite;
mod conversation;
mod definition;
mod external;
mod failure;
mod fights;
mod function_standing;
mod inputs;
pub mod intercept;
mod lease;
mod names;
pub mod operation;
mod outcome;
pub mod packages;
mod pipeline;
mod plan;
mod refusal;
mod remote_templates;
mod requirements;
mod resources;
mod revisions;
pub mod rollout;
mod run;
mod schemas;
mod selection;
mod settle;
mod status_size;
mod takeover;
mod transcript;
mod usage;
mod validity;
pub mod versions;
pub mod wording;
mod written;

pub use access::{
    ADVICE_WEBHOOKS, ActionAccess, DeniedAction, DeniedIntercept, DeniedRead, DeniedRun, GRANT_API_VERSION,
    GRANT_KIND, Grants, InvalidGrant, USAGE_WEBHOOKS, is_grant,
};
pub use advice::{VersionWarning, version_warnings, versions_condition};
pub use claim::{
    Binding, Counterpart, bind, bound_elsewhere, claim_status, claimed_name, is_ready, set_claim_conditions,
};
pub use conversation::{Answer, Call, Fetch, MAX_CALLS, Turn, Want, start};
pub use definition::{
    Defined, NotOurs, Underivable, adopt, adopt_role, claim_definition, cluster_roles, composite_definition,
    defined_claim, defined_composite, defined_group, definition_of_role, is_reserved_group,
    referenceable_version, scope, standing_roles,
};
pub use external::{
    EXTERNAL_IS_OFF, ExternalCallee, ExternalFunction, ExternalImage, InvalidExternal, Isolation, Permits,
    READINESS_STEP, external_name, external_type, scaled_quantity,
};
pub use failure::{Failure, Inapplicable, chain};
// Failures have causes, and the callers of functions report causes as well.
pub use ferroplane_api::image::ImageReference;
pub use ferroplane_api::{Cause, FunctionProtocol, FunctionType, ImagePullPolicy};
pub use fights::{Fights, Loss};
pub use function_standing::{
    COMMAND_DOES_NOT_HELP, COMMAND_IS_NOT_NEEDED, COMMAND_IS_NOT_RUN, FunctionStanding, LocalProgram,
    built_in_message, is_own_condition,
};
pub use inputs::{CompositeSubject, Inputs, Layout, Observed, Requirement, Subject};
pub use lease::{Lease, LeaseClaim, held_lease, released_lease};
pub use names::{composed_name, field_manager};
pub use outcome::{Event, EventKind, FunctionCondition, Outcome, Ran, StepOutput, Target};
pub use pipeline::{Callee, Pipeline, PipelineError, Step, UnresolvedStep};
pub use plan::{Deletion, NAMESPACE_OVERRIDDEN, Plan, Reference, Wanted};
pub use refusal::{recognised_refusal, refusal_cause};
pub use remote_templates::{
    InvalidRemote, REMOTE_SOURCE, REMOTE_TEMPLATES_ARE_OFF, RemoteRepository, RemoteTemplates,
};
pub use resources::{IneffectiveField, RESOURCES_STEP, ineffective_fields, to_pipeline};
pub use revisions::{Foreign, Revisions, composition_hash, plan_revisions};
pub use schemas::{SchemaTooLarge, inlined_schema};
pub use selection::{
    Candidate, Defaults, Preferences, RevisionCandidate, RevisionSelector, Unselectable, Why,
    choose_composition, choose_revision,
};
pub use settle::{
    SettleFacts, Settlement, Trouble, conditions_in, conditions_to_json, settle, settle_trouble,
};
pub use takeover::managers_to_keep;
pub use transcript::{EngineInput, ReplayMismatch, TranscriptEntry, replay};
pub use usage::{
    Used, choose, configured_usage, in_use_message, out_of_namespace, out_of_scope, usage_reach, usage_spec,
    used_by,
};
pub use validity::{
    COMPOSITION, Capabilities, InvalidPipeline, OPERATION, can_act, check_callees, check_capability,
    functions_of, pipeline_condition, validate_operation, validate_pipeline,
};
pub use written::Unreadable;
