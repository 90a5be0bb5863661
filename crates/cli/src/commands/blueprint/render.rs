//! `ferroplane blueprint render`: shows the arguments of the phases of an ActionSet.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use ferroplane_api::{Object, meta};
use ferroplane_functions::Library;
use ferroplane_offline::blueprints::{RenderInputs, is_kind, render};
use ferroplane_offline::manifest::Files;
use jiff::Timestamp;
use serde_json::json;

use crate::Verdict;
use crate::terminal::Terminal;

/// Show the rendered arguments of the phases of an ActionSet
///
/// No control plane is needed. Files have the ActionSet, its Blueprints, and what their templates read: the objects that the actions are
/// about, Secrets, ConfigMaps and Profiles. Every phase is shown with the version of its function and its rendered arguments, which have
/// the values of Secrets in them.
///
/// No function is called. What later templates read of a phase's output is given with --output; outputs that every run has, such as
/// `originalReplicaCount` of ScaleWorkload, are shown in angle brackets if they are not.
///
/// Exit codes: 0 success; 3 an action would fail; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane blueprint render blueprint.yaml actionset.yaml deployment.yaml
  ferroplane blueprint render examples/backup/ --output dump.path=/backups/1")]
pub(crate) struct Render {
    /// Files and directories with the ActionSet, its Blueprints and what they read; `-` for standard input
    #[arg(value_name = "FILES", required = true)]
    files: Vec<PathBuf>,

    /// Output of a phase
    #[arg(long, value_name = "PHASE.KEY=VALUE", value_parser = parse_output)]
    output: Vec<(String, String, String)>,
}

impl Render {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let library = Library::built_in().context("this build is broken")?;
        let (mut action_sets, mut blueprints, mut objects) = (Vec::new(), Vec::new(), Vec::new());
        let mut files = Files::default();
        for path in &self.files {
            for manifest in files.load(path)? {
                let list = if is_kind(&manifest, "ActionSet") {
                    &mut action_sets
                } else if is_kind(&manifest, "Blueprint") {
                    &mut blueprints
                } else {
                    &mut objects
                };
                list.push(manifest.object().clone());
            }
        }
        let [action_set] = action_sets.as_slice() else {
            bail!("expected one ActionSet in the files, found {}", action_sets.len())
        };
        let mut outputs: BTreeMap<String, Object> = BTreeMap::new();
        for (phase, key, value) in self.output {
            outputs.entry(phase).or_default().insert(key, value.into());
        }
        let now = Timestamp::now().as_millisecond();
        let inputs =
            RenderInputs { action_set, blueprints: &blueprints, objects: &objects, outputs: &outputs, now };
        let actions = render(&inputs, &library)?;
        let fails = actions.iter().any(|action| !action.errors.is_empty());
        let name = meta::name(action_set);
        terminal.yaml(&json!({"actionSet": name, "actions": actions}))?;
        for error in actions.iter().flat_map(|action| &action.errors) {
            terminal.failure(error);
        }
        Ok(if fails { Verdict::No } else { Verdict::Yes })
    }
}

fn parse_output(text: &str) -> Result<(String, String, String), String> {
    let parts = text.split_once('=').and_then(|(path, value)| Some((path.split_once('.')?, value)));
    match parts {
        Some(((phase, key), value)) if !phase.is_empty() && !key.is_empty() => {
            Ok((phase.to_owned(), key.to_owned(), value.to_owned()))
        }
        _ => Err("expected PHASE.KEY=VALUE".to_owned()),
    }
}
