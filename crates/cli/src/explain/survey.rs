//! Reads everything that can be not ready, page by page, and explains one object of each group that says the same.
//!
//! A kind that cannot be read is noted: nothing is said about its objects, least of all that they are ready.

use std::collections::BTreeMap;

use ferroplane_api::crds::Crd;
use ferroplane_api::{Object, crds, keys, meta};
use ferroplane_client::{Error, Query, Resource};
use ferroplane_explain::{Diagnosis, List, Overview, Purpose, Snapshot, Survey, diagnose};
use serde_json::Value;

use super::reader::{PAGE, RESTARTS, Reader, Unlisted, unlisted};

impl Reader {
    /// Everything that is not ready, in all namespaces or in one.
    pub(super) async fn survey(&self, namespace: Option<&str>) -> anyhow::Result<Overview> {
        let mut survey = Survey::default();
        let ground = self.ground(&mut survey).await?;
        for resource in self.looked_at(&ground) {
            let namespace = namespace.unwrap_or_default();
            if resource.is_namespaced || namespace.is_empty() {
                self.note_all(&resource, namespace, &ground, &mut survey).await?;
            }
        }
        if namespace.is_none() {
            for revision in self.newest_revisions(&mut survey).await? {
                survey.note(&ground, &revision);
            }
        }
        let mut explained: Vec<Diagnosis> = Vec::new();
        for id in survey.examples() {
            // What is not explained is shown with its own messages.
            let read = self.read_on(ground.clone(), &id, Purpose::Cause).await;
            if let Some(snapshot) = read_or_noted(read, &mut survey)? {
                explained.push(diagnose(&snapshot, &id));
            }
        }
        Ok(survey.conclude(&explained))
    }

    /// What every explanation needs, read once.
    async fn ground(&self, survey: &mut Survey) -> anyhow::Result<Snapshot> {
        let mut snapshot = self.snapshot();
        for (api_version, kind) in [
            ("apiextensions.crossplane.io/v2", "CompositeResourceDefinition"),
            ("apiextensions.crossplane.io/v1", "Composition"),
        ] {
            let list = List { api_version: api_version.to_owned(), kind: kind.to_owned(), ..List::default() };
            let objects = read_or_noted(self.listed(&list).await, survey)?;
            snapshot.put_list(list, objects.unwrap_or_default());
        }
        Ok(snapshot)
    }

    /// The kinds whose objects can be not ready: those that are defined, and our own.
    fn looked_at(&self, ground: &Snapshot) -> Vec<Resource> {
        let definitions = ground.definitions();
        let defined = definitions.flat_map(|definition| {
            ["claimNames", "names"].into_iter().filter_map(|names| defined(definition, names))
        });
        // Objects that cannot say that nothing acts on them are not ready either.
        let can_be_unready =
            |crd: &Crd| crd.has_conditions() || self.home().leaves_alone(crd.group, crd.kind);
        let own = crds::ALL.iter().filter(|crd| can_be_unready(crd) && !SPOKEN_FOR.contains(&crd.kind));
        let own = own.map(|crd| (crd.group.to_owned(), crd.kind.to_owned()));
        let kinds = defined.chain(own);
        let found = kinds.filter_map(|(group, kind)| {
            self.catalogue().get_any_version(&format!("{group}/v1"), &kind).map(|it| Resource::clone(it))
        });
        found.collect()
    }

    /// The newest revision of every Composition, which says whether the Composition can be used.
    async fn newest_revisions(&self, survey: &mut Survey) -> anyhow::Result<Vec<Object>> {
        let (api_version, kind) =
            ("apiextensions.crossplane.io/v1".to_owned(), "CompositionRevision".to_owned());
        let revisions = self.listed(&List { api_version, kind, ..List::default() }).await;
        let mut newest: BTreeMap<String, (i64, Object)> = BTreeMap::new();
        for revision in read_or_noted(revisions, survey)?.unwrap_or_default() {
            let number =
                revision.get("spec").and_then(|spec| spec.get("revision")?.as_i64()).unwrap_or_default();
            let composition = meta::label(&revision, keys::COMPOSITION_NAME).to_owned();
            let known = newest.get(&composition).map_or(i64::MIN, |(number, _)| *number);
            if number > known {
                newest.insert(composition, (number, revision));
            }
        }
        Ok(newest.into_values().map(|(_, revision)| revision).collect())
    }

    /// Notes all objects of a kind, or that they cannot be read.
    async fn note_all(
        &self,
        resource: &Resource,
        namespace: &str,
        ground: &Snapshot,
        survey: &mut Survey,
    ) -> anyhow::Result<()> {
        let mut restarts = 0;
        loop {
            let mut noted = Survey::default();
            let outcome = self.note_pages(resource, namespace, ground, &mut noted).await;
            if outcome.as_ref().is_err_and(Error::is_gone) && restarts < RESTARTS {
                restarts += 1;
                continue;
            }
            // What was noted before a later page failed is true all the same.
            survey.take_in(noted);
            read_or_noted(outcome.map_err(|error| unlisted(resource, error)), survey)?;
            return Ok(());
        }
    }

    /// Objects are checked page by page, so that no more than a page of them is in memory.
    async fn note_pages(
        &self,
        resource: &Resource,
        namespace: &str,
        ground: &Snapshot,
        survey: &mut Survey,
    ) -> Result<(), Error> {
        let mut continuation: Option<String> = None;
        loop {
            let query =
                Query { limit: Some(PAGE), continuation: continuation.as_deref(), ..Query::default() };
            let page = match self.page(resource, namespace, &query).await {
                // The kind was deleted meanwhile.
                Err(error) if error.is_not_found() => return Ok(()),
                page => page?,
            };
            for object in page.objects(resource)? {
                survey.note(ground, &object);
            }
            continuation = page.continuation;
            if continuation.is_none() {
                return Ok(());
            }
        }
    }
}

/// What was read. None, and a note, if the API server does not list a kind that it takes.
fn read_or_noted<T>(read: anyhow::Result<T>, survey: &mut Survey) -> anyhow::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) => {
            let unlisted: Unlisted = error.downcast()?;
            survey.note_unread(&unlisted.kind, &unlisted.status.message);
            Ok(None)
        }
    }
}

/// Kinds with conditions that others speak for: of the revisions of a Composition only the newest counts, and a Function is explained
/// with its revisions.
const SPOKEN_FOR: [&str; 2] = ["CompositionRevision", "FunctionRevision"];

pub(super) fn defined(definition: &Object, names: &str) -> Option<(String, String)> {
    let spec = definition.get("spec")?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    Some((text(spec.get("group"))?, text(spec.get(names)?.get("kind"))?))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Poll};

    use ferroplane_client::ApiClient;
    use ferroplane_explain::Unread;
    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::json;
    use tower_service::Service;

    use super::*;
    use crate::client::Connection;

    /// What a server answers to the requests for apps, which are counted from 0.
    type Answer = fn(u32, &str) -> (u16, Value);

    /// An API server with a kind of composite resources, `App`, whose lists are answered as a test wants.
    #[derive(Clone)]
    struct AppServer {
        answer: Answer,
        asked: Arc<AtomicU32>,
    }

    impl AppServer {
        fn new(answer: Answer) -> Self {
            Self { answer, asked: Arc::default() }
        }

        async fn survey(&self) -> Overview {
            let kube = kube::Client::new(self.clone(), "default");
            let (client, server, namespace) =
                (ApiClient::new(kube.clone()), "test".to_owned(), "default".to_owned());
            let reader = Reader::start(&Connection { client, kube, server, namespace }).await.unwrap();
            reader.survey(None).await.unwrap()
        }

        fn answer(&self, path: &str, query: &str) -> (u16, Value) {
            match path {
                "/apis" => (
                    200,
                    json!({"kind": "APIGroupDiscoveryList", "items": [
                        group("apiextensions.crossplane.io", "v2", "CompositeResourceDefinition", "compositeresourcedefinitions"),
                        group("demo.io", "v1", "App", "apps"),
                    ]}),
                ),
                "/api" => (200, json!({"kind": "APIGroupDiscoveryList", "items": []})),
                "/apis/demo.io/v1/apps" => (self.answer)(self.asked.fetch_add(1, Ordering::Relaxed), query),
                path if path.ends_with("compositeresourcedefinitions") => (200, list(&[definition()], None)),
                _ => refused(404, "there is no such path"),
            }
        }
    }

    impl Service<Request<Body>> for AppServer {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            let uri = request.uri();
            let (code, answer) = self.answer(uri.path(), uri.query().unwrap_or_default());
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
            ready(Ok(response))
        }
    }

    fn group(group: &str, version: &str, kind: &str, plural: &str) -> Value {
        let resource = json!({"resource": plural, "responseKind": {"kind": kind}, "scope": "Cluster", "singularResource": ""});
        json!({"metadata": {"name": group}, "versions": [{"version": version, "resources": [resource]}]})
    }

    fn definition() -> Value {
        json!({
            "metadata": {"name": "apps.demo.io"},
            "spec": {"group": "demo.io", "names": {"kind": "App", "plural": "apps"}},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        })
    }

    fn app(name: &str) -> Value {
        let conditions = json!([{"type": "Synced", "status": "True"}, {"type": "Ready", "status": "True"}]);
        json!({"metadata": {"name": name}, "status": {"conditions": conditions}})
    }

    fn list(items: &[Value], continuation: Option<&str>) -> Value {
        json!({"metadata": {"resourceVersion": "1", "continue": continuation}, "items": items})
    }

    fn refused(code: u16, message: &str) -> (u16, Value) {
        (code, json!({"kind": "Status", "code": code, "message": message}))
    }

    fn unread(message: &str) -> Vec<Unread> {
        vec![Unread { kind: "apps.demo.io".to_owned(), message: message.to_owned() }]
    }

    #[tokio::test(start_paused = true)]
    async fn kind_that_cannot_be_read_is_not_called_ready() {
        let cases: [(Answer, &str); 3] = [
            (|_, _| refused(403, "bob may not list apps"), "bob may not list apps"),
            (|_, _| refused(500, "the conversion failed"), "the conversion failed"),
            (|_, _| refused(429, "too many requests"), "too many requests"),
        ];
        for (answer, message) in cases {
            let overview = AppServer::new(answer).survey().await;
            assert_eq!((overview.ready, overview.not_ready), (1, 0), "only the definition was read");
            assert_eq!(overview.unread, unread(message));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn kind_that_is_no_longer_served_has_no_objects() {
        let overview = AppServer::new(|_, _| refused(404, "there is no such path")).survey().await;
        assert_eq!((overview.ready, overview.unread), (1, Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_is_busy_for_a_moment_is_asked_again() {
        let server = AppServer::new(|asked, _| match asked {
            0 => refused(429, "too many requests"),
            1 => refused(503, "starting"),
            _ => (200, list(&[app("a")], None)),
        });
        let overview = server.survey().await;
        assert_eq!((overview.ready, overview.unread), (2, Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn list_whose_pages_expire_is_read_again_from_its_beginning() {
        // The first and the second time, the second page has expired.
        let server = AppServer::new(|asked, query| match (asked, query.contains("continue=next")) {
            (_, false) => (200, list(&[app("a")], Some("next"))),
            (1 | 3, true) => refused(410, "the continuation is too old"),
            (_, true) => (200, list(&[app("b")], None)),
        });
        let overview = server.survey().await;
        assert_eq!((overview.ready, overview.unread), (3, Vec::new()), "the definition and both apps, once");

        let server = AppServer::new(|_, query| {
            if query.contains("continue=next") {
                return refused(410, "the continuation is too old");
            }
            (200, list(&[app("a")], Some("next")))
        });
        let overview = server.survey().await;
        assert_eq!((overview.ready, overview.unread), (2, unread("the continuation is too old")));
    }
}
