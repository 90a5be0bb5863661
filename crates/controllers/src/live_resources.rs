//! Reads required resources from the API server, every time, without watching them.

use std::sync::Arc;

use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, LabelSelector, ObjectPath, Query, Resource};
use ferroplane_engine::composite::secret_data;
use ferroplane_engine::{Answer, Want, chain, inlined_schema};
use ferroplane_runner::Resources;
use ferroplane_wire::Struct;
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::v1::{ResourceSelector, SchemaSelector};
use serde_json::Value;

/// The objects on an API server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveResources<'a>(pub(crate) &'a ApiClient);

impl LiveResources<'_> {
    async fn resources(&self, selector: &ResourceSelector) -> Result<Vec<Struct>, String> {
        let Some(resource) = self.resource(&selector.api_version, &selector.kind).await? else {
            return Err(format!("there is no kind {} in {}", selector.kind, selector.api_version));
        };
        let namespace = selector.namespace.as_deref().unwrap_or_default();
        let objects = match &selector.r#match {
            // No API server has an object of a namespaced kind without a namespace.
            Some(Match::MatchName(_)) if resource.is_namespaced && namespace.is_empty() => Vec::new(),
            Some(Match::MatchName(name)) => {
                let path = ObjectPath { resource: &resource, namespace, name };
                let found = self.0.get_object(path).await.map_err(|error| chain(&error))?;
                found.into_iter().collect()
            }
            Some(Match::MatchLabels(labels)) => {
                let equal = labels.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                let labels = LabelSelector { equal, exists: None };
                self.list(&resource, namespace, &labels).await?
            }
            None => self.list(&resource, namespace, &LabelSelector::default()).await?,
        };
        objects
            .into_iter()
            .map(|object| Struct::try_from(object).map_err(|error| error.to_string()))
            .collect()
    }

    async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        labels: &LabelSelector,
    ) -> Result<Vec<Object>, String> {
        let query = Query { labels: Some(labels), ..Query::default() };
        let mut objects =
            self.0.list_objects(resource, namespace, &query).await.map_err(|error| chain(&error))?;
        objects
            .sort_by_cached_key(|object| (meta::namespace(object).to_owned(), meta::name(object).to_owned()));
        for object in &mut objects {
            // Items of a list have no `apiVersion` and `kind`.
            object.entry("apiVersion").or_insert_with(|| resource.api_version.as_str().into());
            object.entry("kind").or_insert_with(|| resource.kind.as_str().into());
        }
        Ok(objects)
    }

    async fn cluster_resources(&self, selector: &ResourceSelector) -> Result<Answer, String> {
        match self.resource(&selector.api_version, &selector.kind).await? {
            Some(resource) if resource.is_namespaced => Ok(Answer::Scope { is_namespaced: true }),
            _ => self.resources(selector).await.map(Answer::Resources),
        }
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Answer, String> {
        let Some(resource) = self.resource("v1", "Secret").await? else { return Ok(Answer::Secret(None)) };
        let path = ObjectPath { resource: &resource, namespace, name };
        let secret = self.0.get_object(path).await.map_err(|error| chain(&error))?;
        // No API server stores an invalid Secret.
        Ok(Answer::Secret(secret.map(|secret| secret_data(&secret).unwrap_or_default())))
    }

    /// The OpenAPI schema of a kind. None if there is no such kind.
    pub(crate) async fn schema(&self, selector: &SchemaSelector) -> Result<Option<Struct>, String> {
        let SchemaSelector { api_version, kind } = selector;
        let group = if meta::group(api_version).is_empty() { "api" } else { "apis" };
        if self.resource(api_version, kind).await?.is_none() {
            return Ok(None);
        }
        let path = format!("/openapi/v3/{group}/{api_version}");
        let Some(document) = self.0.read(&path).await.map_err(|error| chain(&error))? else {
            return Ok(None);
        };
        let document: Value = serde_json::from_slice(&document).map_err(|error| error.to_string())?;
        match inlined_schema(&document, api_version, kind).map_err(|error| error.to_string())? {
            Some(Value::Object(schema)) => {
                Struct::try_from(schema).map(Some).map_err(|error| error.to_string())
            }
            _ => Ok(None),
        }
    }

    /// Whether a kind is namespaced.
    pub(crate) async fn scope(&self, api_version: &str, kind: &str) -> Result<bool, String> {
        match self.resource(api_version, kind).await? {
            Some(resource) => Ok(resource.is_namespaced),
            None => Err(format!("there is no kind {kind} in {api_version}")),
        }
    }

    pub(crate) async fn resource(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Arc<Resource>>, String> {
        self.0.resource(api_version, kind).await.map_err(|error| chain(&error))
    }
}

impl Resources for LiveResources<'_> {
    async fn fetch(&self, want: &Want) -> Answer {
        let answer = match want {
            Want::Resources(selector) => self.resources(selector).await.map(Answer::Resources),
            Want::ClusterResources(selector) => self.cluster_resources(selector).await,
            Want::Schema(selector) => self.schema(selector).await.map(Answer::Schema),
            Want::Secret { namespace, name } => self.secret(namespace, name).await,
            Want::Scope { api_version, kind } => {
                self.scope(api_version, kind).await.map(|is_namespaced| Answer::Scope { is_namespaced })
            }
        };
        answer.unwrap_or_else(Answer::Failed)
    }
}
