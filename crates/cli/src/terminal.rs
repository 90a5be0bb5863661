//! The only place that prints: data to standard output, words to standard error.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};

/// Where a command's answer goes.
#[derive(Debug)]
pub(crate) struct Terminal {
    is_colourful: bool,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        let is_colourful = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { is_colourful }
    }

    /// Data. A reader that has seen enough and hung up is no error.
    #[expect(clippy::unused_self, reason = "whoever has no terminal may not print")]
    pub(crate) fn data(&mut self, data: &[u8]) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        match out.write_all(data).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.context("cannot write to standard output"),
        }
    }

    /// Whether somebody looks at the data who likes colours.
    #[expect(clippy::unused_self, reason = "whoever has no terminal may not print")]
    pub(crate) fn shows_data_in_colour(&self) -> bool {
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    }

    /// Something to know.
    pub(crate) fn note(&mut self, words: &str) {
        self.say("note", "36", words);
    }

    /// Something to look at.
    pub(crate) fn warn(&mut self, words: &str) {
        self.say("warning", "33", words);
    }

    /// What went wrong, and why.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        self.say("error", "31", &chain(error));
    }

    /// Words that stand for themselves.
    #[expect(clippy::unused_self, reason = "whoever has no terminal may not print")]
    pub(crate) fn line(&mut self, words: &str) {
        let _ = writeln!(io::stderr(), "{words}");
    }

    /// Words in a colour, for who likes colours.
    pub(crate) fn painted(&self, colour: &str, words: &str) -> String {
        if self.is_colourful { format!("\x1b[{colour}m{words}\x1b[0m") } else { words.to_owned() }
    }

    /// Show that something is going on, if anybody looks.
    #[expect(clippy::unused_self, reason = "whoever has no terminal may not print")]
    pub(crate) fn spinner(&mut self, words: &'static str) -> ProgressBar {
        let style =
            ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("the template is valid");
        let spinner = ProgressBar::new_spinner().with_style(style).with_message(words);
        spinner.enable_steady_tick(Duration::from_millis(100));
        spinner
    }

    /// Show how far something is, if anybody looks and nothing else is printed there.
    #[expect(clippy::unused_self, reason = "whoever has no terminal may not print")]
    pub(crate) fn progress(&mut self, total: usize, words: &'static str) -> ProgressBar {
        if io::stdout().is_terminal() || total < 2 {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} ({eta} left)");
        let style = style.expect("the template is valid");
        ProgressBar::new(total as u64).with_style(style).with_message(words)
    }

    /// Start with an empty screen, if there is one.
    pub(crate) fn clear(&mut self) {
        if io::stdout().is_terminal() {
            let _ = self.data(b"\x1b[2J\x1b[H");
        }
    }

    fn say(&self, label: &str, colour: &str, words: &str) {
        // There is nobody to tell if standard error is gone.
        let _ = if self.is_colourful {
            writeln!(io::stderr(), "\x1b[1;{colour}m{label}\x1b[0m: {words}")
        } else {
            writeln!(io::stderr(), "{label}: {words}")
        };
    }
}

/// An error and its causes. A cause that its effect has already told in full is not told again.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}
