//! A user who does this and that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use ferroplane_testkit::plane::sites::SITES;
use serde_json::{Value, json};

use super::chance::Chance;
use super::functions::{KINDS, NAME};
use super::kinds::{BOOKS, TOWNS};
use super::world::World;

const SITE_NAMES: [&str; 3] = ["blog", "shop", "wiki"];
const TOWN_NAMES: [&str; 2] = ["arles", "berne"];
const BOOK_NAMES: [&str; 2] = ["novel", "atlas"];
pub(super) const VAULT: &str = "/api/v1/namespaces/default/configmaps/vault";
pub(super) const USAGE: &str = "/apis/protection.crossplane.io/v1beta1/namespaces/default/usages/vault";
const WISHES: [&str; 4] = ["one", "two", "three", "four"];
const COLORS: [&str; 4] = ["red", "green", "blue", "pink"];
const PALETTE: &str = "/api/v1/namespaces/default/configmaps/palette";
pub(super) const DEFINITION: &str =
    "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions/sites.example.org";
const NAMESPACE: &str = "/api/v1/namespaces/default";
/// How long a user waits between two things at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What the user wants to be.
#[derive(Debug, Default)]
pub(super) struct Intent {
    /// The sites there should be, and their colors.
    pub(super) sites: BTreeMap<String, String>,
    pub(super) paused: BTreeSet<String>,
    /// The towns there should be, and their colors; and the books, which are claims.
    pub(super) towns: BTreeMap<String, String>,
    pub(super) books: BTreeMap<String, String>,
    /// Whether the vault is in use.
    pub(super) is_protected: bool,
    /// What each site becomes: kinds by name.
    pub(super) wishes: BTreeMap<String, String>,
    pub(super) shade: Option<String>,
    /// Whether there should be no such thing as a site.
    pub(super) is_undefined: bool,
}

pub(super) struct User<'a> {
    pub(super) world: &'a World,
    pub(super) chance: Chance,
    pub(super) intent: Intent,
}

impl User<'_> {
    pub(super) async fn set_up(&mut self) {
        self.world.plane.define_sites().await;
        super::kinds::define(&self.world.plane).await;
        self.compose().await;
        self.create().await;
    }

    pub(super) async fn do_things(&mut self, count: u64) {
        for _ in 0..count {
            tokio::time::sleep(self.chance.up_to(LONGEST_PAUSE)).await;
            self.do_something().await;
        }
    }

    async fn do_something(&mut self) {
        match self.chance.below(25) {
            0 | 1 => self.create().await,
            2 => self.delete_one().await,
            3 => self.pause().await,
            4 | 5 if !self.world.weather.is_steady => self.compose().await,
            6 => self.edit_composed(&json!({"metadata": {"annotations": {"color": "drift"}}})).await,
            7 => {
                self.edit_composed(&json!({"metadata": {"labels": {"crossplane.io/composite": null}}})).await;
            }
            8 => self.delete_composed().await,
            9 | 10 => self.mix().await,
            11 => {
                let jump = i64::try_from(self.chance.below(7200)).unwrap_or_default() - 3600;
                self.note(&format!("the clock jumps by {jump} s"));
                self.world.weather.clock.fetch_add(jump, Ordering::Relaxed);
            }
            12 => self.fight().await,
            13 => self.redefine().await,
            14..=16 => self.build().await,
            17 | 18 => self.write_book().await,
            19 => self.protect().await,
            20 => {
                let pause = self.chance.up_to(LONGEST_PAUSE);
                self.world.restart_server(pause).await;
            }
            _ => self.kill(),
        }
    }

    fn note(&self, what: &str) {
        self.world.weather.note(&format!("user: {what}"));
    }

    /// Make a site, or paint one that is there.
    async fn create(&mut self) {
        let (name, color) = (*self.chance.pick(&SITE_NAMES), *self.chance.pick(&COLORS));
        let site = self.world.plane.get(&format!("{SITES}/{name}")).await;
        // One that is on its way out has to be gone before there can be another.
        if !site["metadata"]["deletionTimestamp"].is_null() {
            return;
        }
        self.create_one(name, color).await;
    }

    pub(super) async fn create_one(&mut self, name: &str, color: &str) {
        self.note(&format!("{name} shall be {color}"));
        self.world.plane.create_site(name, color).await;
        self.intent.sites.insert(name.to_owned(), color.to_owned());
    }

    /// Build a town, or paint or tear down the one that is there.
    async fn build(&mut self) {
        let (name, color) = (*self.chance.pick(&TOWN_NAMES), *self.chance.pick(&COLORS));
        if self.tear_down(TOWNS, name).await {
            self.intent.towns.remove(name);
        } else if self.put(TOWNS, "example.org/v1", "Town", name, color).await {
            self.intent.towns.insert(name.to_owned(), color.to_owned());
        }
    }

    /// The same with a book.
    async fn write_book(&mut self) {
        let (name, color) = (*self.chance.pick(&BOOK_NAMES), *self.chance.pick(&COLORS));
        if self.tear_down(BOOKS, name).await {
            self.intent.books.remove(name);
        } else if self.put(BOOKS, "legacy.example.org/v1", "Book", name, color).await {
            self.intent.books.insert(name.to_owned(), color.to_owned());
        }
    }

    /// Delete something, now and then. Returns whether that was done.
    async fn tear_down(&mut self, path: &str, name: &str) -> bool {
        let shall_go = self.chance.happens(25);
        if shall_go {
            self.note(&format!("{path}/{name} shall go"));
            self.world.plane.delete(&format!("{path}/{name}")).await;
        }
        shall_go
    }

    /// Make or paint something. Returns whether that was done: what is on its way out has to be gone before.
    async fn put(&self, path: &str, api_version: &str, kind: &str, name: &str, color: &str) -> bool {
        let path = format!("{path}/{name}");
        if !self.world.plane.get(&path).await["metadata"]["deletionTimestamp"].is_null() {
            return false;
        }
        self.note(&format!("{path} shall be {color}"));
        let metadata = json!({"name": name});
        let object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"color": color}});
        self.world.plane.apply(&path, &object).await;
        true
    }

    /// Say that the vault is in use, or that it is no longer.
    async fn protect(&mut self) {
        if self.intent.is_protected {
            self.note("the vault is not used any more");
            self.world.plane.delete(USAGE).await;
            self.intent.is_protected = false;
            return;
        }
        if !self.world.plane.get(USAGE).await.is_null() {
            return;
        }
        self.note("the vault is used");
        let vault = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "vault"}});
        self.world.plane.apply(VAULT, &vault).await;
        let usage = json!({
            "apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage", "metadata": {"name": "vault"},
            "spec": {
                "of": {"apiVersion": "v1", "kind": "ConfigMap", "resourceRef": {"name": "vault"}},
                "reason": "there is gold in it",
            },
        });
        let path = format!("{USAGE}?fieldManager=user&force=true");
        let (code, answer) =
            self.world.plane.send(http::Method::PATCH, &path, "application/apply-patch+yaml", &usage).await;
        // Without controllers nobody can say how far a usage reaches, so it is refused. The user may come back.
        if code == 503 {
            self.note("the usage of the vault is refused while there are no controllers");
            return;
        }
        assert!(code < 300, "{code} {answer}");
        self.intent.is_protected = true;
    }

    pub(super) async fn delete(&mut self, name: &str) {
        self.note(&format!("{name} shall go"));
        self.intent.sites.remove(name);
        self.intent.paused.remove(name);
        // Nothing that is paused is let go of.
        self.set_paused(name, false).await;
        self.world.plane.delete(&format!("{SITES}/{name}")).await;
    }

    async fn delete_one(&mut self) {
        let names: Vec<_> = self.intent.sites.keys().cloned().collect();
        if !names.is_empty() {
            let name = self.chance.pick(&names).clone();
            self.delete(&name).await;
        }
    }

    async fn pause(&mut self) {
        let names: Vec<_> = self.intent.sites.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let name = self.chance.pick(&names).clone();
        let shall_pause = self.intent.paused.insert(name.clone());
        if !shall_pause {
            self.intent.paused.remove(&name);
        }
        self.note(&format!("{name} is paused: {shall_pause}"));
        self.set_paused(&name, shall_pause).await;
    }

    async fn set_paused(&self, name: &str, is_paused: bool) {
        let annotation = if is_paused { json!("true") } else { Value::Null };
        let change = json!({"metadata": {"annotations": {"crossplane.io/paused": annotation}}});
        let path = format!("{SITES}/{name}");
        if !self.world.plane.get(&path).await.is_null() {
            self.world.plane.merge(&path, &change).await;
        }
    }

    pub(super) async fn pause_nothing(&mut self) {
        for name in std::mem::take(&mut self.intent.paused) {
            self.set_paused(&name, false).await;
        }
    }

    async fn compose(&mut self) {
        let names = WISHES.into_iter().filter(|_| self.chance.happens(60));
        let wishes: Vec<_> = names.map(|name| (name, self.chance.pick(&KINDS).0)).collect();
        self.compose_of(&wishes).await;
    }

    pub(super) async fn compose_of(&mut self, wishes: &[(&str, &str)]) {
        let wishes: BTreeMap<_, _> =
            wishes.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
        self.note(&format!("sites shall become {wishes:?}"));
        let input = json!({"apiVersion": "example.org/v1", "kind": "Wishes", "wishes": wishes});
        self.world
            .plane
            .compose_sites_of(&json!([{"step": "wishes", "functionRef": {"name": NAME}, "input": input}]))
            .await;
        self.intent.wishes = wishes;
    }

    /// Change what the function reads, or take it away.
    async fn mix(&mut self) {
        if self.chance.happens(30) {
            self.note("there shall be no palette");
            self.world.plane.delete(PALETTE).await;
            self.intent.shade = None;
            return;
        }
        let shade = *self.chance.pick(&["light", "dark", "grey"]);
        self.mix_one(shade).await;
    }

    pub(super) async fn mix_one(&mut self, shade: &str) {
        self.note(&format!("the palette shall be {shade}"));
        let palette = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "palette"}, "data": {"shade": shade},
        });
        self.world.plane.apply(PALETTE, &palette).await;
        self.intent.shade = Some(shade.to_owned());
    }

    async fn some_composed(&self) -> Option<String> {
        let mut composed = Vec::new();
        for (_, plural) in KINDS {
            let path = format!("{NAMESPACE}/{plural}");
            let list = self.world.plane.get(&format!("{path}?labelSelector=crossplane.io/composite")).await;
            let mut items = list["items"].as_array().cloned().unwrap_or_default();
            items.sort_by_key(|item| {
                let metadata = &item["metadata"];
                format!(
                    "{}/{}",
                    metadata["labels"]["crossplane.io/composite"], metadata["annotations"]["who"]
                )
            });
            let name = |item: &Value| Some(format!("{path}/{}", item["metadata"]["name"].as_str()?));
            composed.extend(items.iter().filter_map(name));
        }
        if composed.is_empty() { None } else { Some(self.chance.pick(&composed).clone()) }
    }

    pub(super) async fn edit_composed(&self, change: &Value) {
        if let Some(path) = self.some_composed().await {
            self.note(&format!("changes {path}: {change}"));
            self.world.plane.merge(&path, change).await;
        }
    }

    /// Somebody else wants it otherwise, and does not give in.
    pub(super) async fn fight(&self) {
        let Some(path) = self.some_composed().await else { return };
        self.note(&format!("fights over {path}"));
        // Twice as many as open the circuit.
        for round in 0..200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let change = json!({"metadata": {"annotations": {"color": format!("fight {round}")}}});
            let (code, _) = self
                .world
                .plane
                .send(http::Method::PATCH, &path, "application/merge-patch+json", &change)
                .await;
            if code == 404 {
                return;
            }
        }
    }

    /// Change the definition, so that its controller is started anew.
    async fn redefine(&mut self) {
        let mark = format!("m{}", self.chance.below(100));
        self.note(&format!("the kind of sites shall be marked {mark}"));
        self.world.plane.merge(DEFINITION, &json!({"spec": {"metadata": {"labels": {"mark": mark}}}})).await;
    }

    async fn delete_composed(&self) {
        if let Some(path) = self.some_composed().await {
            self.note(&format!("deletes {path}"));
            self.world.plane.delete(&path).await;
        }
    }

    /// Delete all sites, or their definition, which is as good.
    pub(super) async fn end_everything(&mut self) {
        self.kill();
        for (path, names) in [(TOWNS, &mut self.intent.towns), (BOOKS, &mut self.intent.books)] {
            for name in std::mem::take(names).into_keys() {
                self.world.plane.delete(&format!("{path}/{name}")).await;
            }
        }
        if self.intent.is_protected {
            self.protect().await;
        }
        if self.chance.happens(50) {
            self.note("there shall be no sites");
            self.intent = Intent { is_undefined: true, ..Intent::default() };
            self.world.plane.delete(DEFINITION).await;
            return;
        }
        for name in self.intent.sites.clone().into_keys() {
            self.delete(&name).await;
        }
    }

    fn kill(&self) {
        let (writes, is_carried_out) = (self.chance.below(12) + 1, self.chance.happens(50));
        self.world.weather.kill_soon(writes, is_carried_out);
    }
}
