//! The cluster as files describe it: what functions may ask to see.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::anyhow;
use base64::Engine as _;
use bytes::Bytes;
use ferroplane_api::{Object, meta};
use ferroplane_engine::{Answer, Reference, Want, inlined_schema};
use ferroplane_runner::Resources;
use ferroplane_wire::v1::ResourceSelector;
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::{Struct, StructError};
use serde_json::Value;

use super::scopes;

/// Everything that exists: what all composite resources share, and what is one's own.
#[derive(Debug)]
pub(crate) struct ClusterState {
    shared: Arc<SharedState>,
    own: BTreeMap<Identity, Struct>,
    asked: Mutex<Vec<Want>>,
}

/// What all composite resources may see.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    objects: BTreeMap<Identity, Struct>,
    /// OpenAPI v3 documents.
    schemas: Vec<Value>,
    /// What was answered about a version and kind. Making a schema stand on its own is work.
    answered: Mutex<BTreeMap<(String, String), Answer>>,
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
    pub(crate) fn add(&mut self, object: Object) -> Result<(), StructError> {
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
        Self { shared, own: BTreeMap::new(), asked: Mutex::default() }
    }

    /// Let an object exist in this cluster alone.
    pub(crate) fn add(&mut self, object: Object) -> Result<(), StructError> {
        self.own.insert(Identity::of(&object), Struct::try_from(object)?);
        Ok(())
    }

    /// Everything that was asked so far, in order.
    pub(crate) fn asked(&self) -> Vec<Want> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The object a reference leads to.
    pub(crate) fn get(&self, reference: &Reference) -> Option<&Object> {
        let found = self.find(
            &reference.api_version,
            &reference.kind,
            reference.namespace.as_deref(),
            &reference.name,
        );
        found?.json().ok()
    }

    /// What the connection secret of an object holds. Nothing if there is none.
    pub(crate) fn connection_details(&self, object: &Object) -> anyhow::Result<BTreeMap<String, Bytes>> {
        let reference = object.get("spec").and_then(|spec| spec.get("writeConnectionSecretToRef"));
        let text = |key| reference.and_then(|reference| reference.get(key)?.as_str()).unwrap_or_default();
        let own = meta::namespace(object);
        let namespace = if own.is_empty() { text("namespace") } else { own };
        let details = self.secret(namespace, text("name")).map_err(|reason| {
            let (kind, name) = (meta::kind(object), meta::name(object));
            anyhow!("cannot read the connection secret of {kind} `{name}`: {reason}")
        });
        Ok(details?.unwrap_or_default())
    }

    fn find(&self, api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Option<&Struct> {
        let identity = Identity::new(api_version, kind, format!("{}/{name}", namespace.unwrap_or_default()));
        self.own.get(&identity).or_else(|| self.shared.objects.get(&identity))
    }

    /// What a Secret holds, if there is one. An error if no Secret may hold it.
    fn secret(&self, namespace: &str, name: &str) -> Result<Option<BTreeMap<String, Bytes>>, String> {
        let secret = self.find("v1", "Secret", Some(namespace), name);
        let Some(secret) = secret.and_then(|secret| secret.json().ok()) else { return Ok(None) };
        let entries = |field| secret.get(field).and_then(Value::as_object).into_iter().flatten();
        let mut data = BTreeMap::new();
        for (key, value) in entries("data") {
            let decoded = value.as_str().and_then(decode);
            data.insert(key.clone(), decoded.ok_or_else(|| format!("its `data.{key}` is not base64"))?);
        }
        // What was written in clear is stored encoded.
        for (key, value) in entries("stringData") {
            let clear = value.as_str().ok_or_else(|| format!("its `stringData.{key}` is not text"))?;
            data.insert(key.clone(), clear.to_owned().into());
        }
        Ok(Some(data))
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
        let mut answered = self.shared.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (api_version.to_owned(), kind.to_owned());
        answered.entry(key).or_insert_with(|| self.shared.find_schema(api_version, kind)).clone()
    }

    fn answer(&self, want: &Want) -> Answer {
        match want {
            Want::Resources(selector) => Answer::Resources(self.select(selector)),
            Want::Schema(selector) => self.schema(&selector.api_version, &selector.kind),
            Want::Secret { namespace, name } => {
                self.secret(namespace, name).map_or_else(Answer::Failed, Answer::Secret)
            }
            Want::Scope { api_version, kind } => Answer::Scope {
                is_namespaced: !(self.shared.knows_scopes
                    && scopes::is_cluster_scoped(meta::group(api_version), kind)),
            },
        }
    }
}

/// Bytes from base64, which may be broken into lines.
fn decode(text: &str) -> Option<Bytes> {
    let text: String = text.chars().filter(|letter| !['\r', '\n'].contains(letter)).collect();
    Some(base64::engine::general_purpose::STANDARD.decode(text).ok()?.into())
}

impl Resources for ClusterState {
    async fn fetch(&self, want: &Want) -> Answer {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(want.clone());
        self.answer(want)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(mut content: Value) -> Result<Option<BTreeMap<String, Bytes>>, String> {
        content["apiVersion"] = "v1".into();
        content["kind"] = "Secret".into();
        content["metadata"] = json!({"name": "cloud", "namespace": "secrets"});
        let mut cluster = ClusterState::new(Arc::new(SharedState::default()));
        cluster.add(content.as_object().unwrap().clone()).unwrap();
        cluster.secret("secrets", "cloud")
    }

    #[test]
    fn secrets_are_decoded() {
        let data =
            secret(json!({"data": {"a": "dG9r\nZW4="}, "stringData": {"b": "clear"}})).unwrap().unwrap();
        assert_eq!(
            data,
            BTreeMap::from([("a".to_owned(), "token".into()), ("b".to_owned(), "clear".into())])
        );
    }

    #[test]
    fn secret_that_no_cluster_would_hold_is_refused() {
        for value in [json!("not base64!"), json!(1)] {
            assert_eq!(secret(json!({"data": {"a": value}})).unwrap_err(), "its `data.a` is not base64");
        }
    }
}
