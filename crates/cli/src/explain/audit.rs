//! Reads the roles, bindings and kinds from which `audit who-can` computes its answer.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use ferroplane_api::{Object, meta};
use ferroplane_apiserver::auth::rbac::kubernetes_groups;
use ferroplane_client::{Error, LabelSelector, Query, Resource};
use ferroplane_explain::List;
use ferroplane_explain::audit::{AuditInput, AuditKind, AuditedKinds, CompositeUse, audited_kinds};

use super::known_functions;
use super::reader::{PAGE, RESTARTS, Reader, permitted, unlisted};
use crate::client::Access;

/// What an API server has, as far as it decides who can do what.
pub(crate) struct Scene {
    pub(crate) input: AuditInput,
    /// What could not be read.
    pub(crate) notes: Vec<String>,
    kinds: Reader,
}

impl Scene {
    pub(crate) async fn read(access: &Access, composer: Option<String>) -> anyhow::Result<Self> {
        let connection = access.connect()?;
        let reader = Reader::start(&connection).await;
        let server = &connection.server;
        let reader =
            reader.with_context(|| format!("cannot reach the API server at {server}; is it running?"))?;
        let input = AuditInput {
            home: reader.home(),
            kinds: kinds(&reader),
            kubernetes_groups: kubernetes_groups().map(str::to_owned).collect(),
            passive_functions: passive_functions(),
            composer,
            ..AuditInput::default()
        };
        let mut scene = Self { input, notes: Vec::new(), kinds: reader };
        for kind in audited_kinds() {
            scene.read_kind(kind).await?;
        }
        scene.read_composites().await?;
        Ok(scene)
    }

    async fn read_kind(&mut self, kind: AuditedKinds) -> anyhow::Result<()> {
        let AuditedKinds { api_version, kind, is_required } = kind;
        let Some(resource) = self.kinds.catalogue().get_any_version(api_version, kind).cloned() else {
            if is_required {
                bail!("cannot find out who has which rights: the API server has no kind {kind}");
            }
            return Ok(());
        };
        let list =
            List { api_version: resource.api_version.clone(), kind: kind.to_owned(), ..List::default() };
        let Some(objects) = self.kinds.all(&resource).await? else {
            if is_required {
                bail!(
                    "cannot list {}: an audit needs the right to list roles and bindings in all namespaces",
                    resource.plural
                );
            }
            let plural = &resource.plural;
            self.notes.push(format!("cannot list {plural}; the rights that follow from them are left out"));
            return Ok(());
        };
        self.input.objects.extend(objects.into_iter().map(|object| typed(object, &list)));
        Ok(())
    }

    /// Where there are composite resources: their metadata, page by page.
    async fn read_composites(&mut self) -> anyhow::Result<()> {
        let definitions =
            self.input.objects.iter().filter(|it| meta::kind(it) == "CompositeResourceDefinition");
        let kinds: Vec<_> = definitions.filter_map(|it| super::survey::defined(it, "names")).collect();
        for (group, kind) in kinds {
            let found = self.kinds.catalogue().get_any_version(&format!("{group}/v1"), &kind).cloned();
            let Some(resource) = found else { continue };
            let Some(namespaces) = self.kinds.namespaces_of(&resource).await? else {
                self.notes
                    .push(format!("cannot list {}.{group}; the kind is taken for unused", resource.plural));
                continue;
            };
            let uses = namespaces.into_iter();
            let uses =
                uses.map(|namespace| CompositeUse { group: group.clone(), kind: kind.clone(), namespace });
            self.input.composites.extend(uses);
        }
        Ok(())
    }
}

impl Reader {
    /// All objects of a kind. None if they may not be listed.
    async fn all(&self, resource: &Resource) -> anyhow::Result<Option<Vec<Object>>> {
        permitted(self.objects(resource, "", &LabelSelector::default()).await)
    }

    /// The namespaces that have objects of a kind. Empty for those that are in none. None if the API server does not list the kind.
    async fn namespaces_of(&self, resource: &Resource) -> anyhow::Result<Option<BTreeSet<String>>> {
        let mut namespaces = BTreeSet::new();
        let mut continuation: Option<String> = None;
        let mut restarts = 0;
        loop {
            let (limit, continued) = (Some(PAGE), continuation.as_deref());
            let query = Query { limit, continuation: continued, metadata_only: true, ..Query::default() };
            let page = self.page(resource, "", &query).await;
            let page = match page {
                Err(error) if error.is_not_found() => return Ok(Some(namespaces)),
                // Read again from the beginning: namespaces that were found before remain.
                Err(error) if error.is_gone() && restarts < RESTARTS => {
                    (continuation, restarts) = (None, restarts + 1);
                    continue;
                }
                Err(Error::Refused(_)) => return Ok(None),
                page => page.map_err(|error| unlisted(resource, error))?,
            };
            let objects = page.objects(resource).map_err(|error| unlisted(resource, error))?;
            namespaces.extend(objects.iter().map(|object| meta::namespace(object).to_owned()));
            continuation = page.continuation;
            if continuation.is_none() {
                return Ok(Some(namespaces));
            }
        }
    }
}

/// The kind that a user names. One that the API server does not have is taken as it is written: rights can be about resources without objects.
pub(crate) fn find_kind(scene: &Scene, word: &str) -> AuditKind {
    let found = scene.kinds.catalogue().find(word).map(|found| audit_kind(found));
    found.unwrap_or_else(|| {
        let (plural, group) = word.split_once('.').unwrap_or((word, ""));
        let [kind, plural, group] = ["", plural, group].map(str::to_owned);
        AuditKind { group, kind, plural, is_namespaced: false }
    })
}

fn kinds(reader: &Reader) -> Vec<AuditKind> {
    reader.catalogue().resources().map(audit_kind).collect()
}

fn audit_kind(resource: &Resource) -> AuditKind {
    AuditKind {
        group: resource.group().to_owned(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        is_namespaced: resource.is_namespaced,
    }
}

/// Functions that compose nothing of their own.
fn passive_functions() -> BTreeSet<String> {
    known_functions().into_iter().filter(|known| !known.composes).map(|known| known.name).collect()
}

/// Items of lists do not say what they are.
fn typed(mut object: Object, list: &List) -> Object {
    object.entry("apiVersion").or_insert_with(|| list.api_version.as_str().into());
    object.entry("kind").or_insert_with(|| list.kind.as_str().into());
    object
}
