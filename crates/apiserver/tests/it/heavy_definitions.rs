//! Definitions whose patterns take long to read or to compile: everybody else is answered meanwhile.
//!
//! The runtimes here have one worker. Whatever keeps it busy keeps everybody waiting, so that the number of answers tells, and no
//! clock is needed.

use std::time::Duration;

use ferroplane_apiserver::store::{Draft, Operation, Options, Store};
use serde_json::{Map, Value, json};

use crate::cluster::{Answer, Cluster};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// As many as are refused together, in a definition that is small enough to be read at once.
const TOO_MANY: usize = 1_500;
/// As many as are accepted together. Compiling them takes some tenths of a second.
const ALLOWED: usize = 4;
/// As many as a release without a limit has stored.
const BURDEN: usize = 400;
/// How often a server is asked at least meanwhile whether it is well. One that is held up is asked once or twice, between the steps
/// of a request.
const OFTEN: usize = 6;

/// Properties whose patterns take as long to compile as a pattern may.
fn patterns(count: usize) -> Value {
    let property = |number: usize| {
        let pattern = format!(r"(a|b|c){{500}}[\pL]{{300}}{number}");
        (format!("p{number}"), json!({"type": "string", "pattern": pattern}))
    };
    Value::Object((0..count).map(property).collect::<Map<_, _>>())
}

/// The definition of a kind whose objects are called after it.
fn definition(plural: &str, properties: &Value) -> Value {
    let kind = plural.to_uppercase();
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.org")},
        "spec": {
            "group": "example.org", "names": {"plural": plural, "kind": kind}, "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// An object that breaks so many of the patterns.
fn object(plural: &str, count: usize) -> Value {
    let spec: Map<_, _> = (0..count).map(|number| (format!("p{number}"), json!("x"))).collect();
    json!({"apiVersion": "example.org/v1", "kind": plural.to_uppercase(), "metadata": {"name": "a"}, "spec": spec})
}

fn objects(plural: &str) -> String {
    format!("/apis/example.org/v1/namespaces/default/{plural}")
}

async fn establish(cluster: &Cluster, plural: &str, properties: &Value) {
    cluster.post(DEFINITIONS, &definition(plural, properties)).await.is(201);
    let is_established = |answer: &Answer| {
        let conditions = answer.body["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|it| it["type"] == "Established" && it["status"] == "True")
    };
    cluster.until(&format!("{DEFINITIONS}/{plural}.example.org"), is_established).await;
}

/// What a server says to an object that a client creates, and how often it says meanwhile that it is well.
async fn create_beside_others(cluster: &Cluster, path: String, object: Value) -> (Answer, usize) {
    let writer = cluster.clone();
    let writing = tokio::spawn(async move { writer.post(&path, &object).await });
    let prober = cluster.clone();
    let probing = tokio::spawn(async move {
        let mut answers = 0;
        while !writing.is_finished() {
            prober.get("/healthz").await.is(200);
            answers += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        (writing.await.unwrap(), answers)
    });
    probing.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn server_answers_while_it_refuses_heavy_definitions() {
    let cluster = Cluster::new().await;
    for plural in ["ones", "twos"] {
        let definition = definition(plural, &patterns(TOO_MANY));
        let (answer, answers) = create_beside_others(&cluster, DEFINITIONS.to_owned(), definition).await;
        assert!(answer.is(422).to_string().contains("too complex together"), "{}", answer.body["message"]);
        assert!(answers >= OFTEN, "{plural}: {answers}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn server_answers_while_the_first_object_of_a_heavy_kind_is_checked() {
    let cluster = Cluster::new().await;
    for plural in ["ones", "twos"] {
        establish(&cluster, plural, &patterns(ALLOWED)).await;
        let (answer, answers) =
            create_beside_others(&cluster, objects(plural), object(plural, ALLOWED)).await;
        assert_eq!(answer.is(422)["details"]["causes"].as_array().unwrap().len(), ALLOWED);
        assert!(answers >= OFTEN, "{plural}: {answers}");
    }
}

/// A release without a limit accepted it. It must not keep one that has a limit from starting.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn store_with_a_definition_that_would_be_refused_starts_and_answers() {
    let store = Store::in_memory(Options::default()).unwrap();
    let cluster = Cluster::of(store.clone()).await;
    for plural in ["ones", "twos"] {
        establish(&cluster, plural, &patterns(1)).await;
    }
    drop(cluster);
    for plural in ["ones", "twos"] {
        burden(&store, plural).await;
    }

    let cluster = Cluster::of(store).await;
    cluster.get("/healthz").await.is(200);
    for plural in ["ones", "twos"] {
        cluster.get(&objects(plural)).await.is(200);
        let (answer, answers) = create_beside_others(&cluster, objects(plural), object(plural, 2)).await;
        assert_eq!(answer.is(422)["details"]["causes"].as_array().unwrap().len(), 2);
        assert!(answers >= OFTEN, "{plural}: {answers}");
    }
}

/// As many patterns are compiled as a new definition could have. No value matches the others, and objects without such values are
/// served as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn stored_definition_that_would_be_refused_takes_no_more_than_one_that_is_accepted() {
    let store = Store::in_memory(Options::default()).unwrap();
    let cluster = Cluster::of(store.clone()).await;
    establish(&cluster, "ones", &patterns(1)).await;
    drop(cluster);
    burden(&store, "ones").await;

    let cluster = Cluster::of(store).await;
    let (answer, answers) = create_beside_others(&cluster, objects("ones"), object("ones", BURDEN)).await;
    let causes = answer.is(422)["details"]["causes"].as_array().unwrap().clone();
    assert_eq!(causes.len(), BURDEN);
    let is_withheld = |cause: &&Value| cause["message"].to_string().contains("too complex together");
    let compiled = BURDEN - causes.iter().filter(is_withheld).count();
    assert!((ALLOWED..BURDEN / 10).contains(&compiled), "{compiled}");
    assert!(answers >= OFTEN, "{answers}");
    cluster.post(&objects("ones"), &object("ones", 0)).await.is(201);
}

/// Stores more patterns in a definition than a server would accept.
async fn burden(store: &Store, plural: &str) {
    let collection = store.collection("apiextensions.k8s.io/customresourcedefinitions");
    let key = collection.key("", &format!("{plural}.example.org"));
    let entry = store.get(&key).unwrap();
    let mut stored: Value = serde_json::from_slice(entry.bytes()).unwrap();
    stored["metadata"]["generation"] = json!(2);
    let schema = &mut stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"] = patterns(BURDEN);
    let draft = Draft::new(stored.as_object().unwrap()).unwrap();
    store.submit(vec![Operation::update(key, entry.revision(), draft)]).await.unwrap();
}
