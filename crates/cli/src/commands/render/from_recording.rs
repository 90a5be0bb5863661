//! `ferroplane render --from-recording`: a reconcile that was recorded, as files for a test.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ferroplane_api::{Object, keys, meta};
use ferroplane_runner::grpc;

use crate::Verdict;
use crate::manifest::Files;
use crate::render::given::Given;
use crate::render::output::{self, Format, Include};
use crate::render::recorded;
use crate::replay::{Chosen, Recordings};
use crate::terminal::Terminal;

/// A reconcile that was recorded
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "From a recording")]
pub(super) struct Recorded {
    /// Write a recorded reconcile as files to render, with what is expected of them: a number of
    /// `ferroplane replay list`, or KIND/NAME for the last one
    ///
    /// Functions that are not built in answer from files of what they said. Secrets are placeholders.
    #[arg(long, value_name = "ID|KIND/NAME", requires = "into", conflicts_with_all = ["composite_resource", "watch"])]
    pub(super) from_recording: Option<String>,

    /// The directory to write the files to; it must be empty or not exist
    #[arg(long, value_name = "DIR", requires = "from_recording")]
    pub(super) into: Option<PathBuf>,

    #[command(flatten)]
    recordings: Recordings,
}

impl Recorded {
    /// Write the files, and what is expected of them: what they are rendered to, if that is what was recorded.
    pub(super) async fn write(
        &self,
        which: &str,
        into: &Path,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        let chosen = Chosen { which: Some(which.to_owned()), namespace: None, at: None };
        let recording = self.recordings.get(&chosen)?;
        let arguments = recorded::describe(&recording)?.write(into)?;
        let work = Given::of(&arguments).load(&mut Files::default())?;
        let functions = work.called.start(&work.pipeline, &grpc::Options::default()).await?;
        let xr = work.xrs.first().context("there is no composite resource in it")?;
        let mut rendered = work.render(xr, &functions).await?;
        let failure = rendered.take_fatal_result().context("cannot render what was recorded")?;
        let now =
            rendered.composed.iter().map(|object| (resource_name(object), object.clone().into())).collect();
        let is_same = recording.takes.last().is_some_and(|take| recorded::composed(take) == now);
        let include = Include { deletions: true, ..Include::default() };
        let expected = output::print(rendered, include, Format::Yaml)?;
        let path = into.join("expected.yaml");
        std::fs::write(&path, expected).with_context(|| format!("cannot write `{}`", path.display()))?;
        let words =
            arguments.iter().flat_map(|(flag, path)| [(*flag).to_owned(), path.display().to_string()]);
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        terminal.note(&format!(
            "wrote `{}`; to render it:\n\n    ferroplane render {}\n",
            into.display(),
            words.join(" ")
        ));
        if let Some(failure) = failure {
            terminal.warn(&failure.to_string());
        } else if !is_same {
            let why = if recording.head.is_redacted {
                ": it held secrets, and functions see placeholders"
            } else {
                ""
            };
            terminal.warn(&format!("what is composed of these files is not what was recorded{why}"));
            return Ok(Verdict::No);
        }
        Ok(Verdict::Yes)
    }
}

fn resource_name(object: &Object) -> String {
    meta::annotation(object, keys::RESOURCE_NAME).to_owned()
}
