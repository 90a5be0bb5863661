//! Machines that allow less than others: what they forbid is said once and clearly, and what can be done in another way is.
//!
//! They are played by this machine: a shell takes something away from itself, and becomes the host.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ferroplane_sandbox::{Container, Error, Options, Runtime};

use crate::support::{call, helper, make_image, public_directory, sandbox, sandbox_started_by, shell, skip};

/// Starts the host in new namespaces, after a script for the shell, if this machine allows that.
fn helper_after(namespaces: &str, script: &str) -> Option<Vec<OsString>> {
    let script = format!("{script} && exec \"$@\"");
    let shell = ["unshare", namespaces, "--", "/bin/sh", "-c", &script, "sh"].map(OsString::from);
    let mut attempt = Command::new(&shell[0]);
    attempt.args(&shell[1..]).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
    if !attempt.status().is_ok_and(|status| status.success()) {
        skip(&format!("`unshare {namespaces}` is not there, or may not do this: {script}"));
        return None;
    }
    Some(shell.into_iter().chain(helper()).collect())
}

/// What a machine that forbids containers says of that.
async fn refusal(helper: Vec<OsString>) -> Option<String> {
    // Otherwise this machine forbids something else.
    sandbox().await?;
    let directory = public_directory();
    let runtime = Runtime::new(Options::new(helper, directory.path().join("state"))).expect("runtime");
    let error = runtime.probe().await.expect_err("it is forbidden");
    assert!(error.forbids_containers(), "{error:?}");
    let again = runtime.call(call(&shell("true"))).await.expect_err("it is still forbidden");
    assert_eq!(again.to_string(), error.to_string(), "it does not change from call to call");
    let left = fs::read_dir(directory.path().join("state/ledger")).expect("ledger").count();
    assert_eq!(left, 0, "nothing runs");
    Some(error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_user_namespaces_says_how_to_allow_them() {
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces";
    let Some(helper) = helper_after("-Ur", forbid) else { return };
    let Some(said) = refusal(helper).await else { return };
    let (before, after) = said.split_once(" (").expect("the cause is in parentheses");
    assert_eq!(
        before,
        "cannot run containers: this machine does not allow the process to make user, mount and pid namespaces"
    );
    assert!(after.starts_with("No space left on device"), "{said}");
    assert!(after.contains("; allow user namespaces (`sysctl user.max_user_namespaces`,"), "{said}");
}

/// As in most pods, where files of `/proc` are hidden by others.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_hides_parts_of_proc_says_so() {
    if !rustix::process::getuid().is_root() {
        return skip("it takes root to hide a file of `/proc`");
    }
    let Some(helper) = helper_after("-m", "mount --bind /dev/null /proc/version") else { return };
    let Some(said) = refusal(helper).await else { return };
    assert!(
        said.starts_with(
            "cannot run containers: this machine does not allow the process to mount `/proc` in a new pid namespace ("
        ),
        "{said}"
    );
    assert!(
        said.ends_with(
            "; run it outside of a container, or in one with an unmasked `/proc` and no seccomp profile"
        ),
        "{said}"
    );
}

/// A host that sees an image through so many overlays that the kernel allows none over them.
fn helper_without_overlay(image: &Path, beside: &Path) -> Option<Vec<OsString>> {
    if !rustix::process::getuid().is_root() {
        skip("it takes root to lay an overlay over an image");
        return None;
    }
    let (image, beside) = (image.display(), beside.display());
    let mount = format!("mount -t overlay overlay -o lowerdir={image}:{beside} {image}");
    helper_after("-m", &format!("{mount} && {mount}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_copied_where_the_kernel_allows_no_overlay() {
    let directory = public_directory();
    let (image, beside) = (directory.path().join("image"), directory.path().join("beside"));
    make_image(&image);
    fs::create_dir(&beside).expect("directory");
    let Some(helper) = helper_without_overlay(&image, &beside) else { return };
    let Some(sandbox) = sandbox_started_by(helper).await else { return };
    let container = Container {
        rootfs: image.clone(),
        ..shell("ls /; touch /x /bin/x; grep ' / ' /proc/mounts; exit 0")
    };
    let output = sandbox.call(call(&container)).await.expect("call");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.starts_with("bin\ndev\netc\nproc\ntmp\n"), "{said}");
    assert!(said.contains(" tmpfs ro,") && !said.contains("overlay"), "it is a copy, and read-only: {said}");
    assert!(!image.join("x").exists() && !image.join("bin/x").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_too_large_to_be_copied_is_refused_and_leaves_room() {
    let directory = public_directory();
    let (images, beside) = (directory.path().join("images"), directory.path().join("beside"));
    let (small, large) = (images.join("small"), images.join("large"));
    for directory in [&small, &large] {
        make_image(directory);
    }
    // It takes no room where it is, and all its bytes in a copy.
    let blob = fs::File::create(large.join("blob")).expect("file");
    blob.set_len(300 << 20).expect("length");
    fs::create_dir(&beside).expect("directory");
    let Some(helper) = helper_without_overlay(&images, &beside) else { return };
    let Some(sandbox) = sandbox_started_by(helper).await else { return };
    for _ in 0..2 {
        let container = Container { rootfs: large.clone(), ..shell("true") };
        let error = sandbox.call(call(&container)).await.expect_err("there is no room");
        let Error::Start { message } = &error else { panic!("{error:?}") };
        assert!(message.starts_with("the image cannot be laid under other directories ("), "{message}");
        assert!(message.ends_with("copies of all images together can have 256 MiB"), "{message}");

        let container = Container { rootfs: small.clone(), ..shell("echo fine") };
        let output = sandbox.call(call(&container)).await.expect("half a copy does not stay");
        assert_eq!(output.stdout, b"fine\n");
    }
}
