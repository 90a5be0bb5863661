//! What is known to have gone wrong in Crossplane, by the numbers of its issues, and must not go wrong here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferroplane_testkit::plane::condition;
use ferroplane_testkit::plane::sites::{SETTINGS, SITES, is_ready};
use ferroplane_wire::v1::RunFunctionRequest;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::chance::Chance;
use super::functions::{self, Function};
use super::user::{Intent, User};
use super::world::World;
use super::{in_virtual_time, settle};

pub(super) const BLOG: &str = "/apis/example.org/v1/namespaces/default/sites/blog";
const SHOP: &str = "/apis/example.org/v1/namespaces/default/sites/shop";
/// What is at once, for a user.
pub(super) const AT_ONCE: Duration = Duration::from_secs(1);

/// Live in a world with sites.
fn with_sites(life: impl AsyncFnOnce(&mut User<'_>)) {
    with_functions(Vec::new(), life);
}

/// The same, with more functions.
pub(super) fn with_functions(functions: Vec<Function>, life: impl AsyncFnOnce(&mut User<'_>)) {
    in_virtual_time(async {
        let world = World::with_functions(functions).await;
        let mut user = User { world: &world, chance: Chance::new(0, 3), intent: Intent::default() };
        world.plane.define_sites().await;
        life(&mut user).await;
        world.end().await;
    });
}

/// Wait until an object is as it should be, which must take no longer than this.
async fn within(limit: Duration, user: &User<'_>, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let began_at = Instant::now();
    let object = user.world.plane.until(path, is_so).await;
    assert!(began_at.elapsed() < limit, "took {:?}: {object:#}", began_at.elapsed());
    object
}

/// Whether a site is of this color, and everything that it becomes.
fn is_colored(color: &str) -> impl Fn(&Value) -> bool {
    move |site| site["status"]["color"] == color && is_ready(site)
}

fn is_stormy(site: &Value) -> bool {
    condition(site, "Responsive").as_deref() == Some("False/WatchCircuitOpen")
}

pub(super) async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_mins(count)).await;
}

/// Sites become what this step says, if they ask for it.
pub(super) async fn offer(user: &User<'_>, function: &str) {
    let composition = json!({
        "apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": {"name": function},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "Site"}, "mode": "Pipeline",
            "pipeline": [{"step": format!("step-of-{function}"), "functionRef": {"name": function}}],
        },
    });
    let path = format!("/apis/apiextensions.crossplane.io/v1/compositions/{function}");
    user.world.plane.apply(&path, &composition).await;
}

/// Make a site by a composition.
pub(super) async fn create_by(user: &User<'_>, composition: &str, name: &str, color: &str) {
    let site = json!({
        "apiVersion": "example.org/v1", "kind": "Site", "metadata": {"name": name},
        "spec": {"color": color, "crossplane": {"compositionRef": {"name": composition}}},
    });
    user.world.plane.apply(&format!("{SITES}/{name}"), &site).await;
}

fn setting(name: &str, color: &str) -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"color": color}});
    json!({"resource": object, "ready": "READY_TRUE"})
}

fn color_of(request: &RunFunctionRequest) -> String {
    let site = request.observed.as_ref().and_then(|observed| observed.composite()?.resource.as_ref());
    site.unwrap().json().unwrap()["spec"]["color"].as_str().unwrap().to_owned()
}

/// The color of the paint that a function asked for, if it was given any.
pub(super) fn paint_of(request: &RunFunctionRequest) -> Option<String> {
    let item = request.required_resources.get("paint")?.items.first()?;
    Some(item.resource.as_ref()?.json().ok()?["data"]["color"].as_str()?.to_owned())
}

/// A function that paints its site with paint that it has to ask for, and whose answers hold for a while.
fn painter(seconds: u64, calls: Arc<AtomicU64>) -> Function {
    functions::saying("function-painter", move |request| {
        calls.fetch_add(1, Ordering::Relaxed);
        let paint = paint_of(request).unwrap_or_else(|| "none".to_owned());
        json!({
            "meta": {"ttl": format!("{seconds}s")},
            "requirements": {"resources": {"paint": {
                "apiVersion": "v1", "kind": "ConfigMap", "matchName": "paint", "namespace": "default",
            }}},
            "desired": {
                "composite": {"resource": {"status": {"color": paint}}},
                "resources": {"canvas": setting("canvas", &paint)},
            },
        })
    })
}

async fn mix_paint(user: &User<'_>, color: &str) {
    let paint = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "paint"}, "data": {"color": color}});
    user.world.plane.apply(&format!("{SETTINGS}/paint"), &paint).await;
}

/// #6860, #6884: watches that could not be started were never started.
#[test]
fn kind_that_cannot_be_followed_when_it_is_defined_is_followed_later() {
    in_virtual_time(async {
        let world = World::new(0).await;
        let mut user = User { world: &world, chance: Chance::new(0, 3), intent: Intent::default() };
        *world.weather.blocked.lock().unwrap() = Some("/apis/example.org/v1/sites");
        world.plane.define_sites().await;
        user.compose_of(&[("one", "ConfigMap")]).await;
        user.create_one("blog", "red").await;
        minutes(10).await;
        assert_eq!(condition(&world.plane.get(BLOG).await, "Synced"), None, "nobody can know of it");
        *world.weather.blocked.lock().unwrap() = None;
        within(Duration::from_mins(1), &user, BLOG, is_ready).await;
        assert_eq!(settle(&user).await, Ok(()));
        world.end().await;
    });
}

/// #6860: after the API server had been away for long, some resources were never checked again.
#[test]
fn what_changed_while_the_api_server_was_away_is_seen_when_it_is_back() {
    with_sites(async |user| {
        user.compose_of(&[("one", "ConfigMap"), ("two", "Secret")]).await;
        user.create_one("blog", "red").await;
        user.create_one("wiki", "red").await;
        assert_eq!(settle(user).await, Ok(()));
        *user.world.weather.blocked.lock().unwrap() = Some("/");
        user.world.weather.cut_watches();
        user.create_one("blog", "blue").await;
        user.create_one("shop", "pink").await;
        user.delete("wiki").await;
        user.mix_one("dark").await;
        user.compose_of(&[("two", "Secret"), ("three", "ServiceAccount")]).await;
        minutes(30).await;
        *user.world.weather.blocked.lock().unwrap() = None;
        within(Duration::from_mins(1), user, BLOG, is_colored("blue")).await;
        within(AT_ONCE, user, SHOP, is_colored("pink")).await;
        assert_eq!(settle(user).await, Ok(()));
    });
}

/// #7711: after a restart, not everything was followed that had been before.
#[test]
fn what_a_function_requires_is_followed_after_a_restart_although_its_answer_holds() {
    let calls = Arc::new(AtomicU64::new(0));
    with_functions(vec![painter(24 * 3600, calls)], async |user| {
        offer(user, "function-painter").await;
        mix_paint(user, "green").await;
        create_by(user, "function-painter", "blog", "red").await;
        user.world.plane.until(BLOG, is_colored("green")).await;
        minutes(1).await;
        user.world.weather.kill_now();
        minutes(1).await;
        mix_paint(user, "blue").await;
        within(AT_ONCE, user, BLOG, is_colored("blue")).await;
    });
}

/// #7703: what happened while the breaker was open was forgotten.
#[test]
fn last_state_is_seen_although_it_came_while_too_much_happened() {
    with_sites(async |user| {
        user.compose_of(&[("one", "ConfigMap")]).await;
        user.create_one("blog", "red").await;
        minutes(1).await;
        user.fight().await;
        assert!(is_stormy(&user.world.plane.get(BLOG).await));
        // Nothing happens any more.
        let color = |list: &Value| list["items"][0]["metadata"]["annotations"]["color"].clone();
        let composed = format!("{SETTINGS}?labelSelector=crossplane.io/composite=blog");
        within(Duration::from_secs(31), user, &composed, |list| color(list) == "red").await;
        minutes(6).await;
        assert!(!is_stormy(&user.world.plane.get(BLOG).await));
        assert_eq!(settle(user).await, Ok(()));
    });
}

/// #7200: an XR that was made anew inherited the open breaker of the one before, and nobody looked at it for hours.
#[test]
fn site_that_is_made_anew_does_not_inherit_a_storm() {
    with_sites(async |user| {
        user.compose_of(&[("one", "ConfigMap")]).await;
        user.create_one("blog", "red").await;
        minutes(1).await;
        user.fight().await;
        assert!(is_stormy(&user.world.plane.get(BLOG).await));
        user.delete("blog").await;
        within(AT_ONCE, user, BLOG, Value::is_null).await;
        user.create_one("blog", "blue").await;
        let blog = within(AT_ONCE, user, BLOG, is_colored("blue")).await;
        assert!(!is_stormy(&blog));
        assert_eq!(settle(user).await, Ok(()));
    });
}

/// #7114: many revisions of a composition opened the breaker.
#[test]
fn many_revisions_are_no_storm() {
    with_sites(async |user| {
        user.compose_of(&[("one", "ConfigMap")]).await;
        user.create_one("blog", "red").await;
        for round in 0..150 {
            let kind = if round % 2 == 0 { "Secret" } else { "ConfigMap" };
            user.compose_of(&[("one", kind), (&format!("number-{round}"), "ServiceAccount")]).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(!is_stormy(&user.world.plane.get(BLOG).await), "after {round} revisions");
        }
        assert_eq!(settle(user).await, Ok(()));
    });
}

/// #6910: an XR that only came to be used up the breaker, by its own writes.
#[test]
fn making_and_changing_many_resources_is_no_storm() {
    with_sites(async |user| {
        let names: Vec<_> = (0..120).map(|number| format!("number-{number}")).collect();
        let wishes: Vec<_> = names.iter().map(|name| (name.as_str(), "ConfigMap")).collect();
        user.compose_of(&wishes[..1]).await;
        user.create_one("blog", "red").await;
        minutes(1).await;
        user.compose_of(&wishes).await;
        for color in ["green", "blue", "pink"] {
            minutes(1).await;
            assert!(!is_stormy(&user.world.plane.get(BLOG).await), "before {color}");
            user.create_one("blog", color).await;
        }
        assert_eq!(settle(user).await, Ok(()));
    });
}

/// #6910: two reconciles of the same XR ran at the same time, and wrote again and again.
#[test]
fn storm_of_changes_to_one_site_is_merged_and_never_drops_the_last_state() {
    with_sites(async |user| {
        user.compose_of(&[("one", "ConfigMap"), ("two", "ConfigMap")]).await;
        user.create_one("blog", "red").await;
        user.create_one("shop", "red").await;
        assert_eq!(settle(user).await, Ok(()));
        let before = user.world.weather.writes();
        for round in 0..500 {
            user.create_one("blog", &format!("color-{round}")).await;
        }
        user.create_one("shop", "blue").await;
        within(AT_ONCE, user, SHOP, is_colored("blue")).await;
        within(AT_ONCE, user, BLOG, is_colored("color-499")).await;
        let writes = user.world.weather.writes() - before;
        // Two resources and the status of each color that was seen.
        assert!(writes < 3 * 502, "{writes}");
        assert_eq!(settle(user).await, Ok(()));
    });
}

/// #6898: two patches per resource and minute although nothing changed.
#[test]
fn functions_that_are_asked_every_minute_have_nothing_written() {
    let calls = Arc::new(AtomicU64::new(0));
    with_functions(vec![painter(60, calls.clone())], async |user| {
        offer(user, "function-painter").await;
        mix_paint(user, "green").await;
        create_by(user, "function-painter", "blog", "red").await;
        minutes(5).await;
        let (called, written) = (calls.load(Ordering::Relaxed), user.world.weather.writes());
        minutes(60).await;
        let called = calls.load(Ordering::Relaxed) - called;
        assert!((50..=70).contains(&called), "{called}");
        assert_eq!(user.world.weather.writes() - written, 0);
    });
}

/// #6961: an answer that still wanted to see something was kept, and never given what it wanted.
#[test]
fn answer_that_still_wants_to_see_something_is_not_kept() {
    let calls = Arc::new(AtomicU64::new(0));
    with_functions(vec![painter(24 * 3600, calls)], async |user| {
        offer(user, "function-painter").await;
        create_by(user, "function-painter", "blog", "red").await;
        user.world.plane.until(BLOG, is_colored("none")).await;
        mix_paint(user, "green").await;
        within(AT_ONCE, user, BLOG, is_colored("green")).await;
        minutes(1).await;
        let before = user.world.weather.writes();
        // Those who know nothing ask without it, each time the same.
        for _ in 0..2 {
            user.world.weather.kill_now();
            minutes(1).await;
        }
        let canvas = user.world.plane.get(&format!("{SETTINGS}/canvas")).await;
        assert_eq!(canvas["data"]["color"], "green");
        assert_eq!(user.world.weather.writes(), before, "not even for a moment");
        user.world.plane.delete(&format!("{SETTINGS}/paint")).await;
        within(AT_ONCE, user, BLOG, is_colored("none")).await;
    });
}

/// #6597: functions were given nothing instead of what they required, and had everything deleted.
#[test]
fn what_cannot_be_read_is_not_taken_for_gone() {
    with_sites(async |user| {
        user.compose_of(&[("one", "Secret")]).await;
        user.mix_one("dark").await;
        user.create_one("blog", "red").await;
        assert_eq!(settle(user).await, Ok(()));

        *user.world.weather.blocked.lock().unwrap() = Some("/api/v1/configmaps");
        user.world.weather.kill_now();
        minutes(1).await;
        user.create_one("blog", "blue").await;
        minutes(1).await;
        let blog = user.world.plane.get(BLOG).await;
        assert_eq!(condition(&blog, "Synced").as_deref(), Some("False/ReconcileError"), "{blog:#}");
        let secrets = user.world.plane.get("/api/v1/namespaces/default/secrets").await;
        let secrets = secrets["items"].as_array().unwrap();
        let shades: Vec<_> =
            secrets.iter().map(|secret| &secret["metadata"]["annotations"]["shade"]).collect();
        assert_eq!(shades, ["dark"]);

        *user.world.weather.blocked.lock().unwrap() = None;
        assert_eq!(settle(user).await, Ok(()));
    });
}

#[test]
fn change_by_the_user_does_not_wait_for_a_storm_to_end() {
    with_sites(async |user| {
        user.compose_of(&[("one", "ConfigMap")]).await;
        user.create_one("blog", "red").await;
        minutes(1).await;
        user.fight().await;
        assert!(is_stormy(&user.world.plane.get(BLOG).await));
        for color in ["green", "blue", "pink"] {
            user.create_one("blog", color).await;
            within(AT_ONCE, user, BLOG, is_colored(color)).await;
        }
        let asked = json!({"metadata": {"annotations": {"crossplane.io/reconcile-requested-at": "now"}}});
        user.world.plane.merge(BLOG, &asked).await;
        within(AT_ONCE, user, BLOG, |site| site["status"]["lastHandledReconcileAt"] == "now").await;
        assert!(is_stormy(&user.world.plane.get(BLOG).await));
        assert_eq!(settle(user).await, Ok(()));
    });
}

/// Somebody may fight over the site itself, too.
#[test]
fn changes_that_never_end_wait_for_calm_in_the_end() {
    with_sites(async |user| {
        user.compose_of(&[("one", "ConfigMap")]).await;
        user.create_one("blog", "red").await;
        minutes(1).await;
        user.fight().await;
        let before = user.world.weather.writes();
        for round in 0..200 {
            user.create_one("blog", &format!("color-{round}")).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let writes = user.world.weather.writes() - before;
        assert!(writes < 120, "{writes}");
        assert_eq!(settle(user).await, Ok(()));
    });
}

#[test]
fn function_that_changes_its_mind_is_slowed_down_but_not_its_user_nor_other_sites() {
    let calls = Arc::new(AtomicU64::new(0));
    let counter = calls.clone();
    let fickle = functions::saying("function-fickle", move |request| {
        let number = counter.fetch_add(1, Ordering::Relaxed);
        json!({"desired": {
            "composite": {"resource": {"status": {"color": color_of(request)}}},
            "resources": {"a": setting("a", &number.to_string())},
        }})
    });
    with_functions(vec![fickle], async |user| {
        user.compose_of(&[("one", "ConfigMap")]).await;
        offer(user, "function-fickle").await;
        create_by(user, "function-fickle", "blog", "red").await;
        minutes(10).await;
        let before = calls.load(Ordering::Relaxed);
        minutes(10).await;
        let asked = calls.load(Ordering::Relaxed) - before;
        assert!((10..=42).contains(&asked), "{asked}");
        user.world.plane.merge(BLOG, &json!({"spec": {"color": "blue"}})).await;
        within(AT_ONCE, user, BLOG, |site| site["status"]["color"] == "blue").await;
        create_by(user, "sites", "shop", "pink").await;
        within(AT_ONCE, user, SHOP, is_colored("pink")).await;
    });
}

#[test]
fn function_that_is_of_no_use_harms_only_its_own_sites_and_is_named() {
    let wrong = |_: &RunFunctionRequest| json!({"desired": {"resources": {"a": {"resource": {"apiVersion": "v1", "kind": "Nonsense"}}}}});
    let fatal =
        |_: &RunFunctionRequest| json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]});
    let useless = vec![
        functions::silent("function-silent"),
        functions::absent("function-absent"),
        functions::saying("function-wrong", wrong),
        functions::saying("function-fatal", fatal),
    ];
    with_functions(useless, async |user| {
        user.compose_of(&[("one", "ConfigMap")]).await;
        create_by(user, "sites", "blog", "red").await;
        user.world.plane.until(BLOG, is_ready).await;
        for function in ["function-silent", "function-absent", "function-wrong", "function-fatal"] {
            offer(user, function).await;
            // More than are worked on at a time.
            for number in 0..120 {
                create_by(user, function, &format!("{function}-{number}"), "red").await;
            }
            minutes(3).await;
            let site = user.world.plane.get(&format!("{SITES}/{function}-7")).await;
            let conditions = site["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let synced = conditions.iter().find(|condition| condition["type"] == "Synced");
            let synced = synced.unwrap_or_else(|| panic!("{function}: {site:#}"));
            assert_eq!(synced["reason"], "ReconcileError", "{function}: {synced}");
            let message = synced["message"].as_str().unwrap();
            assert!(message.contains(&format!("step-of-{function}")), "{function}: {message}");

            user.world.plane.merge(BLOG, &json!({"spec": {"color": function}})).await;
            within(Duration::from_secs(3), user, BLOG, is_colored(function)).await;
        }
    });
}
