//! What the steps of a composite resource may read and do. The only place where that is decided: for the plane, `render` and `replay`.
//!
//! # Guarantees
//! * A step that runs for a composite resource in a namespace is given nothing but objects of that namespace and of cluster scoped
//!   kinds, unless a grant names what it reads. A Secret has to be named as a kind: no `*` covers it.
//! * A composite resource that is in no namespace reads what it likes, as in Crossplane: whoever may create one is trusted with that.
//!   What images and webhooks may do takes a grant for it, too, one for all namespaces.
//! * Without grants, a decision costs a comparison of two names.

use std::collections::BTreeMap;
use std::fmt;

use ferroplane_api::{
    ANY, AccessGrantSpec, CallGrant, GrantSubjects, GrantedKind, Object, Privilege, ReadGrant, RunGrant,
    SecretRef, keys, meta,
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
            !namespace.is_empty() || !grant.run.is_empty() || !grant.call.is_empty()
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
        let grant = AccessGrantSpec {
            to: self.subjects(namespace),
            read: Vec::new(),
            run: vec![run],
            call: Vec::new(),
        };
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
                to: self.subjects(self.namespace),
                read: vec![ReadGrant {
                    api_groups: list(object.group),
                    kinds: list(object.kind),
                    namespaces: list(namespace),
                    names: object.name.map(list).unwrap_or_default(),
                }],
                run: Vec::new(),
                call: Vec::new(),
            },
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
        let [ReadGrant { kinds, namespaces, names, .. }] = &self.grant.read[..] else { return Ok(()) };
        let (kind, own) = (kinds.concat(), self.grant.to.namespaces.concat());
        match (names.first(), namespaces.concat().as_str()) {
            (Some(name), ANY) => write!(f, "{kind} `{name}` without a namespace")?,
            (Some(name), namespace) => write!(f, "{kind} `{namespace}/{name}`")?,
            (None, ANY) => write!(f, "objects of kind {kind} in all namespaces")?,
            (None, namespace) => write!(f, "objects of kind {kind} in namespace `{namespace}`")?,
        }
        write!(f, ": the composite resource is in namespace `{own}`, and {}", not_granted(&self.grant))
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

/// An object that brings a grant.
pub fn is_grant(object: &Object) -> bool {
    meta::group(meta::api_version(object)) == keys::FERROPLANE && meta::kind(object) == GRANT_KIND
}
