//! How long something took, each time.

use std::time::Duration;

/// The upper bounds that suit most things here, in seconds.
const USUAL: [f64; 17] = [
    0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Durations, counted apart by upper bounds.
#[derive(Debug, Clone)]
pub struct Histogram {
    bounds: &'static [f64],
    /// How many durations are within each bound, and not within the one before it.
    buckets: Box<[u64]>,
    count: u64,
    total: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new(&USUAL)
    }
}

impl Histogram {
    /// One with these upper bounds in seconds, in ascending order.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, buckets: vec![0; bounds.len()].into(), count: 0, total: Duration::ZERO }
    }

    pub fn observe(&mut self, took: Duration) {
        self.count += 1;
        self.total += took;
        // Linear, because there are seventeen bounds and most durations are within the first few.
        if let Some(bucket) = self.bounds.iter().position(|bound| took.as_secs_f64() <= *bound) {
            self.buckets[bucket] += 1;
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn total(&self) -> Duration {
        self.total
    }

    /// Each bound, with how many durations are within it.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        self.bounds.iter().zip(self.buckets.iter()).map(move |(bound, count)| {
            sum += count;
            (*bound, sum)
        })
    }
}
