//! `ferroplane replay`: repeats a recorded reconcile.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use ferroplane_functions::Library;
use ferroplane_offline::replay::{Recordings, comparison, document, listing, phases, rerun};
use ferroplane_recorder::{RecordedRun, Recording, Replayed};
use jiff::Timestamp;

use crate::Verdict;
use crate::random_values;
use crate::recordings::{RecordingSelector, RecordingsLocation};
use crate::terminal::Terminal;

/// What a terminal shows while recordings are read, and while one is replayed.
const READING: &str = "reading recordings";
const REPLAYING: &str = "replaying";

/// Replay a recorded reconcile and compare the result
///
/// `ferroplane up` and `ferroplane start` record every reconcile of a composite resource without secrets: its inputs, the responses of
/// functions, the decisions and their result. They also record operations and ActionSets. A replay runs offline: it needs neither the
/// control plane nor the functions, and can be done while the control plane runs. A replay of an ActionSet calls the built-in functions of
/// its phases again and performs nothing of what they return.
///
/// Exit codes: 0 the result is the same, byte for byte; 3 it differs; 1 the recording cannot be replayed
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "Examples:
  ferroplane replay list app/shop
  ferroplane replay app/shop                  # the last reconcile
  ferroplane replay app/shop --at 2h          # the last one two hours ago
  ferroplane replay 1234 --functions built-in # run the built-in functions again
  ferroplane replay show 1234
  ferroplane replay export 1234 -o shop.recording
  ferroplane replay actionset/backup-7x9fk    # the last turn of an ActionSet"
)]
pub(crate) struct Replay {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    selector: RecordingSelector,

    /// Which functions to run again; the others return their recorded responses
    #[arg(long, value_enum, default_value_t = Functions::None)]
    functions: Functions,

    #[command(flatten)]
    recordings: RecordingsLocation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Functions {
    /// None: all return their recorded responses
    None,
    /// The built-in functions
    BuiltIn,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Show(Show),
    Export(Export),
}

/// List recordings, newest last
#[derive(Debug, clap::Args)]
struct List {
    /// Only recordings of this object: `KIND/NAME`
    #[arg(value_name = "KIND/NAME")]
    what: Option<String>,

    /// The namespace of the object
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,

    #[command(flatten)]
    recordings: RecordingsLocation,
}

/// Print a recording as YAML
#[derive(Debug, clap::Args)]
struct Show {
    #[command(flatten)]
    selector: RecordingSelector,

    #[command(flatten)]
    recordings: RecordingsLocation,
}

/// Export a recording to a file, to share it
///
/// Secrets are redacted. Everything else is in the file: names, specifications, responses of functions.
#[derive(Debug, clap::Args)]
struct Export {
    #[command(flatten)]
    selector: RecordingSelector,

    /// The file to write; it must not exist
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    recordings: RecordingsLocation,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Table,
    Json,
    Yaml,
}

impl Replay {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        match self.command {
            None => self.replay(terminal),
            Some(Command::List(list)) => list.run(terminal),
            Some(Command::Show(show)) => show.run(terminal),
            Some(Command::Export(export)) => export.run(terminal),
        }
    }

    fn replay(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let recordings = self.recordings.recordings()?;
        let recording = read(&recordings, self.selector, terminal)?;
        if self.functions == Functions::BuiltIn {
            random_values::draw_as_recorded(&recordings)?;
        }
        terminal.line(&listing::title(&recording.head, Timestamp::now()));
        if recording.head.is_action_set() {
            return replay_phases(&recording, terminal);
        }
        let mut verdict = Verdict::Yes;
        if recording.takes.is_empty() {
            terminal.note("this reconcile ran no pipeline: there is nothing to replay");
        }
        for (number, take) in recording.takes.iter().enumerate() {
            let replayed = terminal.work(REPLAYING, || self.functions.replay(take))?;
            let text = comparison::describe(number + 1, take, &replayed, recording.head.is_redacted);
            terminal.text(&text)?;
            if !replayed.is_same {
                verdict = Verdict::No;
            }
        }
        Ok(verdict)
    }
}

impl Functions {
    fn replay(self, take: &RecordedRun) -> anyhow::Result<Replayed> {
        match self {
            Self::None => Ok(take.replay()),
            Self::BuiltIn => {
                let library = Library::built_in().context("this build is broken")?;
                Ok(rerun::replay(take, &library)?)
            }
        }
    }
}

/// Read the recording that is meant.
fn read(
    recordings: &Recordings,
    selector: RecordingSelector,
    terminal: &mut Terminal,
) -> anyhow::Result<Recording> {
    let selector = selector.into();
    Ok(terminal.work(READING, || recordings.get(&selector))?)
}

/// Ask the functions of an ActionSet again.
fn replay_phases(recording: &Recording, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
    if recording.phase_calls.is_empty() {
        terminal.note("no phase called a function: there is nothing to replay");
    }
    let library = Library::built_in().context("this build is broken")?;
    let replayed = terminal.work(REPLAYING, || phases::replay(recording, &library));
    terminal.text(&replayed.text)?;
    Ok(if replayed.is_same { Verdict::Yes } else { Verdict::No })
}

impl List {
    fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let recordings = self.recordings.recordings()?;
        let (what, namespace) = (self.what.as_deref(), self.namespace.as_deref());
        let heads = terminal.work(READING, || recordings.heads(what, namespace))?;
        if let (true, Some(what)) = (heads.is_empty(), &self.what) {
            bail!("there are no recordings of `{what}`");
        }
        if heads.is_empty() {
            terminal.note("there are no recordings");
        }
        match self.output {
            Format::Table => {
                terminal.text(&listing::table(&heads, Timestamp::now(), terminal.width()))?;
            }
            Format::Json => terminal.json(&listing::document(&heads))?,
            Format::Yaml => terminal.yaml(&listing::document(&heads))?,
        }
        Ok(Verdict::Yes)
    }
}

impl Show {
    fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let recording = read(&self.recordings.recordings()?, self.selector, terminal)?;
        terminal.document(document::print(&recording)?.as_bytes())?;
        Ok(Verdict::Yes)
    }
}

impl Export {
    fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let (recordings, selector) = (self.recordings.recordings()?, self.selector.into());
        let bytes = terminal.work(READING, || recordings.export(&selector))?;
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.output);
        let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, &bytes));
        written.with_context(|| format!("cannot write `{}`", self.output.display()))?;
        terminal.note(&format!("wrote `{}`", self.output.display()));
        Ok(Verdict::Yes)
    }
}
