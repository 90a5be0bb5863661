//! Decides what the steps of a composite resource and the actions of Blueprints may read and do. The plane, `render` and `replay` all
//! decide it here.
//!
//! # Guarantees
//! * A step that runs for a composite resource in a namespace can read objects of that namespace and of cluster-scoped kinds. Everything
//!   else takes a grant that names it. A grant for Secrets has to name the kind: `*` does not cover it.
//! * A composite resource without a namespace can read everything, as in Crossplane: a user who may create one is trusted with that. What
//!   its images and webhooks may do takes a grant for all namespaces.
//! * Configurations of webhooks take a grant that names their kind, for every reader: those of the control plane hold the secret by which
//!   it knows its API server. These cannot be composed resources either, with any grant.
//! * An action of a Blueprint can use objects in the namespace of its ActionSet. Everything else takes a grant, cluster-scoped objects
//!   included. Roles and bindings take a grant in every namespace.
//! * Without grants, a decision costs one comparison of two names.

use std::collections::BTreeMap;
use std::fmt;

use ferroplane_api::{
    ANY, AccessGrantSpec, CallGrant, GrantSubjects, GrantedKind, InterceptGrant, InterceptMode, Object,
    Privilege, ReadGrant, RunGrant, SecretRef, keys, meta,
};
use ferroplane_wire::v1::ResourceSelector;
use ferroplane_wire::v1::resource_selector::Match;
use serde_json::{Value, json};

use crate::ImageReference;
use crate::external::{ExternalFunction, Permits};
use crate::wording::not_granted;

/// The API version and kind of grants.
pub const GRANT_API_VERSION: &str = "ferroplane.io/v1alpha1";
pub const GRANT_KIND: &str = "AccessGrant";

/// The kind by which a grant names actions of Blueprints.
const ACTION_SET: &str = "ActionSet";
/// The group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";
/// The group of the configurations of webhooks, and the end of their kinds.
const ADMISSION: &str = "admissionregistration.k8s.io";
const WEBHOOKS: &str = "WebhookConfiguration";

/// The configuration of the webhooks that protect objects in use. It has Crossplane's name.
pub const USAGE_WEBHOOKS: &str = "crossplane-no-usages";
/// The configuration of the webhooks that warn of mistakes.
pub const ADVICE_WEBHOOKS: &str = "ferroplane-function-versions";

/// Grants, by the names of the objects that define them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(BTreeMap<String, AccessGrantSpec>);

/// An object cannot be read as a grant.
#[derive(Debug, thiserror::Error)]
#[error("cannot read AccessGrant `{name}`")]
pub struct InvalidGrant {
    name: String,
    source: serde_json::Error,
}

impl Grants {
    /// Add the grant that an object defines, or replace it. An object that cannot be read grants nothing.
    pub fn add(&mut self, object: &Object) -> Result<(), InvalidGrant> {
        let name = meta::name(object).to_owned();
        let spec = object.get("spec").cloned().unwrap_or_default();
        match serde_json::from_value(spec) {
            Ok(spec) => {
                self.0.insert(name, spec);
                Ok(())
            }
            Err(source) => {
                // What it granted before does not hold either: an edit with a mistake must not keep rights that were
                // to be taken away.
                self.0.remove(&name);
                Err(InvalidGrant { name, source })
            }
        }
    }

    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The grants that apply to a composite resource.
    #[must_use]
    pub fn about(&self, composite: &Object) -> Self {
        let namespace = meta::namespace(composite);
        if self.0.is_empty() {
            return Self::default();
        }
        let (group, kind) = (meta::group(meta::api_version(composite)), meta::kind(composite));
        let concerns =
            |to: &GrantSubjects| is_listed(&to.namespaces, namespace) && is_of_kind(to, group, kind);
        // A composite resource without a namespace reads nearly everything without grants, so that a change of them must
        // not reconcile it.
        let is_asked = |grant: &AccessGrantSpec| {
            let more = [grant.run.is_empty(), grant.call.is_empty(), grant.intercept.is_empty()];
            !namespace.is_empty() || more.contains(&false) || grant.read.iter().any(names_webhooks)
        };
        let grants = self.0.iter().filter(|(_, grant)| concerns(&grant.to) && is_asked(grant));
        Self(grants.map(|(name, grant)| (name.clone(), grant.clone())).collect())
    }

    /// All grants as JSON, for recordings and fingerprints.
    pub fn to_json(&self) -> Value {
        self.0.iter().map(|(name, grant)| (name.clone(), json!(grant))).collect::<Object>().into()
    }

    /// The inverse of [`Grants::to_json`].
    pub fn from_json(value: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(value).map(Self)
    }

    fn allow(&self, reader: &Reader<'_>, object: &Target<'_>) -> bool {
        self.to(reader).any(|grant| grant.read.iter().any(|read| covers(read, object)))
    }

    /// The grants for a step.
    fn to<'g>(&'g self, reader: &Reader<'g>) -> impl Iterator<Item = &'g AccessGrantSpec> {
        let reader = *reader;
        self.0.values().filter(move |grant| {
            let to = &grant.to;
            // An empty list of functions means all functions, but namespaces have to be listed: a grant for every
            // namespace has to say `*`.
            let is_step = to.functions.is_empty() || to.functions.iter().any(|it| it == reader.function);
            is_step
                && is_listed(&to.namespaces, reader.namespace)
                && is_of_kind(to, reader.group, reader.kind)
        })
    }
}

fn is_listed(list: &[String], name: &str) -> bool {
    list.iter().any(|listed| listed == name || listed == ANY)
}

fn is_of_kind(to: &GrantSubjects, group: &str, kind: &str) -> bool {
    to.kinds.is_empty() || to.kinds.iter().any(|it| it.api_group == group && it.kind == kind)
}

fn names_webhooks(read: &ReadGrant) -> bool {
    read.kinds.iter().any(|kind| kind.ends_with(WEBHOOKS))
}

fn covers(read: &ReadGrant, object: &Target<'_>) -> bool {
    // A user who writes `*` thinks of configuration, not of every password in the cluster.
    let is_kind = if object.is_secret() || object.is_webhook_configuration() {
        read.kinds.iter().any(|kind| kind == object.kind)
    } else {
        is_listed(&read.kinds, object.kind)
    };
    let is_place = match object.namespace {
        // The kind is cluster-scoped, or all namespaces are requested: only a grant for `*` covers both.
        "" => read.namespaces.iter().any(|namespace| namespace == ANY),
        namespace => is_listed(&read.namespaces, namespace),
    };
    // A selector of labels can match any name, so that a grant for single names does not cover it.
    let is_name =
        read.names.is_empty() || object.name.is_some_and(|name| read.names.iter().any(|it| it == name));
    is_kind && is_place && is_name && is_listed(&read.api_groups, object.group)
}

/// Whether a grant covers an image. A grant without a tag and a digest covers all tags and digests.
fn is_for_image(run: &RunGrant, image: &str) -> bool {
    run.images.iter().any(|granted| {
        let (wanted, named) = (ImageReference::parse(image), ImageReference::parse(granted));
        // A grant with a tag or a digest covers exactly that: the image that the tag names today is not known here.
        let is_whole = named.tag.is_none() && named.digest.is_none();
        granted == ANY || granted == image || is_whole && named.repository == wanted.repository
    })
}

/// The step on whose behalf objects are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    namespace: &'a str,
    group: &'a str,
    kind: &'a str,
    function: &'a str,
}

/// The objects to read: one, or all that match if there is no name.
#[derive(Debug, Clone, Copy)]
struct Target<'a> {
    group: &'a str,
    kind: &'a str,
    /// Empty for cluster-scoped kinds and for all namespaces.
    namespace: &'a str,
    name: Option<&'a str>,
}

impl Target<'_> {
    fn is_secret(&self) -> bool {
        self.group.is_empty() && self.kind == "Secret"
    }

    fn is_webhook_configuration(&self) -> bool {
        self.group == ADMISSION && self.kind.ends_with(WEBHOOKS)
    }
}

/// What an action of a Blueprint wants to do to objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionAccess<'a> {
    /// The namespace of the ActionSet.
    pub from: &'a str,
    /// The function of the phase. Empty for reads of the action itself.
    pub function: &'a str,
    pub is_write: bool,
    pub group: &'a str,
    pub kind: &'a str,
    /// The namespace of the objects. Empty for cluster-scoped kinds, and for all namespaces.
    pub namespace: &'a str,
    /// None for all objects that match.
    pub name: Option<&'a str>,
}

impl Grants {
    /// Whether an action may do this: to objects in its own namespace, or with a grant. Roles and bindings always take a grant, as the
    /// plane has more rights than the user who writes an ActionSet.
    pub fn check_action(&self, access: &ActionAccess<'_>) -> Result<(), Box<DeniedAction>> {
        let &ActionAccess { from, function, is_write, group, kind, namespace, name } = access;
        // A user who could write roles in a namespace through the plane would gain all rights of the plane there.
        let is_power = is_write && group == RBAC;
        if namespace == from && !from.is_empty() && !is_power {
            return Ok(());
        }
        let reader = Reader { namespace: from, group: keys::KANISTER, kind: ACTION_SET, function };
        let object = Target { group, kind, namespace, name };
        let allows = |grant: &AccessGrantSpec| {
            let is_read = !is_write && grant.read.iter().any(|read| covers(read, &object));
            is_read || grant.write.iter().any(|write| covers(write, &object))
        };
        if self.to(&reader).any(allows) {
            return Ok(());
        }
        let mut grant = reader.deny(&object).grant;
        if is_write {
            // The smallest grant for a write is a write: it covers reading, too.
            std::mem::swap(&mut grant.read, &mut grant.write);
        }
        // Reads of the action itself have no function, so that a grant for one function would not cover them.
        if function.is_empty() {
            grant.to.functions.clear();
        }
        Err(Box::new(DeniedAction { is_write, grant }))
    }
}

impl Grants {
    /// Whether an image that the function of a phase runs may use the network of the control plane.
    pub fn gives_network(&self, from: &str, function: &str, image: &str) -> bool {
        let reader = Reader { namespace: from, group: keys::KANISTER, kind: ACTION_SET, function };
        let covers =
            |run: &RunGrant| run.privileges.contains(&Privilege::Network) && is_for_image(run, image);
        self.to(&reader).any(|grant| grant.run.iter().any(covers))
    }
}

/// What an action is denied, with the smallest grant that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedAction {
    is_write: bool,
    grant: AccessGrantSpec,
}

impl fmt::Display for DeniedAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, objects) =
            if self.is_write { ("change", &self.grant.write) } else { ("read", &self.grant.read) };
        write!(f, "cannot let it {verb} ")?;
        write_objects(f, objects)?;
        let own = self.grant.to.namespaces.concat();
        write!(f, ": the ActionSet is in namespace `{own}`, and {}", not_granted(&self.grant))
    }
}

/// Whether something may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    Allowed,
    /// Only if the kind is cluster-scoped, which the caller finds out when it reads the objects.
    IfClusterScoped,
    Denied(Box<DeniedRead>),
}

impl<'a> Reader<'a> {
    /// A step of a composite resource that calls a function.
    pub(crate) fn new(composite: &'a Object, function: &'a str) -> Self {
        Self {
            namespace: meta::namespace(composite),
            group: meta::group(meta::api_version(composite)),
            kind: meta::kind(composite),
            function,
        }
    }

    /// Whether objects may be read.
    pub(crate) fn select(&self, grants: &Grants, selector: &ResourceSelector) -> Access {
        self.read(grants, &Target::of(selector))
    }

    /// Whether a Secret may be read.
    pub(crate) fn secret(&self, grants: &Grants, secret: &SecretRef) -> Result<(), Box<DeniedRead>> {
        let SecretRef { namespace, name } = secret;
        let target = Target { group: "", kind: "Secret", namespace, name: Some(name) };
        match self.read(grants, &target) {
            Access::Allowed => Ok(()),
            Access::IfClusterScoped => Err(Box::new(self.deny(&target))),
            Access::Denied(denied) => Err(denied),
        }
    }

    /// What an image or a webhook may do for the step. An error if the step asks for more.
    pub(crate) fn permits(
        &self,
        grants: &Grants,
        function: &ExternalFunction,
    ) -> Result<Permits, Box<DeniedRun>> {
        let mut permits = Permits::default();
        if let Some((privilege, image)) = function.privilege() {
            let covers = |run: &RunGrant| run.privileges.contains(&privilege) && is_for_image(run, image);
            if !grants.to(self).any(|grant| grant.run.iter().any(covers)) {
                return Err(Box::new(self.deny_run(privilege, image)));
            }
            permits.network = true;
            permits.chroot = privilege == Privilege::Chroot;
        }
        if let Some(host) = function.host() {
            let covers = |call: &CallGrant| call.hosts.iter().any(|it| it.eq_ignore_ascii_case(host));
            // Not refused here: whether a host is local is known only after its name was resolved.
            permits.local_addresses = grants.to(self).any(|grant| grant.call.iter().any(covers));
        }
        Ok(permits)
    }

    fn deny_run(&self, privilege: Privilege, image: &str) -> DeniedRun {
        let run = RunGrant { privileges: vec![privilege], images: vec![image.to_owned()] };
        let namespace = if self.namespace.is_empty() { ANY } else { self.namespace };
        let grant = AccessGrantSpec { run: vec![run], ..self.nothing(namespace) };
        DeniedRun { privilege, image: image.to_owned(), grant }
    }

    /// This step, as the subject of a grant.
    fn subjects(&self, namespace: &str) -> GrantSubjects {
        GrantSubjects {
            namespaces: vec![namespace.to_owned()],
            kinds: vec![GrantedKind { api_group: self.group.to_owned(), kind: self.kind.to_owned() }],
            functions: vec![self.function.to_owned()],
        }
    }

    /// The denial for objects whose kind turned out to be namespaced.
    pub(crate) fn denied(&self, selector: &ResourceSelector) -> DeniedRead {
        self.deny(&Target::of(selector))
    }

    fn read(&self, grants: &Grants, object: &Target<'_>) -> Access {
        // Compare names before grants are searched: nearly all reads stay in the step's own namespace.
        let is_own = self.namespace.is_empty() || object.namespace == self.namespace;
        // An API server ignores the namespace of a kind that has none, so that it does not make these one's own.
        if is_own && !object.is_webhook_configuration() || grants.allow(self, object) {
            return Access::Allowed;
        }
        // Secrets are namespaced, so that a read without a namespace means the Secrets of all namespaces.
        if object.namespace.is_empty() && !object.is_secret() && !object.is_webhook_configuration() {
            return Access::IfClusterScoped;
        }
        Access::Denied(Box::new(self.deny(object)))
    }

    fn deny(&self, object: &Target<'_>) -> DeniedRead {
        let list = |name: &str| vec![name.to_owned()];
        let namespace = if object.namespace.is_empty() { ANY } else { object.namespace };
        let from = if self.namespace.is_empty() { ANY } else { self.namespace };
        DeniedRead {
            grant: AccessGrantSpec {
                read: vec![ReadGrant {
                    api_groups: list(object.group),
                    kinds: list(object.kind),
                    namespaces: list(namespace),
                    names: object.name.map(list).unwrap_or_default(),
                }],
                ..self.nothing(from)
            },
        }
    }

    /// Whether a developer's process on a host may be called in place of the function.
    pub(crate) fn intercept(
        &self,
        grants: &Grants,
        host: &str,
        mode: InterceptMode,
    ) -> Result<(), Box<DeniedIntercept>> {
        let covers = |grant: &InterceptGrant| {
            grant.modes.contains(&mode) && grant.hosts.iter().any(|it| it.eq_ignore_ascii_case(host))
        };
        if grants.to(self).any(|grant| grant.intercept.iter().any(covers)) {
            return Ok(());
        }
        let namespace = if self.namespace.is_empty() { ANY } else { self.namespace };
        let intercept = vec![InterceptGrant { hosts: vec![host.to_owned()], modes: vec![mode] }];
        let grant = AccessGrantSpec { intercept, ..self.nothing(namespace) };
        Err(Box::new(DeniedIntercept { function: self.function.to_owned(), host: host.to_owned(), grant }))
    }

    /// A grant for this step, without any rights yet.
    fn nothing(&self, namespace: &str) -> AccessGrantSpec {
        AccessGrantSpec {
            to: self.subjects(namespace),
            read: Vec::new(),
            write: Vec::new(),
            run: Vec::new(),
            call: Vec::new(),
            intercept: Vec::new(),
        }
    }
}

impl<'a> Target<'a> {
    fn of(selector: &'a ResourceSelector) -> Self {
        let name = match &selector.r#match {
            Some(Match::MatchName(name)) => Some(name.as_str()),
            _ => None,
        };
        Self {
            group: meta::group(&selector.api_version),
            kind: &selector.kind,
            namespace: selector.namespace.as_deref().unwrap_or_default(),
            name,
        }
    }
}

/// A read that a step is denied, with the smallest grant that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedRead {
    grant: AccessGrantSpec,
}

impl From<AccessGrantSpec> for DeniedRead {
    fn from(grant: AccessGrantSpec) -> Self {
        Self { grant }
    }
}

impl fmt::Display for DeniedRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_objects(f, &self.grant.read)?;
        match self.grant.to.namespaces.concat().as_str() {
            ANY => write!(f, ": {}", not_granted(&self.grant)),
            own => write!(
                f,
                ": the composite resource is in namespace `{own}`, and {}",
                not_granted(&self.grant)
            ),
        }
    }
}

/// The objects of a grant with one rule.
fn write_objects(f: &mut fmt::Formatter<'_>, objects: &[ReadGrant]) -> fmt::Result {
    let [ReadGrant { kinds, namespaces, names, .. }] = objects else { return Ok(()) };
    let kind = kinds.concat();
    match (names.first(), namespaces.concat().as_str()) {
        (Some(name), ANY) => write!(f, "{kind} `{name}` without a namespace"),
        (Some(name), namespace) => write!(f, "{kind} `{namespace}/{name}`"),
        (None, ANY) => write!(f, "objects of kind {kind} in all namespaces"),
        (None, namespace) => write!(f, "objects of kind {kind} in namespace `{namespace}`"),
    }
}

/// A privilege that a step is denied, with the smallest grant that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedRun {
    privilege: Privilege,
    image: String,
    grant: AccessGrantSpec,
}

impl fmt::Display for DeniedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.privilege {
            Privilege::Network => write!(f, "use the network from image `{}`", self.image)?,
            Privilege::Chroot => write!(f, "run image `{}` without a container", self.image)?,
        }
        write!(f, ": {}", not_granted(&self.grant))
    }
}

/// Calls that must not be sent to a developer's process, with the smallest grant that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedIntercept {
    function: String,
    host: String,
    grant: AccessGrantSpec,
}

impl fmt::Display for DeniedIntercept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, host, grant } = self;
        write!(f, "calls of function `{function}` may not be sent to `{host}`: {}", not_granted(grant))
    }
}

/// Whether an object is a configuration of the control plane's own webhooks.
pub(crate) fn is_own_webhook_configuration(object: &Object) -> bool {
    let (group, kind) = (meta::group(meta::api_version(object)), meta::kind(object));
    group == ADMISSION
        && kind == "ValidatingWebhookConfiguration"
        && [USAGE_WEBHOOKS, ADVICE_WEBHOOKS].contains(&meta::name(object))
}

/// Whether an object defines a grant.
pub fn is_grant(object: &Object) -> bool {
    meta::group(meta::api_version(object)) == keys::FERROPLANE && meta::kind(object) == GRANT_KIND
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access<'a>(is_write: bool, kind: &'a str, namespace: &'a str, group: &'a str) -> ActionAccess<'a> {
        ActionAccess { from: "shop", function: "KubeOps", is_write, group, kind, namespace, name: Some("x") }
    }

    fn grants(spec: &Value) -> Grants {
        let mut grants = Grants::default();
        let object = json!({"metadata": {"name": "g"}, "spec": spec});
        grants.add(object.as_object().unwrap()).unwrap();
        grants
    }

    #[test]
    fn action_reaches_its_own_namespace_and_nothing_else() {
        let none = Grants::default();
        assert!(none.check_action(&access(true, "ConfigMap", "shop", "")).is_ok());
        assert!(none.check_action(&access(false, "Secret", "shop", "")).is_ok());
        for (kind, namespace, group) in [
            ("ConfigMap", "other", ""),
            ("Secret", "other", ""),
            ("Namespace", "", ""),
            ("RoleBinding", "shop", RBAC),
        ] {
            let denied = none.check_action(&access(true, kind, namespace, group)).unwrap_err();
            assert!(denied.to_string().starts_with(&format!("cannot let it change {kind} `")), "{denied}");
        }
        assert!(none.check_action(&access(false, "RoleBinding", "shop", RBAC)).is_ok());
    }

    #[test]
    fn image_of_a_phase_has_the_network_only_with_a_grant_for_it() {
        let granted = grants(&json!({"to": {"namespaces": ["shop"], "functions": ["KubeTask"]},
            "run": [{"privileges": ["Network"], "images": ["registry.example.org/tools"]}]}));
        let image = "registry.example.org/tools:v1";
        assert!(granted.gives_network("shop", "KubeTask", image));
        assert!(!Grants::default().gives_network("shop", "KubeTask", image));
        assert!(!granted.gives_network("other", "KubeTask", image));
        assert!(!granted.gives_network("shop", "MultiContainerRun", image));
        assert!(!granted.gives_network("shop", "KubeTask", "registry.example.org/other:v1"));
    }

    #[test]
    fn refusal_names_the_grant_that_allows_what_was_refused() {
        for is_write in [false, true] {
            let wanted = access(is_write, "Secret", "other", "");
            let denied = Grants::default().check_action(&wanted).unwrap_err();
            let (_, grant) = crate::wording::split_grant(&denied.to_string())
                .map(|(text, it)| (text.to_owned(), it))
                .unwrap();
            let granted = grants(&json!(grant));
            assert!(granted.check_action(&wanted).is_ok());
            // A grant for writing covers reading, and not the other way around.
            assert!(granted.check_action(&access(false, "Secret", "other", "")).is_ok());
            assert_eq!(granted.check_action(&access(true, "Secret", "other", "")).is_ok(), is_write);
            assert!(granted.check_action(&ActionAccess { function: "Wait", ..wanted }).is_err());
            assert!(granted.check_action(&ActionAccess { from: "else", ..wanted }).is_err());
        }
    }
}
