//! What the kernel says of a process and its descendants: CPU time and memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A process with everything that it started, by the root's id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree(pub(crate) u32);

impl Tree {
    /// What each thread has used so far.
    pub(crate) fn cpu(self) -> Cpu {
        let mut nanos = BTreeMap::new();
        for pid in self.members() {
            for thread in numbers_in(&format!("/proc/{pid}/task")) {
                if let Some(used) = thread_nanos(pid, thread) {
                    nanos.insert(thread, used);
                }
            }
        }
        Cpu(nanos)
    }

    /// Resident memory in MB.
    pub(crate) fn rss_mb(self) -> f64 {
        let kib: u64 = self.members().into_iter().filter_map(rss_kib).sum();
        kib as f64 * 1_024.0 / 1e6
    }

    /// The root and its descendants. Children of a process that has ended go to another parent and
    /// are not found: candidates do not leave any.
    pub(crate) fn members(self) -> BTreeSet<u32> {
        let all: Vec<(u32, u32)> =
            numbers_in("/proc").into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
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

/// CPU time of threads at one moment, user and system.
#[derive(Clone, Debug)]
pub(crate) struct Cpu(BTreeMap<u32, u64>);

impl Cpu {
    /// Seconds used since `before`. What a thread used that has ended meanwhile is not seen: the
    /// threads that do a candidate's work stay.
    pub(crate) fn seconds_since(&self, before: &Self) -> f64 {
        let used = |(thread, now): (&u32, &u64)| {
            now.saturating_sub(before.0.get(thread).copied().unwrap_or(0))
        };
        self.0.iter().map(used).sum::<u64>() as f64 / 1e9
    }
}

/// Nanoseconds on a CPU: the scheduler's own account, since that of `stat` comes in hundredths.
fn thread_nanos(pid: u32, thread: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    stat.split_whitespace().next()?.parse().ok()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may hold anything, come the state and the parent.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn numbers_in(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
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
        let before = own.cpu();
        let mut sum = 0_u64;
        while own.cpu().seconds_since(&before) <= 0.0 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
