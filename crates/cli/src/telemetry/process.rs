//! Numbers about this process, under the names that Prometheus' own clients have for them. What the system does not tell is
//! left out.

use std::fmt::{Display, Write as _};
use std::fs;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, getrlimit};

/// Numbers about this process as text.
pub(super) fn numbers() -> String {
    let mut text = String::new();
    let build = format!("ferroplane_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    head(&mut text, "ferroplane_build_info", "gauge", "Which version runs.");
    let _ = writeln!(text, "{build} 1");
    let stat = Stat::read();
    let mut number = |name: &str, kind: &str, help: &str, value: Option<&dyn Display>| {
        let Some(value) = value else { return };
        head(&mut text, name, kind, help);
        let _ = writeln!(text, "{name} {value}");
    };
    let cpu = stat.as_ref().map(|stat| stat.cpu_seconds);
    number("process_cpu_seconds_total", "counter", "Time on processors.", shown(cpu.as_ref()));
    let began_at = stat.as_ref().and_then(|stat| Some(boot_time()? + stat.started_seconds));
    number(
        "process_start_time_seconds",
        "gauge",
        "When the process was started, since 1970.",
        shown(began_at.as_ref()),
    );
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let (resident, virtual_size) = (memory(&status, "VmRSS:"), memory(&status, "VmSize:"));
    number("process_resident_memory_bytes", "gauge", "Memory in use.", shown(resident.as_ref()));
    number("process_virtual_memory_bytes", "gauge", "Addresses in use.", shown(virtual_size.as_ref()));
    let open = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    number("process_open_fds", "gauge", "Open files and connections.", shown(open.as_ref()));
    let most = getrlimit(Resource::Nofile).current;
    number("process_max_fds", "gauge", "How many may be open.", shown(most.as_ref()));
    text
}

fn shown<T: Display>(value: Option<&T>) -> Option<&dyn Display> {
    value.map(|value| value as &dyn Display)
}

pub(super) fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
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
        let text = numbers();
        for name in ["cpu_seconds_total", "start_time_seconds", "resident_memory_bytes", "open_fds"] {
            assert!(text.contains(&format!("\nprocess_{name} ")), "{text}");
        }
    }
}
