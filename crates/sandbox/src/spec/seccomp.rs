//! Which calls of the kernel a program may make. Every other call fails with "operation not permitted".
//!
//! The list is what programs in Go, Python, Node, Java and the shell need to compute, read files, start children and serve a port. What
//! is left out on purpose: namespaces, mounts, tracing, keys, BPF, performance counters, `io_uring`, user faults, handles of files, kernel
//! modules, clocks that can be set, and memory that belongs to no process (`memfd_create`, System V), which no limit would count.

use serde_json::{Value, json};

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
/// All flags of `clone` that make a namespace.
const NAMESPACES: u64 = 0x7e02_0000;
/// `TIOCSTI` types into another terminal. There is none: the host has a session of its own.
const TYPE_INTO_TERMINAL: u64 = 0x5412;
/// Unix, IPv4, IPv6. Netlink is allowed for routes only, which resolvers ask for.
const SOCKETS: [u64; 3] = [1, 2, 10];
const NETLINK: u64 = 16;

/// The `seccomp` section of a runtime configuration.
pub(super) fn profile() -> Value {
    let mut rules = vec![
        json!({ "names": ALLOWED, "action": "SCMP_ACT_ALLOW" }),
        json!({
            "names": ["clone"], "action": "SCMP_ACT_ALLOW",
            "args": [argument(0, NAMESPACES, "SCMP_CMP_MASKED_EQ")],
        }),
        // Its flags are in memory, where no filter can see them. Programs that are notified that it does not exist use `clone`.
        json!({ "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS }),
        json!({
            "names": ["ioctl"], "action": "SCMP_ACT_ALLOW",
            "args": [argument(1, TYPE_INTO_TERMINAL, "SCMP_CMP_NE")],
        }),
        json!({
            "names": ["socket"], "action": "SCMP_ACT_ALLOW",
            "args": [argument(0, NETLINK, "SCMP_CMP_EQ"), argument(2, 0, "SCMP_CMP_EQ")],
        }),
    ];
    rules.extend(SOCKETS.map(|family| {
        json!({ "names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [argument(0, family, "SCMP_CMP_EQ")] })
    }));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        // Only this machine's own calls: those of 32 bits have other numbers, and would slip through.
        "architectures": [ARCHITECTURE],
        "syscalls": rules,
    })
}

fn argument(index: u32, value: u64, operator: &str) -> Value {
    json!({ "index": index, "value": value, "valueTwo": 0, "op": operator })
}

const ARCHITECTURE: &str =
    if cfg!(target_arch = "aarch64") { "SCMP_ARCH_AARCH64" } else { "SCMP_ARCH_X86_64" };

#[rustfmt::skip]
const ALLOWED: &[&str] = &[
    // Files.
    "access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3",
    "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat",
    "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock", "fstat", "fstatfs", "fsync", "ftruncate", "futimesat",
    "getcwd", "getdents", "getdents64", "getxattr", "inotify_add_watch", "inotify_init", "inotify_init1",
    "inotify_rm_watch", "lchown", "lgetxattr", "link", "linkat", "listxattr", "llistxattr", "lseek", "lstat", "mkdir",
    "mkdirat", "newfstatat", "open", "openat", "openat2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev",
    "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv", "rename", "renameat", "renameat2", "rmdir",
    "sendfile", "splice", "stat", "statfs", "statx", "symlink", "symlinkat", "sync_file_range", "syncfs", "tee",
    "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes", "vmsplice", "write", "writev",
    // Pipes and events.
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2",
    "pipe", "pipe2", "poll", "ppoll", "pselect6", "select", "signalfd", "signalfd4", "timerfd_create", "timerfd_gettime",
    "timerfd_settime",
    // Memory.
    "brk", "get_mempolicy", "getrandom", "madvise", "map_shadow_stack", "membarrier", "mincore", "mlock", "mlock2",
    "mlockall", "mmap", "mprotect", "mremap", "msync", "munlock", "munlockall", "munmap", "mseal",
    "pkey_alloc", "pkey_free", "pkey_mprotect", "process_madvise",
    // Processes and threads.
    "arch_prctl", "execve", "execveat", "exit", "exit_group", "fork", "futex", "futex_requeue", "futex_wait",
    "futex_waitv", "futex_wake", "get_robust_list", "get_thread_area", "getcpu", "getpgid", "getpgrp", "getpid",
    "getppid", "getpriority", "getrlimit", "getrusage", "getsid", "gettid", "kill", "pause", "pidfd_open",
    "pidfd_send_signal", "prctl", "prlimit64", "restart_syscall", "rseq", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam", "sched_getscheduler",
    "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield", "set_robust_list",
    "set_tid_address", "setpgid", "setpriority", "setrlimit", "setsid", "tgkill", "times", "tkill", "vfork", "wait4",
    "waitid",
    // Signals.
    "alarm", "getitimer", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "setitimer", "sigaltstack",
    // Time, to read and to wait for.
    "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time", "timer_create",
    "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
    // Users: there is only one, but programs ask, and servers go through the motions.
    "capget", "capset", "getegid", "geteuid", "getgid", "getgroups", "getresgid", "getresuid", "getuid", "setfsgid",
    "setfsuid", "setgid", "setgroups", "setregid", "setresgid", "setresuid", "setreuid", "setuid",
    // Sockets; which kinds is said above.
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom", "recvmmsg",
    "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "socketpair",
    // The machine, to read about. Tightening one's own filter is fine.
    "seccomp", "sysinfo", "uname", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lets_programs_out_is_not_allowed() {
        let forbidden = [
            "unshare",
            "setns",
            "mount",
            "umount2",
            "pivot_root",
            "chroot",
            "ptrace",
            "process_vm_readv",
            "bpf",
            "keyctl",
            "add_key",
            "request_key",
            "perf_event_open",
            "userfaultfd",
            "io_uring_setup",
            "open_by_handle_at",
            "init_module",
            "finit_module",
            "kexec_load",
            "reboot",
            "swapon",
            "settimeofday",
            "clock_settime",
            "adjtimex",
            "personality",
            "memfd_create",
            "memfd_secret",
            "shmget",
            "mq_open",
            "mknod",
            "mknodat",
            "iopl",
            "ioperm",
            "modify_ldt",
            "sethostname",
            "syslog",
            "quotactl",
            "acct",
            "fsopen",
            "move_mount",
            "open_tree",
            "mount_setattr",
            "pidfd_getfd",
            "clone",
            "clone3",
            "socket",
            "ioctl",
            "name_to_handle_at",
            "setxattr",
        ];
        for name in forbidden {
            assert!(!ALLOWED.contains(&name), "{name}");
        }
    }

    #[test]
    fn no_call_is_listed_twice() {
        let mut names = ALLOWED.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALLOWED.len());
    }
}
