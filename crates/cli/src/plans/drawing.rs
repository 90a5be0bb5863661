//! Prints plans: destructive changes first, and composite resources with the same changes together. Pure.

use std::fmt::Write as _;

use ferroplane_engine::changes::{
    Action, Change, ChangeGroup, ChangePlan, CompositePlan, FieldChange, ObjectName, Verdict, group_alike,
};

/// How many names of a group are listed.
const NAMES: usize = 3;
/// How many fields of an object are listed.
const FIELDS: usize = 12;
/// How long a value may be.
const LONGEST_VALUE: usize = 60;
/// How much of a long value is shown before the place where it differs.
const BEFORE_DIFFERENCE: usize = 20;

/// How text is coloured, if it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    fn of(self, action: Action, text: &str) -> String {
        let colour = match action {
            Action::Delete | Action::Replace => "31",
            Action::Create => "32",
            Action::Update => "33",
        };
        if self.0 { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// The whole plan.
pub(crate) fn draw(plan: &ChangePlan, paint: Paint) -> String {
    let mut text = String::new();
    if !plan.proposed.is_empty() {
        text.push_str("Files:\n");
        plan.proposed.iter().for_each(|change| draw_change(change, paint, &mut text));
        text.push('\n');
    }
    for group in group_alike(&plan.composites) {
        // Whatever stays as it is is counted below.
        if group.example.verdict != Verdict::Unchanged {
            draw_group(&group, paint, &mut text);
        }
    }
    text.push_str(&summary(plan));
    text
}

fn draw_group(group: &ChangeGroup<'_>, paint: Paint, text: &mut String) {
    let ChangeGroup { example, members } = group;
    let _ = writeln!(text, "{}: {}", names(members), verdict(example));
    example.changes.iter().for_each(|change| draw_change(change, paint, text));
    if members.len() > 1 && !example.changes.is_empty() {
        let _ =
            writeln!(text, "  (values of {}; the others change in the same fields)", example.composite.name);
    }
    if example.hidden > 0 {
        let _ =
            writeln!(text, "  and {} of objects that you may not read", counted(example.hidden, "change"));
    }
    text.push('\n');
}

/// The members of a group, as far as they fit.
fn names(members: &[&ObjectName]) -> String {
    let listed: Vec<_> = members.iter().take(NAMES).map(ToString::to_string).collect();
    match members.len() - listed.len() {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

fn verdict(plan: &CompositePlan) -> String {
    let revision = plan.revision.as_ref().map(|revision| format!(" with {revision}")).unwrap_or_default();
    match &plan.verdict {
        Verdict::Unchanged => "unchanged".to_owned(),
        Verdict::Changed => format!("changes{revision}"),
        Verdict::Fails { reason } => format!("would fail{revision}: {reason}"),
        Verdict::Refused { reason } => format!("cannot be planned: {reason}"),
        Verdict::Skipped { reason } => format!("skipped: {reason}"),
    }
}

pub(crate) fn draw_change(change: &Change, paint: Paint, text: &mut String) {
    let (sign, verb) = match change.action {
        Action::Delete => ("-", "delete"),
        Action::Replace => ("±", "replace"),
        Action::Create => ("+", "create"),
        Action::Update => ("~", "update"),
    };
    let resource = match change.resource.as_str() {
        "" => String::new(),
        resource => format!(" (resource {resource})"),
    };
    let replaced = change.replaces.as_ref().filter(|replaced| **replaced != change.object);
    let replaced = replaced.map(|replaced| format!(" in place of {replaced}")).unwrap_or_default();
    let line = format!("{sign} {verb:<7} {}{resource}{replaced}", change.object);
    let _ = writeln!(text, "  {}", paint.of(change.action, &line));
    if let Some(refused) = &change.refused {
        let _ = writeln!(text, "      the API server would refuse it: {refused}");
    }
    // What is created is new as a whole; -o yaml has its fields.
    if change.action == Action::Update {
        draw_fields(&change.fields, text);
    }
}

fn draw_fields(fields: &[FieldChange], text: &mut String) {
    // Creations and deletions are printed already.
    let fields: Vec<_> = fields.iter().filter(|field| !field.is_reference()).collect();
    for FieldChange { path, before, after } in fields.iter().take(FIELDS) {
        let _ = match (before, after) {
            (Some(before), Some(after)) => {
                let (before, after) = (before.to_string(), after.to_string());
                let skipped = alike(&before, &after);
                writeln!(text, "      {path}: {} → {}", short(&before, skipped), short(&after, skipped))
            }
            (None, Some(after)) => writeln!(text, "      {path}: added {}", short(&after.to_string(), 0)),
            (Some(before), None) => {
                writeln!(text, "      {path}: removed {}", short(&before.to_string(), 0))
            }
            (None, None) => Ok(()),
        };
    }
    if fields.len() > FIELDS {
        let _ = writeln!(text, "      and {} (see -o yaml)", counted(fields.len() - FIELDS, "more field"));
    }
}

/// How many characters at the start of two values can be left out, so that their difference is shown.
fn alike(before: &str, after: &str) -> usize {
    let alike = before.chars().zip(after.chars()).take_while(|(one, other)| one == other).count();
    // A difference that is seen anyway needs no gap before it.
    if alike < LONGEST_VALUE - BEFORE_DIFFERENCE { 0 } else { alike - BEFORE_DIFFERENCE }
}

/// A value from its character `skipped` on, as far as it fits.
fn short(value: &str, skipped: usize) -> String {
    let gap = if skipped > 0 { "…" } else { "" };
    let rest: String = value.chars().skip(skipped).collect();
    if rest.chars().count() <= LONGEST_VALUE {
        return format!("{gap}{rest}");
    }
    let start: String = rest.chars().take(LONGEST_VALUE - 1).collect();
    format!("{gap}{start}…")
}

/// The plan in numbers.
fn summary(plan: &ChangePlan) -> String {
    if !plan.has_differences() {
        return format!("No differences. {} checked.\n", counted(plan.considered, "composite resource"));
    }
    let verdicts = |is_it: fn(&Verdict) -> bool| {
        plan.composites.iter().filter(|composite| is_it(&composite.verdict)).count()
    };
    let actions = |wanted: Action| {
        let composed = plan.composites.iter().flat_map(|composite| &composite.changes);
        composed.filter(|change| change.action == wanted).count()
    };
    let changed = verdicts(|verdict| matches!(verdict, Verdict::Changed));
    let mut text = format!(
        "{changed} of {} {}: {} deleted, {} replaced, {} created, {} updated.\n",
        counted(plan.considered, "composite resource"),
        if changed == 1 { "changes" } else { "change" },
        actions(Action::Delete),
        actions(Action::Replace),
        actions(Action::Create),
        actions(Action::Update),
    );
    for (number, words) in [
        (verdicts(|verdict| matches!(verdict, Verdict::Fails { .. })), "would fail"),
        (verdicts(|verdict| matches!(verdict, Verdict::Refused { .. })), "cannot be planned"),
        (verdicts(|verdict| matches!(verdict, Verdict::Skipped { .. })), "skipped"),
        (plan.hidden, "reached that you may not read"),
    ] {
        if number > 0 {
            let _ = writeln!(text, "{number} {words}.");
        }
    }
    text
}

fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan() -> ChangePlan {
        let site = |name: &str, color: &str| {
            json!({
                "composite": {"apiVersion": "example.org/v1", "kind": "Site", "namespace": "default", "name": name},
                "verdict": "changed", "revision": "sites-1",
                "changes": [{
                    "action": "update", "resource": "settings",
                    "object": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": format!("{name}-1")},
                    "fields": [{"path": "data.color", "before": "red", "after": color}],
                }],
            })
        };
        let deleting = json!({
            "composite": {"apiVersion": "example.org/v1", "kind": "Site", "name": "old"}, "verdict": "changed",
            "changes": [{
                "action": "delete", "resource": "db", "object": {"apiVersion": "v1", "kind": "Database", "name": "db"},
            }],
        });
        let refused = json!({
            "composite": {"apiVersion": "example.org/v1", "kind": "Site", "name": "odd"}, "verdict": "refused",
            "reason": "step `a` returns different results for the same request",
        });
        let composites = json!([site("a", "blue"), site("b", "green"), deleting, refused]);
        let plan = json!({"composites": composites, "considered": 10, "basis": ""});
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn deletions_come_first_and_what_changes_alike_is_told_once() {
        let text = draw(&plan(), Paint(false));
        let expected = "Site/old: changes
  - delete  Database/db (resource db)

Site/odd: cannot be planned: step `a` returns different results for the same request

Site/a in default, Site/b in default: changes with sites-1
  ~ update  ConfigMap/a-1 in default (resource settings)
      data.color: \"red\" → \"blue\"
  (values of a; the others change in the same fields)

3 of 10 composite resources change: 1 deleted, 0 replaced, 0 created, 2 updated.
1 cannot be planned.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn one_that_changes_is_counted_in_the_singular() {
        let counts = |considered: usize| {
            let composites = vec![plan().composites.remove(2)];
            let plan = ChangePlan { composites, considered, ..ChangePlan::default() };
            draw(&plan, Paint(false)).lines().last().unwrap_or_default().to_owned()
        };
        let rest = "1 deleted, 0 replaced, 0 created, 0 updated.";
        assert_eq!(counts(1), format!("1 of 1 composite resource changes: {rest}"));
        assert_eq!(counts(2), format!("1 of 2 composite resources changes: {rest}"));
    }

    #[test]
    fn long_values_are_shown_from_where_they_differ() {
        let lines = |image: &str| format!("{}\nimage: {image}\n{}", "a: 1\n".repeat(30), "b: 2\n".repeat(30));
        let field = |before: &str, after: &str| FieldChange {
            path: "text".to_owned(),
            before: Some(json!(before)),
            after: Some(json!(after)),
        };
        let mut text = String::new();
        draw_fields(&[field(&lines("nginx:1.29"), &lines("nginx:1.30"))], &mut text);
        let (before, after) = text.trim().split_once(" → ").unwrap();
        assert!(before.starts_with("text: …") && before.contains("nginx:1.29"), "{before}");
        assert!(after.starts_with('…') && after.contains("nginx:1.30"), "{after}");
        // A difference near the start is shown with the start.
        let mut text = String::new();
        draw_fields(&[field(&format!("red {}", "x".repeat(80)), "blue")], &mut text);
        assert_eq!(text, format!("      text: \"red {}… → \"blue\"\n", "x".repeat(54)));
    }

    #[test]
    fn nothing_to_tell_is_one_line() {
        let plan = ChangePlan { considered: 1, ..ChangePlan::default() };
        assert_eq!(draw(&plan, Paint(true)), "No differences. 1 composite resource checked.\n");
    }
}
