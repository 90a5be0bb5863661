//! `ferroplane why`: why is it not ready?

use ferroplane_explain::{Purpose, diagnose};
use jiff::Timestamp;

use crate::Verdict;
use crate::explain::{Subject, block_on, drawing};
use crate::manifest::yaml;
use crate::terminal::Terminal;

/// Say why something is not ready: the root cause first
///
/// The first line names the object that is to blame, the step and the field if there are any, what is wrong, and since when. Then
/// follow what leads there, and what to do. Reads only what the API server has: objects, conditions, events.
///
/// Exit codes: 0 it is ready, 3 it is not, 1 that could not be found out.
#[derive(Debug, clap::Args)]
pub(crate) struct Why {
    #[command(flatten)]
    subject: Subject,

    /// How to say it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

impl Why {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let (root, snapshot) = block_on(async {
            let inquiry = self.subject.inquire().await?;
            let snapshot = inquiry.read(Purpose::Cause).await?;
            Ok((inquiry.root, snapshot))
        })?;
        let diagnosis = diagnose(&snapshot, &root);
        let looked_at = format!("{} objects and {} events", snapshot.count(), snapshot.event_count());
        let answer = match self.output {
            Format::Text => {
                drawing::answer(&diagnosis, &looked_at, Timestamp::now(), terminal.shows_data_in_colour())
            }
            Format::Json => format!("{:#}\n", serde_json::to_value(&diagnosis)?),
            Format::Yaml => yaml::print(&diagnosis)?,
        };
        terminal.data(answer.as_bytes())?;
        Ok(if diagnosis.is_ready { Verdict::Yes } else { Verdict::No })
    }
}
