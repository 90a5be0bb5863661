//! `cargo xtask site`: the documentation as a web site, made by mdBook from docs/README.md and the pages that it lists.
//!
//! # Guarantees
//! * The site is in one directory, needs no network and no server, and can be searched.
//! * A file that a page links to is in the site. A link to a folder leads to its README.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, mem};

use anyhow::{Context as _, Result};

use crate::tidy::links::resolve;
use crate::tidy::markdown;
use crate::tools;

const INDEX: &str = "docs/README.md";
const DECISIONS: &str = "docs/adr";
const EXAMPLES: &str = "examples";

const BOOK: &str = "\
[book]
title = \"Ferroplane\"
language = \"en-GB\"
src = \"source\"

[build]
build-dir = \"book\"
create-missing = false
# README.md stays README.html, so that links to it lead there.
use-default-preprocessors = false

[output.html]
default-theme = \"light\"
preferred-dark-theme = \"navy\"
no-section-label = true
additional-css = [\"wide.css\"]
smart-punctuation = false
mathjax-support = false

[output.html.print]
enable = false

[output.html.fold]
enable = true
level = 0

[output.html.search]
limit-results = 20
teaser-word-count = 24
";

/// Tables and commands need more room than prose.
const STYLE: &str = "\
:root { --content-max-width: 56rem; }
table { width: 100%; }
th { text-align: start; }
td code { overflow-wrap: normal; }
";

/// Build the site, and say where it is.
pub(crate) fn run(root: &Path) -> Result<()> {
    let target = root.join("target/site");
    if target.exists() {
        fs::remove_dir_all(&target).with_context(|| format!("cannot remove {}", target.display()))?;
    }
    let summary = summary(root)?;
    let mut staging = Staging { root, target: target.join("source"), pages: BTreeMap::new() };
    staging.stage(&summary)?;
    fs::write(target.join("book.toml"), BOOK).context("cannot write book.toml")?;
    fs::write(target.join("wide.css"), STYLE).context("cannot write wide.css")?;
    tools::MDBOOK.command(root)?.arg("build").arg(&target).run()?;
    eprintln!("{}", target.join("book/index.html").display());
    Ok(())
}

/// The table of contents: the index, then decisions and examples, which have no entries of their own in it.
fn summary(root: &Path) -> Result<String> {
    let index = fs::read_to_string(root.join(INDEX)).with_context(|| format!("cannot read {INDEX}"))?;
    let mut summary = String::from("# Summary\n\n[Ferroplane](README.md)\n[All pages](docs/README.md)\n");
    summary.push_str(&chapters(&index));
    for (part, entries) in [("Examples", readmes(root)?), ("Decisions", decisions(root)?)] {
        let _ = writeln!(summary, "\n# {part}\n");
        for path in entries {
            let text = fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
            let _ = writeln!(summary, "- [{}]({path})", title(&text));
        }
    }
    Ok(summary)
}

/// The lists of the index, by headings.
fn chapters(index: &str) -> String {
    let mut out = String::new();
    for line in index.lines() {
        if let Some(part) = line.strip_prefix("## ") {
            let _ = writeln!(out, "\n# {part}\n");
        }
        let Some((name, rest)) = line.strip_prefix("- [").and_then(|item| item.split_once("](")) else {
            continue;
        };
        let target = rest.split_once(')').map_or(rest, |(target, _)| target);
        let path = resolve(INDEX, target);
        // Folders of pages have parts of their own.
        if is_page(&path) && !path.starts_with(EXAMPLES) && path != "README.md" {
            let _ = writeln!(out, "- [{name}]({path})");
        }
    }
    out
}

fn is_page(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

fn readmes(root: &Path) -> Result<Vec<String>> {
    let mut paths = vec![format!("{EXAMPLES}/README.md")];
    for entry in fs::read_dir(root.join(EXAMPLES))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let path = format!("{EXAMPLES}/{name}/README.md");
        paths.extend(root.join(&path).exists().then_some(path));
    }
    paths[1..].sort();
    Ok(paths)
}

fn decisions(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(root.join(DECISIONS))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        paths.extend(is_page(&name).then(|| format!("{DECISIONS}/{name}")));
    }
    paths.sort();
    Ok(paths)
}

fn title(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("Untitled")
}

/// A copy of the pages and of everything that they link to.
struct Staging<'a> {
    root: &'a Path,
    target: PathBuf,
    /// Pages that were copied, with their titles.
    pages: BTreeMap<String, String>,
}

impl Staging<'_> {
    fn stage(&mut self, summary: &str) -> Result<()> {
        let mut waiting: BTreeSet<String> =
            markdown::links(summary).into_iter().map(|link| link.path).collect();
        let listed = waiting.clone();
        while !waiting.is_empty() {
            for path in mem::take(&mut waiting) {
                let found = self.copy(&path)?;
                waiting.extend(found.into_iter().filter(|path| !self.pages.contains_key(path)));
            }
        }
        let mut summary = summary.to_owned();
        let others = self.pages.iter().filter(|(path, _)| is_page(path) && !listed.contains(*path));
        let others: Vec<_> = others.map(|(path, title)| format!("- [{title}]({path})\n")).collect();
        if !others.is_empty() {
            let _ = write!(summary, "\n# Beside the code\n\n{}", others.concat());
        }
        let path = self.target.join("SUMMARY.md");
        fs::write(&path, summary).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Copies a file. Returns what it links to.
    fn copy(&mut self, path: &str) -> Result<Vec<String>> {
        let (from, to) = (self.root.join(path), self.target.join(path));
        fs::create_dir_all(to.parent().unwrap_or(&to))
            .with_context(|| format!("cannot create {}", to.display()))?;
        if !is_page(path) {
            fs::copy(&from, &to).with_context(|| format!("cannot copy {path}"))?;
            self.pages.insert(path.to_owned(), String::new());
            return Ok(Vec::new());
        }
        let text = fs::read_to_string(&from).with_context(|| format!("cannot read {path}"))?;
        self.pages.insert(path.to_owned(), title(&text).to_owned());
        let is_folder = |target: &str| self.root.join(target).is_dir();
        let has_readme = |target: &str| self.root.join(target).join("README.md").exists();
        let (text, targets) = with_pages_for_folders(path, &text, is_folder, has_readme);
        let text = with_titles(&without_drawn_blocks(&text), |target| {
            let text = fs::read_to_string(self.root.join(resolve(path, target))).ok()?;
            Some(title(&text).to_owned())
        });
        fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
        Ok(targets)
    }
}

/// The text with links to folders turned into links to their READMEs, or into plain words, and what it links to.
fn with_pages_for_folders(
    page: &str,
    text: &str,
    is_folder: impl Fn(&str) -> bool,
    has_readme: impl Fn(&str) -> bool,
) -> (String, Vec<String>) {
    let mut text = text.to_owned();
    let mut targets = Vec::new();
    for link in markdown::links(&text) {
        let target = resolve(page, &link.path);
        if link.path.is_empty() {
            continue;
        }
        if !is_folder(&target) {
            targets.push(target);
            continue;
        }
        let readme = format!("{}/README.md", link.path.trim_end_matches('/'));
        if has_readme(&target) {
            text = text.replace(&format!("]({})", link.path), &format!("]({readme})"));
            targets.push(resolve(page, &readme));
        } else {
            text = without_link(&text, &link.path);
        }
    }
    (text, targets)
}

/// A link whose words are the name of a file gets the title of the page as its words.
fn with_titles(text: &str, title: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let target = after.split([')', '#']).next().unwrap_or_default();
        let words = before.rsplit_once('[').filter(|(_, words)| is_page(words) && target.ends_with(*words));
        match words.and_then(|(head, _)| Some((head, title(target)?))) {
            Some((head, title)) => out.extend([head, "[", &title]),
            None => out.push_str(before),
        }
        out.push_str("](");
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Leaves out blocks of text that draw what the picture before them shows: they are for terminals.
fn without_drawn_blocks(text: &str) -> String {
    let mut out = String::new();
    let mut follows_picture = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if follows_picture && line.starts_with("```text") {
            lines.by_ref().find(|line| line.starts_with("```"));
            follows_picture = false;
            continue;
        }
        follows_picture = line.starts_with("![") || follows_picture && line.is_empty();
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// `[words](target)` becomes `words`.
fn without_link(text: &str, target: &str) -> String {
    let end = format!("]({target})");
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(&end) {
        let (head, words) = before.rsplit_once('[').unwrap_or((before, ""));
        out.push_str(head);
        out.push_str(words);
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_index_become_chapters() {
        let index = "# Pages\n\nText.\n\n## First\n\n- [Up](up.md): start\n- [Design](../ARCHITECTURE.md)\n- [Hello](../examples/hello/README.md)\n\n## Second\n\n- [Words](contributing/words.md)\n";
        let expected = "\n# First\n\n- [Up](docs/up.md)\n- [Design](ARCHITECTURE.md)\n\n# Second\n\n- [Words](docs/contributing/words.md)\n";
        assert_eq!(chapters(index), expected);
    }

    #[test]
    fn link_that_names_a_file_gets_a_title() {
        let title = |target: &str| (target == "up.md").then(|| "Start it".to_owned());
        let text = "See [up.md](up.md#rights), [this](up.md), [gone.md](gone.md) and `[a](b)`.";
        let expected = "See [Start it](up.md#rights), [this](up.md), [gone.md](gone.md) and `[a](b)`.";
        assert_eq!(with_titles(text, title), expected);
    }

    #[test]
    fn block_that_draws_a_picture_again_is_left_out() {
        let text = "![Parts](parts.svg)\n\n```text\n+--+\n```\n\nText.\n\n```text\nstays\n```\n";
        let expected = "![Parts](parts.svg)\n\n\nText.\n\n```text\nstays\n```\n";
        assert_eq!(without_drawn_blocks(text), expected);
    }

    #[test]
    fn link_to_a_folder_leads_to_its_page_or_nowhere() {
        let text = "See [hello](../examples/hello), [deploy](../deploy) and [up](up.md#rights).";
        let is_folder = |path: &str| !is_page(path);
        let (text, targets) =
            with_pages_for_folders("docs/a.md", text, is_folder, |path| path == "examples/hello");
        assert_eq!(text, "See [hello](../examples/hello/README.md), deploy and [up](up.md#rights).");
        assert_eq!(targets, ["examples/hello/README.md", "docs/up.md"]);
    }
}
