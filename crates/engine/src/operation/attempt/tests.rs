//! Attempts: when an operation is tried, and what its status says afterwards.

use super::*;

const NOW: &str = "2026-01-01T00:01:00Z";

fn operation(spec: &Value, status: &Value) -> Object {
    let operation = json!({"metadata": {"name": "o", "generation": 2}, "spec": spec, "status": status});
    operation.as_object().unwrap().clone()
}

fn failed() -> AttemptEnding {
    AttemptEnding::Failed(AttemptFailure::not_applied("no", "s", "r"))
}

fn succeeded(status: &Object) -> (Status, String) {
    let condition = conditions_in(&status["conditions"]).into_iter().find(|it| it.kind == SUCCEEDED).unwrap();
    (condition.status, condition.reason)
}

#[test]
fn operation_is_run_until_it_is_done_or_has_failed_often_enough() {
    let done = |status: &str| json!({"conditions": [{"type": "Succeeded", "status": status, "reason": "x"}]});
    let cases = [
        (json!({}), json!({}), Begin::Run),
        (json!({}), json!({"failures": 4}), Begin::Run),
        (json!({}), json!({"failures": 5}), Begin::GiveUp),
        (json!({"retryLimit": 0}), json!({}), Begin::GiveUp),
        (json!({}), done("Unknown"), Begin::Run),
        (json!({}), done("True"), Begin::Ended),
        (json!({"retryLimit": 99}), done("False"), Begin::Ended),
    ];
    for (spec, status, expected) in cases {
        assert_eq!(begin(&operation(&spec, &status), NOW), expected, "{spec} {status}");
    }
    let mut paused = operation(&json!({}), &json!({}));
    meta::set_annotation(&mut paused, keys::PAUSED, "true");
    assert_eq!(begin(&paused, NOW), Begin::Paused);
}

#[test]
fn failures_add_up_until_the_limit_and_pauses_grow() {
    let spec = json!({"retryLimit": 3});
    let mut it = operation(&spec, &json!({}));
    let mut pauses = Vec::new();
    for attempt in 1..=3 {
        assert_eq!(begin(&it, NOW), Begin::Run);
        let concluded = conclude(&it, Attempt::new(failed()), NOW);
        assert_eq!(concluded.status["failures"], attempt);
        let reasons: Vec<_> = concluded.events.iter().map(|event| event.reason.as_str()).collect();
        let gave_up =
            if attempt == 3 { &["InvalidResource", "MaxFailures"][..] } else { &["InvalidResource"] };
        assert_eq!(reasons, gave_up);
        pauses.push(concluded.retry_in.map(|pause| pause.as_secs()));
        it.insert("status".to_owned(), Value::Object(concluded.status));
    }
    assert_eq!(pauses, [Some(1), Some(2), None]);
    assert_eq!(begin(&it, NOW), Begin::Ended);
    let status = it["status"].as_object().unwrap();
    assert_eq!(succeeded(status), (Status::False, "PipelineError".to_owned()));
    let messages: Vec<_> = conditions_in(&status["conditions"]).into_iter().map(|it| it.message).collect();
    assert!(messages.contains(&"failure limit of 3 reached: no".to_owned()), "{messages:?}");
    assert_eq!(pause_after(40), LONGEST_PAUSE);
}

#[test]
fn operation_whose_attempts_are_interrupted_each_time_is_given_up() {
    let mut it = operation(&json!({"retryLimit": 1}), &json!({}));
    assert!(!has_begun(&it));
    it.insert("status".to_owned(), started(&it, NOW).into());
    let mut attempts = 1;
    while begin(&it, NOW) == Begin::Run {
        assert!(has_begun(&it));
        it.insert("status".to_owned(), restarted(&it, NOW).into());
        attempts += 1;
    }
    assert_eq!((attempts, begin(&it, NOW)), (7, Begin::GiveUp));
    let concluded = conclude(&it, Attempt::new(AttemptEnding::GaveUp), NOW);
    assert_eq!(succeeded(&concluded.status), (Status::False, "PipelineError".to_owned()));
    assert_eq!(concluded.events[0].message, "the control plane ended during 6 attempts");
    assert_eq!(concluded.events[0].reason, "MaxFailures");
    // One that may be tried more often may be interrupted more often, too.
    it.insert("spec".to_owned(), json!({"retryLimit": 2}));
    assert_eq!(begin(&it, NOW), Begin::Run);
}

#[test]
fn process_that_ends_between_two_attempts_interrupts_none() {
    for ending in [failed(), AttemptEnding::BrokenOff] {
        let mut it = operation(&json!({}), &json!({}));
        it.insert("status".to_owned(), started(&it, NOW).into());
        assert!(has_begun(&it));
        let concluded = conclude(&it, Attempt::new(ending), NOW);
        assert_eq!(concluded.standing, Standing::Running);
        it.insert("status".to_owned(), Value::Object(concluded.status));
        assert_eq!((begin(&it, NOW), has_begun(&it)), (Begin::Run, false));
        it.insert("status".to_owned(), started(&it, NOW).into());
        assert!(has_begun(&it));
    }
}

#[test]
fn attempt_that_is_broken_off_leaves_an_operation_alone_that_has_ended_meanwhile() {
    let mut it = operation(&json!({}), &json!({}));
    it.insert("status".to_owned(), started(&it, NOW).into());
    let done = conclude(&it, Attempt::new(AttemptEnding::Succeeded), NOW);
    it.insert("status".to_owned(), Value::Object(done.status));
    let concluded = conclude(&it, Attempt::new(AttemptEnding::BrokenOff), NOW);
    assert_eq!(concluded.standing, Standing::Succeeded);
}

#[test]
fn attempt_is_concluded_once_even_if_nobody_knows_whether_that_was_written() {
    for (ending, is_label) in [(failed(), false), (AttemptEnding::Succeeded, false), (failed(), true)] {
        let during = operation(&json!({"retryLimit": 3}), &json!({"failures": 1}));
        let mut now = during.clone();
        assert!(!is_concluded(&during, &now));
        if is_label {
            // Another user has changed something that has nothing to do with it.
            now.insert("metadata".to_owned(), json!({"name": "o", "labels": {"changed": "yes"}}));
            assert!(!is_concluded(&during, &now));
        }
        let concluded = conclude(&now, Attempt::new(ending), NOW);
        now.insert("status".to_owned(), Value::Object(concluded.status));
        assert!(is_concluded(&during, &now));
    }
}

#[test]
fn attempt_that_is_broken_off_is_no_failure_and_keeps_what_it_applied() {
    let started = started(&operation(&json!({}), &json!({"failures": 1})), NOW);
    let applied = Reference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: "a".to_owned(),
        namespace: None,
    };
    let attempt = Attempt { applied: vec![applied], ..Attempt::new(AttemptEnding::BrokenOff) };
    let concluded = conclude(&operation(&json!({}), &Value::Object(started)), attempt, NOW);
    assert_eq!((concluded.events.len(), concluded.retry_in), (0, None));
    assert_eq!((&concluded.status["failures"], succeeded(&concluded.status).0), (&json!(1), Status::Unknown));
    assert_eq!(concluded.status["appliedResourceRefs"][0]["name"], "a");
}

#[test]
fn references_are_recorded_before_anything_is_applied_and_those_that_were_not_needed_are_removed() {
    let reference = |name: &str| Reference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: name.to_owned(),
        namespace: None,
    };
    let names = |status: &Object| {
        let names = references_in(status).into_iter().map(|it| it["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    // An earlier attempt has applied one of them.
    let mut it = operation(&json!({}), &json!({}));
    it.insert("status".to_owned(), applying(&it, &[reference("a")]).into());
    let wanted = [reference("a"), reference("b"), reference("c")];
    let recorded = unrecorded(&it, &wanted);
    assert_eq!(recorded, wanted[1..]);
    it.insert("status".to_owned(), applying(&it, &wanted).into());
    assert_eq!(names(it["status"].as_object().unwrap()), ["a", "b", "c"]);
    assert!(unrecorded(&it, &wanted).is_empty());
    let attempt =
        Attempt { recorded: recorded.clone(), applied: vec![reference("b")], ..Attempt::new(failed()) };
    assert_eq!(names(&conclude(&it, attempt, NOW).status), ["a", "b"]);
    // Without any that was applied, the field is absent, as before.
    it.insert("status".to_owned(), applying(&operation(&json!({}), &json!({})), &recorded).into());
    let attempt = Attempt { recorded, ..Attempt::new(failed()) };
    assert_eq!(conclude(&it, attempt, NOW).status.get(REFERENCES), None);
}

#[test]
fn limit_of_zero_fails_without_an_attempt() {
    let it = operation(&json!({"retryLimit": 0}), &json!({}));
    let concluded = conclude(&it, Attempt::new(AttemptEnding::GaveUp), NOW);
    assert_eq!(succeeded(&concluded.status), (Status::False, "PipelineError".to_owned()));
    assert_eq!(concluded.status.get("failures"), None);
}

#[test]
fn outputs_replace_those_of_earlier_attempts_and_references_are_listed_once() {
    let output = |step: &str, count: i64| StepOutput {
        step: step.to_owned(),
        output: json!({"count": count}).as_object().unwrap().clone().try_into().unwrap(),
    };
    let reference = |kind: &str| Reference {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        name: "a".to_owned(),
        namespace: None,
    };
    let it = operation(&json!({}), &json!({"pipeline": [{"step": "b", "output": {"count": 1}}]}));
    let attempt = Attempt {
        outputs: vec![output("a", 3), output("b", 2)],
        applied: vec![reference("Secret"), reference("ConfigMap"), reference("Secret")],
        ..Attempt::new(AttemptEnding::Succeeded)
    };
    let concluded = conclude(&it, attempt, NOW);
    let expected = json!([{"step": "b", "output": {"count": 2}}, {"step": "a", "output": {"count": 3}}]);
    assert_eq!(concluded.status["pipeline"], expected);
    let kinds: Vec<_> =
        concluded.status["appliedResourceRefs"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["ConfigMap", "Secret"]);
    assert_eq!(succeeded(&concluded.status), (Status::True, "PipelineSuccess".to_owned()));
    assert_eq!(concluded.retry_in, None);
}

#[test]
fn operation_that_was_tried_for_too_long_is_given_up_however_often_it_may_fail() {
    let spec = json!({"activeDeadlineSeconds": 60, "retryLimit": 99});
    let mut it = operation(&spec, &json!({}));
    // Waiting to be tried for the first time takes none of its time.
    assert_eq!(begin(&it, NOW), Begin::Run);
    let status = started(&it, NOW);
    assert_eq!(status["startTime"], NOW);
    it.insert("status".to_owned(), status.into());
    let concluded = conclude(&it, Attempt::new(failed()), "2026-01-01T00:01:59.5Z");
    assert_eq!(concluded.retry_in, Some(Duration::from_secs(1)));
    it.insert("status".to_owned(), concluded.status.into());
    assert_eq!(started(&it, "2026-01-01T00:01:59Z")["startTime"], NOW);
    assert_eq!(begin(&it, "2026-01-01T00:01:59Z"), Begin::Run);
    let late = "2026-01-01T00:02:00Z";
    assert_eq!(begin(&it, late), Begin::GiveUp);
    for (attempt, message) in [
        (AttemptEnding::GaveUp, "active deadline of 60s exceeded"),
        (failed(), "active deadline of 60s exceeded: no"),
    ] {
        let concluded = conclude(&it, Attempt::new(attempt), late);
        assert_eq!(succeeded(&concluded.status), (Status::False, "PipelineError".to_owned()));
        let conditions = conditions_in(&concluded.status["conditions"]);
        assert!(conditions.iter().any(|it| it.message == message), "{conditions:?}");
        assert_eq!(concluded.events.last().unwrap().reason, "DeadlineExceeded");
        assert_eq!(concluded.retry_in, None);
    }
}

#[test]
fn when_it_began_is_not_written_where_nobody_asks() {
    assert_eq!(started(&operation(&json!({}), &json!({})), NOW).get("startTime"), None);
}

#[test]
fn event_tells_whether_the_step_or_its_function_required_something() {
    let step = json!({"step": "s", "requirements": {"requiredResources": [{"requirementName": "r"}]}});
    let it = operation(&json!({"pipeline": [step]}), &json!({}));
    let reason = |requirement: &str| {
        let (step, reason) = ("s".to_owned(), "no".to_owned());
        let failure = Failure::Requirement { step, requirement: requirement.to_owned(), reason };
        AttemptFailure::of_pipeline(&failure, &it).reason
    };
    assert_eq!((reason("r"), reason("other")), ("BootstrapRequirements", "FunctionInvocation"));
}

fn large_output(step: &str, size: usize) -> StepOutput {
    let output = Object::from_iter([("text".to_owned(), "x".repeat(size).into())]);
    StepOutput { step: step.to_owned(), output: output.try_into().unwrap() }
}

#[test]
fn results_have_to_fit_into_the_status_together_with_those_of_earlier_attempts() {
    let reference = |number: usize| Reference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: format!("map-{number}"),
        namespace: Some("default".to_owned()),
    };
    let fresh = operation(&json!({}), &json!({}));
    assert_eq!(check_results(&fresh, &[large_output("a", 1000)], &[reference(1)]), Ok(()));
    let outputs = [large_output("a", 1000), large_output("b", STATUS_LIMIT)];
    let failure = check_results(&fresh, &outputs, &[]).unwrap_err();
    assert_eq!((failure.reason, failure.point.cause), ("ResultTooLarge", Cause::FunctionResponseTooLarge));
    assert_eq!(failure.point.step, "b");
    let many: Vec<_> = (0..20_000).map(reference).collect();
    let failure = check_results(&fresh, &[], &many).unwrap_err();
    assert!(failure.message.contains("20000 applied objects"), "{}", failure.message);
    let earlier = json!({"pipeline": [{"step": "a", "output": {"text": "x".repeat(STATUS_LIMIT / 2)}}]});
    let again = operation(&json!({}), &earlier);
    let half = |step| [large_output(step, STATUS_LIMIT / 2)];
    assert_eq!(check_results(&again, &half("a"), &[]), Ok(()), "it takes the place of the earlier one");
    assert!(check_results(&again, &half("b"), &[]).is_err());
}

#[test]
fn message_of_any_length_leaves_a_small_status() {
    let failure = AttemptFailure::not_applied("x".repeat(3 << 20), "s", "r");
    for retries in [1, 5] {
        let it = operation(&json!({"retryLimit": retries}), &json!({}));
        let concluded = conclude(&it, Attempt::new(AttemptEnding::Failed(failure.clone())), NOW);
        assert!(json_size(&concluded.status) < 64 << 10, "{}", json_size(&concluded.status));
    }
}

#[test]
fn operation_whose_result_is_not_stored_fails_for_good_without_it() {
    let status = json!({"failures": 1, "pipeline": [{"step": "a"}], "appliedResourceRefs": [{"name": "n"}]});
    let mut it = operation(&json!({}), &status);
    let attempt = Attempt { outputs: vec![large_output("b", 9)], ..Attempt::new(AttemptEnding::TooLarge) };
    let concluded = conclude(&it, attempt, NOW);
    assert_eq!(succeeded(&concluded.status), (Status::False, "PipelineError".to_owned()));
    assert!(!concluded.status.contains_key("pipeline"));
    assert!(!concluded.status.contains_key("appliedResourceRefs"));
    assert_eq!((concluded.retry_in, concluded.events[0].reason.as_str()), (None, "ResultTooLarge"));
    it.insert("status".to_owned(), concluded.status.into());
    assert_eq!(begin(&it, NOW), Begin::Ended);
}
