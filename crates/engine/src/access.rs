//! What the steps of a composite resource and the actions of Blueprints may read and do. The only place where that is decided: for the
//! plane, `render` and `replay`.
//!
//! # Guarantees
//! * A step that runs for a composite resource in a namespace is given nothing but objects of that namespace and of cluster scoped
//!   kinds, unless a grant names what it reads. A Secret has to be named as a kind: no `*` covers it.
//! * A composite resource that is in no namespace reads what it likes, as in Crossplane: whoever may create one is trusted with that.
//!   What images and webhooks may do takes a grant for it, too, one for all namespaces.
//! * An action of a Blueprint reaches objects of the namespace of its ActionSet. Everything else takes a grant, cluster-scoped objects
//!   included, and so do roles and bindings wherever they are.
//! * Without grants, a decision costs a comparison of two names.
#![allow(clippy::needless_pass_by_value, reason = "it reads better here as it is")]

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

/// The version and the kind of objects that grants come in.
pub const GRANT_API_VERSION: &str = "ferroplane.io/v1alpha1";
pub const GRANT_KIND: &str = "AccessGrant";

/// The kind that stands for actions of Blueprints in a grant.
const ACTION_SET: &str = "ActionSet";
/// The group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Grants, by the names of the objects that they come in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants(BTreeMap<String, AccessGrantSpec>);

/// An object is no grant.
#[derive(Debug, thiserror::Error)]
#[error("cannot read AccessGrant `{name}`")]
pub struct InvalidGrant {
    name: String,
    source: serde_json::Error,
}

impl Grants {
    /// Let an object count. One that cannot be read grants nothing.
    pub fn add(&mut self, object: &Object) -> Result<(), InvalidGrant> {
        let name = meta::name(object).to_owned();
        let spec = object.get("spec").cloned().unwrap_or_default();
        match serde_json::from_value(spec) {
            Ok(spec) => {
                self.0.insert(name, spec);
                Ok(())
            }
            Err(source) => {
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

    /// Those that have something to say about a composite resource.
    #[must_use]
    pub fn about(&self, composite: &Object) -> Self {
        let namespace = meta::namespace(composite);
        if self.0.is_empty() {
            return Self::default();
        }
        let (group, kind) = (meta::group(meta::api_version(composite)), meta::kind(composite));
        let concerns =
            |to: &GrantSubjects| is_listed(&to.namespaces, namespace) && is_of_kind(to, group, kind);
        // One that is in no namespace reads what it likes: what it may read is not looked up, nor does it change with it.
        let is_asked = |grant: &AccessGrantSpec| {
            let more = [grant.run.is_empty(), grant.call.is_empty(), grant.intercept.is_empty()];
            !namespace.is_empty() || more.contains(&false)
        };
        let grants = self.0.iter().filter(|(_, grant)| concerns(&grant.to) && is_asked(grant));
        Self(grants.map(|(name, grant)| (name.clone(), grant.clone())).collect())
    }

    /// All of them, as they are kept in recordings and identified by.
    pub fn to_json(&self) -> Value {
        self.0.iter().map(|(name, grant)| (name.clone(), json!(grant))).collect::<Object>().into()
    }

    /// What [`Grants::to_json`] has written.
    pub fn from_json(value: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(value).map(Self)
    }

    fn allow(&self, reader: &Reader<'_>, object: &Target<'_>) -> bool {
        self.to(reader).any(|grant| grant.read.iter().any(|read| covers(read, object)))
    }

    /// Those that are for a step.
    fn to<'g>(&'g self, reader: &Reader<'g>) -> impl Iterator<Item = &'g AccessGrantSpec> {
        let reader = *reader;
        self.0.values().filter(move |grant| {
            let to = &grant.to;
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

fn covers(read: &ReadGrant, object: &Target<'_>) -> bool {
    // Whoever writes `*` thinks of configuration, not of every password in the cluster.
    let is_kind = if object.is_secret() {
        read.kinds.iter().any(|kind| kind == object.kind)
    } else {
        is_listed(&read.kinds, object.kind)
    };
    let is_place = match object.namespace {
        "" => read.namespaces.iter().any(|namespace| namespace == ANY),
        namespace => is_listed(&read.namespaces, namespace),
    };
    // What is selected by labels may have any name.
    let is_name =
        read.names.is_empty() || object.name.is_some_and(|name| read.names.iter().any(|it| it == name));
    is_kind && is_place && is_name && is_listed(&read.api_groups, object.group)
}

/// Whether a grant is for an image. One without a tag and a digest is for all of them.
fn is_for_image(run: &RunGrant, image: &str) -> bool {
    run.images.iter().any(|granted| {
        let (wanted, named) = (ImageReference::parse(image), ImageReference::parse(granted));
        let is_whole = named.tag.is_none() && named.digest.is_none();
        granted == ANY || granted == image || is_whole && named.repository == wanted.repository
    })
}

/// On whose behalf something is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    namespace: &'a str,
    group: &'a str,
    kind: &'a str,
    function: &'a str,
}

/// What is read: one object, or all that fit if it has no name.
#[derive(Debug, Clone, Copy)]
struct Target<'a> {
    group: &'a str,
    kind: &'a str,
    /// Empty for none, or all.
    namespace: &'a str,
    name: Option<&'a str>,
}

impl Target<'_> {
    fn is_secret(&self) -> bool {
        self.group.is_empty() && self.kind == "Secret"
    }
}

/// What an action of a Blueprint wants to do to objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionAccess<'a> {
    /// The namespace of the ActionSet.
    pub from: &'a str,
    /// The function of the phase. Empty for what the action itself reads.
    pub function: &'a str,
    pub is_write: bool,
    pub group: &'a str,
    pub kind: &'a str,
    /// Where the objects are. Empty for cluster-scoped kinds, and for all namespaces.
    pub namespace: &'a str,
    /// Nothing for all that fit.
    pub name: Option<&'a str>,
}

impl Grants {
    /// Whether an action may do something: to objects of its own namespace, or with a grant. Roles and bindings of roles take a grant
    /// in any case, as the plane has more rights than whoever writes an ActionSet.
    pub fn check_action(&self, access: &ActionAccess<'_>) -> Result<(), Box<DeniedAction>> {
        let &ActionAccess { from, function, is_write, group, kind, namespace, name } = access;
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
            std::mem::swap(&mut grant.read, &mut grant.write);
        }
        if function.is_empty() {
            grant.to.functions.clear();
        }
        Err(Box::new(DeniedAction { is_write, grant }))
    }
}

impl Grants {
    /// Whether an image that the function of a phase runs has the network of the control plane.
    pub fn gives_network(&self, from: &str, function: &str, image: &str) -> bool {
        let reader = Reader { namespace: from, group: keys::KANISTER, kind: ACTION_SET, function };
        let covers =
            |run: &RunGrant| run.privileges.contains(&Privilege::Network) && is_for_image(run, image);
        self.to(&reader).any(|grant| grant.run.iter().any(covers))
    }
}

/// What an action may not do, with the smallest grant that would allow it.
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
    /// Only if its kind is cluster scoped, which whoever reads it knows.
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

    /// What an image or a webhook may do for the step. Refused if it asks for more.
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

    /// This step, in a grant.
    fn subjects(&self, namespace: &str) -> GrantSubjects {
        GrantSubjects {
            namespaces: vec![namespace.to_owned()],
            kinds: vec![GrantedKind { api_group: self.group.to_owned(), kind: self.kind.to_owned() }],
            functions: vec![self.function.to_owned()],
        }
    }

    /// Objects may not be read because their kind turned out to live in namespaces.
    pub(crate) fn denied(&self, selector: &ResourceSelector) -> DeniedRead {
        self.deny(&Target::of(selector))
    }

    fn read(&self, grants: &Grants, object: &Target<'_>) -> Access {
        if self.namespace.is_empty() || object.namespace == self.namespace || grants.allow(self, object) {
            return Access::Allowed;
        }
        if object.namespace.is_empty() && !object.is_secret() {
            return Access::IfClusterScoped;
        }
        Access::Denied(Box::new(self.deny(object)))
    }

    fn deny(&self, object: &Target<'_>) -> DeniedRead {
        let list = |name: &str| vec![name.to_owned()];
        let namespace = if object.namespace.is_empty() { ANY } else { object.namespace };
        DeniedRead {
            grant: AccessGrantSpec {
                read: vec![ReadGrant {
                    api_groups: list(object.group),
                    kinds: list(object.kind),
                    namespaces: list(namespace),
                    names: object.name.map(list).unwrap_or_default(),
                }],
                ..self.nothing(self.namespace)
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

    /// A grant for this step that grants nothing yet.
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

/// What a step may not read, as the smallest grant that would allow it.
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
        let own = self.grant.to.namespaces.concat();
        write!(f, ": the composite resource is in namespace `{own}`, and {}", not_granted(&self.grant))
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

/// What a step may not do, with the smallest grant that would allow it.
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

/// Calls that may not be sent to a developer's process, with the smallest grant that would allow it.
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

/// An object that brings a grant.
pub fn is_grant(object: &Object) -> bool {
    meta::group(meta::api_version(object)) == keys::FERROPLANE && meta::kind(object) == GRANT_KIND
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access<'a>(is_write: bool, kind: &'a str, namespace: &'a str, group: &'a str) -> ActionAccess<'a> {
        ActionAccess { from: "shop", function: "KubeOps", is_write, group, kind, namespace, name: Some("x") }
    }

    fn grants(spec: Value) -> Grants {
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
        let granted = grants(json!({"to": {"namespaces": ["shop"], "functions": ["KubeTask"]},
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
            let granted = grants(json!(grant));
            assert!(granted.check_action(&wanted).is_ok());
            // To read is less than to write.
            assert!(granted.check_action(&access(false, "Secret", "other", "")).is_ok());
            assert_eq!(granted.check_action(&access(true, "Secret", "other", "")).is_ok(), is_write);
            assert!(granted.check_action(&ActionAccess { function: "Wait", ..wanted }).is_err());
            assert!(granted.check_action(&ActionAccess { from: "else", ..wanted }).is_err());
        }
    }
}
