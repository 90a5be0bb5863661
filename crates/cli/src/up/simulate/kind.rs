//! A kind that is simulated: a built-in one, or one that a CRD defines.

use std::time::Duration;

use ferroplane_api::{Object, crds, keys, meta};
use ferroplane_client::{Resource, Subresource};
use serde_json::Value;

use super::custom::{self, Shape};
use super::requests::Requests;
use super::status::{Phase, merge};
use super::workloads::Workload;
use super::{MANAGER, template};

/// A kind that is simulated.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SimulatedKind {
    resource: Resource,
    controller: Controlled,
    /// Where the status is written.
    pub(super) subresource: Subresource,
    /// What is asked for all objects of the kind.
    requests: Requests,
}

/// Whose work is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controlled {
    /// That of Kubernetes' own controllers, and of nodes.
    Workload(Workload),
    /// That of a provider.
    Custom(Shape),
}

/// What to do about an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StatusChange {
    /// It is as it should be, or another controller manages it.
    Rest,
    /// Write this status now.
    Write(Object),
    /// Write this one after some time.
    WriteAfter(Duration, Object),
}

pub(super) fn definitions() -> Resource {
    Resource {
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        is_namespaced: false,
    }
}

impl SimulatedKind {
    pub(super) fn of_workload(workload: Workload, resource: Resource) -> Self {
        let controller = Controlled::Workload(workload);
        Self { resource, controller, subresource: Subresource::Status, requests: Requests::default() }
    }

    /// The kind that a CRD defines. None if something manages it: what XRDs define, and Crossplane's own kinds.
    pub(super) fn of_definition(definition: &Object) -> Option<Self> {
        let (name, spec) = (meta::name(definition), definition.get("spec")?);
        let is_ours = crds::ALL.iter().any(|crd| crd.name() == name);
        if is_ours || is_of_definition(definition) || !is_established(definition) {
            return None;
        }
        let text = |path: &str| spec.pointer(path).and_then(Value::as_str);
        let (group, kind) = (text("/group")?, text("/names/kind")?);
        // Providers count the users of their configuration, and never call it ready.
        if kind.ends_with("ProviderConfig") || kind.ends_with("ProviderConfigUsage") {
            return None;
        }
        let versions = spec.get("versions")?.as_array()?.iter().filter(|version| version["served"] == true);
        // The stored one, which needs no conversion, before any other.
        let version = versions.min_by_key(|version| version["storage"] != true)?;
        let has_subresource = version.pointer("/subresources/status").is_some();
        Some(Self {
            resource: Resource {
                api_version: format!("{group}/{}", version["name"].as_str()?),
                kind: kind.to_owned(),
                plural: text("/names/plural")?.to_owned(),
                is_namespaced: text("/scope") == Some("Namespaced"),
            },
            controller: Controlled::Custom(Shape::of(version)),
            subresource: if has_subresource { Subresource::Status } else { Subresource::None },
            requests: Requests::read(definition),
        })
    }

    pub(super) fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The name that its definition has, or would have.
    pub(super) fn definition_name(&self) -> String {
        format!("{}.{}", self.resource.plural, meta::group(&self.resource.api_version))
    }

    /// What is asked for an object.
    pub(super) fn requests(&self, object: &Object) -> Requests {
        Requests::read(object).or(&self.requests)
    }

    /// What to do about an object, at this time in RFC 3339.
    pub(super) fn next(&self, object: &Object, usual_delay: Duration, now: &str) -> StatusChange {
        let requests = self.requests(object);
        let is_paused = meta::annotation(object, keys::PAUSED) == "true";
        if requests.is_ignored || is_paused || meta::is_being_deleted(object) || self.has_owner(object) {
            return StatusChange::Rest;
        }
        let phase = requests.failure.as_deref().map_or(Phase::Ready, Phase::Failed);
        let Some(mut wanted) = self.status(object, phase, now) else { return StatusChange::Rest };
        if let Some(status) = &requests.status
            && phase == Phase::Ready
        {
            merge(&mut wanted, template::fill(status, object));
        }
        let present = object.get("status").and_then(Value::as_object);
        if present.map_or(wanted.is_empty(), |present| *present == wanted) {
            return StatusChange::Rest;
        }
        let delay = requests.delay.unwrap_or(usual_delay);
        if delay.is_zero() {
            return StatusChange::Write(wanted);
        }
        match self.status(object, Phase::Creating, now) {
            Some(creating) if !self.is_begun(object) => StatusChange::Write(creating),
            _ => StatusChange::WriteAfter(delay, wanted),
        }
    }

    /// None if there is nothing to say of the object.
    fn status(&self, object: &Object, phase: Phase<'_>, now: &str) -> Option<Object> {
        match self.controller {
            Controlled::Workload(workload) => workload.status(object, phase, now),
            Controlled::Custom(shape) => Some(custom::status(object, shape, phase, now)),
        }
    }

    /// Whether it was said that the object is being made.
    fn is_begun(&self, object: &Object) -> bool {
        match self.controller {
            Controlled::Workload(workload) => workload.is_begun(object),
            Controlled::Custom(shape) => custom::is_begun(object, shape),
        }
    }

    /// Whether another user writes the status: a controller that runs somewhere, or a person with `kubectl`.
    fn has_owner(&self, object: &Object) -> bool {
        let managed = object.get("metadata").and_then(|metadata| metadata.get("managedFields")?.as_array());
        let owns_status = |entry: &&Value| match self.subresource {
            Subresource::Status => entry["subresource"] == "status",
            Subresource::None | Subresource::Scale => entry.pointer("/fieldsV1/f:status").is_some(),
        };
        managed.into_iter().flatten().filter(owns_status).any(|entry| entry["manager"] != MANAGER)
    }
}

/// Whether an XRD defines the kind: its objects are composite resources or claims.
fn is_of_definition(definition: &Object) -> bool {
    meta::controller(definition).is_some_and(|owner| {
        meta::group(meta::api_version(owner)) == keys::APIEXTENSIONS
            && meta::kind(owner) == "CompositeResourceDefinition"
    })
}

fn is_established(definition: &Object) -> bool {
    let conditions = definition.get("status").and_then(|status| status.get("conditions")?.as_array());
    let is_established = |it: &Value| it["type"] == "Established" && it["status"] == "True";
    conditions.into_iter().flatten().any(is_established)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::requests::{DELAY, FAILURE, IGNORE, STATUS};
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn object(value: Value) -> Object {
        let Value::Object(object) = value else { panic!("an object was expected") };
        object
    }

    fn definition() -> Object {
        let condition = json!({"type": "object", "properties": {"observedGeneration": {"type": "integer"}}});
        let status = json!({"type": "object", "properties": {
            "conditions": {"type": "array", "items": condition}, "atProvider": {"type": "object"},
        }});
        object(json!({
            "metadata": {"name": "databases.example.org"},
            "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": {"kind": "Database", "plural": "databases"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}},
                }],
            },
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        }))
    }

    fn database(annotations: &Value) -> Object {
        object(json!({
            "apiVersion": "example.org/v1", "kind": "Database",
            "metadata": {"name": "db", "uid": "1", "generation": 1, "annotations": annotations},
            "spec": {"region": "eu"},
        }))
    }

    fn next(database: &Object) -> StatusChange {
        SimulatedKind::of_definition(&definition()).unwrap().next(database, Duration::ZERO, NOW)
    }

    #[test]
    fn object_becomes_ready_and_is_written_once() {
        let mut database =
            database(&json!({STATUS: "{atProvider: {id: '${spec.region}/${metadata.name}'}}"}));
        let StatusChange::Write(status) = next(&database) else { panic!("it is written at once") };
        assert_eq!(status["conditions"][1]["type"], "Ready");
        assert_eq!(status["conditions"][1]["status"], "True");
        assert_eq!(status["conditions"][1]["observedGeneration"], 1);
        assert_eq!(status["atProvider"]["id"], "eu/db");
        assert!(!status.contains_key("observedGeneration"), "the schema has no such field: {status:?}");
        database.insert("status".to_owned(), status.into());
        assert_eq!(next(&database), StatusChange::Rest);
    }

    #[test]
    fn delay_shows_an_object_in_the_making_first() {
        let mut database = database(&json!({DELAY: "5s"}));
        let StatusChange::Write(creating) = next(&database) else { panic!("what begins is said at once") };
        assert_eq!(creating["conditions"][1]["reason"], "Creating");
        database.insert("status".to_owned(), creating.into());
        let StatusChange::WriteAfter(delay, ready) = next(&database) else { panic!("it takes a while") };
        assert_eq!((delay.as_secs(), &ready["conditions"][1]["status"]), (5, &json!("True")));
    }

    #[test]
    fn failure_that_was_asked_for_heals_when_it_is_asked_for_no_longer() {
        let mut failing = database(&json!({FAILURE: "no quota"}));
        let StatusChange::Write(status) = next(&failing) else { panic!("it is written at once") };
        assert_eq!(status["conditions"][0]["message"], "no quota");
        assert_eq!(status["conditions"][1]["status"], "False");
        failing.insert("status".to_owned(), status.clone().into());
        assert_eq!(next(&failing), StatusChange::Rest);
        let mut healed = database(&json!({}));
        healed.insert("status".to_owned(), status.into());
        let StatusChange::Write(status) = next(&healed) else { panic!("it heals") };
        assert_eq!(status["conditions"][1]["status"], "True");
        assert!(status["conditions"][0].get("message").is_none(), "{status:?}");
    }

    #[test]
    fn object_that_somebody_looks_after_is_left_alone() {
        let mut going = database(&json!({}));
        meta::set_field(&mut going, "deletionTimestamp", NOW);
        let mut owned = database(&json!({}));
        let entry = json!([{"manager": "my-operator", "subresource": "status"}]);
        owned["metadata"]["managedFields"] = entry;
        let annotated = [json!({IGNORE: "true"}), json!({"crossplane.io/paused": "true"})];
        for database in annotated.iter().map(database).chain([going, owned]) {
            assert_eq!(next(&database), StatusChange::Rest, "{database:?}");
        }
    }

    #[test]
    fn kinds_of_composite_resources_and_our_own_are_not_simulated() {
        let mut composite = definition();
        let owner = json!([{
            "apiVersion": "apiextensions.crossplane.io/v1", "kind": "CompositeResourceDefinition",
            "name": "databases.example.org", "uid": "2", "controller": true,
        }]);
        composite["metadata"]["ownerReferences"] = owner;
        let mut ours = definition();
        meta::set_field(&mut ours, "name", "functions.pkg.crossplane.io");
        let mut configuration = definition();
        configuration["spec"]["names"]["kind"] = "ProviderConfig".into();
        for definition in [composite, ours, configuration] {
            assert_eq!(SimulatedKind::of_definition(&definition), None, "{definition:?}");
        }
    }

    #[test]
    fn kind_without_status_subresource_counts_no_generations() {
        let mut plain = definition();
        plain["spec"]["versions"][0].as_object_mut().unwrap().remove("subresources");
        let kind = SimulatedKind::of_definition(&plain).unwrap();
        assert_eq!(kind.subresource, Subresource::None);
        let StatusChange::Write(status) = kind.next(&database(&json!({})), Duration::ZERO, NOW) else {
            panic!("it is written at once")
        };
        assert!(status["conditions"][1].get("observedGeneration").is_none(), "{status:?}");
    }
}
