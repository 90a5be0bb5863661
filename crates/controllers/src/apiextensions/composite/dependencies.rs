//! Watches the objects that composite resources depend on: composed and required resources.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ferroplane_api::{Object, keys, meta};
use ferroplane_client::{ApiClient, Change, Informer, InformerScope, LabelSelector, ObjectHeader, Resource};
use ferroplane_engine::Requirement;
use ferroplane_wire::v1::resource_selector::Match;
use ferroplane_wire::v1::{MatchLabels, ResourceSelector};
use tokio::task::JoinHandle;

use super::claim_secrets::{ClaimName, ClaimSecrets, SecretName};
use super::memory::Name;
use super::triggers::{follow_composed, follow_required};
use super::{Composites, secrets};
use crate::runtime::queue::Queue;

#[derive(Debug)]
pub(super) struct Dependencies {
    cluster: ApiClient,
    composites: Weak<Composites>,
    composed: Mutex<BTreeMap<Arc<Resource>, Arc<Informer>>>,
    required: Mutex<BTreeMap<Arc<Resource>, Arc<Informer>>>,
    interests: Mutex<HashMap<(String, String), HashMap<Wanted, Interest>>>,
    /// The Secrets that claims write, which are watched with the others.
    pub(super) claim_secrets: ClaimSecrets,
    /// The task that watches Secrets, once a composite resource or a claim depends on one.
    secrets: Mutex<Option<JoinHandle<()>>>,
    poll_interval: Duration,
}

/// Objects of a kind that composite resources depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    namespace: Option<String>,
    by: By,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum By {
    Name(String),
    Labels(BTreeMap<String, String>),
}

/// The composite resources that depend on an object or selector.
#[derive(Debug, Default)]
struct Interest {
    /// Increases whenever a matching object changes.
    epoch: u64,
    /// For a Secret: its known version. Zero if it does not exist. For Secrets that are selected by labels: the newest known version.
    version: Option<u64>,
    /// For Secrets that are selected by labels: a hash of the list that was read last.
    listed: Option<u64>,
    /// By definition and name.
    composites: BTreeSet<(String, Name)>,
}

impl Wanted {
    pub(super) fn of(selector: &ResourceSelector) -> Self {
        let by = match &selector.r#match {
            Some(Match::MatchName(name)) => By::Name(name.clone()),
            Some(Match::MatchLabels(labels)) => {
                By::Labels(labels.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
            }
            None => By::Labels(BTreeMap::new()),
        };
        Self { namespace: selector.namespace.clone().filter(|namespace| !namespace.is_empty()), by }
    }

    /// Whether the object with this header matches.
    pub(super) fn matches(&self, header: &ObjectHeader<'_>) -> bool {
        self.fits(&header.metadata.namespace, &header.metadata.name, |key| header.label(key))
    }

    /// Whether an object of the kind matches.
    pub(super) fn selects(&self, object: &Object) -> bool {
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
        self.fits(meta::namespace(object), meta::name(object), |key| {
            labels.and_then(|labels| labels.get(key)?.as_str())
        })
    }

    fn fits<'l>(&self, namespace: &str, name: &str, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        match &self.by {
            By::Name(wanted) => wanted == name && self.namespace.as_deref().unwrap_or_default() == namespace,
            By::Labels(labels) => {
                self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
                    && labels.iter().all(|(key, value)| label(key) == Some(value.as_str()))
            }
        }
    }

    /// The namespace and name, if it is a single object.
    pub(super) fn name(&self) -> Option<(&str, &str)> {
        match &self.by {
            By::Name(name) => Some((self.namespace.as_deref().unwrap_or_default(), name)),
            By::Labels(_) => None,
        }
    }
}

impl Wanted {
    /// The selector as a selector of Secrets.
    fn secrets(&self) -> ResourceSelector {
        let labels = match &self.by {
            By::Labels(labels) => labels.clone(),
            By::Name(_) => BTreeMap::new(),
        };
        let r#match = Some(Match::MatchLabels(MatchLabels { labels }));
        ResourceSelector { namespace: self.namespace.clone(), r#match, ..secrets::selector("", "") }
    }
}

impl Dependencies {
    pub(super) fn new(cluster: ApiClient, composites: Weak<Composites>, poll_interval: Duration) -> Self {
        Self {
            cluster,
            composites,
            composed: Mutex::default(),
            required: Mutex::default(),
            interests: Mutex::default(),
            claim_secrets: ClaimSecrets::default(),
            secrets: Mutex::default(),
            poll_interval,
        }
    }

    /// The controllers of all kinds.
    pub(super) fn composites(&self) -> Option<Arc<Composites>> {
        self.composites.upgrade()
    }

    pub(super) fn stop(&self) {
        if let Some(following) = self.secrets.lock().unwrap_or_else(PoisonError::into_inner).take() {
            following.abort();
        }
        for informers in [&self.composed, &self.required] {
            for informer in informers.lock().unwrap_or_else(PoisonError::into_inner).values() {
                informer.stop();
            }
        }
    }

    /// How many objects are cached, and how many dependencies there are.
    pub(super) fn len(&self) -> (usize, usize) {
        let held = [&self.composed, &self.required].map(|informers| {
            let informers = informers.lock().unwrap_or_else(PoisonError::into_inner);
            informers.values().map(|informer| informer.len()).sum::<usize>()
        });
        let interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let interests = interests.values().flatten().map(|(_, interest)| interest.composites.len());
        (held.iter().sum(), interests.sum())
    }

    /// The informer of all composed resources of a kind.
    pub(super) fn composed(&self, resource: &Arc<Resource>) -> Arc<Informer> {
        let mut informers = self.composed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(informer) = informers.get(resource) {
            return informer.clone();
        }
        let labels = LabelSelector { exists: Some(keys::COMPOSITE), ..LabelSelector::default() };
        let scope = InformerScope { labels, ..InformerScope::new(resource.clone()) };
        let informer = Informer::start(self.cluster.clone(), scope);
        follow_composed(&self.composites, &informer);
        informers.insert(resource.clone(), informer.clone());
        informer
    }

    /// The informer of composed resources of a kind, if there is one.
    pub(super) fn followed(&self, resource: &Arc<Resource>) -> Option<Arc<Informer>> {
        self.composed.lock().unwrap_or_else(PoisonError::into_inner).get(resource).cloned()
    }

    /// The composite resources that depend on an object, by definition and name.
    pub(super) fn interested_in(&self, object: &Object) -> BTreeSet<(String, Name)> {
        let interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = (meta::api_version(object).to_owned(), meta::kind(object).to_owned());
        let Some(of_kind) = interests.get(&kind) else { return BTreeSet::new() };
        let interested = of_kind.iter().filter(|(wanted, _)| wanted.selects(object));
        interested.flat_map(|(_, interest)| interest.composites.iter().cloned()).collect()
    }

    /// The informer of all objects of a kind.
    pub(super) fn required(&self, resource: &Arc<Resource>) -> Arc<Informer> {
        let mut informers = self.required.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(informer) = informers.get(resource) {
            return informer.clone();
        }
        let scope = InformerScope::new(resource.clone());
        let informer = Informer::start(self.cluster.clone(), scope);
        follow_required(&self.composites, &informer);
        informers.insert(resource.clone(), informer.clone());
        informer
    }

    /// Replace the dependencies of a composite resource on objects.
    pub(super) fn follow(&self, definition: &str, name: &Name, before: &[Requirement], now: &[Requirement]) {
        let mut interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let me = (definition.to_owned(), name.clone());
        for requirement in now {
            let of_kind = interests.entry(kind_of(&requirement.selector)).or_default();
            of_kind.entry(Wanted::of(&requirement.selector)).or_default().composites.insert(me.clone());
        }
        for requirement in before {
            let is_still_wanted = now.iter().any(|other| other.selector == requirement.selector);
            if is_still_wanted {
                continue;
            }
            let kind = kind_of(&requirement.selector);
            let Some(of_kind) = interests.get_mut(&kind) else { continue };
            let wanted = Wanted::of(&requirement.selector);
            if let Some(interest) = of_kind.get_mut(&wanted) {
                interest.composites.remove(&me);
                if interest.composites.is_empty() {
                    of_kind.remove(&wanted);
                }
            }
            if of_kind.is_empty() {
                interests.remove(&kind);
            }
        }
    }

    /// Make a composite resource depend on a Secret or a selector of Secrets. Returns the current epoch.
    pub(super) fn follow_secret(&self, definition: &str, name: &Name, secret: &Requirement) -> u64 {
        self.follow(definition, name, &[], std::slice::from_ref(secret));
        self.watch_secrets();
        self.epoch(&secret.selector)
    }

    /// Make a claim depend on its connection Secret. Returns the current epoch.
    pub(super) fn follow_claim_secret(
        &self,
        secret: &SecretName,
        claim: ClaimName,
        queue: &Queue<String>,
    ) -> u64 {
        let epoch = self.claim_secrets.follow(secret, claim, queue);
        self.watch_secrets();
        epoch
    }

    fn watch_secrets(&self) {
        let mut following = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        following.get_or_insert_with(|| {
            let (cluster, composites) = (self.cluster.clone(), self.composites.clone());
            tokio::spawn(secrets::follow(cluster, composites, self.poll_interval))
        });
    }

    /// Record that a Secret was read for a composite resource with this version. Returns its epoch then, given the epoch before it was
    /// read.
    pub(super) fn secret_read(
        &self,
        reader: (&str, &Name),
        selector: &ResourceSelector,
        version: u64,
        before: u64,
    ) -> u64 {
        let mut interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = interests.get_mut(&kind_of(selector));
        let Some(interest) = of_kind.and_then(|of_kind| of_kind.get_mut(&Wanted::of(selector))) else {
            return before;
        };
        // It changed while it was read, and it is unknown whether before or after. The change has requeued the
        // reader, which reads it again because the epoch differs.
        if interest.epoch != before {
            return before;
        }
        if interest.version.replace(version).is_none_or(|known| known == version) {
            return before;
        }
        // The reader is the first to see this version. Other dependents of the same Secret would never be requeued.
        interest.epoch += 1;
        let epoch = interest.epoch;
        let is_other = |other: &&(String, Name)| (other.0.as_str(), &other.1) != reader;
        let others: Vec<_> = interest.composites.iter().filter(is_other).cloned().collect();
        // Released before others are woken, which takes locks of their controllers: two locks at once would need
        // an order.
        drop(interests);
        self.wake(others, selector, version);
        epoch
    }

    /// Record that a composite resource has written a Secret, which has this version now, given the epoch before. Returns its epoch then.
    pub(super) fn secret_written(
        &self,
        writer: (&str, &Name),
        selector: &ResourceSelector,
        version: u64,
        before: u64,
    ) -> u64 {
        let interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = interests.get(&kind_of(selector));
        let interest = of_kind.and_then(|of_kind| of_kind.get(&Wanted::of(selector)));
        // The watch was faster than the response.
        if let Some(interest) = interest
            && interest.epoch != before
            && interest.version == Some(version)
        {
            return interest.epoch;
        }
        drop(interests);
        self.secret_read(writer, selector, version, before)
    }

    /// Record a list of Secrets that are selected by labels, given the epoch before they were listed. Returns the epoch then.
    pub(super) fn secrets_listed(
        &self,
        reader: Option<(&str, &Name, u64)>,
        selector: &ResourceSelector,
        found: &[Object],
    ) -> u64 {
        let before = reader.map(|(_, _, before)| before);
        let (listed, newest) = secrets::versions_of(found);
        let mut interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = interests.get_mut(&kind_of(selector));
        let Some(interest) = of_kind.and_then(|of_kind| of_kind.get_mut(&Wanted::of(selector))) else {
            return before.unwrap_or_default();
        };
        // They changed while they were listed: as with a Secret that is read by its name.
        if let Some(before) = before
            && interest.epoch != before
        {
            return before;
        }
        interest.version = interest.version.max(Some(newest));
        if interest.listed.replace(listed).is_none_or(|known| known == listed) {
            return interest.epoch;
        }
        interest.epoch += 1;
        let epoch = interest.epoch;
        let is_other = |other: &&(String, Name)| {
            reader.is_none_or(|(definition, name, _)| (other.0.as_str(), &other.1) != (definition, name))
        };
        let others: Vec<_> = interest.composites.iter().filter(is_other).cloned().collect();
        drop(interests);
        self.wake(others, selector, newest);
        epoch
    }

    /// A Secret changed. Requeues composite resources whose selectors match it, or matched it before, if the version is new.
    pub(super) fn selected_secret_changed(&self, change: Change<'_>) {
        let (before, is_gone) = match change {
            Change::Applied { before, .. } => (before, false),
            Change::Deleted { .. } => (None, true),
        };
        let before = before.and_then(|before| ObjectHeader::read(&before.bytes));
        let version = change.object().version;
        let mut woken = BTreeSet::new();
        let mut interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = interests.get_mut(&kind_of(&secrets::selector("", "")));
        let selections = of_kind.into_iter().flatten().filter(|(wanted, _)| wanted.name().is_none());
        for (wanted, interest) in selections {
            let is_selected = wanted.matches(change.header())
                || before.as_ref().is_some_and(|header| wanted.matches(header));
            // A new watch reports objects again that were listed already.
            let is_news = is_gone || interest.version.is_none_or(|known| version > known);
            if is_selected && is_news {
                interest.version = interest.version.max(Some(version));
                interest.listed = None;
                interest.epoch += 1;
                woken.extend(interest.composites.iter().cloned());
            }
        }
        drop(interests);
        if !woken.is_empty() {
            let metadata = &change.header().metadata;
            let secret = secrets::selector(&metadata.namespace, &metadata.name);
            self.wake(woken.into_iter().collect(), &secret, version);
        }
    }

    /// A Secret has this version now; zero if it was deleted. Requeues composite resources that read it by its name, and claims that write
    /// it, if the version is new.
    pub(super) fn secret_changed(&self, namespace: &str, name: &str, version: u64) {
        self.claim_secrets.changed(&(namespace.to_owned(), name.to_owned()), version);
        let selector = secrets::selector(namespace, name);
        let mut interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = interests.get_mut(&kind_of(&selector));
        let Some(interest) = of_kind.and_then(|of_kind| of_kind.get_mut(&Wanted::of(&selector))) else {
            return;
        };
        // A watch may be older than what was read by name.
        let is_news = interest.version.is_none_or(|known| version == 0 && known != 0 || version > known);
        if !is_news {
            return;
        }
        interest.version = Some(version);
        interest.epoch += 1;
        let woken: Vec<_> = interest.composites.iter().cloned().collect();
        drop(interests);
        self.wake(woken, &selector, version);
    }

    fn wake(&self, woken: Vec<(String, Name)>, selector: &ResourceSelector, version: u64) {
        let Some(composites) = self.composites() else { return };
        for (definition, name) in woken {
            if let Some(controller) = composites.get(&definition) {
                // A Secret that changes all the time counts for the circuit breaker, too.
                controller.memory.count_change(&name, version, || match &selector.r#match {
                    Some(Match::MatchName(secret)) => format!("Secret/{secret}"),
                    _ => "Secret".to_owned(),
                });
                controller.queue.add(name);
            }
        }
    }

    /// The namespaces and names of all Secrets that composite resources and claims depend on, sorted, and all selectors of Secrets.
    pub(super) fn followed_secrets(&self) -> (BTreeSet<SecretName>, Vec<ResourceSelector>) {
        let interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = interests.get(&kind_of(&secrets::selector("", "")));
        let followed = of_kind.into_iter().flatten().filter(|(_, interest)| interest.version.is_some());
        let (mut names, mut selected) = (BTreeSet::from_iter(self.claim_secrets.names()), Vec::new());
        for (wanted, _) in followed {
            match wanted.name() {
                Some((namespace, name)) => {
                    names.insert((namespace.to_owned(), name.to_owned()));
                }
                None => selected.push(wanted.secrets()),
            }
        }
        (names, selected)
    }

    /// Remove all dependencies of composite resources of this definition.
    pub(super) fn forget_kind(&self, definition: &str) {
        let mut interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        interests.retain(|_, of_kind| {
            of_kind.retain(|_, interest| {
                interest.composites.retain(|(kind, _)| kind != definition);
                !interest.composites.is_empty()
            });
            !of_kind.is_empty()
        });
    }

    /// The epoch of a selector.
    pub(super) fn epoch(&self, selector: &ResourceSelector) -> u64 {
        let interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = interests.get(&kind_of(selector));
        of_kind.and_then(|of_kind| of_kind.get(&Wanted::of(selector))).map_or(0, |interest| interest.epoch)
    }

    /// An object of a required kind has changed. Returns the composite resources that depend on it, by definition and name.
    pub(super) fn required_changed(
        &self,
        resource: &Resource,
        change: Change<'_>,
    ) -> BTreeSet<(String, Name)> {
        let before = match change {
            Change::Applied { before, .. } => before.and_then(|before| ObjectHeader::read(&before.bytes)),
            Change::Deleted { .. } => None,
        };
        let mut woken = BTreeSet::new();
        let mut interests = self.interests.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = (resource.api_version.clone(), resource.kind.clone());
        for (wanted, interest) in interests.get_mut(&kind).into_iter().flatten() {
            if wanted.matches(change.header()) || before.as_ref().is_some_and(|header| wanted.matches(header))
            {
                interest.epoch += 1;
                woken.extend(interest.composites.iter().cloned());
            }
        }
        woken
    }
}

fn kind_of(selector: &ResourceSelector) -> (String, String) {
    (selector.api_version.clone(), selector.kind.clone())
}
