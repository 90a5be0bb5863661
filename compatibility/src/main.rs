//! Compares the built-in functions with the functions they reproduce, and records where they differ.
//!
//! Every case is one request. The original gets it over gRPC, ours in process, and the two answers have to be
//! equal: message by message, texts included. A difference is either recognised as one we chose, by a narrow
//! predicate in the corpus of its function, or it is a fault.

mod catalogue;
mod compare;
mod corpus;
mod dice;
mod original;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use ferroplane_functions::Library;

use compare::Verdict;
use corpus::{CORPORA, Corpus, TEMPLATE};
use original::Original;
use report::Report;

/// Compare the built-in functions with their originals
#[derive(Debug, Parser)]
struct Arguments {
    /// Only functions whose name contains this
    filter: Option<String>,
    /// How many generated cases per function, besides those made by hand
    #[arg(long, default_value_t = 3000)]
    cases: u64,
    /// Where the generator starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The directory with the originals: `NAME` or `NAME@VERSION`, each an executable
    #[arg(long, default_value_os_t = original::directory())]
    originals: PathBuf,
    /// How many unexplained differences to show per function
    #[arg(long, default_value_t = 5)]
    show: usize,
    /// Write the answers of the original to the templates in the style of real compositions to this file, and compare nothing
    #[arg(long, requires = "filter")]
    record: Option<PathBuf>,

    /// Write what was found to this file
    #[arg(long)]
    write: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let library = Library::built_in()?;
    let mut reports = Vec::new();
    for corpus in CORPORA.iter().filter(|corpus| is_wanted(corpus, arguments.filter.as_deref())) {
        for original in Original::find(&arguments.originals, corpus.function)? {
            if let Some(path) = &arguments.record {
                record(corpus, &original, path).await?;
                return Ok(ExitCode::SUCCESS);
            }
            let report = compare_all(corpus, original, &library, &arguments).await?;
            println!("{report}");
            reports.push(report);
        }
        if !reports.iter().any(|report: &Report| report.function == corpus.function) {
            println!(
                "{}: skipped, there is no original in {}",
                corpus.function,
                arguments.originals.display()
            );
        }
    }
    if let Some(path) = &arguments.write {
        let compared: Vec<_> = reports.iter().map(Report::subject).collect();
        catalogue::check_claims(&library, &compared)?;
        std::fs::write(path, report::page(&reports, &catalogue::read_only(&library)))?;
    }
    let is_clean = reports.iter().all(|report| report.faults.is_empty());
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// Records the answers of an original to the cases whose names say that they are recorded.
async fn record(corpus: &Corpus, original: &Original, path: &Path) -> Result<()> {
    let running = original.start().await?;
    let mut lines = String::new();
    for (name, request) in (corpus.by_hand)() {
        let Some(case) = name.strip_prefix(TEMPLATE) else { continue };
        let answer = compare::ask(corpus, &original.version, &running, &request).await?;
        let answer = answer.with_context(|| format!("the original crashes: {case}"))?;
        lines.push_str(&serde_json::json!({"case": case, "answer": answer}).to_string());
        lines.push('\n');
    }
    running.stop().await;
    std::fs::write(path, lines).with_context(|| format!("cannot write {}", path.display()))
}

fn is_wanted(corpus: &Corpus, filter: Option<&str>) -> bool {
    filter.is_none_or(|filter| corpus.function.contains(filter))
}

async fn compare_all(
    corpus: &Corpus,
    original: Original,
    library: &Library,
    arguments: &Arguments,
) -> Result<Report> {
    let mut report = Report::new(corpus.function, &original.version);
    let mut running = original.start().await?;
    let builtin = catalogue::replacement(library, corpus.function, &original.version);
    let generated = (arguments.seed..arguments.seed + arguments.cases).map(|seed| {
        let mut dice = dice::Dice::new(seed);
        let mut request = (corpus.generate)(&mut dice);
        (corpus.adapt)(&original.version, &mut dice, &mut request);
        (format!("seed {seed}"), request)
    });
    let made_by_hand =
        (corpus.by_hand)().into_iter().map(|(name, request)| (format!("by hand: {name}"), request));
    for (name, request) in made_by_hand.chain(generated) {
        let verdict =
            compare::compare(corpus, &original.version, &running, builtin.as_ref(), &request).await?;
        if matches!(verdict, Verdict::Deliberate(compare::CRASHED)) {
            running = original.start().await?;
        }
        report.add(name, request, verdict, arguments.show);
    }
    running.stop().await;
    Ok(report)
}
