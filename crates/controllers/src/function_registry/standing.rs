//! What is called when a step names a Function, as the Function itself says it.

use ferroplane_api::{Object, keys, meta};
use ferroplane_engine::FunctionStanding;
use ferroplane_engine::versions::Replacement;

use super::{DEVELOPMENT, DEVELOPMENT_IGNORED, FunctionRegistry, text};
use crate::local_functions::command_of;

impl FunctionRegistry {
    /// What becomes of a Function. Has to decide as [`FunctionRegistry::list`] does. None if a program serves it, or should:
    /// that is told where programs are known.
    pub(crate) fn standing<'a>(
        &self,
        function: &'a Object,
        revisions: &'a [Object],
    ) -> Option<FunctionStanding<'a>> {
        let name = meta::name(function);
        let mut own = revisions.iter().filter(|it| meta::label(it, keys::PACKAGE) == name).peekable();
        let has_program = self.local.state_of(function).is_some();
        if command_of(function).is_some() && (has_program || own.peek().is_none()) {
            return None;
        }
        let is_served = meta::annotation(function, keys::FUNCTION_RUNTIME) == DEVELOPMENT;
        if is_served && self.allows_development {
            let target = match meta::annotation(function, keys::FUNCTION_TARGET) {
                "" => keys::DEFAULT_FUNCTION_TARGET,
                target => target,
            };
            return Some(FunctionStanding::Development { target });
        }
        let package = text(function, "package");
        let why = match self.native(function) {
            Ok((family, version)) => {
                let function = family.function.clone();
                return Some(FunctionStanding::BuiltIn(Replacement { function, version }));
            }
            Err(why) => why,
        };
        if own.peek().is_none() {
            let reason = if is_served { DEVELOPMENT_IGNORED.to_owned() } else { why.remedy() };
            return Some(FunctionStanding::NotRun { package, reason });
        }
        Some(match own.find(|revision| text(revision, "desiredState") == "Active") {
            Some(revision) => {
                let endpoint = revision.get("status").and_then(|status| status.get("endpoint")?.as_str());
                let has_endpoint = endpoint.is_some_and(|endpoint| !endpoint.is_empty());
                FunctionStanding::Revision { name: meta::name(revision), has_endpoint }
            }
            None => FunctionStanding::Inactive,
        })
    }
}
