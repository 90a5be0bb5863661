//! One call: what goes in, what comes out, and what the program finds around it.

use std::fs;
use std::os::unix::fs::symlink;

use ferroplane_sandbox::{Call, Container, Error, Grants, Network};

use crate::support::{
    Lines, call, image, make_image, processes_with, public_directory, sandbox, sandboxes, shell,
};

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_in_and_come_out() {
    for sandbox in sandboxes().await {
        let container = shell("cat; echo told > /dev/stderr; exit 3");
        let input: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
        let lines = Lines::default();
        let output =
            sandbox.call(Call { input: &input, log: lines.sink(), ..call(&container) }).await.expect("call");
        assert_eq!(output.exit_code, 3);
        assert!(output.stdout == input);
        assert_eq!(lines.all(), ["told"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_as_its_image_says() {
    let Some(sandbox) = sandbox().await else { return };
    let mut container = shell("id -u; id -g; pwd; echo $A; hostname; env | grep -c CARGO");
    container.image.user = "function".to_owned();
    container.image.working_dir = "/made/for/it".to_owned();
    container.image.env = vec!["A=image".to_owned()];
    let output = sandbox.call(call(&container)).await.expect("call");
    let expected = "2000\n3000\n/made/for/it\nimage\nfunction\n0\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_what_the_kernel_ends_first_if_there_is_no_memory() {
    for sandbox in sandboxes().await {
        assert_eq!(sandbox.shell("cat /proc/self/oom_score_adj").await, "1000\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_has_an_unprivileged_user_outside_of_its_container() {
    for sandbox in sandboxes().await {
        let mut container = shell("cat /proc/self/uid_map; exec sleep 4711.5");
        container.image.user = String::new();
        let runtime = sandbox.runtime.clone();
        let running = tokio::spawn(async move { runtime.call(call(&container)).await });
        let find = || {
            processes_with("4711.5").into_iter().find(|pid| {
                fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
            })
        };
        tokio::task::block_in_place(|| crate::support::eventually("the program runs", || find().is_some()));
        let status =
            fs::read_to_string(format!("/proc/{}/status", find().expect("program"))).expect("status");
        let user = status.lines().find(|line| line.starts_with("Uid:")).expect("user").to_owned();
        let own = rustix::process::getuid();
        if own.is_root() {
            assert!(!user.split_whitespace().any(|number| number == "0"), "{user}");
        } else {
            assert!(user.contains(&own.as_raw().to_string()), "{user}");
        }
        assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
        assert!(status.contains("Seccomp:\t2"), "{status}");
        running.abort();
        tokio::task::block_in_place(|| {
            crate::support::eventually("the program is gone", || find().is_none());
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_is_said() {
    for sandbox in sandboxes().await {
        let mut container = shell("");
        container.image.entrypoint = vec!["/no/such/program".to_owned()];
        let error = sandbox.call(call(&container)).await.expect_err("there is no such program");
        assert!(
            matches!(&error, Error::Start { message } if message.contains("no such file or directory") || message.contains("No such file or directory")),
            "{error:?}"
        );

        let container = Container { rootfs: "/no/such/image".into(), ..shell("true") };
        let error = sandbox.call(call(&container)).await.expect_err("there is no such image");
        assert!(matches!(error, Error::Start { .. }), "{error:?}");
        assert_eq!(sandbox.shell("echo fine").await, "fine\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_an_image_lead_nowhere() {
    for sandbox in sandboxes().await {
        let directory = public_directory();
        let outside = directory.path().join("outside");
        fs::create_dir(&outside).expect("outside");
        fs::write(outside.join("secret"), "secret").expect("secret");
        let evil = directory.path().join("image");
        make_image(&evil);
        for name in ["proc", "dev", "tmp", "sys", "work"] {
            symlink(&outside, evil.join(name)).expect("link");
        }
        let mut container = shell(
            "cat /work/secret /sys/secret /tmp/secret /proc/secret /dev/secret; echo x > /tmp/x && echo wrote",
        );
        container.rootfs = evil;
        container.image.working_dir = "/work".to_owned();
        let output = sandbox.call(call(&container)).await;
        if let Ok(output) = output {
            assert_eq!(String::from_utf8_lossy(&output.stdout), "wrote\n");
        }
        let names: Vec<_> =
            fs::read_dir(&outside).expect("list").map(|entry| entry.expect("entry").file_name()).collect();
        assert_eq!(names, ["secret"], "nothing was written outside");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_never_written_to() {
    let Some(sandbox) = sandbox().await else { return };
    let before = listing();
    sandbox.shell("touch /x /bin/x /etc/hosts; echo > /bin/busybox; ls / > /dev/null").await;
    assert_eq!(listing(), before);
}

fn listing() -> Vec<String> {
    let list = |path: &str| fs::read_dir(image().join(path)).expect("list").map(|entry| format!("{entry:?}"));
    let mut all: Vec<String> = [".", "bin", "etc"].iter().flat_map(|path| list(path)).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_may_be_in_a_directory_of_our_own() {
    for sandbox in sandboxes().await {
        let private = tempfile::tempdir().expect("directory");
        let mut container = shell("echo fine");
        container.rootfs = private.path().join("image, with: odd\\name");
        make_image(&container.rootfs);
        let output = sandbox.call(call(&container)).await.expect("call");
        assert_eq!(output.stdout, b"fine\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_network_is_there_only_if_granted() {
    for sandbox in sandboxes().await {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listener");
        let port = listener.local_addr().expect("address").port();
        let script = format!("busybox nc -w 1 127.0.0.1 {port} < /dev/null && echo reached");
        let mut container = shell(&script.replace("busybox", "/bin/busybox"));
        let output = sandbox.call(call(&container)).await.expect("call");
        assert_eq!(output.stdout, b"", "it has no network");
        container.image.env.push("GRANTED=1".to_owned());
        let accepting = tokio::spawn(async move { listener.accept().await.map(drop) });
        let granted = Grants { network: Network::Runner };
        let output = sandbox.call(Call { grants: granted, ..call(&container) }).await.expect("call");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "reached\n");
        accepting.await.expect("task").expect("connection");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_ends_its_program() {
    let Some(sandbox) = sandbox().await else { return };
    let container = shell("sleep 4712.5");
    let runtime = sandbox.runtime.clone();
    let running = tokio::spawn(async move { runtime.call(call(&container)).await });
    tokio::task::block_in_place(|| {
        crate::support::eventually("the program runs", || !processes_with("4712.5").is_empty());
        running.abort();
        crate::support::eventually("the program is gone", || processes_with("4712.5").is_empty());
    });
}
