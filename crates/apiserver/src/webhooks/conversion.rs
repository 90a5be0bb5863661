//! Webhooks that convert custom resources between the versions of their definition.
//!
//! # Guarantees
//! * Identity and history of an object are the server's: of the metadata, a webhook can change labels and annotations only.
//! * What was converted is kept for a while, in a bounded amount of memory, as long as the definition stays as it is.

mod cache;
mod review;

use std::time::Duration;

use bytes::Bytes;
use ferroplane_golang::json::JsonObject;
use ferroplane_schema::status::Status;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::connections::{self, Connections, Reply};
use super::destination::Destination;
use crate::store::Store;
use cache::Cache;
use review::CallError;

/// How long a webhook may think about it.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How many conversions of one definition are under way at most.
const AT_ONCE: usize = 8;
/// How much is sent at once, unless one object is larger.
const BATCH: usize = 1 << 20;
/// How many bytes of objects that were converted are kept for a definition.
const KEPT: usize = 64 << 20;

/// Who converts the objects of a definition.
#[derive(Debug)]
pub(crate) struct Converter {
    kind: String,
    destination: Destination,
    connections: Connections,
    /// The version of reviews that it reads, if it is one that we write.
    review: Option<&'static str>,
    room: Semaphore,
    cache: Cache,
}

impl Converter {
    /// Reads how a definition wants to be converted. None if all versions are the same.
    pub(crate) fn read(conversion: &Value, kind: &str) -> Option<Self> {
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
        // The first in the webhook's own order that we can write, as in kube-apiserver.
        let known = |version: &Value| ["v1", "v1beta1"].into_iter().find(|known| version == known);
        Some(Self {
            kind: kind.to_owned(),
            destination: Destination::read(&webhook["clientConfig"]),
            connections: Connections::default(),
            review: versions.into_iter().find_map(known),
            room: Semaphore::new(AT_ONCE),
            cache: Cache::new(KEPT),
        })
    }

    /// Stored objects in a version. `prepare` reads an object before it is converted, `finish` makes it fit afterwards.
    pub(crate) async fn convert_stored(
        &self,
        stored: &[Bytes],
        api_version: &str,
        prepare: &(dyn Fn(&Bytes) -> JsonObject + Sync),
        finish: &(dyn Fn(&mut JsonObject) + Sync),
        store: &Store,
    ) -> Result<Vec<Bytes>, Status> {
        let mut converted: Vec<Option<Bytes>> =
            stored.iter().map(|stored| self.cache.get(stored, api_version)).collect();
        if converted.iter().any(Option::is_none) {
            let _turn = self.room.acquire().await;
            // Another request may have converted them meanwhile.
            for (converted, stored) in converted.iter_mut().zip(stored).filter(|(it, _)| it.is_none()) {
                *converted = self.cache.get(stored, api_version);
            }
            // Lists are converted in few requests: one for each object would take minutes for thousands of them.
            let missing = (0..stored.len()).filter(|index| converted[*index].is_none()).collect();
            for batch in batches(missing, |index| stored[index].len()) {
                let objects = batch.iter().map(|index| prepare(&stored[*index])).collect();
                for (index, mut object) in batch.into_iter().zip(self.ask(objects, api_version, store).await?)
                {
                    // Before it is cached, so that defaults and pruning are paid for once.
                    finish(&mut object);
                    let bytes = Bytes::from(Value::Object(object).to_string());
                    self.cache.put(&stored[index], api_version, bytes.clone());
                    converted[index] = Some(bytes);
                }
            }
        }
        Ok(converted.into_iter().flatten().collect())
    }

    /// One object in another version.
    pub(crate) async fn convert(
        &self,
        object: JsonObject,
        api_version: &str,
        store: &Store,
    ) -> Result<JsonObject, Status> {
        let _turn = self.room.acquire().await;
        // Boxed: writes hold this future, and most kinds have no webhook.
        let converted = Box::pin(self.ask(vec![object], api_version, store)).await?;
        converted.into_iter().next().ok_or_else(|| Status::unexpected("conversion webhook returned nothing"))
    }

    /// Asks the webhook. What is in the version already is not sent.
    async fn ask(
        &self,
        mut objects: Vec<JsonObject>,
        api_version: &str,
        store: &Store,
    ) -> Result<Vec<JsonObject>, Status> {
        let is_other =
            |object: &JsonObject| object.get("apiVersion").is_none_or(|found| found != api_version);
        let places: Vec<_> = (0..objects.len()).filter(|index| is_other(&objects[*index])).collect();
        let Some(first) = places.first() else { return Ok(objects) };
        let from = objects[*first].get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let fail = |problem: review::ConversionProblem| problem.to_status(&from, &self.kind);
        let Some(version) = self.review else {
            return Err(Status::unexpected("no supported conversion review versions"));
        };
        let sent: Vec<&JsonObject> = places.iter().map(|index| &objects[*index]).collect();
        // The answer has to repeat it: one that a proxy kept from another request is refused.
        let uid = crate::random::uuid().to_string();
        let request = review::ask(version, &uid, api_version, &sent);
        let reply = self.send(request.into(), store).await.map_err(|error| fail(error.into()))?;
        let answer = review::read(&reply, version, &uid).map_err(fail)?;
        let converted = review::check(answer, &sent, api_version).map_err(fail)?;
        for (index, object) in places.into_iter().zip(converted) {
            objects[index] = object;
        }
        Ok(objects)
    }

    async fn send(&self, body: Bytes, store: &Store) -> Result<Reply, CallError> {
        let route = self.destination.route(store)?;
        let tls = self.destination.tls()?;
        // kube-apiserver tells webhooks how long it will wait, and libraries read it.
        let query = format!("timeout={}s", TIMEOUT.as_secs());
        let sent = tokio::time::timeout(TIMEOUT, self.connections.post(&route, tls, &query, body)).await;
        let reply = sent.unwrap_or(Err(connections::Error::Deadline));
        reply.map_err(|error| {
            let url = format!("https://{}{}?{query}", route.authority, route.path);
            CallError::Unreached { url, error }
        })
    }
}

/// What is sent together: as many as are not too much.
fn batches(all: Vec<usize>, size_of: impl Fn(usize) -> usize) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut size = 0;
    for index in all {
        size += size_of(index);
        match batches.last_mut() {
            Some(batch) if size <= BATCH => batch.push(index),
            _ => {
                size = size_of(index);
                batches.push(vec![index]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_sent_together_unless_they_are_large() {
        let sizes = [10, BATCH, 10, 10, BATCH - 20, 10, 2 * BATCH, 1];
        let sent = batches((0..sizes.len()).collect(), |index| sizes[index]);
        assert_eq!(sent, [vec![0], vec![1], vec![2, 3, 4], vec![5], vec![6], vec![7]]);
    }
}
