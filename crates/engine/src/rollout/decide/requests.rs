//! Which requests of users have to be handled.
//!
//! A request is an annotation with the name of a revision, and stays where it is. The status records it when it was handled, so that it is
//! handled once. Of two requests about the same revision the later one counts. If both are new it is unknown which one is later, and the
//! revision is undone: that is safe.

use super::{Commands, Observation, Rollout};

/// What users request and was not handled before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Requests<'a> {
    /// The revision to promote.
    pub(super) promote: Option<&'a str>,
    /// The revision to undo.
    pub(super) undo: Option<&'a str>,
}

impl<'a> Observation<'a> {
    /// The requests that have to be handled.
    pub(super) fn requests(&self) -> Requests<'a> {
        let (Commands { promote, undo, .. }, status) = (self.commands, self.status);
        let undo = undo.filter(|it| !self.is_handled(it, status.handled_undo.as_deref()));
        let promote = promote.filter(|it| !self.is_handled(it, status.handled_promote.as_deref()));
        Requests { promote: promote.filter(|it| undo != Some(*it)), undo }
    }

    fn is_handled(&self, revision: &str, handled: Option<&str>) -> bool {
        handled == Some(&*self.identify(revision))
    }

    /// Identifies a request about a revision.
    fn identify(&self, revision: &str) -> String {
        match self.commands.requested_at {
            Some(time) => format!("{revision} {time}"),
            None => revision.to_owned(),
        }
    }
}

impl Rollout<'_> {
    /// Record the requests that were handled, or that ask for what is so already. One that was removed can be made again.
    pub(super) fn record_requests(&mut self) {
        let (it, status) = (self.it, &self.status);
        let Commands { promote, undo, .. } = it.commands;
        let is_ended = |revision: &str| status.candidate.as_deref() != Some(revision);
        let is_undone = |revision: &str| status.rejected.as_deref() == Some(revision) && is_ended(revision);
        let is_promoted = |revision: &str| status.stable.as_deref() == Some(revision) && is_ended(revision);
        let undo = undo.filter(|revision| {
            it.is_handled(revision, it.status.handled_undo.as_deref()) || is_undone(revision)
        });
        let promote = promote.filter(|revision| {
            let is_overruled = self.requests.undo == Some(*revision) && is_undone(revision);
            let is_known = it.is_handled(revision, it.status.handled_promote.as_deref());
            is_known || is_promoted(revision) || is_overruled
        });
        self.status.handled_undo = undo.map(|revision| it.identify(revision));
        self.status.handled_promote = promote.map(|revision| it.identify(revision));
    }
}
