//! `ferroplane trace`: shows the tree of composed resources.

use ferroplane_explain::{Node, Purpose, tree};
use jiff::Timestamp;

use crate::Verdict;
use crate::explain::drawing::{self, Style};
use crate::explain::{Inquiry, Subject, block_on};
use crate::interrupt::Interrupts;
use crate::terminal::{Terminal, until_unread};

/// What a terminal shows while objects are read.
const READING: &str = "reading objects";

/// Show the tree of resources that an object is composed of
///
/// Works for composite resources, claims, Compositions, definitions, Operations, CronOperations, WatchOperations, ActionSets, and packages with
/// their revisions and dependencies. For each object it shows whether it is synced and ready, and the first problem. STEP is the pipeline step
/// that made the resource: the step whose input names it, or the only step that composes; `-` if it is unknown.
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
            let read = async {
                let inquiry = self.subject.inquire().await?;
                let tree = look(&inquiry).await?;
                anyhow::Ok((inquiry, tree))
            };
            let (inquiry, tree) = terminal.wait(READING, read).await?;
            if self.watch {
                let mut interrupts = Interrupts::listen()?;
                return tokio::select! {
                    verdict = interrupts.next() => Ok(verdict),
                    result = self.follow(&inquiry, tree, terminal) => result,
                };
            }
            self.show(&tree, terminal)?;
            Ok(verdict(&tree))
        })
    }

    async fn follow(
        &self,
        inquiry: &Inquiry,
        mut tree: Node,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        let mut last = None;
        loop {
            // First when, then what: nothing is missed in between.
            let read = async {
                let versions = inquiry.versions(&tree).await?;
                anyhow::Ok((versions, look(inquiry).await?))
            };
            let (versions, read) = terminal.wait(READING, read).await?;
            tree = read;
            // Trees are compared, and not texts: ages change all the time.
            if last.as_ref() != Some(&tree) {
                terminal.clear();
                self.show(&tree, terminal)?;
                last = Some(tree.clone());
            }
            tokio::select! {
                () = inquiry.changed_since(versions) => {}
                () = until_unread() => return Ok(verdict(&tree)),
            }
        }
    }

    fn show(&self, tree: &Node, terminal: &mut Terminal) -> anyhow::Result<()> {
        let shown = if self.broken { tree.clone().broken() } else { Some(tree.clone()) };
        let Some(tree) = shown else { return Ok(()) };
        let is_wide = self.output == TraceFormat::Wide;
        // Wide output is not shortened, even if the terminal then breaks its lines.
        let room = terminal.width().filter(|_| !is_wide);
        let style =
            Style { is_wide, is_colourful: terminal.shows_data_in_colour(), room, now: Timestamp::now() };
        match self.output {
            TraceFormat::Default | TraceFormat::Wide => terminal.text(&drawing::table(&tree, style)),
            TraceFormat::Json => terminal.json(&tree),
            TraceFormat::Yaml => terminal.yaml(&tree),
            TraceFormat::Dot => terminal.text(&drawing::dot(&tree)),
        }
    }
}

fn verdict(tree: &Node) -> Verdict {
    if tree.is_ready() { Verdict::Yes } else { Verdict::No }
}

async fn look(inquiry: &Inquiry) -> anyhow::Result<Node> {
    Ok(tree(&inquiry.read(Purpose::Tree).await?, &inquiry.root))
}
