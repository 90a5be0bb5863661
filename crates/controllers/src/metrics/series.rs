//! Counters, gauges and histograms, each with many series that differ in their labels.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::head;

/// The upper bounds of the durations that are counted apart, in seconds.
const BOUNDS: [f64; 17] = [
    0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
/// So many series has one name at most. What would be one more is counted here, with all others like it: kinds come and go,
/// and who makes up new ones all day must not fill the memory.
const MOST: usize = 4096;
const REST: &str = "overflow=\"true\"";

/// Labels as they are written: `name="value",…`.
pub(super) fn labels(pairs: &[(&str, &str)]) -> String {
    let mut labels = String::with_capacity(pairs.len() * 32);
    for (name, value) in pairs {
        if !labels.is_empty() {
            labels.push(',');
        }
        labels.push_str(name);
        labels.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => labels.push_str("\\\\"),
                '"' => labels.push_str("\\\""),
                '\n' => labels.push_str("\\n"),
                other => labels.push(other),
            }
        }
        labels.push('"');
    }
    labels
}

/// The series with these labels, or the one for all that are too many.
fn entry<T: Default>(series: &mut BTreeMap<String, T>, labels: String) -> &mut T {
    let is_too_much = series.len() >= MOST && !series.contains_key(&labels);
    series.entry(if is_too_much { REST.to_owned() } else { labels }).or_default()
}

/// Numbers that only grow, or that go up and down.
#[derive(Debug)]
pub(super) struct Numbers {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    series: Mutex<BTreeMap<String, i64>>,
}

impl Numbers {
    pub(super) fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "counter", help, series: Mutex::default() }
    }

    pub(super) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "gauge", help, series: Mutex::default() }
    }

    pub(super) fn add(&self, labels: String, amount: i64) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        *entry(&mut series, labels) += amount;
    }

    pub(super) fn write(&self, text: &mut String) {
        head(text, self.name, self.kind, self.help);
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, value) in series.iter() {
            let _ = writeln!(text, "{}{{{labels}}} {value}", self.name);
        }
    }
}

/// How long something took, each time.
#[derive(Debug, Default, Clone)]
pub(super) struct Histogram {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    total: Duration,
}

impl Histogram {
    pub(super) fn add(&mut self, took: Duration) {
        self.count += 1;
        self.total += took;
        if let Some(bucket) = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound) {
            self.buckets[bucket] += 1;
        }
    }

    pub(super) fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut sum = 0;
        for (bound, count) in BOUNDS.iter().zip(&self.buckets) {
            sum += count;
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {sum}");
        }
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", self.count);
        let _ = writeln!(text, "{name}_sum{{{labels}}} {}", self.total.as_secs_f64());
        let _ = writeln!(text, "{name}_count{{{labels}}} {}", self.count);
    }
}

#[derive(Debug)]
pub(super) struct Histograms {
    name: &'static str,
    help: &'static str,
    series: Mutex<BTreeMap<String, Histogram>>,
}

impl Histograms {
    pub(super) fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help, series: Mutex::default() }
    }

    pub(super) fn add(&self, labels: String, took: Duration) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        entry(&mut series, labels).add(took);
    }

    pub(super) fn write(&self, text: &mut String) {
        head(text, self.name, "histogram", self.help);
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, histogram) in series.iter() {
            histogram.write(text, self.name, labels);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_makes_up_labels_without_end_gets_one_series_for_the_rest() {
        let numbers = Numbers::counter("n_total", "Numbers.");
        for number in 0..MOST + 100 {
            numbers.add(labels(&[("kind", &number.to_string())]), 1);
        }
        numbers.add(labels(&[("kind", "0")]), 1);
        let mut text = String::new();
        numbers.write(&mut text);
        assert!(text.contains("n_total{kind=\"0\"} 2\n"));
        assert!(text.contains("n_total{overflow=\"true\"} 100\n"));
        assert_eq!(text.lines().count(), MOST + 3);
    }
}
