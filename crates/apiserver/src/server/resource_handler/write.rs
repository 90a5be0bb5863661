//! Requests that change objects: create, update, patch and delete.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use ferroplane_schema::status::Status;
use ferroplane_schema::writes::{Part, Write};
use http::header::USER_AGENT;
use http::{Response, StatusCode};
use serde_json::Value;

use super::super::{AuditAnnotations, body};
use super::ResourceHandler;
use crate::admission::Admission;
use crate::negotiate::{BodyForm, PatchForm, Presentation, error_form};
use crate::options::{DeleteOptions, ListOptions, WriteKind, WriteOptions};
use crate::registry::Origin;
use crate::response::{self, Body};
use crate::verbs::{
    self, Deleted, ObjectLocation, Page, Selection, VersionedObject, WriteOutcome, WriteRequest,
};

impl ResourceHandler<'_> {
    fn write_options(&self, kind: WriteKind) -> Result<WriteOptions, Status> {
        let agent = self.parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        WriteOptions::read(self.query, kind, agent.unwrap_or_default())
    }

    pub(super) async fn create(
        &self,
        presentation: Presentation,
        text: Bytes,
    ) -> Result<Response<Body>, Status> {
        let form = BodyForm::of(&self.parts.headers, self.has_protobuf())?;
        // Before write options are read: a review is a question, and nothing of it is stored.
        if let Some((answer, warnings)) = self.answer_review(form, &text)? {
            let mut response = response::document(StatusCode::CREATED, presentation.form(), &answer);
            response::warn(&mut response, &warnings);
            return Ok(response);
        }
        match self.path.subresource.as_str() {
            "eviction" => {
                return self.evict(presentation, &body::object(form, &text, "Eviction")?.value).await;
            }
            "binding" => return self.bind(presentation, &body::object(form, &text, "Binding")?.value).await,
            _ => {}
        }
        let options = self.write_options(WriteKind::Create)?;
        let kind = &self.view.resource.names.kind;
        // A closure, as the write may be tried several times, and each try needs an object of its own.
        let request = || Ok(Write::Create(body::object(form, &text, kind)?));
        // A name in the path, as custom resources allow it, does not count: who may only create must not change what is there.
        let location = ObjectLocation { name: String::new(), ..self.location() };
        self.write(&location, presentation, WriteRequest { read: &request, size: text.len() }, &options).await
    }

    /// The answer to what is only a question, with warnings: a review, or a request for a token.
    fn answer_review(&self, form: BodyForm, text: &Bytes) -> Result<Option<(Value, Vec<String>)>, Status> {
        let is_token = self.path.subresource == "token";
        let kind = match self.view.resource.origin {
            Origin::Review => self.view.resource.names.kind.as_str(),
            _ if is_token => "TokenRequest",
            _ => return Ok(None),
        };
        let body = body::object(form, text, kind)?;
        let Value::Object(question) = body.value else {
            return Err(Status::bad_request("the body of the request is not an object"));
        };
        if is_token {
            let answer = self.server.token(&self.path.namespace, &self.path.name, &question)?;
            return Ok(Some((Value::Object(answer.request), answer.warnings)));
        }
        let answer = self.server.review(kind, self.identity, &self.path.namespace, question)?;
        Ok(Some((answer, Vec::new())))
    }

    /// Deletes a pod, unless a budget forbids it.
    async fn evict(&self, presentation: Presentation, eviction: &Value) -> Result<Response<Body>, Status> {
        self.check_subject(eviction, "Eviction")?;
        let options =
            DeleteOptions::read(eviction.get("deleteOptions").filter(|it| !it.is_null()), self.query)?;
        // Either will do: clients set it in the query as for any create, or in the options of the deletion within.
        let is_dry_run = options.is_dry_run || self.write_options(WriteKind::Create)?.is_dry_run;
        let options = DeleteOptions { is_dry_run, ..options };
        // The budget is charged before the pod is deleted: two evictions at the same time must not both pass.
        self.server.allow_eviction(&self.path.namespace, &self.path.name, is_dry_run).await?;
        // The request is to a part, `eviction`, but what is deleted is the pod.
        let location = ObjectLocation { part: Part::Whole, ..self.location() };
        let admission = self.admission(options.to_json(), is_dry_run);
        let evicted = verbs::delete(&admission, &location, &options).await;
        let mut response = self.done(presentation, evicted.map(|deleted| deleted.warnings));
        annotate(&mut response, admission);
        Ok(response)
    }

    /// Assigns a pod to a node.
    async fn bind(&self, presentation: Presentation, binding: &Value) -> Result<Response<Body>, Status> {
        self.check_subject(binding, "Binding")?;
        let Value::Object(binding) = binding else {
            return Err(Status::bad_request("the body of the request is not an object"));
        };
        if !self.write_options(WriteKind::Create)?.is_dry_run {
            self.server.bind(&self.path.namespace, &self.path.name, binding).await?;
        }
        Ok(self.done(presentation, Ok(Vec::new())))
    }

    /// What is sent to a subresource is about the object in the path, if it says what it is about.
    fn check_subject(&self, body: &Value, kind: &str) -> Result<(), Status> {
        match body["metadata"]["name"].as_str() {
            // No name is fine: clients send `{}` for metadata.
            Some(name) if !name.is_empty() && name != self.path.name => {
                Err(Status::bad_request(&format!("name in URL does not match name in {kind} object")))
            }
            _ => Ok(()),
        }
    }

    /// The answer to something that creates nothing that could be shown.
    fn done(&self, presentation: Presentation, outcome: Result<Vec<String>, Status>) -> Response<Body> {
        match outcome {
            Ok(warnings) => {
                // 201, although nothing was created: kube-apiserver answers a POST to these subresources so.
                let success = Status { code: 201, ..Status::success(None) };
                let mut response = response::status(&success, presentation.form());
                response::warn(&mut response, &warnings);
                response
            }
            Err(status) => response::status(&status, error_form(&self.parts.headers)),
        }
    }

    pub(super) async fn update(
        &self,
        presentation: Presentation,
        text: Bytes,
    ) -> Result<Response<Body>, Status> {
        let form = BodyForm::of(&self.parts.headers, self.has_protobuf())?;
        let options = self.write_options(WriteKind::Update)?;
        let kind = &self.view.resource.names.kind;
        let request = || Ok(Write::Update(body::object(form, &text, kind)?));
        let request = WriteRequest { read: &request, size: text.len() };
        self.write(&self.location(), presentation, request, &options).await
    }

    pub(super) async fn patch(
        &self,
        presentation: Presentation,
        text: Bytes,
    ) -> Result<Response<Body>, Status> {
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
        let request = WriteRequest { read: &request, size: text.len() };
        self.write(&self.location(), presentation, request, &options).await
    }

    fn has_protobuf(&self) -> bool {
        // Custom resources have no protobuf in Kubernetes either: their schemas are not known when protobuf is
        // compiled.
        !matches!(self.view.resource.origin, Origin::Custom { .. })
    }

    async fn write(
        &self,
        location: &ObjectLocation,
        presentation: Presentation,
        request: WriteRequest<'_, '_>,
        options: &WriteOptions,
    ) -> Result<Response<Body>, Status> {
        let store = &self.server.store;
        // Webhooks are shown CreateOptions or UpdateOptions, and an apply may be either.
        let admission = self.admission(options.to_json(self.would_create(location)), options.is_dry_run);
        let outcome = verbs::write(store, &admission, location, request, options).await;
        let mut response = match outcome {
            Ok(outcome) => self.written(presentation, outcome).await?,
            Err(status) => response::status(&status, error_form(&self.parts.headers)),
        };
        annotate(&mut response, admission);
        Ok(response)
    }

    /// Whether there is nothing yet at the location that is written to.
    fn would_create(&self, location: &ObjectLocation) -> bool {
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

    /// What a client is notified of a write.
    async fn written(
        &self,
        presentation: Presentation,
        outcome: WriteOutcome,
    ) -> Result<Response<Body>, Status> {
        let WriteOutcome { bytes, is_presented, is_created, subject, warnings } = outcome;
        self.notes.written(subject);
        let code = if is_created { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = if self.location().part == Part::Scale {
            let object = if is_presented {
                VersionedObject::Bytes(bytes)
            } else {
                self.view.convert(&bytes, &self.server.store).await?
            };
            self.scaled(presentation, &object.into_object())?
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
            return DeleteOptions::read(None, self.query);
        }
        let form = BodyForm::of(&self.parts.headers, true)?;
        let body = body::read(form, text, "DeleteOptions").map_err(|why| Status::bad_request(&why))?;
        let field = |name: &str| body.value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(kind) = field("kind").filter(|kind| *kind != "DeleteOptions") {
            return Err(Status::bad_request(&body::unknown_kind(kind, field("apiVersion").unwrap_or("v1"))));
        }
        DeleteOptions::read(Some(&body.value), self.query)
    }

    pub(super) async fn delete(
        &self,
        presentation: Presentation,
        text: Bytes,
    ) -> Result<Response<Body>, Status> {
        let options = self.delete_options(&text)?;
        let location = self.location();
        let admission = self.admission(options.to_json(), options.is_dry_run);
        let mut response = match verbs::delete(&admission, &location, &options).await {
            Ok(Deleted { is_gone, bytes, subject, warnings }) => {
                self.notes.written(subject);
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
    pub(super) async fn delete_collection(
        &self,
        presentation: Presentation,
        text: Bytes,
    ) -> Result<Response<Body>, Status> {
        let options = self.delete_options(&text)?;
        let list_options = ListOptions::read(self.query, false)?;
        let rows = self.rows()?;
        let selection = Selection::new(self.view.clone(), &self.path.namespace, &list_options)?;
        let snapshot = match self.snapshot(&list_options).await? {
            Ok(snapshot) => snapshot,
            Err(expired) => return Ok(expired),
        };
        let page = Page::read(&snapshot, &selection, &list_options, &self.server.store).await?;
        let admission = self.admission(options.to_json(), options.is_dry_run);
        let mut outcome = Ok(());
        for entry in &page.entries {
            let location = ObjectLocation {
                namespace: entry.key().namespace().to_owned(),
                name: entry.key().name().to_owned(),
                ..self.location()
            };
            match verbs::delete(&admission, &location, &options).await {
                // The first refusal is reported. It does not stop the others: the refused object may be in use by
                // one of them.
                Err(status) if status.code != 404 => outcome = outcome.and(Err(status)),
                _ => {}
            }
        }
        outcome?;
        Ok(page.into_response(&self.view, presentation, rows, false))
    }
}

/// Notes in the answer what is to be recorded.
fn annotate(response: &mut Response<Body>, admission: Admission<'_>) {
    let annotations = admission.annotations.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !annotations.is_empty() {
        response.extensions_mut().insert(AuditAnnotations(annotations));
    }
}
