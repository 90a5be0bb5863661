//! Which line of the templates printed which document.

use ferroplane_template::Trace;
use ferroplane_wire::v1::{RunFunctionRequest, RunFunctionResponse};

use crate::effort::{Effort, TakesLong};

use super::documents::{Document, META, RESOURCE_NAME};
use super::input::Parsed;
use super::source::TemplateLine;

/// A call of the function, and which lines of the templates it is about.
#[derive(Debug, Default)]
pub struct TracedRun {
    pub response: RunFunctionResponse,
    /// The templates ran to their end.
    pub has_output: bool,
    /// What the templates printed, in order. Empty if they failed, or printed what is no YAML.
    pub documents: Vec<TracedDocument>,
    /// Separators of documents that do not stand at the start of a line, where they separate nothing.
    pub lost_separators: Vec<TemplateLine>,
    /// The line to blame, if the templates failed, or something is wrong with what they printed.
    pub failed_at: Option<TemplateLine>,
}

/// A document that the templates printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedDocument {
    /// The name of the composed resource. Nothing if the document is about the composite resource.
    pub resource: Option<String>,
    pub at: TemplateLine,
}

/// Where the lines of a text begin.
#[derive(Debug)]
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self([0].into_iter().chain(ends.map(|(at, _)| at + 1)).collect())
    }

    /// The line of a position, from one.
    fn line(&self, position: usize) -> usize {
        self.0.partition_point(|start| *start <= position)
    }

    /// Where a line begins, from one.
    fn start(&self, line: usize) -> Option<usize> {
        self.0.get(line.checked_sub(1)?).copied()
    }
}

/// An output, and what printed it.
#[derive(Debug)]
pub(super) struct Printed<'p> {
    parsed: &'p Parsed,
    output: String,
    trace: Trace,
    lines: LineStarts,
    template_lines: LineStarts,
}

impl<'p> Printed<'p> {
    pub(super) fn new(parsed: &'p Parsed, output: String, trace: Trace) -> Self {
        let (lines, template_lines) = (LineStarts::of(&output), LineStarts::of(parsed.templates.text()));
        Self { parsed, output, trace, lines, template_lines }
    }

    /// The output.
    pub(super) fn text(&self) -> &str {
        &self.output
    }

    /// What printed the first line of the output that says something, from this one on.
    pub(super) fn at(&self, line: usize) -> Option<TemplateLine> {
        let begin = self.lines.start(line)?;
        let says_something = |line: &str| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#') && !line.starts_with("---")
        };
        let skipped = self.output.get(begin..)?.lines().position(says_something).unwrap_or_default();
        let start = self.lines.start(line + skipped)?;
        // Where a line is indented by the text and filled by an action, its first letter tells more than its first space.
        let rest = self.output.get(start..)?;
        let indent = rest.bytes().take_while(|byte| [b' ', b'\t'].contains(byte)).count();
        self.at_offset(start + indent)
    }

    fn at_offset(&self, offset: usize) -> Option<TemplateLine> {
        let position = self.trace.position(offset)?;
        self.parsed.lines.locate(self.template_lines.line(position))
    }

    /// The documents in the output, and what printed them.
    pub(super) fn documents(&self, documents: &[Document]) -> Vec<TracedDocument> {
        let traced = documents.iter().filter_map(|document| {
            let object = &document.object;
            let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
            let name = annotations.and_then(|all| all.get(RESOURCE_NAME)?.as_str());
            let is_meta = object.get("apiVersion").is_some_and(|version| version == META);
            let resource = name.filter(|_| !is_meta).map(str::to_owned);
            Some(TracedDocument { resource, at: self.at(document.line)? })
        });
        traced.collect()
    }

    /// Separators that were glued to what was printed before them, because something trimmed the end of the line between.
    pub(super) fn lost_separators(&self) -> Vec<TemplateLine> {
        let lost = self.trace.copies().filter(|(offset, _)| {
            let (before, after) = self.output.split_at_checked(*offset).unwrap_or_default();
            let is_separator =
                after.strip_prefix("---").is_some_and(|rest| rest.trim_start_matches(' ').starts_with('\n'));
            is_separator && !before.is_empty() && !before.ends_with('\n')
        });
        let mut lines: Vec<_> = lost.filter_map(|(offset, _)| self.at_offset(offset)).collect();
        lines.dedup();
        lines
    }
}

/// Calls a version of the function, and returns which lines of the templates produced the response. Nothing if there is no such
/// version.
pub fn trace_templates(
    version: &str,
    request: &RunFunctionRequest,
    effort: Effort<'_>,
) -> Option<Result<TracedRun, TakesLong>> {
    let release = super::release::Release::of(version)?;
    let mut traced = TracedRun::default();
    let response = super::run_and_trace(release, request, effort, Some(&mut traced));
    Some(response.map(|response| TracedRun { response, ..traced }))
}
