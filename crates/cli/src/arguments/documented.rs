//! Every command that a page shows exists, with its flags.
//!
//! Pages are followed by tests (`tests/it/documentation.rs`), except for blocks about files and clusters that a test does not have, and
//! commands in sentences. Here all of them are read, and not run.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::Arguments;

/// What ends a command in a line of a shell.
const ENDS: [&str; 6] = ["|", "||", "&", "&&", ";", "\\"];

/// The pages beside those of docs/ and the examples.
const OTHER_PAGES: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "deploy/chart/ferroplane/README.md",
    "examples/README.md",
    "guests/examples/README.md",
];

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = OTHER_PAGES.map(|page| root.join(page)).to_vec();
    for directory in [root.join("docs"), root.join("docs/contributing")] {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    let examples = std::fs::read_dir(root.join("examples")).unwrap();
    pages.extend(examples.map(|entry| entry.unwrap().path().join("README.md")).filter(|path| path.exists()));
    pages.sort();
    pages
}

/// The commands of a page: lines of blocks for a shell, and code in sentences.
fn commands(page: &str) -> Vec<String> {
    let (mut found, mut language) = (Vec::new(), None);
    for line in page.lines() {
        if let Some(begun) = line.trim_start().strip_prefix("```") {
            language = if language.is_some() { None } else { Some(begun) };
            continue;
        }
        match language {
            Some("sh") => found.push(line.trim()),
            Some("console") => found.extend(line.trim().strip_prefix("$ ")),
            Some(_) => {}
            None => found.extend(line.split('`').skip(1).step_by(2)),
        }
    }
    let ours = found.into_iter().filter(|command| command.starts_with("ferroplane "));
    ours.map(str::to_owned).collect()
}

/// The words of the first command in a line. None if the line shows a syntax and not a command.
fn words(command: &str) -> Option<Vec<String>> {
    let is_end =
        |word: &str| ENDS.contains(&word) || word.starts_with(['#', '>', '<']) || word.starts_with("2>");
    let words: Vec<_> = split(command).into_iter().take_while(|word| !is_end(word)).collect();
    let is_syntax = |word: &String| word.contains(['[', ']', '|', '…', '(', ')', '{', '}']);
    (!words.iter().any(is_syntax)).then_some(words)
}

/// Words as a shell splits them, without their quotes.
fn split(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if matches!(letter, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_command_in_the_documentation_exists() {
    let (mut count, mut unknown) = (0, Vec::new());
    for page in pages() {
        for command in commands(&std::fs::read_to_string(&page).unwrap()) {
            let Some(words) = words(&command) else { continue };
            count += 1;
            let error = Arguments::command().try_get_matches_from(words).err();
            let kind = error.map(|error| error.kind());
            if matches!(kind, Some(ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand)) {
                unknown.push(format!("{}: {command}", page.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(count > 200, "only {count} commands were found");
}

#[test]
fn commands_are_found_in_blocks_and_sentences() {
    let page = "Run `ferroplane up --demo` or `kubectl get`.\n\n```console\n$ ferroplane why a/b | less\nferroplane is ready\n```\n\n```yaml\nferroplane no\n```\n";
    assert_eq!(commands(page), ["ferroplane up --demo", "ferroplane why a/b | less"]);
    let of = |command| words(command).unwrap().join(" + ");
    assert_eq!(of("ferroplane why a/b | less"), "ferroplane + why + a/b");
    assert_eq!(
        of("ferroplane operation next --schedule '0 3 * * *' # soon"),
        "ferroplane + operation + next + --schedule + 0 3 * * *"
    );
    assert_eq!(words("ferroplane up [--watch]"), None);
}
