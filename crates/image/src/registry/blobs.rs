//! Fetching blobs: streamed to the disk, verified, and resumed where a transfer broke off.

use bytes::Bytes;
use http::header::{CONTENT_RANGE, RANGE};
use http::{HeaderValue, StatusCode};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::exchange::{Ask, Repository};
use super::http_client::Answer;
use super::pull::Reporter;
use super::{Failure, Registry};
use crate::manifest::Descriptor;
use crate::store::{self, BlobWriter, Store};

/// How many pieces wait for the disk.
const QUEUE: usize = 16;
/// A transfer that got this far is not one that fails again and again.
pub(super) const PROGRESS: u64 = 1 << 20;

impl Registry {
    /// Make sure that a blob is in the store, whole.
    pub(super) async fn fetch_blob(
        &self,
        repository: &Repository,
        descriptor: &Descriptor,
        store: &Store,
        reporter: &Reporter,
    ) -> Result<(), Failure> {
        if is_stored(store, descriptor).await? {
            reporter.report(descriptor, descriptor.size);
            return Ok(());
        }
        let mut writer = resume(store, descriptor).await?;
        if writer.written() > 0 {
            writer = self.fill(repository, descriptor, writer, reporter).await?;
            match commit(writer).await {
                // What was left of an earlier transfer was wrong. What is fetched now is not fetched again.
                Err(Failure::Store(store::Error::Mismatch { .. })) => {
                    writer = resume(store, descriptor).await?;
                }
                done => return done,
            }
        }
        let writer = self.fill(repository, descriptor, writer, reporter).await?;
        commit(writer).await.map_err(|failure| match failure {
            Failure::Store(store::Error::Mismatch { expected, actual }) => {
                Failure::Mismatch { host: repository.endpoint.registry.clone(), expected, actual }
            }
            other => other,
        })
    }

    /// Fetch what is missing, in as many transfers as it takes.
    async fn fill(
        &self,
        repository: &Repository,
        descriptor: &Descriptor,
        mut writer: BlobWriter,
        reporter: &Reporter,
    ) -> Result<BlobWriter, Failure> {
        let mut failures = 0;
        while writer.written() < descriptor.size {
            let before = writer.written();
            let (after, received) = self.transfer(repository, descriptor, writer, reporter).await?;
            writer = after;
            if let Err(failure) = received {
                if writer.written() >= before + PROGRESS {
                    failures = 0;
                }
                self.options().retries.wait(&mut failures, failure).await?;
            }
        }
        Ok(writer)
    }

    /// One transfer. Gives the writer back, with what came, whether or not all of it came.
    async fn transfer(
        &self,
        repository: &Repository,
        descriptor: &Descriptor,
        mut writer: BlobWriter,
        reporter: &Reporter,
    ) -> Result<(BlobWriter, Result<(), Failure>), Failure> {
        let offset = writer.written();
        let answer = match self.ask_for_blob(repository, descriptor, offset).await {
            Ok(answer) => answer,
            Err(failure) => return Ok((writer, Err(failure))),
        };
        // A registry that does not know ranges sends everything again.
        if answer.head.status != StatusCode::PARTIAL_CONTENT && offset > 0 {
            writer.restart()?;
        } else if let Err(failure) = check_range(&answer, offset, descriptor.size) {
            return Ok((writer, Err(failure)));
        }
        let offset = writer.written();
        let (pieces, queue) = mpsc::channel(QUEUE);
        let writing = spawn_blocking(move || write(writer, queue));
        let received = receive(answer, descriptor, offset, pieces, reporter).await;
        let (writer, written) = writing.await?;
        written?;
        Ok((writer, received))
    }

    async fn ask_for_blob(
        &self,
        repository: &Repository,
        descriptor: &Descriptor,
        offset: u64,
    ) -> Result<Answer, Failure> {
        let uri = repository.uri(&format!("blobs/{}", descriptor.digest))?;
        let mut ask = Ask::get(uri, "the request for a blob");
        if offset > 0 {
            let range = HeaderValue::from_str(&format!("bytes={offset}-"));
            ask = ask.with(RANGE, range.expect("digits are printable"));
        }
        match self.ask(repository, &ask).await {
            // The registry has less than there should be, or does not like the question. The whole is asked for then.
            Err(Failure::Status { status: StatusCode::RANGE_NOT_SATISFIABLE, .. }) if offset > 0 => {
                ask.headers.remove(RANGE);
                self.ask(repository, &ask).await
            }
            Err(Failure::Status { status: StatusCode::NOT_FOUND, .. }) => {
                let (registry, what) = (repository.endpoint.registry.clone(), descriptor.digest.to_string());
                let has_credential = self.credential(repository).await?.is_some();
                Err(Failure::NotFound { registry, what, has_credential })
            }
            other => other,
        }
    }
}

/// Whether a part is the part that was asked for.
fn check_range(answer: &Answer, offset: u64, size: u64) -> Result<(), Failure> {
    if answer.head.status != StatusCode::PARTIAL_CONTENT {
        return Ok(());
    }
    let is_wanted = answer.header(CONTENT_RANGE).is_some_and(|range| {
        let range = range.strip_prefix("bytes ").and_then(|range| range.split_once('/'));
        range.is_some_and(|(range, total)| {
            range.split_once('-').is_some_and(|(start, _)| start.parse() == Ok(offset))
                && (total == "*" || total.parse() == Ok(size))
        })
    });
    if is_wanted {
        return Ok(());
    }
    Err(Failure::Protocol { host: answer.host.clone(), what: "the range of a part" })
}

/// Pass on what comes, and not a byte more than there should be.
async fn receive(
    mut answer: Answer,
    descriptor: &Descriptor,
    offset: u64,
    pieces: mpsc::Sender<Bytes>,
    reporter: &Reporter,
) -> Result<(), Failure> {
    let expected = descriptor.size - offset;
    let wrong =
        |host: &str, actual| Err(Failure::Length { host: host.to_owned(), what: "a blob", expected, actual });
    if let Some(actual) = answer.length().filter(|actual| *actual > expected) {
        return wrong(&answer.host, actual);
    }
    let mut received = 0;
    while let Some(chunk) = answer.next_chunk().await? {
        received += chunk.len() as u64;
        if received > expected {
            return Err(Failure::Endless {
                host: answer.host.clone(),
                what: "a blob",
                limit: descriptor.size,
            });
        }
        // A user who writes has failed, and says why.
        if pieces.send(chunk).await.is_err() {
            return Ok(());
        }
        reporter.report(descriptor, offset + received);
    }
    if received < expected { wrong(&answer.host, received) } else { Ok(()) }
}

fn write(mut writer: BlobWriter, mut queue: mpsc::Receiver<Bytes>) -> (BlobWriter, Result<(), store::Error>) {
    while let Some(piece) = queue.blocking_recv() {
        if let Err(error) = writer.append(&piece) {
            return (writer, Err(error));
        }
    }
    (writer, Ok(()))
}

async fn resume(store: &Store, descriptor: &Descriptor) -> Result<BlobWriter, Failure> {
    let (store, descriptor) = (store.clone(), descriptor.clone());
    blocking(move || store.resume(&descriptor)).await
}

async fn commit(writer: BlobWriter) -> Result<(), Failure> {
    blocking(move || writer.commit().map(|_| ())).await
}

/// Whether content is there and undamaged.
async fn is_stored(store: &Store, descriptor: &Descriptor) -> Result<bool, Failure> {
    let (store, digest) = (store.clone(), descriptor.digest.clone());
    blocking(move || match store.read(&digest) {
        Ok(_) => Ok(true),
        Err(error) if error.is_absent() => Ok(false),
        Err(error) => Err(error),
    })
    .await
}

/// The store waits for the disk, which nothing else should.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, store::Error> + Send + 'static,
) -> Result<T, Failure> {
    Ok(spawn_blocking(work).await??)
}
