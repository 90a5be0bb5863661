//! What differs between two snapshots, value by value.

use std::collections::BTreeSet;

use serde_json::Value;

use super::snapshot::Snapshot;

/// Longer values are cut off.
const WIDTH: usize = 400;

/// One value that is not the same on both sides.
#[derive(Debug)]
pub(super) struct Difference<'a> {
    pub(super) title: &'a str,
    /// Kind and name.
    pub(super) object: &'a str,
    /// Empty if one side has no such object.
    pub(super) path: String,
    pub(super) theirs: Option<&'a Value>,
    pub(super) ours: Option<&'a Value>,
}

impl Difference<'_> {
    pub(super) fn kind(&self) -> &str {
        self.object.split(' ').next().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.object.split(' ').nth(1).unwrap_or_default()
    }

    /// Whether only we have it.
    pub(super) fn is_ours_alone(&self) -> bool {
        self.theirs.is_none()
    }

    /// The same difference, seen from the other side.
    pub(super) fn reversed(&self) -> Self {
        let Self { title, object, theirs, ours, .. } = *self;
        Self { title, object, path: self.path.clone(), theirs: ours, ours: theirs }
    }

    /// Both values, one below the other.
    pub(super) fn describe(&self) -> String {
        let Self { title, object, path, .. } = self;
        let (theirs, ours) = (show(self.theirs), show(self.ours));
        format!("[{title}]\n{object} {path}\n  - {theirs}\n  + {ours}")
    }
}

fn show(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    if text.chars().count() <= WIDTH {
        return text;
    }
    format!("{}…", text.chars().take(WIDTH).collect::<String>())
}

/// All values in which two snapshots differ.
pub(super) fn differences<'a>(
    title: &'a str,
    theirs: &'a Snapshot,
    ours: &'a Snapshot,
) -> Vec<Difference<'a>> {
    let mut found = Vec::new();
    let objects: BTreeSet<&'a String> = theirs.keys().chain(ours.keys()).collect();
    for object in objects {
        let both = (theirs.get(object), ours.get(object));
        compare(title, object, String::new(), both, &mut found);
    }
    found
}

fn compare<'a>(
    title: &'a str,
    object: &'a str,
    path: String,
    (theirs, ours): (Option<&'a Value>, Option<&'a Value>),
    found: &mut Vec<Difference<'a>>,
) {
    match (theirs, ours) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let keys: BTreeSet<&'a String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let both = (left.get(key), right.get(key));
                compare(title, object, format!("{path}/{key}"), both, found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
            for (place, (left, right)) in left.iter().zip(right).enumerate() {
                compare(title, object, format!("{path}/{place}"), (Some(left), Some(right)), found);
            }
        }
        _ if theirs != ours => found.push(Difference { title, object, path, theirs, ours }),
        _ => {}
    }
}

/// How many values there are in one.
pub(super) fn count_values(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.values().map(count_values).sum(),
        Value::Array(items) => items.iter().map(count_values).sum(),
        _ => 1,
    }
}

#[test]
fn difference_names_object_and_field() {
    let side = |image: &str| {
        let deployment =
            serde_json::json!({"spec": {"containers": [{"image": image, "name": "package-runtime"}]}});
        Snapshot::from_iter([("Deployment own-1".to_owned(), deployment)])
    };
    let (theirs, ours) = (side("one"), side("two"));
    assert!(differences("a title", &theirs, &theirs).is_empty());
    let found = differences("a title", &theirs, &ours);
    let [difference] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((difference.kind(), difference.name()), ("Deployment", "own-1"));
    assert_eq!(
        difference.describe(),
        "[a title]\nDeployment own-1 /spec/containers/0/image\n  - \"one\"\n  + \"two\""
    );
    let nothing = Snapshot::new();
    assert!(differences("a title", &nothing, &ours)[0].is_ours_alone());
}
