//! The text that Prometheus reads. Follows its text format, version 0.0.4.

use std::fmt::{Display, Write as _};

use crate::Histogram;

/// Labels as they are written: `name="value",…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(String);

/// Labels with these names and values, in this order.
pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    let mut text = String::with_capacity(pairs.len() * 32);
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        // The three characters that the text format escapes in label values, and no others.
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    Labels(text)
}

/// All metrics of a process at one moment, as text.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a family of numbers that only grow.
    pub fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> Samples<'a> {
        self.begin(name, "counter", help)
    }

    /// Begins a family of numbers that go up and down.
    pub fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> Samples<'a> {
        self.begin(name, "gauge", help)
    }

    /// Begins a family of histograms.
    pub fn histogram<'a>(&'a mut self, name: &'a str, help: &str) -> Samples<'a> {
        self.begin(name, "histogram", help)
    }

    pub(crate) fn begin<'a>(&'a mut self, name: &'a str, kind: &str, help: &str) -> Samples<'a> {
        // Written even if no series follows, so that a family does not come and go. Writing to a `String`
        // cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Samples { text: &mut self.0, name }
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

/// The series of a family.
#[derive(Debug)]
pub struct Samples<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl Samples<'_> {
    /// The value of the only series, which has no labels.
    pub fn value(&mut self, value: impl Display) {
        let _ = writeln!(self.text, "{} {value}", self.name);
    }

    /// The value of the series with these labels.
    pub fn series(&mut self, labels: &Labels, value: impl Display) {
        let _ = writeln!(self.text, "{}{{{}}} {value}", self.name, labels.0);
    }

    /// The series of a histogram with these labels.
    pub fn histogram(&mut self, labels: &Labels, histogram: &Histogram) {
        let (text, name, labels) = (&mut *self.text, self.name, &labels.0);
        let separator = if labels.is_empty() { "" } else { "," };
        for (bound, count) in histogram.cumulative() {
            let _ = writeln!(text, "{name}_bucket{{{labels}{separator}le=\"{bound}\"}} {count}");
        }
        let count = histogram.count();
        // Prometheus requires this bucket and that it equals the count.
        let _ = writeln!(text, "{name}_bucket{{{labels}{separator}le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{{labels}}} {}", histogram.total().as_secs_f64());
        let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn text_is_what_prometheus_reads() {
        let mut page = Exposition::default();
        page.counter("a_total", "Things.").value(3);
        let mut gauge = page.gauge("b", "More things.");
        gauge.series(&labels(&[("x", "1"), ("y", "a\"b\\c\nd")]), 0.5);
        gauge.series(&labels(&[("x", "2")]), 4.0);
        let mut histogram = Histogram::new(&[0.1, 1.0]);
        for milliseconds in [50, 100, 500, 2000] {
            histogram.observe(Duration::from_millis(milliseconds));
        }
        page.histogram("c_seconds", "Times.").histogram(&labels(&[("x", "1")]), &histogram);
        page.histogram("d_seconds", "All times.").histogram(&labels(&[]), &histogram);
        let expected = r#"# HELP a_total Things.
# TYPE a_total counter
a_total 3
# HELP b More things.
# TYPE b gauge
b{x="1",y="a\"b\\c\nd"} 0.5
b{x="2"} 4
# HELP c_seconds Times.
# TYPE c_seconds histogram
c_seconds_bucket{x="1",le="0.1"} 2
c_seconds_bucket{x="1",le="1"} 3
c_seconds_bucket{x="1",le="+Inf"} 4
c_seconds_sum{x="1"} 2.65
c_seconds_count{x="1"} 4
# HELP d_seconds All times.
# TYPE d_seconds histogram
d_seconds_bucket{le="0.1"} 2
d_seconds_bucket{le="1"} 3
d_seconds_bucket{le="+Inf"} 4
d_seconds_sum{} 2.65
d_seconds_count{} 4
"#;
        assert_eq!(page.into_text(), expected);
    }
}
