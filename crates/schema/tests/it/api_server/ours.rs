//! Our server: one kind, at most one object.

use std::sync::Arc;

use ferroplane_ownership::merge::shape::Shapes;
use ferroplane_ownership::{self as ownership, VersionedKind};
use ferroplane_schema::builtin;
use ferroplane_schema::status::{Resource, Status};
use ferroplane_schema::structural::strict_json::FieldValidation;
use ferroplane_schema::structural::{CustomResource, Props, Scale, Schema};
use ferroplane_schema::writes::{
    Behaviour, Body, Builtin, Circumstances, Custom, Endpoint, Part, Write, Written, already_exists, propose,
    settle,
};
use serde_json::{Value, json};

use super::names;
use super::remote::AGENT;

pub(crate) struct Server {
    versions: Vec<(String, Box<dyn Behaviour>)>,
    resource: Resource,
    is_namespaced: bool,
    name: String,
    live: Option<Value>,
    created: usize,
    written: usize,
}

impl Server {
    pub(crate) fn new(definition: &Value, name: &str) -> Self {
        let spec = &definition["spec"];
        Self {
            versions: if definition["builtin"] == true { builtin(spec) } else { custom(spec) },
            resource: Resource::new(text(spec, "group"), text(&spec["names"], "plural")),
            is_namespaced: spec["scope"] != "Cluster",
            name: name.to_owned(),
            live: None,
            created: 0,
            written: 0,
        }
    }

    /// Takes an object as it was left by something that is not a write, and notes the versions that were seen.
    pub(crate) fn leave(&mut self, left: &Value, answer: &Value) {
        self.live = Some(left.clone()).filter(Value::is_object);
        for object in [left, answer] {
            let version = object["metadata"]["resourceVersion"].as_str();
            let count = version.and_then(|version| (0..99).find(|index| names::version(*index) == version));
            self.written = self.written.max(count.map_or(0, |index| index + 1));
        }
    }

    /// A real server stores some of a configuration, as nulls, that it never shows again, and the next update that changes
    /// nothing is a write to it, because that goes.
    pub(crate) fn rewrite_hidden(&mut self, ours: &mut Value, theirs: &Value) {
        let next = names::version(self.written);
        let mut rewritten = ours.clone();
        if let Some(metadata) = rewritten.pointer_mut("/body/metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), next.into());
        }
        if rewritten == *theirs {
            self.written += 1;
            self.live = Some(theirs["body"].clone());
            *ours = rewritten;
        }
    }

    /// Our answer to a step, in the form of the recorded ones.
    pub(crate) fn answer(&mut self, step: &Value) -> Value {
        let (_, behaviour) = self.versions.iter().find(|(name, _)| name == text(step, "version")).unwrap();
        let live = self.live.clone().map(|mut live| {
            live["apiVersion"] = behaviour.api_version().into();
            live
        });
        let is_create = step["verb"] == "create";
        let endpoint = Endpoint {
            behaviour: &**behaviour,
            resource: &self.resource,
            part: if step["part"] == "status" { Part::Status } else { Part::Whole },
            namespace: if self.is_namespaced { "default" } else { "" },
            name: if is_create { "" } else { &self.name },
        };
        let uid = names::uid(self.created);
        let circumstances = Circumstances {
            manager: step["manager"].as_str().unwrap_or(AGENT),
            time: text(step, "time"),
            uid: &uid,
            random: "abcde",
            field_validation: FieldValidation::named(text(step, "validation")).unwrap(),
            converter: None,
        };
        let written = perform(&endpoint, step, live.as_ref(), &circumstances);
        match written {
            Ok(written) => self.accept(written, step["dryRun"] == true),
            Err(status) => {
                let mut answer = json!({"code": status.code, "body": status.to_json()});
                if !status.warnings.is_empty() {
                    answer["warnings"] = status.warnings.into();
                }
                answer
            }
        }
    }

    fn accept(&mut self, written: Written, is_dry: bool) -> Value {
        if written.is_created {
            self.created += 1;
        }
        let ends_deletion = written.ends_deletion();
        let mut object = Value::Object(written.object);
        if !is_dry && !written.changes_nothing && !ends_deletion {
            object["metadata"]["resourceVersion"] = names::version(self.written).into();
            self.written += 1;
        }
        if !is_dry {
            self.live = Some(object.clone()).filter(|_| !ends_deletion);
        }
        let mut answer = json!({"code": if written.is_created { 201 } else { 200 }, "body": object});
        if !written.warnings.is_empty() {
            answer["warnings"] = written.warnings.into();
        }
        answer
    }
}

/// The versions of a custom resource.
fn custom(spec: &Value) -> Vec<(String, Box<dyn Behaviour>)> {
    let group = text(spec, "group");
    let is_namespaced = spec["scope"] != "Cluster";
    let versions = || spec["versions"].as_array().into_iter().flatten();
    let ownership = versions().map(|version| ownership::Version {
        api_version: format!("{group}/{}", text(version, "name")),
        shapes: Arc::new(
            Shapes::of_custom_resource(Some(&version["schema"]["openAPIV3Schema"])).expect("it has a shape"),
        ),
    });
    let ownership =
        VersionedKind { name: text(&spec["names"], "kind").to_owned(), versions: ownership.collect() };
    let versions = versions().map(|version| {
        let props = Props::decode(&version["schema"]["openAPIV3Schema"]).expect("it is a schema");
        let resource = CustomResource {
            group: group.to_owned(),
            version: text(version, "name").to_owned(),
            kind: text(&spec["names"], "kind").to_owned(),
            is_namespaced,
            preserves_unknown_fields: false,
            scale: scale(&version["subresources"]["scale"]),
            schema: Schema::compile(&props),
        };
        let has_status = version["subresources"]["status"].is_object();
        let custom = Custom::new(resource, ownership.clone(), has_status);
        (text(version, "name").to_owned(), Box::new(custom) as Box<dyn Behaviour>)
    });
    versions.collect()
}

/// The version of one of Kubernetes' own kinds.
fn builtin(spec: &Value) -> Vec<(String, Box<dyn Behaviour>)> {
    let (group, version) = (text(spec, "group"), text(&spec["versions"][0], "name"));
    let is_it = |resource: &&builtin::Resource| {
        resource.group == group
            && resource.version == version
            && resource.kind == text(&spec["names"], "kind")
    };
    let resource = builtin::resources().iter().find(is_it).expect("Kubernetes has it");
    let behaviour = Builtin::new(resource).expect("the tables have it");
    vec![(version.to_owned(), Box::new(behaviour))]
}

fn perform(
    endpoint: &Endpoint<'_>,
    step: &Value,
    live: Option<&Value>,
    circumstances: &Circumstances<'_>,
) -> Result<Written, Status> {
    let body = text(step, "body");
    let read = || Body::json(body.as_bytes()).map_err(|error| Status::bad_request(&error));
    let (write, live) = match text(step, "verb") {
        "create" => {
            if live.is_some() {
                // Everything else is checked before.
                let proposal = propose(endpoint, Write::Create(read()?), None, circumstances)?;
                let written = settle(endpoint, proposal, None, circumstances)?;
                let name = written.object["metadata"]["name"].as_str().unwrap_or_default();
                return if live.is_some_and(|live| live["metadata"]["name"] == name) {
                    let status = already_exists(
                        endpoint.resource,
                        &written.object,
                        live.and_then(Value::as_object).unwrap(),
                    );
                    Err(Status { warnings: written.warnings, ..status })
                } else {
                    Ok(written)
                };
            }
            (Write::Create(read()?), None)
        }
        "update" => (Write::Update(read()?), live),
        "merge" => (Write::MergePatch(body), live),
        "json" => (Write::JsonPatch(body), live),
        "strategic" => (Write::StrategicPatch(body), live),
        "apply" => (Write::Apply { configuration: read()?, is_forced: step["force"] == true }, live),
        other => panic!("there is no `{other}`"),
    };
    let proposal = propose(endpoint, write, live, circumstances)?;
    settle(endpoint, proposal, live, circumstances)
}

fn scale(scale: &Value) -> Option<Scale> {
    scale.is_object().then(|| Scale {
        spec_replicas: text(scale, "specReplicasPath").to_owned(),
        status_replicas: text(scale, "statusReplicasPath").to_owned(),
        label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
    })
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}
