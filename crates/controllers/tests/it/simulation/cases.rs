//! What chance may not come to in a while, tried each time.

use std::time::Duration;

use ferroplane_testkit::plane::condition;
use ferroplane_testkit::plane::sites::{SITES, is_ready};
use serde_json::{Value, json};

use super::chance::Chance;
use super::user::{Intent, User};
use super::world::World;
use super::{in_virtual_time, settle};
use crate::composed_usages;

/// How many writes the life of a site takes at most.
const WRITES: u64 = 24;

#[test]
fn controllers_can_be_killed_at_any_write() {
    for is_carried_out in [false, true] {
        in_virtual_time(async {
            let world = World::new(0).await;
            let mut user = User { world: &world, chance: Chance::new(0, 3), intent: Intent::default() };
            world.plane.define_sites().await;
            for write in 1..=WRITES {
                world.weather.kill_soon(write, is_carried_out);
                user.compose_of(&[("one", "ConfigMap"), ("two", "Secret")]).await;
                user.create_one("blog", "red").await;
                calm().await;
                user.compose_of(&[("two", "ConfigMap"), ("three", "ConfigMap")]).await;
                calm().await;
                let result = settle(&user).await;
                assert_eq!(result, Ok(()), "killed at write {write}, carried out: {is_carried_out}");
                user.delete("blog").await;
                let result = settle(&user).await;
                assert_eq!(result, Ok(()), "killed at write {write}, carried out: {is_carried_out}");
            }
            world.end().await;
        });
    }
}

#[test]
fn fight_over_one_site_is_told_and_does_not_slow_down_another() {
    in_virtual_time(async {
        let world = World::new(0).await;
        let mut user = User { world: &world, chance: Chance::new(0, 3), intent: Intent::default() };
        world.plane.define_sites().await;
        user.compose_of(&[("one", "ConfigMap")]).await;
        user.create_one("blog", "red").await;
        calm().await;
        user.fight().await;
        let blog = world.plane.get(&format!("{SITES}/blog")).await;
        assert_eq!(condition(&blog, "Responsive").as_deref(), Some("False/WatchCircuitOpen"));
        user.create_one("shop", "blue").await;
        let began_at = tokio::time::Instant::now();
        world.plane.until(&format!("{SITES}/shop"), is_ready).await;
        assert!(began_at.elapsed() < Duration::from_secs(1), "{:?}", began_at.elapsed());
        assert_eq!(settle(&user).await, Ok(()));
        world.end().await;
    });
}

#[test]
fn everything_is_followed_after_a_restart_although_nothing_had_to_be_written() {
    in_virtual_time(async {
        let world = World::new(0).await;
        let mut user = User { world: &world, chance: Chance::new(0, 3), intent: Intent::default() };
        world.plane.define_sites().await;
        user.compose_of(&[("one", "Secret"), ("two", "ConfigMap")]).await;
        user.create_one("blog", "red").await;
        assert_eq!(settle(&user).await, Ok(()));
        world.weather.kill_now();
        assert_eq!(settle(&user).await, Ok(()));

        user.mix_one("dark").await;
        assert_eq!(settle(&user).await, Ok(()), "what the function requires");
        user.edit_composed(&json!({"metadata": {"annotations": {"color": "drift"}}})).await;
        assert_eq!(settle(&user).await, Ok(()), "what is composed");
        user.compose_of(&[("one", "ConfigMap")]).await;
        assert_eq!(settle(&user).await, Ok(()), "the composition");
        world.end().await;
    });
}

#[test]
fn composition_that_changes_while_a_site_is_looked_at_for_the_first_time_is_heard_of() {
    in_virtual_time(async {
        let world = World::new(0).await;
        let mut user = User { world: &world, chance: Chance::new(0, 3), intent: Intent::default() };
        world.plane.define_sites().await;
        user.compose_of(&[("one", "ConfigMap"), ("two", "ConfigMap")]).await;
        user.create_one("blog", "red").await;
        assert_eq!(settle(&user).await, Ok(()));

        // Nothing is known of the site any more, and what it composes can be read only after the composition changed.
        *world.weather.delayed.lock().unwrap() = Some("/api/v1/configmaps");
        world.weather.kill_now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        user.compose_of(&[("two", "ConfigMap")]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        *world.weather.delayed.lock().unwrap() = None;
        assert_eq!(settle(&user).await, Ok(()));
        world.end().await;
    });
}

#[test]
fn sites_that_compose_usages_go_whenever_controllers_are_killed() {
    in_virtual_time(async {
        let world = World::new(0).await;
        world.plane.define_sites().await;
        world.plane.compose_sites_of(&composed_usages::pipeline(false)).await;
        for write in 1..=WRITES {
            for name in ["blog", "shop", "wiki"] {
                world.plane.create_site(name, "red").await;
            }
            let are_there = |list: &Value| list["items"].as_array().is_some_and(|usages| usages.len() == 3);
            world.plane.until(composed_usages::USAGES, are_there).await;
            calm().await;
            world.weather.kill_soon(write, write % 2 == 0);
            for name in ["blog", "shop", "wiki"] {
                world.plane.delete(&format!("{SITES}/{name}")).await;
            }
            composed_usages::nothing_is_left(&world.plane).await;
        }
        world.end().await;
    });
}

/// Wait for a minute.
async fn calm() {
    tokio::time::sleep(Duration::from_mins(1)).await;
}
