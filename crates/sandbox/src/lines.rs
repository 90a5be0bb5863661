//! What a program writes to standard error, line by line and within bounds.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A longer line is cut into several.
const LONGEST_LINE: usize = 8 * 1024;

/// Takes the lines of a program.
#[derive(Clone)]
pub struct LineSink(Arc<dyn Fn(Line<'_>) + Send + Sync>);

/// A line, or the news that lines were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    Text(&'a str),
    /// So many bytes were dropped because there were too many.
    Dropped(u64),
}

impl LineSink {
    pub fn new(sink: impl Fn(Line<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// There is no listener.
    pub fn nowhere() -> Self {
        Self::new(|_| {})
    }

    fn take(&self, line: Line<'_>) {
        (self.0)(line);
    }
}

impl fmt::Debug for LineSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineSink")
    }
}

/// How much may be said.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    pub bytes: u64,
    /// After this time there is a new budget. Without it there is one for all.
    pub renewed_after: Option<Duration>,
}

/// Hands on everything that is read, until the end.
pub async fn hand_on(mut from: impl AsyncRead + Unpin, budget: Budget, sink: LineSink) -> io::Result<()> {
    let mut lines = Lines::new(budget, sink);
    let mut bytes = vec![0; LONGEST_LINE];
    loop {
        let length = from.read(&mut bytes).await?;
        if length == 0 {
            lines.end();
            return Ok(());
        }
        lines.take(&bytes[..length], Instant::now());
    }
}

struct Lines {
    budget: Budget,
    left: u64,
    since: Option<Instant>,
    dropped: u64,
    line: Vec<u8>,
    sink: LineSink,
}

impl Lines {
    fn new(budget: Budget, sink: LineSink) -> Self {
        Self { budget, left: budget.bytes, since: None, dropped: 0, line: Vec::new(), sink }
    }

    fn take(&mut self, mut bytes: &[u8], now: Instant) {
        self.renew(now);
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..end]);
            self.finish_line(1);
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    fn extend(&mut self, mut bytes: &[u8]) {
        while self.line.len() + bytes.len() > LONGEST_LINE {
            let (fits, rest) = bytes.split_at(LONGEST_LINE - self.line.len());
            self.line.extend_from_slice(fits);
            self.finish_line(0);
            bytes = rest;
        }
        self.line.extend_from_slice(bytes);
    }

    fn finish_line(&mut self, ending: u64) {
        let length = self.line.len() as u64 + ending;
        if self.left < length {
            self.left = 0;
            self.dropped += length;
        } else {
            self.left -= length;
            self.sink.take(Line::Text(String::from_utf8_lossy(&self.line).trim_end_matches('\r')));
        }
        self.line.clear();
    }

    fn renew(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if self.budget.renewed_after.is_some_and(|after| now.duration_since(since) >= after) {
            self.report_dropped();
            self.since = Some(now);
            self.left = self.budget.bytes;
        }
    }

    fn report_dropped(&mut self) {
        if self.dropped > 0 {
            self.sink.take(Line::Dropped(self.dropped));
            self.dropped = 0;
        }
    }

    fn end(&mut self) {
        if !self.line.is_empty() {
            self.finish_line(0);
        }
        self.report_dropped();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn collect(budget: Budget, steps: &[(u64, &[u8])]) -> Vec<String> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hearing = Arc::clone(&heard);
        let sink = LineSink::new(move |line| {
            let text = match line {
                Line::Text(text) => text.to_owned(),
                Line::Dropped(bytes) => format!("dropped {bytes}"),
            };
            hearing.lock().expect("lock").push(text);
        });
        let mut lines = Lines::new(budget, sink);
        let start = Instant::now();
        for (seconds, bytes) in steps {
            lines.take(bytes, start + Duration::from_secs(*seconds));
        }
        lines.end();
        heard.lock().expect("lock").clone()
    }

    const ONCE: Budget = Budget { bytes: 10_000, renewed_after: None };

    #[test]
    fn lines_arrive_whole_however_they_are_written() {
        assert_eq!(
            collect(ONCE, &[(0, b"on"), (0, b"e\r\ntwo\n\nla"), (0, b"st")]),
            ["one", "two", "", "last"]
        );
    }

    #[test]
    fn a_long_line_is_cut() {
        let heard = collect(ONCE, &[(0, &[b'x'; LONGEST_LINE + 5])]);
        assert_eq!(heard.iter().map(String::len).collect::<Vec<_>>(), [LONGEST_LINE, 5]);
    }

    #[test]
    fn too_much_is_dropped_and_counted() {
        let budget = Budget { bytes: 4, renewed_after: None };
        assert_eq!(collect(budget, &[(0, b"abc\nd\nefgh\n")]), ["abc", "dropped 7"]);
    }

    #[test]
    fn a_server_may_speak_again_later() {
        let budget = Budget { bytes: 4, renewed_after: Some(Duration::from_mins(1)) };
        assert_eq!(collect(budget, &[(0, b"abc\nd\n"), (61, b"e\n")]), ["abc", "dropped 2", "e"]);
    }

    #[test]
    fn bytes_that_are_no_text_do_no_harm() {
        assert_eq!(collect(ONCE, &[(0, b"\xff\n")]), ["\u{fffd}"]);
    }
}
