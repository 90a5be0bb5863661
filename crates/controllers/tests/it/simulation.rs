//! Simulates a control plane in bad weather: a user changes things while requests are refused, lost and late, watches
//! end and lag, functions fail and change their mind, clocks jump and controllers are killed. Then all of that stops, and
//! everything has to become what the user wants, and to stay so.
//!
//! Time is virtual and chance comes from a seed. `FERROPLANE_SEEDS=7` repeats a seed, `FERROPLANE_SEEDS=0..1000` tries
//! many; `cargo xtask simulate` does both. The same seed has the same luck, user and names, and mostly
//! the same story: which of several tasks goes first that were woken by the same event is up to tokio, so that what one
//! run finds another may miss. `FERROPLANE_TRACE=1` prints the story even if nothing is wrong.

mod cases;
mod chance;
mod checker;
mod faults;
mod functions;
mod lessons;
mod user;
mod watches;
mod weather;
mod world;

use std::ops::Range;
use std::time::Duration;

use chance::Chance;
use user::{Intent, User};
use world::World;

/// The seeds that are always tried.
const SEEDS: Range<u64> = 0..12;
/// How many things a user does while everything goes wrong.
const THINGS: u64 = 25;
/// For how long everything goes wrong after the user has deleted everything.
const GOODBYE: Duration = Duration::from_mins(1);

#[test]
fn everything_converges_and_then_stays_still() {
    let seeds = seeds();
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        if let Err(wrongs) = simulate(seed) {
            eprintln!("seed {seed}: {wrongs:#?}");
            failed.push(seed);
        }
    }
    assert!(
        failed.is_empty(),
        "seeds of {seeds:?} that failed: {failed:?}; FERROPLANE_SEEDS={} repeats one",
        failed[0]
    );
}

/// What the user of the test wants to try.
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("FERROPLANE_SEEDS") else { return SEEDS };
    let number =
        |text: &str| text.trim().parse::<u64>().expect("FERROPLANE_SEEDS is a number, or two as in 0..100");
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    }
}

fn simulate(seed: u64) -> Result<(), Vec<String>> {
    in_virtual_time(async {
        // Every third one proves that nothing is deleted that is wanted, which can be told only if wishes do not change.
        let world = World::with(seed, seed.is_multiple_of(3), Vec::new()).await;
        let mut user = User { world: &world, chance: Chance::new(seed, 3), intent: Intent::default() };
        let result = live(&mut user).await;
        if result.is_err() || std::env::var_os("FERROPLANE_TRACE").is_some() {
            for line in world.weather.trace() {
                eprintln!("{line}");
            }
        }
        world.end().await;
        result
    })
}

/// On one thread, whose time passes only when there is nothing to do.
fn in_virtual_time<T>(life: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(life)
}

async fn live(user: &mut User<'_>) -> Result<(), Vec<String>> {
    let world = user.world;
    user.set_up().await;
    world.weather.set_stormy(true);
    user.do_things(THINGS).await;
    world.weather.set_stormy(false);
    user.pause_nothing().await;
    settle(user).await?;
    world.weather.set_stormy(true);
    user.end_everything().await;
    tokio::time::sleep(GOODBYE).await;
    world.weather.set_stormy(false);
    settle(user).await
}

/// Everything becomes as it should be, and stays so.
async fn settle(user: &User<'_>) -> Result<(), Vec<String>> {
    let calm = checker::calm_down(user.world).await;
    let mut wrongs = checker::is_as_wanted(user.world, &user.intent).await;
    wrongs.extend(calm.err());
    wrongs.extend(checker::stay_still(user.world).await.err());
    if wrongs.is_empty() { Ok(()) } else { Err(wrongs) }
}
