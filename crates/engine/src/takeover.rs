//! Decides which field managers lose ownership before an object is applied.
//!
//! Before Crossplane used server-side apply, it updated objects. It still owns those fields under the name of its program, and an apply
//! removes only fields of its own manager, so that they would stay for ever. Fields of other managers stay theirs.

use ferroplane_api::Object;
use serde_json::{Value, json};

/// The field manager of Crossplane's updates before it applied.
const FORMER: &str = "crossplane";
/// The field manager that an API server gives to fields without one, at the first apply.
const NOBODY: &str = "before-first-apply";

/// The managed fields that an object should have before one of our managers applies it. None if nothing is to change.
pub fn managers_to_keep(live: &Object, is_ours: impl Fn(&str) -> bool) -> Option<Value> {
    let managers = live.get("metadata")?.get("managedFields")?.as_array()?;
    let text =
        |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_applied = managers.iter().any(|entry| is_ours(&text(entry, "manager")));
    // After the first apply, the fields from before it have no user any more.
    let former = if is_applied { NOBODY } else { FORMER };
    // An apply removes its own fields by leaving them out; only fields of updates would never be removed.
    let goes = |entry: &Value| text(entry, "manager") == former && text(entry, "operation") != "Apply";
    if !managers.iter().any(goes) {
        return None;
    }
    let kept: Vec<_> = managers.iter().filter(|entry| !goes(entry)).cloned().collect();
    // An empty list would mean that managed fields are not set at all.
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
