//! A program that tries to get out, in every way that we know. None may succeed, and each attempt is accounted for.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Stdio};

use ferroplane_sandbox::Call;

use crate::support::{Sandbox, attack, call, image, sandboxes};

/// What the program tries. `attacks/attack.c` has the attempts by the same names.
const ATTEMPTS: &[&str] = &[
    // Files.
    "host-file",
    "host-file-by-parents",
    "host-file-by-init-root",
    "host-file-by-own-root",
    "host-file-by-link",
    "host-file-by-chroot",
    "host-paths-in-mounts",
    "root-is-writable",
    "program-is-writable",
    "own-executable-is-writable",
    "hard-link-of-program",
    "extra-open-file",
    "input-can-be-changed",
    "file-handle",
    "name-to-handle",
    "run-from-shared-memory",
    // Devices.
    "disk-node",
    "device-mem",
    "device-kmsg",
    "device-disk",
    "device-kvm",
    "device-fuse",
    "device-tun",
    "terminal",
    "terminal-input",
    // Network.
    "host-port",
    "abstract-socket",
    "outside-address",
    "metadata-address",
    "name-resolution",
    "packet-socket",
    "raw-socket",
    "crypto-socket",
    "machine-socket",
    "audit-socket",
    // Processes.
    "foreign-process",
    "environment",
    "environment-of-others",
    "signal-outside",
    "trace-outside",
    "trace-inside",
    "memory-outside",
    "files-outside",
    // The kernel.
    "proc-kcore",
    "proc-keys",
    "proc-kmsg",
    "proc-kallsyms",
    "proc-cmdline",
    "proc-core-pattern",
    "proc-sysrq",
    "proc-modprobe",
    "proc-oom-score",
    "proc-uid-map",
    "load-module",
    "load-kernel",
    "bpf",
    "performance-counters",
    "user-faults",
    "io-uring",
    "swap",
    "kernel-log",
    "accounting",
    "add-key",
    "request-key",
    "keyring",
    "clock",
    "host-name",
    "old-calls",
    "personality",
    "memory-of-nobody",
    "system-v-memory",
    "message-queue",
    // Privileges.
    "become-root",
    "become-root-group",
    "take-groups",
    "capability",
    "ambient-capability",
    "new-privileges",
    "setuid-file",
    "raise-limit",
    "priority",
    "real-time",
    // Namespaces, mounts and cgroups.
    "unshare-user",
    "unshare-mount",
    "clone-user",
    "clone-network",
    "clone3-user",
    "enter-namespace",
    "mount-tmpfs",
    "mount-proc",
    "mount-bind",
    "remount-root",
    "unmask-proc",
    "pivot-root",
    "new-mount-calls",
    "open-tree",
    "cgroup-files",
    "cgroup-mount",
    "cgroup-release-agent",
];

/// What the attempts aim at, in the place of what an attacker would want.
struct Targets {
    arguments: Vec<String>,
    _listener: std::net::TcpListener,
    _abstract: UnixListener,
    victim: std::process::Child,
}

impl Targets {
    fn new(sandbox: &Sandbox) -> Self {
        let word = format!("secret-{}", std::process::id());
        // The name of the directory is as secret as what is in there.
        let directory = sandbox.directory.path().join(&word);
        fs::create_dir(&directory).expect("directory");
        let file = directory.join("file");
        fs::write(&file, &word).expect("secret");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listener");
        let port = listener.local_addr().expect("address").port();
        let name = format!("ferroplane-{}", sandbox.directory.path().display());
        let address = SocketAddr::from_abstract_name(&name).expect("name");
        let abstract_listener = UnixListener::bind_addr(&address).expect("abstract listener");
        let victim = Command::new("sleep").arg("600").env("SECRET", &word).spawn().expect("victim");
        let arguments = [file.display().to_string(), word, port.to_string(), name, victim.id().to_string()];
        Self { arguments: arguments.into(), _listener: listener, _abstract: abstract_listener, victim }
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_to_get_out_succeeds() {
    assert!(ATTEMPTS.len() >= 40);
    for sandbox in sandboxes().await {
        let mut targets = Targets::new(&sandbox);
        let mut container = attack(&["escape"]);
        container.arguments = Some(targets.arguments.clone());
        let output = sandbox.call(Call { input: b"input", ..call(&container) }).await.expect("call");
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        let outcomes: Vec<(&str, &str)> = report.lines().filter_map(|line| line.split_once(' ')).collect();
        for attempt in ATTEMPTS {
            let outcome = outcomes.iter().find(|(name, _)| name == attempt).map(|(_, outcome)| *outcome);
            let outcome = outcome.unwrap_or_else(|| panic!("`{attempt}` was not tried:\n{report}"));
            assert!(outcome.starts_with("held"), "`{attempt}`: {outcome}");
        }
        assert_eq!(outcomes.len(), ATTEMPTS.len(), "every attempt is in the table:\n{report}");
        assert!(report.ends_with("done\n"), "{report}");
        assert!(targets.victim.try_wait().expect("victim").is_none(), "nobody outside was signalled");
    }
}

/// Attempts that succeed for every user where there is no container, and do the machine no harm. `name-to-handle` is none of them: not every
/// file system gives handles.
const OPEN_TO_EVERYBODY: &[&str] = &[
    "host-file",
    "host-file-by-parents",
    "host-file-by-link",
    "input-can-be-changed",
    "host-port",
    "abstract-socket",
    "foreign-process",
    "environment",
    "environment-of-others",
    "signal-outside",
    "files-outside",
    "proc-kallsyms",
    "proc-cmdline",
    "memory-of-nobody",
];

/// The same for an administrator.
const OPEN_TO_ROOT: &[&str] = &[
    "raw-socket",
    "packet-socket",
    "become-root",
    "become-root-group",
    "take-groups",
    "priority",
    "unshare-mount",
    "clone-network",
    "new-mount-calls",
    "open-tree",
];

/// Whether this process has all rights that the attempts of an administrator need. Root in a container may have none of them.
fn has_rights_of_root() -> bool {
    // Users, groups, raw sockets, administration, priorities.
    let needed = [6, 7, 13, 21, 23].iter().fold(0_u64, |needed, right| needed | (1_u64 << right));
    let rights = own_status("CapEff").expect("rights");
    u64::from_str_radix(&rights, 16).expect("number") & needed == needed
}

/// Attempts that succeed for every user of this machine, though other machines refuse them.
fn open_on_this_machine() -> Vec<&'static str> {
    // The tests may themselves run in a container that filters calls.
    if own_status("Seccomp").is_none_or(|mode| mode != "0") {
        return Vec::new();
    }
    let mut open = vec!["personality"];
    // Yama lets nobody ask to be traced from the second level on, unless the tracer is an administrator.
    if kernel_setting("kernel/yama/ptrace_scope").is_none_or(|level| level < 2) {
        open.push("trace-inside");
    }
    // The second one is Debian's, for users who are no administrators.
    let may_make_users = kernel_setting("user/max_user_namespaces").is_some_and(|most| most > 0)
        && kernel_setting("kernel/unprivileged_userns_clone").is_none_or(|is_allowed| is_allowed > 0);
    if may_make_users {
        open.push("clone-user");
    }
    open
}

/// A line of what the kernel says about this process.
fn own_status(name: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let mut fields = status.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| *field == name).map(|(_, value)| value.trim().to_owned())
}

/// A number among the settings of the kernel, if it has this one.
fn kernel_setting(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok()
}

/// Otherwise the other test could not fail.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_attempts_succeed_without_a_container() {
    let Some(sandbox) = crate::support::sandbox().await else { return };
    let targets = Targets::new(&sandbox);
    let of_root = if has_rights_of_root() { OPEN_TO_ROOT } else { &[] };
    let of_machine = open_on_this_machine();
    let attempts = [OPEN_TO_EVERYBODY, of_machine.as_slice(), of_root].concat();
    let output = Command::new(image().join("bin/attack"))
        .arg("escape")
        .args(&targets.arguments)
        .arg(format!(",{},", attempts.join(",")))
        .env("SECRET", &targets.arguments[1])
        .stdin(Stdio::null())
        .output()
        .expect("attack");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    for attempt in &attempts {
        assert!(report.contains(&format!("{attempt} ESCAPED\n")), "{attempt}:\n{report}");
    }
    assert_eq!(report.lines().count(), attempts.len() + 1, "nothing else is tried:\n{report}");
}
