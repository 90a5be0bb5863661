//! Numbers about this process, under the names that Prometheus' own clients have for them. What the system does not tell is
//! left out.

use std::fmt::Display;
use std::fs;

use ferroplane_metrics::{Exposition, labels};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, getrlimit};

/// Writes numbers about this process.
pub(super) fn write(page: &mut Exposition) {
    let version = labels(&[("version", env!("CARGO_PKG_VERSION"))]);
    page.gauge("ferroplane_build_info", "Version of the program; always 1").series(&version, 1);
    let stat = Stat::read();
    if let Some(stat) = &stat {
        page.counter("process_cpu_seconds_total", "CPU time of the process, in seconds")
            .value(stat.cpu_seconds);
    }
    let mut gauge = |name: &str, help: &str, value: Option<&dyn Display>| {
        if let Some(value) = value {
            page.gauge(name, help).value(value);
        }
    };
    let began_at = stat.as_ref().and_then(|stat| Some(boot_time()? + stat.started_seconds));
    gauge(
        "process_start_time_seconds",
        "Start time of the process, in seconds since 1970",
        shown(began_at.as_ref()),
    );
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let (resident, virtual_size) = (memory(&status, "VmRSS:"), memory(&status, "VmSize:"));
    gauge(
        "process_resident_memory_bytes",
        "Resident memory of the process, in bytes",
        shown(resident.as_ref()),
    );
    gauge(
        "process_virtual_memory_bytes",
        "Virtual memory of the process, in bytes",
        shown(virtual_size.as_ref()),
    );
    let open = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    gauge("process_open_fds", "Open file descriptors", shown(open.as_ref()));
    let most = getrlimit(Resource::Nofile).current;
    gauge("process_max_fds", "Limit of open file descriptors", shown(most.as_ref()));
}

fn shown<T: Display>(value: Option<&T>) -> Option<&dyn Display> {
    value.map(|value| value as &dyn Display)
}

struct Stat {
    cpu_seconds: f64,
    /// Since the system was started.
    started_seconds: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?, clock_ticks_per_second())
    }

    #[expect(clippy::cast_precision_loss, reason = "nothing runs for that long")]
    fn parse(stat: &str, ticks: u64) -> Option<Self> {
        // The name of a program may contain anything, a closing parenthesis too.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let seconds = |index: usize| Some(fields.get(index)?.parse::<u64>().ok()? as f64 / ticks as f64);
        // utime, stime and starttime: the first field after the name is the third of all.
        Some(Self { cpu_seconds: seconds(11)? + seconds(12)?, started_seconds: seconds(19)? })
    }
}

/// When the system was started, since 1970.
fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn memory(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read_whatever_the_program_is_called() {
        let stat = "7 (a) b 1) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 2500 1 1";
        let stat = Stat::parse(stat, 100).unwrap();
        assert!((stat.cpu_seconds - 2.0).abs() < 1e-9 && (stat.started_seconds - 25.0).abs() < 1e-9);
        assert_eq!(memory("VmSize:\t  10 kB\nVmRSS:\t   2 kB\n", "VmRSS:"), Some(2048));
    }

    #[test]
    fn everything_is_known_of_this_process() {
        let mut page = Exposition::default();
        write(&mut page);
        let text = page.into_text();
        for name in ["cpu_seconds_total", "start_time_seconds", "resident_memory_bytes", "open_fds"] {
            assert!(text.contains(&format!("\nprocess_{name} ")), "{text}");
        }
    }
}
