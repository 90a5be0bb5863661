//! `FunctionRollout`s on a control plane: reads and changes them.

use anyhow::Context as _;
use ferroplane_api::{FunctionRolloutStatus, Object, keys, meta};
use ferroplane_client::{ApiClient, ObjectPath, Query, Resource, Subresource};
use serde_json::Value;

use crate::client::Access;

const MANAGER: &str = "ferroplane-rollout";

/// The rollouts of a control plane.
pub(crate) struct Rollouts {
    client: ApiClient,
    server: String,
}

impl Rollouts {
    pub(crate) fn connect(access: &Access) -> anyhow::Result<Self> {
        let connection = access.connect()?;
        Ok(Self { client: connection.client.with_field_manager(MANAGER), server: connection.server })
    }

    /// A rollout, which must be there.
    pub(crate) async fn get(&self, name: &str) -> anyhow::Result<Object> {
        let resource = resource();
        let path = ObjectPath { resource: &resource, namespace: "", name };
        let found = self.client.get_object(path).await;
        let found =
            found.with_context(|| format!("cannot read FunctionRollout `{name}` from {}", self.server))?;
        found.with_context(|| format!("there is no FunctionRollout `{name}`"))
    }

    /// All rollouts, by name.
    pub(crate) async fn list(&self) -> anyhow::Result<Vec<Object>> {
        let list = self.client.list_objects(&resource(), "", &Query::default()).await;
        let mut list = list.with_context(|| format!("cannot list FunctionRollouts of {}", self.server))?;
        list.sort_by(|one, other| meta::name(one).cmp(meta::name(other)));
        Ok(list)
    }

    /// Change fields of a rollout.
    pub(crate) async fn change(&self, name: &str, change: &Value) -> anyhow::Result<()> {
        let resource = resource();
        let path = ObjectPath { resource: &resource, namespace: "", name };
        let changed = self.client.merge(path, Subresource::None, change).await;
        changed.map(drop).with_context(|| format!("cannot change FunctionRollout `{name}`"))
    }
}

/// What a rollout says about itself.
pub(crate) fn status(rollout: &Object) -> FunctionRolloutStatus {
    let status = rollout.get("status").cloned().unwrap_or_default();
    serde_json::from_value(status).unwrap_or_default()
}

/// What a rollout is for.
pub(crate) fn target(rollout: &Object) -> String {
    let target = ferroplane_engine::rollout::target_of(rollout);
    format!("{}/{}", target.kind(), target.name())
}

/// Why a rollout is not acted on, if it is not.
pub(crate) fn refusal(rollout: &Object) -> Option<&str> {
    let conditions = rollout.get("status").and_then(|status| status.get("conditions")?.as_array());
    let accepted = conditions.into_iter().flatten().find(|condition| condition["type"] == "Accepted")?;
    if accepted["status"] == "True" { None } else { accepted["message"].as_str() }
}

fn resource() -> Resource {
    Resource {
        api_version: format!("{}/v1alpha1", keys::ROLLOUT),
        kind: "FunctionRollout".to_owned(),
        plural: "functionrollouts".to_owned(),
        is_namespaced: false,
    }
}
