//! `ferroplane why`: why is it not ready?

use std::path::PathBuf;

use anyhow::bail;
use ferroplane_explain::{Purpose, diagnose};
use ferroplane_offline::replay::Selector;
use jiff::Timestamp;

use crate::Verdict;
use crate::explain::then::Then;
use crate::explain::{Subject, block_on, drawing};
use crate::recordings::{locate, parse_time};
use crate::terminal::Terminal;

/// Explain why an object is not ready, root cause first
///
/// Without an object, it lists everything that is not ready, grouped by cause, worst first. It checks composite resources, claims,
/// Compositions, and all kinds of the control plane that have conditions: XRDs, packages, Usages, operations, ActionSets, rollouts and
/// intercepts. -n limits the list to a namespace. Kinds that cannot be read are listed, too.
///
/// The first line names the object that causes the problem, the step and the field if there are any, the message, and since when. Then it
/// shows how the problem reaches your object, and what to do. It reads objects, conditions and events from the API server, and nothing else. With
/// --at, it explains a recorded state of the past.
///
/// Exit codes: 0 the object, or everything, is ready; 3 something is not ready; 1 error, or kinds that cannot be read
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane why
  ferroplane why app/hello
  ferroplane why bucket.cloud.example.org/b -n team-a -o json
  ferroplane why app/hello --at 2h")]
pub(crate) struct Why {
    #[command(flatten)]
    subject: Subject,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = WhyFormat::Text)]
    output: WhyFormat,

    #[command(flatten)]
    then: AtThen,
}

/// What was recorded of the past
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The past")]
struct AtThen {
    /// Explain the past: a timestamp (2026-01-31T12:00:00Z) or an age (2h)
    ///
    /// Reads the recordings of `ferroplane up` instead of the API server: the last reconcile that had started by then.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<Timestamp>,

    /// File that `ferroplane replay export` wrote, or directory of recordings [default: those in the data directory]
    #[arg(long, value_name = "PATH", requires = "at")]
    recordings: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WhyFormat {
    Text,
    Json,
    Yaml,
}

impl Why {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        if let Some(at) = self.then.at {
            return self.run_then(at, terminal);
        }
        if self.subject.is_everything() {
            return self.run_everywhere(terminal);
        }
        let read = async {
            let inquiry = self.subject.inquire().await?;
            let snapshot = inquiry.read(Purpose::Cause).await?;
            Ok((inquiry.root, snapshot))
        };
        let (root, snapshot) = block_on(terminal.wait("reading objects", read))?;
        let diagnosis = diagnose(&snapshot, &root);
        let looked_at = format!("{} objects and {} events", snapshot.count(), snapshot.event_count());
        match self.output {
            WhyFormat::Text => {
                let is_colourful = terminal.shows_data_in_colour();
                let answer = drawing::answer(&diagnosis, &looked_at, Timestamp::now(), is_colourful);
                terminal.text(&terminal.wrapped(&answer))?;
            }
            WhyFormat::Json => terminal.json(&diagnosis)?,
            WhyFormat::Yaml => terminal.yaml(&diagnosis)?,
        }
        Ok(if diagnosis.is_ready { Verdict::Yes } else { Verdict::No })
    }

    fn run_everywhere(&self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let overview = block_on(terminal.wait("reading all composite resources", self.subject.survey()))?;
        match self.output {
            WhyFormat::Text => {
                let is_colourful = terminal.shows_data_in_colour();
                let answer = drawing::overview(&overview, Timestamp::now(), is_colourful);
                terminal.text(&terminal.wrapped(&answer))?;
            }
            WhyFormat::Json => terminal.json(&overview)?,
            WhyFormat::Yaml => terminal.yaml(&overview)?,
        }
        match (overview.not_ready, overview.unread.len()) {
            (0, 0) => Ok(Verdict::Yes),
            (0, 1) => bail!("cannot say whether everything is ready: one kind could not be read"),
            (0, kinds) => bail!("cannot say whether everything is ready: {kinds} kinds could not be read"),
            _ => Ok(Verdict::No),
        }
    }

    fn run_then(&self, at: Timestamp, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let (kind, name) = self.subject.names()?;
        let (what, namespace) = (format!("{kind}/{name}"), self.subject.namespace());
        let recordings = locate(self.subject.data_dir(), self.then.recordings.clone())?;
        let namespace = namespace.map(str::to_owned);
        let recording = recordings.get(&Selector { which: Some(what), namespace, at: Some(at) })?;
        let then = Then::of(&recording);
        match self.output {
            WhyFormat::Text => {
                let answer = then.text(Timestamp::now(), terminal.shows_data_in_colour());
                terminal.text(&terminal.wrapped(&answer))?;
            }
            WhyFormat::Json => terminal.json(&then)?,
            WhyFormat::Yaml => terminal.yaml(&then)?,
        }
        Ok(if then.diagnosis.is_ready { Verdict::Yes } else { Verdict::No })
    }
}
