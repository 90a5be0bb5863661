//! Decides whose ownership of fields has to end before an object is applied.
//!
//! Before Crossplane applied, it updated. What it wrote then it owns still, under the name of its program, so that a field
//! that is no longer wanted would stay for ever: who applies gives up only its own. What others own is theirs.

use ferroplane_api::Object;
use serde_json::{Value, json};

/// Who owned what Crossplane wrote before it applied.
const FORMER: &str = "crossplane";
/// Who owns, after somebody applies for the first time, what nobody did.
const NOBODY: &str = "before-first-apply";

/// The managed fields an object should have before it is applied by a manager that is recognised. None if they may stay as
/// they are.
pub fn managers_to_keep(live: &Object, is_ours: impl Fn(&str) -> bool) -> Option<Value> {
    let managers = live.get("metadata")?.get("managedFields")?.as_array()?;
    let text =
        |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_applied = managers.iter().any(|entry| is_ours(&text(entry, "manager")));
    // Once it has been applied, what it was before it was is nobody's.
    let former = if is_applied { NOBODY } else { FORMER };
    // What was applied is given up by applying without it; only updates leave fields that nobody would ever
    // remove.
    let goes = |entry: &Value| text(entry, "manager") == former && text(entry, "operation") != "Apply";
    if !managers.iter().any(goes) {
        return None;
    }
    let kept: Vec<_> = managers.iter().filter(|entry| !goes(entry)).cloned().collect();
    // An empty list would mean that nothing is said about it.
    Some(if kept.is_empty() { json!([{}]) } else { Value::Array(kept) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": {"f:data": {}}})
    }

    fn check(managers: &[Value]) -> Option<Value> {
        let live = json!({"metadata": {"name": "a", "managedFields": managers}});
        managers_to_keep(live.as_object().unwrap(), |manager| manager.starts_with("ours/"))
    }

    #[test]
    fn what_was_updated_before_it_was_applied_loses_its_owner_and_others_keep_theirs() {
        let provider = entry("provider", "Update");
        assert_eq!(check(&[entry("crossplane", "Update"), provider.clone()]), Some(json!([provider])));
        assert_eq!(check(&[entry("crossplane", "Update")]), Some(json!([{}])));
    }

    #[test]
    fn what_nobody_owned_before_the_first_apply_is_nobodys_after_it() {
        let ours = entry("ours/1", "Apply");
        assert_eq!(check(&[entry("before-first-apply", "Update"), ours.clone()]), Some(json!([ours])));
    }

    #[test]
    fn what_is_applied_already_and_what_others_made_is_left_alone() {
        assert_eq!(check(&[]), None);
        assert_eq!(check(&[entry("kubectl", "Update")]), None);
        assert_eq!(check(&[entry("before-first-apply", "Update")]), None);
        assert_eq!(check(&[entry("ours/1", "Apply"), entry("crossplane", "Update")]), None);
        assert_eq!(check(&[entry("crossplane", "Apply")]), None);
    }
}
