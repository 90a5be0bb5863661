//! Functions on upstream's SDKs, called over mutual TLS by the controllers of a plane that runs.

use std::time::{Duration, Instant};

use ferroplane_testkit::{Pki, free_port};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::peers::{Served, peer, write_certificates};
use crate::plane::Plane;

const LANGUAGES: [&str; 3] = ["go", "python", "typescript"];
const PATIENCE: Duration = Duration::from_mins(2);

const DEFINITION: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: greetings.example.org}
spec:
  group: example.org
  names: {kind: Greeting, plural: greetings}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {greeting: {type: string}, fail: {type: string}}
          status:
            type: object
            properties: {greetedBy: {type: object, additionalProperties: {type: boolean}}}
";

/// A plane that calls functions, and the functions that it calls.
struct Stage {
    plane: Plane,
    functions: Vec<Function>,
}

struct Function {
    language: &'static str,
    port: u16,
    served: Option<Served>,
}

impl Stage {
    /// Three functions that trust the plane and are trusted by it. Nothing if they are not installed.
    fn set() -> Option<Self> {
        peer("kubectl")?;
        let directory = TempDir::new().unwrap();
        let pki = Pki::new();
        write_certificates(&pki, &directory.path().join("server"));
        write_certificates(&pki, &directory.path().join("client"));
        write_certificates(&Pki::new(), &directory.path().join("stranger"));
        let flags = ["--data-dir", "data", "--tls-client-certs-dir", "client"];
        let plane = Plane::start(directory, &flags).with("definition.yaml", DEFINITION);
        let mut stage = Self { plane, functions: Vec::new() };
        stage.plane.says("kubectl apply -f definition.yaml");
        stage.plane.says("kubectl wait xrd/greetings.example.org --for=condition=Established --timeout=60s");
        stage.plane.says("kubectl create configmap settings --from-literal=theme=dark");
        for language in LANGUAGES {
            peer(&format!("greeter-{language}"))?;
            stage.functions.push(Function { language, port: free_port(), served: None });
            stage.start(language, "server");
            stage.install(language);
        }
        stage.compose("polyglot", &LANGUAGES);
        for language in LANGUAGES {
            stage.compose(language, &[language]);
        }
        Some(stage)
    }

    fn function(&mut self, language: &str) -> &mut Function {
        self.functions.iter_mut().find(|function| function.language == language).unwrap()
    }

    /// Start a function with the certificates of a directory.
    fn start(&mut self, language: &str, certificates: &str) {
        let certificates = self.plane.path(certificates);
        let peer = peer(&format!("greeter-{language}")).unwrap();
        let function = self.function(language);
        function.served = Some(Served::start(&peer, function.port, &certificates));
    }

    fn kill(&mut self, language: &str) {
        self.function(language).served = None;
    }

    /// What a package would leave behind: a Function, and a revision of it that can be called.
    fn install(&mut self, language: &str) {
        let name = format!("greeter-{language}");
        let address = self.function(language).served.as_ref().unwrap().address.clone();
        let image = format!("registry.example.org/{name}:v1.0.0");
        let objects = format!(
            "
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {{name: {name}}}
spec: {{package: '{image}'}}
---
apiVersion: pkg.crossplane.io/v1
kind: FunctionRevision
metadata: {{name: {name}-1, labels: {{pkg.crossplane.io/package: {name}}}}}
spec: {{desiredState: Active, image: '{image}', revision: 1}}
"
        );
        self.plane.told("kubectl apply -f -", &objects);
        self.set_status(language, &json!({"endpoint": address, "capabilities": ["composition"]}));
    }

    fn set_status(&self, language: &str, status: &Value) {
        let status = json!({"status": status});
        self.plane.says(&format!(
            "kubectl patch functionrevision greeter-{language}-1 --subresource=status --type=merge -p '{status}'"
        ));
    }

    /// An operation whose steps greet in all languages.
    fn operate(&self, name: &str) {
        let step = |language: &str| json!({"step": format!("say-{language}"), "functionRef": {"name": format!("greeter-{language}")}});
        let operation = json!({
            "apiVersion": "ops.crossplane.io/v1alpha1",
            "kind": "Operation",
            "metadata": {"name": name},
            "spec": {"mode": "Pipeline", "retryLimit": 1, "pipeline": LANGUAGES.map(step)},
        });
        self.plane.told("kubectl apply -f -", &operation.to_string());
    }

    /// A watch whose operations greet in all languages when a labelled `ConfigMap` changes.
    fn watch(&self, name: &str) {
        let step = |language: &str| json!({"step": format!("say-{language}"), "functionRef": {"name": format!("greeter-{language}")}});
        let watch = json!({
            "apiVersion": "ops.crossplane.io/v1alpha1",
            "kind": "WatchOperation",
            "metadata": {"name": name},
            "spec": {
                "watch": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "matchLabels": {"watched": "yes"}},
                "operationTemplate": {"spec": {"mode": "Pipeline", "pipeline": LANGUAGES.map(step)}},
            },
        });
        self.plane.told("kubectl apply -f -", &watch.to_string());
    }

    /// Wait until operations of a watch were told this of an object, in all languages.
    fn until_told(&self, name: &str, is_gone: bool) {
        let told = |operation: &Value| {
            let steps = operation["status"]["pipeline"].as_array().cloned().unwrap_or_default();
            let is_told =
                |step: &Value| step["output"]["watched"] == name && step["output"]["isGone"] == is_gone;
            steps.len() == LANGUAGES.len() && steps.iter().all(is_told)
        };
        let began = Instant::now();
        loop {
            let list = self.json("operations");
            if list["items"].as_array().unwrap().iter().any(told) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{list:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A Composition whose steps greet in these languages.
    fn compose(&self, name: &str, languages: &[&str]) {
        let step = |language: &&str| json!({"step": format!("say-{language}"), "functionRef": {"name": format!("greeter-{language}")}});
        let composition = json!({
            "apiVersion": "apiextensions.crossplane.io/v1",
            "kind": "Composition",
            "metadata": {"name": name},
            "spec": {
                "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Greeting"},
                "mode": "Pipeline",
                "pipeline": languages.iter().map(step).collect::<Vec<_>>(),
            },
        });
        self.plane.told("kubectl apply -f -", &composition.to_string());
    }

    /// A composite resource that says something, composed by the Composition of its name.
    fn greet(&self, name: &str, greeting: &str) {
        let xr = json!({
            "apiVersion": "example.org/v1",
            "kind": "Greeting",
            "metadata": {"name": name},
            "spec": {"greeting": greeting, "crossplane": {"compositionRef": {"name": name}}},
        });
        self.plane.told("kubectl apply -f -", &xr.to_string());
    }

    fn until_condition(&self, name: &str, condition: &str) {
        self.plane.says(&format!("kubectl wait greeting/{name} --for=condition={condition} --timeout=120s"));
    }

    /// Wait until these languages say what they were told to, and nothing is wrong.
    fn until_greeted(&self, name: &str, greeting: &str, languages: &[&str]) {
        self.until_condition(name, "Ready");
        for language in languages {
            let map = self.composed(name, language)["metadata"]["name"].as_str().unwrap().to_owned();
            let words = format!("'{greeting} from {language}'");
            self.plane.says(&format!(
                "kubectl wait configmap/{map} --for=jsonpath={{.data.greeting}}={words} --timeout=60s"
            ));
        }
        self.until_condition(name, "Synced");
    }

    /// What a language composed.
    fn composed(&self, name: &str, language: &str) -> Value {
        let list = self.json(&format!("configmap -l crossplane.io/composite={name}"));
        let is_theirs = |map: &&Value| {
            map["metadata"]["annotations"]["crossplane.io/composition-resource-name"] == language
        };
        list["items"].as_array().unwrap().iter().find(is_theirs).unwrap().clone()
    }

    /// What is said about a composite resource that could not be composed.
    fn trouble(&self, name: &str) -> String {
        self.until_condition(name, "Synced=False");
        let xr = self.json(&format!("greeting {name}"));
        let conditions = xr["status"]["conditions"].as_array().unwrap();
        let synced = conditions.iter().find(|condition| condition["type"] == "Synced").unwrap();
        assert_eq!(synced["reason"], "ReconcileError");
        synced["message"].as_str().unwrap().to_owned()
    }

    fn json(&self, what: &str) -> Value {
        serde_json::from_str(&self.plane.says(&format!("kubectl get {what} -o json"))).unwrap()
    }
}

#[test]
fn three_languages_compose_one_resource() {
    let Some(stage) = Stage::set() else { return };
    stage.greet("polyglot", "hello");
    stage.until_greeted("polyglot", "hello", &LANGUAGES);
    for language in LANGUAGES {
        let map = stage.composed("polyglot", language);
        // What each said, and what each asked to see.
        let said = json!({"greeting": format!("hello from {language}"), "replicas": "1", "theme": "dark"});
        assert_eq!(map["data"], said);
        assert_eq!(map["metadata"]["ownerReferences"][0]["name"], "polyglot");
    }
    let xr = stage.json("greeting polyglot");
    assert_eq!(xr["status"]["greetedBy"], json!({"go": true, "python": true, "typescript": true}));
    for condition in ["GreetedGo", "GreetedPython", "GreetedTypescript"] {
        stage.until_condition("polyglot", condition);
    }
    let told = stage.plane.says("kubectl describe greeting polyglot");
    for language in LANGUAGES {
        assert!(told.contains(&format!("greeted from {language}")), "{told}");
    }
    stage.plane.says("kubectl delete greeting polyglot --cascade=foreground --timeout=60s");
    assert_eq!(stage.plane.says("kubectl get configmap -l crossplane.io/composite -o name"), "");
}

#[test]
fn function_that_is_down_is_named_keeps_nobody_else_and_is_called_once_it_is_back() {
    let Some(mut stage) = Stage::set() else { return };
    for name in ["polyglot", "go", "python"] {
        stage.greet(name, "hello");
    }
    stage.until_greeted("polyglot", "hello", &LANGUAGES);
    stage.until_greeted("python", "hello", &["python"]);

    stage.kill("python");
    stage.greet("polyglot", "servus");
    stage.greet("go", "servus");
    stage.until_greeted("go", "servus", &["go"]);
    let told = stage.trouble("polyglot");
    assert!(
        told.contains("`say-python`") && told.contains("cannot reach the function at localhost:"),
        "{told}"
    );
    // Nothing was applied of what only some of them said, and whoever was not checked is as it was.
    assert_eq!(stage.composed("polyglot", "go")["data"]["greeting"], "hello from go");
    stage.until_condition("python", "Synced");

    stage.start("python", "server");
    stage.until_greeted("polyglot", "servus", &LANGUAGES);
}

#[test]
fn function_with_a_certificate_of_somebody_else_is_not_called() {
    let Some(mut stage) = Stage::set() else { return };
    for language in LANGUAGES {
        stage.kill(language);
        stage.start(language, "stranger");
        stage.greet(language, "hello");
    }
    for language in LANGUAGES {
        let told = stage.trouble(language);
        assert!(told.contains(&format!("`say-{language}`")), "{told}");
        assert!(told.contains("cannot establish TLS with the function at localhost:"), "{told}");
        stage.kill(language);
        stage.start(language, "server");
        stage.until_greeted(language, "hello", &[language]);
    }
}

#[test]
fn operation_calls_functions_in_three_languages_that_say_that_they_can_operate() {
    let Some(stage) = Stage::set() else { return };
    stage.operate("early");
    stage.plane.says("kubectl wait operation/early --for=condition=ValidPipeline=False --timeout=60s");
    stage.plane.says("kubectl wait operation/early --for=condition=Succeeded=False --timeout=60s");
    for language in LANGUAGES {
        stage.set_status(language, &json!({"capabilities": ["composition", "operation"]}));
    }
    stage.operate("greet");
    stage.plane.says("kubectl wait operation/greet --for=condition=Succeeded --timeout=120s");
    let operation = stage.json("operation greet");
    for (step, language) in operation["status"]["pipeline"].as_array().unwrap().iter().zip(LANGUAGES) {
        assert_eq!(step["output"], json!({"greetedBy": language, "replicas": 1}));
        let map = stage.json(&format!("configmap greeting-{language}"));
        let said = json!({"greeting": format!("hello from {language}"), "replicas": "1", "theme": "dark"});
        assert_eq!(map["data"], said);
        assert!(map["metadata"].get("ownerReferences").is_none(), "{map}");
    }
    assert_eq!(operation["status"]["appliedResourceRefs"].as_array().unwrap().len(), 3);
}

#[test]
fn functions_in_three_languages_are_given_what_changed_and_what_is_gone() {
    let Some(stage) = Stage::set() else { return };
    for language in LANGUAGES {
        stage.set_status(language, &json!({"capabilities": ["composition", "operation"]}));
    }
    stage.watch("greet");
    stage.plane.says("kubectl wait watchoperation/greet --for=condition=Watching --timeout=60s");
    stage.plane.says("kubectl create configmap news && kubectl label configmap news watched=yes");
    stage.until_told("news", false);
    stage.plane.says("kubectl delete configmap news");
    stage.until_told("news", true);
}
