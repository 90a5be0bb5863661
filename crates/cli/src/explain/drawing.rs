//! Prints trees and causes.

use ferroplane_explain::{CauseGroup, Diagnosis, Finding, Node, Overview, Unread};
use ferroplane_offline::table::{TableLayout, print, shortened};
use ferroplane_offline::times;
use jiff::Timestamp;

/// How much of a message is shown unless a user asks for more.
const SHORT: usize = 72;

/// How much to show, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) is_wide: bool,
    pub(crate) is_colourful: bool,
    /// How many columns the terminal has, if it is to fit.
    pub(crate) room: Option<usize>,
    /// The time that ages are relative to.
    pub(crate) now: Timestamp,
}

/// A tree as a table.
pub(crate) fn table(root: &Node, style: Style) -> String {
    let mut rows = vec![headers(style)];
    add_rows(root, "", "", style, &mut rows);
    let layout = TableLayout { gap: 3, room: style.room };
    print(&rows, layout, |cell| painted(cell, style.is_colourful))
}

fn headers(style: Style) -> Vec<String> {
    let all = ["NAME", "RESOURCE", "STEP", "SYNCED", "READY", "AGE", "STATUS"];
    let shown = all.into_iter().filter(|header| style.is_wide || *header != "RESOURCE");
    shown.map(str::to_owned).collect()
}

fn add_rows(node: &Node, branch: &str, below: &str, style: Style, rows: &mut Vec<Vec<String>>) {
    let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let place =
        if node.id.namespace.is_empty() { String::new() } else { format!(" ({})", node.id.namespace) };
    let message = node.message.clone().unwrap_or_default();
    let mut row = vec![format!("{branch}{}/{}{place}", node.id.kind, node.id.name)];
    if style.is_wide {
        row.push(dash(&node.resource));
    }
    let age = node.created_at.as_ref().map(|created_at| times::age_of(created_at, style.now));
    row.extend([dash(&node.step), dash(&node.synced), dash(&node.ready), dash(&age)]);
    row.push(if style.is_wide { message } else { shortened(&message, SHORT) });
    rows.push(row);
    for (place, child) in node.children.iter().enumerate() {
        let is_last = place + 1 == node.children.len();
        let (mark, rest) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        add_rows(child, &format!("{below}{mark}"), &format!("{below}{rest}"), style, rows);
    }
}

fn painted(cell: &str, is_colourful: bool) -> String {
    let colour = match cell {
        "True" => "32",
        "False" => "31",
        "Unknown" => "33",
        _ => return cell.to_owned(),
    };
    if is_colourful { format!("\x1b[{colour}m{cell}\x1b[0m") } else { cell.to_owned() }
}

/// A tree for Graphviz.
pub(crate) fn dot(root: &Node) -> String {
    let mut text = String::from("graph {\n  node [shape=box];\n");
    let mut count = 0;
    add_dots(root, &mut count, &mut text);
    text.push_str("}\n");
    text
}

/// Returns the number of the node.
fn add_dots(node: &Node, count: &mut usize, text: &mut String) -> usize {
    let number = *count;
    *count += 1;
    let (synced, ready) = (node.synced.as_deref().unwrap_or("-"), node.ready.as_deref().unwrap_or("-"));
    let label = format!("{}\n{}\nsynced: {synced}, ready: {ready}", node.id, node.id.api_version);
    let colour = if node.message.is_none() { "black" } else { "red" };
    text.push_str(&format!("  n{number} [label={label:?}, color={colour}];\n"));
    for child in &node.children {
        let child = add_dots(child, count, text);
        text.push_str(&format!("  n{number} -- n{child};\n"));
    }
    number
}

/// What was found out, the cause in the first line.
pub(crate) fn answer(diagnosis: &Diagnosis, looked_at: &str, now: Timestamp, is_colourful: bool) -> String {
    let Some(cause) = &diagnosis.cause else { return without_cause(diagnosis, looked_at) };
    let bold = |text: String| if is_colourful { format!("\x1b[1m{text}\x1b[0m") } else { text };
    let but =
        if diagnosis.is_ready { format!("{} is ready, but: ", diagnosis.object) } else { String::new() };
    let mut text = format!("{but}{}\n", bold(described(cause, now)));
    if diagnosis.chain.len() > 1 || diagnosis.chain.iter().any(|link| link.object != cause.object) {
        text.push_str("\nWhat leads there:\n");
        for (depth, link) in diagnosis.chain.iter().enumerate() {
            let mark = if depth == 0 { String::new() } else { format!("{}└─ ", "   ".repeat(depth - 1)) };
            text.push_str(&format!("  {mark}{}: {}\n", link.object, link.says));
        }
    }
    if !cause.advice.is_empty() {
        text.push_str("\nWhat to do:\n");
        for advice in &cause.advice {
            text.push_str(&format!("  {}\n", indented(advice)));
        }
    }
    add_others(&diagnosis.others, now, &mut text);
    text
}

fn add_others(others: &[Finding], now: Timestamp, text: &mut String) {
    const SHOWN: usize = 5;
    if others.is_empty() {
        return;
    }
    text.push_str("\nWhat else is wrong:\n");
    for cause in others.iter().take(SHOWN) {
        text.push_str(&format!("  {}\n", described(cause, now)));
    }
    if others.len() > SHOWN {
        text.push_str(&format!("  and {} more: ferroplane trace --broken shows all\n", others.len() - SHOWN));
    }
}

/// Everything that is not ready, a paragraph for each cause.
pub(crate) fn overview(overview: &Overview, now: Timestamp, is_colourful: bool) -> String {
    let Overview { ready, not_ready, causes, unread } = overview;
    if *not_ready == 0 {
        return match (*ready, unread.is_empty()) {
            (1, _) => format!("1 object is ready.\n{}", not_read(unread)),
            (_, true) => format!("All {ready} objects are ready.\n"),
            (0, false) => format!("No objects were found.\n{}", not_read(unread)),
            (_, false) => format!("All {ready} objects that could be read are ready.\n{}", not_read(unread)),
        };
    }
    let bold = |text: String| if is_colourful { format!("\x1b[1m{text}\x1b[0m") } else { text };
    let mut text = match (*not_ready, ready + not_ready) {
        (1, 1) => "1 object is not ready.\n".to_owned(),
        (1, all) => format!("1 of {all} objects is not ready.\n"),
        (_, all) => format!("{not_ready} of {all} objects are not ready.\n"),
    };
    for group in causes {
        let line = match &group.cause {
            Some(cause) => described(cause, now),
            None => format!("{}: {}", group.affected[0], group.says),
        };
        text.push_str(&format!("\n{}\n", bold(line)));
        text.push_str(&format!("  {}\n", affected(group)));
        if let Some(advice) = group.cause.as_ref().and_then(|cause| cause.advice.first()) {
            text.push_str(&format!("  What to do: {}\n", indented(advice)));
        }
    }
    text.push_str(&format!(
        "\nMore about one of them: ferroplane why {}\n",
        causes[0].affected[0].arguments()
    ));
    text + &not_read(unread)
}

/// The kinds of which nothing is known.
fn not_read(unread: &[Unread]) -> String {
    if unread.is_empty() {
        return String::new();
    }
    let kinds = unread.iter().map(|Unread { kind, message }| format!("  {kind}: {message}\n"));
    format!("\nCould not read:\n{}", kinds.collect::<String>())
}

/// Advice of several lines: those after the first are YAML to copy.
fn indented(advice: &str) -> String {
    advice.replace('\n', "\n    ")
}

/// What is not ready because of it.
fn affected(group: &CauseGroup) -> String {
    const SHOWN: usize = 3;
    let names: Vec<_> = group.affected.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = group.count - names.len();
    let more = if more > 0 { format!(", and {more} more with the same message") } else { String::new() };
    let count = if group.count == 1 { String::new() } else { format!(" {}", group.count) };
    format!("Affects{count}: {}{more}", names.join(", "))
}

fn without_cause(diagnosis: &Diagnosis, looked_at: &str) -> String {
    let id = &diagnosis.object;
    if diagnosis.is_ready {
        return format!("{id} is ready.\n\nRead {looked_at}.\n");
    }
    let says = diagnosis.chain.first().map(|link| link.says.as_str()).unwrap_or_default();
    format!("{id} {says}: none of the known causes explains why.\n\nRead {looked_at}.\n")
}

/// A cause, and for how long it has been so.
fn described(cause: &Finding, now: Timestamp) -> String {
    match cause.since.parse::<Timestamp>() {
        Ok(since) => format!("{cause} (since {}, for {})", times::local(since), times::age(since, now)),
        Err(_) => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use ferroplane_explain::{Id, Severity};

    use super::*;

    fn node(name: &str, ready: Option<&str>, children: Vec<Node>) -> Node {
        let message = (ready == Some("False")).then(|| format!("{name} is {}", "wrong ".repeat(30)));
        let (ready, step) = (ready.map(str::to_owned), Some("compose".to_owned()));
        let id = Id::new("e.org/v1", "App", "default", name);
        let created_at = ready.is_some().then(|| "2026-01-01T00:00:00Z".to_owned());
        Node { id, synced: None, ready, resource: None, step, created_at, message, children }
    }

    #[test]
    fn objects_are_counted_in_singular_and_plural() {
        let first_line = |ready, not_ready| {
            let id = Id::new("e.org/v1", "App", "default", "a");
            let says = "Ready is False".to_owned();
            let group = CauseGroup {
                severity: Severity::NotReady,
                count: not_ready,
                affected: vec![id],
                says,
                cause: None,
                since: String::new(),
            };
            let counted = Overview { ready, not_ready, causes: vec![group], unread: Vec::new() };
            let text = overview(&counted, Timestamp::UNIX_EPOCH, false);
            text.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(first_line(1, 0), "1 object is ready.");
        assert_eq!(first_line(2, 0), "All 2 objects are ready.");
        assert_eq!(first_line(0, 1), "1 object is not ready.");
        assert_eq!(first_line(13, 1), "1 of 14 objects is not ready.");
        assert_eq!(first_line(5, 4), "4 of 9 objects are not ready.");
    }

    #[test]
    fn kinds_that_could_not_be_read_are_shown() {
        let drawn = |ready, kinds: &[&str]| {
            let unread =
                kinds.iter().map(|kind| Unread { kind: (*kind).to_owned(), message: "no".to_owned() });
            let counted = Overview { ready, not_ready: 0, causes: Vec::new(), unread: unread.collect() };
            overview(&counted, Timestamp::UNIX_EPOCH, false)
        };
        assert_eq!(
            drawn(2, &["apps.demo.io", "xrds.demo.io"]),
            "All 2 objects that could be read are ready.\n\nCould not read:\n  apps.demo.io: no\n  xrds.demo.io: no\n"
        );
        assert_eq!(
            drawn(0, &["apps.demo.io"]),
            "No objects were found.\n\nCould not read:\n  apps.demo.io: no\n"
        );
    }

    #[test]
    fn tree_is_drawn_in_columns() {
        let root = node(
            "a",
            Some("False"),
            vec![
                node("b", None, vec![node("c", Some("True"), Vec::new())]),
                node("d", Some("True"), Vec::new()),
            ],
        );
        let now = "2026-01-04T04:00:00Z".parse().unwrap();
        let drawn = |room| table(&root, Style { is_wide: false, is_colourful: false, room, now });
        let expected = "\
NAME                    STEP      SYNCED   READY   AGE    STATUS
App/a (default)         compose   -        False   3d4h   a is wrong wrong wrong wrong wrong wrong wrong wrong wrong wrong wrong …
├─ App/b (default)      compose   -        -       -
│  └─ App/c (default)   compose   -        True    3d4h
└─ App/d (default)      compose   -        True    3d4h
";
        assert_eq!(drawn(None), expected);
        let narrow = drawn(Some(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.contains("└─ App/d (default)      compose   -        True    3d4h"), "{narrow}");
        let dots = dot(&root);
        assert!(dots.contains("n1 -- n2;") && dots.contains("n0 -- n3;"), "{dots}");
    }
}
