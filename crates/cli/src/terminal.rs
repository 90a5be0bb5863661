//! The only place that prints: data to standard output, words to standard error.

pub(crate) mod harmless;
mod wrap;

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Context as _;
use ferroplane_offline::manifest::yaml;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use harmless::harmless;

/// How often a command that follows something looks whether it is still read.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long work may take before a terminal shows that it is in progress.
const UNREMARKABLE: Duration = Duration::from_secs(1);

/// Where a command's answer goes.
#[derive(Debug)]
pub(crate) struct Terminal {
    is_colourful: bool,
    /// Whether words are written as objects, as log lines beside them are.
    is_json: bool,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        let is_colourful = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { is_colourful, is_json: false }
    }

    /// Write words as JSON from now on, so that a program can read standard error line by line.
    pub(crate) fn speak_json(&mut self) {
        (self.is_json, self.is_colourful) = (true, false);
    }

    /// A value as JSON, with its keys in order.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let value = serde_json::to_value(value).context("cannot print JSON")?;
        self.document(format!("{value:#}\n").as_bytes())
    }

    /// A value as YAML.
    pub(crate) fn yaml(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        self.document(yaml::print(value)?.as_bytes())
    }

    /// JSON or YAML, which may contain text of other programs. A program gets it as it is. A terminal gets it as [`Self::text`], because
    /// neither format escapes all that a terminal obeys.
    pub(crate) fn document(&mut self, document: &[u8]) -> anyhow::Result<()> {
        if !io::stdout().is_terminal() {
            return self.data(document);
        }
        self.text(&String::from_utf8_lossy(document))
    }

    /// Data for users, which may contain text of other programs.
    pub(crate) fn text(&mut self, text: &str) -> anyhow::Result<()> {
        self.data(harmless(text).as_bytes())
    }

    /// Data as it is, for programs. A reader that closes the pipe early is not an error. A command that goes on until something happens
    /// ends by [`until_unread`].
    #[expect(clippy::unused_self, reason = "only code that has a terminal may print")]
    pub(crate) fn data(&mut self, data: &[u8]) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(data).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.context("cannot write to standard output"),
        }
    }

    /// Whether data may be coloured.
    #[expect(clippy::unused_self, reason = "only code that has a terminal may print")]
    pub(crate) fn shows_data_in_colour(&self) -> bool {
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    }

    /// The number of columns of the terminal that shows the data. None if the data goes to a file or a pipe.
    #[expect(clippy::unused_self, reason = "only code that has a terminal may print")]
    pub(crate) fn width(&self) -> Option<usize> {
        columns(&io::stdout())
    }

    /// A text in sentences, with lines that are no wider than the terminal that shows the data.
    pub(crate) fn wrapped(&self, text: &str) -> String {
        self.width().map_or_else(|| text.to_owned(), |columns| wrap::wrapped(text, columns))
    }

    /// Prints a note.
    pub(crate) fn note(&mut self, words: &str) {
        self.say("note", "36", words);
    }

    /// Prints a warning.
    pub(crate) fn warn(&mut self, words: &str) {
        self.say("warning", "33", words);
    }

    /// Prints an error with its causes.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        self.say("error", "31", &chain(error));
    }

    /// Prints an error that has no causes.
    pub(crate) fn failure(&mut self, words: &str) {
        self.say("error", "31", words);
    }

    /// Prints a line without a label.
    pub(crate) fn line(&mut self, words: &str) {
        let _ = if self.is_json {
            write_json("INFO", words)
        } else {
            writeln!(io::stderr(), "{}", harmless(words))
        };
    }

    /// Words in a colour, if the terminal shows colours.
    pub(crate) fn painted(&self, colour: &str, words: &str) -> String {
        if self.is_colourful { format!("\x1b[{colour}m{words}\x1b[0m") } else { words.to_owned() }
    }

    /// Show that work is in progress, on a terminal.
    #[expect(clippy::unused_self, reason = "only code that has a terminal may print")]
    pub(crate) fn spinner(&mut self, words: &'static str) -> ProgressBar {
        let spinner = ProgressBar::new_spinner().with_style(spinner_style()).with_message(words);
        let spinner = spinner.with_finish(ProgressFinish::AndClear);
        spinner.enable_steady_tick(Duration::from_millis(100));
        spinner
    }

    /// Wait for work, and show on a terminal that it is in progress if it takes longer than a second.
    pub(crate) async fn wait<T>(&mut self, words: &'static str, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        if let Ok(done) = tokio::time::timeout(UNREMARKABLE, &mut work).await {
            return done;
        }
        let spinner = self.spinner(words);
        let done = work.await;
        spinner.finish_and_clear();
        done
    }

    /// Wait for requests to a control plane, as [`Self::wait`] does.
    pub(crate) async fn wait_for_server<T>(&mut self, requests: impl Future<Output = T>) -> T {
        self.wait("asking the control plane", requests).await
    }

    /// Do work that keeps this thread busy, and show on a terminal that it is in progress if it takes longer than a second.
    #[expect(clippy::unused_self, reason = "only code that has a terminal may print")]
    pub(crate) fn work<T>(&mut self, words: &'static str, work: impl FnOnce() -> T) -> T {
        let spinner = delayed_spinner(words);
        let done = work();
        spinner.finish_and_clear();
        done
    }

    /// Show progress, on a terminal. A terminal to which data is printed, too, shows only that work is in progress, and so does a single
    /// piece of work, and only after a second: print with [`ProgressBar::suspend`].
    #[expect(clippy::unused_self, reason = "only code that has a terminal may print")]
    pub(crate) fn progress(&mut self, total: usize, words: &'static str) -> ProgressBar {
        if io::stdout().is_terminal() || total < 2 {
            return delayed_spinner(words);
        }
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} ({eta} left)");
        let style = style.expect("the template is valid");
        ProgressBar::new(total as u64).with_style(style).with_message(words)
    }

    /// Show the number of transferred bytes, on a terminal. The total is set later.
    #[expect(clippy::unused_self, reason = "only code that has a terminal may print")]
    pub(crate) fn transfer(&mut self, words: &'static str) -> ProgressBar {
        let style = "{msg} {wide_bar} {bytes}/{total_bytes} ({bytes_per_sec}, {eta} left)";
        let style = ProgressStyle::with_template(style).expect("the template is valid");
        ProgressBar::new(0).with_style(style).with_message(words)
    }

    /// Start with an empty screen, if there is one.
    pub(crate) fn clear(&mut self) {
        if io::stdout().is_terminal() {
            let _ = self.data(b"\x1b[2J\x1b[H");
        }
    }

    fn say(&self, label: &str, colour: &str, words: &str) {
        // If standard error cannot be written to, there is nowhere to report that.
        let _ = if self.is_json {
            let level = match label {
                "error" => "ERROR",
                "warning" => "WARN",
                _ => "INFO",
            };
            write_json(level, words)
        } else {
            let label = self.painted(&format!("1;{colour}"), label);
            let text = format!("{label}: {}", harmless(words));
            let text = match columns(&io::stderr()) {
                Some(columns) => wrap::wrapped(&text, columns),
                None => text,
            };
            writeln!(io::stderr(), "{text}")
        };
    }
}

/// The number of columns of a terminal. None if it is a file or a pipe.
fn columns(output: &(impl AsFd + io::IsTerminal)) -> Option<usize> {
    if !output.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(output).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn spinner_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("the template is valid")
}

/// A spinner that a terminal shows after a second, so that short work leaves nothing on it.
fn delayed_spinner(words: &'static str) -> ProgressBar {
    let hidden = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    let spinner =
        hidden.with_style(spinner_style()).with_message(words).with_finish(ProgressFinish::AndClear);
    let shown_later = spinner.downgrade();
    std::thread::spawn(move || {
        std::thread::sleep(UNREMARKABLE);
        if let Some(spinner) = shown_later.upgrade().filter(|spinner| !spinner.is_finished()) {
            spinner.set_draw_target(ProgressDrawTarget::stderr());
            spinner.enable_steady_tick(Duration::from_millis(100));
        }
    });
    spinner
}

/// Waits until standard output has no reader any more, as in `ferroplane logs --follow … | head`. What a command prints then is lost, and
/// what it follows may never print anything again.
pub(crate) async fn until_unread() {
    while !is_unread(&io::stdout()) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether the other side of a pipe, a socket or a terminal is gone. A file has none.
fn is_unread(output: &impl AsFd) -> bool {
    // Nothing is asked for: errors are reported all the same.
    let mut fds = [PollFd::new(output, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Words with the fields that log lines have.
fn write_json(level: &str, words: &str) -> io::Result<()> {
    let words = words.trim();
    if words.is_empty() {
        return Ok(());
    }
    let timestamp = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    writeln!(io::stderr(), "{}", json_line(&timestamp, level, words))
}

fn json_line(timestamp: &str, level: &str, words: &str) -> String {
    let line =
        serde_json::json!({"timestamp": timestamp, "level": level, "target": "ferroplane", "message": words});
    // JSON escapes some control characters itself. Those that are left are escaped in the same form, so a program that parses the line gets the words
    // as they were said.
    harmless(&line.to_string()).into_owned()
}

/// An error and its causes. Nothing is repeated: not a cause that ends the text of its effect, nor an effect with which its
/// cause begins.
fn chain(error: &anyhow::Error) -> String {
    let mut told: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        match told.last_mut() {
            Some(effect) if effect.ends_with(&cause) => {}
            Some(effect) if cause.starts_with(&**effect) => *effect = cause,
            _ => told.push(cause),
        }
    }
    told.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_unread_once_its_reader_is_gone() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(!is_unread(&writer));
        // Nobody has read it yet.
        (&writer).write_all(&[0; 4096]).unwrap();
        assert!(!is_unread(&writer));
        drop(reader);
        assert!(is_unread(&writer));
        assert!(!is_unread(&tempfile::tempfile().unwrap()));
        assert!(!is_unread(&std::fs::File::options().write(true).open("/dev/null").unwrap()));
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_done_whether_it_is_short_or_long() {
        let mut terminal = Terminal::new();
        for seconds in [0, 5] {
            let work = async {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                seconds
            };
            assert_eq!(terminal.wait("working", work).await, seconds);
        }
    }

    #[test]
    fn words_in_json_are_escaped_once() {
        let words = "a\x1b]0;title\x07b\u{9b}31m \u{202e}txt \\ \"";
        let line = json_line("now", "INFO", words);
        assert!(
            !line.contains(|character: char| character.is_control() || character == '\u{202e}'),
            "{line}"
        );
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["message"], words);
    }

    #[test]
    fn nothing_is_told_twice() {
        let error = |texts: &[&'static str]| {
            let (last, rest) = texts.split_last().unwrap();
            rest.iter().rev().fold(anyhow::Error::msg(*last), |error, text| error.context(*text))
        };
        for (texts, told) in [
            (
                &["cannot back up `a`", "cannot back up `a`: there is no store"][..],
                "cannot back up `a`: there is no store",
            ),
            (&["cannot read `a`: it is gone", "it is gone"], "cannot read `a`: it is gone"),
            (&["cannot start", "cannot listen", "in use"], "cannot start: cannot listen: in use"),
        ] {
            assert_eq!(chain(&error(texts)), told);
        }
    }
}
