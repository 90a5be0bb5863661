//! Programs that have another root directory, and no container.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use ferroplane_sandbox::{Call, Chroots, Error, Limit, Limits, Options, Output};

use crate::support::{
    Lines, call, eventually, helper, image, left_in, make_image, processes_with, public_directory, shell,
    skip,
};

struct Fixture {
    chroots: Chroots,
    directory: tempfile::TempDir,
}

/// Nothing where the machine allows no such thing.
async fn chroots() -> Option<Fixture> {
    started_by(helper()).await
}

async fn started_by(helper: Vec<OsString>) -> Option<Fixture> {
    if !["/bin/busybox", "/usr/bin/busybox"].iter().any(|path| std::path::Path::new(path).exists()) {
        skip("there is no static busybox; on Debian, install `busybox-static`");
        return None;
    }
    let directory = public_directory();
    let chroots = Chroots::new(Options::new(helper, directory.path().join("state"))).expect("directories");
    let fixture = Fixture { chroots, directory };
    match fixture.chroots.call(call(&shell("true"))).await {
        Ok(_) => Some(fixture),
        Err(error @ Error::NoChroot { .. }) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

impl Fixture {
    async fn shell(&self, script: &str) -> (Output, Vec<String>) {
        let (container, lines) = (shell(script), Lines::default());
        let output = self.chroots.call(Call { log: lines.sink(), ..call(&container) }).await;
        (output.expect("call"), lines.all())
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_go_in_and_come_out() {
    let Some(fixture) = chroots().await else { return };
    let container = shell("cat; echo told > /dev/null 2>&1; echo told >&2; exit 3");
    let input: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
    let lines = Lines::default();
    let call = Call { input: &input, log: lines.sink(), ..call(&container) };
    let output = fixture.chroots.call(call).await.expect("call");
    assert_eq!(output.exit_code, 3);
    assert!(output.stdout == input);
    assert!(lines.all().contains(&"told".to_owned()), "{:?}", lines.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_sees_its_image_alone_and_cannot_change_it() {
    let Some(fixture) = chroots().await else { return };
    let mut container =
        shell("ls /; pwd; env; id -u; touch /x /bin/x; echo > /bin/busybox; ls /bin/x /x; exit 0");
    container.image.env = vec!["A=image".to_owned()];
    container.image.working_dir = "/etc".to_owned();
    let output = fixture.chroots.call(call(&container)).await.expect("call");
    let said = text(&output);
    assert!(said.starts_with("bin\netc\n/etc\n"), "{said}");
    assert!(said.contains("A=image\n") && !said.contains("CARGO"), "{said}");
    assert!(!said.lines().any(|line| line == "0"), "it is no administrator: {said}");
    assert!(!image().join("x").exists() && !image().join("bin/x").exists());
    assert!(fs::metadata(image().join("bin/busybox")).expect("busybox").len() > 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gains_no_privileges_and_cannot_leave_its_root() {
    let Some(fixture) = chroots().await else { return };
    let script = "/bin/busybox mkdir /tmp 2>/dev/null; /bin/busybox mount -t proc proc /etc && echo mounted; \
                  /bin/busybox chroot /bin /busybox true && echo changed; /bin/busybox mknod /etc/disk b 8 0 && echo made; \
                  cat /../../../../etc/shadow; exit 0";
    let (output, lines) = fixture.shell(script).await;
    assert_eq!(text(&output), "", "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("shadow")), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runaways_end_with_everything_that_they_started() {
    let Some(fixture) = chroots().await else { return };
    let container = shell("/bin/busybox setsid sleep 4721.5 & sleep 4721.5");
    let limits = Limits { time: Duration::from_millis(300), ..Limits::default() };
    let error = fixture.chroots.call(Call { limits, ..call(&container) }).await.expect_err("it never ends");
    assert!(matches!(error, Error::Exceeded(Limit::Time)), "{error:?}");
    assert_eq!(processes_with("4721.5"), [0_u32; 0]);

    // One that ends leaves nothing running, either.
    let (output, _) = fixture.shell("/bin/busybox setsid sleep 4722.5 >/dev/null 2>&1 & echo done").await;
    assert_eq!(text(&output), "done\n");
    assert_eq!(processes_with("4722.5"), [0_u32; 0]);

    let container = shell("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done");
    let limits = Limits { output: 1000, ..Limits::default() };
    let error = fixture.chroots.call(Call { limits, ..call(&container) }).await.expect_err("it floods");
    assert!(matches!(error, Error::Exceeded(Limit::Output)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_ends_its_program() {
    let Some(fixture) = chroots().await else { return };
    let (chroots, container) = (fixture.chroots.clone(), shell("sleep 4723.5"));
    let running = tokio::spawn(async move { chroots.call(call(&container)).await });
    tokio::task::block_in_place(|| {
        eventually("the program runs", || !processes_with("4723.5").is_empty());
        running.abort();
        eventually("the program is gone", || processes_with("4723.5").is_empty());
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_is_said() {
    let Some(fixture) = chroots().await else { return };
    let mut container = shell("");
    container.image.entrypoint = vec!["/no/such/program".to_owned()];
    let error = fixture.chroots.call(call(&container)).await.expect_err("there is no such program");
    assert!(matches!(&error, Error::Program { message } if message.contains("No such file")), "{error:?}");
    let container = ferroplane_sandbox::Container { rootfs: "/no/such/image".into(), ..shell("true") };
    let error = fixture.chroots.call(call(&container)).await.expect_err("there is no such image");
    assert!(matches!(&error, Error::NoChroot { .. }), "{error:?}");
}

/// Where nothing can be mounted, as in most pods, the image is copied.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_copied_where_nothing_can_be_mounted() {
    let setpriv = "/usr/bin/setpriv";
    if !rustix::process::getuid().is_root() || !std::path::Path::new(setpriv).exists() {
        skip("it takes root and setpriv to give up the right to mount");
        return;
    }
    let mut without: Vec<OsString> = [setpriv, "--bounding-set", "-sys_admin"].map(Into::into).into();
    without.extend(helper());
    let Some(fixture) = started_by(without).await else { return };
    let own = fixture.directory.path().join("image");
    make_image(&own);
    let mut container = shell("ls /; id -u; touch /etc/x; setsid sleep 4724.5 >/dev/null 2>&1 & exit 0");
    container.rootfs.clone_from(&own);
    let output = fixture.chroots.call(call(&container)).await.expect("call");
    assert!(text(&output).starts_with("bin\netc\n"), "{output:?}");
    assert!(!own.join("etc/x").exists());
    assert_eq!(processes_with("4724.5"), [0_u32; 0]);
    let state = fixture.directory.path().join("state");
    tokio::task::block_in_place(|| eventually("no copy is left", || left_in(&state, "chroots") == 0));
}
