//! Reads everything that can be not ready, page by page, and explains one object of each group that says the same.

use std::collections::BTreeMap;

use ferroplane_api::crds::Crd;
use ferroplane_api::{Object, crds, keys, meta};
use ferroplane_client::{Query, Resource};
use ferroplane_explain::{Diagnosis, List, Overview, Purpose, Snapshot, Survey, diagnose};
use serde_json::Value;

use super::reader::{PAGE, Reader, failure, readable};

impl Reader {
    /// Everything that is not ready, in all namespaces or in one.
    pub(super) async fn survey(&self, namespace: Option<&str>) -> anyhow::Result<Overview> {
        let ground = self.ground().await?;
        let mut survey = Survey::default();
        for resource in self.looked_at(&ground) {
            let namespace = namespace.unwrap_or_default();
            if resource.is_namespaced || namespace.is_empty() {
                self.note_all(&resource, namespace, &ground, &mut survey).await?;
            }
        }
        if namespace.is_none() {
            for revision in self.newest_revisions().await? {
                survey.note(&ground, &revision);
            }
        }
        let mut explained: Vec<Diagnosis> = Vec::new();
        for id in survey.examples() {
            let snapshot = self.read_on(ground.clone(), &id, Purpose::Cause).await?;
            explained.push(diagnose(&snapshot, &id));
        }
        Ok(survey.conclude(&explained))
    }

    /// What every explanation needs, read once.
    async fn ground(&self) -> anyhow::Result<Snapshot> {
        let mut snapshot = self.snapshot();
        for (api_version, kind) in [
            ("apiextensions.crossplane.io/v2", "CompositeResourceDefinition"),
            ("apiextensions.crossplane.io/v1", "Composition"),
        ] {
            let list = List { api_version: api_version.to_owned(), kind: kind.to_owned(), ..List::default() };
            let objects = self.listed(&list).await?;
            snapshot.put_list(list, objects);
        }
        Ok(snapshot)
    }

    /// The kinds whose objects can be not ready: those that are defined, and our own.
    fn looked_at(&self, ground: &Snapshot) -> Vec<Resource> {
        let definitions = ground.definitions();
        let defined = definitions.flat_map(|definition| {
            ["claimNames", "names"].into_iter().filter_map(|names| defined(definition, names))
        });
        // Objects that cannot say that nothing acts on them are not ready either.
        let can_be_unready =
            |crd: &Crd| crd.has_conditions() || self.home().leaves_alone(crd.group, crd.kind);
        let own = crds::ALL.iter().filter(|crd| can_be_unready(crd) && !SPOKEN_FOR.contains(&crd.kind));
        let own = own.map(|crd| (crd.group.to_owned(), crd.kind.to_owned()));
        let kinds = defined.chain(own);
        let found = kinds.filter_map(|(group, kind)| {
            self.catalogue().get_any_version(&format!("{group}/v1"), &kind).map(|it| Resource::clone(it))
        });
        found.collect()
    }

    /// The newest revision of every Composition, which says whether the Composition can be used.
    async fn newest_revisions(&self) -> anyhow::Result<Vec<Object>> {
        let (api_version, kind) =
            ("apiextensions.crossplane.io/v1".to_owned(), "CompositionRevision".to_owned());
        let mut newest: BTreeMap<String, (i64, Object)> = BTreeMap::new();
        for revision in self.listed(&List { api_version, kind, ..List::default() }).await? {
            let number =
                revision.get("spec").and_then(|spec| spec.get("revision")?.as_i64()).unwrap_or_default();
            let composition = meta::label(&revision, keys::COMPOSITION_NAME).to_owned();
            let known = newest.get(&composition).map_or(i64::MIN, |(number, _)| *number);
            if number > known {
                newest.insert(composition, (number, revision));
            }
        }
        Ok(newest.into_values().map(|(_, revision)| revision).collect())
    }

    /// Objects are checked page by page, so that no more than a page of them is in memory.
    async fn note_all(
        &self,
        resource: &Resource,
        namespace: &str,
        ground: &Snapshot,
        survey: &mut Survey,
    ) -> anyhow::Result<()> {
        let mut continuation: Option<String> = None;
        loop {
            let query =
                Query { limit: Some(PAGE), continuation: continuation.as_deref(), ..Query::default() };
            let page = self.client().list(resource, namespace, &query).await;
            // Objects that may not be read are left out.
            let Some(page) = readable(page)? else { return Ok(()) };
            for object in page.objects(resource).map_err(failure)? {
                survey.note(ground, &object);
            }
            continuation = page.continuation;
            if continuation.is_none() {
                return Ok(());
            }
        }
    }
}

/// Kinds with conditions that others speak for: of the revisions of a Composition only the newest counts, and a Function is explained
/// with its revisions.
const SPOKEN_FOR: [&str; 2] = ["CompositionRevision", "FunctionRevision"];

pub(super) fn defined(definition: &Object, names: &str) -> Option<(String, String)> {
    let spec = definition.get("spec")?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    Some((text(spec.get("group"))?, text(spec.get(names)?.get("kind"))?))
}
