//! Programs that a bench starts. Each is ended when it is dropped, and bounded in time should the
//! bench itself be killed.

use std::fs::File;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::proc::Tree;

/// The whole of `make bench` takes less.
const LIFE_SEC: &str = "3600";
const READY_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A running program.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// This program in another role (see [`until_parent_ends`]), listening at `addr`.
    pub(crate) fn role(role: &str, addr: SocketAddr, args: &[String]) -> Self {
        let own = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(own);
        command.arg(ROLE).arg(role).arg(addr.to_string()).args(args).stdin(Stdio::piped());
        Self::spawn(command, addr, role)
    }

    /// Another's program, listening at `addr`. What it prints goes to `log`.
    pub(crate) fn foreign(program: &Path, args: &[&str], addr: SocketAddr, log: &Path) -> Self {
        let out = File::create(log).expect("a file for a program's output");
        let both = out.try_clone().expect("the same file again");
        let mut command = Command::new("timeout");
        command.args(["--foreground", "-k", "5", LIFE_SEC]).arg(program).args(args);
        command.stdin(Stdio::null()).stdout(out).stderr(both);
        Self::spawn(command, addr, &program.display().to_string())
    }

    pub(crate) fn tree(&self) -> Tree {
        Tree(self.child.id())
    }

    fn spawn(mut command: Command, addr: SocketAddr, name: &str) -> Self {
        let child = command.spawn().unwrap_or_else(|error| panic!("starting {name}: {error}"));
        let mut process = Self { child };
        let end = Instant::now() + READY_LIMIT;
        while TcpStream::connect_timeout(&addr, READY_LIMIT).is_err() {
            let ended = process.child.try_wait().expect("look at the child");
            assert!(ended.is_none(), "{name} ended at its start: {ended:?}");
            assert!(Instant::now() < end, "{name} does not listen at {addr}");
            std::thread::sleep(LOOK_AGAIN);
        }
        process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let members = self.tree().members();
        signal(self.child.id(), Signal::TERM);
        let end = Instant::now() + END_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(LOOK_AGAIN);
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            members.into_iter().for_each(|pid| signal(pid, Signal::KILL));
            let _ = self.child.wait();
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}

/// The first argument of this program when it plays a part in its own bench.
pub(crate) const ROLE: &str = "--role";

/// Ends this process when the one that started it does: then its standard input closes.
pub(crate) fn until_parent_ends() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}

/// Where a command is, if it is installed. Servers live in `sbin`, which not every PATH has.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The gate's release binary, beside this program: both are built by `make bench`.
pub(crate) fn gate_binary() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.join("agentguard");
    path.exists().then_some(path)
}
