//! Keeps inputs that were read, with their parsed templates, within a bound.
//!
//! An input of a step comes again at every reconcile, so that what was made of it is kept. It would be kept for as long as the
//! Composition, however many there are; so the input keeps a weak reference, and a list of bounded size keeps the templates.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ferroplane_wire::v1::RunFunctionRequest;

use super::input::Prepared;
use super::release::Release;

/// How much parsed templates may take together, by estimate.
const CAPACITY: usize = 128 << 20;

static CACHE: Mutex<Cache> = Mutex::new(Cache { kept: VecDeque::new(), size: 0, capacity: CAPACITY });

/// What an input keeps.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<Weak<Kept>>);

/// An input that was read, or why it cannot be.
#[derive(Debug)]
pub(super) struct Kept {
    release: Release,
    pub(super) read: Result<Prepared, String>,
    size: usize,
    /// It was used since the cache was last cleaned.
    is_used: AtomicBool,
    /// A brief call was too short for it once.
    takes_long: AtomicBool,
}

impl Kept {
    /// How many bytes of templates come with a request, and may have to be parsed now.
    pub(super) fn text_length(&self, request: &RunFunctionRequest) -> usize {
        self.read.as_ref().map_or(0, |prepared| prepared.text_length(request))
    }

    pub(super) fn takes_long(&self) -> bool {
        self.takes_long.load(Ordering::Relaxed)
    }

    pub(super) fn note_that_it_takes_long(&self) {
        self.takes_long.store(true, Ordering::Relaxed);
    }
}

impl Slot {
    /// What is kept for this release. Two steps can share an input and call different versions: the last one is kept.
    pub(super) fn get(&self, release: Release) -> Option<Arc<Kept>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()?;
        kept.is_used.store(true, Ordering::Relaxed);
        (kept.release == release).then_some(kept)
    }

    /// Keeps what was made of an input of this many bytes.
    pub(super) fn put(&self, release: Release, read: Result<Prepared, String>, bytes: usize) -> Arc<Kept> {
        let kept = Arc::new(Kept {
            release,
            read,
            size: estimate(bytes),
            is_used: AtomicBool::new(true),
            takes_long: AtomicBool::new(false),
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&kept);
        CACHE.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(&kept));
        kept
    }
}

/// The assumed size of a parsed template: an estimate, rather too high, as the bytes of a tree are not counted.
fn estimate(bytes: usize) -> usize {
    4096 + bytes.saturating_mul(16)
}

/// The last inputs that were of use, oldest first.
struct Cache {
    kept: VecDeque<Arc<Kept>>,
    size: usize,
    capacity: usize,
}

impl Cache {
    fn insert(&mut self, kept: Arc<Kept>) {
        // What is larger than all of it would drive out all others and not stay itself.
        if kept.size > self.capacity {
            return;
        }
        self.size += kept.size;
        self.kept.push_back(kept);
        // Those that were of use have one more chance each. The count makes an end even if others use them meanwhile.
        let mut chances = self.kept.len();
        while self.size > self.capacity
            && let Some(oldest) = self.kept.pop_front()
        {
            if chances > 0 && oldest.is_used.swap(false, Ordering::Relaxed) {
                self.kept.push_back(oldest);
            } else {
                self.size = self.size.saturating_sub(oldest.size);
            }
            chances = chances.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(size: usize, is_used: bool) -> Arc<Kept> {
        let (is_used, takes_long) = (AtomicBool::new(is_used), AtomicBool::new(false));
        Arc::new(Kept { release: Release::V0_12, read: Err(String::new()), size, is_used, takes_long })
    }

    fn cache(capacity: usize) -> Cache {
        Cache { kept: VecDeque::new(), size: 0, capacity }
    }

    #[test]
    fn oldest_that_is_of_no_use_is_forgotten_first() {
        let mut cache = cache(100);
        let all = [true, false, true].map(|is_used| kept(30, is_used));
        for kept in &all {
            cache.insert(Arc::clone(kept));
        }
        let new = kept(30, true);
        cache.insert(Arc::clone(&new));
        let is_kept = |kept: &Arc<Kept>| Arc::strong_count(kept) > 1;
        assert_eq!(all.each_ref().map(is_kept), [true, false, true]);
        // If all were of use, it is the oldest.
        for kept in &all {
            kept.is_used.store(true, Ordering::Relaxed);
        }
        cache.insert(kept(30, true));
        assert!(is_kept(&new) && all.iter().filter(|kept| is_kept(kept)).count() == 1);
    }

    #[test]
    fn cache_stays_within_its_capacity_whatever_comes() {
        let mut cache = cache(1000);
        for number in 0..10_000 {
            cache.insert(kept(number % 300, number % 3 == 0));
            assert!(cache.size <= 1000);
        }
        cache.insert(kept(5000, true));
        assert_eq!(cache.size, cache.kept.iter().map(|kept| kept.size).sum::<usize>());
        assert!(!cache.kept.is_empty());
    }

    #[test]
    fn input_that_was_forgotten_is_read_again() {
        let slot = Slot::default();
        assert!(slot.get(Release::V0_12).is_none());
        let kept = slot.put(Release::V0_12, Err("wrong".to_owned()), 1);
        assert!(slot.get(Release::V0_12).is_some() && slot.get(Release::V0_4).is_none());
        drop(kept);
        CACHE.lock().unwrap().kept.clear();
        CACHE.lock().unwrap().size = 0;
        assert!(slot.get(Release::V0_12).is_none());
    }
}
