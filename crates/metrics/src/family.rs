//! Counters, gauges and histograms, each with many series that differ in their labels.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::exposition::{Exposition, Labels, labels};
use crate::histogram::Histogram;

/// So many series has one family at most. What would be one more is counted with all others like it: kinds come and go, and new ones must
/// not fill the memory.
const MOST: usize = 4096;

/// The series with these labels, or the one for all that are too many.
fn entry<T: Default>(series: &mut BTreeMap<Labels, T>, these: Labels) -> &mut T {
    // The overflow series itself is one more than `MOST`.
    let is_too_much = series.len() >= MOST && !series.contains_key(&these);
    series.entry(if is_too_much { labels(&[("overflow", "true")]) } else { these }).or_default()
}

/// Numbers that only grow, or that go up and down.
#[derive(Debug)]
pub struct NumberFamily {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    series: Mutex<BTreeMap<Labels, i64>>,
}

impl NumberFamily {
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "counter", help, series: Mutex::default() }
    }

    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "gauge", help, series: Mutex::default() }
    }

    pub fn add(&self, labels: Labels, amount: i64) {
        // A panic elsewhere must not end the metrics of the process; at worst one number is not counted.
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        *entry(&mut series, labels) += amount;
    }

    pub fn write(&self, page: &mut Exposition) {
        let mut samples = page.begin(self.name, self.kind, self.help);
        for (labels, value) in &*self.series.lock().unwrap_or_else(PoisonError::into_inner) {
            samples.series(labels, value);
        }
    }
}

/// How long something took, each time, by labels.
#[derive(Debug)]
pub struct HistogramFamily {
    name: &'static str,
    help: &'static str,
    series: Mutex<BTreeMap<Labels, Histogram>>,
}

impl HistogramFamily {
    pub fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help, series: Mutex::default() }
    }

    pub fn observe(&self, labels: Labels, took: Duration) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        entry(&mut series, labels).observe(took);
    }

    pub fn write(&self, page: &mut Exposition) {
        let mut samples = page.histogram(self.name, self.help);
        for (labels, histogram) in &*self.series.lock().unwrap_or_else(PoisonError::into_inner) {
            samples.histogram(labels, histogram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_makes_up_labels_without_end_gets_one_series_for_the_rest() {
        let numbers = NumberFamily::counter("n_total", "Numbers.");
        for number in 0..MOST + 100 {
            numbers.add(labels(&[("kind", &number.to_string())]), 1);
        }
        numbers.add(labels(&[("kind", "0")]), 1);
        let mut page = Exposition::default();
        numbers.write(&mut page);
        let text = page.into_text();
        assert!(text.contains("n_total{kind=\"0\"} 2\n"));
        assert!(text.contains("n_total{overflow=\"true\"} 100\n"));
        assert_eq!(text.lines().count(), MOST + 3);
    }
}
