//! All processes of the host's pid namespace, as `/proc` lists them: who descends from whom, and what they use.

use std::collections::HashMap;
use std::fs;

use rustix::process::Pid;

/// How many ticks a second has in `/proc`. The kernel's interface fixed this number long ago.
const TICKS: u64 = 100;

/// A look at all processes.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: HashMap<i32, Process>,
    children: HashMap<i32, Vec<i32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: i32,
    cpu_ticks: u64,
    resident_pages: u64,
    threads: u64,
}

/// What a container uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) cpu_ms: u64,
    pub(super) memory: u64,
    pub(super) threads: u64,
}

impl Processes {
    pub(super) fn look() -> Self {
        let mut processes = Self::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            // It may have ended since.
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            if let Some(process) = Process::parse(&stat) {
                processes.insert(pid, process);
            }
        }
        processes
    }

    fn insert(&mut self, pid: i32, process: Process) {
        self.children.entry(process.parent).or_default().push(pid);
        self.all.insert(pid, process);
    }

    /// The children of a process.
    pub(super) fn children(&self, parent: Pid) -> impl Iterator<Item = Pid> + '_ {
        self.children
            .get(&parent.as_raw_nonzero().get())
            .into_iter()
            .flatten()
            .filter_map(|pid| Pid::from_raw(*pid))
    }

    /// Everybody who descends from a process, but not that process.
    pub(super) fn descendants(&self, ancestor: Pid) -> Vec<Pid> {
        let mut found: Vec<Pid> = self.children(ancestor).collect();
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            found.extend(self.children(pid));
            next += 1;
        }
        found
    }

    /// What everybody uses who descends from a process.
    pub(super) fn used_below(&self, ancestor: Pid) -> Use {
        let page = page_size();
        let mut total = Use::default();
        for pid in self.descendants(ancestor) {
            let Some(process) = self.all.get(&pid.as_raw_nonzero().get()) else { continue };
            total.cpu_ms += process.cpu_ticks * 1000 / TICKS;
            total.memory += process.resident_pages * page;
            total.threads += process.threads;
        }
        total
    }
}

impl Process {
    /// Reads `/proc/PID/stat`. The name of the program is in parentheses, and can hold anything.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Numbered from the third on, as proc(5) does.
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        Some(Self {
            parent: i32::try_from(field(4)?).ok()?,
            // Its own, and that of children that it has waited for.
            cpu_ticks: field(14)? + field(15)? + field(16)? + field(17)?,
            threads: field(20)?,
            resident_pages: field(24)?,
        })
    }
}

fn page_size() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: i32, pages: u64) -> Process {
        Process { parent, cpu_ticks: 5, resident_pages: pages, threads: 1 }
    }

    #[test]
    fn a_program_cannot_hide_behind_its_name() {
        let stat = "7 (a) R 1 (b)) S 3 7 7 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 2 0 99 4096 50 18446744073709551615";
        let process = Process::parse(stat).expect("process");
        assert_eq!(process, Process { parent: 3, cpu_ticks: 100, resident_pages: 50, threads: 2 });
    }

    #[test]
    fn what_a_container_uses_is_what_its_processes_use_together() {
        let mut processes = Processes::default();
        for (pid, parent, pages) in [(2, 1, 1000), (3, 2, 10), (4, 3, 20), (5, 4, 30), (6, 1, 7)] {
            processes.insert(pid, process(parent, pages));
        }
        let used = processes.used_below(Pid::from_raw(2).expect("pid"));
        assert_eq!(used, Use { cpu_ms: 150, memory: 60 * page_size(), threads: 3 });
    }
}
