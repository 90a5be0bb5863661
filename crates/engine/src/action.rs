//! Decides what actions of Blueprints do: phases that call functions one after the other, with effects after each.
//!
//! An ActionSet names actions of Blueprints and the objects that they act on. [`prepare`] joins the two before anything runs. A [`Run`]
//! is one action, which continues from its status. Functions of phases are polled ([`PhaseFunction`]): they return their effects as data,
//! and the plane performs them.

mod compile;
mod custom;
mod function;
mod parameters;
mod phase_call;
mod run;
mod scope;
mod secret_texts;
mod secrets;
mod status;
#[cfg(test)]
mod tests;
mod validate;

pub use compile::{
    ActionFailure, Facilities, PhaseFunctions, ResolvedPhase, action_hash, compile, find_action,
};
pub use custom::{CustomFunction, FunctionCall, FunctionReturn};
pub use function::{
    Address, Answer, ArgumentMistake, CHECKPOINT_LIMIT, ContainerEnding, ContainerGroup, ContainerRun, Move,
    NamedBy, Need, OUTPUT_MARKER, PHASE_ANNOTATION, Patch, Phase, PhaseContract, PhaseFunction, PodSupport,
    Refused, Request, ResourceName,
};
pub use phase_call::{PhaseCall, PhaseInput, PhaseNotes, PhaseQuestion};
pub use run::{Asker, OUTPUT_LIMIT, Run, RunIdentity, Turn, running_phase};
pub use scope::{RenderError, Scope, ScopeHost};
pub use secrets::Secrets;
pub use status::{
    BeginActionSet, DELETION_GRACE, LeftOut, Prepared, StatusRoom, abandon, begin_action_set, end_action_set,
    end_too_large, prepare, report_conditions, runnable, settle_action_set, spec_of, status_of,
};
pub use validate::{BlueprintFindings, validate_blueprint};
