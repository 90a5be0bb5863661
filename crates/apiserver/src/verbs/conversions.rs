//! What an object is in other versions, as far as that was requested.
//!
//! Working out who owns which fields is pure, but may need objects in other versions, which only a webhook can tell. So it
//! asks for them here, fails, and is tried again when the answers are there.

use std::sync::{Mutex, PoisonError};

use ferroplane_golang::json::JsonObject;
use ferroplane_ownership::Convert;
use ferroplane_schema::status::Status;

use crate::store::Store;
use crate::webhooks::Converter;

/// The most that is asked for one write. Each version takes a few.
const MOST: usize = 256;

/// Questions and answers.
#[derive(Debug, Default)]
pub(super) struct PendingConversions {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    known: Vec<Conversion>,
    wanted: Option<(JsonObject, String)>,
}

#[derive(Debug)]
struct Conversion {
    object: JsonObject,
    api_version: String,
    answer: JsonObject,
}

impl Convert for PendingConversions {
    fn convert(&self, object: &JsonObject, api_version: &str) -> Result<JsonObject, String> {
        // What is not there is not there in any version.
        if !object.contains_key("metadata") {
            let mut object = object.clone();
            object.insert("apiVersion".to_owned(), api_version.into());
            return Ok(object);
        }
        let mut table = self.lock();
        let known = table.known.iter().find(|it| it.api_version == api_version && it.object == *object);
        if let Some(known) = known {
            return Ok(known.answer.clone());
        }
        // One at a time: what else will be needed may depend on the answer.
        table.wanted.get_or_insert_with(|| (object.clone(), api_version.to_owned()));
        Err("it is not known yet".to_owned())
    }
}

impl PendingConversions {
    /// Finds out what was wanted. Says whether it is worth trying again.
    pub(super) async fn learn(&self, converter: &Converter, store: &Store) -> Result<bool, Status> {
        let wanted = self.lock().wanted.take();
        let Some((object, api_version)) = wanted else { return Ok(false) };
        if self.lock().known.len() >= MOST {
            return Err(Status::unexpected(
                "too many versions of an object are needed to know who owns what",
            ));
        }
        let answer = converter.convert(object.clone(), &api_version, store).await?;
        self.lock().known.push(Conversion { object, api_version, answer });
        Ok(true)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
