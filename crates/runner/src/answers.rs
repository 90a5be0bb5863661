//! Answers that functions gave, kept for as long as they said that they hold: in files, over restarts, or in memory.
//!
//! Two segments: one that is appended to, and the one before it, which is dropped when the first is full. So there is
//! always a bound, and never a moment at which everything is lost.
//!
//! # Invariants
//! * What cannot be read, or is not what was written, is as good as not there. Nothing here can fail a call.
//! * An answer is found by the revision that gave it and the tag of the request, and by nothing less.

#[cfg(test)]
mod fixtures;
mod segment;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferroplane_wire::v1::RunFunctionResponse;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tracing::warn;

use segment::{Record, Segment};

/// How large a segment becomes.
const SEGMENT: u64 = 32 << 20;
/// No answer is kept for longer.
const LONGEST: Duration = Duration::from_hours(24);

/// Answers that functions gave.
pub struct Answers {
    directory: Option<PathBuf>,
    segment_size: u64,
    state: Mutex<State>,
    /// Tells the milliseconds since 1970.
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("directory", &self.directory).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State {
    current: Segment,
    previous: Option<Segment>,
    /// Where answers are. The number of the segment tells whether it is still there.
    index: HashMap<Key, Place>,
    number: u64,
}

type Key = [u8; 32];

#[derive(Debug, Clone, Copy)]
struct Place {
    segment: u64,
    offset: u64,
    length: u32,
    /// In milliseconds since 1970.
    deadline: u64,
}

/// Answers that cannot be kept where they should be.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep answers of functions in {}", directory.display())]
pub struct Unkeepable {
    directory: PathBuf,
    source: std::io::Error,
}

impl Answers {
    /// Keep answers in memory.
    pub fn in_memory() -> Self {
        Self::with(None, Segment::in_memory(), None, SEGMENT)
    }

    /// Keep answers in memory, for as long as they hold by this clock, which tells milliseconds.
    pub fn in_memory_by(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { clock: Box::new(clock), ..Self::in_memory() }
    }

    /// Keep answers in a directory, and find those that were kept there before.
    pub fn open(directory: &Path) -> Result<Self, Unkeepable> {
        Self::open_with(directory, SEGMENT, now)
    }

    fn open_with(
        directory: &Path,
        segment_size: u64,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Self, Unkeepable> {
        let fail = |source| Unkeepable { directory: directory.to_owned(), source };
        std::fs::create_dir_all(directory).map_err(fail)?;
        let previous = Segment::open(&directory.join("previous")).map_err(fail)?;
        let current = Segment::open(&directory.join("current")).map_err(fail)?;
        let answers = Self::with(Some(directory.to_owned()), current, Some(previous), segment_size);
        let answers = Self { clock: Box::new(clock), ..answers };
        answers.read_index();
        Ok(answers)
    }

    fn with(
        directory: Option<PathBuf>,
        current: Segment,
        previous: Option<Segment>,
        segment_size: u64,
    ) -> Self {
        let state = State { current, previous, index: HashMap::new(), number: 1 };
        Self { directory, segment_size, state: Mutex::new(state), clock: Box::new(now) }
    }

    /// What a revision answered to the request with this tag, if that still holds. Its time to live is what is left of it.
    pub fn get(&self, revision: &str, tag: &str) -> Option<RunFunctionResponse> {
        let key = key(revision, tag);
        let now = (self.clock)();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let place = *state.index.get(&key)?;
        let left = place.deadline.saturating_sub(now);
        // A deadline that is too far away was made by a clock that was wrong.
        if left == 0 || Duration::from_millis(left) > LONGEST {
            state.index.remove(&key);
            return None;
        }
        let payload = state.read(place)?;
        drop(state);
        let mut response = RunFunctionResponse::decode(payload.as_slice()).ok()?;
        let left = Duration::from_millis(left);
        response.meta.get_or_insert_default().ttl = prost_types::Duration::try_from(left).ok();
        Some(response)
    }

    /// Keep an answer for as long as it holds. One that does not say for how long is not kept. Returns how much was written.
    pub fn put(&self, revision: &str, tag: &str, response: &RunFunctionResponse) -> Option<usize> {
        let ttl = response.meta.as_ref().and_then(|meta| Duration::try_from(meta.ttl?).ok())?;
        if ttl.is_zero() || tag.is_empty() {
            return None;
        }
        let ttl = u64::try_from(ttl.min(LONGEST).as_millis()).unwrap_or_default();
        let record = Record {
            key: key(revision, tag),
            deadline: (self.clock)() + ttl,
            payload: response.encode_to_vec(),
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.append(&mut state, &record) {
            warn!(error = &error as &dyn std::error::Error, "cannot keep the answer of a function");
            return None;
        }
        Some(record.payload.len())
    }

    fn append(&self, state: &mut State, record: &Record) -> std::io::Result<()> {
        if state.current.len() >= self.segment_size {
            self.rotate(state)?;
        }
        let (offset, length) = state.current.append(record)?;
        let place = Place { segment: state.number, offset, length, deadline: record.deadline };
        state.index.insert(record.key, place);
        Ok(())
    }

    /// Begin a new segment, and forget the one before the last.
    fn rotate(&self, state: &mut State) -> std::io::Result<()> {
        let next = match &self.directory {
            None => Segment::in_memory(),
            Some(directory) => {
                std::fs::rename(directory.join("current"), directory.join("previous"))?;
                Segment::open(&directory.join("current"))?
            }
        };
        state.previous = Some(std::mem::replace(&mut state.current, next));
        state.number += 1;
        let oldest = state.number - 1;
        state.index.retain(|_, place| place.segment >= oldest);
        Ok(())
    }

    /// Find what was kept before.
    fn read_index(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { current, previous, index, number } = &mut *state;
        let now = (self.clock)();
        for (segment, number) in [(previous.as_mut(), *number - 1), (Some(current), *number)] {
            let Some(segment) = segment else { continue };
            for (key, offset, length, deadline) in segment.scan() {
                if deadline > now {
                    index.insert(key, Place { segment: number, offset, length, deadline });
                }
            }
        }
    }
}

impl State {
    fn read(&mut self, place: Place) -> Option<Vec<u8>> {
        let segment =
            if place.segment == self.number { &mut self.current } else { self.previous.as_mut()? };
        segment.read(place.offset, place.length)
    }
}

fn key(revision: &str, tag: &str) -> Key {
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

    fn message(answers: &Answers, revision: &str, tag: &str) -> Option<String> {
        answers.get(revision, tag).map(|response| response.results[0].message.clone())
    }

    #[test]
    fn answer_is_found_by_revision_and_tag() {
        let answers = Answers::in_memory();
        answers.put("a-1", "tag", &answer("one", 60));
        assert_eq!(message(&answers, "a-1", "tag").as_deref(), Some("one"));
        assert_eq!(message(&answers, "a-2", "tag"), None);
        assert_eq!(message(&answers, "a-1", "other"), None);
    }

    #[test]
    fn time_to_live_is_what_is_left() {
        let answers = Answers::in_memory();
        answers.put("a", "tag", &answer("one", 60));
        let ttl = answers.get("a", "tag").unwrap().meta.unwrap().ttl.unwrap();
        assert!(ttl.seconds <= 60, "{ttl:?}");
        answers.put("a", "none", &answer("one", 0));
        assert_eq!(message(&answers, "a", "none"), None);
    }

    #[test]
    fn answers_survive_a_restart_and_garbage() {
        let directory = tempfile::tempdir().unwrap();
        let answers = Answers::open(directory.path()).unwrap();
        answers.put("a", "one", &answer("one", 60));
        answers.put("a", "two", &answer("two", 60));
        drop(answers);
        assert_eq!(message(&Answers::open(directory.path()).unwrap(), "a", "two").as_deref(), Some("two"));

        let path = directory.path().join("current");
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let answers = Answers::open(directory.path()).unwrap();
            assert_eq!(message(&answers, "a", "two"), None, "cut at {cut}");
            answers.put("a", "three", &answer("three", 60));
            let answers = Answers::open(directory.path()).unwrap();
            assert_eq!(message(&answers, "a", "three").as_deref(), Some("three"), "cut at {cut}");
        }
        for place in 0..whole.len() {
            let mut garbled = whole.clone();
            garbled[place] ^= 1;
            std::fs::write(&path, garbled).unwrap();
            let answers = Answers::open(directory.path()).unwrap();
            let found = message(&answers, "a", "one");
            assert!(found.is_none() || found.as_deref() == Some("one"), "changed at {place}: {found:?}");
        }
    }

    #[test]
    fn there_is_a_bound() {
        let directory = tempfile::tempdir().unwrap();
        let answers = Answers::open_with(directory.path(), 1000, now).unwrap();
        for number in 0..200 {
            answers.put("a", &number.to_string(), &answer("some text", 60));
        }
        let size: u64 = ["current", "previous"]
            .iter()
            .map(|name| directory.path().join(name).metadata().unwrap().len())
            .sum();
        assert!(size < 2500, "{size}");
        assert!(message(&answers, "a", "199").is_some());
        assert_eq!(message(&answers, "a", "0"), None);
        assert!(answers.state.lock().unwrap().index.len() < 50);
    }
}
