//! Registers our webhooks on the API server.

use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Error, ObjectPath, Resource, Subresource};
use serde_json::{Value, json};

use crate::apiextensions::advisor;
use crate::protection::admission;

const MANAGER: &str = "ferroplane/webhooks";

/// The state of an object that we want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Missing,
    /// It exists, but differs.
    Different,
    Same,
    /// It exists, was written by a newer version of this program, and is left as it is.
    Newer,
    /// It exists, belongs to another program that uses it, and is left as it is.
    Foreign,
}

/// The configurations of our webhooks, with the addresses (a `clientConfig`) of their paths.
pub fn webhooks(address: impl Fn(&str) -> Value) -> [Object; 2] {
    [
        configuration(admission::CONFIGURATION, admission::hooks(&address(admission::PATH))),
        configuration(advisor::CONFIGURATION, advisor::hooks(&address(advisor::PATH))),
    ]
}

pub(crate) fn configuration(name: &str, webhooks: Vec<Value>) -> Object {
    let resource = configurations();
    let mut configuration = Object::new();
    configuration.insert("metadata".to_owned(), json!({"name": name}));
    configuration.insert("webhooks".to_owned(), Value::Array(webhooks));
    resource.add_kind(&mut configuration);
    configuration
}

/// Register a webhook, unless it is registered already.
pub async fn announce(cluster: &ApiClient, configuration: &Object) -> Result<(), Error> {
    let resource = configurations();
    let target = ObjectPath { resource: &resource, namespace: "", name: meta::name(configuration) };
    match standing(cluster, configuration).await? {
        Standing::Same | Standing::Newer | Standing::Foreign => Ok(()),
        // Applied, not created: RBAC can limit an apply to one name, and a create it cannot.
        Standing::Missing => {
            cluster.apply(target, Subresource::None, MANAGER, configuration).await.map(|_| ())
        }
        // The existing one has to be deleted: an address is a URL or a Service, and a merge would have both.
        Standing::Different => {
            let patch = json!({"webhooks": configuration.get("webhooks")});
            cluster.merge(target, Subresource::None, &patch).await.map(|_| ())
        }
    }
}

/// Whether a webhook is configured.
pub async fn standing(cluster: &ApiClient, configuration: &Object) -> Result<Standing, Error> {
    let resource = configurations();
    let target = ObjectPath { resource: &resource, namespace: "", name: meta::name(configuration) };
    let Some(present) = cluster.get_object(target).await? else { return Ok(Standing::Missing) };
    let wanted = configuration.get("webhooks").unwrap_or(&Value::Null);
    let is_there = holds(present.get("webhooks"), wanted);
    Ok(if is_there { Standing::Same } else { Standing::Different })
}

pub(crate) fn configurations() -> Resource {
    Resource {
        api_version: "admissionregistration.k8s.io/v1".to_owned(),
        kind: "ValidatingWebhookConfiguration".to_owned(),
        plural: "validatingwebhookconfigurations".to_owned(),
        is_namespaced: false,
    }
}

/// Whether everything that is wanted exists already. Fields that the server adds do not matter.
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
