//! Proves that everything came to be as it should, and stays so.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::functions::KINDS;
use super::user::{DEFINITION, Intent};
use super::world::World;
use crate::plane::condition;
use crate::sites::{SITES, is_ready};

/// Nothing has happened for this long: nothing will. Longer than any pause before another attempt.
const CALM: Duration = Duration::from_mins(10);
const LONGEST: Duration = Duration::from_hours(3);
const CUSTOM_KIND: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sites.example.org";
const STILL: Duration = Duration::from_hours(1);

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

/// Controllers do nothing, for an hour.
pub(super) async fn stay_still(world: &World) -> Result<(), String> {
    let before = world.weather.activity();
    tokio::time::sleep(STILL).await;
    match world.weather.activity() - before {
        0 => Ok(()),
        count => Err(format!("{count} things happened although nothing changed")),
    }
}

/// Everything is as the user wants it.
pub(super) async fn is_as_wanted(world: &World, intent: &Intent) -> Vec<String> {
    let mut wrongs = world.weather.wrongs();
    let list = world.plane.get(SITES).await;
    let sites: BTreeMap<String, Value> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|site| (site["metadata"]["name"].as_str().unwrap().to_owned(), site.clone()))
        .collect();
    if !sites.keys().eq(intent.sites.keys()) {
        wrongs.push(format!("sites are {:?}, not {:?}", sites.keys(), intent.sites.keys()));
    }
    if intent.is_undefined {
        for path in [DEFINITION, CUSTOM_KIND] {
            if !world.plane.get(path).await.is_null() {
                wrongs.push(format!("{path} is still there"));
            }
        }
    }
    let composed = composed(world).await;
    for (name, site) in &sites {
        let Some(color) = intent.sites.get(name) else { continue };
        check_site(site, color, intent, &composed, &mut wrongs);
    }
    for object in &composed {
        check_owner(object, &sites, &mut wrongs);
    }
    wrongs
}

/// Everything that anybody composed.
async fn composed(world: &World) -> Vec<Value> {
    let mut composed = Vec::new();
    for (kind, plural) in KINDS {
        let list = world.plane.get(&format!("/api/v1/namespaces/default/{plural}")).await;
        for object in list["items"].as_array().unwrap() {
            let metadata = &object["metadata"];
            let is_composed = !metadata["labels"]["crossplane.io/composite"].is_null()
                || !metadata["ownerReferences"].is_null()
                || !metadata["annotations"]["who"].is_null();
            if is_composed {
                let mut object = object.clone();
                object["kind"] = kind.into();
                composed.push(object);
            }
        }
    }
    composed
}

fn check_site(site: &Value, color: &str, intent: &Intent, composed: &[Value], wrongs: &mut Vec<String>) {
    let name = &site["metadata"]["name"];
    let is_responsive = condition(site, "Responsive").as_deref() == Some("True/WatchCircuitClosed");
    if !is_ready(site) || !is_responsive {
        wrongs.push(format!(
            "site {name} is not ready, synced and responsive: {}",
            site["status"]["conditions"]
        ));
    }
    if site["status"]["color"] != color {
        wrongs.push(format!("site {name} has status {}, not {color}", site["status"]["color"]));
    }
    let shade = intent.shade.as_deref().unwrap_or("none");
    let expected: Vec<_> = intent
        .wishes
        .iter()
        .map(|(who, kind)| (who.clone(), kind.clone(), color.to_owned(), shade.to_owned()))
        .collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> = composed
        .iter()
        .filter(|object| object["metadata"]["ownerReferences"][0]["uid"] == site["metadata"]["uid"])
        .map(|object| {
            let annotations = &object["metadata"]["annotations"];
            let who = text(&annotations["crossplane.io/composition-resource-name"]);
            (who, text(&object["kind"]), text(&annotations["color"]), text(&annotations["shade"]))
        })
        .collect();
    found.sort();
    if found != expected {
        wrongs.push(format!("site {name} became {found:?}, not {expected:?}"));
    }
    let references = site["spec"]["crossplane"]["resourceRefs"].as_array().cloned().unwrap_or_default();
    if references.len() != expected.len() {
        wrongs.push(format!("site {name} refers to {references:?}"));
    }
    for reference in &references {
        let is_there = composed.iter().any(|object| is_meant(reference, object));
        if !is_there {
            wrongs.push(format!("site {name} refers to {reference}, which is not there"));
        }
    }
}

/// Whatever is composed belongs to a site that is there and refers to it.
fn check_owner(object: &Value, sites: &BTreeMap<String, Value>, wrongs: &mut Vec<String>) {
    let metadata = &object["metadata"];
    let what = format!("{} {}", object["kind"], metadata["name"]);
    let owner = &metadata["ownerReferences"][0];
    let site = sites.values().find(|site| site["metadata"]["uid"] == owner["uid"]);
    let Some(site) = site else {
        wrongs.push(format!("{what} is an orphan: {metadata}"));
        return;
    };
    if owner["controller"] != true
        || metadata["labels"]["crossplane.io/composite"] != site["metadata"]["name"]
    {
        wrongs.push(format!("{what} is not marked as composed: {metadata}"));
    }
    let references = site["spec"]["crossplane"]["resourceRefs"].as_array();
    if !references.into_iter().flatten().any(|reference| is_meant(reference, object)) {
        wrongs.push(format!("{what} is not referred to by its site {}", site["metadata"]["name"]));
    }
}

fn is_meant(reference: &Value, object: &Value) -> bool {
    reference["kind"] == object["kind"] && reference["name"] == object["metadata"]["name"]
}
