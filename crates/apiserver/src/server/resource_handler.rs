//! Requests about the objects of a resource.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::status::Status;
use ferroplane_schema::table::{Include, Options, Printer};
use ferroplane_schema::writes::{Part, Write};
use http::header::USER_AGENT;
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::{Map, Value};

use super::{AuditAnnotations, ServerState, body};
use crate::admission::Admission;
use crate::auth::identity::Identity;
use crate::clock;
use crate::listeners::InProcess;
use crate::negotiate::{Amount, BodyForm, Form, PatchForm, Presentation, error_form, presentation};
use crate::options::{DeleteOptions, ListOptions, ResourceVersion, WriteKind, WriteOptions};
use crate::registry::Origin;
use crate::request::{Query, ResourcePath, Verb};
use crate::response::{self, Body};
use crate::store::{Snapshot, WatchError};
use crate::verbs::{self, Deleted, ObjectLocation, Outcome, Page, Rows, Selection, VersionedObject, View};

/// How long a request for something that has not happened yet waits for it.
const PATIENCE: Duration = Duration::from_secs(3);
/// The least and the most that a watch lasts if nothing is said.
const WATCH_SECONDS: (u64, u64) = (30 * 60, 60 * 60);

/// A request about the objects of a resource.
pub(super) struct ResourceHandler<'r> {
    pub(super) server: &'r ServerState,
    pub(super) identity: &'r Identity,
    pub(super) view: View,
    pub(super) path: &'r ResourcePath,
    pub(super) parts: &'r Parts,
    pub(super) query: Query,
}

impl ResourceHandler<'_> {
    pub(super) async fn handle<B>(&self, verb: Verb, body: B) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let presentation = presentation(&self.parts.headers)?;
        self.check_amount(verb, presentation)?;
        match verb {
            Verb::Get => self.get(presentation).await,
            Verb::List => self.list(presentation).await,
            Verb::Watch => self.watch(presentation).await,
            Verb::Create => self.create(presentation, body::collect(body).await?).await,
            Verb::Update => self.update(presentation, body::collect(body).await?).await,
            Verb::Patch => self.patch(presentation, body::collect(body).await?).await,
            Verb::Delete => self.delete(presentation, body::collect(body).await?).await,
            Verb::DeleteCollection => self.delete_collection(presentation, body::collect(body).await?).await,
        }
    }

    /// Metadata are asked for of one object or of a list, and a watch is JSON.
    fn check_amount(&self, verb: Verb, presentation: Presentation) -> Result<(), Status> {
        if verb == Verb::Watch {
            let words = "only the following media types are accepted: application/json;stream=watch";
            let is_json = presentation.form() == Form::Json;
            return if is_json { Ok(()) } else { Err(Status::not_acceptable(words)) };
        }
        let Presentation::Metadata(_, _, amount) = presentation else { return Ok(()) };
        let real =
            if matches!(verb, Verb::List | Verb::DeleteCollection) { Amount::Many } else { Amount::One };
        let (wanted, is) = match (amount, real) {
            (Amount::One, Amount::Many) => ("PartialObjectMetadata", "a list"),
            (Amount::Many, Amount::One) => ("PartialObjectMetadataList", "not a list"),
            _ => return Ok(()),
        };
        let found = self.view.type_name(real);
        Err(Status::not_acceptable(&format!(
            "you requested {wanted}, but the requested object is {is} ({found})"
        )))
    }

    fn rows(&self) -> Result<Rows, Status> {
        let include = Include::parse(self.query.get("includeObject")).ok_or_else(|| {
            let given = self.query.get("includeObject");
            let words = "must be 'Metadata', 'Object', 'None', or empty";
            let error = Error::invalid(&Path::new("includeObject"), given, words);
            Status::bad_request(&format!("Unable to convert to Table as requested: {error}"))
        })?;
        Ok(Rows { include, now: clock::now() })
    }

    fn location(&self) -> ObjectLocation {
        ObjectLocation {
            view: self.view.clone(),
            part: match self.path.subresource.as_str() {
                "status" => Part::Status,
                "scale" => Part::Scale,
                "finalize" => Part::Finalize,
                _ => Part::Whole,
            },
            namespace: self.path.namespace.clone(),
            name: self.path.name.clone(),
        }
    }

    async fn get(&self, presentation: Presentation) -> Result<Response<Body>, Status> {
        let (store, location) = (&self.server.store, self.location());
        let key = location.key(store, &location.name);
        match ListOptions::read(&self.query, false)?.resource_version {
            ResourceVersion::NotOlderThan(revision) => self.reach(revision).await?,
            ResourceVersion::Newest => store.finish_writes(&key).await,
            ResourceVersion::Any | ResourceVersion::Exactly(_) => {}
        }
        let entry = store.get(&key);
        let entry = entry.ok_or_else(|| Status::not_found(&self.view.resource.identity, &location.name))?;
        if location.part == Part::Scale {
            let seen = self.view.convert(entry.bytes(), &self.server.store).await?;
            return self.scaled(presentation, &seen.into_object());
        }
        self.shown(StatusCode::OK, presentation, entry.bytes()).await
    }

    /// A stored object as the client wants to see it.
    async fn shown(
        &self,
        code: StatusCode,
        presentation: Presentation,
        stored: &Bytes,
    ) -> Result<Response<Body>, Status> {
        let seen = self.view.convert(stored, &self.server.store).await?;
        if presentation == Presentation::Objects(Form::Json) {
            return Ok(response::json(code, seen.into_bytes()));
        }
        self.presented(code, presentation, &seen.into_value())
    }

    /// The scale of an object.
    fn scaled(
        &self,
        presentation: Presentation,
        object: &Map<String, Value>,
    ) -> Result<Response<Body>, Status> {
        let mut scale = verbs::scale_of(&self.view, object)?;
        if let Some(metadata) = scale["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let rows = self.rows()?;
        let options = Options { include: rows.include, has_headers: true };
        let printer = Printer::of_builtin("autoscaling", "scales");
        let shown = verbs::present(&printer, presentation, &scale, options, rows);
        Ok(response::document(StatusCode::OK, presentation.form(), &shown))
    }

    fn presented(
        &self,
        code: StatusCode,
        presentation: Presentation,
        object: &Value,
    ) -> Result<Response<Body>, Status> {
        let rows = self.rows()?;
        let options = Options { include: rows.include, has_headers: true };
        let shown = self.view.present(presentation, object, options, rows);
        Ok(response::document(code, presentation.form(), &shown))
    }

    async fn list(&self, presentation: Presentation) -> Result<Response<Body>, Status> {
        let options = ListOptions::read(&self.query, false)?;
        let rows = self.rows()?;
        let selection = Selection::new(self.view.clone(), &self.path.namespace, &options)?;
        let snapshot = match self.snapshot(&options).await? {
            Ok(snapshot) => snapshot,
            Err(expired) => return Ok(expired),
        };
        let page = Page::read(&snapshot, &selection, &options, &self.server.store).await?;
        Ok(page.into_response(&self.view, presentation, rows))
    }

    /// What the list is read from, or an answer that says that it is no longer there.
    async fn snapshot(&self, options: &ListOptions) -> Result<Result<Snapshot, Response<Body>>, Status> {
        let store = &self.server.store;
        let collection = store.collection(&self.view.resource.collection);
        let exact = match (&options.continues, options.resource_version) {
            (Some(continues), _) => continues.revision,
            (None, ResourceVersion::Exactly(revision)) => {
                self.reach(revision).await?;
                Some(revision)
            }
            (None, ResourceVersion::NotOlderThan(revision)) => {
                self.reach(revision).await?;
                None
            }
            (None, ResourceVersion::Newest | ResourceVersion::Any) => None,
        };
        let Some(revision) = exact else { return Ok(Ok(store.snapshot(&collection))) };
        match (store.snapshot_at(&collection, revision), &options.continues) {
            (Ok(snapshot), _) => Ok(Ok(snapshot)),
            (Err(WatchError::TooOld { .. }), Some(continues)) => Ok(Err(verbs::expired(&continues.behind))),
            (Err(WatchError::TooOld { .. }), None) => {
                Err(Status::expired("The resourceVersion for the provided list is too old."))
            }
            (Err(error), _) => Err(verbs::too_old(&error)),
        }
    }

    /// Waits until the store has come to a revision, but not for long.
    async fn reach(&self, revision: u64) -> Result<(), Status> {
        let mut revisions = self.server.store.revisions();
        let reached =
            tokio::time::timeout(PATIENCE, revisions.wait_for(|current| *current >= revision)).await;
        if matches!(reached, Ok(Ok(_))) {
            return Ok(());
        }
        let current = self.server.store.revision();
        Err(verbs::too_old(&WatchError::TooNew { revision, current }))
    }

    async fn watch(&self, presentation: Presentation) -> Result<Response<Body>, Status> {
        let options = ListOptions::read(&self.query, true)?;
        let selection = Selection::new(self.view.clone(), &self.path.namespace, &options)?;
        let store = &self.server.store;
        let collection = store.collection(&self.view.resource.collection);
        if let ResourceVersion::NotOlderThan(revision) = options.resource_version {
            self.reach(revision).await?;
        }
        let begins_anew = options.sends_initial_events
            || matches!(options.resource_version, ResourceVersion::Newest | ResourceVersion::Any)
                && !self.query.has("sendInitialEvents");
        let initial = begins_anew.then(|| store.snapshot(&collection));
        let from = match (&initial, options.resource_version) {
            (Some(snapshot), _) => snapshot.revision(),
            (None, ResourceVersion::NotOlderThan(revision) | ResourceVersion::Exactly(revision)) => revision,
            (None, _) => store.revision(),
        };
        let watcher = match store.watch(&collection, from) {
            Ok(watcher) => watcher,
            Err(error) => return Ok(verbs::refuse_watch(&verbs::too_old(&error))),
        };
        let subject = verbs::WatchOptions {
            selection,
            presentation,
            rows: self.rows()?,
            has_bookmarks: options.allows_bookmarks,
            marks_initial: begins_anew && options.allows_bookmarks,
            timeout: options.timeout.unwrap_or_else(some_time),
            shares_objects: self.parts.extensions.get::<InProcess>().is_some(),
        };
        Ok(verbs::watch(subject, initial, watcher, store.clone(), self.server.stop.subscribe()))
    }

    fn write_options(&self, kind: WriteKind) -> Result<WriteOptions, Status> {
        let agent = self.parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        WriteOptions::read(&self.query, kind, agent.unwrap_or_default())
    }

    async fn create(&self, presentation: Presentation, text: Bytes) -> Result<Response<Body>, Status> {
        let form = BodyForm::of(&self.parts.headers, self.has_protobuf())?;
        if let Some(answer) = self.ask(form, &text)? {
            return Ok(response::document(StatusCode::CREATED, presentation.form(), &answer));
        }
        let options = self.write_options(WriteKind::Create)?;
        let kind = &self.view.resource.names.kind;
        let request = || Ok(Write::Create(body::object(form, &text, kind)?));
        self.write(presentation, &request, &options).await
    }

    /// The answer to what is only a question: a review, or a request for a token.
    fn ask(&self, form: BodyForm, text: &Bytes) -> Result<Option<Value>, Status> {
        let is_token = self.path.subresource == "token";
        let kind = match self.view.resource.origin {
            Origin::Review => self.view.resource.names.kind.as_str(),
            _ if is_token => "TokenRequest",
            _ => return Ok(None),
        };
        let body = body::object(form, text, kind)?;
        let Value::Object(question) = body.value else {
            return Err(Status::bad_request("the body of the request is no object"));
        };
        if is_token {
            return self.server.token(&self.path.namespace, &self.path.name, &question).map(Some);
        }
        self.server.review(kind, self.identity, &self.path.namespace, question).map(Some)
    }

    async fn update(&self, presentation: Presentation, text: Bytes) -> Result<Response<Body>, Status> {
        let form = BodyForm::of(&self.parts.headers, self.has_protobuf())?;
        let options = self.write_options(WriteKind::Update)?;
        let kind = &self.view.resource.names.kind;
        let request = || Ok(Write::Update(body::object(form, &text, kind)?));
        self.write(presentation, &request, &options).await
    }

    async fn patch(&self, presentation: Presentation, text: Bytes) -> Result<Response<Body>, Status> {
        let has_strategy = self.view.version().behaviour.strategy().is_some();
        let form = PatchForm::of(&self.parts.headers, has_strategy)?;
        let kind = if form == PatchForm::Apply { WriteKind::Apply } else { WriteKind::Patch };
        let options = self.write_options(kind)?;
        let utf8 = std::str::from_utf8(&text).map_err(|error| Status::bad_request(&error.to_string()))?;
        let request = || {
            Ok(match form {
                PatchForm::Json => Write::JsonPatch(utf8),
                PatchForm::Merge => Write::MergePatch(utf8),
                PatchForm::Strategic => Write::StrategicPatch(utf8),
                PatchForm::Apply => {
                    let configuration = body::configuration(&text)?;
                    Write::Apply { configuration, is_forced: options.is_forced }
                }
            })
        };
        self.write(presentation, &request, &options).await
    }

    fn has_protobuf(&self) -> bool {
        !matches!(self.view.resource.origin, Origin::Custom { .. })
    }

    async fn write<'w>(
        &self,
        presentation: Presentation,
        request: &(dyn Fn() -> Result<Write<'w>, Status> + Sync),
        options: &WriteOptions,
    ) -> Result<Response<Body>, Status> {
        let store = &self.server.store;
        let admission = self.admission(options.to_json(self.server_would_create()), options.is_dry_run);
        let outcome = verbs::write(store, &admission, &self.location(), request, options).await;
        let mut response = match outcome {
            Ok(outcome) => self.written(presentation, outcome).await?,
            Err(status) => response::status(&status, error_form(&self.parts.headers)),
        };
        annotate(&mut response, admission);
        Ok(response)
    }

    /// Whether there is nothing yet at the location that is written to.
    fn server_would_create(&self) -> bool {
        let location = self.location();
        location.name.is_empty()
            || self.server.store.get(&location.key(&self.server.store, &location.name)).is_none()
    }

    fn admission(&self, options: Value, is_dry_run: bool) -> Admission<'_> {
        Admission {
            store: &self.server.store,
            authorizer: &self.server.authorizer,
            service_allocator: &self.server.service_allocator,
            identity: Some(self.identity),
            webhooks: Some(&self.server.webhooks),
            options,
            is_dry_run,
            annotations: Mutex::default(),
        }
    }

    /// What a client is told of a write.
    async fn written(&self, presentation: Presentation, outcome: Outcome) -> Result<Response<Body>, Status> {
        let Outcome { bytes, is_presented, is_created, warnings } = outcome;
        let code = if is_created { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = if self.location().part == Part::Scale {
            let seen = if is_presented {
                VersionedObject::Bytes(bytes)
            } else {
                self.view.convert(&bytes, &self.server.store).await?
            };
            self.scaled(presentation, &seen.into_object())?
        } else if is_presented {
            self.presented(code, presentation, &VersionedObject::Bytes(bytes).into_value())?
        } else {
            self.shown(code, presentation, &bytes).await?
        };
        response::warn(&mut response, &warnings);
        Ok(response)
    }

    fn delete_options(&self, text: &Bytes) -> Result<DeleteOptions, Status> {
        if text.is_empty() {
            return DeleteOptions::read(None, &self.query);
        }
        let form = BodyForm::of(&self.parts.headers, true)?;
        let body = body::read(form, text, "DeleteOptions").map_err(|why| Status::bad_request(&why))?;
        let field = |name: &str| body.value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(kind) = field("kind").filter(|kind| *kind != "DeleteOptions") {
            return Err(Status::bad_request(&body::unknown_kind(kind, field("apiVersion").unwrap_or("v1"))));
        }
        DeleteOptions::read(Some(&body.value), &self.query)
    }

    async fn delete(&self, presentation: Presentation, text: Bytes) -> Result<Response<Body>, Status> {
        let options = self.delete_options(&text)?;
        let location = self.location();
        let admission = self.admission(options.to_json(), options.is_dry_run);
        let mut response = match verbs::delete(&admission, &location, &options).await {
            Ok(Deleted { is_gone, bytes, warnings }) => {
                let mut response = if is_gone && !self.view.resource.shows_deleted {
                    response::status(&verbs::success(&location, &bytes), presentation.form())
                } else {
                    self.shown(StatusCode::OK, presentation, &bytes).await?
                };
                response::warn(&mut response, &warnings);
                response
            }
            Err(status) => response::status(&status, error_form(&self.parts.headers)),
        };
        annotate(&mut response, admission);
        Ok(response)
    }

    /// Deletes what is selected, and answers with what was.
    async fn delete_collection(
        &self,
        presentation: Presentation,
        text: Bytes,
    ) -> Result<Response<Body>, Status> {
        let options = self.delete_options(&text)?;
        let list_options = ListOptions::read(&self.query, false)?;
        let rows = self.rows()?;
        let selection = Selection::new(self.view.clone(), &self.path.namespace, &list_options)?;
        let snapshot = match self.snapshot(&list_options).await? {
            Ok(snapshot) => snapshot,
            Err(expired) => return Ok(expired),
        };
        let page = Page::read(&snapshot, &selection, &list_options, &self.server.store).await?;
        let admission = self.admission(options.to_json(), options.is_dry_run);
        for entry in &page.entries {
            let location = ObjectLocation {
                namespace: entry.key().namespace().to_owned(),
                name: entry.key().name().to_owned(),
                ..self.location()
            };
            match verbs::delete(&admission, &location, &options).await {
                Err(status) if status.code != 404 => return Err(status),
                _ => {}
            }
        }
        Ok(page.into_response(&self.view, presentation, rows))
    }
}

/// Notes in the answer what is to be written down.
fn annotate(response: &mut Response<Body>, admission: Admission<'_>) {
    let annotations = admission.annotations.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !annotations.is_empty() {
        response.extensions_mut().insert(AuditAnnotations(annotations));
    }
}

/// Watches that say nothing last for different times, so that they do not all end at once.
fn some_time() -> Duration {
    let (least, most) = WATCH_SECONDS;
    let random = u64::from(crate::random::uuid().as_bytes()[0]);
    Duration::from_secs(least + (most - least) * random / 255)
}
