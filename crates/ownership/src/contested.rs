//! Fields that another client took from a manager that applies them, told from the object alone.
//!
//! A manager that applies a field owns it, until another one gives it another value. So what a manager wants, does not own and finds
//! otherwise was taken from it, and the object says by whom; unless it was removed, which leaves no trace.
//!
//! Our own design: a controller tells from the object alone who took a field from it; Kubernetes has nothing like
//! it.

use ferroplane_golang::json::JsonObject;
use serde_json::Value;

use super::holds::{owned_by, same};
use super::item_index::ItemIndex;

/// Nothing needs to hear of more fields of one object.
const MOST: usize = 16;

/// A field that was taken from a manager.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contested {
    /// Such as `.spec.ports[port=80].name`.
    pub path: String,
    /// The manager that owns it now. None if it was removed.
    pub manager: Option<String>,
}

/// What the manager applied before, wants to apply again, and has lost meanwhile. In the order of their paths.
pub fn contested(configuration: &JsonObject, live: &JsonObject, manager: &str) -> Vec<Contested> {
    let Some(ours) = owned_by(live, manager, "") else { return Vec::new() };
    let mut found = Search { found: Vec::new() };
    for (owner, fields) in others(live, manager) {
        found.taken(fields, configuration, live, Some(ours), &mut String::new(), owner);
    }
    // Last, so that fields with a culprit come first where there are more than can be shown.
    found.removed(configuration, live, Some(ours), &mut String::new());
    let mut found = found.found;
    found.sort_unstable();
    found.dedup();
    found
}

/// Everybody else who owns fields of the object itself.
fn others<'l>(live: &'l JsonObject, manager: &'l str) -> impl Iterator<Item = (&'l str, &'l JsonObject)> {
    let entries = live.get("metadata").and_then(|metadata| metadata.get("managedFields")?.as_array());
    entries.into_iter().flatten().filter_map(move |entry| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        // A user who writes through a subresource, such as the status, does not compete for what is applied to
        // the object.
        let is_other = text("manager") != manager && text("subresource").is_empty();
        is_other.then_some((entry.get("manager")?.as_str()?, entry.get("fieldsV1")?.as_object()?))
    })
}

struct Search {
    found: Vec<Contested>,
}

impl Search {
    fn taken(
        &mut self,
        fields: &JsonObject,
        wanted: &JsonObject,
        live: &JsonObject,
        ours: Option<&JsonObject>,
        path: &mut String,
        owner: &str,
    ) {
        for (key, theirs) in fields {
            let Some(name) = key.strip_prefix("f:") else { continue };
            let (Some(wanted), Some(live)) = (wanted.get(name), live.get(name)) else { continue };
            let ours = ours.and_then(|ours| ours.get(key)?.as_object());
            let length = path.len();
            path.push('.');
            path.push_str(name);
            self.taken_value(theirs, wanted, live, ours, path, owner);
            path.truncate(length);
        }
    }

    fn taken_value(
        &mut self,
        theirs: &Value,
        wanted: &Value,
        live: &Value,
        ours: Option<&JsonObject>,
        path: &mut String,
        owner: &str,
    ) {
        let Some(theirs) = theirs.as_object() else { return };
        match (wanted, live) {
            _ if theirs.keys().all(|key| key == ".") => {
                // Co-owners with the same value do not fight: applying an equal value keeps both.
                if ours.is_none() && !same(wanted, live) {
                    self.add(path, Some(owner));
                }
            }
            (Value::Object(wanted), Value::Object(live)) => {
                self.taken(theirs, wanted, live, ours, path, owner);
            }
            (Value::Array(wanted), Value::Array(live)) => {
                let (wanted_items, live_items) = (ItemIndex::new(wanted), ItemIndex::new(live));
                for (key, theirs) in theirs {
                    let (Some(wanted_at), Some(live_at)) = (wanted_items.find(key), live_items.find(key))
                    else {
                        continue;
                    };
                    let ours = ours.and_then(|ours| ours.get(key)?.as_object());
                    let length = path.len();
                    path.push_str(&index(key));
                    self.taken_value(theirs, &wanted[wanted_at], &live[live_at], ours, path, owner);
                    path.truncate(length);
                }
            }
            // The types differ, so that it was certainly changed.
            _ => self.add(path, Some(owner)),
        }
    }

    /// A desired field that is missing and not owned: it was removed, or never existed.
    fn removed(
        &mut self,
        wanted: &JsonObject,
        live: &JsonObject,
        ours: Option<&JsonObject>,
        path: &mut String,
    ) {
        for (name, wanted) in wanted {
            let ours = ours.and_then(|ours| ours.get(&format!("f:{name}"))?.as_object());
            let length = path.len();
            path.push('.');
            path.push_str(name);
            // Lists are not looked into: an item that is gone has left no key in the managed fields to look
            // for it by.
            match (wanted, live.get(name)) {
                (Value::Object(wanted), Some(Value::Object(live))) => self.removed(wanted, live, ours, path),
                (_, None) if ours.is_none() => self.add(path, None),
                _ => {}
            }
            path.truncate(length);
        }
    }

    fn add(&mut self, path: &str, manager: Option<&str>) {
        // Stops collecting, not only showing: an object with thousands of entries must not cost time at every
        // reconcile.
        if self.found.len() < MOST {
            self.found.push(Contested { path: path.to_owned(), manager: manager.map(str::to_owned) });
        }
    }
}

/// `k:{"name":"a"}` → `[name="a"]`.
fn index(key: &str) -> String {
    let keys: Option<JsonObject> = key.strip_prefix("k:").and_then(|keys| serde_json::from_str(keys).ok());
    let Some(keys) = keys else { return "[]".to_owned() };
    let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("[{}]", keys.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What `us` has lost of what it wants, as `path: manager`.
    fn check(wanted: &Value, live: &Value, ours: &Value, theirs: &Value) -> Vec<String> {
        let mut live = live.clone();
        live["metadata"] = json!({"name": "a", "managedFields": [
            {"manager": "us", "operation": "Apply", "apiVersion": "v1", "fieldsV1": ours},
            {"manager": "them", "operation": "Update", "apiVersion": "v1", "fieldsV1": theirs},
            {"manager": "them", "operation": "Update", "apiVersion": "v1", "subresource": "status",
                "fieldsV1": {"f:spec": {"f:never": {}}}},
        ]});
        let found = contested(wanted.as_object().unwrap(), live.as_object().unwrap(), "us");
        let text = |found: Contested| format!("{}: {}", found.path, found.manager.unwrap_or_default());
        found.into_iter().map(text).collect()
    }

    #[test]
    fn field_that_somebody_else_changed_is_named_with_who_has_it() {
        let wanted = json!({"spec": {"color": "red", "size": 1, "list": [1]}});
        let live = json!({"spec": {"color": "blue", "size": 1, "list": [2]}});
        let theirs = json!({"f:spec": {"f:color": {}, "f:list": {}, "f:other": {}}});
        let ours = json!({"f:spec": {"f:size": {}}});
        assert_eq!(check(&wanted, &live, &ours, &theirs), [".spec.color: them", ".spec.list: them"]);
    }

    #[test]
    fn field_in_an_item_of_a_list_is_named_by_the_keys_of_the_item() {
        let wanted = json!({"ports": [{"port": 80, "name": "web"}]});
        let live = json!({"ports": [{"port": 9}, {"port": 80, "name": "theirs"}]});
        let theirs = json!({"f:ports": {"k:{\"port\":80}": {"f:name": {}}}});
        let ours = json!({"f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}}});
        assert_eq!(check(&wanted, &live, &ours, &theirs), [".ports[port=80].name: them"]);
    }

    #[test]
    fn removed_field_is_named_without_anybody() {
        let wanted = json!({"spec": {"color": "red"}, "data": {"a": "1"}});
        let live = json!({"spec": {}, "data": {"a": "1"}});
        let ours = json!({"f:data": {"f:a": {}}});
        assert_eq!(check(&wanted, &live, &ours, &json!({})), [".spec.color: "]);
    }

    #[test]
    fn what_we_change_ourselves_or_share_or_do_not_want_is_not_contested() {
        let wanted = json!({"spec": {"color": "red", "shared": 1}});
        let live = json!({"spec": {"color": "blue", "shared": 1, "more": 2}});
        let theirs = json!({"f:spec": {"f:shared": {}, "f:more": {}}});
        let ours = json!({"f:spec": {"f:color": {}, "f:shared": {}}});
        assert_eq!(check(&wanted, &live, &ours, &theirs), Vec::<String>::new());
    }

    #[test]
    fn who_never_applied_has_lost_nothing() {
        let live = json!({"spec": {"color": "blue"}});
        let wanted = json!({"spec": {"color": "red"}});
        assert_eq!(contested(wanted.as_object().unwrap(), live.as_object().unwrap(), "us"), []);
    }

    #[test]
    fn no_more_fields_are_named_than_anybody_reads() {
        let fields: JsonObject = (0..100).map(|index| (format!("f{index}"), json!(1))).collect();
        assert_eq!(check(&json!({"spec": fields}), &json!({"spec": {}}), &json!({}), &json!({})).len(), MOST);
    }
}
