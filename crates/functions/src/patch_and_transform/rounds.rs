//! Patches as v0.2 applied them: in rounds, by what they copy between.
//!
//! Follows function-patch-and-transform v0.2.1, fn.go and render.go. A round ends at the first patch that fails, and a failure is
//! a warning. What was written before stays, even by the patch that failed: an environment without a kind is written to, and the
//! warning says that it cannot be.

use ferroplane_golang::fmt::Numbers;
use ferroplane_golang::strconv::quote;
use ferroplane_wire::v1::RunFunctionResponse;
use serde_json::{Map, Value};

use super::Composition;
use super::document::{Budget, Document};
use super::patch::From;
use super::prepare::{Direction, Patch, Template};
use crate::response;

impl Composition<'_> {
    /// First everything to the environment, then everything from it.
    pub(super) fn patch_environment_in_rounds(&mut self, patches: &[Patch]) -> Result<(), String> {
        let xr = From { object: self.xr, numbers: Numbers::Floats };
        apply_round(patches, Direction::ToEnvironment, xr, &mut self.environment, &mut self.budget).map_err(
            |problem| format!("cannot render ToEnvironment patches from the composite resource: {problem}"),
        )?;
        let environment = From { object: &self.environment.object, numbers: self.environment.numbers };
        apply_round(patches, Direction::FromEnvironment, environment, &mut self.desired_xr, &mut self.budget)
            .map_err(|problem| {
                format!("cannot render FromEnvironment patches to the composite resource: {problem}")
            })
    }

    /// Whether the resource can be composed: nothing that is copied to it failed.
    pub(super) fn patch_in_rounds(
        &mut self,
        template: &Template,
        existing: Option<&Map<String, Value>>,
        target: &mut Document<'_>,
        response: &mut RunFunctionResponse,
    ) -> bool {
        let mut applied = |round: &str, applied: Result<(), String>| {
            let Err(problem) = applied else { return true };
            let name = quote(&template.name);
            let message = format!("cannot render {round} patches for composed resource {name}: {problem}");
            response::warn(response, message);
            false
        };
        let (patches, budget) = (&template.patches, &mut self.budget);
        if let Some(object) = existing {
            let from = From { object, numbers: Numbers::Floats };
            let to_xr = apply_round(patches, Direction::ToComposite, from, &mut self.desired_xr, budget);
            applied("ToComposite", to_xr);
            let to_environment =
                apply_round(patches, Direction::ToEnvironment, from, &mut self.environment, budget);
            applied("ToEnvironment", to_environment);
        }
        let xr = From { object: self.xr, numbers: Numbers::Floats };
        let from_xr = apply_round(patches, Direction::FromComposite, xr, target, budget);
        if !applied("FromComposite", from_xr) {
            return false;
        }
        let environment = From { object: &self.environment.object, numbers: self.environment.numbers };
        applied(
            "FromEnvironment",
            apply_round(patches, Direction::FromEnvironment, environment, target, budget),
        )
    }
}

/// Apply the patches of one direction, up to the first that fails. Optional fields that are missing are no failure.
fn apply_round<P: AsRef<Patch>>(
    patches: &[P],
    round: Direction,
    from: From<'_>,
    to: &mut Document<'_>,
    budget: &mut Budget<'_>,
) -> Result<(), String> {
    for (at, patch) in patches.iter().map(AsRef::as_ref).enumerate() {
        if patch.direction != round {
            continue;
        }
        match patch.apply(from, to, budget) {
            Err(error) if !(error.is_not_found() && patch.is_optional) => {
                return Err(format!("cannot apply the {} patch at index {at}: {error}", quote(&patch.kind)));
            }
            _ => {}
        }
    }
    Ok(())
}
