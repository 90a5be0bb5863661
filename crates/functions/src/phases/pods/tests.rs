//! Tests of functions that run images.
#![expect(clippy::match_same_arms, reason = "it reads better here as it is")]

use ferroplane_api::meta;
use ferroplane_engine::action::{Answer, ContainerEnding, ContainerGroup, ContainerRun, Refused, Scope};
use serde_json::json;

use super::*;
use crate::phases::testing::{Crash, CrashCase, End, FakeCluster, INTERRUPTED_ONCE, Plane, object, refused};

const PRINTED: &str = "dumping\n###Phase-output###:{\"key\":\"path\",\"value\":\"/a\"}\n";

fn task() -> Plane<'static> {
    Plane::of(&KubeTask::V0_0, json!({"image": "tools:1", "command": ["sh", "-c", "dump"]}))
}

/// The process that runs pods ends all of them so.
fn ends(status: Value) -> impl Fn(&mut FakeCluster) -> bool {
    move |cluster| {
        for name in cluster.names("Pod") {
            cluster.change("Pod", "team", &name, &json!({"status": status}));
        }
        true
    }
}

fn succeeds() -> impl Fn(&mut FakeCluster) -> bool {
    ends(json!({"phase": "Succeeded"}))
}

fn logging(log: &str) -> FakeCluster {
    FakeCluster { log: log.to_owned(), ..FakeCluster::default() }
}

#[test]
fn pod_is_run_its_output_kept_and_the_pod_deleted() {
    let mut cluster = logging(PRINTED);
    let output = task().run_while(&mut cluster, &succeeds()).output();
    assert_eq!(output, json!({"path": "/a"}));
    assert!(cluster.names("Pod").is_empty());
    let [created, deleted] = &cluster.effects[..] else { panic!("{:?}", cluster.effects) };
    assert!(created.starts_with("create Pod kanister-job-") && deleted.starts_with("delete kanister-job-"));
}

fn two_containers() -> Plane<'static> {
    Plane::of(
        &MultiContainerRun::V0_0,
        json!({"backgroundImage": "b", "backgroundCommand": ["serve"], "outputImage": "o", "outputCommand": ["read"],
        "initImage": "i", "initCommand": ["mkfifo"], "sharedVolumeMedium": "Memory", "sharedVolumeSizeLimit": "1Gi",
        "sharedVolumeDir": "/shared"}),
    )
}

fn preparation(fails: bool) -> Plane<'static> {
    Plane::of(
        &PrepareData,
        json!({"namespace": "team", "image": "i", "command": ["c"], "volumes": {"d": "/d"}, "failOnError": fails}),
    )
}

/// A log with output that no checkpoint can hold.
fn large_log() -> String {
    let large = "x".repeat(100_000);
    format!("{PRINTED}###Phase-output###:{{\"key\":\"all\",\"value\":\"{large}\"}}")
}

/// A log of many parts, with output at its beginning, in its middle and at its end.
fn long_log() -> FakeCluster {
    let line = |key: &str| format!("###Phase-output###:{{\"key\":\"{key}\",\"value\":\"1\"}}\n");
    let noise = "noise\n".repeat(50);
    let log = [line("first"), noise.clone(), line("middle"), noise, line("last")].concat();
    FakeCluster { log_chunk: Some(100), ..logging(&log) }
}

/// A pod is found again. Containers are not, so that whether they ran is not known.
pub(in crate::phases) fn crashes() -> Vec<CrashCase> {
    let case = |function, version, plane: Plane<'static>| {
        let arguments = Value::Object(plane.arguments);
        let meanwhile = Box::new(succeeds());
        CrashCase { cluster: logging(PRINTED), meanwhile, ..CrashCase::of(function, version, arguments) }
    };
    let without_pods = |function, version, plane: Plane<'static>| {
        let ended = || ["container", "output"].map(|name| ending(name, 0, PRINTED)).into();
        let commands = [(); 2].map(|()| Answer::ContainersEnded(ended()));
        let cluster = FakeCluster { commands: commands.into(), ..FakeCluster::default() };
        CrashCase {
            pods: PodSupport::Containers,
            cluster,
            interrupted: INTERRUPTED_ONCE,
            ..case(function, version, plane)
        }
    };
    let mut cases = vec![
        case("PrepareData", "v0.0.0", preparation(true)),
        CrashCase { cluster: long_log(), ..case("KubeTask", "v0.0.0", task()) },
        // Its output is read in the same move in which its pod is deleted: if that answer is lost, so is the output.
        CrashCase {
            cluster: logging(&large_log()),
            interrupted: &[Crash::After(5)],
            ..case("KubeTask", "v0.0.0", task())
        },
    ];
    for version in ["v0.0.0", "v0.1.0"] {
        cases.push(case("KubeTask", version, task()));
        cases.push(case("MultiContainerRun", version, two_containers()));
        cases.push(without_pods("KubeTask", version, task()));
        cases.push(without_pods("MultiContainerRun", version, two_containers()));
    }
    for (function, mut plane) in [("KubeTask", task()), ("MultiContainerRun", two_containers())] {
        plane.arguments.insert("onInterruption".to_owned(), "Rerun".into());
        cases.push(CrashCase { interrupted: &[], ..without_pods(function, "v0.1.0", plane) });
    }
    cases
}

#[test]
fn pod_is_run_once_wherever_the_plane_stops() {
    for place in 1..8 {
        for crash in [Crash::Before(place), Crash::After(place)] {
            let mut cluster = logging(PRINTED);
            Plane { crash, ..task() }.run_while(&mut cluster, &succeeds());
            assert!(cluster.names("Pod").is_empty(), "{crash:?}");
        }
    }
}

#[test]
fn output_that_no_checkpoint_can_hold_is_not_lost() {
    let mut cluster = logging(&large_log());
    let output = task().run_while(&mut cluster, &succeeds()).output();
    assert_eq!((output["all"].as_str().unwrap().len(), &output["path"]), (100_000, &json!("/a")));
    assert!(cluster.names("Pod").is_empty());
}

#[test]
fn output_is_found_wherever_it_is_in_a_long_log() {
    let output = task().run_while(&mut long_log(), &succeeds()).output();
    assert_eq!(output, json!({"first": "1", "middle": "1", "last": "1"}));
}

#[test]
fn position_in_a_log_counts_the_bytes_of_the_log() {
    let checkpoint = json!({"step": "read", "log": {"offset": 10}, "since": 0, "ended": {}});
    let part = Answer::Log { text: "\u{fffd}\n".to_owned(), next_offset: 12, is_end: false };
    let Move::Perform { requests, .. } = task().advance(&checkpoint, &[part]) else { panic!("no request") };
    assert!(matches!(requests[..], [Request::ReadLog { offset: 12, .. }]), "{requests:?}");
}

#[test]
fn output_that_is_lost_fails_the_phase_and_the_pod_goes() {
    let large = format!("###Phase-output###:{{\"key\":\"all\",\"value\":\"{}\"}}\n", "x".repeat(3000));
    let log = large + &"noise\n".repeat(1000);
    let mut cluster = FakeCluster { log_chunk: Some(4000), ..logging(&log) };
    let failure = task().run_while(&mut cluster, &succeeds()).failure();
    assert!(failure.starts_with("cannot know all output of Pod"), "{failure}");
    assert!(cluster.names("Pod").is_empty());
    // So does a log that is too long, whether or not the pod has to succeed.
    let optional = json!({"namespace": "team", "image": "i", "command": ["c"], "volumes": {"d": "/d"}});
    for plane in [task(), Plane::of(&PrepareData, optional)] {
        let checkpoint = json!({"step": "read", "log": {"offset": 0}, "since": 0, "ended": {}});
        let refusal = Answer::Refused(refused(413, Refused::TOO_LARGE, "it has more than 16 MiB"));
        let Move::Perform { checkpoint, requests } = plane.advance(&checkpoint, &[refusal]) else {
            panic!("no request")
        };
        assert!(matches!(requests[..], [Request::Delete { .. }]), "{requests:?}");
        let Move::Fail { message, .. } = plane.advance(&checkpoint, &[Answer::Absent]) else {
            panic!("no failure")
        };
        assert!(message.ends_with("it has more than 16 MiB"), "{message}");
    }
}

#[test]
fn failure_of_a_pod_is_told_in_its_own_words() {
    let status = json!({"phase": "Failed", "containerStatuses": [{"name": "container", "state": {"terminated":
        {"exitCode": 2, "reason": "Error", "message": "disk full"}}}]});
    let mut cluster = logging("dumping\ncannot write /a\n");
    let failure = task().run_while(&mut cluster, &ends(status)).failure();
    assert!(
        failure
            .contains("container `container` exited with code 2: Error: disk full: dumping; cannot write /a"),
        "{failure}"
    );
    assert!(cluster.names("Pod").is_empty());
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"});
    let failure = task().run_while(&mut logging(""), &ends(evicted)).failure();
    assert!(failure.ends_with("failed: Evicted; the node was low on memory"), "{failure}");
}

fn knowing(secret: &str, plane: Plane<'static>) -> Plane<'static> {
    let mut plane = plane;
    let encoded = ferroplane_golang::base64::encode(secret.as_bytes());
    plane.secrets.add(&object(json!({"data": {"password": encoded}})));
    plane
}

#[test]
fn words_of_a_pod_are_kept_without_values_of_secrets() {
    let status = json!({"phase": "Failed", "containerStatuses": [{"name": "container", "state": {"terminated":
        {"exitCode": 2, "message": "wrong hunter2-hunter2"}}}]});
    // So long that the value would be cut before it could be recognised.
    let line = format!("hunter2-hunter2{}", "x".repeat(490));
    for log in ["cannot log in with hunter2-hunter2\n", line.as_str()] {
        let mut plane = knowing("hunter2-hunter2", task());
        let failure = plane.run_while(&mut logging(log), &ends(status.clone())).failure();
        assert!(failure.contains("wrong ***: ") && !failure.contains("nter2"), "{failure}");
        let kept = plane.checkpoints.concat();
        assert!(kept.contains("wrong ***") && !kept.contains("nter2"), "{kept}");
    }
}

#[test]
fn pod_that_never_starts_is_given_up_and_deleted() {
    let status = json!({"phase": "Pending", "containerStatuses": [{"name": "container", "state": {"waiting":
        {"reason": "ImagePullBackOff", "message": "no such image"}}}]});
    let set = ends(status);
    let done = std::cell::Cell::new(false);
    let once = |cluster: &mut FakeCluster| !done.replace(true) && set(cluster);
    let mut cluster = FakeCluster::default();
    let mut plane = task();
    let begun = plane.now;
    let failure = plane.run_while(&mut cluster, &once).failure();
    assert!(failure.ends_with("it did not start within 15m0s: ImagePullBackOff: no such image"), "{failure}");
    assert_eq!(plane.now - begun, 15 * 60_000);
    assert!(cluster.names("Pod").is_empty());
}

#[test]
fn log_of_a_long_pod_is_read_while_it_runs() {
    // The kubelet throws the first line away before the pod ends.
    let turns = std::cell::Cell::new(0);
    let meanwhile = |cluster: &mut FakeCluster| {
        turns.set(turns.get() + 1);
        match turns.get() {
            1 => ends(json!({"phase": "Running"}))(cluster),
            2 => false,
            3 => {
                // Positions stay; what was there no longer exists.
                cluster.log = format!(
                    "{}\n###Phase-output###:{{\"key\":\"b\",\"value\":\"2\"}}\n",
                    " ".repeat(PRINTED.len() - 1)
                );
                succeeds()(cluster)
            }
            _ => false,
        }
    };
    let output = task().run_while(&mut logging(PRINTED), &meanwhile).output();
    assert_eq!(output, json!({"path": "/a", "b": "2"}));
}

/// Hours of it cost a look and a reading every ten minutes, until the kubelet ends it.
#[test]
fn pod_that_hangs_is_waited_for_until_its_deadline() {
    const PERIODS: u32 = 50;
    let deadline = json!({
        "phase": "Failed", "reason": "DeadlineExceeded",
        "message": "Pod was active on the node longer than the specified deadline",
    });
    let turns = std::cell::Cell::new(0);
    let meanwhile = |cluster: &mut FakeCluster| {
        turns.set(turns.get() + 1);
        match turns.get() {
            1 => ends(json!({"phase": "Running"}))(cluster),
            PERIODS => ends(deadline.clone())(cluster),
            _ => false,
        }
    };
    let mut plane = Plane::of(
        &KubeTask::V0_0,
        json!({"image": "tools:1", "command": ["sleep", "infinity"], "podOverride": {"activeDeadlineSeconds": 28_800}}),
    );
    assert_eq!(pod_of(&plane)["spec"]["activeDeadlineSeconds"], 28_800);
    let (mut cluster, begun) = (logging("still here\n"), plane.now);
    let failure = plane.run_while(&mut cluster, &meanwhile).failure();
    assert!(failure.contains("DeadlineExceeded; Pod was active on the node longer"), "{failure}");
    assert_eq!(plane.now - begun, i64::from(PERIODS - 2) * 10 * 60_000);
    let [created, deleted] = &cluster.effects[..] else { panic!("{:?}", cluster.effects) };
    assert!(created.starts_with("create ") && deleted.starts_with("delete "));
}

#[test]
fn log_that_never_ends_holds_no_worker_and_the_pod_can_be_cancelled() {
    let plane = task();
    let running = object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "annotations": {ferroplane_engine::action::PHASE_ANNOTATION: plane.identity.clone()}},
        "status": {"phase": "Running"},
    }));
    let looked = json!({"step": "look", "log": {"offset": 0}, "since": plane.now, "nextRead": plane.now});
    let got = [Answer::Object { object: running, resource: "pods".to_owned() }];
    let Move::Perform { mut checkpoint, requests } = plane.advance(&looked, &got) else { panic!("it reads") };
    assert!(matches!(&requests[..], [Request::ReadLog { offset: 0, .. }]));
    // There is always more, as long as the plane reads on.
    for part in 1..=4_u64 {
        let answer = Answer::Log { text: "noise\n".to_owned(), next_offset: part << 22, is_end: false };
        let Move::Perform { checkpoint: next, requests } = plane.advance(&checkpoint, &[answer]) else {
            panic!("part {part}")
        };
        assert!(matches!(&requests[..], [Request::ReadLog { offset, .. }] if *offset == part << 22));
        checkpoint = next;
    }
    // The plane reads no further than its limit. The pod continues, and nothing is done for ten minutes.
    let limit = Answer::Refused(refused(413, "RequestEntityTooLarge", "the log has more than 16 MiB"));
    let Move::Wait { checkpoint, wake_at, watch, .. } = plane.advance(&checkpoint, &[limit]) else {
        panic!("it waits")
    };
    assert_eq!((wake_at, watch.len()), (Some(plane.now + 10 * 60_000), 1), "or until the pod changes");
    let requests = KubeTask::V0_0.clean_up(&plane.phase(&checkpoint, &[]));
    assert!(matches!(&requests[..], [Request::Delete { .. }]), "{requests:?}");
}

#[test]
fn pod_that_somebody_deletes_fails_the_phase() {
    let vanish = |cluster: &mut FakeCluster| {
        for name in cluster.names("Pod") {
            cluster.remove("Pod", "team", &name);
        }
        true
    };
    let failure = task().run_while(&mut FakeCluster::default(), &vanish).failure();
    assert!(failure.ends_with("was deleted before it ended"), "{failure}");
}

#[test]
fn pod_of_somebody_else_with_the_name_is_left_alone() {
    let mut other = pod_of(&task());
    meta::set_annotation(&mut other, "somebody", "else");
    let name = other["metadata"]["name"].as_str().unwrap().to_owned();
    let mut cluster = FakeCluster::with([Value::Object(other)]);
    assert!(task().run(&mut cluster).failure().contains("exists already"));
    assert_eq!(cluster.names("Pod"), [name]);
}

fn pod_of(plane: &Plane<'_>) -> Object {
    match plane.advance(&Value::Null, &[]) {
        Move::Perform { requests, .. } => match requests.into_iter().next() {
            Some(Request::Create { object, .. }) => object,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn pods_are_changed_by_the_phase_and_then_by_the_action_set() {
    let mut plane = task();
    plane.arguments.extend(object(json!({
        "podOverride": {"containers": [{"name": "container", "env": [{"name": "A", "value": "1"}]}], "priorityClassName": "low"},
        "podLabels": {"team": "a", "from": "phase"}, "namespace": "jobs",
    })));
    plane.pod_override = object(
        json!({"priorityClassName": "high", "containers": [{"name": "container", "env": [{"name": "B", "value": "2"}]}]}),
    );
    plane.pod_labels = object(json!({"from": "actionset"}));
    let pod = pod_of(&plane);
    assert_eq!(pod["metadata"]["namespace"], "jobs");
    assert_eq!(pod["metadata"]["labels"], json!({"createdBy": "kanister", "team": "a", "from": "actionset"}));
    let spec = &pod["spec"];
    assert_eq!((&spec["priorityClassName"], &spec["restartPolicy"]), (&json!("high"), &json!("Never")));
    let container = &spec["containers"][0];
    assert_eq!(container["image"], "tools:1");
    let mut names: Vec<_> =
        container["env"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    names.sort_by_key(ToString::to_string);
    assert_eq!(names, ["A", "B"]);
}

#[test]
fn override_that_makes_no_sense_fails_before_anything_is_done() {
    let mut plane = task();
    plane.arguments.insert("podOverride".to_owned(), json!({"$patch": "explode"}));
    let mut cluster = FakeCluster::default();
    let failure = plane.run(&mut cluster).failure();
    assert!(failure.starts_with("argument `podOverride`") && cluster.effects.is_empty(), "{failure}");
}

#[test]
fn two_containers_share_a_directory() {
    let spec = pod_of(&two_containers())["spec"].clone();
    assert_eq!(
        spec["volumes"],
        json!([{"name": "shared", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}])
    );
    let all = [&spec["initContainers"][0], &spec["containers"][0], &spec["containers"][1]];
    assert_eq!(all.map(|it| it["name"].as_str().unwrap()), ["init", "background", "output"]);
    for container in all {
        assert_eq!(container["volumeMounts"], json!([{"name": "shared", "mountPath": "/shared"}]));
    }
    let mut no_image = two_containers();
    no_image.arguments.remove("initImage");
    assert!(no_image.run(&mut FakeCluster::default()).failure().contains("`initImage`: it is required"));
}

#[test]
fn volumes_are_those_that_are_named_or_those_of_the_workload() {
    let mut plane = Plane::of(
        &PrepareData,
        json!({"namespace": "team", "image": "i", "command": ["c"],
        "volumes": {"data": "/data"}, "serviceaccount": "me"}),
    );
    let spec = pod_of(&plane)["spec"].clone();
    assert_eq!(
        spec["volumes"],
        json!([{"name": "volume-0", "persistentVolumeClaim": {"claimName": "data"}}])
    );
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([{"name": "volume-0", "mountPath": "/data"}]));
    assert_eq!(spec["serviceAccountName"], "me");
    plane.arguments.remove("volumes");
    let workload = json!({"StatefulSet": {"PersistentVolumeClaims": {"db-0": {"data-0": "/var"}, "db-1": {"data-1": "/var"}}}});
    plane.scope = Scope::new(object(workload), 0, [0; 32]);
    let mounts = pod_of(&plane)["spec"]["containers"][0]["volumeMounts"].clone();
    assert_eq!(mounts[1], json!({"name": "volume-1", "mountPath": "/mnt/prepare_data/data-1"}));
    plane.scope = Scope::default();
    assert!(plane.run(&mut FakeCluster::default()).failure().contains("about no workload with volumes"));
}

#[test]
fn failing_preparation_fails_the_phase_if_that_is_wanted() {
    let failed = || ends(json!({"phase": "Failed"}));
    let run = |fails| preparation(fails).run_while(&mut logging(PRINTED), &failed());
    assert_eq!(run(false).output(), json!({"path": "/a"}));
    assert!(matches!(run(true), End::Failed(..)));
}

#[test]
fn without_pods_nothing_is_done_and_containers_run_images() {
    let functions: [(&dyn PhaseFunction, Value); 3] = [
        (&KubeTask::V0_0, json!({"image": "i", "command": ["c"]})),
        (&MultiContainerRun::V0_0, json!({})),
        (&PrepareData, json!({})),
    ];
    for (function, arguments) in &functions {
        let mut cluster = FakeCluster::default();
        let end =
            Plane { pods: PodSupport::None, ..Plane::of(*function, arguments.clone()) }.run(&mut cluster);
        assert!(matches!(end, End::Failed(Cause::PhaseNeedsUnmet, _)), "{end:?}");
    }
    let contained = |crash| {
        let commands = vec![Answer::ContainersEnded(vec![ending("container", 0, PRINTED)])];
        let mut cluster = FakeCluster { commands, ..FakeCluster::default() };
        (Plane { pods: PodSupport::Containers, crash, ..task() }.run(&mut cluster), cluster.effects)
    };
    let (end, effects) = contained(Crash::Never);
    assert_eq!(
        (end, effects),
        (End::Done(json!({"path": "/a"})), vec!["run tools:1: sh -c dump".to_owned()])
    );
    for crash in [Crash::Before(1), Crash::After(1)] {
        assert!(matches!(contained(crash).0, End::Failed(Cause::PhaseInterrupted, _)), "{crash:?}");
    }
}

#[test]
fn preparation_needs_pods_also_where_containers_run_images() {
    // Needs are checked before the first phase of an action: containers have no claims that could be mounted.
    assert!(PrepareData.contract().needs.contains(&Need::Exec));
    let arguments = json!({"namespace": "team", "image": "i", "command": ["c"], "volumes": {"d": "/d"}});
    let mut cluster = FakeCluster::default();
    let mut plane = Plane { pods: PodSupport::Containers, ..Plane::of(&PrepareData, arguments) };
    assert!(matches!(plane.run(&mut cluster), End::Failed(Cause::PhaseNeedsUnmet, _)));
    assert_eq!(cluster.effects, [""; 0]);
}

#[test]
fn containers_are_run_again_only_if_the_phase_says_so() {
    let run = |function: &'static dyn PhaseFunction, choice: &str| {
        let arguments = json!({"image": "i", "command": ["c"], "onInterruption": choice});
        let ended = || Answer::ContainersEnded(vec![ending("container", 0, PRINTED)]);
        let mut cluster = FakeCluster { commands: vec![ended(), ended()], ..FakeCluster::default() };
        let mut plane = Plane { crash: Crash::After(1), ..contained(function, arguments) };
        (plane.run(&mut cluster), cluster.effects.len())
    };
    assert_eq!(run(&KubeTask::V0_1, "Rerun"), (End::Done(json!({"path": "/a"})), 2));
    assert!(matches!(run(&KubeTask::V0_1, "Fail"), (End::Failed(Cause::PhaseInterrupted, _), 1)));
    assert!(matches!(run(&KubeTask::V0_1, "Perhaps"), (End::Failed(Cause::PhaseArgumentsInvalid, _), 0)));
    let arguments = object(json!({"image": "i", "command": ["c"], "onInterruption": "Perhaps"}));
    assert_eq!(KubeTask::V0_1.argument_mistakes(&arguments)[0].argument, "onInterruption");
    // Kanister's function has no such argument.
    assert_eq!(KubeTask::V0_0.argument_mistakes(&arguments).len(), 1);
    assert!(!MultiContainerRun::V0_0.contract().takes("onInterruption"));
    assert!(MultiContainerRun::V0_1.contract().takes("onInterruption"));
}

fn ending(name: &str, exit_code: i32, stdout: &str) -> ContainerEnding {
    ContainerEnding { name: name.to_owned(), exit_code, stdout: stdout.to_owned(), stderr: String::new() }
}

fn group_of(plane: &Plane<'_>) -> ContainerGroup {
    match plane.advance(&Value::Null, &[]) {
        Move::Perform { requests, .. } => match requests.into_iter().next() {
            Some(Request::RunContainers(group)) => group,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn contained(function: &'static dyn PhaseFunction, arguments: Value) -> Plane<'static> {
    Plane { pods: PodSupport::Containers, ..Plane::of(function, arguments) }
}

#[test]
fn container_has_what_the_phase_and_the_action_set_say_about_its_pod() {
    let mut plane = contained(
        &KubeTask::V0_0,
        json!({"image": "tools:1", "command": ["dump"], "podOverride": {"activeDeadlineSeconds": 60, "containers": [
            {"name": "container", "args": ["all"], "env": [{"name": "A", "value": "1"}]}]}}),
    );
    plane.pod_override = object(json!({"nodeSelector": {"a": "b"}, "containers": [
        {"name": "container", "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}}}]}));
    let group = group_of(&plane);
    assert!(group.name.starts_with("kanister-job-") && group.initial.is_empty());
    assert_eq!((group.deadline, group.shared_bytes), (Some(60), None));
    let expected = ContainerRun {
        name: "container".to_owned(),
        image: "tools:1".to_owned(),
        command: vec!["dump".to_owned()],
        arguments: vec!["all".to_owned()],
        environment: vec![("A".to_owned(), "1".to_owned())],
        shared_at: None,
        memory: Some(64 << 20),
        cpu: Some(500),
    };
    assert_eq!(group.containers, [expected]);
}

#[test]
fn what_no_container_can_have_fails_before_anything_runs() {
    for (changed, expected) in [
        (
            json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "d"}}]}),
            "volume `data`",
        ),
        (
            json!({"containers": [{"name": "container", "envFrom": [{"secretRef": {"name": "s"}}]}]}),
            "`envFrom`",
        ),
        (
            json!({"containers": [{"name": "container", "env": [{"name": "A", "valueFrom": {"fieldRef": {}}}]}]}),
            "`valueFrom` of the variable `A`",
        ),
        (
            json!({"containers": [{"name": "container", "resources": {"limits": {"memory": "lots"}}}]}),
            "memory: expected a quantity above zero, got \"lots\"",
        ),
    ] {
        let arguments = json!({"image": "i", "command": ["c"], "podOverride": changed});
        let mut cluster = FakeCluster::default();
        let failure = contained(&KubeTask::V0_0, arguments).run(&mut cluster).failure();
        assert!(failure.contains(expected) && cluster.effects.is_empty(), "{failure}");
    }
}

#[test]
fn containers_share_a_directory_and_the_output_is_that_of_one() {
    let arguments = |directory: &str| {
        json!({"backgroundImage": "b", "backgroundCommand": ["serve"], "outputImage": "o", "outputCommand": ["read"],
            "initImage": "i", "initCommand": ["prepare"], "sharedVolumeSizeLimit": "1Mi", "sharedVolumeDir": directory})
    };
    let plane = contained(&MultiContainerRun::V0_0, arguments("/shared/"));
    let group = group_of(&plane);
    let names = |runs: &[ContainerRun]| runs.iter().map(|run| run.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&group.initial), names(&group.containers)),
        (vec!["init".to_owned()], vec!["background".to_owned(), "output".to_owned()])
    );
    let mut all = group.initial.iter().chain(&group.containers);
    assert!(all.all(|run| run.shared_at.as_deref() == Some("/shared")));
    assert_eq!(group.shared_bytes, Some(1 << 20));
    let ran = |endings: Vec<ContainerEnding>| {
        let mut cluster =
            FakeCluster { commands: vec![Answer::ContainersEnded(endings)], ..FakeCluster::default() };
        contained(&MultiContainerRun::V0_0, arguments("/shared")).run(&mut cluster)
    };
    let other = "###Phase-output###:{\"key\":\"path\",\"value\":\"/other\"}\n";
    let well = vec![ending("init", 0, ""), ending("background", 0, other), ending("output", 0, PRINTED)];
    assert_eq!(ran(well).output(), json!({"path": "/a"}));
    let failed =
        vec![ending("init", 0, ""), ending("background", 3, "disk full"), ending("output", 0, PRINTED)];
    assert_eq!(ran(failed).failure(), "container `background` of `b` exited with code 3: disk full");
    for directory in ["/", "tmp", "/proc", "/dev/shm", "/a/../b"] {
        let failure = contained(&MultiContainerRun::V0_0, arguments(directory))
            .run(&mut FakeCluster::default())
            .failure();
        assert!(failure.starts_with("argument `sharedVolumeDir`"), "{directory}: {failure}");
    }
}

#[test]
fn pod_of_a_phase_that_is_given_up_is_deleted() {
    let plane = task();
    let name = pod_of(&plane)["metadata"]["name"].clone();
    let checkpoint = json!({"step": "create"});
    let requests = KubeTask::V0_0.clean_up(&plane.phase(&checkpoint, &[]));
    assert!(matches!(&requests[..], [Request::Delete { target, .. }] if target.name == name));
}

#[test]
fn pods_of_two_phases_have_two_names() {
    let other = Plane { identity: "another".to_owned(), ..task() };
    assert_ne!(pod_of(&task())["metadata"]["name"], pod_of(&other)["metadata"]["name"]);
    assert_eq!(pod_of(&task()), pod_of(&task()));
}
