//! `ferroplane trace`: the tree of what was composed.

use ferroplane_explain::{Node, Purpose, tree};
use ferroplane_offline::manifest::yaml;

use crate::Verdict;
use crate::explain::drawing::{self, Style};
use crate::explain::{Inquiry, Subject, block_on};
use crate::interrupt::Interrupts;
use crate::terminal::Terminal;

/// Show the tree of resources that an object is composed of
///
/// Works for composite resources, claims, Compositions, Functions, definitions, CronOperations and WatchOperations. For each object it shows
/// whether it is synced and ready, and the first problem. STEP is the pipeline step that made the resource: the step whose input names it,
/// or the only step that composes; `-` if it is unknown.
///
/// Exit codes: 0 everything is ready; 3 something is not ready; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane trace app/hello
  ferroplane trace app/hello --broken -o wide
  ferroplane trace app/hello --watch")]
pub(crate) struct Trace {
    #[command(flatten)]
    subject: Subject,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = TraceFormat::Default)]
    output: TraceFormat,

    /// Show only objects with problems, and their owners
    #[arg(long)]
    broken: bool,

    /// Show the tree again whenever something changes
    #[arg(short, long)]
    watch: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TraceFormat {
    Default,
    Wide,
    Json,
    Yaml,
    Dot,
}

impl Trace {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        block_on(async {
            let inquiry = self.subject.inquire().await?;
            if self.watch {
                let mut interrupts = Interrupts::listen()?;
                return tokio::select! {
                    verdict = interrupts.next() => Ok(verdict),
                    result = self.follow(&inquiry, terminal) => result,
                };
            }
            let tree = look(&inquiry).await?;
            terminal.text(&self.shown(&tree, terminal)?)?;
            Ok(if tree.is_ready() { Verdict::Yes } else { Verdict::No })
        })
    }

    async fn follow(&self, inquiry: &Inquiry, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let mut last = String::new();
        let mut tree = look(inquiry).await?;
        loop {
            // First when, then what: nothing is missed in between.
            let versions = inquiry.versions(&tree).await?;
            tree = look(inquiry).await?;
            let shown = self.shown(&tree, terminal)?;
            if shown != last {
                terminal.clear();
                terminal.text(&shown)?;
                last = shown;
            }
            inquiry.changed_since(versions).await;
        }
    }

    fn shown(&self, tree: &Node, terminal: &Terminal) -> anyhow::Result<String> {
        let shown = if self.broken { tree.clone().broken() } else { Some(tree.clone()) };
        let Some(tree) = shown else { return Ok(String::new()) };
        let is_wide = self.output == TraceFormat::Wide;
        // Whoever asks for everything gets it, however it looks.
        let room = terminal.width().filter(|_| !is_wide);
        let style = Style { is_wide, is_colourful: terminal.shows_data_in_colour(), room };
        Ok(match self.output {
            TraceFormat::Default | TraceFormat::Wide => drawing::table(&tree, style),
            TraceFormat::Json => format!("{:#}\n", serde_json::to_value(&tree)?),
            TraceFormat::Yaml => yaml::print(&tree)?,
            TraceFormat::Dot => drawing::dot(&tree),
        })
    }
}

async fn look(inquiry: &Inquiry) -> anyhow::Result<Node> {
    Ok(tree(&inquiry.read(Purpose::Tree).await?, &inquiry.root))
}
