//! The cluster as files describe it: the objects that functions may require.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use ferroplane_api::{Object, meta};
use ferroplane_engine::composite::{SecretReference, secret_data};
use ferroplane_engine::{Answer, Grants, Reference, Want, inlined_schema, is_grant};
use ferroplane_runner::Resources;
use ferroplane_schema::builtin::{Scope, resources};
use ferroplane_wire::v1::ResourceSelector;
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::{Struct, StructError};
use serde_json::Value;

/// Everything that exists: what all composite resources share, and what is one's own.
#[derive(Debug)]
pub(crate) struct ClusterState {
    shared: Arc<SharedState>,
    own: BTreeMap<Identity, Struct>,
    asked: Mutex<Vec<Want>>,
    composite_scope: CompositeScope,
}

/// Where a composite resource lives that is rendered, as far as files say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompositeScope {
    /// In a namespace.
    Namespaced,
    /// In none: its definition says so.
    Cluster,
    /// It names no namespace, and nothing says that it has none: `kubectl` would put it into the current one.
    Unknown,
}

/// What all composite resources may see.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    objects: BTreeMap<Identity, Struct>,
    /// OpenAPI v3 documents.
    schemas: Vec<Value>,
    /// What was answered about a version and kind. Making a schema stand on its own is work.
    answered: Mutex<BTreeMap<(String, String), Answer>>,
    /// What administrators allow, as far as files say.
    grants: Grants,
    /// Whether kinds are known to be cluster scoped. If not, everything is taken to be namespaced.
    pub(crate) knows_scopes: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    api_version: String,
    kind: String,
    /// `namespace/name`: what objects of a kind are sorted by.
    key: String,
}

impl Identity {
    fn new(api_version: &str, kind: &str, key: String) -> Self {
        Self { api_version: api_version.to_owned(), kind: kind.to_owned(), key }
    }

    fn of(object: &Object) -> Self {
        let key = format!("{}/{}", meta::namespace(object), meta::name(object));
        Self::new(meta::api_version(object), meta::kind(object), key)
    }
}

impl SharedState {
    /// Let an object exist. The last of the same identity is the one.
    pub(crate) fn add(&mut self, object: Object) -> anyhow::Result<()> {
        if is_grant(&object) {
            self.grants.add(&object)?;
        }
        self.objects.insert(Identity::of(&object), Struct::try_from(object)?);
        Ok(())
    }

    /// Let the kinds in an OpenAPI v3 document have schemas.
    pub(crate) fn add_schemas(&mut self, document: Value) {
        self.schemas.push(document);
    }

    fn find_schema(&self, api_version: &str, kind: &str) -> Answer {
        for document in &self.schemas {
            match inlined_schema(document, api_version, kind) {
                Ok(Some(Value::Object(schema))) => {
                    return Struct::try_from(schema).map_or_else(
                        |error| Answer::Failed(error.to_string()),
                        |schema| Answer::Schema(Some(schema)),
                    );
                }
                Ok(_) => {}
                Err(error) => return Answer::Failed(error.to_string()),
            }
        }
        Answer::Schema(None)
    }
}

impl ClusterState {
    /// A cluster that has nothing of its own yet.
    pub(crate) fn new(shared: Arc<SharedState>) -> Self {
        let composite_scope = CompositeScope::Unknown;
        Self { shared, own: BTreeMap::new(), asked: Mutex::default(), composite_scope }
    }

    /// Let the composite resource live there.
    pub(crate) fn set_composite_scope(&mut self, scope: CompositeScope) {
        self.composite_scope = scope;
    }

    /// Let an object exist in this cluster alone.
    pub(crate) fn add(&mut self, object: Object) -> Result<(), StructError> {
        self.own.insert(Identity::of(&object), Struct::try_from(object)?);
        Ok(())
    }

    /// What administrators allow.
    pub(crate) fn grants(&self) -> &Grants {
        &self.shared.grants
    }

    /// Everything that was asked so far, in order.
    pub(crate) fn asked(&self) -> Vec<Want> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The object a reference leads to.
    pub(crate) fn get(&self, reference: &Reference) -> Option<&Object> {
        // One's own objects shadow shared ones: an observed resource may also be among those that functions may ask for.
        let found = self.find(
            &reference.api_version,
            &reference.kind,
            reference.namespace.as_deref(),
            &reference.name,
        );
        found?.json().ok()
    }

    /// The Secret of a reference, if it exists.
    pub(crate) fn referenced_secret(&self, reference: SecretReference<'_>) -> Option<&Object> {
        let secret = self.find("v1", "Secret", Some(reference.namespace), reference.name);
        secret.and_then(|secret| secret.json().ok())
    }

    fn find(&self, api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Option<&Struct> {
        let identity = Identity::new(api_version, kind, format!("{}/{name}", namespace.unwrap_or_default()));
        self.own.get(&identity).or_else(|| self.shared.objects.get(&identity))
    }

    /// What a Secret holds, if there is one. An error if no Secret may hold it.
    fn secret(&self, namespace: &str, name: &str) -> Result<Option<BTreeMap<String, Bytes>>, String> {
        let Some(secret) = self.referenced_secret(SecretReference { namespace, name }) else {
            return Ok(None);
        };
        secret_data(secret).map(Some).map_err(|error| error.to_string())
    }

    fn select(&self, selector: &ResourceSelector) -> Vec<Struct> {
        let ResourceSelector { api_version, kind, r#match, namespace } = selector;
        if let Some(Match::MatchName(name)) = r#match {
            return self.find(api_version, kind, namespace.as_deref(), name).into_iter().cloned().collect();
        }
        let labels = match r#match {
            Some(Match::MatchLabels(labels)) => Some(&labels.labels),
            _ => None,
        };
        let namespace = namespace.as_deref().unwrap_or_default();
        let matches = |object: &Object| {
            let labels = labels.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
            (namespace.is_empty() || meta::namespace(object) == namespace)
                && meta::matches_labels(object, labels)
        };
        let first = Identity::new(api_version, kind, String::new());
        let of_kind = |objects: &'_ BTreeMap<Identity, Struct>| -> BTreeMap<Identity, Struct> {
            let same_kind = objects
                // The empty key sorts before all names of the kind.
                .range(first.clone()..)
                .take_while(|(identity, _)| identity.api_version == *api_version && identity.kind == *kind);
            let matching = same_kind.filter(|(_, object)| object.json().is_ok_and(matches));
            matching.map(|(identity, object)| (identity.clone(), object.clone())).collect()
        };
        // Sorted by namespace and name, as functions expect them; what is one's own wins.
        let mut selected = of_kind(&self.shared.objects);
        selected.extend(of_kind(&self.own));
        selected.into_values().collect()
    }

    fn schema(&self, api_version: &str, kind: &str) -> Answer {
        // Held while the schema is made: composite resources that are rendered at once ask for the same ones, and it is work.
        let mut answered = self.shared.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (api_version.to_owned(), kind.to_owned());
        answered.entry(key).or_insert_with(|| self.shared.find_schema(api_version, kind)).clone()
    }

    /// Whether objects of a kind live in namespaces. Of custom kinds that is not known; what a namespaced composite resource
    /// composes is taken to be namespaced, as it has to be.
    fn scope(&self, group: &str, kind: &str) -> Answer {
        let known = self.shared.knows_scopes.then(|| scope_of(group, kind)).flatten();
        match (self.composite_scope, known) {
            // Unknown kinds count as namespaced here, because nothing else could be composed; an API server refuses what is not.
            (CompositeScope::Namespaced, known) => {
                Answer::Scope { is_namespaced: known != Some(Scope::Cluster) }
            }
            (CompositeScope::Cluster, Some(known)) => {
                Answer::Scope { is_namespaced: known != Scope::Cluster }
            }
            // A guess could render into a namespace what the plane would not, or the other way around.
            (CompositeScope::Cluster | CompositeScope::Unknown, _) => {
                Answer::Failed("the files do not define the scope of the kind".to_owned())
            }
        }
    }

    /// Objects of a kind that has to be cluster scoped. Of custom kinds that is not known, but the objects themselves say whether
    /// they are in a namespace.
    fn select_cluster_scoped(&self, selector: &ResourceSelector) -> Answer {
        match scope_of(meta::group(&selector.api_version), &selector.kind) {
            Some(Scope::Namespaced) => Answer::Scope { is_namespaced: true },
            _ => Answer::Resources(self.select(selector)),
        }
    }

    fn answer(&self, want: &Want) -> Answer {
        match want {
            Want::Resources(selector) => Answer::Resources(self.select(selector)),
            Want::ClusterResources(selector) => self.select_cluster_scoped(selector),
            Want::Schema(selector) => self.schema(&selector.api_version, &selector.kind),
            Want::Secret { namespace, name } => {
                self.secret(namespace, name).map_or_else(Answer::Failed, Answer::Secret)
            }
            Want::Scope { api_version, kind } => self.scope(meta::group(api_version), kind),
        }
    }
}

/// Whether objects of one of Kubernetes' own kinds live in namespaces. An API server would refuse those that do not to a namespaced
/// composite resource, so rendering has to say so.
fn scope_of(group: &str, kind: &str) -> Option<Scope> {
    resources().iter().find(|it| it.group == group && it.kind == kind).map(|it| it.scope)
}

impl Resources for ClusterState {
    async fn fetch(&self, want: &Want) -> Answer {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(want.clone());
        self.answer(want)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_kubernetes_have_the_scope_that_an_api_server_gives_them() {
        for (group, kind) in [
            ("", "Namespace"),
            ("certificates.k8s.io", "CertificateSigningRequest"),
            ("networking.k8s.io", "IPAddress"),
            ("networking.k8s.io", "ServiceCIDR"),
            ("rbac.authorization.k8s.io", "ClusterRole"),
            ("storage.k8s.io", "VolumeAttributesClass"),
        ] {
            assert!(scope_of(group, kind) == Some(Scope::Cluster), "{kind}");
        }
        for (group, kind) in [("", "ConfigMap"), ("apps", "Deployment"), ("example.org", "Namespace")] {
            assert!(scope_of(group, kind) != Some(Scope::Cluster), "{kind}");
        }
    }
}
