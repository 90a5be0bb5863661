//! An ActionSet that is deleted while the phases at its end do not end.

use ferroplane_controllers::Clock;
use ferroplane_testkit::plane::Plane;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{ACTION_SETS, run, set_gate, wait};

#[tokio::test]
async fn defer_phase_that_takes_too_long_after_a_deletion_is_given_up() {
    let mut plane = Plane::new().await;
    set_gate(&plane, "no").await;
    let action = json!({"phases": [wait("gate", "1h")], "deferPhase": wait("end", "1h")});
    run(&plane, &action, &json!({}), "running").await;
    let path = format!("{ACTION_SETS}/s");
    plane.until(&path, |it| it["status"]["actions"][0]["phases"][0]["state"] == "running").await;
    plane.delete(&path).await;
    let defers = |it: &Value| it["status"]["actions"][0]["deferPhase"]["state"] == "running";
    plane.until(&path, defers).await;
    plane.quiet().await;
    assert!(defers(&plane.get(&path).await), "it has time left");

    plane.stop().await;
    plane.clock = Clock::new(|| Timestamp::now() + SignedDuration::from_mins(6));
    plane.start().await;
    plane.until(&path, Value::is_null).await;
    plane.until_said("s", "Warning/DeferPhaseGivenUp").await;
}
