// Tries to get out of a container, and reports each attempt on a line of its own: `NAME held REASON` or `NAME ESCAPED`.
// Built statically by the tests, since the container has no libraries. What the attempts aim at comes in as arguments.

#define _GNU_SOURCE
#include <errno.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *secret_file, *secret_word, *abstract_name;
// Names between commas. If there are any, nothing else is tried.
static const char *chosen;
static int port, outside_pid;

static void report(const char *name, int escaped) {
    if (escaped) printf("%s ESCAPED\n", name);
    else printf("%s held %s\n", name, strerror(errno));
    fflush(stdout);
}

static int is_chosen(const char *name) {
    char between_commas[64];
    snprintf(between_commas, sizeof between_commas, ",%s,", name);
    return !chosen || strstr(chosen, between_commas);
}

// The attempt succeeds if the expression is true.
#define TRY(name, expression) do { if (!is_chosen(name)) break; errno = 0; int escaped_ = (expression); report(name, escaped_); } while (0)

static int contains_secret(const char *path) {
    char buffer[65536];
    int file = open(path, O_RDONLY | O_NONBLOCK);
    if (file < 0) return 0;
    ssize_t length = read(file, buffer, sizeof buffer - 1);
    close(file);
    if (length <= 0) return 0;
    for (ssize_t i = 0; i < length; i++) if (!buffer[i]) buffer[i] = ' ';
    buffer[length] = 0;
    return strstr(buffer, secret_word) != NULL;
}

static int can_write(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_NONBLOCK);
    if (file < 0) return 0;
    int wrote = write(file, text, strlen(text)) > 0;
    int saved = errno;
    close(file);
    errno = saved;
    return wrote;
}

static int can_read(const char *path) {
    char byte;
    int file = open(path, O_RDONLY | O_NONBLOCK);
    if (file < 0) return 0;
    int got = read(file, &byte, 1) > 0;
    int saved = errno;
    close(file);
    errno = saved;
    return got;
}

static int can_create(const char *path) {
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    if (file < 0) return 0;
    close(file);
    return 1;
}

static int can_open_device(int major, int minor) {
    unlink("/tmp/node");
    return mknod("/tmp/node", S_IFBLK | 0666, makedev(major, minor)) == 0 && open("/tmp/node", O_RDONLY) >= 0;
}

static int secret_by_prefix(const char *prefix) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", prefix, secret_file);
    return contains_secret(path);
}

static int secret_by_link(void) {
    unlink("/tmp/link");
    return symlink(secret_file, "/tmp/link") == 0 && contains_secret("/tmp/link");
}

static int secret_by_chroot(void) {
    if (mkdir("/tmp/jail", 0700) < 0 && errno != EEXIST) return 0;
    if (chroot("/tmp/jail") < 0) return 0;
    for (int i = 0; i < 32; i++) if (chdir("..") < 0) return 0;
    return chroot(".") == 0 && contains_secret(secret_file);
}

static int secret_in_environment(void) {
    extern char **environ;
    for (char **variable = environ; *variable; variable++) if (strstr(*variable, secret_word)) return 1;
    return 0;
}

static int secret_in_some_process(void) {
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    char path[300];
    while (proc && (entry = readdir(proc))) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
        snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
        if (contains_secret(path)) return 1;
    }
    return 0;
}

// Everybody in here is either this program or its child.
static int sees_foreign_process(void) {
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    char path[300], name[64];
    while (proc && (entry = readdir(proc))) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
        snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
        int file = open(path, O_RDONLY);
        ssize_t length = file < 0 ? 0 : read(file, name, sizeof name - 1);
        if (file >= 0) close(file);
        if (length > 0 && strncmp(name, "attack", 6)) return 1;
    }
    return 0;
}

static int has_extra_file(void) {
    for (int file = 3; file < 256; file++) if (fcntl(file, F_GETFD) >= 0) return 1;
    return 0;
}

static int reaches(int family, const char *address, int to) {
    struct sockaddr_in target = { .sin_family = AF_INET, .sin_port = htons(to) };
    inet_pton(AF_INET, address, &target.sin_addr);
    int socket_ = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (socket_ < 0) return 0;
    int connected = connect(socket_, (struct sockaddr *)&target, sizeof target) == 0 || errno == EINPROGRESS;
    if (connected) {
        fd_set set;
        struct timeval wait = { 0, 200000 };
        FD_ZERO(&set);
        FD_SET(socket_, &set);
        int problem = ETIMEDOUT;
        socklen_t length = sizeof problem;
        if (select(socket_ + 1, NULL, &set, NULL, &wait) > 0) getsockopt(socket_, SOL_SOCKET, SO_ERROR, &problem, &length);
        errno = problem;
        connected = problem == 0;
    }
    int saved = errno;
    close(socket_);
    errno = saved;
    return connected;
}

static int reaches_abstract(void) {
    struct sockaddr_un target = { .sun_family = AF_UNIX };
    int socket_ = socket(AF_UNIX, SOCK_STREAM, 0);
    strncpy(target.sun_path + 1, abstract_name, sizeof target.sun_path - 2);
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(abstract_name);
    return socket_ >= 0 && connect(socket_, (struct sockaddr *)&target, length) == 0;
}

static int asks_for_a_name(void) {
    char query[] = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07" "example\x03" "org\x00\x00\x01\x00\x01";
    struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons(53) };
    inet_pton(AF_INET, "192.0.2.53", &server.sin_addr);
    int socket_ = socket(AF_INET, SOCK_DGRAM, 0);
    return socket_ >= 0 && sendto(socket_, query, sizeof query - 1, 0, (struct sockaddr *)&server, sizeof server) > 0;
}

static int opens_socket(int family, int type, int protocol) {
    return socket(family, type, protocol) >= 0;
}

static int clones(unsigned long flags) {
    long child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    return child > 0;
}

static int clones3(unsigned long flags) {
    struct { unsigned long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; } arguments = { flags, 0, 0, 0, SIGCHLD, 0, 0, 0 };
    long child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    return child > 0;
}

static int enters(const char *namespace) {
    int file = open(namespace, O_RDONLY);
    if (file < 0) return 0;
    int entered = setns(file, 0) == 0;
    int saved = errno;
    close(file);
    errno = saved;
    return entered;
}

static int gains_capability(void) {
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 1 << CAP_SYS_ADMIN, 1 << CAP_SYS_ADMIN, 0 }, { 0, 0, 0 } };
    return syscall(SYS_capset, &header, data) == 0;
}

// A copy of this program that would run as root.
static int runs_as_root(void) {
    char buffer[65536];
    ssize_t length;
    int from = open("/proc/self/exe", O_RDONLY), to = open("/tmp/root", O_CREAT | O_WRONLY | O_TRUNC, 0755);
    if (from < 0 || to < 0) return 0;
    while ((length = read(from, buffer, sizeof buffer)) > 0) if (write(to, buffer, length) < 0) return 0;
    close(from);
    close(to);
    if (chown("/tmp/root", 0, 0) < 0 && chmod("/tmp/root", 04755) < 0) return 0;
    chmod("/tmp/root", 04755);
    pid_t child = fork();
    if (child == 0) {
        execl("/tmp/root", "root", "whoami", NULL);
        _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    errno = EPERM;
    return WIFEXITED(status) && WEXITSTATUS(status) == 77;
}

// The numbers of calls of 32 bits are others: 20 is `getpid`. Whoever checks the wrong table lets them pass.
static int makes_old_call(void) {
#ifdef __x86_64__
    pid_t child = fork();
    if (child == 0) {
        long result;
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");
        _exit(result > 0 ? 77 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    errno = EPERM;
    return WIFEXITED(status) && WEXITSTATUS(status) == 77;
#else
    return 0;
#endif
}

static int sets_time(void) {
    struct timeval now;
    gettimeofday(&now, NULL);
    return settimeofday(&now, NULL) == 0;
}

static int raises_limit(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max = limit.rlim_max + 1000;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static int runs_in_real_time(void) {
    struct sched_param parameter = { .sched_priority = 10 };
    return sched_setscheduler(0, SCHED_FIFO, &parameter) == 0;
}

// With runc, which stands in between, it is a pipe of the program's own.
static int changes_input(void) {
    struct stat kind;
    int file = open("/proc/self/fd/0", O_RDWR);
    if (file >= 0 && fstat(file, &kind) == 0 && S_ISFIFO(kind.st_mode)) return 0;
    return file >= 0 && (ftruncate(file, 1 << 30) == 0 || write(file, "x", 1) == 1);
}

static int reads_parent_memory(void) {
    char buffer[8];
    struct iovec here = { buffer, sizeof buffer }, there = { (void *)0x400000, sizeof buffer };
    return process_vm_readv(outside_pid, &here, 1, &there, 1, 0) > 0;
}

static int runs_from(const char *path) {
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0755);
    if (file < 0) return 0;
    dprintf(file, "#!/nowhere\n");
    close(file);
    execl(path, path, NULL);
    int saved = errno;
    unlink(path);
    errno = saved;
    return errno == ENOENT;
}

static int fills_handles(void) {
    struct { unsigned bytes; int type; char data[128]; } handle = { .bytes = 128 };
    int mount_id;
    return syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &handle, &mount_id, 0) == 0;
}

static void files(void) {
    TRY("host-file", contains_secret(secret_file));
    TRY("host-file-by-parents", secret_by_prefix("../../../../../../../.."));
    TRY("host-file-by-init-root", secret_by_prefix("/proc/1/root"));
    TRY("host-file-by-own-root", secret_by_prefix("/proc/self/root/proc/1/cwd/../../../.."));
    TRY("host-file-by-link", secret_by_link());
    TRY("host-file-by-chroot", secret_by_chroot());
    TRY("host-paths-in-mounts", contains_secret("/proc/self/mountinfo"));
    TRY("root-is-writable", can_create("/escaped"));
    TRY("program-is-writable", can_write("/bin/attack", "x"));
    TRY("own-executable-is-writable", can_write("/proc/1/exe", "x"));
    TRY("hard-link-of-program", link("/bin/attack", "/tmp/attack") == 0 && can_write("/tmp/attack", "x"));
    TRY("extra-open-file", has_extra_file());
    TRY("input-can-be-changed", changes_input());
    TRY("file-handle", syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, O_RDONLY) >= 0 || errno == EFAULT);
    TRY("name-to-handle", fills_handles());
    TRY("run-from-shared-memory", runs_from("/dev/shm/program"));
}

static void devices(void) {
    TRY("disk-node", can_open_device(254, 0) || can_open_device(8, 0));
    TRY("device-mem", can_read("/dev/mem"));
    TRY("device-kmsg", can_read("/dev/kmsg"));
    TRY("device-disk", can_read("/dev/vda") || can_read("/dev/sda"));
    TRY("device-kvm", open("/dev/kvm", O_RDWR) >= 0);
    TRY("device-fuse", open("/dev/fuse", O_RDWR) >= 0);
    TRY("device-tun", open("/dev/net/tun", O_RDWR) >= 0);
    TRY("terminal", open("/dev/tty", O_RDWR) >= 0);
    TRY("terminal-input", ioctl(0, TIOCSTI, "x") == 0);
}

static void kernel(void) {
    TRY("proc-kcore", can_read("/proc/kcore"));
    TRY("proc-keys", can_read("/proc/keys"));
    TRY("proc-kmsg", can_read("/proc/kmsg"));
    TRY("proc-kallsyms", can_read("/proc/kallsyms"));
    TRY("proc-cmdline", can_read("/proc/cmdline"));
    TRY("proc-core-pattern", can_write("/proc/sys/kernel/core_pattern", "|/tmp/x"));
    TRY("proc-sysrq", can_write("/proc/sysrq-trigger", "h"));
    TRY("proc-modprobe", can_write("/proc/sys/kernel/modprobe", "/tmp/x"));
    TRY("proc-oom-score", can_write("/proc/self/oom_score_adj", "-1000"));
    TRY("proc-uid-map", can_write("/proc/self/uid_map", "0 0 1\n"));
    TRY("load-module", syscall(SYS_init_module, "", 0, "") == 0);
    TRY("load-kernel", syscall(SYS_kexec_load, 0, 0, NULL, 0) == 0);
    TRY("bpf", syscall(SYS_bpf, 0, NULL, 0) >= 0 || errno == EFAULT);
    TRY("performance-counters", syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0) >= 0 || errno == EFAULT);
    TRY("user-faults", syscall(SYS_userfaultfd, 0) >= 0);
    TRY("io-uring", syscall(SYS_io_uring_setup, 1, NULL) >= 0 || errno == EFAULT);
    TRY("swap", syscall(SYS_swapon, "/tmp/swap", 0) == 0);
    TRY("kernel-log", syscall(SYS_syslog, 3, (char[64]){ 0 }, 64) >= 0);
    TRY("accounting", syscall(SYS_acct, NULL) == 0);
    TRY("add-key", syscall(SYS_add_key, "user", "name", "value", 5, -3) >= 0);
    TRY("request-key", syscall(SYS_request_key, "user", "name", NULL, 0) >= 0);
    TRY("keyring", syscall(SYS_keyctl, 0, -3, 0) >= 0);
    TRY("clock", sets_time());
    TRY("host-name", sethostname("escaped", 7) == 0);
    TRY("old-calls", makes_old_call());
    TRY("personality", syscall(SYS_personality, 0x0040000) >= 0);
    TRY("memory-of-nobody", syscall(SYS_memfd_create, "x", 0) >= 0);
    TRY("system-v-memory", syscall(SYS_shmget, 0, 4096, 01600) >= 0);
    TRY("message-queue", syscall(SYS_mq_open, "x", O_CREAT | O_RDWR, 0600, NULL) >= 0);
}

static void privileges(void) {
    TRY("become-root", setuid(0) == 0 && geteuid() == 0);
    TRY("become-root-group", setgid(0) == 0 && getegid() == 0);
    TRY("take-groups", syscall(SYS_setgroups, 1, (gid_t[]){ 0 }) == 0);
    TRY("capability", gains_capability());
    TRY("ambient-capability", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0) == 0);
    TRY("new-privileges", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
    TRY("setuid-file", runs_as_root());
    TRY("raise-limit", raises_limit());
    TRY("priority", setpriority(PRIO_PROCESS, 0, -10) == 0);
    TRY("real-time", runs_in_real_time());
}

static void namespaces(void) {
    TRY("unshare-user", unshare(CLONE_NEWUSER) == 0);
    TRY("unshare-mount", unshare(CLONE_NEWNS) == 0);
    TRY("clone-user", clones(CLONE_NEWUSER));
    TRY("clone-network", clones(CLONE_NEWNET));
    TRY("clone3-user", clones3(CLONE_NEWUSER));
    TRY("enter-namespace", enters("/proc/1/ns/mnt") || enters("/proc/self/ns/user"));
    TRY("mount-tmpfs", mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0);
    TRY("mount-proc", mount("proc", "/tmp", "proc", 0, NULL) == 0);
    TRY("mount-bind", mount("/", "/tmp", NULL, MS_BIND | MS_REC, NULL) == 0);
    TRY("remount-root", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL) == 0);
    TRY("unmask-proc", umount2("/proc/kcore", MNT_DETACH) == 0);
    TRY("pivot-root", syscall(SYS_pivot_root, "/tmp", "/tmp") == 0);
    TRY("new-mount-calls", syscall(SYS_fsopen, "tmpfs", 0) >= 0);
    TRY("open-tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1) >= 0);
    TRY("cgroup-files", can_write("/sys/fs/cgroup/cgroup.procs", "0") || can_read("/sys/fs/cgroup/cgroup.procs"));
    TRY("cgroup-mount", mount("cgroup2", "/tmp", "cgroup2", 0, NULL) == 0);
    TRY("cgroup-release-agent", mount("cgroup", "/tmp", "cgroup", 0, "memory") == 0);
}

// In a child: a process that is traced by a parent that does not know of it stops for good at its next signal.
static int lets_itself_be_traced(void) {
    pid_t child = fork();
    if (child == 0) _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : 1);
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void processes(void) {
    TRY("foreign-process", sees_foreign_process());
    TRY("environment", secret_in_environment());
    TRY("environment-of-others", secret_in_some_process());
    TRY("signal-outside", kill(outside_pid, SIGTERM) == 0);
    TRY("trace-outside", ptrace(PTRACE_ATTACH, outside_pid, NULL, NULL) == 0);
    TRY("trace-inside", lets_itself_be_traced());
    TRY("memory-outside", reads_parent_memory());
    TRY("files-outside", syscall(SYS_pidfd_open, outside_pid, 0) >= 0);
}

static void network(void) {
    TRY("host-port", reaches(AF_INET, "127.0.0.1", port));
    TRY("abstract-socket", reaches_abstract());
    TRY("outside-address", reaches(AF_INET, "192.0.2.1", 80));
    TRY("metadata-address", reaches(AF_INET, "169.254.169.254", 80));
    TRY("name-resolution", asks_for_a_name());
    TRY("packet-socket", opens_socket(AF_PACKET, SOCK_RAW, 0));
    TRY("raw-socket", opens_socket(AF_INET, SOCK_RAW, 1));
    TRY("crypto-socket", opens_socket(38, SOCK_SEQPACKET, 0));
    TRY("machine-socket", opens_socket(40, SOCK_STREAM, 0));
    TRY("audit-socket", opens_socket(AF_NETLINK, SOCK_RAW, 9));
}

// Uses memory for good.
static int hog(size_t step) {
    for (;;) {
        char *memory = malloc(step);
        if (!memory) return 9;
        memset(memory, 1, step);
    }
}

static int fork_bomb(void) {
    int refused = 0;
    for (int i = 0; i < 5000; i++) {
        pid_t child = fork();
        if (child < 0) refused++;
        if (child == 0) for (;;) pause();
    }
    printf("refused %d\n", refused);
    return 0;
}

static int fill_disk(void) {
    static char buffer[65536];
    long long total = 0;
    signal(SIGXFSZ, SIG_IGN);
    for (int number = 0; number < 8; number++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/fill%d", number);
        int file = open(path, O_CREAT | O_WRONLY, 0600);
        ssize_t length;
        while (file >= 0 && (length = write(file, buffer, sizeof buffer)) > 0) total += length;
    }
    printf("%lld\n", total);
    return 0;
}

static int make_files(void) {
    int made = 0;
    for (int number = 0; number < 1000000; number++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/f%d", number);
        int file = open(path, O_CREAT | O_WRONLY, 0600);
        if (file < 0) break;
        close(file);
        made++;
    }
    printf("%d\n", made);
    return 0;
}

static int open_files(void) {
    int opened = 0;
    while (open("/", O_RDONLY) >= 0) opened++;
    printf("%d\n", opened);
    return 0;
}

// A child that no longer belongs to anybody.
static int leave_daemon(void) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) for (;;) pause();
        _exit(0);
    }
    usleep(20000);
    return 0;
}

static int flood(int file) {
    static char buffer[65536];
    memset(buffer, 'x', sizeof buffer);
    for (int i = 63; i < (int)sizeof buffer; i += 64) buffer[i] = '\n';
    for (long i = 0; i < 4096; i++) if (write(file, buffer, sizeof buffer) < 0) return 1;
    return 0;
}

static int serve(int at) {
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(at) };
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) < 0 || listen(listener, 16) < 0) return 1;
    for (;;) {
        char buffer[4096];
        int connection = accept(listener, NULL, NULL);
        if (fork() == 0) {
            ssize_t length;
            while ((length = read(connection, buffer, sizeof buffer)) > 0) {
                if (!strncmp(buffer, "die", 3)) kill(1, SIGUSR1);
                if (write(connection, buffer, length) < 0) break;
            }
            _exit(0);
        }
        close(connection);
    }
}

static void die(int signal) { (void)signal; _exit(3); }

int main(int count, char **arguments) {
    if (count < 2) return 2;
    const char *what = arguments[1];
    if (!strcmp(what, "whoami")) return geteuid() == 0 ? 77 : 1;
    if (!strcmp(what, "memory")) return hog(1 << 20);
    if (!strcmp(what, "memory-of-many")) { for (int i = 0; i < 20; i++) if (fork() == 0) hog(64 << 10); for (;;) pause(); }
    if (!strcmp(what, "fork-bomb")) return fork_bomb();
    if (!strcmp(what, "spin")) for (;;) ;
    if (!strcmp(what, "sleep")) { signal(SIGTERM, SIG_IGN); for (;;) pause(); }
    if (!strcmp(what, "disk")) return fill_disk();
    if (!strcmp(what, "make-files")) return make_files();
    if (!strcmp(what, "open-files")) return open_files();
    if (!strcmp(what, "daemon")) return leave_daemon();
    if (!strcmp(what, "flood")) return flood(1);
    if (!strcmp(what, "flood-log")) return flood(2);
    if (!strcmp(what, "serve") && count > 2) { signal(SIGUSR1, die); signal(SIGTERM, die); return serve(atoi(arguments[2])); }
    if (strcmp(what, "escape") || count < 7) return 2;
    secret_file = arguments[2];
    secret_word = arguments[3];
    port = atoi(arguments[4]);
    abstract_name = arguments[5];
    outside_pid = atoi(arguments[6]);
    if (count > 7) chosen = arguments[7];
    // The secret word is among our own arguments, which is no escape.
    files();
    devices();
    network();
    processes();
    kernel();
    privileges();
    namespaces();
    printf("done\n");
    return 0;
}
