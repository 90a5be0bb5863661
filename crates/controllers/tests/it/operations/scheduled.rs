//! Schedules: which operations they make, and when they make none.

use ferroplane_controllers::Clock;
use ferroplane_testkit::plane::{Plane, condition};
use serde_json::{Value, json};

use super::{FUNCTION, OPERATIONS, plane_that_answers, spec};

const CRONS: &str = "/apis/ops.crossplane.io/v1alpha1/cronoperations";

fn cron(schedule: &str) -> Value {
    json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "CronOperation", "metadata": {"name": "c"},
        "spec": {
            "schedule": schedule, "successfulHistoryLimit": 1,
            "operationTemplate": {"metadata": {"labels": {"team": "a"}}, "spec": spec()},
        },
    })
}

#[tokio::test]
async fn schedule_makes_operations_and_keeps_as_many_as_it_says() {
    let plane = plane_that_answers(|_| json!({"desired": {}})).await;
    plane.apply(&format!("{CRONS}/c"), &cron("@every 1s")).await;
    let first = plane.until(&format!("{CRONS}/c"), |it| it["status"]["lastScheduleTime"].is_string()).await;
    assert_eq!(condition(&first, "Scheduling").as_deref(), Some("True/ScheduleActive"));
    let later = plane
        .until(&format!("{CRONS}/c"), |it| {
            it["status"]["lastScheduleTime"] != first["status"]["lastScheduleTime"]
                && it["status"]["lastSuccessfulTime"].is_string()
        })
        .await;
    assert_eq!(condition(&later, "Synced").as_deref(), Some("True/ReconcileSuccess"));
    plane.merge(&format!("{CRONS}/c"), &json!({"spec": {"suspend": true}})).await;
    plane
        .until(&format!("{CRONS}/c"), |it| {
            condition(it, "Scheduling").as_deref() == Some("False/SchedulePaused")
        })
        .await;
    plane.quiet().await;
    let list = plane.get(OPERATIONS).await;
    let operations = list["items"].as_array().unwrap();
    assert_eq!(operations.len(), 1, "{operations:?}");
    let metadata = &operations[0]["metadata"];
    assert_eq!(metadata["labels"], json!({"team": "a", "ops.crossplane.io/cronoperation": "c"}));
    assert_eq!(metadata["ownerReferences"][0]["kind"], "CronOperation");
    assert!(metadata["name"].as_str().unwrap().starts_with("c-"));
}

#[tokio::test]
async fn schedule_keeps_the_newest_of_its_failed_operations() {
    let plane =
        plane_that_answers(|_| json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]})).await;
    let mut cron = cron("@every 1s");
    cron["spec"]["failedHistoryLimit"] = 2.into();
    cron["spec"]["operationTemplate"]["spec"]["retryLimit"] = 1.into();
    plane.apply(&format!("{CRONS}/c"), &cron).await;
    let second = |it: &Value| {
        let time = it["status"]["lastScheduleTime"].as_str()?.parse::<jiff::Timestamp>().ok()?;
        Some(time.as_second())
    };
    let first = plane.until(&format!("{CRONS}/c"), |it| second(it).is_some()).await;
    let first = second(&first).unwrap();
    plane.until(&format!("{CRONS}/c"), |it| second(it).is_some_and(|last| last >= first + 4)).await;
    plane.merge(&format!("{CRONS}/c"), &json!({"spec": {"suspend": true}})).await;
    let is_paused = |it: &Value| condition(it, "Scheduling").as_deref() == Some("False/SchedulePaused");
    plane.until(&format!("{CRONS}/c"), is_paused).await;
    plane.quiet().await;
    let last = second(&plane.get(&format!("{CRONS}/c")).await).unwrap();
    let kept = times(&plane).await;
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(kept.contains(&last) && kept.iter().all(|time| *time > first), "{first} {kept:?} {last}");
}

#[tokio::test]
async fn schedule_that_cannot_be_read_says_so() {
    let plane = Plane::new().await;
    plane.apply(&format!("{CRONS}/c"), &cron("often")).await;
    let refused = plane
        .until(&format!("{CRONS}/c"), |it| {
            condition(it, "Scheduling").as_deref() == Some("False/ScheduleInvalid")
        })
        .await;
    let conditions = refused["status"]["conditions"].as_array().unwrap();
    let scheduling = conditions.iter().find(|it| it["type"] == "Scheduling").unwrap();
    assert_eq!(scheduling["code"], "ScheduleInvalid");
    assert_eq!(
        scheduling["message"],
        "cannot schedule operations: expected exactly 5 fields, found 1: [often]"
    );
}

/// As in the design of operations: an input without apiVersion and kind, a deadline as a duration, and all policies.
#[tokio::test]
async fn manifest_of_the_design_is_taken_as_it_is_written() {
    let plane = plane_that_answers(|request| {
        let input = request.input.as_ref().unwrap().json().unwrap();
        json!({"output": {"batches": input["batches"]}})
    })
    .await;
    let input = json!({"targets": {"apiVersion": "example.org/v1", "kind": "KubernetesCluster"}, "batches": [0.01, 0.1, 0.5, 1.0]});
    let pipeline = json!([{"step": "rolling-upgrade", "functionRef": {"name": FUNCTION}, "input": input}]);
    let template = json!({"spec": {"retryLimit": 5, "mode": "Pipeline", "pipeline": pipeline}});
    let cron = json!({
        "apiVersion": "ops.crossplane.io/v1alpha1", "kind": "CronOperation", "metadata": {"name": "cluster-rolling-upgrade"},
        "spec": {
            "schedule": "@every 1s", "startDeadline": "10m", "successfulHistoryLimit": 3, "failedHistoryLimit": 3,
            "concurrencyPolicy": "Forbid", "operationTemplate": template,
        },
    });
    plane.apply(&format!("{CRONS}/cluster-rolling-upgrade"), &cron).await;
    let is_done = |list: &Value| {
        let mut items = list["items"].as_array().unwrap().iter();
        items.any(|it| it["status"]["pipeline"][0]["output"] == json!({"batches": [0.01, 0.1, 0.5, 1]}))
    };
    plane.until(OPERATIONS, is_done).await;
}

fn deciding(policy: &str) -> Value {
    let mut cron = cron("* * * * *");
    cron["spec"]["concurrencyPolicy"] = policy.into();
    cron
}

async fn until_scheduled(plane: &Plane) -> Value {
    plane.until(&format!("{CRONS}/c"), |it| condition(it, "Scheduling").is_some()).await
}

/// The times of the operations that there are.
async fn times(plane: &Plane) -> Vec<i64> {
    let list = plane.get(OPERATIONS).await;
    let names = list["items"].as_array().unwrap().iter().map(|it| it["metadata"]["name"].as_str().unwrap());
    names.filter_map(|name| name.strip_prefix("c-")?.parse().ok()).collect()
}

#[tokio::test]
async fn schedule_that_is_invalid_is_told_and_not_tried_again() {
    let plane = Plane::new().await;
    plane.apply(&format!("{CRONS}/c"), &cron("0 0 31 2 *")).await;
    until_scheduled(&plane).await;
    plane.until_said("c", "InvalidSchedule").await;
    assert!(plane.quiet().await.len() < 20, "it is looked at once");
    assert!(times(&plane).await.is_empty());
    // A schedule that is corrected continues.
    plane.merge(&format!("{CRONS}/c"), &json!({"spec": {"schedule": "* * * * *"}})).await;
    plane
        .until(&format!("{CRONS}/c"), |it| {
            condition(it, "Scheduling").as_deref() == Some("True/ScheduleActive")
        })
        .await;
}

#[tokio::test]
async fn schedule_whose_operation_cannot_be_created_says_so() {
    let plane = plane_that_answers(|_| json!({"desired": {}})).await;
    // Operations have the name of their schedule in a label, which is limited to 63 characters.
    let name = "c".repeat(70);
    let path = format!("{CRONS}/{name}");
    let mut cron = cron("@every 1s");
    cron["metadata"]["name"] = name.as_str().into();
    plane.apply(&path, &cron).await;
    let is_so = |it: &Value| condition(it, "Synced").as_deref() == Some("False/ReconcileError");
    let refused = plane.until(&path, is_so).await;
    assert_eq!(condition(&refused, "Scheduling").as_deref(), Some("True/ScheduleActive"));
    let conditions = refused["status"]["conditions"].as_array().unwrap();
    let synced = conditions.iter().find(|it| it["type"] == "Synced").unwrap();
    assert_eq!(synced["code"], "OperationNotCreated");
    let message = synced["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("cannot create Operation `{name}-")), "{message}");
    plane.until_said(&name, "CreateOperation").await;
    assert!(refused["status"]["lastScheduleTime"].is_null(), "{refused}");
}

#[tokio::test]
async fn schedule_moves_on_if_the_operation_of_its_time_exists() {
    let plane = plane_that_answers(|_| json!({"desired": {}})).await;
    // Somebody else was faster for all times to come, such as another replica whose clock is ahead.
    let now: i64 = jiff::Timestamp::now().as_second();
    for time in now..now + 8 {
        let mut operation = super::operation(&format!("c-{time}"), &spec());
        operation["metadata"]["labels"] = json!({"ops.crossplane.io/cronoperation": "c"});
        plane.apply(&format!("{OPERATIONS}/c-{time}"), &operation).await;
    }
    plane.apply(&format!("{CRONS}/c"), &cron("@every 1s")).await;
    let later = |it: &Value| {
        let last =
            it["status"]["lastScheduleTime"].as_str().and_then(|it| it.parse::<jiff::Timestamp>().ok());
        last.is_some_and(|last| last.as_second() >= now + 9)
    };
    let cron = plane.until(&format!("{CRONS}/c"), later).await;
    assert_eq!(condition(&cron, "Synced").as_deref(), Some("True/ReconcileSuccess"));
}

#[tokio::test]
async fn time_that_was_missed_by_more_than_the_deadline_is_left_out_and_the_next_one_comes() {
    let mut plane = plane_that_answers(|_| json!({"desired": {}})).await;
    let mut cron = cron("@every 2s");
    cron["spec"]["startingDeadlineSeconds"] = 1.into();
    cron["spec"]["successfulHistoryLimit"] = 1000.into();
    plane.apply(&format!("{CRONS}/c"), &cron).await;
    plane.until(&format!("{CRONS}/c"), |it| it["status"]["lastScheduleTime"].is_string()).await;
    plane.stop().await;
    let before = times(&plane).await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    plane.start().await;
    let last = before.iter().max().copied().unwrap();
    plane.until(OPERATIONS, |list| list["items"].as_array().unwrap().len() >= before.len() + 2).await;
    let after = times(&plane).await;
    let missed = after.iter().filter(|time| (last + 1..last + 4).contains(*time)).count();
    assert_eq!(missed, 0, "{before:?} {after:?}");
}

#[tokio::test]
async fn time_that_was_missed_is_told() {
    let mut plane = plane_that_answers(|_| json!({"desired": {}})).await;
    plane.stop().await;
    // The schedule is created before the next full hour, and its controller sees it half an hour after that.
    let passed = jiff::Timestamp::now().as_second() % 3600;
    // If that hour is about to come, the one after it: the schedule may be created a moment later.
    let until_half_past = if passed > 3500 { 9000 - passed } else { 5400 - passed };
    let ahead = jiff::SignedDuration::from_secs(until_half_past);
    plane.clock = Clock::new(move || jiff::Timestamp::now() + ahead);
    plane.start().await;
    let mut cron = cron("0 * * * *");
    cron["spec"]["startingDeadlineSeconds"] = 60.into();
    plane.apply(&format!("{CRONS}/c"), &cron).await;
    plane.until_said("c", ":00:00Z: it would start later than it may").await;
    let events = plane.get("/api/v1/events").await;
    let mut events = events["items"].as_array().unwrap().iter();
    let missed = events.find(|it| it["reason"] == "MissedDeadline").unwrap();
    assert!(missed["metadata"]["annotations"].to_string().contains("StartDeadlineMissed"), "{missed:#}");
    plane.quiet().await;
    assert!(times(&plane).await.is_empty());
}

#[tokio::test]
async fn schedule_lists_the_operation_that_runs_and_waits_for_it() {
    let plane =
        plane_that_answers(|_| json!({"results": [{"severity": "SEVERITY_FATAL", "message": "no"}]})).await;
    let mut cron = cron("@every 1s");
    cron["spec"]["concurrencyPolicy"] = "Forbid".into();
    cron["spec"]["operationTemplate"]["spec"]["retryLimit"] = 1000.into();
    plane.apply(&format!("{CRONS}/c"), &cron).await;
    let running = |it: &Value| it["status"]["runningOperationRefs"].clone();
    let first = plane.until(&format!("{CRONS}/c"), |it| running(it).is_array()).await;
    let name = running(&first)[0]["name"].as_str().unwrap().to_owned();
    // Several times come and go meanwhile.
    let path = format!("{OPERATIONS}/{name}");
    plane.until(&path, |it| it["status"]["failures"].as_u64() >= Some(3)).await;
    assert_eq!(times(&plane).await.len(), 1);
    assert_eq!(running(&plane.get(&format!("{CRONS}/c")).await), json!([{"name": name}]));
    plane.delete(&path).await;
    let is_next = |it: &Value| running(it).is_array() && running(it) != json!([{"name": name}]);
    plane.until(&format!("{CRONS}/c"), is_next).await;
}

#[tokio::test]
async fn paused_schedule_is_resumed_at_once() {
    let plane = plane_that_answers(|_| json!({"desired": {}})).await;
    let mut paused = cron("@every 1s");
    paused["metadata"]["annotations"] = json!({"crossplane.io/paused": "true"});
    plane.apply(&format!("{CRONS}/c"), &paused).await;
    let is_paused = |it: &Value| condition(it, "Scheduling").as_deref() == Some("False/SchedulePaused");
    let it = plane.until(&format!("{CRONS}/c"), is_paused).await;
    assert_eq!(condition(&it, "Synced").as_deref(), Some("False/ReconcilePaused"));
    plane.quiet().await;
    assert!(times(&plane).await.is_empty());
    let resume = json!({"metadata": {"annotations": {"crossplane.io/paused": null}}});
    plane.merge(&format!("{CRONS}/c"), &resume).await;
    plane.until(&format!("{CRONS}/c"), |it| it["status"]["lastSuccessfulTime"].is_string()).await;
}

#[tokio::test]
async fn operations_of_a_schedule_that_is_deleted_go_with_it() {
    let plane = plane_that_answers(|_| json!({"desired": {}})).await;
    plane.apply(&format!("{CRONS}/c"), &cron("@every 1s")).await;
    plane.until(OPERATIONS, |list| list["items"].as_array().is_some_and(|it| !it.is_empty())).await;
    plane.delete(&format!("{CRONS}/c")).await;
    plane.until(OPERATIONS, |list| list["items"] == json!([])).await;
}

#[tokio::test]
async fn policies_are_those_that_there_are() {
    let plane = Plane::new().await;
    for (policy, is_known) in [("Allow", true), ("Forbid", true), ("Replace", true), ("Often", false)] {
        let path = format!("{CRONS}/c?fieldManager=user&force=true&dryRun=All");
        let kind = "application/apply-patch+yaml";
        let (code, answer) = plane.send(http::Method::PATCH, &path, kind, &deciding(policy)).await;
        assert_eq!(code < 300, is_known, "{policy}: {answer}");
    }
}
