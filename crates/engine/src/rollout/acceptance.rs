//! Whether a `FunctionRollout` can be acted on.

use ferroplane_api::{
    Cause, Condition, FunctionRolloutStatus, Object, PackageSpec, RolloutState, RolloutTarget, Status, meta,
};

use super::decide::RevisionFact;
use super::overlay::age;

/// The condition that says whether a `FunctionRollout` is acted on.
pub const ACCEPTED: &str = "Accepted";

/// Whether a `FunctionRollout` can be acted on, given all of them and what it is for. `can_choose` is whether several revisions of a
/// Function can be active, and `is_in_use` is that of this rollout.
pub fn accept(
    rollout: &Object,
    all: &[Object],
    target: Option<&Object>,
    can_choose: bool,
    is_in_use: bool,
) -> Condition {
    let wanted = target_of(rollout);
    let (kind, name) = (wanted.kind(), wanted.name());
    let older = all.iter().find(|it| target_of(it) == wanted && age(it) < age(rollout));
    if let Some(older) = older {
        let older = meta::name(older);
        let message = format!(
            "FunctionRollout `{older}` is for the same {kind} `{name}`, and is older: delete one of them"
        );
        return refused("AnotherRollout", Cause::RolloutRefused, message);
    }
    let function = match (wanted, target) {
        (RolloutTarget::Composition(_), None) => {
            return refused(
                "CompositionNotFound",
                Cause::CompositionNotFound,
                format!("There is no Composition `{name}`"),
            );
        }
        (RolloutTarget::Composition(_), Some(_)) => {
            return Condition::new(ACCEPTED, Status::True, "Accepted");
        }
        (RolloutTarget::Function(_), function) => function,
    };
    if !can_choose {
        let message = "Only one revision of a Function can be active here: start the control plane with \
            --enable-function-revision-selectors";
        let cause = Cause::FunctionRevisionSelectorsDisabled;
        return refused("FunctionRevisionSelectorsDisabled", cause, message.to_owned());
    }
    let Some(function) = function else {
        return refused(
            "FunctionNotFound",
            Cause::FunctionNotFound,
            format!("There is no Function `{name}`"),
        );
    };
    let spec = PackageSpec::of(function);
    let is_limited = spec.is_automatic() && spec.active_limit() < 2;
    if is_limited && is_in_use {
        // Without the rollout, all composite resources would call the newest revision at once.
        let message = format!(
            "The `activeRevisionLimit` of Function `{name}` is 1, and more revisions stay active until all composite \
             resources call the newest one"
        );
        return Condition::new(ACCEPTED, Status::True, "BeyondActiveRevisionLimit").with_message(message);
    }
    if is_limited {
        let message = format!(
            "Function `{name}` keeps one revision active: set its `activeRevisionLimit` to 2 or more, so that the old \
             revision can be called while the new one is rolled out"
        );
        return refused("ActiveRevisionLimitTooLow", Cause::RolloutRefused, message);
    }
    Condition::new(ACCEPTED, Status::True, "Accepted")
}

/// Whether composite resources call another revision than the newest because of a rollout.
pub fn is_in_use(status: &FunctionRolloutStatus, revisions: &[RevisionFact]) -> bool {
    let newest = revisions.iter().filter(|revision| revision.is_active).max_by_key(|it| it.number);
    let is_behind = |newest: &RevisionFact| status.stable.as_ref().is_some_and(|it| *it != newest.name);
    let is_under_way = status.candidate.is_some() || status.state == RolloutState::RollingBack;
    is_under_way || newest.is_some_and(is_behind)
}

fn refused(reason: &str, cause: Cause, message: String) -> Condition {
    Condition::new(ACCEPTED, Status::False, reason).with_message(message).with_failure(cause.into())
}

/// What a rollout is for.
pub fn target_of(rollout: &Object) -> RolloutTarget<'_> {
    let name = |field: &str| rollout.get("spec").and_then(|spec| spec.get(field)?.get("name")?.as_str());
    match name("compositionRef") {
        Some(composition) => RolloutTarget::Composition(composition),
        None => RolloutTarget::Function(name("functionRef").unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(json: Value) -> Object {
        serde_json::from_value(json).unwrap()
    }

    fn rollout(name: &str, created: &str) -> Object {
        object(json!({
            "metadata": {"name": name, "creationTimestamp": created}, "spec": {"functionRef": {"name": "own"}},
        }))
    }

    #[test]
    fn rollout_is_refused_with_the_reason() {
        let function = |spec: Value| object(json!({"metadata": {"name": "own"}, "spec": spec}));
        let two = function(json!({"package": "p", "activeRevisionLimit": 2}));
        let one = function(json!({"package": "p"}));
        let manual = function(json!({"package": "p", "revisionActivationPolicy": "Manual"}));
        let (old, new) = (rollout("b", "2026-01-01T00:00:00Z"), rollout("a", "2026-01-02T00:00:00Z"));
        let both = [old.clone(), new.clone()];
        for (rollout, all, function, can_choose, reason, code) in [
            (&old, &both[..], Some(&two), true, "Accepted", ""),
            (&old, &both[..1], Some(&manual), true, "Accepted", ""),
            (&new, &both[..], Some(&two), true, "AnotherRollout", "RolloutRefused"),
            (&old, &both[..1], Some(&one), true, "ActiveRevisionLimitTooLow", "RolloutRefused"),
            (&old, &both[..1], None, true, "FunctionNotFound", "FunctionNotFound"),
            (
                &old,
                &both[..1],
                Some(&two),
                false,
                "FunctionRevisionSelectorsDisabled",
                "FunctionRevisionSelectorsDisabled",
            ),
        ] {
            let condition = accept(rollout, all, function, can_choose, false);
            assert_eq!((&*condition.reason, &*condition.code), (reason, code));
            assert_eq!(condition.status == Status::True, reason == "Accepted");
        }
        let composition = object(json!({
            "metadata": {"name": "c", "creationTimestamp": "2026-01-03T00:00:00Z"}, "spec": {"compositionRef": {"name": "own"}},
        }));
        // Neither a Function of that name nor how many revisions of it can be active has to do with it.
        assert_eq!(accept(&composition, &both, Some(&one), false, false).reason, "Accepted");
        let refused = accept(&composition, &both, None, false, false);
        assert_eq!((&*refused.reason, &*refused.code), ("CompositionNotFound", "CompositionNotFound"));
        let lowered = accept(&old, &both[..1], Some(&one), true, true);
        assert_eq!(
            (lowered.status, lowered.reason.as_str()),
            (Status::True, "BeyondActiveRevisionLimit"),
            "a rollout under way goes on"
        );
        assert!(lowered.message.contains("`activeRevisionLimit`"), "{lowered:?}");
    }

    #[test]
    fn rollout_is_in_use_until_all_call_the_newest_revision() {
        let revision = |name: &str, number: u64| RevisionFact {
            name: name.to_owned(),
            number,
            is_active: true,
            is_serving: false,
        };
        let stable = |name: &str| FunctionRolloutStatus {
            stable: Some(name.to_owned()),
            ..FunctionRolloutStatus::default()
        };
        let two = [revision("v1", 1), revision("v2", 2)];
        assert!(!is_in_use(&FunctionRolloutStatus::default(), &two));
        assert!(!is_in_use(&stable("v2"), &two));
        assert!(!is_in_use(&stable("v1"), &two[..1]));
        assert!(is_in_use(&stable("v1"), &two), "the newer one was rolled back, or is not in service yet");
        let moving = FunctionRolloutStatus { candidate: Some("v2".to_owned()), ..stable("v1") };
        assert!(is_in_use(&moving, &two));
        let back = FunctionRolloutStatus { state: RolloutState::RollingBack, ..stable("v2") };
        assert!(is_in_use(&back, &two));
    }
}
