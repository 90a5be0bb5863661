//! robfig/cron beside ours: every answer that `tests/go-cron` recorded is ours, too.

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

/// 2021 to 2024, in which clocks changed eight times in most places that change theirs.
const YEARS: std::ops::Range<i64> = 1_609_459_200..1_735_689_600;

/// Release 2026a of the time-zone database says that Moldova has changed its clocks with the European Union since 2022. Ours is
/// newer than that release, the one that Go recorded with is older.
const CORRECTED_SINCE: [&str; 2] = ["Europe/Chisinau", "Europe/Tiraspol"];

/// FNV-1a, as Go has it.
fn hash(times: &[i64]) -> u64 {
    let bytes = times.iter().flat_map(|time| time.to_be_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn years_of_schedules_in_every_zone_are_those_of_robfigs_library() {
    let lines: Vec<_> = include_str!("cron_zones.jsonl").lines().collect();
    let compare = |lines: &[&str]| {
        let (mut times, mut unlike) = (0, Vec::new());
        for line in lines {
            let recorded: Value = serde_json::from_str(line).unwrap();
            let (zone, spec) = (recorded["zone"].as_str().unwrap(), recorded["spec"].as_str().unwrap());
            let schedule = Schedule::parse_in(spec, zone).unwrap();
            let first = schedule.next(YEARS.start);
            let ours: Vec<_> = std::iter::successors(first, |second| schedule.next(*second))
                .take_while(|second| *second < YEARS.end)
                .collect();
            times += ours.len();
            let is_alike = json!(format!("{:016x}", hash(&ours))) == recorded["hash"];
            if is_alike == CORRECTED_SINCE.contains(&zone) {
                unlike.push(format!("{zone} {spec}: {} times, not {}", ours.len(), recorded["count"]));
            }
        }
        (times, unlike)
    };
    let (one, other) = lines.split_at(lines.len() / 2);
    let ((some, mut unlike), (others, more)) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| compare(one));
        (compare(other), beside.join().unwrap())
    });
    unlike.extend(more);
    assert!(unlike.is_empty(), "{unlike:#?}");
    assert!(
        some + others > 3_000_000 && lines.len() > 2 * 400,
        "{} times of {} lines",
        some + others,
        lines.len()
    );
}
