//! Whether links in documents lead somewhere, and whether every page is in the index.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path};

use anyhow::{Context as _, Result};

use super::markdown::{Link, anchors, links};
use crate::shell::git;

/// The index of all pages, from which the site is made.
const INDEX: &str = "docs/README.md";

/// Complain about every link that leads nowhere, and every page that the index does not have.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let listed = git(root, &["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]).output()?;
    let mut documents = BTreeMap::new();
    for name in listed.lines().filter(|name| root.join(name).exists()) {
        let text = fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        documents.insert(name.to_owned(), text);
    }
    for (name, text) in &documents {
        for link in links(text) {
            let target = resolve(name, &link.path);
            let fault = fault(&link, &target, &documents, |path| root.join(path).exists());
            complaints.extend(fault.map(|fault| format!("{name}:{}: {fault}", link.line)));
        }
    }
    complaints.extend(unlisted(&documents).map(|page| format!("{INDEX} has no link to {page}")));
    Ok(())
}

/// A path from the root.
pub(crate) fn resolve(document: &str, path: &str) -> String {
    if path.is_empty() {
        return document.to_owned();
    }
    let mut resolved = Path::new(document).parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Normal(name) => resolved.push(name),
            _ => {}
        }
    }
    resolved.to_string_lossy().into_owned()
}

fn fault(
    link: &Link,
    target: &str,
    documents: &BTreeMap<String, String>,
    exists: impl Fn(&Path) -> bool,
) -> Option<String> {
    let page = documents.get(target);
    if page.is_none() && !exists(Path::new(target)) {
        return Some(format!("the link to `{}` leads nowhere", link.path));
    }
    let anchor = link.anchor.as_ref()?;
    let has_heading = page.is_some_and(|page| anchors(page).contains(anchor));
    (!has_heading).then(|| format!("`{target}` has no heading `#{anchor}`"))
}

/// The pages of docs/ that the index does not have. Decisions have an index of their own in their folder.
fn unlisted(documents: &BTreeMap<String, String>) -> impl Iterator<Item = &String> {
    let index = documents.get(INDEX).map(String::as_str).unwrap_or_default();
    let linked: Vec<_> = links(index).iter().map(|link| resolve(INDEX, &link.path)).collect();
    let pages = documents.keys().filter(|name| name.starts_with("docs/") && !name.starts_with("docs/adr/"));
    pages.filter(move |page| *page != INDEX && !linked.contains(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(pages: &[(&str, &str)]) -> BTreeMap<String, String> {
        pages.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let documents = documents(&[("docs/a.md", text), ("docs/b.md", "# Title\n## Part two\n")]);
        let link = &links(text)[0];
        let target = resolve("docs/a.md", &link.path);
        let found = fault(link, &target, &documents, |path| path == Path::new("examples/hello"));
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn link_to_a_page_a_heading_or_a_folder_is_fine() {
        check("[b](b.md)", None);
        check("[b](b.md#part-two)", None);
        check("[hello](../examples/hello)", None);
        check("# Here\n\n[up](#here)", None);
    }

    #[test]
    fn link_that_leads_nowhere_is_found() {
        check("[c](c.md)", Some("the link to `c.md` leads nowhere"));
        check("[b](b.md#part-three)", Some("`docs/b.md` has no heading `#part-three`"));
        check("[up](#there)", Some("`docs/a.md` has no heading `#there`"));
    }

    #[test]
    fn page_that_the_index_does_not_have_is_found() {
        let documents = documents(&[
            (INDEX, "- [A](a.md)"),
            ("docs/a.md", ""),
            ("docs/b.md", ""),
            ("docs/adr/0001-x.md", ""),
        ]);
        assert_eq!(unlisted(&documents).collect::<Vec<_>>(), ["docs/b.md"]);
    }
}
