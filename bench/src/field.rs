//! The candidates: the gate as it ships, a forwarder that checks nothing, twice, and what others use.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use agentguard_testkit::{GateProcess, ports};
use tempfile::TempDir;

use crate::child::{Process, gate_binary, installed};
use crate::load::Target;
use crate::proc::{Cpu, Tree};
use crate::setup::{Gated, Size};

/// The name of the candidate that all others are compared with.
pub(crate) const BARE: &str = "bare";
pub(crate) const CONTROL: &str = "bare again";
pub(crate) const GATE_PLAIN: &str = "gate, generic";
pub(crate) const GATE_MODEL: &str = "gate, openai";

/// One way from the load to the upstream.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    pub(crate) addr: SocketAddr,
    /// None: no process of its own.
    pub(crate) tree: Option<Tree>,
    /// What stands before the path.
    prefix: &'static str,
}

/// Everything that runs for a comparison. All of it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) upstream: SocketAddr,
    pub(crate) candidates: Vec<Candidate>,
    token: String,
    _processes: Vec<Process>,
    _gate: GateProcess,
    _folder: TempDir,
}

impl Field {
    /// Starts what is there; None without a release binary of the gate.
    pub(crate) fn start() -> Option<Self> {
        let Some(binary) = gate_binary() else {
            println!("no release binary of `agentguard` beside this program: run `make bench`");
            return None;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [upstream, bare, control, nginx, haproxy] = ports::free();
        let mut processes = vec![Process::role("upstream", upstream, &[])];
        let mut candidates = Vec::new();
        for (name, addr) in [(BARE, bare), (CONTROL, control)] {
            let process = Process::role("bare", addr, &[upstream.to_string()]);
            candidates.push(Candidate { name, addr, tree: Some(process.tree()), prefix: "" });
            processes.push(process);
        }
        for (name, addr, start) in
            [("nginx", nginx, start_nginx as Start), ("haproxy", haproxy, start_haproxy)]
        {
            match start(&folder, addr, upstream) {
                Some(process) => {
                    let tree = Some(process.tree());
                    candidates.push(Candidate { name, addr, tree, prefix: "" });
                    processes.push(process);
                }
                None => println!("{name}: not installed, left out"),
            }
        }
        for name in ["litellm", "portkey"] {
            match installed(name) {
                Some(path) => println!("{name}: at {}, not measured here yet", path.display()),
                None => println!("{name}: not installed, left out"),
            }
        }
        let Gated { gate, tokens } = Gated::start(&binary, upstream, Size { agents: 1, rules: 10 });
        let tree = gate.pid().map(Tree);
        let addr = gate.proxy_addr();
        for (name, prefix) in [(GATE_PLAIN, "/proxy/plain"), (GATE_MODEL, "/proxy/model")] {
            candidates.push(Candidate { name, addr, tree, prefix });
        }
        let token = tokens.into_iter().next().expect("one agent has one token");
        let (_processes, _gate, _folder) = (processes, gate, folder);
        Some(Self { upstream, candidates, token, _processes, _gate, _folder })
    }

    pub(crate) fn target(&self, candidate: &Candidate, pace: Option<&str>) -> Target {
        let request = request(candidate.prefix, &self.token, pace);
        Target { addr: candidate.addr, requests: vec![request] }
    }

    /// The same requests without anything between.
    pub(crate) fn direct(&self) -> Target {
        Target { addr: self.upstream, requests: vec![request("", &self.token, None)] }
    }
}

/// A call of a model, 1 KB of JSON. All candidates get the same headers.
pub(crate) fn request(prefix: &str, token: &str, pace: Option<&str>) -> Vec<u8> {
    let start = r#"{"model":"gpt-4o-mini","max_tokens":64,"temperature":0.2,"messages":[{"role":"system","content":"You answer in one sentence."},{"role":"user","content":""#;
    let (end, pace) = match pace {
        Some(pace) => (r#""}],"stream":true}"#, format!("X-Bench-Pace: {pace}\r\n")),
        None => (r#""}]}"#, String::new()),
    };
    let question = "When was the bridge between the two cities opened, and who built it? ";
    let room = 1_024 - start.len() - end.len();
    let question: String = question.chars().cycle().take(room).collect();
    format!(
        "POST {prefix}/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench/1\r\n\
         Accept: application/json\r\nContent-Type: application/json\r\n\
         Authorization: Bearer sk-bench-0123456789abcdef0123456789abcdef\r\n\
         X-AgentGuard-Token: {token}\r\n{pace}Content-Length: 1024\r\n\r\n{start}{question}{end}"
    )
    .into_bytes()
}

/// CPU of a candidate once it has done what it still had to do, such as writing rows.
pub(crate) fn cpu_at_rest(tree: Tree) -> Cpu {
    const LOOK_EVERY: Duration = Duration::from_millis(150);
    const REST_LIMIT: Duration = Duration::from_secs(3);
    /// What runs by the clock uses less in that time.
    const REST_SECONDS: f64 = 0.003;
    let end = Instant::now() + REST_LIMIT;
    let mut before = tree.cpu();
    loop {
        std::thread::sleep(LOOK_EVERY);
        let now = tree.cpu();
        if now.seconds_since(&before) < REST_SECONDS || Instant::now() > end {
            return now;
        }
        before = now;
    }
}

type Start = fn(&TempDir, SocketAddr, SocketAddr) -> Option<Process>;

fn start_nginx(folder: &TempDir, addr: SocketAddr, upstream: SocketAddr) -> Option<Process> {
    let program = installed("nginx")?;
    let own = folder.path().join("nginx");
    fs::create_dir(&own).expect("a folder for nginx");
    let at = own.display();
    let config = format!(
        "worker_processes auto; daemon off; pid {at}/pid; error_log {at}/error.log;
         events {{ worker_connections 4096; }}
         http {{
           access_log {at}/access.log; keepalive_requests 100000000;
           client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
           fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
           upstream fast {{ server {upstream}; keepalive 1024; keepalive_requests 100000000; }}
           server {{
             listen {addr};
             location / {{ proxy_pass http://fast; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}
           }}
         }}"
    );
    let file = own.join("nginx.conf");
    fs::write(&file, config).expect("nginx's configuration");
    let file = file.display().to_string();
    let prefix = at.to_string();
    let error_log = own.join("start.log").display().to_string();
    let args = ["-p", &prefix, "-c", &file, "-e", &error_log];
    Some(Process::foreign(&program, &args, addr, &own.join("output.log")))
}

fn start_haproxy(folder: &TempDir, addr: SocketAddr, upstream: SocketAddr) -> Option<Process> {
    let program = installed("haproxy")?;
    let own = folder.path().join("haproxy");
    fs::create_dir(&own).expect("a folder for haproxy");
    let config = format!(
        "global\n  maxconn 8192\n  log stdout format raw local0\n\
         defaults\n  mode http\n  log global\n  option httplog\n  option http-no-delay\n  \
         http-reuse always\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
         frontend in\n  bind {addr}\n  default_backend out\n\
         backend out\n  server one {upstream}\n"
    );
    let file = own.join("haproxy.cfg");
    fs::write(&file, config).expect("haproxy's configuration");
    let file = file.display().to_string();
    Some(Process::foreign(&program, &["-db", "-f", &file], addr, &own.join("output.log")))
}
