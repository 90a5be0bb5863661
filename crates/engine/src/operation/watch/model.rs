//! The policies of a `WatchOperation` against everything that can go wrong: changes in any order, events that come twice or never, writes
//! whose answer is lost, processes that end before or after any write, and users who suspend it or choose another policy at any time. Nothing
//! is lost, and nothing is done twice.

use std::collections::{BTreeMap, BTreeSet};

use ferroplane_api::{Object, meta};
use serde_json::{Value, json};

use super::{
    Mark, Trigger, TriggerNote, WatchDecision, WatchSpec, WatchState, longer_watch_operation_name,
    watch_operation_name,
};
use crate::operation::ConcurrencyPolicy::{self, Allow, Forbid, Replace};
use crate::operation::attempt::{Standing, standing};
use crate::operation::history::too_many;
use crate::operation::random::Random;

const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
const NAMES: u64 = 4;
const SEEDS: u64 = 300;
const STEPS: u64 = 120;

/// The end of the process.
struct Crash;

/// What an API server has, and one process that works on it.
struct WatchModel {
    random: Random,
    spec: WatchSpec,
    bound: usize,
    now: i64,
    revision: u64,
    objects: BTreeMap<String, Object>,
    operations: BTreeMap<String, Object>,
    status: Object,
    /// What the process has heard of, and what it knows.
    cache: BTreeMap<String, Object>,
    state: Option<WatchState>,
    /// Every operation that was ever made, by the key of its object.
    log: BTreeMap<String, Vec<TriggerNote>>,
    /// How many writes the process survives.
    writes_left: u64,
}

impl WatchModel {
    fn new(seed: u64, policy: &str, with_fields: bool, bound: usize) -> Self {
        let fields = if with_fields { json!([{"fieldPath": "data.watched"}]) } else { json!([]) };
        let watch = json!({"spec": {
            "watch": {"apiVersion": "v1", "kind": "ConfigMap", "fields": fields},
            "concurrencyPolicy": policy, "successfulHistoryLimit": seed % 3, "failedHistoryLimit": 1,
        }});
        Self {
            random: Random::new(seed),
            spec: WatchSpec::of(watch.as_object().unwrap()).unwrap(),
            bound,
            now: 0,
            revision: 0,
            objects: BTreeMap::new(),
            operations: BTreeMap::new(),
            status: Object::new(),
            cache: BTreeMap::new(),
            state: None,
            log: BTreeMap::new(),
            writes_left: u64::MAX,
        }
    }

    fn step(&mut self) {
        self.now += i64::try_from(self.random.below(700)).unwrap();
        match self.random.below(13) {
            0..=3 => self.change(),
            4 | 5 => self.hear(),
            6 => self.list(),
            7 | 8 => self.finish_one(),
            9 => self.state = None,
            // Also while there is no process.
            10 => self.edit(),
            _ => {
                self.writes_left = if self.random.is_one_of(3) { self.random.below(4) } else { u64::MAX };
                if self.reconcile().is_err() {
                    self.state = None;
                }
            }
        }
    }

    /// A user creates, changes or deletes an object.
    fn change(&mut self) {
        self.revision += 1;
        let (name, revision) = (self.random.below(NAMES).to_string(), self.revision.to_string());
        let value = self.random.below(3);
        let field = if self.random.is_one_of(3) { "other" } else { "watched" };
        match self.objects.get_mut(&format!("n/{name}")) {
            Some(_) if self.random.is_one_of(5) => {
                self.objects.remove(&format!("n/{name}"));
            }
            Some(object) => {
                object["data"][field] = value.into();
                meta::set_field(object, "resourceVersion", &revision);
            }
            None => {
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {field: value}, "metadata": {
                    "namespace": "n", "name": name, "uid": revision, "resourceVersion": revision,
                }});
                self.objects.insert(format!("n/{name}"), object.as_object().unwrap().clone());
            }
        }
    }

    /// A user suspends or resumes the `WatchOperation`, or chooses another policy.
    fn edit(&mut self) {
        const CHOICES: [ConcurrencyPolicy; 3] = [Allow, Forbid, Replace];
        if self.random.is_one_of(2) {
            self.spec.is_suspended = !self.spec.is_suspended;
        } else {
            self.spec.policy = CHOICES[usize::try_from(self.random.below(3)).unwrap()];
        }
    }

    /// The process receives a watch event of one object, again or for the first time.
    fn hear(&mut self) {
        // What the mark covers by version alone must have been heard of in the order of versions, as watches tell it.
        if self.bound < super::MARK_BOUND {
            return self.list();
        }
        let key = format!("n/{}", self.random.below(NAMES));
        let Some(state) = &mut self.state else { return };
        match self.objects.get(&key) {
            Some(object) => self.cache.insert(key.clone(), object.clone()),
            None => self.cache.remove(&key),
        };
        state.see(&key, self.cache.get(&key), &self.spec, self.now);
    }

    fn list(&mut self) {
        let Some(state) = &mut self.state else { return };
        self.cache.clone_from(&self.objects);
        state.see_all(self.cache.values(), &self.spec, self.now);
    }

    fn finish_one(&mut self) {
        let running: Vec<_> = self
            .operations
            .iter()
            .filter(|(_, it)| standing(it) == Standing::Running)
            .map(|(name, _)| name.clone())
            .collect();
        if running.is_empty() {
            return;
        }
        let length = u64::try_from(running.len()).unwrap();
        let name = &running[usize::try_from(self.random.below(length)).unwrap()];
        let status = if self.random.is_one_of(4) { "False" } else { "True" };
        let conditions = json!({"conditions": [{"type": "Succeeded", "status": status, "reason": "x"}]});
        self.operations.get_mut(name).unwrap().insert("status".to_owned(), conditions);
    }

    fn write(&mut self) -> Result<(), Crash> {
        self.writes_left = self.writes_left.checked_sub(1).ok_or(Crash)?;
        Ok(())
    }

    /// What the controller does, in its order.
    fn reconcile(&mut self) -> Result<(), Crash> {
        let watch = json!({"status": self.status}).as_object().unwrap().clone();
        let written = Mark::of(&watch);
        let operations: Vec<_> = self.operations.values().cloned().collect();
        let is_new = self.state.is_none();
        let mut state = self.state.take().unwrap_or_else(|| WatchState::restore(&watch, &self.spec));
        let learnt = state.learn(&operations);
        if is_new {
            self.cache.clone_from(&self.objects);
            state.see_all(self.cache.values(), &self.spec, self.now);
        }
        for key in learnt {
            state.see(&key, self.cache.get(&key), &self.spec, self.now);
        }
        for operation in too_many(&operations, self.spec.limits) {
            if state.may_forget(&written, operation) {
                self.write()?;
                self.operations.remove(meta::name(operation));
            }
        }
        let operations: Vec<_> = self.operations.values().cloned().collect();
        let decision = if self.spec.is_suspended {
            WatchDecision::default()
        } else {
            state.decide(&self.spec, &operations, &written, self.now)
        };
        assert!(decision.stopped.is_empty() && decision.missed.is_empty());
        for trigger in &decision.triggers {
            for name in &trigger.replaced {
                self.write()?;
                self.operations.remove(name);
            }
            self.write()?;
            match self.create(trigger) {
                Some(operation) => state.made(trigger, &operation, self.now),
                None => state.failed(trigger),
            }
        }
        if let Some(mark) = state.mark_within(&written, self.bound) {
            self.write()?;
            self.status.insert("handled".to_owned(), mark.to_json());
            state.written(&mark);
        }
        self.state = Some(state);
        Ok(())
    }

    /// Create an operation. None if the response is lost.
    fn create(&mut self, trigger: &Trigger) -> Option<Object> {
        if self.random.is_one_of(20) {
            return None;
        }
        let mut object = if trigger.sighting.is_gone() {
            let (name, since) = (trigger.sighting.name(), trigger.since.to_string());
            super::deleted_object("v1", "ConfigMap", "n", name, &since)
        } else {
            self.cache[&trigger.sighting.key].clone()
        };
        object.insert("kind".to_owned(), "ConfigMap".into());
        let mut name = watch_operation_name("w", &object);
        if let Some(present) = self.operations.get(&name) {
            if TriggerNote::of(present).unwrap().is_same(&trigger.note) {
                return Some(present.clone());
            }
            // An object of the same name was deleted in the same moment.
            name = longer_watch_operation_name("w", &object);
            assert!(!self.operations.contains_key(&name), "{name}");
        }
        self.check_policy(&trigger.sighting.key);
        self.revision += 1;
        let mut operation = json!({"metadata": {"name": name, "uid": format!("o{}", self.revision)}});
        let operation = operation.as_object_mut().unwrap();
        super::annotate_watched(operation, &object);
        trigger.note.write(operation);
        self.log.entry(trigger.sighting.key.clone()).or_default().push(trigger.note.clone());
        self.operations.insert(name, operation.clone());
        let is_heard = !self.random.is_one_of(20);
        is_heard.then(|| operation.clone())
    }

    fn check_policy(&self, key: &str) {
        assert!(!self.spec.is_suspended, "it is suspended");
        let mut running = self.operations.values().filter(|it| standing(it) == Standing::Running);
        match self.spec.policy {
            Allow => {}
            Forbid => assert_eq!(running.count(), 0, "another operation runs"),
            Replace => {
                assert!(running.all(|it| TriggerNote::of(it).unwrap().key != key), "it was not replaced");
            }
        }
    }

    /// Let everything come to rest.
    fn settle(&mut self) {
        self.writes_left = u64::MAX;
        self.spec.is_suspended = false;
        let mut before = None;
        for _ in 0..500 {
            self.now += 2000;
            assert!(self.reconcile().is_ok());
            self.list();
            while self.operations.values().any(|it| standing(it) == Standing::Running) {
                self.finish_one();
            }
            let waits = self.state.as_ref().is_some_and(WatchState::is_waiting);
            let now = Some((self.status.clone(), self.operations.len(), waits));
            if before == now && !waits {
                return;
            }
            before = now;
        }
        panic!("it never comes to rest");
    }

    /// The process ends while nothing happens, and another one begins.
    fn check_quiet_restart(&mut self) {
        let before = self.log.clone();
        self.state = None;
        self.settle();
        assert_eq!(self.log, before, "a restart has repeated what was handled");
    }

    fn check_nothing_lost(&self, with_deletions: bool) {
        for (key, object) in &self.objects {
            let seen = super::Sighting::of(object, &self.spec.fields);
            let last =
                self.log.get(key).and_then(|notes| notes.last()).expect("every object has an operation");
            assert_eq!(
                (&last.uid, &last.state),
                (&seen.uid, &seen.state),
                "the last change of {key} is lost"
            );
        }
        let log: BTreeSet<_> = self.log.keys().collect();
        for key in log.into_iter().filter(|key| with_deletions && !self.objects.contains_key(*key)) {
            assert!(self.log[key].last().unwrap().is_gone(), "the deletion of {key} is lost");
        }
    }

    fn check_nothing_twice(&self) {
        for (key, notes) in &self.log {
            for pair in notes.windows(2) {
                let identity = |note: &TriggerNote| (note.uid.clone(), note.state.clone());
                assert_ne!(identity(&pair[0]), identity(&pair[1]), "{key} was handled twice: {notes:#?}");
            }
        }
    }

    fn check_history(&self) {
        let count = |wanted| self.operations.values().filter(|it| standing(it) == wanted).count();
        assert!(count(Standing::Succeeded) <= self.spec.limits.succeeded, "{:#?}", self.operations.keys());
        assert!(count(Standing::Failed) <= self.spec.limits.failed);
    }
}

fn run(bound: usize, check: impl Fn(&mut WatchModel)) {
    for seed in 1..=SEEDS {
        for policy in POLICIES {
            let mut model = WatchModel::new(seed, policy, seed % 2 == 0, bound);
            for _ in 0..STEPS {
                model.step();
            }
            model.settle();
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&mut model)));
            assert!(outcome.is_ok(), "seed {seed}, {policy}");
        }
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_done_twice_whatever_goes_wrong() {
    run(super::MARK_BOUND, |model| {
        model.check_nothing_lost(true);
        model.check_nothing_twice();
        model.check_history();
        model.check_quiet_restart();
    });
}

#[test]
fn nothing_is_lost_of_more_objects_than_the_mark_can_list_and_a_quiet_restart_repeats_nothing() {
    run(2, |model| {
        model.check_nothing_lost(false);
        model.check_history();
        model.check_quiet_restart();
        let listed = model.status["handled"]["objects"].as_object().map_or(0, serde_json::Map::len);
        assert!(listed <= 2);
    });
}

#[test]
fn object_that_operations_keep_changing_is_left_alone_until_somebody_else_changes_it() {
    let mut model = WatchModel::new(1, "Allow", false, super::MARK_BOUND);
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {}, "metadata": {"namespace": "n", "name": "a", "uid": "u"}})
        .as_object()
        .unwrap()
        .clone();
    let mut state = WatchState::restore(&Object::new(), &model.spec);
    let mut managers = Vec::<Value>::new();
    let mut made = 0;
    let mut turn = |state: &mut WatchState, managers: &[Value], value: i64| {
        model.now += 5000;
        object["data"]["value"] = value.into();
        object["metadata"]["managedFields"] = managers.into();
        object["metadata"]["resourceVersion"] = value.to_string().into();
        state.see("n/a", Some(&object), &model.spec, model.now);
        let decision = state.decide(&model.spec, &[], &Mark::default(), model.now);
        for trigger in &decision.triggers {
            made += 1;
            let operation = json!({"metadata": {"uid": format!("o{made}")}});
            state.made(trigger, operation.as_object().unwrap(), model.now);
        }
        (made, decision.stopped)
    };
    for value in 1..=20 {
        let (made, stopped) = turn(&mut state, &managers, value);
        assert_eq!(stopped.len(), usize::from(value == 11), "{value}");
        managers.push(json!({"manager": format!("ops.crossplane.io/operation/o{made}")}));
        if value == 11 {
            break;
        }
    }
    assert_eq!(state.stopped(), ["n/a"]);
    managers.pop();
    let (made, stopped) = turn(&mut state, &managers, 100);
    assert_eq!((made, stopped.len()), (11, 0), "another client has changed it");
    assert!(state.stopped().is_empty());
}
