//! `ferroplane render --from-recording`: a reconcile that was recorded, as files for a test.

use std::path::{Path, PathBuf};

use ferroplane_offline::render::write_test;
use ferroplane_offline::replay::Selector;

use crate::Verdict;
use crate::recordings::RecordingsLocation;
use crate::terminal::Terminal;

/// A reconcile that was recorded
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "From a recording")]
pub(super) struct Recorded {
    /// Write a recorded reconcile as files to render, with the expected output: an ID of
    /// `ferroplane replay list`, or KIND/NAME for the last one
    ///
    /// Functions that are not built in return recorded responses from files. Secrets are placeholders.
    #[arg(long, value_name = "ID|KIND/NAME", requires = "into", conflicts_with_all = ["composite_resource", "watch"])]
    pub(super) from_recording: Option<String>,

    /// Directory to write to, which must be empty or not exist
    #[arg(long, value_name = "DIR", requires = "from_recording")]
    pub(super) into: Option<PathBuf>,

    #[command(flatten)]
    recordings: RecordingsLocation,
}

impl Recorded {
    /// Write the files, and what is expected of them: what they are rendered to, if that is what was recorded.
    pub(super) async fn write(
        &self,
        which: &str,
        into: &Path,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        let selector = Selector { which: Some(which.to_owned()), ..Selector::default() };
        let recordings = self.recordings.recordings()?;
        let recording = terminal.work("reading recordings", || recordings.get(&selector))?;
        let test = write_test(&recording, into).await?;
        let directory = into.display();
        terminal.note(&format!(
            "wrote `{directory}`; to render it, and get what is in `{directory}/expected.yaml`:\n\n    ferroplane render {}\n",
            test.arguments.join(" ")
        ));
        if let Some(fatal) = test.fatal {
            terminal.failure(&fatal);
        } else if !test.is_same {
            let why = if recording.head.is_redacted {
                ": it held secrets, and functions see placeholders"
            } else {
                ""
            };
            terminal.warn(&format!("these files do not render to what was recorded{why}"));
            return Ok(Verdict::No);
        }
        Ok(Verdict::Yes)
    }
}
