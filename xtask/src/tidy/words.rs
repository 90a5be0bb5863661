//! Whether documents, texts in code that users read, and comments of code, YAML and templates keep the rules of docs/contributing/words.md, as far as a program can
//! see that.
//!
//! The tables of that page are the rules: they alone have the phrases to avoid, and what to write instead.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::REPRODUCTIONS;
use super::forms;
use super::markdown::{Form, Piece, pieces};
use super::texts::{comments, texts};
use crate::shell::git;

const RULES: &str = "docs/contributing/words.md";

/// Decisions are a record and stay as they were made. The rest is generated from code, whose own texts are checked where they are.
const EXEMPT: [&str; 4] = [
    "docs/adr/",
    "docs/reference/",
    // Notes of the tests, beside their data.
    "crates/",
    "tests/",
];

/// The help of commands and the descriptions of fields, in pages that are generated from them. Their form is that of help, but they have
/// no phrases to avoid.
const HELP: [&str; 2] = ["docs/reference/commands.md", "docs/reference/kinds.md"];

/// Files whose comments people read: those of the chart, examples, templates, the default audit policy and the recipes for contributors.
const SETTINGS: [&str; 8] = [
    "justfile",
    "deploy/*.yaml",
    "deploy/*.tpl",
    "deploy/*.txt",
    "examples/*.yaml",
    "crates/apiserver/src/audit/policy/*.yaml",
    "crates/cli/templates/*.yaml",
    "crates/functions/src/*.yaml",
];

/// The inputs and the list of built-in functions. Users read their descriptions (`ferroplane functions explain`).
const DESCRIPTIONS: [&str; 2] = ["crates/functions/src/*/input.yaml", "crates/functions/versions.yaml"];

/// Code with our texts and comments: the product, the comparison with upstream functions, which writes a page of docs/, and what
/// contributors run.
const CODE: [&str; 4] = ["crates/*/src/*.rs", "compatibility/src/*.rs", "benches/src/*.rs", "xtask/src/*.rs"];

/// Code whose texts have to be those of Kubernetes, beside the reproductions of Go programs.
const FOREIGN: &str = "crates/apiserver/src/options/list.rs";

/// A heading is the subject of its section. One that begins so is a riddle, unless it asks.
const RIDDLES: [&str; 7] = ["What", "Who", "Whom", "Where", "When", "Which", "Whether"];

/// A sentence with more words is read twice.
const LONGEST_SENTENCE: usize = 35;
/// The same in a cell of a table, which may list things.
const LONGEST_IN_CELL: usize = 45;

/// A phrase that documents do not use, and what to write instead.
#[derive(Debug)]
struct Rule {
    phrase: String,
    instead: String,
}

/// Complain about every document that breaks a rule.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let rules = fs::read_to_string(root.join(RULES)).with_context(|| format!("cannot read {RULES}"))?;
    let (rules, names) = (rules_of(&rules), names_of(&rules));
    ensure!(!rules.is_empty(), "{RULES} has no table of phrases");
    ensure!(!names.is_empty(), "{RULES} has no table of terms");
    let listed = git(root, &["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]).output()?;
    let documents = listed.lines().filter(|name| !EXEMPT.iter().any(|exempt| name.starts_with(exempt)));
    for document in documents.filter(|document| root.join(document).exists()) {
        let text =
            fs::read_to_string(root.join(document)).with_context(|| format!("cannot read {document}"))?;
        complaints.extend(fault_of_opening(document, &text).map(|fault| format!("{document}:1: {fault}")));
        let faults = faults(&text, &rules).into_iter().chain(unknown_names(&text, &names));
        complaints.extend(faults.map(|(line, fault)| format!("{document}:{line}: {fault}")));
    }
    for page in HELP {
        let text = fs::read_to_string(root.join(page)).with_context(|| format!("cannot read {page}"))?;
        let faults = phrases(&text, &rules);
        complaints.extend(faults.into_iter().map(|(line, fault)| format!("{page}:{line}: {fault}")));
    }
    check_settings(root, &rules, complaints)?;
    check_descriptions(root, &rules, complaints)?;
    check_code(root, &rules, complaints)
}

/// Complain about comments in files of YAML and in templates, and about notes of the chart.
fn check_settings(root: &Path, rules: &[Rule], complaints: &mut Vec<String>) -> Result<()> {
    let listed = git(root, &["ls-files", "--cached", "--"]).args(SETTINGS).output()?;
    for name in listed.lines().filter(|name| root.join(name).exists()) {
        let text = fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        // All of a file of text is read by users, and of the others only the comments.
        let is_text = Path::new(name).extension().is_some_and(|extension| extension == "txt");
        let comments =
            if is_text { vec![(1, text)] } else { [template_comments(&text), yaml_comments(&text)].concat() };
        for (line, comment) in comments {
            let faults = faults(&comment, rules).into_iter();
            complaints.extend(faults.map(|(at, fault)| format!("{name}:{}: {fault}", line + at - 1)));
        }
    }
    Ok(())
}

/// Complain about phrases to avoid in the descriptions of built-in functions and of the fields of their inputs.
fn check_descriptions(root: &Path, rules: &[Rule], complaints: &mut Vec<String>) -> Result<()> {
    let listed = git(root, &["ls-files", "--cached", "--"]).args(DESCRIPTIONS).output()?;
    ensure!(!listed.is_empty(), "there are no {}", DESCRIPTIONS.join(" and no "));
    for name in listed.lines().filter(|name| root.join(name).exists()) {
        let text = fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        let faults = phrases(&text, rules);
        complaints.extend(faults.into_iter().map(|(line, fault)| format!("{name}:{line}: {fault}")));
    }
    Ok(())
}

/// The comments of YAML with their first lines. Lines that follow each other are one comment, and `# -- ` begins another one.
fn yaml_comments(text: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("# ") else {
            is_open = false;
            continue;
        };
        let (begins, words) = comment.strip_prefix("-- ").map_or((!is_open, comment), |words| (true, words));
        match comments.last_mut() {
            Some((_, whole)) if !begins => {
                whole.push('\n');
                whole.push_str(words);
            }
            _ => comments.push((index + 1, words.to_owned())),
        }
        is_open = true;
    }
    comments
}

/// The comments of templates, such as `{{/* text */}}` and `{{- /* text */}}`, with their first lines.
fn template_comments(text: &str) -> Vec<(usize, String)> {
    let is_opened = |at: usize| text[..at].trim_end_matches([' ', '-']).ends_with("{{");
    let begins = text.match_indices("/*").filter(|(at, _)| is_opened(*at));
    let comment = |(at, mark): (usize, &str)| {
        let line = text[..at].matches('\n').count() + 1;
        let (comment, _) = text[at + mark.len()..].split_once("*/")?;
        Some((line, comment.to_owned()))
    };
    begins.filter_map(comment).collect()
}

/// Complain about errors, conditions, events, log lines and comments with phrases to avoid, and about the form of errors and log lines.
fn check_code(root: &Path, rules: &[Rule], complaints: &mut Vec<String>) -> Result<()> {
    let listed = git(root, &["ls-files", "--cached", "--"]).args(CODE).output()?;
    for source in listed.lines().filter(|source| has_our_comments(source) && root.join(source).exists()) {
        let code = fs::read_to_string(root.join(source)).with_context(|| format!("cannot read {source}"))?;
        let texts = if is_product(source) { texts(&code) } else { Vec::new() };
        let forms = if is_product(source) { forms::faults(source, &code) } else { Vec::new() };
        complaints.extend(forms.into_iter().map(|(line, fault)| format!("{source}:{line}: {fault}")));
        for (line, text) in texts.into_iter().chain(comments(&code)) {
            let faults = phrases(&text, rules).into_iter();
            complaints.extend(faults.map(|(at, fault)| format!("{source}:{}: {fault}", line + at - 1)));
        }
    }
    Ok(())
}

/// Whether users read the texts of a source, and they are ours.
fn is_product(source: &str) -> bool {
    let is_foreign = source == FOREIGN || REPRODUCTIONS.iter().any(|folder| source.starts_with(folder));
    !is_foreign && has_our_comments(source)
}

/// Whether the comments of a source are ours, and not those of a test.
fn has_our_comments(source: &str) -> bool {
    let is_test =
        source.ends_with("/tests.rs") || source.contains("/tests/") || source.ends_with("/testing.rs");
    !is_test && !source.starts_with("crates/testkit/") && !source.contains("/generated/")
}

/// The rows `| forbidden | instead |` of the tables whose first column is called "Avoid".
fn rules_of(page: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut is_table = false;
    for line in page.lines() {
        let mut cells = line.trim_matches(['|', ' ']).split(" | ").map(str::trim);
        let (Some(first), second) = (cells.next(), cells.next()) else { continue };
        match first {
            "Avoid" => is_table = true,
            _ if !line.starts_with('|') => is_table = false,
            _ if is_table && !first.starts_with("--") => {
                let phrases = first.split(", ").map(|phrase| phrase.trim_matches('`').to_lowercase());
                let instead = second.unwrap_or_default().to_owned();
                rules.extend(phrases.map(|phrase| Rule { phrase, instead: instead.clone() }));
            }
            _ => {}
        }
    }
    rules
}

/// The words of the tables whose first column is called "Term" or "Name".
fn names_of(page: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_table = false;
    for line in page.lines() {
        let first = line.trim_matches(['|', ' ']).split(" | ").next().unwrap_or_default();
        match first {
            "Term" | "Name" => is_table = true,
            _ if !line.starts_with('|') => is_table = false,
            _ if is_table => names.extend(words_in(first).map(str::to_owned)),
            _ => {}
        }
    }
    names
}

fn words_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Words with a capital letter within a heading that are in no table, with the lines. They are terms that a reader cannot look up.
fn unknown_names(text: &str, names: &BTreeSet<String>) -> Vec<(usize, String)> {
    let is_name = |word: &&str| word.len() > 1 && word.starts_with(char::is_uppercase);
    let is_known =
        |word: &str| names.contains(word) || word.strip_suffix('s').is_some_and(|one| names.contains(one));
    let mut faults = Vec::new();
    for heading in pieces(text).into_iter().filter(|piece| piece.form == Form::Heading) {
        // The first word of a sentence has a capital letter anyway.
        let inner = sentences(&heading.text).flat_map(|sentence| words_in(sentence).skip(1));
        for word in inner.filter(is_name).filter(|word| !is_known(word)) {
            let fault = format!("`{word}` in the heading `{}` is in no table of {RULES}", heading.text);
            faults.push((heading.line, fault));
        }
    }
    faults
}

/// What is wrong with a document, with the lines.
fn faults(text: &str, rules: &[Rule]) -> Vec<(usize, String)> {
    let mut faults = phrases(text, rules);
    for piece in pieces(text) {
        faults.extend(fault_of_form(&piece).map(|fault| (piece.line, fault)));
    }
    faults.sort_by_key(|(line, _)| *line);
    faults
}

/// The phrases to avoid in a text, with the lines.
fn phrases(text: &str, rules: &[Rule]) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for piece in pieces(text) {
        let words = words_of(&piece.text);
        for rule in rules.iter().filter(|rule| contains(&words, &rule.phrase)) {
            faults.push((piece.line, format!("`{}` is not our English: {}", rule.phrase, rule.instead)));
        }
    }
    faults
}

/// A page of docs/ opens with what it is about and for whom.
fn fault_of_opening(document: &str, text: &str) -> Option<String> {
    let opening = text.split("\n## ").next().unwrap_or_default();
    let is_page = document.starts_with("docs/") && !document.ends_with("/README.md");
    (is_page && !opening.contains("This page ")).then(|| {
        "the page does not open with what it is about and for whom (`This page is for …`)".to_owned()
    })
}

fn fault_of_form(piece: &Piece) -> Option<String> {
    match piece.form {
        Form::Heading => {
            let first = piece.text.split(' ').next().unwrap_or_default();
            let is_riddle = RIDDLES.contains(&first) && !piece.text.ends_with('?');
            (is_riddle || piece.text.ends_with(['.', ':'])).then(|| {
                format!("heading `{}` does not name its subject; write a noun or an imperative", piece.text)
            })
        }
        Form::Prose => fault_of_length(&piece.text, LONGEST_SENTENCE),
        Form::Row => piece.text.split('|').find_map(|cell| fault_of_length(cell, LONGEST_IN_CELL)),
    }
}

fn fault_of_length(text: &str, most: usize) -> Option<String> {
    let longest = sentences(text).max_by_key(|sentence| sentence.split_whitespace().count())?;
    let length = longest.split_whitespace().count();
    let beginning: Vec<_> = longest.split_whitespace().take(6).collect();
    (length > most).then(|| format!("a sentence has {length} words: `{} …`", beginning.join(" ")))
}

/// A colon ends a sentence, too: what follows can be read by itself.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(". ")
        .flat_map(|part| part.split_inclusive(": "))
        .flat_map(|part| part.split_inclusive("? "))
}

/// The words in lower case, each after a space, with a space at the end.
fn words_of(text: &str) -> String {
    let letters = |letter: char| !letter.is_alphanumeric() && !matches!(letter, '\'' | '-' | '/');
    let mut out = String::from(" ");
    for word in text.to_lowercase().split(letters).filter(|word| !word.is_empty()) {
        out.push_str(word);
        out.push(' ');
    }
    out
}

fn contains(words: &str, phrase: &str) -> bool {
    words.contains(&format!(" {phrase} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Rules\n\n| Avoid | Write |\n|---|---|\n| `nobody`, `somebody` | the subject |\n\nText.\n\n| Term | Meaning |\n|---|---|\n| XR | a resource |\n";

    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str)]) {
        let found = faults(text, &rules_of(PAGE));
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for ((line, fault), (expected_line, expected)) in found.iter().zip(expected) {
            assert_eq!(line, expected_line, "{fault}");
            assert!(fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn rules_are_the_tables_that_say_what_to_avoid() {
        let phrases: Vec<_> = rules_of(PAGE).into_iter().map(|rule| (rule.phrase, rule.instead)).collect();
        let rule = |phrase: &str| (phrase.to_owned(), "the subject".to_owned());
        assert_eq!(phrases, [rule("nobody"), rule("somebody")]);
    }

    #[test]
    fn forbidden_phrase_is_found_in_headings_paragraphs_and_tables() {
        check("# Nobody", &[(1, "`nobody`")]);
        check("Text.\n\nThis waits until\nsomebody comes.", &[(3, "`somebody`")]);
        check("| a | Nobody, ever |", &[(1, "`nobody`")]);
    }

    #[test]
    fn forbidden_phrase_in_code_or_inside_a_word_is_fine() {
        check("`nobody` and\n\n```\nnobody\n```\n\nnobodyness", &[]);
    }

    #[test]
    fn texts_of_tests_and_of_reproduced_programs_are_not_ours() {
        assert!(is_product("crates/cli/src/up.rs") && is_product("crates/engine/src/testing_ground.rs"));
        for source in [
            "crates/cli/src/start/tests.rs",
            "crates/explain/src/testing.rs",
            "crates/testkit/src/lib.rs",
            "crates/cel/src/evaluate.rs",
        ] {
            assert!(!is_product(source), "{source}");
        }
    }

    #[test]
    fn comments_of_settings_are_found() {
        let text = "# Values\n# of all kinds.\na: 1 # one\n# -- The first.\n# -- The second:\n#   - {a: 1}\nb: 2\n#c: 3\n";
        let expected = [(1, "Values\nof all kinds."), (4, "The first."), (5, "The second:\n  - {a: 1}")];
        assert_eq!(yaml_comments(text), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn comments_of_templates_are_found() {
        let text = "{{/* One. */}}\na: \"*/*\" # two\n  {{- /*\nThree\nfour.\n*/ -}}\n{{ .b }}/* five */\n";
        let expected = [(1, " One. "), (3, "\nThree\nfour.\n")];
        assert_eq!(template_comments(text), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn comments_of_reproduced_programs_are_ours_and_those_of_generated_code_are_not() {
        assert!(has_our_comments("crates/cel/src/evaluate.rs"));
        assert!(has_our_comments("compatibility/src/report.rs"));
        assert!(!has_our_comments("crates/cel/src/evaluate/tests.rs"));
        assert!(!has_our_comments("crates/wire/src/generated/v1.rs"));
    }

    #[test]
    fn heading_that_does_not_name_its_subject_is_found() {
        check("## What it does", &[(1, "What it does")]);
        check("## Limits.", &[(1, "Limits.")]);
        check("## Where do I start?", &[]);
        check("## Limits", &[]);
    }

    #[test]
    fn unknown_name_in_a_heading_is_found() {
        let unknown = |text| {
            let found = unknown_names(text, &names_of(PAGE)).into_iter();
            found
                .map(|(line, fault)| format!("{line} {}", words_in(&fault).next().unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(unknown("# Delete XRs of an Oracle"), ["1 Oracle"]);
        assert_eq!(unknown("Text.\n\n## Composing Title Case"), ["3 Title", "3 Case"]);
        assert_eq!(unknown("# Limits: Where an XR ends, and `Code`\n\nThe Oracle says so."), [""; 0]);
    }

    #[test]
    fn page_that_does_not_say_what_it_is_about_is_found() {
        assert!(
            fault_of_opening("docs/up.md", "# Up\n\nIt starts.\n\n## More\n\nThis page is late.\n").is_some()
        );
        assert!(fault_of_opening("docs/up.md", "# Up\n\nThis page is for users.\n").is_none());
        assert!(fault_of_opening("docs/README.md", "# Pages\n").is_none());
        assert!(fault_of_opening("examples/hello/README.md", "# hello\n").is_none());
    }

    #[test]
    fn sentence_that_is_too_long_is_found() {
        let long = vec!["word"; LONGEST_SENTENCE + 1].join(" ");
        check(&format!("{long}."), &[(1, "36 words")]);
        let short = vec!["word"; LONGEST_SENTENCE].join(" ");
        check(&format!("{short}. {short}: {short}."), &[]);
        check(&format!("| {long} |"), &[]);
        let longer = vec!["word"; LONGEST_IN_CELL + 1].join(" ");
        check(&format!("| one | {longer} |"), &[(1, "46 words")]);
    }
}
