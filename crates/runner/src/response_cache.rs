//! Caches responses of functions for their time to live: in files, over restarts, or in memory.
//!
//! They are frames of a [`SegmentLog`]: when it is full, its oldest segment is dropped. So there is always a bound, and never a moment at
//! which everything is lost. The content of a frame is: key (32 bytes), deadline (8, milliseconds since 1970, little-endian), response.
//!
//! # Invariants
//! * What cannot be read, or is not what was written, is as good as not there. Nothing here can fail a call.
//! * A response is found by the revision that gave it and the tag of the request, and by nothing less.

#[cfg(test)]
mod fixtures;
mod version1;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferroplane_segments::{FileFormat, Limits, OpenError, Position, SegmentLog, frame};
use ferroplane_wire::v1::RunFunctionResponse;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tracing::warn;

const FORMAT: FileFormat = FileFormat::new(*b"ferroplane-ans", 2);
/// A segment has room for the largest response that a function may give.
const LIMITS: Limits = Limits { bytes: 64 << 20, segments: 2 };
/// The default limit of how long a response is cached.
const LONGEST: Duration = Duration::from_hours(24);
/// How often to look whether another process has left the directory, in milliseconds.
const PAUSE: u64 = 1000;

const KEY: usize = 32;
const DEADLINE: usize = 8;
type CacheKey = [u8; KEY];

/// Responses of functions.
pub struct ResponseCache {
    state: Mutex<State>,
    /// Tells the milliseconds since 1970.
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    /// No response is kept for longer.
    max_ttl: Duration,
}

impl fmt::Debug for ResponseCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseCache").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State {
    log: SegmentLog,
    index: HashMap<CacheKey, Kept>,
    /// Where the log should be, if another process has that directory: then it is in memory.
    wanted: Option<Wanted>,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    position: Position,
    /// In milliseconds since 1970.
    deadline: u64,
}

#[derive(Debug)]
struct Wanted {
    directory: PathBuf,
    /// When to look again, in milliseconds since 1970.
    next_look: u64,
}

/// A response with what it is found by.
#[derive(Debug)]
struct Record {
    key: CacheKey,
    deadline: u64,
    response: Vec<u8>,
}

/// Responses that cannot be kept where they should be.
#[derive(Debug, thiserror::Error)]
#[error("cannot store responses of functions in {}", directory.display())]
pub struct Unkeepable {
    directory: PathBuf,
    source: OpenError,
}

impl Unkeepable {
    /// Whether a later release wrote what is there.
    pub fn is_of_later_version(&self) -> bool {
        matches!(self.source, OpenError::LaterVersion { .. })
    }
}

impl ResponseCache {
    /// Keep responses in memory.
    pub fn in_memory() -> Self {
        Self::in_memory_by(now)
    }

    /// Keep responses in memory, for as long as they hold by this clock, which tells milliseconds.
    pub fn in_memory_by(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            state: Mutex::new(State::new(SegmentLog::in_memory(FORMAT, LIMITS))),
            clock: Box::new(clock),
            max_ttl: LONGEST,
        }
    }

    /// Keep responses in a directory, and find those that were kept there before. While another process has the directory, they are kept
    /// in memory.
    pub fn open(directory: &Path) -> Result<Self, Unkeepable> {
        Self::open_with(directory, LIMITS, now)
    }

    /// The same, but no response is kept for longer than this.
    #[must_use]
    pub fn with_max_ttl(self, max_ttl: Duration) -> Self {
        Self { max_ttl, ..self }
    }

    fn open_with(
        directory: &Path,
        limits: Limits,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Self, Unkeepable> {
        let state = match SegmentLog::open(directory, FORMAT, limits) {
            Ok(log) => State::found(log, directory, clock()),
            Err(error @ OpenError::InUse { .. }) => {
                let error: &dyn std::error::Error = &error;
                warn!(error, "keeping responses of functions in memory until the other process ends");
                let wanted = Wanted { directory: directory.to_owned(), next_look: clock() + PAUSE };
                State { wanted: Some(wanted), ..State::new(SegmentLog::in_memory(FORMAT, limits)) }
            }
            Err(source) => return Err(Unkeepable { directory: directory.to_owned(), source }),
        };
        Ok(Self { state: Mutex::new(state), clock: Box::new(clock), max_ttl: LONGEST })
    }

    /// What a revision answered to the request with this tag, if that still holds. Its time to live is what is left of it.
    pub fn get(&self, revision: &str, tag: &str) -> Option<RunFunctionResponse> {
        let key = key(revision, tag);
        let now = (self.clock)();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = *state.index.get(&key)?;
        let left = kept.deadline.saturating_sub(now);
        // A deadline that is too far away was made by a clock that was wrong.
        if left == 0 || Duration::from_millis(left) > self.max_ttl {
            state.index.remove(&key);
            return None;
        }
        let content = state.log.read(kept.position)?;
        // Decoding may take long for a large response, and other calls need the lock.
        drop(state);
        let mut response = RunFunctionResponse::decode(content.get(KEY + DEADLINE..)?).ok()?;
        let left = Duration::from_millis(left);
        // What is left, not what was said: the XR is composed again when the first of its answers expires.
        response.meta.get_or_insert_default().ttl = prost_types::Duration::try_from(left).ok();
        Some(response)
    }

    /// Keep a response for as long as it holds. One that does not say for how long is not kept. Returns how much was written.
    pub fn put(&self, revision: &str, tag: &str, response: &RunFunctionResponse) -> Option<usize> {
        let ttl = response.meta.as_ref().and_then(|meta| Duration::try_from(meta.ttl?).ok())?;
        if ttl.is_zero() || tag.is_empty() {
            return None;
        }
        let ttl = u64::try_from(ttl.min(self.max_ttl).as_millis()).unwrap_or_default();
        let now = (self.clock)();
        let record =
            Record { key: key(revision, tag), deadline: now + ttl, response: response.encode_to_vec() };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.take_over(now);
        if let Err(error) = state.append(&record) {
            warn!(error = &error as &dyn std::error::Error, "cannot cache the response of a function");
            return None;
        }
        Some(record.response.len())
    }
}

impl State {
    fn new(log: SegmentLog) -> Self {
        Self { log, index: HashMap::new(), wanted: None }
    }

    /// What is in a log that was opened, and in files of the version before.
    fn found(log: SegmentLog, directory: &Path, now: u64) -> Self {
        let mut state = Self::new(log);
        state.read_index(now);
        // Failing that, they are only asked again.
        let records = version1::records(directory).filter(|record| record.deadline > now);
        if records.map(|record| state.append(&record)).all(|appended| appended.is_ok()) {
            version1::remove(directory);
        }
        state
    }

    /// Find what was kept before.
    fn read_index(&mut self, now: u64) {
        for (segment, bytes) in self.log.segments() {
            for frame in FORMAT.frames(&bytes) {
                let Some((key, deadline)) = read_head(frame.content) else { continue };
                if deadline > now {
                    let (offset, length) = (frame.offset as u64, frame.bytes.len() as u64);
                    // Segments come oldest first, so that the latest answer for a key wins.
                    self.index.insert(key, Kept { position: Position { segment, offset, length }, deadline });
                }
            }
        }
    }

    fn append(&mut self, record: &Record) -> std::io::Result<()> {
        let frame = frame(|content| {
            content.reserve(KEY + DEADLINE + record.response.len());
            content.extend_from_slice(&record.key);
            content.extend_from_slice(&record.deadline.to_le_bytes());
            content.extend_from_slice(&record.response);
        });
        let oldest = self.log.first_segment();
        let position = self.log.append(&frame)?;
        self.index.insert(record.key, Kept { position, deadline: record.deadline });
        let first = self.log.first_segment();
        if first != oldest {
            self.index.retain(|_, kept| kept.position.segment >= first);
        }
        Ok(())
    }

    /// Continue in the directory as soon as the other process has left it. What is in memory is asked again.
    fn take_over(&mut self, now: u64) {
        let Some(wanted) = self.wanted.as_mut().filter(|wanted| wanted.next_look <= now) else { return };
        wanted.next_look = now + PAUSE;
        let Ok(log) = SegmentLog::open(&wanted.directory, FORMAT, self.log.limits()) else { return };
        *self = Self::found(log, &wanted.directory.clone(), now);
    }
}

/// What a response is found by, and until when it holds.
fn read_head(content: &[u8]) -> Option<(CacheKey, u64)> {
    let (key, rest) = content.split_first_chunk()?;
    let (deadline, _) = rest.split_first_chunk()?;
    Some((*key, u64::from_le_bytes(*deadline)))
}

fn key(revision: &str, tag: &str) -> CacheKey {
    // The zero byte keeps `a` + `bc` apart from `ab` + `c`.
    Sha256::new().chain_update(revision).chain_update([0]).chain_update(tag).finalize().into()
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ferroplane_wire::v1::{ResponseMeta, Result as Said};

    use super::*;

    fn answer(message: &str, seconds: i64) -> RunFunctionResponse {
        let ttl = Some(prost_types::Duration { seconds, nanos: 0 });
        let said = Said { message: message.to_owned(), ..Said::default() };
        RunFunctionResponse {
            meta: Some(ResponseMeta { ttl, ..ResponseMeta::default() }),
            results: vec![said],
            ..RunFunctionResponse::default()
        }
    }

    fn message(answers: &ResponseCache, revision: &str, tag: &str) -> Option<String> {
        answers.get(revision, tag).map(|response| response.results[0].message.clone())
    }

    #[test]
    fn answer_is_found_by_revision_and_tag() {
        let answers = ResponseCache::in_memory();
        answers.put("a-1", "tag", &answer("one", 60));
        assert_eq!(message(&answers, "a-1", "tag").as_deref(), Some("one"));
        assert_eq!(message(&answers, "a-2", "tag"), None);
        assert_eq!(message(&answers, "a-1", "other"), None);
    }

    #[test]
    fn time_to_live_is_what_is_left() {
        let answers = ResponseCache::in_memory();
        answers.put("a", "tag", &answer("one", 60));
        let ttl = answers.get("a", "tag").unwrap().meta.unwrap().ttl.unwrap();
        assert!(ttl.seconds <= 60, "{ttl:?}");
        answers.put("a", "none", &answer("one", 0));
        assert_eq!(message(&answers, "a", "none"), None);
    }

    #[test]
    fn answer_is_kept_no_longer_than_is_allowed() {
        let answers = ResponseCache::in_memory().with_max_ttl(Duration::from_secs(10));
        answers.put("a", "tag", &answer("one", 60));
        let ttl = answers.get("a", "tag").unwrap().meta.unwrap().ttl.unwrap();
        assert!(ttl.seconds <= 10, "{ttl:?}");
    }

    #[test]
    fn answers_survive_a_restart_and_garbage() {
        let directory = tempfile::tempdir().unwrap();
        let answers = ResponseCache::open(directory.path()).unwrap();
        answers.put("a", "one", &answer("one", 60));
        answers.put("a", "two", &answer("two", 60));
        drop(answers);
        let found = message(&ResponseCache::open(directory.path()).unwrap(), "a", "two");
        assert_eq!(found.as_deref(), Some("two"));

        let path = directory.path().join("segment-000000000001");
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let answers = ResponseCache::open(directory.path()).unwrap();
            assert_eq!(message(&answers, "a", "two"), None, "cut at {cut}");
            answers.put("a", "three", &answer("three", 60));
            drop(answers);
            let answers = ResponseCache::open(directory.path()).unwrap();
            assert_eq!(message(&answers, "a", "three").as_deref(), Some("three"), "cut at {cut}");
        }
        for place in 0..whole.len() {
            let mut garbled = whole.clone();
            garbled[place] ^= 1;
            // That would be a file of a later release.
            if place == FORMAT.header().len() - 2 {
                continue;
            }
            std::fs::write(&path, garbled).unwrap();
            let answers = ResponseCache::open(directory.path()).unwrap();
            let found = message(&answers, "a", "one");
            assert!(found.is_none() || found.as_deref() == Some("one"), "changed at {place}: {found:?}");
        }
    }

    #[test]
    fn there_is_a_bound() {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { bytes: 2000, segments: 2 };
        let answers = ResponseCache::open_with(directory.path(), limits, now).unwrap();
        for number in 0..200 {
            answers.put("a", &number.to_string(), &answer("some text", 60));
        }
        let files = std::fs::read_dir(directory.path()).unwrap();
        let size: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(size < 2500, "{size}");
        assert!(message(&answers, "a", "199").is_some());
        assert_eq!(message(&answers, "a", "0"), None);
        assert!(answers.state.lock().unwrap().index.len() < 50);
    }

    #[test]
    fn second_process_keeps_responses_in_memory_until_the_first_ends() {
        let directory = tempfile::tempdir().unwrap();
        let time = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(now()));
        let clock = {
            let time = time.clone();
            move || time.load(std::sync::atomic::Ordering::Relaxed)
        };
        let first = ResponseCache::open(directory.path()).unwrap();
        first.put("a", "first", &answer("one", 60));
        let second = ResponseCache::open_with(directory.path(), LIMITS, clock).unwrap();
        second.put("a", "second", &answer("two", 60));
        assert_eq!(message(&second, "a", "first"), None);
        assert_eq!(message(&second, "a", "second").as_deref(), Some("two"));
        drop(first);
        time.fetch_add(PAUSE, std::sync::atomic::Ordering::Relaxed);
        second.put("a", "third", &answer("three", 60));
        assert_eq!(message(&second, "a", "first").as_deref(), Some("one"));
        drop(second);
        let third = ResponseCache::open(directory.path()).unwrap();
        assert_eq!(message(&third, "a", "first").as_deref(), Some("one"));
        assert_eq!(message(&third, "a", "third").as_deref(), Some("three"));
    }

    #[test]
    fn responses_of_a_later_release_are_refused_and_not_touched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("segment-000000000001");
        std::fs::write(&path, b"ferroplane-ans\x03\nwhatever that is").unwrap();
        let error = ResponseCache::open(directory.path()).unwrap_err();
        assert!(error.is_of_later_version(), "{error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"ferroplane-ans\x03\nwhatever that is");
    }
}
