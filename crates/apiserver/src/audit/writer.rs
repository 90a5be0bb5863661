//! A thread that makes events lines and writes them, so that nothing else waits for that, or for a disk.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::event::Event;

/// Lines that wait together are written together, up to so many bytes.
const BATCH: usize = 64 << 10;

/// Something that becomes a line.
pub(super) trait Entry: Send + 'static {
    /// How much memory it takes.
    fn weight(&self) -> usize;

    fn to_line(&self) -> Vec<u8>;
}

impl Entry for Event {
    fn weight(&self) -> usize {
        Self::weight(self)
    }

    fn to_line(&self) -> Vec<u8> {
        Self::to_line(self)
    }
}

#[derive(Debug)]
pub(super) struct Writer<E = Event> {
    /// None once it is closed.
    /// Of pointers: the queue has room for all events from the start, and would take megabytes of which hardly any is ever used.
    sender: Option<SyncSender<Box<E>>>,
    /// How much memory may wait, and how much does.
    bytes: usize,
    waiting: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
    /// Behind a lock only so that the writer can be shared.
    ended: Mutex<Receiver<()>>,
}

impl<E: Entry> Writer<E> {
    /// Starts the thread, for so many events and bytes that wait. What is written goes to the sink.
    pub(super) fn start(
        (queue, bytes): (usize, usize),
        sink: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        // Bounded: if the disk hangs, events are lost and counted, rather than memory used up or requests held.
        let (sender, receiver) = mpsc::sync_channel(queue);
        let (ending, ended) = mpsc::channel();
        let lost = Arc::new(AtomicU64::new(0));
        let waiting = Arc::new(AtomicUsize::new(0));
        let writer = WriterThread {
            receiver,
            sink,
            waiting: Arc::clone(&waiting),
            lost: Arc::clone(&lost),
            told: 0,
            is_failing: false,
        };
        let thread = thread::Builder::new().name("audit".to_owned()).spawn(move || {
            writer.run();
            let _ = ending.send(());
        })?;
        Ok(Self {
            sender: Some(sender),
            bytes,
            waiting,
            lost,
            thread: Some(thread),
            ended: Mutex::new(ended),
        })
    }

    pub(super) fn send(&self, entry: E) {
        let weight = entry.weight();
        // Added before the check: two senders that checked first could both fill the last of the limit.
        let has_room = self.waiting.fetch_add(weight, Ordering::Relaxed) + weight <= self.bytes;
        let is_sent =
            has_room && self.sender.as_ref().is_some_and(|sender| sender.try_send(Box::new(entry)).is_ok());
        if !is_sent {
            self.waiting.fetch_sub(weight, Ordering::Relaxed);
        }
        // Said once per time that the queue fills: the log tells the rest.
        if !is_sent && self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!("the audit log cannot keep up: events are lost");
        }
    }

    /// Waits for the last line, but not forever. Says how many were lost.
    pub(super) fn close(mut self, patience: Duration) -> u64 {
        self.end(patience);
        self.lost()
    }
}

impl<E> Writer<E> {
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn end(&mut self, patience: Duration) {
        // A closed channel ends the thread, after it has written what is queued.
        drop(self.sender.take());
        let Some(thread) = self.thread.take() else { return };
        // `join` has no timeout: a disk that hangs must not keep the process from ending.
        if self.ended.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(patience).is_ok() {
            let _ = thread.join();
        }
    }
}

impl<E> Drop for Writer<E> {
    fn drop(&mut self) {
        self.end(Duration::from_secs(5));
    }
}

struct WriterThread<E, S> {
    receiver: Receiver<Box<E>>,
    sink: S,
    waiting: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
    /// How many lost lines the log has reported.
    told: u64,
    /// Whether the last batch could not be written.
    is_failing: bool,
}

impl<E: Entry, S: FnMut(&[u8]) -> io::Result<()>> WriterThread<E, S> {
    fn run(mut self) {
        while let Ok(first) = self.receiver.recv() {
            let (mut batch, mut count) = (self.line(&first), 1_u64);
            while batch.len() < BATCH
                && let Ok(next) = self.receiver.try_recv()
            {
                batch.extend_from_slice(&self.line(&next));
                count += 1;
            }
            self.write(batch, count);
        }
        self.write(Vec::new(), 0);
    }

    fn line(&self, entry: &E) -> Vec<u8> {
        let line = entry.to_line();
        self.waiting.fetch_sub(entry.weight(), Ordering::Relaxed);
        line
    }

    fn write(&mut self, mut batch: Vec<u8>, count: u64) {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > self.told {
            batch.extend_from_slice(&lost_events_line(lost - self.told));
        }
        if batch.is_empty() {
            return;
        }
        match (self.sink)(&batch) {
            Ok(()) => {
                self.told = lost;
                if std::mem::take(&mut self.is_failing) {
                    tracing::warn!(lost, "the audit log can be written again");
                }
            }
            Err(error) => {
                self.lost.fetch_add(count, Ordering::Relaxed);
                // Said once: a full disk fails every batch, and is full of other things already.
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(%error, "cannot write the audit log: events are lost");
                }
            }
        }
    }
}

/// An event that says how many are missing before it.
fn lost_events_line(count: u64) -> Vec<u8> {
    let now = format!("{:.6}", Timestamp::now());
    let event = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Event",
        "level": "Metadata",
        "stage": "ResponseComplete",
        "verb": "",
        "requestURI": "",
        "user": {},
        "requestReceivedTimestamp": now,
        "stageTimestamp": now,
        "annotations": {"audit.ferroplane.io/lost-events": count.to_string()},
    });
    format!("{event}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    /// Room for the events of a test.
    const BYTES: usize = 1 << 20;

    type WrittenLines = Arc<Mutex<String>>;

    impl Entry for Vec<u8> {
        fn weight(&self) -> usize {
            self.len()
        }

        fn to_line(&self) -> Vec<u8> {
            self.clone()
        }
    }

    fn keep(written: &WrittenLines, lines: &[u8]) {
        written.lock().unwrap().push_str(str::from_utf8(lines).unwrap());
    }

    #[test]
    fn every_line_is_written_in_order_before_the_end() {
        let written = WrittenLines::default();
        let sink = Arc::clone(&written);
        let writer = Writer::start((10_000, BYTES), move |lines| {
            keep(&sink, lines);
            Ok(())
        });
        let writer = writer.unwrap();
        for number in 0..5_000 {
            writer.send(format!("{number}\n").into_bytes());
        }
        assert_eq!(writer.close(PATIENCE), 0);
        let written = written.lock().unwrap();
        assert!(written.lines().eq((0..5_000).map(|number| number.to_string())));
    }

    #[test]
    fn nobody_waits_for_a_slow_disk_and_the_log_tells_what_it_lost() {
        let written = WrittenLines::default();
        let sink = Arc::clone(&written);
        let (started, is_started) = mpsc::channel();
        let (go_on, is_told) = mpsc::channel::<()>();
        let writer = Writer::start((2, BYTES), move |lines| {
            let _ = started.send(());
            let _ = is_told.recv();
            keep(&sink, lines);
            Ok(())
        });
        let writer = writer.unwrap();
        writer.send(b"first\n".to_vec());
        is_started.recv().unwrap();
        for number in 0..5 {
            writer.send(format!("{number}\n").into_bytes());
        }
        assert_eq!(writer.lost(), 3);
        drop(go_on);
        assert_eq!(writer.close(PATIENCE), 3);
        let written = written.lock().unwrap();
        assert!(written.starts_with("first\n0\n1\n"), "{written}");
        assert!(written.contains(r#""audit.ferroplane.io/lost-events":"3""#), "{written}");
    }

    #[test]
    fn events_that_wait_take_no_more_memory_than_they_may() {
        let (started, is_started) = mpsc::channel();
        let (go_on, is_told) = mpsc::channel::<()>();
        let writer = Writer::start((100, 10), move |_| {
            let _ = started.send(());
            let _ = is_told.recv();
            Ok(())
        });
        let writer = writer.unwrap();
        writer.send(b"first\n".to_vec());
        is_started.recv().unwrap();
        writer.send(vec![b'x'; 8]);
        writer.send(vec![b'x'; 3]);
        writer.send(vec![b'x'; 2]);
        assert_eq!(writer.lost(), 1);
        drop(go_on);
        assert_eq!(writer.close(PATIENCE), 1);
    }

    #[test]
    fn lines_that_cannot_be_written_count_as_lost() {
        let written = WrittenLines::default();
        let sink = Arc::clone(&written);
        let mut attempts = 0;
        let (started, is_started) = mpsc::channel();
        let writer = Writer::start((10, BYTES), move |lines| {
            attempts += 1;
            let _ = started.send(());
            if attempts == 1 {
                return Err(io::Error::other("full"));
            }
            keep(&sink, lines);
            Ok(())
        });
        let writer = writer.unwrap();
        writer.send(b"one\n".to_vec());
        is_started.recv().unwrap();
        writer.send(b"two\n".to_vec());
        assert_eq!(writer.close(PATIENCE), 1);
        let written = written.lock().unwrap();
        assert!(written.starts_with("two\n") && written.contains(r#"lost-events":"1""#), "{written}");
    }

    #[test]
    fn disk_that_hangs_does_not_hang_the_end() {
        let (_keep, forever) = mpsc::channel::<()>();
        let writer = Writer::start((10, BYTES), move |_| {
            let _ = forever.recv();
            Ok(())
        });
        let writer = writer.unwrap();
        writer.send(b"one\n".to_vec());
        writer.close(Duration::ZERO);
    }
}
