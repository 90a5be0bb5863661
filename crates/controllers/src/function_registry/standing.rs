//! What is called when a step names a Function. The list of everything that can be called and the conditions of Functions follow
//! from this one decision, so that they agree.

use ferroplane_api::{Object, keys, meta};
use ferroplane_client::ObjectHeader;
use ferroplane_engine::FunctionStanding;
use ferroplane_engine::versions::Replacement;

use super::{DEVELOPMENT, DEVELOPMENT_IGNORED, FunctionRegistry, text};
use crate::local_functions::command_of;

impl FunctionRegistry {
    /// The revisions of a Function.
    pub(crate) fn revisions_of(&self, function: &str) -> Vec<Object> {
        // Few of all revisions are of one Function: what is not need not be parsed whole.
        let is_own = |bytes: &[u8]| {
            ObjectHeader::read(bytes).is_some_and(|header| header.label(keys::PACKAGE) == Some(function))
        };
        let revisions = self.revisions.all().into_iter().filter(|revision| is_own(&revision.bytes));
        revisions.filter_map(|revision| self.revisions.to_object(&revision)).collect()
    }

    /// What becomes of a Function that has these revisions.
    pub(crate) fn standing<'a>(&self, function: &'a Object, revisions: &'a [Object]) -> FunctionStanding<'a> {
        if let Some(command) = command_of(function) {
            let state = self.local.state_of(function);
            // The command of a package that is installed is for `render`.
            if state.is_some() || revisions.is_empty() {
                return FunctionStanding::Program { command, state };
            }
        }
        if self.allows_development && asks_for_development(function) {
            let target = match meta::annotation(function, keys::FUNCTION_TARGET) {
                "" => keys::DEFAULT_FUNCTION_TARGET,
                target => target,
            };
            return FunctionStanding::Development { target };
        }
        match self.native(function) {
            Ok((family, version)) => {
                let function = family.function.clone();
                FunctionStanding::BuiltIn(Replacement { function, version })
            }
            Err(_) if !revisions.is_empty() => of_revisions(revisions),
            Err(_) => {
                let reason = self.why_not_run(function);
                FunctionStanding::NotRun { package: text(function, "package"), reason }
            }
        }
    }

    /// Why nothing is called in place of a Function's package, and what helps.
    pub(super) fn why_not_run(&self, function: &Object) -> String {
        if asks_for_development(function) {
            return DEVELOPMENT_IGNORED.to_owned();
        }
        self.native(function).err().map(|why| why.remedy()).unwrap_or_default()
    }
}

/// Whether a Function says that a developer serves it.
pub(super) fn asks_for_development(function: &Object) -> bool {
    meta::annotation(function, keys::FUNCTION_RUNTIME) == DEVELOPMENT
}

fn of_revisions(revisions: &[Object]) -> FunctionStanding<'_> {
    let Some(active) = revisions.iter().find(|revision| text(revision, "desiredState") == "Active") else {
        return FunctionStanding::Inactive;
    };
    let endpoint = active.get("status").and_then(|status| status.get("endpoint")?.as_str());
    let has_endpoint = endpoint.is_some_and(|endpoint| !endpoint.is_empty());
    FunctionStanding::Revision { name: meta::name(active), has_endpoint }
}
