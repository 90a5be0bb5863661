//! The output of programs in containers: every line for the log, and the last ones for errors.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_sandbox::{Line, LineSink};

/// How many lines are quoted in errors, and how long one may be.
const KEPT: usize = 20;
const LONGEST: usize = 500;

/// The last lines of a program.
#[derive(Debug, Clone, Default)]
pub(super) struct LastWords(Arc<Mutex<VecDeque<String>>>);

impl LastWords {
    /// Keeps lines, and hands them on.
    pub(super) fn sink(&self, hand_on: impl Fn(&str) + Send + Sync + 'static) -> LineSink {
        let words = self.clone();
        LineSink::new(move |line| match line {
            Line::Text(text) => {
                words.keep(text);
                hand_on(text);
            }
            Line::Dropped(bytes) => hand_on(&format!("({bytes} bytes were dropped)")),
        })
    }

    pub(super) fn keep(&self, text: &str) {
        let mut lines = self.lines();
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(text.chars().take(LONGEST).collect());
    }

    pub(super) fn text(&self) -> String {
        self.lines().iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The same, ready to be put after an error, or nothing.
    pub(super) fn said(&self) -> String {
        let text = self.text();
        let text = text.trim();
        if text.is_empty() { String::new() } else { format!("; it said:\n{text}") }
    }

    fn lines(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let words = LastWords::default();
        for number in 0..100 {
            words.keep(&format!("{number} {}", "x".repeat(1000)));
        }
        let text = words.text();
        assert_eq!(text.lines().count(), KEPT);
        assert!(text.starts_with("80 x") && text.lines().all(|line| line.len() == LONGEST), "{text}");
    }
}
