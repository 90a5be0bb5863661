//! Has the API server ask us before it writes or deletes something.

use serde_json::{Value, json};

use crate::cluster::{Cluster, Error, Part, Place, Resource};

const MANAGER: &str = "ferroplane/webhooks";

/// Configure a validating webhook, unless it is there already.
pub(crate) async fn announce(cluster: &Cluster, name: &str, webhook: Value) -> Result<(), Error> {
    let resource = Resource {
        api_version: "admissionregistration.k8s.io/v1".to_owned(),
        kind: "ValidatingWebhookConfiguration".to_owned(),
        plural: "validatingwebhookconfigurations".to_owned(),
        is_namespaced: false,
    };
    let place = Place { resource: &resource, namespace: "", name };
    let configuration = json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "webhooks": [webhook],
    });
    let present = cluster.get_object(place).await?;
    let is_there = present.is_some_and(|present| holds(present.get("webhooks"), &configuration["webhooks"]));
    let Value::Object(configuration) = configuration else { return Ok(()) };
    if !is_there {
        cluster.apply(place, Part::Whole, MANAGER, &configuration).await?;
    }
    Ok(())
}

/// Whether everything that is wanted is there already. What the server adds does not matter.
fn holds(present: Option<&Value>, wanted: &Value) -> bool {
    match (present, wanted) {
        (Some(Value::Object(present)), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| holds(present.get(key), value))
        }
        (Some(Value::Array(present)), Value::Array(wanted)) => {
            present.len() == wanted.len()
                && present.iter().zip(wanted).all(|(present, wanted)| holds(Some(present), wanted))
        }
        (present, wanted) => present == Some(wanted),
    }
}
