//! Decides which function calls go to a developer's process instead of the control plane's own revision. Performs no I/O.
//!
//! # Invariants
//! * An intercept has no effect on composite resources that it does not select.
//! * An intercepted call has a revision name of its own, which shows in recordings.

use ferroplane_api::{
    Cause, Condition, FunctionInterceptSpec, InterceptMode, InterceptedComposites, Object, Status, meta,
};

use crate::access::{DeniedIntercept, Grants, Reader};
use crate::changes::{Change, arrange};
use crate::pipeline::{Callee, Pipeline};
use crate::plan::{Plan, Wanted};
use crate::versions::LifecycleState;

/// The condition that says whether calls are sent to the process.
pub const ACTIVE: &str = "Active";
/// Separates the function and the intercept in the revision name of an intercepted call.
const MARK: &str = "@intercept/";

/// The name of the intercept in a revision name, if the call is intercepted.
pub fn name_in(revision: &str) -> Option<&str> {
    revision.split_once(MARK).map(|(_, name)| name)
}

/// The message while calls are sent to a process, in an event and in the words of `ferroplane intercept`.
pub fn calls_are_sent(function: &str, to: &str, is_for_real: bool) -> String {
    let count = if is_for_real { "its responses are used" } else { "its responses are only compared" };
    format!("calls of function `{function}` are sent to {to}, and {count}")
}

/// A `FunctionIntercept`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intercept {
    pub name: String,
    pub uid: String,
    /// Without the number of its renewals: a renewal changes nothing.
    pub spec: FunctionInterceptSpec,
}

impl Intercept {
    /// Read an object. None if it is invalid or being deleted.
    pub fn read(object: &Object) -> Option<Self> {
        if meta::is_being_deleted(object) {
            return None;
        }
        let spec: FunctionInterceptSpec = serde_json::from_value(object.get("spec")?.clone()).ok()?;
        let (name, uid) = (meta::name(object).to_owned(), meta::uid(object).to_owned());
        Some(Self { name, uid, spec: FunctionInterceptSpec { renewals: 0, ..spec } })
    }

    pub fn function(&self) -> &str {
        &self.spec.function_ref.name
    }

    pub fn is_for_real(&self) -> bool {
        self.spec.mode == InterceptMode::ForReal
    }

    /// The revision name for calls to the process.
    pub fn revision(&self) -> String {
        format!("{}{MARK}{}", self.function(), self.name)
    }

    /// The host of the process.
    pub fn host(&self) -> &str {
        // From the right: an address of IPv6 has colons of its own, and is in brackets.
        let host = self.spec.to.rsplit_once(':').map_or(self.spec.to.as_str(), |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether calls for a composite resource are sent to the process.
    pub fn selects(&self, composite: &Object) -> bool {
        let InterceptedComposites { api_group, kind, namespace, name, match_labels } = &self.spec.composites;
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        let group = meta::group(meta::api_version(composite));
        // An intercept without a selector selects nothing, even if an API server has accepted it.
        let is_specific = name.is_some() || !match_labels.is_empty();
        is_specific
            && kind == meta::kind(composite)
            && is(api_group, group)
            && is(namespace, meta::namespace(composite))
            && is(name, meta::name(composite))
            && meta::matches_labels(
                composite,
                match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str())),
            )
    }

    /// Whether an administrator allows the process to get calls for a composite resource.
    pub fn permit(&self, composite: &Object, grants: &Grants) -> Result<(), Box<DeniedIntercept>> {
        Reader::new(composite, self.function()).intercept(grants, self.host(), self.spec.mode)
    }

    /// A pipeline that calls the process instead of the function. None if it does not call the function.
    pub fn redirect(&self, pipeline: &Pipeline) -> Option<Pipeline> {
        let mut steps = pipeline.steps.clone();
        let called = steps.iter_mut().filter(|step| step.function == self.function());
        let mut is_called = false;
        for step in called {
            is_called = true;
            step.callee = Some(Callee {
                revision: self.revision(),
                version: None,
                built_in: None,
                state: LifecycleState::Available,
                advisories: Vec::new(),
            });
        }
        is_called.then_some(Pipeline { steps })
    }
}

/// The intercept for a composite resource, and its pipeline: the first one that selects it, whose function it calls, and that is
/// permitted. If none is permitted, the first that is denied, and why.
pub fn choose<'i>(
    intercepts: &'i [Intercept],
    composite: &Object,
    pipeline: &Pipeline,
    permit: impl Fn(&Intercept) -> Result<(), Box<DeniedIntercept>>,
) -> Option<(&'i Intercept, Result<Pipeline, Box<DeniedIntercept>>)> {
    let mut denied = None;
    for intercept in intercepts.iter().filter(|intercept| intercept.selects(composite)) {
        let Some(redirected) = intercept.redirect(pipeline) else { continue };
        match permit(intercept) {
            Ok(()) => return Some((intercept, Ok(redirected))),
            Err(why) => denied = denied.or(Some((intercept, Err(why)))),
        }
    }
    denied
}

/// Facts about an intercept, besides its spec.
#[derive(Debug, Clone, Copy)]
pub struct InterceptFacts<'a> {
    /// Whether it was renewed in time.
    pub is_renewed: bool,
    /// Whether processes may be called in plain text and without a grant.
    pub allows_plain_text: bool,
    /// Why the process cannot be called, if it cannot.
    pub trouble: Option<&'a str>,
    /// Why calls for composite resources are not sent, if an administrator has not granted it.
    pub denied: Option<&'a str>,
    /// How many composite resources had calls sent to the process.
    pub composites: usize,
}

/// The condition that says whether calls are sent to the process, or why not.
pub fn standing(intercept: &Intercept, facts: InterceptFacts<'_>) -> Condition {
    let no = |reason: &str, cause: Cause, message: &str| {
        Condition::new(ACTIVE, Status::False, reason).with_message(message).with_failure(cause.into())
    };
    if !facts.is_renewed {
        return Condition::new(ACTIVE, Status::False, "LeaseExpired")
            .with_message("The intercept was not renewed in time: the command that made it has ended");
    }
    if !facts.allows_plain_text && intercept.spec.tls.is_none() {
        return no(
            "TlsRequired",
            Cause::FunctionNotConnectable,
            "This control plane calls processes of developers over mTLS only: set `spec.tls`",
        );
    }
    if let Some(trouble) = facts.trouble {
        return no("NotCallable", Cause::FunctionNotConnectable, trouble);
    }
    if let (Some(denied), 0) = (facts.denied, facts.composites) {
        return no("NotGranted", Cause::AccessNotGranted, denied);
    }
    if facts.composites == 0 {
        let message = "No composite resource that the intercept selects has called the Function so far";
        return Condition::new(ACTIVE, Status::True, "NothingSelected").with_message(message);
    }
    Condition::new(ACTIVE, Status::True, "Intercepting")
}

/// The changes between two plans for a composite resource, which is given with the result of each. `hide` gets each of them, with its
/// object before and after, to redact what must not be shown.
pub fn plan_changes(
    (before, old): (&Object, &Plan),
    (after, new): (&Object, &Plan),
    hide: impl Fn(&mut Change, Option<&Object>, Option<&Object>),
) -> Vec<Change> {
    let change_of = |before: Option<&Object>, after: Option<&Object>| {
        let mut change = Change::between(before, after)?;
        hide(&mut change, before, after);
        Some(change)
    };
    let find = |plan: &'_ Plan, resource: &str| -> Option<Object> {
        plan.apply.iter().find(|wanted| wanted.resource == resource).map(|wanted| wanted.object.clone())
    };
    let mut names: Vec<&Wanted> = old.apply.iter().chain(&new.apply).collect();
    names.sort_by(|one, other| one.resource.cmp(&other.resource));
    names.dedup_by(|one, other| one.resource == other.resource);
    let composed = names.into_iter().filter_map(|wanted| {
        let (before, after) = (find(old, &wanted.resource), find(new, &wanted.resource));
        let change = change_of(before.as_ref(), after.as_ref())?;
        Some(Change { resource: wanted.resource.clone(), ..change })
    });
    let own = change_of(Some(before), Some(after));
    arrange(composed.chain(own).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(json: Value) -> Object {
        serde_json::from_value(json).unwrap()
    }

    fn intercept(composites: &Value) -> Intercept {
        Intercept::read(&object(json!({
            "metadata": {"name": "debug", "uid": "1"},
            "spec": {"functionRef": {"name": "own"}, "composites": composites, "to": "laptop:9443", "renewals": 7},
        })))
        .unwrap()
    }

    fn site(name: &str) -> Object {
        object(json!({
            "apiVersion": "example.org/v1", "kind": "Site",
            "metadata": {"name": name, "namespace": "shop", "labels": {"tier": "gold"}},
        }))
    }

    #[test]
    fn composite_resources_are_selected_by_name_or_labels_and_never_all() {
        for (composites, is_selected) in [
            (json!({"kind": "Site", "name": "blog"}), true),
            (json!({"kind": "Site", "name": "blog", "namespace": "shop", "apiGroup": "example.org"}), true),
            (json!({"kind": "Site", "matchLabels": {"tier": "gold"}}), true),
            (json!({"kind": "Site", "name": "other"}), false),
            (json!({"kind": "Site", "name": "blog", "namespace": "bank"}), false),
            (json!({"kind": "Site", "name": "blog", "apiGroup": "example.com"}), false),
            (json!({"kind": "App", "name": "blog"}), false),
            (json!({"kind": "Site", "matchLabels": {"tier": "silver"}}), false),
            (json!({"kind": "Site", "matchLabels": {"absent": ""}}), false),
            (json!({"kind": "Site"}), false),
        ] {
            assert_eq!(intercept(&composites).selects(&site("blog")), is_selected, "{composites}");
        }
    }

    #[test]
    fn only_steps_that_call_the_function_are_redirected() {
        let steps = json!([
            {"step": "a", "functionRef": {"name": "own"}}, {"step": "b", "functionRef": {"name": "other"}},
        ]);
        let pipeline = Pipeline::read(&steps, &Value::Null).unwrap();
        let intercept = intercept(&json!({"kind": "Site", "name": "blog"}));
        let redirected = intercept.redirect(&pipeline).unwrap();
        let called: Vec<_> = redirected
            .steps()
            .iter()
            .map(|step| step.callee.as_ref().map(|it| it.revision.as_str()))
            .collect();
        assert_eq!(called, [Some("own@intercept/debug"), None]);
        assert_eq!(name_in("own@intercept/debug"), Some("debug"));
        assert_eq!(name_in("own-1a2b3c"), None);
        let other = Pipeline::read(&json!([{"step": "b", "functionRef": {"name": "other"}}]), &Value::Null);
        assert!(intercept.redirect(&other.unwrap()).is_none());
    }

    #[test]
    fn intercept_that_is_denied_does_not_keep_calls_from_one_that_is_granted() {
        let composites = json!({"kind": "Site", "name": "blog"});
        let steps = json!([{"step": "a", "functionRef": {"name": "own"}}]);
        let pipeline = Pipeline::read(&steps, &Value::Null).unwrap();
        let intercepts =
            ["a", "b", "c"].map(|name| Intercept { name: name.to_owned(), ..intercept(&composites) });
        let chosen = |granted: &[&str]| {
            let permit = |intercept: &Intercept| {
                let is_granted = granted.contains(&intercept.name.as_str());
                if is_granted { Ok(()) } else { intercept.permit(&site("blog"), &Grants::default()) }
            };
            let chosen = choose(&intercepts, &site("blog"), &pipeline, permit);
            chosen.map(|(intercept, redirected)| (intercept.name.clone(), redirected.is_ok()))
        };
        assert_eq!(chosen(&["a", "b"]), Some(("a".to_owned(), true)));
        assert_eq!(chosen(&["b", "c"]), Some(("b".to_owned(), true)));
        assert_eq!(chosen(&[]), Some(("a".to_owned(), false)), "the first is told why it is denied");
    }

    #[test]
    fn to_be_renewed_changes_nothing() {
        assert_eq!(intercept(&json!({"kind": "Site", "name": "blog"})).spec.renewals, 0);
    }

    #[test]
    fn process_is_called_only_with_a_grant_for_its_host_and_mode() {
        let intercept = intercept(&json!({"kind": "Site", "name": "blog"}));
        let denied = intercept.permit(&site("blog"), &Grants::default()).unwrap_err();
        assert!(denied.to_string().contains("no AccessGrant allows that"), "{denied}");
        let granted = |to: Value, hosts: Value, modes: Value| {
            let mut grants = Grants::default();
            let spec = json!({"to": to, "intercept": [{"hosts": hosts, "modes": modes}]});
            grants.add(&object(json!({"metadata": {"name": "g"}, "spec": spec}))).unwrap();
            intercept.permit(&site("blog"), &grants.about(&site("blog"))).is_ok()
        };
        let shop = || json!({"namespaces": ["shop"], "functions": ["own"]});
        assert!(granted(shop(), json!(["laptop"]), json!(["Shadow"])));
        assert!(!granted(shop(), json!(["other"]), json!(["Shadow"])));
        assert!(!granted(shop(), json!(["laptop"]), json!(["ForReal"])));
        assert!(!granted(json!({"namespaces": ["bank"]}), json!(["laptop"]), json!(["Shadow"])));
        assert!(!granted(
            json!({"namespaces": ["shop"], "functions": ["x"]}),
            json!(["laptop"]),
            json!(["Shadow"])
        ));
    }
}
