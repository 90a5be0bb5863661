//! What is done, in what order, and when somebody looks. A chapter is a file of YAML documents:
//!
//! * an object is applied;
//! * `merge: PATH` with `change` changes some fields, `delete: PATH` deletes;
//! * `rest: LOOKS` waits until nothing has changed for so long, so that what is made is ready before it is used;
//! * `until: PATH` waits until the list at this path has an object with conditions, for two minutes at most;
//! * `look: WORDS` waits until nothing changes any more, and takes a photograph.
//!
//! A chapter has a namespace of its name, and a group of kinds, `NAME.example.org`. Nothing else is checked.

use ferroplane_testkit::plane::send;
use http::Method;
use serde_json::{Value, json};

use super::functions::has_environment;
use super::photograph::{Camera, Photograph};

/// One story, and where it is told.
pub(super) struct Chapter {
    pub(super) name: &'static str,
    text: &'static str,
}

macro_rules! chapters {
    ($($name:literal),* $(,)?) => {
        [$(Chapter { name: $name, text: include_str!(concat!("chapters/", $name, ".yaml")) }),*]
    };
}

impl Chapter {
    /// All there are, or those that the environment names.
    pub(super) fn all() -> Vec<Self> {
        let chosen = std::env::var("FERROPLANE_COMPARE_CHAPTERS").unwrap_or_default();
        let is_chosen =
            |chapter: &Self| chosen.is_empty() || chosen.split(',').any(|name| name == chapter.name);
        let all = chapters![
            "adopting",
            "asking",
            "claims",
            "clusterwide",
            "defaults",
            "defining",
            "drifting",
            "environment",
            "failing",
            "guarding",
            "missing",
            "namespaced",
            "nested",
            "offering",
            "operating",
            "ordering",
            "pausing",
            "readiness",
            "refused",
            "removing",
            "requesting",
            "revising",
            "triggering",
            "using",
        ];
        // Of a function that is not always there.
        let can_be_played = |chapter: &Self| chapter.name != "environment" || has_environment();
        all.into_iter().filter(|chapter| is_chosen(chapter) && can_be_played(chapter)).collect()
    }

    /// Play it. Returns the photographs, in order.
    pub(super) async fn play(&self, client: kube::Client) -> Vec<Photograph> {
        let camera = Camera::new(client.clone(), self.name);
        let mut photographs = Vec::new();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}});
        apply(&client, &namespace).await;
        for document in serde_saphyr::from_multiple::<Value>(self.text).unwrap() {
            if let Some(words) = document["look"].as_str() {
                photographs.push(camera.photograph(words).await);
            } else if let Some(looks) = document["rest"].as_u64() {
                camera.wait(u32::try_from(looks).unwrap()).await;
            } else if let Some(path) = document["until"].as_str() {
                until(&client, path).await;
            } else if let Some(path) = document["delete"].as_str() {
                send(&client, Method::DELETE, path, "application/json", &document["options"]).await;
            } else if let Some(path) = document["merge"].as_str() {
                merge(&client, path, &document["change"]).await;
            } else {
                apply(&client, &document).await;
            }
        }
        eprintln!("played {}", self.name);
        photographs
    }
}

/// Apply an object as a user does. A kind that is not served yet is waited for.
pub(super) async fn apply(client: &kube::Client, object: &Value) {
    let mut attempts = 0;
    loop {
        let trouble = match path(client, object).await {
            Some(path) => {
                let path = format!("{path}?fieldManager=user&force=true");
                match send(client, Method::PATCH, &path, "application/apply-patch+yaml", object).await {
                    (200..300, _) => return,
                    (404 | 409 | 500, answer) => answer,
                    (code, answer) => panic!("{code}: {answer}\n{object}"),
                }
            }
            None => json!("the kind is not served"),
        };
        attempts += 1;
        assert!(attempts < 300, "cannot apply: {trouble}\n{object}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

/// Wait until a list has an object with conditions. A schedule takes up to a minute.
async fn until(client: &kube::Client, path: &str) {
    for _ in 0..600 {
        let (_, list) = send(client, Method::GET, path, "application/json", &Value::Null).await;
        let mut items = list["items"].as_array().into_iter().flatten();
        if items.any(|item| item["status"]["conditions"].is_array()) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("nothing came to be: {path}");
}

/// Change some fields of an object that may not be there yet.
async fn merge(client: &kube::Client, path: &str, change: &Value) {
    let mut attempts = 0;
    loop {
        match send(client, Method::PATCH, path, "application/merge-patch+json", change).await {
            (200..300, _) => return,
            (code, answer) if attempts == 300 => panic!("{code}: {answer}"),
            _ => attempts += 1,
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

/// Where an object is, if its kind is served.
async fn path(client: &kube::Client, object: &Value) -> Option<String> {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let (_, list) = send(client, Method::GET, &root, "application/json", &Value::Null).await;
    let is_it = |resource: &&Value| {
        resource["kind"] == object["kind"] && !resource["name"].as_str().unwrap().contains('/')
    };
    let resource = list["resources"].as_array()?.iter().find(is_it)?;
    let (plural, name) = (resource["name"].as_str()?, object["metadata"]["name"].as_str()?);
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Some(format!("{root}/namespaces/{namespace}/{plural}/{name}")),
        None => Some(format!("{root}/{plural}/{name}")),
    }
}
