//! Conditions of resources, as templates see them: a struct of Go.
//!
//! Follows crossplane-runtime v2.2.0, apis/common/condition.go; releases before v0.9.0 are built on v1.14.3 and v1.15.0, where a
//! condition says nothing of a generation.

use std::any::Any;
use std::rc::Rc;

use ferroplane_golang::time::layout;
use ferroplane_golang::time::rfc3339::{self, Moment};
use ferroplane_golang::yaml::Node;
use ferroplane_template::{Function, Object, Text, Type, Value, sprig};

use super::release::Release;

/// The type of conditions in the newest release.
pub(super) const TYPE: Type = Type::Struct(Release::NEWEST.condition());

/// The type of their times.
pub(super) const TIME: Type = Type::Struct("v1.Time");

const FIELDS: &[&str] = &["Type", "Status", "LastTransitionTime", "Reason", "Message", "ObservedGeneration"];

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    kind: Text,
    status: Text,
    last_transition_time: Option<Moment>,
    reason: Text,
    message: Text,
    observed_generation: i64,
}

/// The conditions of a status. Nothing if Go could not read it, which means that none of them counts.
pub(super) fn read(status: &Value, release: Release) -> Option<Vec<Condition>> {
    let conditions = match status {
        Value::Nil => Value::Nil,
        Value::Map(status) => status.get(b"conditions").unwrap_or(Value::Nil),
        _ => return None,
    };
    match conditions {
        Value::Nil => Some(Vec::new()),
        Value::List(conditions) => {
            conditions.iter().map(|condition| Condition::read(condition, release)).collect()
        }
        _ => None,
    }
}

impl Condition {
    pub(super) fn unknown(kind: Text) -> Self {
        Self { kind, status: Text::from("Unknown"), ..Self::empty() }
    }

    fn empty() -> Self {
        let nothing = || Text::from("");
        Self {
            kind: nothing(),
            status: nothing(),
            last_transition_time: None,
            reason: nothing(),
            message: nothing(),
            observed_generation: 0,
        }
    }

    fn read(condition: &Value, release: Release) -> Option<Self> {
        let condition = match condition {
            Value::Nil => return Some(Self::empty()),
            Value::Map(condition) => condition,
            _ => return None,
        };
        let field = |name: &str| condition.get(name.as_bytes()).unwrap_or(Value::Nil);
        let text = |name: &str| match field(name) {
            Value::Nil => Some(Text::from("")),
            Value::String(text) => Some(text),
            _ => None,
        };
        Some(Self {
            kind: text("type")?,
            status: text("status")?,
            last_transition_time: match field("lastTransitionTime") {
                Value::Nil => None,
                Value::String(text) => Some(rfc3339::moment(&text.to_str())?),
                _ => return None,
            },
            reason: text("reason")?,
            message: text("message")?,
            observed_generation: match field("observedGeneration") {
                _ if !release.knows_observed_generations() => 0,
                Value::Nil => 0,
                Value::Int64(generation) => generation,
                _ => return None,
            },
        })
    }

    pub(super) fn is_of(&self, kind: &Text) -> bool {
        self.kind == *kind
    }

    /// The condition as templates of a release see it.
    pub(super) fn into_value(self, release: Release) -> Value {
        Value::Object(Rc::new(Seen { condition: self, release }))
    }
}

/// The fields of a condition as Go's library of YAML writes them, in the order of their declaration. Nothing if it is none.
pub(super) fn yaml_fields(object: &dyn Object) -> Option<Vec<(Node, Node)>> {
    /// The beginning of the year 1, which a time is that was never set.
    const NEVER: Moment = Moment { seconds: -62_135_596_800, nanoseconds: 0 };
    let Seen { condition, release } = object.as_any().downcast_ref()?;
    let time = condition.last_transition_time.unwrap_or(NEVER);
    let time = layout::format(layout::RFC3339_NANO, time, 0, "UTC");
    let text = |text: &Text| Node::String(text.to_str().into_owned());
    let mut fields = vec![
        ("type", text(&condition.kind)),
        ("status", text(&condition.status)),
        // It writes itself as text, which is quoted because it looks like a time.
        ("lasttransitiontime", Node::String(String::from_utf8_lossy(&time).into_owned())),
        ("reason", text(&condition.reason)),
        ("message", text(&condition.message)),
    ];
    if release.knows_observed_generations() {
        fields.push(("observedgeneration", Node::Int(condition.observed_generation)));
    }
    Some(fields.into_iter().map(|(name, value)| (Node::String(name.to_owned()), value)).collect())
}

/// A condition as templates of a release see it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    condition: Condition,
    release: Release,
}

impl Object for Seen {
    fn type_of(&self) -> Type {
        Type::Struct(self.release.condition())
    }

    fn field(&self, name: &str) -> Option<Value> {
        let Condition { kind, status, last_transition_time, reason, message, observed_generation } =
            &self.condition;
        Some(match *self.fields().iter().find(|field| **field == name)? {
            "Type" => Value::String(kind.clone()),
            "Status" => Value::String(status.clone()),
            "LastTransitionTime" => Time::of(*last_transition_time),
            "Reason" => Value::String(reason.clone()),
            "Message" => Value::String(message.clone()),
            _ => Value::Int64(*observed_generation),
        })
    }

    fn fields(&self) -> &'static [&'static str] {
        if self.release.knows_observed_generations() { FIELDS } else { &FIELDS[..FIELDS.len() - 1] }
    }

    fn json_fields(&self) -> Vec<(&'static str, Value)> {
        let Condition { kind, status, last_transition_time, reason, message, observed_generation } =
            &self.condition;
        // Kubernetes writes times without fractions, and one that was never set as null.
        let whole = |moment: Moment| Moment { nanoseconds: 0, ..moment };
        let mut fields = vec![
            ("type", Value::String(kind.clone())),
            ("status", Value::String(status.clone())),
            (
                "lastTransitionTime",
                last_transition_time.map_or(Value::Nil, |moment| sprig::time(Some(whole(moment)))),
            ),
            ("reason", Value::String(reason.clone())),
        ];
        if !message.is_empty() {
            fields.push(("message", Value::String(message.clone())));
        }
        if *observed_generation != 0 && self.release.knows_observed_generations() {
            fields.push(("observedGeneration", Value::Int64(*observed_generation)));
        }
        fields
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        Some(other.as_any().downcast_ref::<Self>() == Some(self))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The time of Kubernetes: a time of Go, with a type of its own that writes itself as text.
#[derive(Debug)]
struct Time(Rc<dyn Object>);

impl Time {
    fn of(moment: Option<Moment>) -> Value {
        match sprig::time(moment) {
            Value::Object(time) => Value::Object(Rc::new(Self(time))),
            other => other,
        }
    }
}

impl Object for Time {
    fn type_of(&self) -> Type {
        TIME
    }

    fn method(&self, name: &str) -> Option<&'static Function> {
        self.0.method(name)
    }

    fn string(&self) -> Option<Text> {
        self.0.string()
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        self.0.equals(other)
    }

    // As the time of Go that it has inside, so that its methods work.
    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }
}
