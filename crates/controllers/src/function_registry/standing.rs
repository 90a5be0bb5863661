//! Decides what runs when a step calls a Function. Both the list of functions and the conditions of Functions follow from this one
//! decision, so that they agree.

use std::sync::PoisonError;

use ferroplane_api::{Cause, Condition, ImageConfig, Object, Status, keys, meta};
use ferroplane_client::ObjectHeader;
use ferroplane_engine::packages::{ImagePurpose, rewrite_image, select_image_config};
use ferroplane_engine::versions::{NotReplaced, Replaceable, Replacement, replacement};
use ferroplane_engine::{COMMAND_IS_NOT_RUN, FunctionStanding, conditions_in};
use tokio::sync::watch;

use super::listing::{is_active, text};
use super::{DEVELOPMENT, DEVELOPMENT_IGNORED, FunctionRegistry};
use crate::local_functions::command_of;

/// What becomes of a Function whose command has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutCommand {
    /// It is served without the command, which may be for `render`.
    Served,
    /// Its package has failed, and the command does not replace it.
    Failed,
}

/// Why the package of a Function is not run where packages are not installed.
const NOT_INSTALLED: &str = "this control plane installs no packages (`ferroplane up` does, and `ferroplane start --enable-packages`)";

impl FunctionRegistry {
    /// The revisions of a Function.
    pub(crate) fn revisions_of(&self, function: &str) -> Vec<Object> {
        // Few of all revisions belong to one Function: the others need not be parsed completely.
        let is_own = |bytes: &[u8]| {
            ObjectHeader::read(bytes).is_some_and(|header| header.label(keys::PACKAGE) == Some(function))
        };
        let revisions = self.revisions.all().into_iter().filter(|revision| is_own(&revision.bytes));
        revisions.filter_map(|revision| self.revisions.to_object(&revision)).collect()
    }

    /// Whether a Function has a server of its own, whatever its package is: a program, a developer's process, or a revision with an
    /// endpoint that a user wrote.
    pub(crate) fn is_served_by_hand(&self, function: &Object) -> bool {
        let revisions = self.revisions_of(meta::name(function));
        let is_by_hand =
            |revision: &Object| meta::controller_uid(revision).is_none() && has_endpoint(revision);
        matches!(
            self.standing(function, &revisions),
            FunctionStanding::Program { .. } | FunctionStanding::Development { .. }
        ) || revisions.iter().any(is_by_hand)
    }

    /// What becomes of a Function that names a command that has no effect: its package counts, and no program. None if its command counts,
    /// if it names none, or if its package is still being installed.
    pub(crate) fn without_command(&self, function: &Object) -> Option<WithoutCommand> {
        if command_of(function).is_none() || self.local.is_awaited() {
            return None;
        }
        let revisions = self.revisions_of(meta::name(function));
        if matches!(self.standing(function, &revisions), FunctionStanding::Program { .. }) {
            return None;
        }
        let conditions = conditions_of(function);
        if conditions.iter().any(|it| it.kind == "Healthy" && it.status == Status::True) {
            return Some(WithoutCommand::Served);
        }
        // The condition about the command itself is from a time before the files were read.
        let has_failed = conditions.iter().any(|it| it.cause().is_some() && it.reason != "CommandNotRun");
        has_failed.then_some(WithoutCommand::Failed)
    }

    /// Changes whenever a program on this machine is started or ends.
    pub(crate) fn program_changes(&self) -> watch::Receiver<u64> {
        self.local.changes()
    }

    /// The built-in function that replaces an image of a Function: the current one, or that of a revision.
    pub(crate) fn native_runtime(&self, function: &Object, image: &str) -> Result<Replacement, NotReplaced> {
        let function = Replaceable { package: image, ..Replaceable::of(function) };
        replacement(function, &self.built_ins.catalogue, |package| (self.built_ins.natives)(package))
    }

    /// What runs for a Function with these revisions.
    pub(crate) fn standing<'a>(&self, function: &'a Object, revisions: &'a [Object]) -> FunctionStanding<'a> {
        if let Some(command) = command_of(function) {
            let state = self.local.state_of(function);
            // Otherwise the package counts: a command through the API must not keep it from being installed.
            let is_package_left = !self.installs_packages || self.local.may_be_of_file(function);
            if state.is_some() || revisions.is_empty() && is_package_left {
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
        let active = newest_active(revisions);
        // The installed revision counts, and not the package that is to be installed.
        let image = active.map_or_else(|| text(function, "package"), |active| text(active, "image"));
        match self.native(function, image) {
            Ok(_) if active.is_none() && !revisions.is_empty() => FunctionStanding::Inactive,
            Ok((family, version)) => {
                if let Some(reason) = self.refusal(function, active) {
                    return FunctionStanding::NotRun { package: image, reason };
                }
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

    /// Why the built-in function may not run in place of a package, if signatures are demanded of that.
    fn refusal(&self, function: &Object, active: Option<&Object>) -> Option<String> {
        match active {
            Some(active) => self.refusal_of_revision(active),
            // Before there is a revision, nothing is verified.
            None => self.demands_signatures(text(function, "package")).then(|| installation_of(function)),
        }
    }

    /// Why a revision must not run, if its image does not have the signatures that are demanded of it.
    pub(super) fn refusal_of_revision(&self, revision: &Object) -> Option<String> {
        // Without a package manager, nothing is verified, and what another one has written does not count.
        if !self.installs_packages {
            return None;
        }
        let is_refusal =
            |it: &Condition| it.kind == "RevisionHealthy" && it.cause() == Some(Cause::PackageUnverified);
        let refusal = conditions_of(revision).into_iter().find(is_refusal)?;
        Some(format!("its package is refused: {}", refusal.message))
    }

    /// Whether an `ImageConfig` demands signatures of an image.
    fn demands_signatures(&self, image: &str) -> bool {
        let followed = self.image_configs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // As long as the policies were not read, there may be one.
        let Some(followed) = followed else { return self.installs_packages };
        let configs: Vec<_> = followed.objects().iter().map(ImageConfig::of).collect();
        let rewritten = rewrite_image(&configs, image).map(|rewritten| rewritten.image);
        let image = rewritten.as_deref().unwrap_or(image);
        select_image_config(&configs, image, ImagePurpose::Verify).is_some()
    }

    /// Why no program runs for a Function's package, and the remedy.
    pub(super) fn why_not_run(&self, function: &Object) -> String {
        if asks_for_development(function) && !self.allows_development {
            return DEVELOPMENT_IGNORED.to_owned();
        }
        let why = if self.installs_packages {
            installation_of(function)
        } else {
            let remedy = self.native(function, text(function, "package")).err().map(|why| why.remedy());
            format!("{NOT_INSTALLED}, and {}", remedy.unwrap_or_default())
        };
        // Its author may wait for the program.
        if command_of(function).is_some() { format!("{why}; {COMMAND_IS_NOT_RUN}") } else { why }
    }
}

/// The progress of installing a Function's package, from its conditions.
fn installation_of(function: &Object) -> String {
    let conditions = conditions_of(function);
    let is_wrong =
        |it: &&Condition| it.kind == "Installed" && it.status != Status::True && !it.message.is_empty();
    match conditions.iter().find(is_wrong) {
        Some(wrong) => format!("its package is not installed: {}", wrong.message),
        None => "its package is being installed".to_owned(),
    }
}

fn conditions_of(object: &Object) -> Vec<Condition> {
    let conditions = object.get("status").and_then(|status| status.get("conditions"));
    conditions.map(conditions_in).unwrap_or_default()
}

/// Whether a Function has the annotation of a developer's server.
pub(super) fn asks_for_development(function: &Object) -> bool {
    meta::annotation(function, keys::FUNCTION_RUNTIME) == DEVELOPMENT
}

fn of_revisions(revisions: &[Object]) -> FunctionStanding<'_> {
    let Some(active) = newest_active(revisions) else { return FunctionStanding::Inactive };
    FunctionStanding::Revision { name: meta::name(active), has_endpoint: has_endpoint(active) }
}

/// The active revision with the highest number.
fn newest_active(revisions: &[Object]) -> Option<&Object> {
    let number = |revision: &&Object| revision.get("spec").and_then(|spec| spec.get("revision")?.as_i64());
    revisions.iter().filter(|revision| is_active(revision)).max_by_key(number)
}

fn has_endpoint(revision: &Object) -> bool {
    let endpoint = revision.get("status").and_then(|status| status.get("endpoint")?.as_str());
    endpoint.is_some_and(|endpoint| !endpoint.is_empty())
}
