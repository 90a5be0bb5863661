//! What the phases of an ActionSet would be called with, without a control plane: files stand for what it would read.
//!
//! The engine runs the actions as a control plane would. Functions are not called: what they are called with is noted, and what
//! they would put out comes from the user, or is a text in angle brackets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ferroplane_api::{Blueprint, Object, meta};
use ferroplane_engine::action::{
    ActionFailure, Address, Answer, Facilities, Move, NamedBy, Phase, PhaseContract, PhaseFunction,
    PhaseFunctions, PodSupport, Request, Run, RunIdentity, Turn, find_action, prepare, spec_of,
};
use ferroplane_engine::versions::Version;
use ferroplane_functions::Library;
use serde::Serialize;
use serde_json::Value;

use super::BuiltIn;

/// More turns than any action takes that does nothing.
const MOST_TURNS: usize = 10_000;

/// What is rendered, and from what.
#[derive(Debug, Clone, Copy)]
pub struct RenderInputs<'r> {
    pub action_set: &'r Object,
    pub blueprints: &'r [Object],
    /// What the actions read: the objects that they are about, Secrets, ConfigMaps, Profiles.
    pub objects: &'r [Object],
    /// What phases put out, by the name of the phase.
    pub outputs: &'r BTreeMap<String, Object>,
    /// Milliseconds since 1970.
    pub now: i64,
}

/// An action with its phases, in the order in which they run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderedAction {
    pub name: String,
    pub blueprint: String,
    pub phases: Vec<RenderedPhase>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, Value>,
    /// Why it would fail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// A phase as its function is called.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderedPhase {
    pub name: String,
    pub func: String,
    pub func_version: String,
    pub args: Object,
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub output: Object,
}

/// Why no action can begin.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The ActionSet and its Blueprints do not fit together.
    #[error(transparent)]
    Action(#[from] ActionFailure),
    #[error("cannot read Blueprint `{name}`")]
    Blueprint { name: String, source: serde_json::Error },
    /// A control plane would refuse the ActionSet for these reasons.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
    #[error("action `{0}` does not end")]
    Endless(String),
}

/// What every action would do.
pub fn render(inputs: &RenderInputs<'_>, library: &Library) -> Result<Vec<RenderedAction>, RenderError> {
    let spec = spec_of(inputs.action_set)?;
    let mut blueprints = BTreeMap::new();
    for object in inputs.blueprints {
        let name = meta::name(object).to_owned();
        let blueprint =
            Blueprint::of(object).map_err(|source| RenderError::Blueprint { name: name.clone(), source })?;
        // Of two Blueprints of a name the last one counts, as if they had been applied in turn.
        blueprints.insert(name, blueprint);
    }
    let noted = Noted { built_in: BuiltIn(library), outputs: inputs.outputs.clone(), calls: Arc::default() };
    let facilities = Facilities {
        catalogue: library.catalogue(),
        functions: &noted,
        // What the phases of a cluster would be called with can be shown anywhere.
        has_exec: true,
        pods: PodSupport::Cluster,
        no_containers: None,
        is_strict: false,
    };
    let prepared = prepare(&Ok(spec.clone()), &blueprints, &facilities, inputs.now);
    if !prepared.status.errors.is_empty() {
        let errors = prepared.status.errors.into_iter().map(|error| error.message);
        return Err(RenderError::Refused(errors.collect()));
    }
    let mut rendered = Vec::new();
    for (index, action) in spec.actions.iter().enumerate() {
        let found = find_action(action, blueprints.get(&action.blueprint))?;
        let identity = RunIdentity {
            uid: "render",
            namespace: meta::namespace(inputs.action_set),
            index,
            // A fixed seed: the same files have to render the same text.
            seed: [0; 32],
        };
        let status = prepared.status.actions[index].clone();
        let mut run = Run::resume(action, found, facilities, identity, status, Vec::new(), Vec::new());
        if !drive(&mut run, inputs) {
            return Err(RenderError::Endless(action.name.clone()));
        }
        let artifacts = run.status.artifacts.iter();
        rendered.push(RenderedAction {
            name: action.name.clone(),
            blueprint: action.blueprint.clone(),
            phases: noted.take(),
            artifacts: artifacts
                .map(|(name, artifact)| (name.clone(), serde_json::to_value(artifact).unwrap_or_default()))
                .collect(),
            errors: run.errors.iter().map(|error| error.message.clone()).collect(),
        });
    }
    Ok(rendered)
}

/// Run an action. Returns whether it has ended.
fn drive(run: &mut Run<'_>, inputs: &RenderInputs<'_>) -> bool {
    let mut answers = Vec::new();
    for _ in 0..MOST_TURNS {
        match run.next(std::mem::take(&mut answers), inputs.now) {
            Turn::Perform(requests) => {
                answers = requests.iter().map(|request| read(request, inputs)).collect();
            }
            // Functions are not called, so that nothing ever happens that could be waited for.
            Turn::Wait { .. } | Turn::Ended => return true,
        }
    }
    false
}

/// What files say. Whatever would change something is not done: no function is called that asks for it.
fn read(request: &Request, inputs: &RenderInputs<'_>) -> Answer {
    let own = meta::namespace(inputs.action_set);
    match request {
        Request::Get(address) => match inputs.objects.iter().find(|object| is_at(object, address, own)) {
            Some(object) => Answer::Object { object: object.clone(), resource: plural(meta::kind(object)) },
            None => Answer::Absent,
        },
        Request::List { kind, namespace, .. } => {
            let listed = inputs.objects.iter().filter(|object| {
                let address = Address {
                    kind: kind.clone(),
                    namespace: namespace.clone(),
                    name: meta::name(object).to_owned(),
                };
                is_at(object, &address, own)
            });
            Answer::List(listed.cloned().collect())
        }
        // No function is asked that would write. What else an action does by itself is reading.
        _ => Answer::Absent,
    }
}

fn is_at(object: &Object, address: &Address, own: &str) -> bool {
    let is_kind = match &address.kind.by {
        NamedBy::Kind(kind) => meta::kind(object) == kind,
        NamedBy::Resource(resource) => plural(meta::kind(object)) == *resource,
    };
    let namespace = meta::namespace(object);
    // Files often leave the namespace to a user who applies them; of cluster-scoped objects it does not matter.
    let is_there = namespace.is_empty()
        || namespace == if address.namespace.is_empty() { own } else { &address.namespace };
    is_kind
        && is_there
        && meta::api_version(object) == address.kind.api_version
        && meta::name(object) == address.name
}

/// The plural name that most kinds have.
fn plural(kind: &str) -> String {
    let name = kind.to_lowercase();
    match name.strip_suffix('y') {
        // A guess: files do not say how a kind is called in the plural.
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if name.ends_with(['s', 'x']) || name.ends_with("ch") => format!("{name}es"),
        _ => format!("{name}s"),
    }
}

/// Functions that note what they are called with.
struct Noted<'l> {
    built_in: BuiltIn<'l>,
    outputs: BTreeMap<String, Object>,
    calls: Arc<Mutex<Vec<RenderedPhase>>>,
}

impl Noted<'_> {
    fn take(&self) -> Vec<RenderedPhase> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PhaseFunctions for Noted<'_> {
    fn phase_function(&self, function: &str, version: &Version) -> Option<Arc<dyn PhaseFunction>> {
        let real = self.built_in.phase_function(function, version)?;
        Some(Arc::new(NotedFunction {
            real,
            function: function.to_owned(),
            version: version.to_string(),
            outputs: self.outputs.clone(),
            calls: self.calls.clone(),
        }))
    }
}

struct NotedFunction {
    real: Arc<dyn PhaseFunction>,
    function: String,
    version: String,
    outputs: BTreeMap<String, Object>,
    calls: Arc<Mutex<Vec<RenderedPhase>>>,
}

impl PhaseFunction for NotedFunction {
    fn advance(&self, phase: &Phase<'_>) -> Move {
        let output = self.output(phase);
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(RenderedPhase {
            name: phase.name.to_owned(),
            func: self.function.clone(),
            func_version: self.version.clone(),
            args: phase.arguments.clone(),
            output: output.clone(),
        });
        Move::Done { output }
    }

    fn contract(&self) -> PhaseContract {
        self.real.contract()
    }

    fn renders_arguments_itself(&self) -> bool {
        self.real.renders_arguments_itself()
    }
}

impl NotedFunction {
    fn output(&self, phase: &Phase<'_>) -> Object {
        let known = self.real.contract().outputs.iter();
        let mut output: Object =
            known.map(|key| ((*key).to_owned(), format!("<{key} of {}>", phase.name).into())).collect();
        // What the user supplies replaces the placeholders, key by key.
        output.extend(self.outputs.get(phase.name).cloned().unwrap_or_default());
        output
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        match value {
            Value::Object(object) => object,
            other => panic!("{other} is no object"),
        }
    }

    fn blueprint() -> Object {
        object(
            json!({"apiVersion": "cr.kanister.io/v1alpha1", "kind": "Blueprint", "metadata": {"name": "db"}, "actions": {"backup": {
                "phases": [
                    {"func": "ScaleWorkload", "name": "stop", "args": {"replicas": 0, "name": "{{ .Deployment.Name }}"}},
                    {"func": "KubeTask", "name": "dump", "args": {"image": "tools", "command": ["dump", "{{ .Options.database }}"]}},
                ],
                "deferPhase": {"func": "ScaleWorkload", "name": "start",
                    "args": {"replicas": "{{ .Phases.stop.Output.originalReplicaCount }}"}},
                "outputArtifacts": {"copy": {"keyValue": {"path": "{{ .Phases.dump.Output.path }}"}}},
            }}}),
        )
    }

    fn rendered(outputs: Value, objects: &[Object]) -> Result<Vec<RenderedAction>, RenderError> {
        let action_set = object(json!({"metadata": {"namespace": "shop"}, "spec": {"actions": [{
            "name": "backup", "blueprint": "db", "options": {"database": "orders"},
            "object": {"kind": "Deployment", "name": "web", "namespace": "shop"},
        }]}}));
        let outputs = object(outputs).into_iter().map(|(key, value)| (key, object(value))).collect();
        let inputs = RenderInputs {
            action_set: &action_set,
            blueprints: &[blueprint()],
            objects,
            outputs: &outputs,
            now: 0,
        };
        render(&inputs, &Library::built_in().unwrap())
    }

    fn web() -> Object {
        object(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}}}),
        )
    }

    #[test]
    fn phases_are_shown_with_their_versions_and_rendered_arguments() {
        let actions = rendered(json!({"dump": {"path": "/a"}}), &[web()]).unwrap();
        let [action] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!(action.errors, Vec::<String>::new());
        let names: Vec<_> =
            action.phases.iter().map(|phase| format!("{} {}", phase.name, phase.func_version)).collect();
        assert_eq!(names, ["stop v0.1.0", "dump v0.0.0", "start v0.1.0"]);
        assert_eq!(Value::Object(action.phases[0].args.clone()), json!({"replicas": 0, "name": "web"}));
        assert_eq!(action.phases[1].args["command"], json!(["dump", "orders"]));
        assert_eq!(action.phases[2].args["replicas"], "<originalReplicaCount of stop>");
        assert_eq!(action.artifacts["copy"], json!({"keyValue": {"path": "/a"}}));
    }

    #[test]
    fn output_that_nobody_gave_is_told() {
        let actions = rendered(json!({}), &[web()]).unwrap();
        assert!(actions[0].errors[0].contains("path"), "{:?}", actions[0].errors);
    }

    #[test]
    fn object_that_no_file_has_is_told() {
        let actions = rendered(json!({}), &[]).unwrap();
        assert!(actions[0].errors[0].contains("web") && actions[0].phases.is_empty(), "{actions:?}");
    }

    #[test]
    fn error_says_what_cannot_begin_and_why() {
        let render = |spec: Value, blueprint: Value| {
            let (action_set, blueprint) = (object(json!({"spec": spec})), object(blueprint));
            let inputs = RenderInputs {
                action_set: &action_set,
                blueprints: &[blueprint],
                objects: &[],
                outputs: &BTreeMap::new(),
                now: 0,
            };
            render(&inputs, &Library::built_in().unwrap()).unwrap_err()
        };
        let backup = || json!({"actions": [{"name": "backup", "blueprint": "db"}]});
        let unreadable = render(backup(), json!({"metadata": {"name": "db"}, "actions": 5}));
        assert!(matches!(&unreadable, RenderError::Blueprint { name, .. } if name == "db"), "{unreadable:?}");
        let refused = render(backup(), json!({"metadata": {"name": "other"}}));
        assert!(matches!(&refused, RenderError::Refused(why) if why[0].contains("db")), "{refused:?}");
        let invalid = render(json!({"actions": 5}), json!({"metadata": {"name": "db"}}));
        assert!(matches!(&invalid, RenderError::Action(_)), "{invalid:?}");
    }

    #[test]
    fn plural_names_are_guessed_as_kinds_have_them() {
        for (kind, expected) in [
            ("Deployment", "deployments"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("Gateway", "gateways"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }
}
