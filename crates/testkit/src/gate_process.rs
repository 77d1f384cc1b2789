//! The real binary on a throw-away folder: start, command line, stop, kill, start again.
//!
//! Never here: what the gate should answer.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::gate_config::{ADMIN, DASHBOARD, GateConfig, PROXY, SERVER};
use crate::upstream::Upstream;
use crate::{ports, process};

/// A debug binary on a busy machine, migrations included, is ready well within this.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// One look at `/readyz`; the listener is local.
const PROBE_LIMIT: Duration = Duration::from_secs(2);
/// An orderly end flushes the record and closes streams; longer is a defect.
const TERMINATE_LIMIT: Duration = Duration::from_secs(20);
const CLI_LIMIT: Duration = Duration::from_secs(60);
/// Another process may take a port between our look and the gate's bind.
const PORT_TRIES_MAX: usize = 5;

/// Why a start did not lead to a ready gate.
#[derive(Debug)]
pub struct StartFailure {
    /// None when it was still running, but not ready in time.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
    pub config: String,
}

impl std::fmt::Display for StartFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.status {
            Some(status) => write!(f, "the gate ended before it was ready: {status}")?,
            None => write!(f, "the gate was not ready within {READY_LIMIT:?}")?,
        }
        write!(
            f,
            "\n--- configuration\n{}\n--- stdout\n{}\n--- stderr\n{}",
            self.config, self.stdout, self.stderr
        )
    }
}

impl std::error::Error for StartFailure {}

/// A gate under test. Dropping it kills its own child.
#[derive(Debug)]
pub struct GateProcess {
    executable: PathBuf,
    folder: TempDir,
    config: GateConfig,
    addrs: [SocketAddr; 4],
    child: Option<Child>,
}

impl GateProcess {
    /// Starts `executable up --config …` and waits until it is ready; panics with its output.
    pub fn start(executable: impl AsRef<Path>, config: GateConfig) -> Self {
        Self::try_start(executable, config).unwrap_or_else(|e| panic!("{e}"))
    }

    /// As [`Self::start`], for tests of starts that must fail.
    pub fn try_start(
        executable: impl AsRef<Path>,
        config: GateConfig,
    ) -> Result<Self, StartFailure> {
        let mut gate = Self::prepare(executable, config);
        gate.launch()?;
        Ok(gate)
    }

    /// Writes folder and configuration without starting: for `init`, `config check`, `doctor`.
    pub fn prepare(executable: impl AsRef<Path>, config: GateConfig) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("agentguard-test-")
            .tempdir()
            .expect("make a folder for the gate");
        let gate = Self {
            executable: executable.as_ref().to_owned(),
            addrs: config.addrs(ports::free()),
            folder,
            config,
            child: None,
        };
        gate.write_config();
        gate
    }

    /// Starts what was prepared, stopped or killed, on the same data folder.
    ///
    /// The ports stay unless another process took one meanwhile: ask for the addresses again.
    pub fn launch(&mut self) -> Result<(), StartFailure> {
        assert!(self.child.is_none(), "the gate is running already");
        for _ in 1..PORT_TRIES_MAX {
            match self.launch_once() {
                Err(failure) if failure.status.is_some() && self.lost_a_port() => {
                    self.addrs = self.config.addrs(ports::free());
                    self.write_config();
                }
                result => return result,
            }
        }
        self.launch_once()
    }

    /// Kills what still runs, then starts again on the same data folder; panics with its output.
    pub fn restart(&mut self) {
        self.kill9();
        self.launch().unwrap_or_else(|e| panic!("{e}"));
    }

    /// SIGTERM, then waits for the orderly end; panics when there is none.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the gate is running");
        kill_process(pid(&child), Signal::TERM).expect("send SIGTERM to our child");
        match process::wait(&mut child, TERMINATE_LIMIT) {
            Some(status) => status,
            None => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("no end {TERMINATE_LIMIT:?} after SIGTERM\n{}", self.output());
            }
        }
    }

    /// SIGKILL, at once; nothing when it does not run.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a signal to the running gate.
    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the gate is running");
        kill_process(pid(child), signal).expect("signal our child");
    }

    /// None while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().expect("look at the child")
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Runs the same binary with this gate's `--config`, which goes before a `--`.
    pub fn cli(&self, args: &[&str]) -> Output {
        self.cli_with(args, &[], "")
    }

    /// As [`Self::cli`], with further variables and something to read on stdin.
    pub fn cli_with(&self, args: &[&str], env: &[(&str, &str)], stdin: &str) -> Output {
        let end = args.iter().position(|arg| *arg == "--");
        let (own, rest) = args.split_at(end.unwrap_or(args.len()));
        let mut command = self.command();
        command.args(own).arg("--config").arg(self.config_path()).args(rest);
        command.envs(env.iter().copied());
        if stdin.is_empty() {
            return process::run(command, CLI_LIMIT);
        }
        let mut input = tempfile::tempfile().expect("a file for stdin");
        input.write_all(stdin.as_bytes()).and_then(|()| input.rewind()).expect("fill stdin");
        process::run_fed(command, input.into(), CLI_LIMIT)
    }

    /// As [`Self::cli`]; panics unless it ends with 0 and prints JSON.
    pub fn cli_json(&self, args: &[&str]) -> serde_json::Value {
        let output = self.cli(args);
        assert!(output.status.success(), "{args:?}: {}", process::show(&output));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
            panic!("{args:?} printed no JSON ({e}): {}", process::show(&output))
        })
    }

    /// Puts an upstream behind an alias and takes the default rules away: where most tests begin.
    pub fn serve(&self, alias: &str, kind: &str, upstream: &Upstream) {
        let base_url = upstream.base_url();
        let url = ["--base-url", base_url.as_str(), "--kind", kind, "--allow-private", "--json"];
        self.cli_json(&[&["service", "set", alias][..], &url].concat());
        self.cli_json(&["rule", "clear", "--json"]);
    }

    /// Every row of the record so far, oldest first.
    pub fn record_rows(&self) -> Vec<serde_json::Value> {
        let output = self.cli(&["logs", "export", "--format", "jsonl"]);
        assert!(output.status.success(), "{}", process::show(&output));
        serde_json::Deserializer::from_slice(&output.stdout)
            .into_iter()
            .map(|row| row.unwrap_or_else(|e| panic!("{e}: {}", process::show(&output))))
            .collect()
    }

    /// What all agents together spent today, as a decimal in USD: `20.00`.
    pub fn spent_today(&self) -> String {
        self.today("used")
    }

    /// What open calls hold of today's budgets, as a decimal in USD.
    pub fn reserved_today(&self) -> String {
        self.today("reserved")
    }

    fn today(&self, member: &str) -> String {
        let spend = self.cli_json(&["spend", "--json"]);
        let sum = spend["day"][member].as_str();
        sum.unwrap_or_else(|| panic!("no `day.{member}` in {spend}")).to_owned()
    }

    pub fn proxy_addr(&self) -> SocketAddr {
        self.addrs[PROXY]
    }

    pub fn admin_addr(&self) -> SocketAddr {
        self.addrs[ADMIN]
    }

    pub fn dashboard_addr(&self) -> SocketAddr {
        self.addrs[DASHBOARD]
    }

    pub fn server_addr(&self) -> SocketAddr {
        self.addrs[SERVER]
    }

    /// `http://…/proxy/<alias>` of this gate, without a slash at the end.
    pub fn proxy_url(&self, alias: &str) -> String {
        format!("http://{}/proxy/{alias}", self.proxy_addr())
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn config_path(&self) -> PathBuf {
        self.folder.path().join("agentguard.yaml")
    }

    pub fn stdout(&self) -> String {
        read(&self.stdout_path())
    }

    pub fn stderr(&self) -> String {
        read(&self.stderr_path())
    }

    /// Both outputs, of all starts, for a failed assertion.
    pub fn output(&self) -> String {
        format!("--- stdout\n{}\n--- stderr\n{}", self.stdout(), self.stderr())
    }

    fn launch_once(&mut self) -> Result<(), StartFailure> {
        let mut command = self.command();
        command
            .arg("up")
            .envs(self.config.gate_variables().iter().map(|(name, value)| (name, value)))
            .arg("--config")
            .arg(self.config_path())
            .stdin(Stdio::null())
            .stdout(append(&self.stdout_path()))
            .stderr(append(&self.stderr_path()));
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("starting {}: {e}", self.executable.display()));
        let admin = self.admin_addr();
        let end = process::poll(READY_LIMIT, || {
            // Looked at last: an answer from somebody else on a taken port is no sign of life.
            let answered = ready(admin);
            let ended = child.try_wait().expect("look at the child");
            ended.map(Err).or_else(|| answered.then_some(Ok(())))
        });
        let status = match end {
            Some(Ok(())) => {
                self.child = Some(child);
                return Ok(());
            }
            Some(Err(status)) => Some(status),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                None
            }
        };
        Err(StartFailure {
            status,
            stdout: self.stdout(),
            stderr: self.stderr(),
            config: read(&self.config_path()),
        })
    }

    /// One of the ports that we chose belongs to somebody else by now.
    fn lost_a_port(&self) -> bool {
        let chosen = self.addrs.iter().zip(self.config.binds());
        chosen.filter(|(_, fixed)| fixed.is_none()).any(|(addr, _)| !ports::is_free(*addr))
    }

    /// The binary, with nothing of the machine's own settings reaching it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        let home = self.folder.path();
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"AGENTGUARD") {
                command.env_remove(name);
            }
        }
        for name in process::PROXY_VARIABLES {
            command.env_remove(name);
        }
        command
            .current_dir(home)
            .env("HOME", home)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .envs(self.config.variables().iter().map(|(name, value)| (name, value)));
        command
    }

    fn write_config(&self) {
        let yaml = self.config.yaml(&self.data_dir(), self.addrs);
        File::create(self.config_path())
            .and_then(|mut file| file.write_all(yaml.as_bytes()))
            .expect("write the gate's configuration");
    }

    fn stdout_path(&self) -> PathBuf {
        self.folder.path().join("stdout.log")
    }

    fn stderr_path(&self) -> PathBuf {
        self.folder.path().join("stderr.log")
    }
}

impl Drop for GateProcess {
    fn drop(&mut self) {
        self.kill9();
    }
}

fn pid(child: &Child) -> Pid {
    let id = i32::try_from(child.id()).expect("a process id fits");
    Pid::from_raw(id).expect("a process id is not 0")
}

/// One look at `GET /readyz`, by hand: the kit must not depend on a runtime here.
fn ready(admin: SocketAddr) -> bool {
    let ask = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&admin, PROBE_LIMIT)?;
        stream.set_read_timeout(Some(PROBE_LIMIT))?;
        stream.set_write_timeout(Some(PROBE_LIMIT))?;
        write!(stream, "GET /readyz HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")?;
        let mut line = Vec::new();
        stream.take(12).read_to_end(&mut line)?;
        Ok(line)
    };
    ask().is_ok_and(|line| line == b"HTTP/1.1 200")
}

fn append(path: &Path) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap_or_else(|e| panic!("opening {}: {e}", path.display()))
}

fn read(path: &Path) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}
