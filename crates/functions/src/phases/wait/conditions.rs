//! The conditions of a phase: `anyOf`, `allOf`, or both, in which case one of the two lists is enough.

use ferroplane_api::{Cause, meta};
use ferroplane_engine::action::{Address, Answer, ArgumentMistake, Phase, RenderError};
use serde_json::Value;

use super::Wait;
use super::condition::Condition;
use crate::phases::arguments::{ObjectReference, mistake};
use crate::phases::moves::{Failure, describe};

const ARGUMENT: &str = "conditions";
/// Objects without a namespace are looked for in this one, as Kanister does.
const DEFAULT_NAMESPACE: &str = "default";
/// More conditions than anybody waits for.
const MOST: usize = 100;

/// All conditions, in two lists.
#[derive(Debug)]
pub(super) struct Conditions {
    any_of: Vec<OfObject>,
    all_of: Vec<OfObject>,
}

#[derive(Debug)]
struct OfObject {
    condition: Condition,
    object: Address,
}

/// What one look at all objects gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) holds: bool,
    pub(super) error: Option<String>,
}

/// A template over what the action knows cannot be rendered, and never will be.
pub(super) fn not_rendered(error: &RenderError) -> Failure {
    Failure { cause: Cause::PhaseTemplateFailed, message: error.to_string() }
}

impl Conditions {
    /// The conditions as the arguments have them, with rendered references.
    pub(super) fn read(phase: &Phase<'_>, version: Wait) -> Result<Self, Failure> {
        let lists = lists(phase.arguments.get(ARGUMENT))?;
        let read = |(path, item): &(String, &Value)| {
            let reference = item.get("objectReference").cloned().unwrap_or_default();
            let field = format!("{path}.objectReference");
            let reference = phase.scope.render_value(&format!("args.{field}"), &reference);
            let reference = reference.map_err(|error| not_rendered(&error))?;
            let reference = ObjectReference::read(&field, Some(&reference))?;
            Ok::<_, Failure>(OfObject {
                condition: Condition::parse(&format!("{path}.condition"), text(path, item)?, version)?,
                object: reference.address(&field, DEFAULT_NAMESPACE)?,
            })
        };
        let [any_of, all_of] = lists.map(|list| list.iter().map(&read).collect::<Result<Vec<_>, Failure>>());
        Ok(Self { any_of: any_of?, all_of: all_of? })
    }

    /// Every object that a condition is about, once.
    pub(super) fn objects(&self) -> Vec<Address> {
        let mut objects: Vec<Address> = Vec::new();
        for one in self.any_of.iter().chain(&self.all_of) {
            // Each object is read once for all its conditions, so that they are about one state of it.
            if !objects.contains(&one.object) {
                objects.push(one.object.clone());
            }
        }
        objects
    }

    /// Whether the conditions hold of what was read.
    pub(super) fn evaluate(&self, phase: &Phase<'_>, version: Wait) -> Round {
        let objects = self.objects();
        let look = |one: &OfObject| {
            let position = objects.iter().position(|object| *object == one.object);
            let answer = position.and_then(|position| phase.answers.get(position));
            one.holds(answer, phase)
        };
        let mut error = None;
        for one in &self.any_of {
            match look(one) {
                Ok(true) => return Round { holds: true, error: None },
                Ok(false) => {}
                // v0.0.0 gives up the round at the first error, as Kanister does; later versions try the other
                // conditions.
                Err(problem) if version == Wait::V0_0 => return Round { holds: false, error: Some(problem) },
                Err(problem) => error = error.or(Some(problem)),
            }
        }
        // An empty list holds of nothing: with `anyOf` alone, the phase would be done at once.
        let mut holds = !self.all_of.is_empty();
        for one in &self.all_of {
            match look(one) {
                Ok(true) => {}
                Ok(false) => holds = false,
                Err(problem) => {
                    holds = false;
                    error = error.or(Some(problem));
                }
            }
            if !holds {
                break;
            }
        }
        Round { holds, error: error.filter(|_| !holds) }
    }
}

impl OfObject {
    fn holds(&self, answer: Option<&Answer>, phase: &Phase<'_>) -> Result<bool, String> {
        match answer {
            Some(Answer::Object { object, .. }) => {
                let holds = self.condition.holds(object, phase);
                // An error quotes its object, and the values of this Secret are known only here, so that nothing
                // else redacts them.
                if meta::kind(object) == "Secret" { holds.map_err(|_| self.untold()) } else { holds }
            }
            Some(Answer::Refused(refused)) => Err(refused.message.clone()),
            _ => Err(format!("{} does not exist", describe(&self.object))),
        }
    }

    fn untold(&self) -> String {
        let object = describe(&self.object);
        format!(
            "a condition about {object} cannot be evaluated; the reason is not shown, because it may quote the Secret"
        )
    }
}

/// What is wrong with conditions that are not rendered yet.
pub(super) fn mistakes(conditions: &Value, version: Wait) -> Vec<ArgumentMistake> {
    let lists = match lists(Some(conditions)) {
        Ok(lists) => lists,
        Err(failure) => return vec![mistake(failure, ARGUMENT)],
    };
    let check = |(path, item): &(String, &Value)| {
        let field = format!("{path}.condition");
        let condition = text(path, item).and_then(|text| Condition::parse(&field, text, version));
        let reference = format!("{path}.objectReference");
        let referenced = ObjectReference::read(&reference, item.get("objectReference"))
            .and_then(|read| read.address(&reference, DEFAULT_NAMESPACE));
        let condition = condition.err().map(|failure| mistake(failure, field));
        condition
            .into_iter()
            .chain(referenced.err().map(|failure| mistake(failure, reference)))
            .collect::<Vec<_>>()
    };
    lists.iter().flatten().flat_map(check).collect()
}

/// The items of both lists, with their paths.
fn lists(conditions: Option<&Value>) -> Result<[Vec<(String, &Value)>; 2], Failure> {
    let Some(Value::Object(fields)) = conditions else {
        return Err(Failure::argument(ARGUMENT, "it should have anyOf or allOf"));
    };
    if let Some(unknown) = fields.keys().find(|key| !["anyOf", "allOf"].contains(&key.as_str())) {
        return Err(Failure::argument(ARGUMENT, format!("`{unknown}` is neither anyOf nor allOf")));
    }
    let list = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            let items = items.iter().enumerate();
            Ok(items.map(|(index, item)| (format!("{ARGUMENT}.{name}[{index}]"), item)).collect())
        }
        Some(_) => Err(Failure::argument(&format!("{ARGUMENT}.{name}"), "it should be a list")),
    };
    let (any_of, all_of): (Vec<_>, Vec<_>) = (list("anyOf")?, list("allOf")?);
    match any_of.len() + all_of.len() {
        // Kanister waits for the end of the time, and fails then.
        0 => Err(Failure::argument(ARGUMENT, "there is no condition to wait for: write anyOf or allOf")),
        1..=MOST => Ok([any_of, all_of]),
        _ => Err(Failure::argument(ARGUMENT, format!("there are more than {MOST}"))),
    }
}

fn text<'v>(path: &str, item: &'v Value) -> Result<&'v str, Failure> {
    let text = item.get("condition").and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    text.ok_or_else(|| {
        Failure::argument(&format!("{path}.condition"), "it should be a template that prints true")
    })
}
