//! What a program sees beside the files of its image.

use serde_json::{Value, json};

use crate::container::SharedMount;
use crate::limits::{Grants, Limits, Network};

/// What the program sees as empty: other people's business, and what has let people out before.
pub(super) const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/diskstats",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/partitions",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/vmallocinfo",
];

/// What the program can read and not write.
pub(super) const READ_ONLY: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/pressure", "/proc/sys", "/proc/sysrq-trigger"];

/// There is no `/sys`: nothing in it is about the program.
pub(super) fn mounts(limits: &Limits, grants: Grants, shared: &[SharedMount<'_>]) -> Vec<Value> {
    let mut mounts = vec![
        json!({
            "destination": "/proc", "type": "proc", "source": "proc",
            "options": ["nosuid", "nodev", "noexec"],
        }),
        tmpfs("/dev", "mode=0755", 64 << 10, true),
        tmpfs("/dev/shm", "mode=1777", limits.scratch / 4, true),
        tmpfs("/tmp", "mode=1777", limits.scratch, false),
    ];
    if grants.network == Network::Runner {
        let (destination, source) = ("/etc/resolv.conf", "/etc/resolv.conf");
        mounts.push(bind(SharedMount { destination, source, is_writable: false }));
    }
    mounts.extend(shared.iter().copied().map(bind));
    mounts
}

/// Programs can be run from what they can write, as from `/tmp`.
fn bind(mount: SharedMount<'_>) -> Value {
    let SharedMount { destination, source, is_writable } = mount;
    let options: &[&str] = if is_writable {
        &["bind", "rw", "nosuid", "nodev"]
    } else {
        &["bind", "ro", "nosuid", "nodev", "noexec"]
    };
    json!({ "destination": destination, "type": "bind", "source": source, "options": options })
}

fn tmpfs(destination: &str, mode: &str, size: u64, is_noexec: bool) -> Value {
    let size = format!("size={}", size.max(4096));
    let mut options = vec!["nosuid".to_owned(), "nodev".to_owned(), mode.to_owned(), size];
    // Files cost memory, too, when they are empty.
    options.push("nr_inodes=16384".to_owned());
    if is_noexec {
        options.push("noexec".to_owned());
    }
    json!({ "destination": destination, "type": "tmpfs", "source": "tmpfs", "options": options })
}
