//! Markdown, as far as checks of documents need it: headings, prose, cells of tables, links.
//!
//! Not a parser of Markdown: it reads what our own documents use, line by line.

/// A piece of a document that people read, without code and without the targets of links.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The line that it begins on, from 1.
    pub(crate) line: usize,
    pub(crate) form: Form,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Heading,
    /// A paragraph or an item of a list.
    Prose,
    /// A row of a table.
    Row,
}

/// A link to a file of this repository.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    /// A path from the document. Empty if the link stays in the document.
    pub(crate) path: String,
    /// A heading, as in `page.md#heading`.
    pub(crate) anchor: Option<String>,
}

/// What people read, in order.
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut paragraph: Option<Piece> = None;
    for (line, content) in lines_outside_code(text) {
        let content = content.trim();
        let form = match content.as_bytes() {
            [] | [b'<', ..] => None,
            [b'#', ..] => Some(Form::Heading),
            [b'|', ..] => Some(Form::Row),
            _ => Some(Form::Prose),
        };
        let continues = form == Some(Form::Prose) && !begins_item(content);
        match (&mut paragraph, form) {
            (Some(paragraph), Some(_)) if continues => {
                paragraph.text.push(' ');
                paragraph.text.push_str(content);
                continue;
            }
            _ => pieces.extend(paragraph.take()),
        }
        let Some(form) = form else { continue };
        let text = without_marker(content).to_owned();
        let piece = Piece { line, form, text };
        if form == Form::Prose {
            paragraph = Some(piece);
        } else {
            pieces.push(piece);
        }
    }
    pieces.extend(paragraph);
    for piece in &mut pieces {
        piece.text = without_code_and_targets(&piece.text);
    }
    pieces
}

/// The links to files and headings. Addresses on the web are none.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, content) in lines_outside_code(text) {
        let content = without_code(content);
        for (at, _) in content.match_indices("](") {
            let Some((target, _)) = content[at + 2..].split_once(')') else { continue };
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor.to_owned())),
                None => (target, None),
            };
            links.push(Link { line, path: path.to_owned(), anchor });
        }
    }
    links
}

/// What the headings of a document are called in links, as GitHub and mdBook make it.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let headings = lines_outside_code(text).filter(|(_, line)| line.starts_with('#'));
    let mut anchors: Vec<String> = Vec::new();
    for (_, heading) in headings {
        let base = slug(heading.trim_start_matches('#').trim());
        let earlier = anchors.iter().filter(|known| **known == base).count();
        anchors.push(if earlier == 0 { base } else { format!("{base}-{earlier}") });
    }
    anchors
}

fn slug(heading: &str) -> String {
    let heading = without_targets(heading).to_lowercase();
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Lines with their numbers, without those between fences, and without those of a comment after its first.
fn lines_outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut is_code, mut is_comment) = (false, false);
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let continues_comment = is_comment;
        let begins_comment = !is_code && line.trim_start().starts_with("<!--");
        is_comment = (continues_comment || begins_comment) && !line.contains("-->");
        !is_code && !is_fence && !continues_comment
    })
}

fn begins_item(line: &str) -> bool {
    without_marker(line).len() < line.len()
}

/// Without what makes a line a heading or an item of a list.
fn without_marker(line: &str) -> &str {
    let heading = line.trim_start_matches('#');
    if heading.len() < line.len() {
        return heading.trim_start();
    }
    let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let item = if number.len() < line.len() { number.strip_prefix(". ") } else { line.strip_prefix("- ") };
    item.or_else(|| line.strip_prefix("> ")).unwrap_or(line)
}

fn without_code_and_targets(text: &str) -> String {
    without_targets(&without_code(text))
}

/// `` `code` `` becomes `code`, as one word.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        out.push_str(if index % 2 == 0 { part } else { "code" });
    }
    out
}

/// `[words](target)` becomes `words`.
fn without_targets(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        out.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out.replace(['[', ']'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, Form, String)> {
        pieces(text).into_iter().map(|piece| (piece.line, piece.form, piece.text)).collect()
    }

    #[test]
    fn paragraph_of_several_lines_is_one_piece() {
        let expected = [
            (1, Form::Heading, "Title".to_owned()),
            (3, Form::Prose, "One two.".to_owned()),
            (6, Form::Prose, "item goes on".to_owned()),
            (8, Form::Prose, "second".to_owned()),
        ];
        assert_eq!(read("# Title\n\nOne\ntwo.\n\n- item\n  goes on\n2. second\n"), expected);
    }

    #[test]
    fn code_is_not_read() {
        let text = "Use `nobody here` now.\n\n```sh\nnobody\n```\n\n| `a` | b |\n";
        let expected =
            [(1, Form::Prose, "Use code now.".to_owned()), (7, Form::Row, "| code | b |".to_owned())];
        assert_eq!(read(text), expected);
    }

    #[test]
    fn comment_is_not_read() {
        let prose = |line, text: &str| (line, Form::Prose, text.to_owned());
        let text = "Before.\n\n<!-- first:\none\n# two\n-->\n\nAfter.\n\n<!-- one line -->\nEnd.\n";
        assert_eq!(read(text), [prose(1, "Before."), prose(8, "After."), prose(11, "End.")]);
    }

    #[test]
    fn link_is_read_as_its_words() {
        assert_eq!(read("See [the page](a/b.md#c).")[0].2, "See the page.");
    }

    #[test]
    fn links_to_the_web_are_not_ours() {
        let text = "[a](b.md#c) [d](https://example.org/e.md) [f](#g)\n`[h](i)`\n```\n[j](k)\n```\n";
        let expected = [
            Link { line: 1, path: "b.md".to_owned(), anchor: Some("c".to_owned()) },
            Link { line: 1, path: String::new(), anchor: Some("g".to_owned()) },
        ];
        assert_eq!(links(text), expected);
    }

    #[test]
    fn anchors_are_made_as_github_makes_them() {
        let text = "# `ferroplane up`: a plane\n## What it does, and why?\n## Limits\n## Limits\n";
        assert_eq!(anchors(text), ["ferroplane-up-a-plane", "what-it-does-and-why", "limits", "limits-1"]);
    }
}
