//! The outcome of a run as text: the same outcome always gives the same bytes.
//!
//! Fields are in the order of the alphabet, as in every JSON object that was read, so that taking secrets out changes nothing else.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ferroplane_api::{Condition, Object, Status, meta};
use ferroplane_engine::{
    Deletion, Event, FunctionCondition, Outcome, Plan, Ran, Reference, Requirement, StepOutput, Target,
    Wanted, chain,
};
use ferroplane_wire::v1::resource_selector::Match;
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::{Number, Value};

/// What a run came to, as JSON.
pub fn outcome_snapshot(outcome: &Outcome) -> Vec<u8> {
    let snapshot = OutcomeSnapshot {
        plan: outcome.result.as_ref().ok().map(PlanSnapshot::of),
        // The words of a failure are part of what is compared: a replay must fail for the same reason.
        failure: outcome
            .result
            .as_ref()
            .err()
            .map(|failure| FailureSnapshot { message: chain(failure), step: failure.step() }),
        events: events(&outcome.events),
        conditions: outcome.conditions.iter().map(ConditionSnapshot::of).collect(),
        requirements: outcome.requirements.iter().map(RequirementSnapshot::of).collect(),
        schemas: outcome.schemas.iter().map(|it| (it.api_version.as_str(), it.kind.as_str())).collect(),
        context: outcome.context.as_ref().and_then(|context| context.json().ok()).map(Fields),
        ttl_nanos: outcome.ttl.map(|ttl| u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX)),
        ran: outcome.ran.iter().map(RanSnapshot::of).collect(),
        outputs: outcome.outputs.iter().filter_map(OutputSnapshot::of).collect(),
    };
    let mut text = Vec::with_capacity(4096);
    // Only maps whose keys are no text cannot be written, and there are none.
    let _ = serde_json::to_writer(&mut text, &snapshot);
    text
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct OutcomeSnapshot<'a> {
    conditions: Vec<ConditionSnapshot<'a>>,
    context: Option<Fields<'a>>,
    events: Vec<EventSnapshot<'a>>,
    failure: Option<FailureSnapshot<'a>>,
    // Recordings from before there were operations do not have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<OutputSnapshot<'a>>,
    plan: Option<PlanSnapshot<'a>>,
    ran: Vec<RanSnapshot<'a>>,
    requirements: Vec<RequirementSnapshot<'a>>,
    schemas: Vec<(&'a str, &'a str)>,
    ttl_nanos: Option<u64>,
}

#[derive(serde::Serialize)]
struct OutputSnapshot<'a> {
    output: Fields<'a>,
    step: &'a str,
}

impl<'a> OutputSnapshot<'a> {
    fn of(output: &'a StepOutput) -> Option<Self> {
        Some(Self { output: Fields(output.output.json().ok()?), step: &output.step })
    }
}

#[derive(serde::Serialize)]
struct FailureSnapshot<'a> {
    message: String,
    step: Option<&'a str>,
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanSnapshot<'a> {
    apply: Vec<WantedSnapshot<'a>>,
    connection_details: BTreeMap<&'a str, String>,
    delete: Vec<DeletionSnapshot<'a>>,
    is_ready: Option<bool>,
    references: Vec<ReferenceSnapshot<'a>>,
    status: Option<Fields<'a>>,
}

impl<'a> PlanSnapshot<'a> {
    fn of(plan: &'a Plan) -> Self {
        let details = plan.connection_details.iter();
        Self {
            delete: plan.delete.iter().map(DeletionSnapshot::of).collect(),
            references: plan.references.iter().map(ReferenceSnapshot::of).collect(),
            apply: plan.apply.iter().map(WantedSnapshot::of).collect(),
            status: plan.status.as_ref().map(Fields),
            is_ready: plan.is_ready,
            connection_details: details
                .map(|(key, value): (_, &Bytes)| (key.as_str(), STANDARD.encode(value)))
                .collect(),
        }
    }
}

/// What is deleted is known by its name: what else it was, is among what was observed.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct DeletionSnapshot<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    namespace: &'a str,
    resource: &'a str,
    uid: &'a str,
}

impl<'a> DeletionSnapshot<'a> {
    fn of(deletion: &'a Deletion) -> Self {
        static NOTHING: std::sync::LazyLock<Object> = std::sync::LazyLock::new(Object::new);
        let object = deletion.object.json().unwrap_or(&NOTHING);
        Self {
            resource: &deletion.resource,
            api_version: meta::api_version(object),
            kind: meta::kind(object),
            namespace: meta::namespace(object),
            name: meta::name(object),
            uid: meta::uid(object),
        }
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct ReferenceSnapshot<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    namespace: Option<&'a str>,
}

impl<'a> ReferenceSnapshot<'a> {
    fn of(reference: &'a Reference) -> Self {
        let Reference { api_version, kind, name, namespace } = reference;
        Self { api_version, kind, name, namespace: namespace.as_deref() }
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct WantedSnapshot<'a> {
    is_ready: bool,
    object: Fields<'a>,
    resource: &'a str,
    step: &'a str,
}

impl<'a> WantedSnapshot<'a> {
    fn of(wanted: &'a Wanted) -> Self {
        let Wanted { resource, step, object, is_ready } = wanted;
        Self { resource, step, is_ready: *is_ready, object: Fields(object) }
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventSnapshot<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    detail: Option<&'a str>,
    for_claim: bool,
    kind: &'static str,
    message: &'a str,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a str>,
}

/// Events, as they are recorded.
pub(crate) fn events(events: &[Event]) -> Vec<EventSnapshot<'_>> {
    events.iter().map(EventSnapshot::of).collect()
}

impl<'a> EventSnapshot<'a> {
    fn of(event: &'a Event) -> Self {
        let failure = event.failure.as_ref();
        Self {
            kind: event.kind.as_str(),
            reason: &event.reason,
            message: &event.message,
            detail: event.detail.as_deref(),
            for_claim: event.target == Target::CompositeAndClaim,
            code: failure.map(|failure| failure.cause.code()),
            resource: failure.map(|failure| failure.resource.as_str()).filter(|name| !name.is_empty()),
            step: failure.map(|failure| failure.step.as_str()).filter(|name| !name.is_empty()),
        }
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionSnapshot<'a> {
    for_claim: bool,
    message: &'a str,
    reason: &'a str,
    status: Status,
    r#type: &'a str,
}

impl<'a> ConditionSnapshot<'a> {
    fn of(function: &'a FunctionCondition) -> Self {
        let Condition { kind, status, reason, message, .. } = &function.condition;
        let for_claim = function.target == Target::CompositeAndClaim;
        Self { for_claim, message, reason, status: *status, r#type: kind }
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct RequirementSnapshot<'a> {
    api_version: &'a str,
    kind: &'a str,
    match_labels: Option<&'a BTreeMap<String, String>>,
    match_name: Option<&'a str>,
    name: &'a str,
    namespace: Option<&'a str>,
    step: &'a str,
}

impl<'a> RequirementSnapshot<'a> {
    fn of(requirement: &'a Requirement) -> Self {
        let Requirement { step, name, selector } = requirement;
        let (match_name, match_labels) = match &selector.r#match {
            Some(Match::MatchName(name)) => (Some(name.as_str()), None),
            Some(Match::MatchLabels(labels)) => (None, Some(&labels.labels)),
            None => (None, None),
        };
        Self {
            step,
            name,
            api_version: &selector.api_version,
            kind: &selector.kind,
            namespace: selector.namespace.as_deref(),
            match_name,
            match_labels,
        }
    }
}

#[derive(serde::Serialize)]
struct RanSnapshot<'a> {
    calls: u32,
    function: &'a str,
    revision: Option<&'a str>,
    step: &'a str,
    version: Option<String>,
}

impl<'a> RanSnapshot<'a> {
    fn of(ran: &'a Ran) -> Self {
        let callee = ran.callee.as_ref();
        Self {
            step: &ran.step,
            function: &ran.function,
            revision: callee.map(|callee| callee.revision.as_str()),
            version: callee.and_then(|callee| callee.version.as_ref()).map(ToString::to_string),
            calls: ran.calls,
        }
    }
}

/// An object with its numbers as they cross the wire, where `1.0` and `1` are the same.
struct Fields<'a>(&'a Object);
struct Field<'a>(&'a Value);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0 {
            map.serialize_entry(key, &Field(value))?;
        }
        map.end()
    }
}

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(object) => Fields(object).serialize(serializer),
            Value::Array(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(&Field(item))?;
                }
                list.end()
            }
            Value::Number(number) => on_the_wire(number).serialize(serializer),
            other => other.serialize(serializer),
        }
    }
}

fn on_the_wire(number: &Number) -> Number {
    const LOWEST: f64 = -9_223_372_036_854_775_808.0;
    const PAST_HIGHEST: f64 = 18_446_744_073_709_551_616.0;
    let Some(float) = number.as_f64() else { return number.clone() };
    if float.fract() == 0.0 && (LOWEST..PAST_HIGHEST).contains(&float) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        // Must agree with `to_number` in wire/src/codec.rs: a replay reads its objects from the wire.
        return if float < 0.0 { Number::from(float as i64) } else { Number::from(float as u64) };
    }
    Number::from_f64(float).unwrap_or_else(|| number.clone())
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::Struct;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_as_they_come_back_from_the_wire() {
        let object = json!({"a": [1.0, 1, -1.0, 1.5, 9_007_199_254_740_993_u64, -0.0, u64::MAX, 1e300]});
        let object = object.as_object().unwrap();
        let wire = Struct::try_from(object.clone()).unwrap().wire().clone();
        let returned = Struct::from(wire);
        assert_eq!(
            serde_json::to_string(&Fields(object)).unwrap(),
            serde_json::to_string(returned.json().unwrap()).unwrap()
        );
    }
}
