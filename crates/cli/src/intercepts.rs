//! `FunctionIntercept`s on a control plane: creates one, renews it, reads its status, and removes it.

pub(crate) mod certificates;
pub(crate) mod drawing;

use anyhow::Context as _;
use ferroplane_api::{FunctionInterceptSpec, FunctionInterceptStatus, Object, keys, meta};
use ferroplane_client::{ApiClient, ObjectPath, Propagation, Resource, Subresource};
use serde_json::{Value, json};

const MANAGER: &str = "ferroplane-intercept";

/// An intercept that was made, and goes when it is no longer renewed.
#[derive(Debug)]
pub(crate) struct Intercept {
    client: ApiClient,
    pub(crate) name: String,
    uid: String,
    renewals: i64,
    round: i64,
}

/// What is known of an intercept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) status: FunctionInterceptStatus,
    /// Whether calls are sent. None before the control plane has reconciled it.
    pub(crate) is_active: Option<bool>,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Intercept {
    pub(crate) async fn make(client: ApiClient, spec: &FunctionInterceptSpec) -> anyhow::Result<Self> {
        let client = client.with_field_manager(MANAGER);
        let resource = resource();
        let object = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {"generateName": format!("{}-", spec.function_ref.name)}, "spec": spec,
        });
        let object = object.as_object().cloned().unwrap_or_default();
        let made =
            client.create(&resource, "", &object).await.context("cannot create a FunctionIntercept")?;
        let made: Object = serde_json::from_slice(&made).context("cannot read the FunctionIntercept")?;
        let (name, uid) = (meta::name(&made).to_owned(), meta::uid(&made).to_owned());
        Ok(Self { client, name, uid, renewals: 0, round: 0 })
    }

    /// Its status. None if it was deleted.
    pub(crate) async fn look(&self) -> anyhow::Result<Option<Seen>> {
        let resource = resource();
        let path = ObjectPath { resource: &resource, namespace: "", name: &self.name };
        let found = self.client.get_object(path).await.context("cannot read the FunctionIntercept")?;
        Ok(found.filter(|it| meta::uid(it) == self.uid && !meta::is_being_deleted(it)).map(|it| seen(&it)))
    }

    /// Let it hold for longer.
    pub(crate) async fn renew(&mut self) -> anyhow::Result<()> {
        self.renewals += 1;
        self.change(&json!({"spec": {"renewals": self.renewals}})).await
    }

    /// Have composite resources asked about again.
    pub(crate) async fn ask_again(&mut self) -> anyhow::Result<()> {
        self.round += 1;
        self.change(&json!({"spec": {"round": self.round}})).await
    }

    async fn change(&self, change: &Value) -> anyhow::Result<()> {
        let resource = resource();
        let path = ObjectPath { resource: &resource, namespace: "", name: &self.name };
        let changed = self.client.merge(path, Subresource::None, change).await;
        changed.map(drop).context("cannot renew the FunctionIntercept")
    }

    /// End it at once. A user who cannot need not: it ends when it is not renewed.
    pub(crate) async fn remove(&self) -> anyhow::Result<()> {
        let resource = resource();
        let path = ObjectPath { resource: &resource, namespace: "", name: &self.name };
        match self.client.delete(path, Some(&self.uid), Propagation::Background).await {
            Err(error) if !error.is_not_found() => Err(error).context("cannot remove the FunctionIntercept"),
            _ => Ok(()),
        }
    }
}

fn seen(object: &Object) -> Seen {
    let status = object.get("status").cloned().unwrap_or_default();
    let conditions = status.get("conditions").and_then(Value::as_array);
    let active = conditions.into_iter().flatten().find(|condition| condition["type"] == "Active");
    let text = |field: &str| active.and_then(|it| it[field].as_str()).unwrap_or_default().to_owned();
    Seen {
        is_active: active.map(|active| active["status"] == "True"),
        reason: text("reason"),
        message: text("message"),
        status: serde_json::from_value(status.clone()).unwrap_or_default(),
    }
}

fn resource() -> Resource {
    Resource {
        api_version: format!("{}/v1alpha1", keys::ROLLOUT),
        kind: "FunctionIntercept".to_owned(),
        plural: "functionintercepts".to_owned(),
        is_namespaced: false,
    }
}
