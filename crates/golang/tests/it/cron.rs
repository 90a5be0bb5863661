//! robfig/cron beside ours: every answer that `tests/go-cron/main.go` recorded is ours, too.

use ferroplane_golang::cron::Schedule;
use serde_json::{Value, json};

#[test]
fn recorded_schedules_are_those_of_robfigs_library() {
    let (mut times, mut errors) = (0, 0);
    for line in include_str!("cron.jsonl").lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let spec = recorded["spec"].as_str().unwrap();
        match Schedule::parse(spec) {
            Err(error) => {
                assert_eq!(recorded["error"], error.to_string(), "{spec}");
                errors += 1;
            }
            Ok(schedule) => {
                assert_eq!(recorded["error"], Value::Null, "{spec}");
                let next = |second: &i64| schedule.next(*second);
                let ours: Vec<_> =
                    std::iter::successors(recorded["after"].as_i64(), next).skip(1).take(4).collect();
                assert_eq!(json!(ours), recorded["next"], "{spec} after {}", recorded["after"]);
                times += ours.len();
            }
        }
    }
    assert!(times > 9_000 && errors > 20, "{times} times, {errors} errors");
}
