//! The objects and events that were read from an API server.

use std::collections::BTreeMap;

use ferroplane_api::{Object, unsupported};

use crate::id::Id;
use crate::known_functions::KnownFunction;
use crate::look::{definitions, text_at};

/// The state of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Here(Box<Object>),
    /// There is no object of this name.
    Missing,
    /// The API server has no such kind.
    UnknownKind,
    /// It could not be read, and why.
    Unreadable(String),
}

/// Objects of a kind, everywhere or in a namespace, with a label if one is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct List {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub label: Option<(String, String)>,
}

/// Something to be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    Object(Id),
    List(List),
    /// What happened to an object, which has this uid.
    Events(Id, String),
}

/// What runs beside an API server: advice has to fit it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Home {
    /// A cluster: functions and providers are pods.
    #[default]
    Cluster,
    /// The API server of `ferroplane up`: it runs no pods, and no controllers of other kinds.
    Embedded,
}

/// What was read from an API server.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    objects: BTreeMap<Id, State>,
    lists: BTreeMap<List, Vec<Id>>,
    events: BTreeMap<Id, Vec<Object>>,
    functions: Vec<KnownFunction>,
    home: Home,
}

impl Home {
    /// Whether nothing acts on a kind here, and its objects cannot say so. On a cluster, another program may act on it unseen.
    pub fn leaves_alone(self, group: &str, kind: &str) -> bool {
        // `up` installs packages, and runs ActionSets.
        let may_act = self != Self::Embedded || ["ImageConfig", "ActionSet"].contains(&kind);
        !may_act && unsupported(group, kind).is_some_and(|kind| kind.conditions.is_empty())
    }
}

impl Snapshot {
    /// Nothing yet, for those who know these functions.
    pub fn knowing(functions: Vec<KnownFunction>) -> Self {
        Self { functions, ..Self::default() }
    }

    /// The same, of an API server in this home.
    #[must_use]
    pub fn at(self, home: Home) -> Self {
        Self { home, ..self }
    }

    pub(crate) fn home(&self) -> Home {
        self.home
    }

    pub(crate) fn known_functions(&self) -> &[KnownFunction] {
        &self.functions
    }

    /// Remember what became of an object.
    pub fn put(&mut self, id: Id, state: State) {
        self.objects.insert(id, state);
    }

    /// Remember the objects of a list.
    pub fn put_list(&mut self, list: List, objects: Vec<Object>) {
        let mut ids = Vec::with_capacity(objects.len());
        for mut object in objects {
            // Items of lists do not say what they are.
            object.entry("apiVersion").or_insert_with(|| list.api_version.as_str().into());
            object.entry("kind").or_insert_with(|| list.kind.as_str().into());
            let id = Id::of(&object);
            self.objects.insert(id.clone(), State::Here(Box::new(object)));
            ids.push(id);
        }
        self.lists.insert(list, ids);
    }

    /// Remember what happened to an object.
    pub fn put_events(&mut self, id: Id, mut events: Vec<Object>) {
        events.sort_by(|one, other| time_of(other).cmp(time_of(one)));
        self.events.insert(id, events);
    }

    pub(crate) fn has(&self, want: &Want) -> bool {
        match want {
            Want::Object(id) => self.objects.contains_key(id),
            Want::List(list) => self.lists.contains_key(list),
            Want::Events(id, _) => self.events.contains_key(id),
        }
    }

    pub fn state(&self, id: &Id) -> Option<&State> {
        self.objects.get(id)
    }

    pub fn object(&self, id: &Id) -> Option<&Object> {
        match self.objects.get(id)? {
            State::Here(object) => Some(object),
            _ => None,
        }
    }

    pub(crate) fn list<'a>(&'a self, list: &List) -> impl Iterator<Item = &'a Object> + use<'a> {
        self.lists.get(list).into_iter().flatten().filter_map(|id| self.object(id))
    }

    /// All definitions of composite resources that were read.
    pub fn definitions(&self) -> impl Iterator<Item = &Object> {
        self.list(&definitions())
    }

    /// What happened to an object, the latest first.
    pub(crate) fn events(&self, id: &Id) -> impl Iterator<Item = &Object> {
        self.events.get(id).into_iter().flatten()
    }

    /// How many objects were read.
    pub fn count(&self) -> usize {
        self.objects.values().filter(|state| matches!(state, State::Here(_))).count()
    }

    /// How many events were read.
    pub fn event_count(&self) -> usize {
        self.events.values().map(Vec::len).sum()
    }
}

/// When an event was last seen.
pub(crate) fn time_of(event: &Object) -> &str {
    let text =
        |field: &str| event.get(field).and_then(|value| value.as_str()).filter(|time| !time.is_empty());
    let created = || text_at(event, &["metadata", "creationTimestamp"]);
    text("lastTimestamp").or_else(|| text("eventTime")).unwrap_or_else(created)
}
