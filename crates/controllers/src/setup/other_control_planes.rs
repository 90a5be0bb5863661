//! Finds other control planes on a cluster: a Crossplane, or the controllers of an embedded plane. Changes nothing.

use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Error, LabelSelector, ObjectPath, Query, Resource};
use ferroplane_engine::Lease;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::webhook;
use crate::protection::admission;

/// The lease that Crossplane's core and we use, and the one of its RBAC manager.
pub const LEASE: &str = "crossplane-leader-election-core";
const RBAC_LEASE: &str = "crossplane-leader-election-rbac";
/// The prefix of our identities.
pub const IDENTITY: &str = "ferroplane_";
/// The domain of webhooks of an embedded plane.
const EMBEDDED: &str = ".ferroplane.internal";

/// A holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Led {
    pub namespace: String,
    pub lease: String,
    pub holder: String,
    /// Whether the lease was renewed recently, as far as the clocks of two machines allow to compare.
    pub is_fresh: bool,
}

/// A Deployment of Crossplane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployed {
    pub namespace: String,
    pub name: String,
    pub replicas: i64,
}

/// The other control planes on a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherControlPlanes {
    pub led: Vec<Led>,
    pub deployed: Vec<Deployed>,
    /// Whether controllers run, or ran, in the process of the API server.
    pub is_embedded: bool,
}

impl Led {
    /// Whether it is one of ours.
    pub fn is_ours(&self) -> bool {
        self.holder.starts_with(IDENTITY)
    }
}

impl OtherControlPlanes {
    /// Why another control plane must not start here, and what to do about it.
    pub fn objection(&self) -> Option<String> {
        if self.is_embedded {
            return Some(format!(
                "this API server belongs to `ferroplane up`, whose own controllers work on it; start it with --no-controllers and `kubectl delete validatingwebhookconfiguration {}` first",
                admission::CONFIGURATION
            ));
        }
        let running: Vec<_> = self.deployed.iter().filter(|deployed| deployed.replicas > 0).collect();
        if !running.is_empty() {
            let lines = running.iter().map(|Deployed { namespace, name, .. }| {
                format!("\n    kubectl --namespace {namespace} scale deployment {name} --replicas 0")
            });
            let lines: String = lines.collect();
            return Some(format!(
                "Crossplane runs on this cluster, and two control planes would fight over the same objects; stop it first:{lines}"
            ));
        }
        let led = self.led.iter().find(|led| led.is_fresh && !led.is_ours())?;
        let Led { namespace, lease, holder, .. } = led;
        Some(format!(
            "Crossplane runs on this cluster: `{holder}` holds the lease `{lease}` in the namespace `{namespace}`; stop it first, and wait until the lease has ended"
        ))
    }
}

/// Find other control planes on a cluster, as far as we may read.
pub async fn find_other_control_planes(
    cluster: &ApiClient,
    namespace: &str,
    now: Timestamp,
) -> Result<OtherControlPlanes, Error> {
    let mut led = Vec::new();
    for lease in [LEASE, RBAC_LEASE] {
        let found = leases_called(cluster, lease, namespace).await?;
        led.extend(found.iter().filter_map(|lease| read_lease(lease, now)));
    }
    let labels = [("app", "crossplane")].into_iter().collect::<LabelSelector>();
    let kind = deployments();
    let everywhere = Query { labels: Some(&labels), ..Query::default() };
    let mut deployments = list(cluster, &kind, "", &everywhere).await?.unwrap_or_default();
    // One that was installed in another way is at least in the same namespace.
    deployments.extend(list(cluster, &kind, namespace, &Query::default()).await?.unwrap_or_default());
    let mut deployed: Vec<_> =
        deployments.iter().filter(|it| is_crossplane(it)).map(read_deployment).collect();
    deployed.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    deployed.dedup();
    Ok(OtherControlPlanes { led, deployed, is_embedded: is_embedded(cluster).await? })
}

/// The leases of a name: in all namespaces if we may list them, else in one.
async fn leases_called(cluster: &ApiClient, name: &str, namespace: &str) -> Result<Vec<Object>, Error> {
    let (resource, fields) = (leases(), format!("metadata.name={name}"));
    let query = Query { fields: Some(&fields), ..Query::default() };
    if let Some(leases) = list(cluster, &resource, "", &query).await? {
        return Ok(leases);
    }
    match cluster.get_object(ObjectPath { resource: &resource, namespace, name }).await {
        Err(error) if error.is_forbidden() => Ok(Vec::new()),
        lease => Ok(lease?.into_iter().collect()),
    }
}

/// Empty if we may not list them.
async fn list(
    cluster: &ApiClient,
    resource: &Resource,
    namespace: &str,
    query: &Query<'_>,
) -> Result<Option<Vec<Object>>, Error> {
    match cluster.list_objects(resource, namespace, query).await {
        // A cluster without nodes need not have the kind.
        Err(error) if error.is_not_found() => Ok(Some(Vec::new())),
        Err(error) if error.is_forbidden() => Ok(None),
        objects => objects.map(Some),
    }
}

fn read_lease(object: &Object, now: Timestamp) -> Option<Led> {
    let lease = Lease::read(object.get("spec")?);
    if lease.holder.is_empty() {
        return None;
    }
    let age = lease.renewed.parse::<Timestamp>().map(|renewed| now.duration_since(renewed));
    let duration = SignedDuration::try_from(lease.duration).unwrap_or(SignedDuration::MAX);
    Some(Led {
        namespace: meta::namespace(object).to_owned(),
        lease: meta::name(object).to_owned(),
        holder: lease.holder,
        is_fresh: age.is_ok_and(|age| age < duration),
    })
}

/// Whether it runs Crossplane's core, or its RBAC manager, under any name.
fn is_crossplane(deployment: &Object) -> bool {
    let pod = deployment.get("spec").map_or(&Value::Null, |spec| &spec["template"]["spec"]);
    let containers = pod["containers"].as_array().into_iter().flatten();
    containers.into_iter().any(|container| {
        let words = ["command", "args"].map(|key| container[key].as_array().cloned().unwrap_or_default());
        let words: Vec<_> = words.iter().flatten().filter_map(Value::as_str).collect();
        words.windows(2).any(|pair| matches!(pair, ["core" | "rbac", "start"]))
    })
}

fn read_deployment(deployment: &Object) -> Deployed {
    Deployed {
        namespace: meta::namespace(deployment).to_owned(),
        name: meta::name(deployment).to_owned(),
        replicas: deployment.get("spec").and_then(|spec| spec["replicas"].as_i64()).unwrap_or(1),
    }
}

/// Whether webhooks are served by the process of the API server.
async fn is_embedded(cluster: &ApiClient) -> Result<bool, Error> {
    let resource = webhook::configurations();
    let path = ObjectPath { resource: &resource, namespace: "", name: admission::CONFIGURATION };
    let present = match cluster.get_object(path).await {
        Err(error) if error.is_forbidden() => return Ok(false),
        present => present?,
    };
    let url =
        present.as_ref().and_then(|present| present.get("webhooks")?[0]["clientConfig"]["url"].as_str());
    let host =
        url.and_then(|url| url.parse::<http::Uri>().ok()).and_then(|url| url.host().map(str::to_owned));
    Ok(host.is_some_and(|host| host.ends_with(EMBEDDED)))
}

fn leases() -> Resource {
    Resource {
        api_version: "coordination.k8s.io/v1".to_owned(),
        kind: "Lease".to_owned(),
        plural: "leases".to_owned(),
        is_namespaced: true,
    }
}

fn deployments() -> Resource {
    Resource {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        plural: "deployments".to_owned(),
        is_namespaced: true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(replicas: &Value, args: &Value) -> Object {
        let pod = json!({"containers": [{"name": "x"}, {"name": "core", "args": args}]});
        let spec = json!({"replicas": replicas, "template": {"spec": pod}});
        let Value::Object(object) =
            json!({"metadata": {"name": "crossplane", "namespace": "there"}, "spec": spec})
        else {
            panic!("it is an object")
        };
        object
    }

    #[test]
    fn crossplane_is_known_by_what_it_runs() {
        assert!(is_crossplane(&deployment(&json!(1), &json!(["core", "start", "--debug"]))));
        assert!(is_crossplane(&deployment(&json!(1), &json!(["rbac", "start"]))));
        assert!(!is_crossplane(&deployment(&json!(1), &json!(["start", "--debug"]))));
        assert!(!is_crossplane(&deployment(&json!(1), &json!("core start"))));
    }

    #[test]
    fn objection_says_what_to_do() {
        let running = read_deployment(&deployment(&Value::Null, &json!(["core", "start"])));
        let neighbours = OtherControlPlanes { deployed: vec![running], ..OtherControlPlanes::default() };
        let objection = neighbours.objection().unwrap();
        let line = "kubectl --namespace there scale deployment crossplane --replicas 0";
        assert!(objection.contains(line), "{objection}");
        let scaled = read_deployment(&deployment(&json!(0), &json!(["core", "start"])));
        assert_eq!(
            OtherControlPlanes { deployed: vec![scaled], ..OtherControlPlanes::default() }.objection(),
            None
        );
    }

    #[test]
    fn lease_of_somebody_else_counts_while_it_is_fresh() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| {
            let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": renewed});
            let Value::Object(object) =
                json!({"metadata": {"name": LEASE, "namespace": "there"}, "spec": spec})
            else {
                panic!("it is an object")
            };
            let led = read_lease(&object, now).into_iter().collect();
            OtherControlPlanes { led, ..OtherControlPlanes::default() }.objection()
        };
        assert!(
            lease("crossplane-7d_x", "2026-01-01T00:00:30.000000Z").unwrap().contains("`crossplane-7d_x`")
        );
        assert_eq!(lease("crossplane-7d_x", "2025-12-31T23:59:59.000000Z"), None);
        assert_eq!(lease("ferroplane_a_b", "2026-01-01T00:00:30.000000Z"), None);
        assert_eq!(lease("", "2026-01-01T00:00:30.000000Z"), None);
        assert_eq!(lease("crossplane-7d_x", "yesterday"), None);
    }
}
