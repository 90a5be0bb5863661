//! Counters and histograms, each with many series that differ in their labels.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::head;

/// The upper bounds of the durations that are counted apart, in seconds.
const BOUNDS: [f64; 17] = [
    0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

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

#[derive(Debug)]
pub(super) struct Counters {
    name: &'static str,
    help: &'static str,
    series: Mutex<BTreeMap<String, u64>>,
}

impl Counters {
    pub(super) fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help, series: Mutex::default() }
    }

    pub(super) fn add(&self, labels: String, amount: u64) {
        *self.series.lock().unwrap_or_else(PoisonError::into_inner).entry(labels).or_default() += amount;
    }

    pub(super) fn write(&self, text: &mut String) {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if !series.is_empty() {
            head(text, self.name, "counter", self.help);
        }
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
        self.series.lock().unwrap_or_else(PoisonError::into_inner).entry(labels).or_default().add(took);
    }

    pub(super) fn write(&self, text: &mut String) {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if !series.is_empty() {
            head(text, self.name, "histogram", self.help);
        }
        for (labels, histogram) in series.iter() {
            histogram.write(text, self.name, labels);
        }
    }
}
