//! Leader election: takes the lease, and renews it.

use std::time::Duration;

use bytes::Bytes;
use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, Error, ObjectPath, Query, Resource, Subresource, WatchEvent};
use ferroplane_engine::{Lease, LeaseClaim, chain, held_lease, released_lease};
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{info, warn};

use super::term::Term;
use crate::runtime::clock::Clock;

/// How soon to try again after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How often to read a lease that cannot be watched.
const READ_INTERVAL: Duration = Duration::from_secs(2);
/// The timeout of requests that are not urgent.
const PATIENCE: Duration = Duration::from_secs(5);

/// A replica and the lease that it wants.
#[derive(Debug, Clone)]
pub struct Candidacy {
    pub namespace: String,
    pub lease: String,
    /// A unique name.
    pub identity: String,
    /// How long the lease is valid after it was renewed. It is renewed after a third of that.
    pub duration: Duration,
}

/// A replica that takes part in the election.
#[derive(Debug)]
pub struct Election {
    cluster: ApiClient,
    clock: Clock,
    candidacy: Candidacy,
    resource: Resource,
    term: Term,
    /// The lease as it was last seen, and since when it is unchanged.
    seen: Option<(Lease, Instant)>,
    /// The object, to write changes of it.
    object: Object,
    renewed: Instant,
    /// The leader in the last log message about standing by.
    told: String,
}

impl Election {
    /// The client must be one that is not fenced.
    pub fn new(client: kube::Client, clock: Clock, candidacy: Candidacy, term: Term) -> Self {
        let resource = Resource {
            api_version: "coordination.k8s.io/v1".to_owned(),
            kind: "Lease".to_owned(),
            plural: "leases".to_owned(),
            is_namespaced: true,
        };
        Self {
            cluster: ApiClient::new(client),
            clock,
            candidacy,
            resource,
            term,
            seen: None,
            object: Object::new(),
            renewed: Instant::now(),
            told: String::new(),
        }
    }

    /// Waits until this replica leads. From then on, [`Election::keep`] has to be polled.
    pub async fn win(&mut self) {
        loop {
            match self.try_to_win().await {
                Ok(true) => return info!(lease = self.candidacy.lease, "became the leader"),
                Ok(false) => {}
                Err(error) => {
                    warn!(error = chain(&error), "cannot take part in the leader election");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Try to become the leader. If that fails, it returns after a time when another attempt is useful.
    async fn try_to_win(&mut self) -> Result<bool, Error> {
        let present = in_time(PATIENCE, self.cluster.get_object(self.path())).await?;
        self.notice(present.unwrap_or_default());
        if let Some((lease, since)) = &self.seen
            && let LeaseClaim::Wait(left) = lease.claim(&self.candidacy.identity, since.elapsed())
        {
            if lease.holder != self.told {
                info!(lease = self.candidacy.lease, holder = lease.holder, "replica stands by");
                self.told.clone_from(&lease.holder);
            }
            self.follow(Instant::now() + left).await?;
            return Ok(false);
        }
        match in_time(PATIENCE, self.write_held()).await {
            Ok(()) => Ok(true),
            // Another replica was faster.
            Err(error) if error.is_conflict() || error.is_already_exists() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the lease may be free: it was not renewed for long enough, was released, or the watch ended.
    async fn follow(&mut self, mut deadline: Instant) -> Result<(), Error> {
        let fields = format!("metadata.name={}", self.candidacy.lease);
        let version = meta::resource_version(&self.object).to_owned();
        let query = Query { fields: Some(&fields), resource_version: Some(&version), ..Query::default() };
        let watch = self.cluster.watch(&self.resource, &self.candidacy.namespace, &query);
        let mut watch = match in_time(PATIENCE, watch).await {
            // Without the right to watch it, the lease is read from time to time.
            Err(error) if error.is_forbidden() => {
                tokio::time::sleep_until(deadline.min(Instant::now() + READ_INTERVAL)).await;
                return Ok(());
            }
            watch => watch?,
        };
        loop {
            let event = tokio::select! {
                biased;
                // Events first: a renewal that arrived before the deadline counts, even if both are ready.
                event = watch.next() => event?,
                () = tokio::time::sleep_until(deadline) => return Ok(()),
            };
            match event {
                Some(WatchEvent::Applied(bytes)) => {
                    self.notice(serde_json::from_slice(&bytes).map_err(Error::invalid_answer)?);
                }
                Some(WatchEvent::Bookmark(_)) => continue,
                Some(WatchEvent::Deleted(_)) | None => return Ok(()),
            }
            let Some((lease, since)) = &self.seen else { return Ok(()) };
            match lease.claim(&self.candidacy.identity, since.elapsed()) {
                LeaseClaim::Take => return Ok(()),
                LeaseClaim::Wait(left) => deadline = Instant::now() + left,
            }
        }
    }

    /// Renews the lease. Returns when it is lost, or could not be renewed for too long.
    pub async fn keep(&mut self) {
        loop {
            tokio::time::sleep_until(self.renewed + self.candidacy.duration / 3).await;
            while let Err(error) = self.renew().await {
                warn!(error = chain(&error), "cannot renew the lease");
                if self.has_lost() {
                    self.term.end();
                    return;
                }
                // The end of the term does not wait for a request.
                let pause = PAUSE.min(self.candidacy.duration / 10);
                tokio::time::sleep_until((Instant::now() + pause).min(self.end())).await;
            }
        }
    }

    async fn renew(&mut self) -> Result<(), Error> {
        let left = self.end().saturating_duration_since(Instant::now()).min(PATIENCE);
        match in_time(left, self.write_held()).await {
            // Another client wrote to it, perhaps without taking it.
            Err(error) if error.is_conflict() || error.is_not_found() => {
                let left = self.end().saturating_duration_since(Instant::now()).min(PATIENCE);
                let present = in_time(left, self.cluster.get_object(self.path())).await?;
                self.notice(present.unwrap_or_default());
                if self.is_somebody_elses() {
                    return Err(error);
                }
                in_time(left, self.write_held()).await
            }
            answer => answer,
        }
    }

    fn has_lost(&self) -> bool {
        self.is_somebody_elses() || Instant::now() >= self.end()
    }

    fn is_somebody_elses(&self) -> bool {
        self.seen.as_ref().is_some_and(|(lease, _)| lease.holder != self.candidacy.identity)
    }

    /// Until when this replica may write.
    fn end(&self) -> Instant {
        self.renewed + self.candidacy.duration * 2 / 3
    }

    /// Gives the lease back, so that another client can lead at once. Nothing may be written any more.
    pub async fn release(&mut self) {
        self.term.end();
        match in_time(PATIENCE, self.try_to_release()).await {
            Ok(()) => info!(lease = self.candidacy.lease, "released the lease"),
            Err(error) => warn!(error = chain(&error), "cannot release the lease; it expires by itself"),
        }
    }

    async fn try_to_release(&mut self) -> Result<(), Error> {
        loop {
            let Some((lease, _)) = self.seen.clone().filter(|_| !self.is_somebody_elses()) else {
                return Ok(());
            };
            match self.write(released_lease(&lease, &self.clock.micros())).await {
                // A renewal that was aborted may have succeeded.
                Err(error) if error.is_conflict() => {
                    let present = self.cluster.get_object(self.path()).await?;
                    self.notice(present.unwrap_or_default());
                }
                answer => return answer,
            }
        }
    }

    /// Take or renew the lease, if it is unchanged since it was last seen.
    async fn write_held(&mut self) -> Result<(), Error> {
        let sent = Instant::now();
        let before = self.seen.as_ref().map(|(lease, _)| lease);
        let Candidacy { identity, duration, .. } = &self.candidacy;
        let spec = held_lease(before, identity, *duration, &self.clock.micros());
        self.write(spec).await?;
        self.renewed = sent;
        self.term.extend(self.end());
        Ok(())
    }

    async fn write(&mut self, spec: Value) -> Result<(), Error> {
        let mut object = self.object.clone();
        if object.is_empty() {
            let name = &self.candidacy.lease;
            let metadata = json!({"name": name, "namespace": self.candidacy.namespace});
            object.insert("metadata".to_owned(), metadata);
            self.resource.add_kind(&mut object);
        }
        object.insert("spec".to_owned(), spec);
        let written: Bytes = if self.object.is_empty() {
            self.cluster.create(&self.resource, &self.candidacy.namespace, &object).await?
        } else {
            self.cluster.replace(self.path(), Subresource::None, &object).await?
        };
        self.notice(serde_json::from_slice(&written).map_err(Error::invalid_answer)?);
        Ok(())
    }

    /// Record the current lease. Empty if it does not exist.
    fn notice(&mut self, object: Object) {
        if object.is_empty() {
            self.seen = None;
        } else {
            let lease = Lease::read(object.get("spec").unwrap_or(&Value::Null));
            if self.seen.as_ref().is_none_or(|(seen, _)| *seen != lease) {
                self.seen = Some((lease, Instant::now()));
            }
        }
        self.object = object;
    }

    fn path(&self) -> ObjectPath<'_> {
        ObjectPath {
            resource: &self.resource,
            namespace: &self.candidacy.namespace,
            name: &self.candidacy.lease,
        }
    }
}

async fn in_time<T>(limit: Duration, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(Error::timeout()))
}
