//! The helpers that templates have beside Go's own functions and sprig's.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferroplane_golang::time::rfc3339::Moment;
use ferroplane_template::{
    CallSite, Callee, Context, Failure, Function, Functions, Heap, List, Text, Type, Value, sprig,
};

use super::attempt::Attempt;
use super::condition::{self, Condition};
use super::documents::{EXTRA_RESOURCES, RESOURCE_NAME};
use super::json;
use super::limits::Limits;
use super::release::Release;
use super::yaml;
use crate::fieldpath::{Path, Segment};
use crate::randomness::Randomness;

/// The annotation of a resource's name outside of the cluster.
const EXTERNAL_NAME: &str = "crossplane.io/external-name";

/// A template may include itself so often before it is called endless.
const INCLUDES: usize = 1000;

const ANY: &[Type] = &[Type::Any];
const STRING: &[Type] = &[Type::String];
const REQUEST: &[Type] = &[Type::MAP];
const REQUEST_AND_NAME: &[Type] = &[Type::MAP, Type::String];

type Call = fn(&mut Context<'_>, &[Value]) -> Result<Value, Failure>;

const fn helper(name: &'static str, parameters: &'static [Type], result: Type, call: Call) -> Function {
    Function { name, parameters, rest: None, result, callee: Callee::Values(call) }
}

static FUNCTIONS: &[Function] = &[
    helper("toYaml", ANY, Type::String, to_yaml),
    helper("fromYaml", STRING, Type::Any, from_yaml),
    helper("getResourceCondition", &[Type::String, Type::MAP], condition::TYPE, get_resource_condition),
    helper("setResourceNameAnnotation", STRING, Type::String, set_resource_name_annotation),
    helper("getComposedResource", REQUEST_AND_NAME, Type::MAP, get_composed_resource),
    helper("getCompositeResource", REQUEST, Type::MAP, get_composite_resource),
    helper("getComposedConnectionDetails", REQUEST_AND_NAME, Type::MAP, get_composed_connection_details),
    helper("getExternalName", REQUEST, Type::String, get_external_name),
    helper("getExtraResources", REQUEST_AND_NAME, Type::LIST, get_extra_resources),
    helper("getExtraResourcesFromContext", REQUEST_AND_NAME, Type::LIST, get_extra_resources_from_context),
    helper("getCredentialData", REQUEST_AND_NAME, Type::Map(&Type::BYTES), get_credential_data),
    helper("include", &[Type::String, Type::Any], Type::String, include),
    Function {
        name: "randomChoice",
        parameters: &[],
        rest: Some(Type::String),
        result: Type::String,
        callee: Callee::Values(random_choice),
    },
];

/// The release that brought a helper. The rest were always there.
const LATER: &[(&str, Release)] = &[
    ("getComposedResource", Release::V0_5),
    ("getCompositeResource", Release::V0_5),
    // Of sprig 3.3.0; the releases before have 3.2.3.
    ("sha512sum", Release::V0_6),
    ("getExtraResources", Release::V0_11),
    ("getCredentialData", Release::V0_11),
    // The original has it on its main branch, and in no release up to v0.12.2.
    ("getComposedConnectionDetails", Release::V0_12),
    ("getExtraResourcesFromContext", Release::V0_12),
];

/// Go's functions, sprig's and those of a release of the original: made once, because there are hundreds.
pub(super) fn functions(release: Release) -> &'static Functions {
    static OF_RELEASES: [OnceLock<Functions>; Release::COUNT] = [const { OnceLock::new() }; Release::COUNT];
    OF_RELEASES[release as usize].get_or_init(|| collect(release))
}

/// Two of sprig's read the environment of the process, and are not there.
fn collect(release: Release) -> Functions {
    let all = sprig::functions().with(FUNCTIONS).without("env").without("expandenv");
    let later = LATER.iter().filter(|(_, since)| release < *since);
    later.fold(all, |functions, (name, _)| functions.without(name))
}

/// How often each template is included right now.
type Included = BTreeMap<Text, usize>;

/// What a template sees of the world.
pub(super) struct Host<'h> {
    pub(super) attempt: &'h Attempt<'h>,
    pub(super) limits: &'h Limits,
    pub(super) state: State,
}

/// What helpers need besides their arguments.
#[derive(Debug)]
pub(super) struct State {
    release: Release,
    randomness: Randomness,
    included: Included,
}

impl State {
    pub(super) fn new(release: Release, randomness: Randomness) -> Self {
        Self { release, randomness, included: Included::default() }
    }

    /// Counts that a template is included once more. False if it is included too often already.
    fn enter(&mut self, name: &Text) -> bool {
        match self.included.get_mut(name) {
            Some(count) if *count > INCLUDES => return false,
            Some(count) => *count += 1,
            None => {
                self.included.insert(name.clone(), 1);
            }
        }
        true
    }

    fn leave(&mut self, name: &Text) {
        if let Some(count) = self.included.get_mut(name) {
            *count -= 1;
        }
    }
}

impl ferroplane_template::Host for Host<'_> {
    fn expired(&mut self) -> Option<Duration> {
        self.attempt.expired(self.limits)
    }

    fn now(&mut self) -> Option<Moment> {
        Some(self.state.randomness.now())
    }

    fn begin_draw(&mut self, sites: &[CallSite<'_>]) {
        self.state.randomness.begin(sites);
    }

    fn random(&mut self, buffer: &mut [u8]) -> bool {
        self.state.randomness.fill(buffer);
        true
    }

    fn state(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.state)
    }
}

fn state<'c>(context: &'c mut Context<'_>) -> Option<&'c mut State> {
    context.state()?.downcast_mut()
}

fn release(context: &mut Context<'_>) -> Release {
    state(context).map_or(Release::V0_12, |state| state.release)
}

fn to_yaml(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(Value::text(yaml::write(context, &arguments[0])?))
}

fn from_yaml(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::String(text) = &arguments[0] else { return Ok(Value::Nil) };
    yaml::read(context, text)
}

/// The name that a resource has outside of the cluster; empty if unknown. Only the design of composition functions has it.
#[expect(clippy::unnecessary_wraps, reason = "the engine calls all functions alike")]
fn get_external_name(_: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let resource = field(&arguments[0], "resource").unwrap_or_else(|| arguments[0].clone());
    let annotations = field(&resource, "metadata").and_then(|metadata| field(&metadata, "annotations"));
    let name = annotations.and_then(|annotations| field(&annotations, EXTERNAL_NAME));
    Ok(name.filter(|name| matches!(name, Value::String(_))).unwrap_or_else(|| Value::text("")))
}

fn field(value: &Value, name: &str) -> Option<Value> {
    if let Value::Map(map) = value { map.get(name.as_bytes()) } else { None }
}

#[expect(clippy::unnecessary_wraps, reason = "the engine calls all functions alike")]
fn set_resource_name_annotation(_: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let name = if let Value::String(name) = &arguments[0] { name.to_str() } else { Cow::Borrowed("") };
    let mut annotation = String::with_capacity(RESOURCE_NAME.len() + name.len() + 2);
    annotation.push_str(RESOURCE_NAME);
    annotation.push_str(": ");
    annotation.push_str(&name);
    Ok(Value::text(annotation))
}

fn random_choice(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let Some(count) = u64::try_from(arguments.len()).ok().filter(|count| *count > 0) else {
        return Err(Failure::new("invalid argument to Intn"));
    };
    let mut bytes = [0; 8];
    context.random(&mut bytes)?;
    let chosen = usize::try_from(u64::from_le_bytes(bytes) % count).unwrap_or_default();
    Ok(arguments[chosen].clone())
}

/// Executes a template, like `template`, and returns what it prints.
fn include(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::String(name) = &arguments[0] else { return Ok(Value::text("")) };
    if state(context).is_some_and(|state| !state.enter(name)) {
        let name = String::from_utf8_lossy(name).into_owned();
        return Err(Failure::new(format!(
            "rendering template has a nested reference name: {name}: unable to execute template"
        )));
    }
    let printed = context.execute(name, arguments[1].clone());
    if let Some(state) = state(context) {
        state.leave(name);
    }
    printed.map(Value::String)
}

fn get_composed_resource(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let name = text(&arguments[1]);
    let path = if release(context).looks_up_names_with_dots() {
        format!("observed.resources[{name}]resource")
    } else {
        format!("observed.resources.{name}.resource")
    };
    map_of(context, at_path(&arguments[0], &path))
}

fn get_composite_resource(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    map_of(context, find(&arguments[0], &["observed", "composite", "resource"]))
}

fn get_composed_connection_details(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let name = text(&arguments[1]);
    map_of(context, find(&arguments[0], &["observed", "resources", &name, "connectionDetails"]))
}

fn get_extra_resources(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let name = text(&arguments[1]);
    for field in ["requiredResources", "extraResources"] {
        // A list that is null is found, too: there are no other ones then.
        if let Some(found) = list_at(context, &arguments[0], &format!("{field}[{name}].items"))? {
            return Ok(found);
        }
    }
    Ok(nil_list())
}

fn get_extra_resources_from_context(
    context: &mut Context<'_>,
    arguments: &[Value],
) -> Result<Value, Failure> {
    let name = text(&arguments[1]);
    let path = format!("context[{EXTRA_RESOURCES}][{name}].items");
    Ok(list_at(context, &arguments[0], &path)?.unwrap_or_else(nil_list))
}

fn get_credential_data(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let name = text(&arguments[1]);
    let Some(Value::Map(data)) = find(&arguments[0], &["credentials", &name, "credentialData", "data"])
    else {
        return Ok(Value::Map(Heap::nil_map(&Type::BYTES)));
    };
    let mut decoded = BTreeMap::new();
    for (key, value) in data.to_vec() {
        let bytes = STANDARD.decode(text(&value)).unwrap_or_default();
        context.charge(bytes.len())?;
        decoded.insert(key, Value::Bytes(bytes.into()));
    }
    context.typed_map(&Type::BYTES, decoded)
}

#[expect(clippy::unnecessary_wraps, reason = "the engine calls all functions alike")]
fn get_resource_condition(context: &mut Context<'_>, arguments: &[Value]) -> Result<Value, Failure> {
    let kind = if let Value::String(kind) = &arguments[0] { kind.clone() } else { Text::from("") };
    let release = release(context);
    let wrapped =
        find(&arguments[1], &["resource", "status"]).and_then(|status| condition::read(&status, release));
    let bare = || find(&arguments[1], &["status"]).and_then(|status| condition::read(&status, release));
    let looks_further = release.looks_into_bare_resources();
    let conditions = if looks_further { wrapped.or_else(bare) } else { wrapped };
    let found = conditions.into_iter().flatten().find(|condition| condition.is_of(&kind));
    Ok(found.unwrap_or_else(|| Condition::unknown(kind)).into_value(release))
}

/// What is there, if every part of the path is.
fn find(value: &Value, path: &[&str]) -> Option<Value> {
    path.iter().try_fold(value.clone(), |value, key| match value {
        Value::Map(map) => map.get(key.as_bytes()),
        _ => None,
    })
}

/// What is at a path in the notation of Crossplane. Nothing at one that cannot be parsed, which odd names make of it.
fn at_path(value: &Value, path: &str) -> Option<Value> {
    let path = Path::parse(path).ok()?;
    path.segments().iter().try_fold(value.clone(), |value, segment| match (segment, value) {
        (Segment::Field(name), Value::Map(map)) => map.get(name.as_bytes()),
        (Segment::Index(index), Value::List(items)) => items.get(*index).cloned(),
        _ => None,
    })
}

fn map_of(context: &mut Context<'_>, found: Option<Value>) -> Result<Value, Failure> {
    match found {
        Some(found @ Value::Map(_)) => json::copy(context, &found),
        _ => Ok(json::nil_map()),
    }
}

fn list_at(context: &mut Context<'_>, value: &Value, path: &str) -> Result<Option<Value>, Failure> {
    match at_path(value, path) {
        Some(found @ Value::List(_)) => json::copy(context, &found).map(Some),
        Some(Value::Nil) => Ok(Some(nil_list())),
        _ => Ok(None),
    }
}

fn nil_list() -> Value {
    Value::List(List::nil(&Type::Any))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_str().into_owned(),
        _ => String::new(),
    }
}
