//! `ferroplane diff`: plans a change of a control plane.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ferroplane_controllers::PlanRequest;

use crate::Verdict;
use crate::client::{Access, PlaneAccess};
use crate::explain::block_on;
use crate::plans::drawing::{Paint, draw};
use crate::plans::saved::SavedPlan;
use crate::plans::{add_namespaces, ask, read_files};
use crate::terminal::Terminal;

/// Show what a change would do to a control plane
///
/// Nothing is changed. The control plane makes the plan: it runs the pipelines of all composite resources that the change affects, with
/// its own functions, until the result is stable. Each write is sent to its API server as a dry run. Files may have composite resources,
/// claims, Compositions, Functions, definitions (XRDs), and anything that functions read. Objects without a namespace go to the namespace
/// of the kubeconfig's context.
///
/// Deletions and replacements come first. Composite resources with the same changes are shown together. Values of Secrets and of fields
/// that definitions call sensitive are not shown. A composite resource that cannot be planned is listed with the reason.
///
/// Exit codes: 0 no differences; 3 differences; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane diff composition.yaml
  ferroplane diff platform/ -o json
  ferroplane diff xr.yaml --save change.plan && ferroplane apply change.plan
  ferroplane diff --function function-own=function-own-3f2a")]
pub(crate) struct Diff {
    /// Files and directories with the objects that would be applied; `-` for standard input
    #[arg(value_name = "FILES", required_unless_present = "function")]
    files: Vec<PathBuf>,

    /// Call this revision of a function in steps that name only the function; it must be active
    #[arg(long = "function", value_name = "NAME=REVISION", value_parser = parse_function)]
    function: Vec<(String, String)>,

    /// Save the plan in a file for `ferroplane apply`
    #[arg(long, value_name = "PLAN", conflicts_with = "function")]
    save: Option<PathBuf>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = DiffFormat::Table)]
    output: DiffFormat,

    #[command(flatten)]
    access: Access,

    #[command(flatten)]
    plane: PlaneAccess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DiffFormat {
    Table,
    Json,
    Yaml,
}

impl Diff {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let objects = if self.files.is_empty() { Vec::new() } else { read_files(&self.files)? };
        let function_revisions: BTreeMap<_, _> = self.function.into_iter().collect();
        let mut request = PlanRequest { objects, function_revisions };
        let plan = block_on(async {
            let connection = self.access.connect()?;
            let planner = self.plane.planner(&self.access, &connection)?;
            terminal.wait_for_server(add_namespaces(&mut request.objects, &connection)).await?;
            ask(&planner, &request, terminal).await
        })?;
        match self.output {
            DiffFormat::Table => {
                let drawn = draw(&plan, Paint(terminal.shows_data_in_colour()));
                terminal.text(&terminal.wrapped(&drawn))?;
            }
            DiffFormat::Json => terminal.json(&plan)?,
            DiffFormat::Yaml => terminal.yaml(&plan)?,
        }
        let verdict = if plan.has_differences() { Verdict::No } else { Verdict::Yes };
        if let Some(path) = &self.save {
            SavedPlan::new(request, plan).write(path)?;
            terminal.note(&format!("saved the plan; apply it with: ferroplane apply {}", path.display()));
        }
        Ok(verdict)
    }
}

fn parse_function(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, revision)| !name.is_empty() && !revision.is_empty());
    let (name, revision) = parts.ok_or("expected NAME=REVISION")?;
    Ok((name.to_owned(), revision.to_owned()))
}
