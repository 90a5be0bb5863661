//! What there is of a chapter at one moment, once nothing changes any more.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ferroplane_testkit::plane::send;
use http::Method;
use serde_json::Value;

use super::portrait::{self, Aliases, Portraits};

/// How long nothing must change. Crossplane looks again at what failed after at most this long in the beginning.
const STILL: u32 = 4;
const PAUSE: Duration = Duration::from_millis(1500);
/// How often one looks for stillness before one takes the photograph of something that moves.
const LOOKS: u32 = 40;

/// All objects there were.
pub(super) struct Photograph {
    title: String,
    objects: Vec<Value>,
}

/// Sees what belongs to a chapter.
pub(super) struct Camera {
    client: kube::Client,
    chapter: &'static str,
}

impl Camera {
    pub(super) fn new(client: kube::Client, chapter: &'static str) -> Self {
        Self { client, chapter }
    }

    /// Wait until nothing changes any more, and keep what there is.
    pub(super) async fn photograph(&self, title: &str) -> Photograph {
        Photograph { title: title.to_owned(), objects: self.wait(STILL).await }
    }

    /// Wait until nothing has changed for some looks. Returns what there is then.
    pub(super) async fn wait(&self, looks: u32) -> Vec<Value> {
        let mut objects = self.gather().await;
        let mut still = 0;
        for _ in 0..LOOKS {
            tokio::time::sleep(PAUSE).await;
            let now = self.gather().await;
            let [before, after] =
                [objects, now.clone()].map(|seen| portrait::draw(seen, &mut Aliases::default()));
            let is_still = before == after && !portrait::has_orphans(&now);
            still = if is_still { still + 1 } else { 0 };
            objects = now;
            if still == looks {
                return objects;
            }
        }
        eprintln!("{}: this does not come to rest", self.chapter);
        objects
    }

    /// Everything that belongs to the chapter.
    async fn gather(&self) -> Vec<Value> {
        let (namespace, group) = (self.chapter, format!("{}.example.org", self.chapter));
        let mut objects = Vec::new();
        for plural in ["configmaps", "secrets", "events"] {
            objects.extend(self.list(&format!("/api/v1/namespaces/{namespace}/{plural}")).await);
        }
        let usages = "/apis/protection.crossplane.io/v1beta1";
        objects.extend(self.list(&format!("{usages}/namespaces/{namespace}/usages")).await);
        let is_ours = |object: &Value| object.to_string().contains(&group);
        for path in [
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions",
            "/apis/apiextensions.crossplane.io/v1/compositions",
            "/apis/apiextensions.crossplane.io/v1/compositionrevisions",
            "/apis/protection.crossplane.io/v1beta1/clusterusages",
            "/apis/ops.crossplane.io/v1alpha1/operations",
            "/apis/ops.crossplane.io/v1alpha1/cronoperations",
            "/apis/ops.crossplane.io/v1alpha1/watchoperations",
            "/api/v1/namespaces/default/events",
        ] {
            objects.extend(self.list(path).await.into_iter().filter(is_ours));
        }
        let roles = self.list("/apis/rbac.authorization.k8s.io/v1/clusterroles").await;
        objects
            .extend(roles.into_iter().filter(|role| role["metadata"]["name"].to_string().contains(&group)));
        for plural in self.plurals(&group).await {
            objects.extend(self.list(&format!("/apis/{group}/v1/{plural}")).await);
        }
        let is_noise = |object: &Value| object["metadata"]["name"] == "kube-root-ca.crt";
        objects.retain(|object| !is_noise(object));
        objects
    }

    /// What is served of the chapter's own kinds.
    async fn plurals(&self, group: &str) -> Vec<String> {
        let list = self.get(&format!("/apis/{group}/v1")).await;
        let resources = list["resources"].as_array().cloned().unwrap_or_default();
        let names = resources.iter().map(|resource| resource["name"].as_str().unwrap().to_owned());
        names.filter(|name| !name.contains('/')).collect()
    }

    /// The items of a list, which do not all say what they are.
    async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await;
        let mut items = list["items"].as_array().cloned().unwrap_or_default();
        let kind = list["kind"].as_str().unwrap_or_default().trim_end_matches("List");
        for item in &mut items {
            item["kind"] = kind.into();
            item["apiVersion"] = list["apiVersion"].clone();
        }
        items
    }

    async fn get(&self, path: &str) -> Value {
        send(&self.client, Method::GET, path, "application/json", &Value::Null).await.1
    }
}

/// All photographs of one side, by chapter and title.
#[derive(Default)]
pub(super) struct Album(BTreeMap<String, Vec<Value>>);

impl Album {
    pub(super) fn add(&mut self, chapter: &str, photographs: Vec<Photograph>) {
        for (number, photograph) in photographs.into_iter().enumerate() {
            self.0.insert(format!("{chapter} {}: {}", number + 1, photograph.title), photograph.objects);
        }
    }

    pub(super) fn write(&self, path: &Path) {
        std::fs::write(path, serde_json::to_vec(&self.0).unwrap()).unwrap();
    }

    /// What was recorded, without what does not matter.
    pub(super) fn read(path: &Path) -> BTreeMap<String, Portraits> {
        let text =
            std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let album: BTreeMap<String, Vec<Value>> = serde_json::from_slice(&text).unwrap();
        let mut aliases: BTreeMap<String, Aliases> = BTreeMap::new();
        let draw = |(title, objects): (String, Vec<Value>)| {
            let chapter = title.split(' ').next().unwrap_or_default().to_owned();
            let portraits = portrait::draw(objects, aliases.entry(chapter).or_default());
            (title, portraits)
        };
        album.into_iter().map(draw).collect()
    }
}
