//! Comparisons as people read them. Pure.

use std::fmt::Write as _;

use ferroplane_api::InterceptComparison;

use crate::plans::drawing::{Paint, draw_change};

/// What a developer's process would do to a composite resource.
pub(crate) fn draw(comparison: &InterceptComparison, paint: Paint) -> String {
    let InterceptComparison { composite, difference, detail, changes, more, recording, .. } = comparison;
    let mut text = match detail.as_str() {
        "" => format!("{composite}: {difference}\n"),
        detail => format!("{composite}: {difference}: {detail}\n"),
    };
    for change in changes.iter().filter_map(|change| serde_json::from_value(change.clone()).ok()) {
        draw_change(&change, paint, &mut text);
    }
    if *more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    if difference != "Equal" && !recording.is_empty() {
        let _ = writeln!(text, "  ferroplane replay show {recording}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comparison_is_drawn_as_a_change() {
        let change = json!({
            "action": "update", "object": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "blog-1"},
            "resource": "a", "fields": [{"path": "data.color", "before": "red", "after": "blue"}],
        });
        let comparison = InterceptComparison {
            number: 1,
            composite: "Site/blog in default".to_owned(),
            difference: "Changed".to_owned(),
            detail: "changes `a`".to_owned(),
            changes: vec![change],
            more: 2,
            recording: "Site/blog -n default --at 2026-01-01T00:00:00Z".to_owned(),
        };
        let expected = "\
Site/blog in default: Changed: changes `a`
  ~ update  ConfigMap/blog-1 in default (resource a)
      data.color: \"red\" → \"blue\"
  and 2 more
  ferroplane replay show Site/blog -n default --at 2026-01-01T00:00:00Z
";
        assert_eq!(draw(&comparison, Paint(false)), expected);
    }
}
