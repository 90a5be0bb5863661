//! What registries answered about the tags of packages. It is in memory only: losing it costs one more request for each package.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferroplane_api::{Object, meta};
use tokio::time::Instant;

use crate::pkg::caches::PackageKey;

/// The last answer about each package.
#[derive(Debug, Default)]
pub(super) struct TagCache(Mutex<HashMap<PackageKey, Answer>>);

#[derive(Debug)]
struct Answer {
    question: Question,
    digest: String,
    at: Instant,
}

/// The parts of a package that a request depends on. A status is none of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    uid: String,
    generation: i64,
    /// The image as `ImageConfig`s rewrite it.
    image: String,
}

impl Question {
    pub(super) fn of(package: &Object, image: &str) -> Self {
        Self {
            uid: meta::uid(package).to_owned(),
            generation: meta::generation(package),
            image: image.to_owned(),
        }
    }
}

impl TagCache {
    /// The digest that answered this question, unless it is older than this.
    pub(super) fn get(
        &self,
        key: &PackageKey,
        question: &Question,
        oldest: Option<Duration>,
    ) -> Option<String> {
        let all = self.lock();
        let answer = all.get(key).filter(|answer| answer.question == *question)?;
        let is_recent = oldest.is_none_or(|oldest| answer.at.elapsed() < oldest);
        is_recent.then(|| answer.digest.clone())
    }

    pub(super) fn set(&self, key: PackageKey, question: Question, digest: &str) {
        let answer = Answer { question, digest: digest.to_owned(), at: Instant::now() };
        self.lock().insert(key, answer);
    }

    /// How long ago the registry answered this question. An answer to another one has no age: a package would be reconciled again at
    /// once, and for ever.
    pub(super) fn age(&self, key: &PackageKey, question: &Question) -> Duration {
        let all = self.lock();
        let answer = all.get(key).filter(|answer| answer.question == *question);
        answer.map_or(Duration::ZERO, |answer| answer.at.elapsed())
    }

    pub(super) fn forget(&self, key: &PackageKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PackageKey, Answer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_api::PackageKind;
    use serde_json::json;

    use super::*;

    fn question(generation: i64, image: &str) -> Question {
        let package = json!({"metadata": {"uid": "u", "generation": generation}, "status": {"any": "thing"}});
        Question::of(package.as_object().unwrap(), image)
    }

    #[tokio::test(start_paused = true)]
    async fn answer_holds_for_the_same_question_and_as_long_as_it_is_recent() {
        let (cache, key) = (TagCache::default(), (PackageKind::Function, "f".to_owned()));
        let minute = Duration::from_mins(1);
        cache.set(key.clone(), question(1, "a:latest"), "sha256:one");
        assert_eq!(cache.get(&key, &question(1, "a:latest"), Some(minute)).as_deref(), Some("sha256:one"));
        assert_eq!(cache.get(&key, &question(2, "a:latest"), None), None, "its spec has changed");
        assert_eq!(cache.get(&key, &question(1, "b:latest"), None), None, "it is rewritten in another way");

        tokio::time::advance(minute).await;
        assert_eq!(cache.age(&key, &question(1, "a:latest")), minute);
        assert_eq!(cache.age(&key, &question(2, "a:latest")), Duration::ZERO, "that was not asked");
        assert_eq!(cache.get(&key, &question(1, "a:latest"), Some(minute)), None);
        assert!(cache.get(&key, &question(1, "a:latest"), None).is_some());
        cache.forget(&key);
        assert_eq!(cache.get(&key, &question(1, "a:latest"), None), None);
    }
}
