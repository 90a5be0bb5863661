//! Proves that everything came to be as it should, and stays so.

use std::collections::BTreeMap;
use std::time::Duration;

use ferroplane_testkit::plane::condition;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use http::Method;
use serde_json::{Value, json};

use super::functions::KINDS;
use super::kinds::{BOOKS, LIBRARIES, LIBRARY, TOWN, TOWNS, references};
use super::user::{DEFINITION, Intent, USAGE, VAULT};
use super::world::World;

/// Nothing has happened for this long: nothing will. Longer than any pause before another attempt.
const CALM: Duration = Duration::from_mins(10);
const LONGEST: Duration = Duration::from_hours(3);
const CUSTOM_KIND: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sites.example.org";
const STILL: Duration = Duration::from_mins(30);

/// Wait until controllers do nothing any more.
pub(super) async fn calm_down(world: &World) -> Result<(), String> {
    let deadline = tokio::time::Instant::now() + LONGEST;
    loop {
        let before = world.weather.activity();
        tokio::time::sleep(CALM).await;
        if world.weather.activity() == before {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            return Err(format!("controllers never rest after {} s", LONGEST.as_secs()));
        }
    }
}

/// Controllers do nothing, for half an hour.
pub(super) async fn stay_still(world: &World) -> Result<(), String> {
    let before = world.weather.activity();
    tokio::time::sleep(STILL).await;
    match world.weather.activity() - before {
        0 => Ok(()),
        count => Err(format!("{count} things happened although nothing changed")),
    }
}

/// A composite resource, and what it should be.
struct Composite {
    object: Value,
    color: String,
    /// What it becomes: kinds by name.
    wishes: BTreeMap<String, String>,
}

/// Everything is as the user wants it.
pub(super) async fn is_as_wanted(world: &World, intent: &Intent) -> Vec<String> {
    let mut wrongs = world.weather.wrongs();
    if intent.is_undefined {
        for path in [DEFINITION, CUSTOM_KIND] {
            if !world.plane.get(path).await.is_null() {
                wrongs.push(format!("{path} is still there"));
            }
        }
    }
    let composites = composites(world, intent, &mut wrongs).await;
    let composed = composed(world).await;
    for composite in &composites {
        check_composite(composite, intent, &composed, &mut wrongs);
    }
    for object in &composed {
        check_owner(object, &composites, &mut wrongs);
    }
    check_protection(world, intent, &mut wrongs).await;
    if composites.is_empty() {
        check_memory(world, &mut wrongs);
    }
    wrongs
}

/// Nothing is remembered of what is gone.
fn check_memory(world: &World, wrongs: &mut Vec<String>) {
    let holdings = world.holdings();
    if holdings.is_none_or(|it| (it.remembered, it.queued, it.interests) != (0, 0, 0)) {
        wrongs.push(format!("controllers still hold {holdings:?}"));
    }
}

/// All composite resources, which are those that should be there.
async fn composites(world: &World, intent: &Intent, wrongs: &mut Vec<String>) -> Vec<Composite> {
    let (towns, sites) = (list(world, TOWNS).await, list(world, SITES).await);
    let (libraries, books) = (list(world, LIBRARIES).await, list(world, BOOKS).await);
    let is_composed = |site: &&Value| site["metadata"]["ownerReferences"][0]["kind"] == "Town";
    check_names("sites", sites.iter().filter(|site| !is_composed(site)), &intent.sites, wrongs);
    check_names("towns", towns.iter(), &intent.towns, wrongs);
    check_names("books", books.iter(), &intent.books, wrongs);
    check_names(
        "books that have libraries",
        libraries.iter().map(|it| &it["spec"]["claimRef"]),
        &intent.books,
        wrongs,
    );
    for book in &books {
        let name = &book["metadata"]["name"];
        let library = libraries.iter().find(|library| library["spec"]["claimRef"]["name"] == *name);
        let is_bound =
            library.is_some_and(|library| library["metadata"]["name"] == book["spec"]["resourceRef"]["name"]);
        if !is_bound || !is_claim_ready(book) || book["status"]["color"] != intent.books[&text(name)] {
            wrongs.push(format!("book {name} is not as it should be: {book}"));
        }
    }
    let mut composites = Vec::new();
    let mut add = |object: Value, color: Option<&String>, wishes: BTreeMap<String, String>| {
        composites.push(Composite { object, color: color.cloned().unwrap_or_default(), wishes });
    };
    for site in sites {
        let owner = &site["metadata"]["ownerReferences"][0];
        let color = match owner["kind"].as_str() {
            Some("Town") => intent.towns.get(&text(&owner["name"])),
            _ => intent.sites.get(&text(&site["metadata"]["name"])),
        };
        add(site, color, intent.wishes.clone());
    }
    for town in towns {
        let color = intent.towns.get(&text(&town["metadata"]["name"]));
        add(town, color, owned(&TOWN));
    }
    for library in libraries {
        let color = intent.books.get(&text(&library["spec"]["claimRef"]["name"]));
        add(library, color, owned(&LIBRARY));
    }
    composites
}

fn check_names<'a>(
    what: &str,
    objects: impl Iterator<Item = &'a Value>,
    wanted: &BTreeMap<String, String>,
    wrongs: &mut Vec<String>,
) {
    let name =
        |object: &Value| text(object.get("metadata").unwrap_or(object).get("name").unwrap_or(&Value::Null));
    let mut names: Vec<_> = objects.map(name).collect();
    names.sort();
    if !names.iter().eq(wanted.keys()) {
        wrongs.push(format!("{what} are {names:?}, not {:?}", wanted.keys()));
    }
}

async fn list(world: &World, path: &str) -> Vec<Value> {
    world.plane.get(path).await["items"].as_array().cloned().unwrap_or_default()
}

fn owned(wishes: &[(&str, &str)]) -> BTreeMap<String, String> {
    wishes.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Everything that anybody composed.
async fn composed(world: &World) -> Vec<Value> {
    let mut composed = Vec::new();
    let kinds = KINDS.map(|(kind, plural)| (kind, format!("/api/v1/namespaces/default/{plural}")));
    for (kind, path) in kinds.into_iter().chain([("Site", SITES.to_owned())]) {
        for mut object in list(world, &path).await {
            let metadata = &object["metadata"];
            let is_labelled = kind != "Site" && !metadata["labels"]["crossplane.io/composite"].is_null();
            if is_labelled
                || !metadata["ownerReferences"].is_null()
                || !metadata["annotations"]["who"].is_null()
            {
                object["kind"] = kind.into();
                composed.push(object);
            }
        }
    }
    composed
}

fn check_composite(composite: &Composite, intent: &Intent, composed: &[Value], wrongs: &mut Vec<String>) {
    let Composite { object, color, wishes } = composite;
    let what = format!("{} {}", object["kind"], object["metadata"]["name"]);
    let is_responsive = condition(object, "Responsive").as_deref() == Some("True/WatchCircuitClosed");
    if !is_ready(object) || !is_responsive {
        wrongs
            .push(format!("{what} is not ready, synced and responsive: {}", object["status"]["conditions"]));
    }
    if object["status"]["color"] != **color {
        wrongs.push(format!("{what} has status {}, not {color}", object["status"]["color"]));
    }
    let shade = intent.shade.as_deref().unwrap_or("none");
    let expected: Vec<_> = wishes
        .iter()
        .map(|(who, kind)| (who.clone(), kind.clone(), color.clone(), shade.to_owned()))
        .collect();
    let mut found: Vec<_> = composed
        .iter()
        .filter(|other| other["metadata"]["ownerReferences"][0]["uid"] == object["metadata"]["uid"])
        .map(|other| {
            let annotations = &other["metadata"]["annotations"];
            let who = text(&annotations["crossplane.io/composition-resource-name"]);
            (who, text(&other["kind"]), text(&annotations["color"]), text(&annotations["shade"]))
        })
        .collect();
    found.sort();
    if found != expected {
        wrongs.push(format!("{what} became {found:?}, not {expected:?}"));
    }
    let references = references(object);
    if references.len() != expected.len() {
        wrongs.push(format!("{what} refers to {references:?}"));
    }
    for reference in &references {
        if !composed.iter().any(|object| is_meant(reference, object)) {
            wrongs.push(format!("{what} refers to {reference}, which is not there"));
        }
    }
}

/// Whatever is composed belongs to a composite resource that is there and refers to it.
fn check_owner(object: &Value, composites: &[Composite], wrongs: &mut Vec<String>) {
    let metadata = &object["metadata"];
    let what = format!("{} {}", object["kind"], metadata["name"]);
    let owner = &metadata["ownerReferences"][0];
    let composite = composites.iter().map(|composite| &composite.object);
    let Some(composite) = composite.into_iter().find(|it| it["metadata"]["uid"] == owner["uid"]) else {
        wrongs.push(format!("{what} is an orphan: {metadata}"));
        return;
    };
    // What is composed by something composed is labelled with the name of the first.
    let label = |object: &Value| object["metadata"]["labels"]["crossplane.io/composite"].clone();
    if owner["controller"] != true || label(object).is_null() || label(object) != label(composite) {
        wrongs.push(format!("{what} is not marked as composed: {metadata}"));
    }
    if !references(composite).iter().any(|reference| is_meant(reference, object)) {
        wrongs.push(format!("{what} is not referred to by {}", composite["metadata"]["name"]));
    }
}

fn is_meant(reference: &Value, object: &Value) -> bool {
    reference["kind"] == object["kind"] && reference["name"] == object["metadata"]["name"]
}

fn is_claim_ready(claim: &Value) -> bool {
    condition(claim, "Ready").as_deref() == Some("True/Available")
        && condition(claim, "Synced").as_deref() == Some("True/ReconcileSuccess")
}

/// What is in use cannot be deleted, and what is not bears no mark.
async fn check_protection(world: &World, intent: &Intent, wrongs: &mut Vec<String>) {
    let (usage, vault) = (world.plane.get(USAGE).await, world.plane.get(VAULT).await);
    let mark = &vault["metadata"]["labels"]["crossplane.io/in-use"];
    if !intent.is_protected {
        if !usage.is_null() || !mark.is_null() {
            wrongs.push(format!("the vault is not used any more: {usage} {vault}"));
        }
        return;
    }
    let path = format!("{VAULT}?dryRun=All");
    let (code, answer) = world.plane.send(Method::DELETE, &path, "application/json", &json!(null)).await;
    if condition(&usage, "Ready").as_deref() != Some("True/Available") || mark != "true" || code != 409 {
        wrongs.push(format!("the vault is not protected: {code} {answer} {usage} {vault}"));
    }
}
