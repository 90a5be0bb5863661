//! Requests about the objects of a resource.

mod read;
mod write;

use bytes::Bytes;
use ferroplane_schema::field::{Error, Path};
use ferroplane_schema::status::Status;
use ferroplane_schema::table::{Include, Options, Printer};
use ferroplane_schema::writes::Part;
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::{Map, Value};

use super::ServerState;
use super::audit_trail::AuditNotes;
use super::turns::Turn;
use crate::auth::identity::Identity;
use crate::clock;
use crate::negotiate::{Amount, Form, Presentation, presentation};
use crate::request::{Query, ResourcePath, Verb};
use crate::response::{self, Body};
use crate::verbs::{self, ObjectLocation, Rows, View};

/// A request about the objects of a resource.
pub(super) struct ResourceHandler<'r> {
    pub(super) server: &'r ServerState,
    pub(super) identity: &'r Identity,
    pub(super) view: View,
    pub(super) path: &'r ResourcePath,
    pub(super) parts: &'r Parts,
    pub(super) query: &'r Query,
    pub(super) notes: &'r AuditNotes,
    /// What the request holds, if it comes from outside.
    pub(super) turn: Option<&'r Turn>,
}

impl ResourceHandler<'_> {
    /// Answers a request whose body, if it has one, was read.
    pub(super) async fn handle(&self, verb: Verb, text: Bytes) -> Result<Response<Body>, Status> {
        let presentation = presentation(&self.parts.headers)?;
        // Before anything is done: a write whose answer cannot be shown must not happen.
        self.check_amount(verb, presentation)?;
        match verb {
            Verb::Get => self.get(presentation).await,
            Verb::List => self.list(presentation).await,
            Verb::Watch => self.watch(presentation).await,
            Verb::Create => self.create(presentation, text).await,
            Verb::Update => self.update(presentation, text).await,
            Verb::Patch => self.patch(presentation, text).await,
            Verb::Delete => self.delete(presentation, text).await,
            Verb::DeleteCollection => self.delete_collection(presentation, text).await,
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
                "ephemeralcontainers" => Part::EphemeralContainers,
                _ => Part::Whole,
            },
            namespace: self.path.namespace.clone(),
            name: self.path.name.clone(),
        }
    }

    /// A stored object as the client wants to see it.
    async fn shown(
        &self,
        code: StatusCode,
        presentation: Presentation,
        stored: &Bytes,
    ) -> Result<Response<Body>, Status> {
        let object = self.view.convert(stored, &self.server.store).await?;
        if presentation == Presentation::Objects(Form::Json) {
            return Ok(response::json(code, object.into_bytes()));
        }
        self.presented(code, presentation, &object.into_value())
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
}
