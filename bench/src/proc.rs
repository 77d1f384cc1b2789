//! What the kernel says of a process and its descendants: CPU time and memory.

use std::collections::BTreeSet;
use std::fs;

/// A process with everything that it started, by the root's id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree(pub(crate) u32);

impl Tree {
    /// CPU seconds, user and system, of all threads, also of those that have ended.
    pub(crate) fn cpu_seconds(self) -> f64 {
        let ticks: u64 = self.members().into_iter().filter_map(cpu_ticks).sum();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Resident memory in MB.
    pub(crate) fn rss_mb(self) -> f64 {
        let kib: u64 = self.members().into_iter().filter_map(rss_kib).sum();
        kib as f64 * 1_024.0 / 1e6
    }

    /// The root and its descendants. Children of a process that has ended go to another parent and
    /// are not found: candidates do not leave any.
    pub(crate) fn members(self) -> BTreeSet<u32> {
        let all: Vec<(u32, u32)> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|pid| Some((pid, field(pid, PARENT)?.try_into().ok()?)))
            .collect();
        let mut found = BTreeSet::from([self.0]);
        loop {
            let before = found.len();
            found.extend(
                all.iter()
                    .filter(|(_, parent)| found.contains(parent))
                    .map(|(pid, _)| *pid)
                    .collect::<Vec<_>>(),
            );
            if found.len() == before {
                return found;
            }
        }
    }
}

/// Places in `/proc/PID/stat`, counted after the name in parentheses.
const PARENT: usize = 1;
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;

fn cpu_ticks(pid: u32) -> Option<u64> {
    Some(field(pid, USER_TICKS)? + field(pid, SYSTEM_TICKS)?)
}

fn field(pid: u32, place: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(place)?.parse().ok()
}

fn rss_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_cpu_and_memory() {
        let own = Tree(std::process::id());
        assert!(own.members().contains(&own.0));
        assert!(own.rss_mb() > 0.5);
        assert!(cpu_ticks(own.0).is_some());
    }
}
