//! How findings are printed.

use super::finding::{Finding, Problem, ProblemKind, Report, Verdict};
use crate::manifest::yaml;

/// As what to print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Json,
    Yaml,
}

/// Whose lines are printed as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A line per object, and below it a line for everything that is wrong with it, with file and line.
    Ours,
    /// A line per error, as Crossplane's command line has it.
    Upstream,
}

/// How text looks.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub layout: Layout,
    /// Objects that are fine are not printed as text.
    pub skips_success: bool,
    pub is_colourful: bool,
}

/// Why findings cannot be printed.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Yaml(#[from] yaml::PrintError),
}

/// All findings.
pub fn print(report: &Report, format: Format, style: Style) -> Result<String, PrintError> {
    Ok(match format {
        Format::Json => serde_json::to_string_pretty(report)? + "\n",
        Format::Yaml => yaml::print(report)?,
        Format::Text => text(report, style),
    })
}

fn text(report: &Report, style: Style) -> String {
    let shown = report.resources.iter().filter(|finding| !(style.skips_success && finding.is_fine()));
    let mut text = String::new();
    for finding in shown {
        match style.layout {
            Layout::Ours => ours(finding, style, &mut text),
            Layout::Upstream => upstream(finding, style, &mut text),
        }
    }
    let total = report.summary;
    text += &format!(
        "Total {} resources: {} missing schemas, {} success cases, {} failure cases\n",
        total.total, total.missing_schemas, total.valid, total.invalid
    );
    text
}

#[derive(Debug, Clone, Copy)]
enum Mark {
    Tick,
    Look,
    Cross,
}

impl Mark {
    fn print(self, style: Style) -> String {
        let (mark, colour) = match self {
            Self::Tick => ("[✓]", "32"),
            Self::Look => ("[!]", "33"),
            Self::Cross => ("[x]", "31"),
        };
        if style.is_colourful { format!("\x1b[{colour}m{mark}\x1b[0m") } else { mark.to_owned() }
    }
}

fn ours(finding: &Finding, style: Style, text: &mut String) {
    let what = match (finding.api_version.as_str(), finding.kind.as_str()) {
        ("", "") => "an object without apiVersion and kind".to_owned(),
        _ => format!("{}, {}", type_of(finding), finding.name),
    };
    let (mark, words) = match finding.status {
        Verdict::Valid if !finding.warnings.is_empty() => {
            (Mark::Look, format!("{what} is valid, with warnings"))
        }
        Verdict::Valid => (Mark::Tick, format!("{what} validated successfully")),
        Verdict::Invalid => (Mark::Cross, what),
        Verdict::MissingSchema => (Mark::Look, format!("could not find CRD/XRD for: {what}")),
    };
    *text += &format!("{} {words}\n", mark.print(style));
    if finding.status == Verdict::MissingSchema && finding.warnings.is_empty() {
        *text += &format!("    {}:{}\n", finding.file, finding.line);
    }
    for problem in &finding.errors {
        *text += &format!("    {}:{}: {}\n", finding.file, problem.line, problem.message);
    }
    for problem in &finding.warnings {
        *text += &format!("    {}:{}: warning: {}\n", finding.file, problem.line, problem.message);
    }
}

fn upstream(finding: &Finding, style: Style, text: &mut String) {
    let kind = type_of(finding);
    match finding.status {
        Verdict::MissingSchema => {
            *text += &format!("{} could not find CRD/XRD for: {kind}\n", Mark::Look.print(style));
        }
        Verdict::Valid => {
            *text +=
                &format!("{} {kind}, {} validated successfully\n", Mark::Tick.print(style), finding.name);
        }
        Verdict::Invalid => {
            for problem in &finding.errors {
                let what = upstream_kind(problem);
                let mark = Mark::Cross.print(style);
                *text += &format!("{mark} {what} {kind}, {} : {}\n", finding.name, problem.message);
            }
        }
    }
}

fn upstream_kind(problem: &Problem) -> &'static str {
    match problem.kind {
        ProblemKind::Cel => "CEL validation error",
        ProblemKind::Schema | ProblemKind::UnknownField => "schema validation error",
        _ => "validation error",
    }
}

fn type_of(finding: &Finding) -> String {
    format!("{}, Kind={}", finding.api_version, finding.kind)
}
