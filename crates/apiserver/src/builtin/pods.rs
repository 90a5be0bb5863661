//! What is done to pods through subresources: eviction, binding to a node.
//!
//! Follows Kubernetes 1.36.4, `pkg/registry/core/pod/storage/{eviction,storage}.go`.

use ferroplane_golang::json::JsonObject;
use ferroplane_schema::selector::LabelSelector;
use ferroplane_schema::status::{Cause, Details, Resource, Status};
use ferroplane_schema::writes::Part;
use serde_json::{Value, json};

use crate::clock;
use crate::server::ServerState;
use crate::store::{Change, Draft, Entry, Expect, Operation, SubmitError};

const PODS: &str = "/pods";
const BUDGETS: &str = "policy/poddisruptionbudgets";
/// How often something that others keep overtaking is tried.
const ATTEMPTS: usize = 10;

impl ServerState {
    /// Asks the budgets of a pod whether it may be evicted, and takes it from them. The deletion is for the caller to do.
    pub(crate) async fn allow_eviction(
        &self,
        namespace: &str,
        name: &str,
        is_dry_run: bool,
    ) -> Result<(), Status> {
        let pod = self.pod(namespace, name)?;
        let object: Value = read(&pod)?;
        // What does not run, or is going already, disrupts nothing.
        let is_running =
            !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"));
        if !is_running || pod.metadata().is_terminating {
            return Ok(());
        }
        match self.budgets_of(&object, namespace)?.as_slice() {
            [] => Ok(()),
            [budget] => self.spend(budget, name, is_dry_run).await,
            _ => Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            )),
        }
    }

    fn budgets_of(&self, pod: &Value, namespace: &str) -> Result<Vec<Value>, Status> {
        let labels = pod["metadata"]["labels"].as_object();
        let snapshot = self.store.snapshot(&self.store.collection(BUDGETS));
        let mut found = Vec::new();
        for entry in snapshot.range(Some(namespace), None) {
            let budget = read(entry)?;
            let selector = LabelSelector::from_object(&budget["spec"]["selector"])
                .map_err(|why| Status::internal(&why))?;
            if selector.matches(|name| labels?.get(name)?.as_str()) {
                found.push(budget);
            }
        }
        Ok(found)
    }

    /// Takes one disruption from a budget, if it has one left.
    async fn spend(&self, budget: &Value, pod: &str, is_dry_run: bool) -> Result<(), Status> {
        let (metadata, status) = (&budget["metadata"], &budget["status"]);
        let name = metadata["name"].as_str().unwrap_or_default();
        let observed = status["observedGeneration"].as_i64().unwrap_or(0);
        // No controller of ours counts healthy pods. Without one that does, a budget says nothing, and to wait for it would be
        // to wait for ever.
        if observed == 0 {
            return Ok(());
        }
        if observed < metadata["generation"].as_i64().unwrap_or(0) {
            return Err(refused(&format!(
                "The disruption budget {name} is still being processed by the server."
            )));
        }
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        if number("disruptionsAllowed") <= 0 {
            return Err(refused(&format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                number("desiredHealthy"),
                number("currentHealthy")
            )));
        }
        if is_dry_run {
            return Ok(());
        }
        let Some(resource) = self.find("policy", "poddisruptionbudgets") else { return Ok(()) };
        let patch = json!({
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": {
                "disruptionsAllowed": number("disruptionsAllowed") - 1,
                "disruptedPods": {pod: clock::timestamp()},
            },
        });
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        self.patch(&resource, Part::Status, namespace, name, &patch).await.map(drop)
    }

    /// Assigns a pod to a node.
    pub(crate) async fn bind(&self, namespace: &str, name: &str, binding: &JsonObject) -> Result<(), Status> {
        let target = binding.get("target").unwrap_or(&Value::Null);
        let node = target["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Err(Status::bad_request("Binding.target.name: Required value"));
        }
        if !matches!(target["kind"].as_str(), None | Some("" | "Node")) {
            return Err(Status::bad_request(
                "Binding.target.kind: Unsupported value: supported values: \"Node\", \"<empty>\"",
            ));
        }
        for _ in 0..ATTEMPTS {
            let pod = self.pod(namespace, name)?;
            let mut object = read(&pod)?;
            let conflict = |why: &str| Status::conflict(&Resource::new("", "pods/binding"), name, why);
            if pod.metadata().is_terminating {
                return Err(conflict(&format!("pod {name} is being deleted, cannot be assigned to a host")));
            }
            if let Some(other) = object["spec"]["nodeName"].as_str().filter(|other| !other.is_empty()) {
                return Err(conflict(&format!("pod {name} is already assigned to node {other:?}")));
            }
            assign(&mut object, node);
            let Value::Object(object) = object else {
                return Err(Status::internal("the stored pod is not an object"));
            };
            let draft = Draft::new(&object).map_err(|error| Status::internal(&error.to_string()))?;
            let expect = Expect::Revision(pod.revision());
            let operation = Operation { key: pod.key().clone(), expect, change: Change::Put(draft) };
            match self.store.submit(vec![operation]).await {
                Ok(_) => return Ok(()),
                Err(SubmitError::Refused(_)) => {}
                Err(error) => return Err(crate::verbs::storage_failure(&error)),
            }
        }
        Err(Status::modified(&Resource::new("", "pods"), name))
    }

    fn pod(&self, namespace: &str, name: &str) -> Result<std::sync::Arc<Entry>, Status> {
        let key = self.store.collection(PODS).key(namespace, name);
        self.store.get(&key).ok_or_else(|| Status::not_found(&Resource::new("", "pods"), name))
    }
}

fn read(entry: &Entry) -> Result<Value, Status> {
    serde_json::from_slice(entry.bytes()).map_err(|error| Status::internal(&error.to_string()))
}

/// Says of a pod on which node it is.
fn assign(pod: &mut Value, node: &str) {
    pod["spec"]["nodeName"] = node.into();
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": clock::timestamp(),
    });
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = pod["status"]["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
        Some(known) => *known = scheduled,
        None => conditions.push(scheduled),
    }
}

/// The budget does not allow it now.
fn refused(why: &str) -> Status {
    let words = "Cannot evict pod as it would violate the pod's disruption budget.";
    let cause = Cause { reason: "DisruptionBudget".to_owned(), message: why.to_owned(), ..Cause::default() };
    let details = Details { causes: vec![cause], ..Details::default() };
    Status { details: Some(Box::new(details)), ..Status::too_many_requests(words, 0) }
}
