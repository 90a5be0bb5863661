//! `ferroplane audit who-can`: lists the subjects that can cause a write, directly or through the control plane.

use anyhow::bail;
use ferroplane_explain::audit::{Answer, Audit, POWERS, PowerHeld, Question, Subject};
use serde::Serialize;

use crate::Verdict;
use crate::client::Access;
use crate::explain::audit::{Scene, find_kind};
use crate::explain::block_on;
use crate::functions::table::table;
use crate::terminal::Terminal;

/// Show who can do something, directly or through the control plane
///
/// Rights lead to other rights. The author of a Composition decides what the control plane composes, and so does a user who replaces a
/// function. A user who writes composite resources gets what their Compositions compose. A user who may impersonate, escalate, bind, issue
/// tokens or run pods acts as others. This command follows all of these, and prints each subject with the shortest route.
/// A line that begins with "perhaps" depends on what a function does, or on an object that another user has to create.
///
/// Without a verb, it lists the strongest powers of all subjects: every right, reading Secrets, deciding what is composed, and so on.
///
/// Beside the verbs of Kubernetes, `block-delete` asks who can keep objects from being deleted, by Usages. The command reads roles,
/// bindings, XRDs, Compositions, Functions, Usages, grants of access, and the namespaces of composite resources. It reads no Secrets and
/// changes nothing. It evaluates RBAC only: it knows neither other authorizers of a cluster nor the members of groups.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane audit who-can                               the strongest powers
  ferroplane audit who-can delete secrets -n prod
  ferroplane audit who-can get secrets/payroll -n prod   one object
  ferroplane audit who-can create pods -o wide           with bindings
  ferroplane audit who-can create pods --subresource exec
  ferroplane audit who-can get /metrics                  a path
  ferroplane audit who-can --subject alice               one subject")]
pub(crate) struct WhoCan {
    /// The verb: get, list, create, update, patch, delete, impersonate, block-delete, …
    verb: Option<String>,

    /// The resource: `RESOURCE`, `RESOURCE.GROUP`, `RESOURCE/NAME`, or a path such as `/metrics`
    #[arg(value_name = "RESOURCE[/NAME]")]
    what: Option<String>,

    /// Part of the resource, for example `status` or `exec`
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,

    /// Only this namespace [default: all of them]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Only this user, group or service account (NAMESPACE/NAME)
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,

    /// Show users and service accounts of Kubernetes and of the control plane, too
    #[arg(long)]
    all: bool,

    /// User that writes composed resources [default: derived from the roles]
    #[arg(long, value_name = "USER")]
    composer: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = WhoCanFormat::Table)]
    output: WhoCanFormat,

    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WhoCanFormat {
    Table,
    Wide,
    Json,
    Yaml,
}

/// What is printed for programs.
#[derive(Debug, Serialize)]
struct Report<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<Question>,
    answers: Vec<T>,
    notes: Vec<String>,
}

impl WhoCan {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let read = async {
            let scene = Scene::read(&self.access, self.composer.clone()).await?;
            let question = self.question(&scene)?;
            Ok((scene, question))
        };
        let (scene, question) = block_on(terminal.wait("reading roles and definitions", read))?;
        let (audit, mut notes) = (Audit::new(scene.input), scene.notes);
        notes.extend(audit.notes(question.as_ref()));
        if let Some(question) = question {
            let answers = self.shown(audit.who_can(&question), |answer| &answer.subject, &mut notes);
            let rows: Vec<_> = answers.iter().map(|answer| self.row(answer)).collect();
            let report = Report { question: Some(question), answers, notes };
            return self.print(&["SUBJECT", "WHERE", "HOW"], &rows, &report, terminal);
        }
        let powers =
            self.shown(audit.powers(self.namespace.as_deref()), |held| &held.answer.subject, &mut notes);
        let rows: Vec<_> = powers.iter().map(|held| self.power_row(held)).collect();
        let report = Report { question: None, answers: powers, notes };
        self.print(&["SUBJECT", "CAN", "WHERE", "HOW"], &rows, &report, terminal)
    }

    /// What is asked. None for everything that matters.
    fn question(&self, scene: &Scene) -> anyhow::Result<Option<Question>> {
        let (Some(verb), Some(what)) = (&self.verb, &self.what) else {
            if self.verb.is_some() {
                bail!("the resource is missing: name it after the verb, as in `who-can delete secrets`");
            }
            return Ok(None);
        };
        if what.starts_with('/') {
            let (verb, path) = (verb.clone(), Some(what.clone()));
            return Ok(Some(Question { verb, path, ..Question::default() }));
        }
        let (word, name) =
            what.split_once('/').map_or((what.as_str(), None), |(word, name)| (word, Some(name)));
        let kind = find_kind(scene, word);
        let mut question = Question::about(verb, &kind.group, &kind.plural, kind.is_namespaced);
        question.name = name.map(str::to_owned);
        question.subresource = self.subresource.clone().unwrap_or_default();
        question.namespace.clone_from(&self.namespace);
        Ok(Some(question))
    }

    /// The subjects that the arguments select.
    fn shown<T>(&self, all: Vec<T>, subject: impl Fn(&T) -> &Subject, notes: &mut Vec<String>) -> Vec<T> {
        let is_meant = |it: &T| self.subject.as_deref().is_none_or(|name| is_called(subject(it), name));
        let is_hidden = |it: &T| !self.all && self.subject.is_none() && subject(it).is_of_the_system();
        let count = all.len();
        let shown: Vec<T> = all.into_iter().filter(|it| is_meant(it)).collect();
        let meant = shown.len();
        let shown: Vec<T> = shown.into_iter().filter(|it| !is_hidden(it)).collect();
        if meant > shown.len() {
            let hidden = meant - shown.len();
            notes.push(format!("{hidden} of {count} lines are about Kubernetes and the control plane themselves; --all shows them"));
        }
        shown
    }

    fn row(&self, answer: &Answer) -> Vec<String> {
        let reach = answer.reach.to_string();
        let names: Vec<_> = answer.names.iter().map(String::as_str).collect();
        let reach = if names.is_empty() { reach } else { format!("{reach} (only {})", names.join(", ")) };
        vec![answer.subject.to_string(), reach, self.route(answer)]
    }

    fn power_row(&self, held: &PowerHeld) -> Vec<String> {
        let means =
            POWERS.iter().find(|power| power.name == held.power).map_or(held.power, |power| power.means);
        let mut row = self.row(&held.answer);
        row.insert(1, means.to_owned());
        row
    }

    /// The steps. The binding that allows each is shown if there is one step, or in wide output.
    fn route(&self, answer: &Answer) -> String {
        let is_told = answer.is_direct() || self.output == WhoCanFormat::Wide;
        let steps = answer.route.iter().map(|step| match step.by.as_str() {
            by if is_told && !by.is_empty() => format!("{} ({by})", step.does),
            _ => step.does.clone(),
        });
        let steps = steps.collect::<Vec<_>>().join(" → ");
        if answer.is_certain { steps } else { format!("perhaps: {steps}") }
    }

    fn print<T: Serialize>(
        &self,
        headers: &[&str],
        rows: &[Vec<String>],
        report: &Report<T>,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Verdict> {
        match self.output {
            WhoCanFormat::Json => terminal.json(report)?,
            WhoCanFormat::Yaml => terminal.yaml(report)?,
            WhoCanFormat::Table | WhoCanFormat::Wide => {
                let room = terminal.width().filter(|_| self.output == WhoCanFormat::Table);
                for note in &report.notes {
                    terminal.note(note);
                }
                terminal.text(&table(headers, rows, room))?;
            }
        }
        Ok(Verdict::Yes)
    }
}

/// Whether the arguments select this subject.
fn is_called(subject: &Subject, word: &str) -> bool {
    match subject {
        Subject::Group { name } | Subject::User { name } => name == word,
        Subject::ServiceAccount { namespace, name } => {
            format!("{namespace}/{name}") == word
                || format!("system:serviceaccount:{namespace}:{name}") == word
        }
    }
}
