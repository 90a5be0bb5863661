//! Functions that are not servers: images that run once per call, and webhooks.
//!
//! The `functions` array of a Composition becomes steps that call the built-in functions `function-container`, `function-chroot` and
//! `function-webhook`. The image or URL is in the input of such a step, so that any Composition can have one, and recordings, the
//! response cache and the hash of a revision cover it.
//!
//! # Guarantees
//! * Grants decide here what a step may do beyond computing: the input of a step is a request, never a permission.

mod compile;
mod quantity;

use std::time::Duration;

use ferroplane_api::{
    ChrootFunction, ContainerFunction, FunctionLimits, FunctionProtocol, FunctionType, ImagePullPolicy,
    NetworkPolicy, Object, Privilege, WebhookFunction,
};
use ferroplane_golang::time::duration;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use compile::READINESS_STEP;
pub(crate) use compile::{alpha_steps, check_functions};
pub use quantity::scaled as scaled_quantity;

/// The default timeout of a call: that of the alpha release of composition functions.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest timeout of a call.
const LONGEST_TIMEOUT: Duration = Duration::from_mins(10);
/// The longest call of a function of a Composition. A composite resource has two minutes for all its steps, and what comes after them: with
/// a longer one, the whole reconcile would be cut off, without a word about the step.
const LONGEST_OF_COMPOSITE: Duration = Duration::from_secs(90);
/// How much memory a step may give an image, in bytes. The image is chosen by a user who need not be the administrator of the machine.
const MOST_MEMORY: u64 = 4 << 30;

/// The remedy if these functions are disabled.
pub const EXTERNAL_IS_OFF: &str =
    "it is an alpha feature, which is off here: `ferroplane start --enable-alpha-functions` turns it on";

/// The built-in functions that run an image or call a webhook, and their inputs.
const FUNCTIONS: [(FunctionType, &str, &str); 3] = [
    (FunctionType::Container, "function-container", "container.fn.ferroplane.io/v1alpha1"),
    (FunctionType::Chroot, "function-chroot", "chroot.fn.ferroplane.io/v1alpha1"),
    (FunctionType::Webhook, "function-webhook", "webhook.fn.ferroplane.io/v1alpha1"),
];

/// What one of these functions does.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalFunction {
    pub callee: ExternalCallee,
    pub protocol: FunctionProtocol,
    pub timeout: Duration,
    /// What the function gets besides state.
    pub config: Option<Object>,
    /// Whether it sees observed resources that no earlier step desires. Only the first function of a Composition does: resources that it
    /// does not return are deleted.
    pub sees_unwanted: bool,
}

/// The image or webhook to call.
#[derive(Debug, Clone, PartialEq)]
pub enum ExternalCallee {
    Image(ExternalImage),
    Webhook {
        url: String,
        /// PEM in base64.
        ca_bundle: Option<String>,
    },
}

/// An image to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalImage {
    pub reference: String,
    pub isolation: Isolation,
    /// None: the default for the tag.
    pub pull_policy: Option<ImagePullPolicy>,
    /// The names of the step's credentials that are for the registry, and not for the function.
    pub pull_credentials: Vec<String>,
    pub wants_network: bool,
    /// In bytes.
    pub memory: Option<u64>,
    /// In thousandths of a processor.
    pub cpu: Option<u64>,
}

/// The isolation between an image and the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    Container,
    Chroot,
}

/// What a step may do beyond computing. Nothing, unless a grant allows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permits {
    pub network: bool,
    pub chroot: bool,
    /// Whether the server of a webhook may be on this machine.
    pub local_addresses: bool,
}

/// Why the input of a step is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidExternal {
    pub field: String,
    pub problem: String,
}

/// What a timeout of a function of a Composition means in place of its text, if it is too long for a composite resource.
pub(crate) fn shortened_timeout(text: &str) -> Option<String> {
    let timeout = duration::parse_positive(text)?;
    let is_too_long = LONGEST_OF_COMPOSITE < timeout && timeout <= LONGEST_TIMEOUT;
    is_too_long.then(|| format!("{}s", LONGEST_OF_COMPOSITE.as_secs()))
}

/// How a function runs something else, if it does.
pub fn external_type(function: &str) -> Option<FunctionType> {
    FUNCTIONS.iter().find(|(_, name, _)| *name == function).map(|(kind, ..)| *kind)
}

/// The built-in function for a type.
pub fn external_name(kind: FunctionType) -> &'static str {
    row(kind).1
}

fn row(kind: FunctionType) -> &'static (FunctionType, &'static str, &'static str) {
    let found = FUNCTIONS.iter().find(|(other, ..)| *other == kind);
    found.unwrap_or(&FUNCTIONS[0])
}

impl ExternalFunction {
    /// Parse the input of a step.
    pub fn read(kind: FunctionType, input: &Object) -> Result<Self, InvalidExternal> {
        check_kind(kind, input)?;
        let mut rest = input.clone();
        for field in ["apiVersion", "kind", "metadata"] {
            rest.remove(field);
        }
        let config = match rest.remove("config") {
            None | Some(Value::Null) => None,
            Some(Value::Object(config)) => Some(config),
            Some(_) => return Err(invalid("config", "expected an object")),
        };
        let sees_unwanted = rest.remove("seesUnwantedResources") == Some(Value::Bool(true));
        let (callee, protocol, timeout) = match kind {
            FunctionType::Container => container(parse(rest, CONTAINER_FIELDS)?)?,
            FunctionType::Chroot => chroot(parse(rest, CHROOT_FIELDS)?)?,
            FunctionType::Webhook => webhook(parse(rest, WEBHOOK_FIELDS)?)?,
        };
        // A step that a user writes is an ordinary one, whose function speaks the ordinary protocol.
        let protocol = protocol.unwrap_or(FunctionProtocol::RunFunction);
        Ok(Self { callee, protocol, timeout: read_timeout(timeout)?, config, sees_unwanted })
    }

    /// The privilege that it requests, if any: it takes a grant.
    pub(crate) fn privilege(&self) -> Option<(Privilege, &str)> {
        let ExternalCallee::Image(image) = &self.callee else { return None };
        match image.isolation {
            Isolation::Chroot => Some((Privilege::Chroot, &image.reference)),
            Isolation::Container if image.wants_network => Some((Privilege::Network, &image.reference)),
            Isolation::Container => None,
        }
    }

    /// The host to call, if it is a webhook.
    pub(crate) fn host(&self) -> Option<&str> {
        match &self.callee {
            ExternalCallee::Webhook { url, .. } => host_of(url),
            ExternalCallee::Image(_) => None,
        }
    }
}

const CONTAINER_FIELDS: &[&str] =
    &["image", "imagePullPolicy", "imagePullSecrets", "timeout", "network", "resources", "protocol"];
const CHROOT_FIELDS: &[&str] = &["image", "imagePullPolicy", "imagePullSecrets", "timeout", "protocol"];
const WEBHOOK_FIELDS: &[&str] = &["url", "caBundle", "timeout", "protocol"];

type Parts = (ExternalCallee, Option<FunctionProtocol>, Option<String>);

fn check_kind(kind: FunctionType, input: &Object) -> Result<(), InvalidExternal> {
    let (_, _, api_version) = row(kind);
    let expected = [("apiVersion", (*api_version).to_owned()), ("kind", format!("{kind:?}"))];
    for (field, expected) in expected {
        if input.get(field).and_then(Value::as_str) != Some(&expected) {
            return Err(invalid(field, format!("expected `{expected}`")));
        }
    }
    Ok(())
}

/// Parse fields and refuse unknown ones: a misspelt limit would not be enforced.
fn parse<T: DeserializeOwned>(rest: Object, known: &[&str]) -> Result<T, InvalidExternal> {
    if let Some(field) = rest.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(invalid(field, format!("unknown field, expected one of {}", known.join(", "))));
    }
    serde_json::from_value(Value::Object(rest)).map_err(|error| invalid("", error.to_string()))
}

fn container(function: ContainerFunction) -> Result<Parts, InvalidExternal> {
    let limits = function.resources.and_then(|resources| resources.limits);
    let (memory, cpu) = read_limits(limits.as_ref())?;
    let policy = function.network.and_then(|network| network.policy);
    let image = ExternalImage {
        reference: check_image(function.image)?,
        isolation: Isolation::Container,
        pull_policy: function.image_pull_policy,
        pull_credentials: function.image_pull_secrets.into_iter().map(|secret| secret.name).collect(),
        wants_network: policy == Some(NetworkPolicy::Runner),
        memory,
        cpu,
    };
    Ok((ExternalCallee::Image(image), function.protocol, function.timeout))
}

fn chroot(function: ChrootFunction) -> Result<Parts, InvalidExternal> {
    let image = ExternalImage {
        reference: check_image(function.image)?,
        isolation: Isolation::Chroot,
        pull_policy: function.image_pull_policy,
        pull_credentials: function.image_pull_secrets.into_iter().map(|secret| secret.name).collect(),
        // It has the network of the machine, whatever the input says.
        wants_network: true,
        memory: None,
        cpu: None,
    };
    Ok((ExternalCallee::Image(image), function.protocol, function.timeout))
}

fn webhook(function: WebhookFunction) -> Result<Parts, InvalidExternal> {
    if !function.url.starts_with("https://") || host_of(&function.url).is_none() {
        let problem = format!("expected a URL like https://host/path, got `{}`", function.url);
        return Err(invalid("url", problem));
    }
    let callee = ExternalCallee::Webhook { url: function.url, ca_bundle: function.ca_bundle };
    Ok((callee, function.protocol, function.timeout))
}

fn check_image(image: String) -> Result<String, InvalidExternal> {
    let is_bad = |character: char| character.is_whitespace() || character.is_control();
    if image.is_empty() || image.contains(is_bad) {
        return Err(invalid("image", "expected a reference to an image, like registry.example.org/name:v1"));
    }
    Ok(image)
}

fn read_limits(limits: Option<&FunctionLimits>) -> Result<(Option<u64>, Option<u64>), InvalidExternal> {
    let Some(limits) = limits else { return Ok((None, None)) };
    let read = |field: &str, value: Option<&Value>, scale| {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
        let amount = quantity::scaled(value, scale).filter(|amount| *amount > 0);
        let problem = || format!("expected a quantity above zero, got `{value}`");
        amount.map(Some).ok_or_else(|| invalid(&format!("resources.limits.{field}"), problem()))
    };
    let memory = read("memory", limits.memory.as_ref(), 1)?;
    if memory.is_some_and(|memory| memory > MOST_MEMORY) {
        let most = MOST_MEMORY >> 30;
        let problem = format!("expected at most {most}Gi, which is the most that a step may have");
        return Err(invalid("resources.limits.memory", problem));
    }
    Ok((memory, read("cpu", limits.cpu.as_ref(), 1000)?))
}

fn read_timeout(timeout: Option<String>) -> Result<Duration, InvalidExternal> {
    let Some(text) = timeout else { return Ok(DEFAULT_TIMEOUT) };
    let longest = LONGEST_TIMEOUT.as_secs() / 60;
    let problem = || format!("expected a duration above zero and up to {longest}m, like 20s, got `{text}`");
    let timeout = duration::parse_positive(&text).filter(|timeout| *timeout <= LONGEST_TIMEOUT);
    timeout.ok_or_else(|| invalid("timeout", problem()))
}

/// The host in a URL, without its port. None if the URL has parts that parsers interpret differently.
fn host_of(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("https://")?.split(['/', '?', '#']).next()?;
    let is_odd = |character: char| !character.is_ascii_graphic() || matches!(character, '@' | '\\' | '%');
    if authority.is_empty() || authority.contains(is_odd) {
        return None;
    }
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split_once(']')?.0,
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    };
    (!host.is_empty()).then_some(host)
}

fn invalid(field: &str, problem: impl Into<String>) -> InvalidExternal {
    let field = if field.is_empty() { "input".to_owned() } else { field.to_owned() };
    InvalidExternal { field, problem: problem.into() }
}

#[cfg(test)]
mod tests;
