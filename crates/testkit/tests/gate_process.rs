//! Starting and ending a program, with a stand-in that has the gate's command line.
#![expect(clippy::unwrap_used, reason = "test")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use agentguard_testkit::{GateConfig, GateProcess};
use tempfile::TempDir;

/// `up` answers `/readyz` with 200 (here: on the admin port of the file), ends on SIGTERM with 0,
/// and notes each start in the data folder. Other commands print their arguments as JSON.
const STAND_IN: &str = r#"#!/usr/bin/env python3
import http.server, json, os, re, signal, sys
args = sys.argv[1:]
text = open(args[args.index("--config") + 1]).read()
if args[0] != "up":
    print(json.dumps(args))
    sys.exit(0)
if "refuse: true" in text:
    sys.exit("told to refuse")
data = re.search(r'data_dir: "(.*)"', text).group(1)
os.makedirs(data, exist_ok=True)
open(data + "/starts", "a").write("x")
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.send_header("content-length", "0")
        self.end_headers()
port = int(re.search(r'admin:\n  bind: "127.0.0.1:(\d+)"', text).group(1))
server = http.server.HTTPServer(("127.0.0.1", port), Page)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("listening", flush=True)
server.serve_forever()
"#;

fn stand_in() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stand-in");
    std::fs::write(&path, STAND_IN).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    (folder, path)
}

fn starts(gate: &GateProcess) -> String {
    std::fs::read_to_string(gate.data_dir().join("starts")).unwrap()
}

#[test]
fn it_starts_ends_and_starts_again_on_the_same_folder() {
    let (_folder, program) = stand_in();
    let mut gate = GateProcess::start(&program, GateConfig::new());
    let first = gate.pid();
    assert_eq!(starts(&gate), "x");
    gate.restart();
    assert_ne!(gate.pid(), first);
    assert_eq!(starts(&gate), "xx");
    assert_eq!(gate.terminate().code(), Some(0));
    gate.launch().unwrap();
    gate.kill9();
    assert_eq!((starts(&gate).as_str(), gate.pid()), ("xxx", None));
    assert!(gate.stdout().contains("listening"));
}

#[test]
fn the_command_line_gets_the_configuration_before_a_double_dash() {
    let (_folder, program) = stand_in();
    let gate = GateProcess::prepare(&program, GateConfig::new());
    let config = gate.config_path().display().to_string();
    let plain = gate.cli_json(&["agent", "list", "--json"]);
    assert_eq!(plain, serde_json::json!(["agent", "list", "--json", "--config", config]));
    let run = gate.cli_json(&["run", "--", "ls", "-l"]);
    assert_eq!(run, serde_json::json!(["run", "--config", config, "--", "ls", "-l"]));
}

#[test]
fn a_start_that_fails_shows_what_the_program_said() {
    let (_folder, program) = stand_in();
    let config = GateConfig::new().extra("refuse: true");
    let failure = GateProcess::try_start(&program, config).unwrap_err();
    assert_eq!(failure.status.and_then(|status| status.code()), Some(1));
    let text = failure.to_string();
    assert!(text.contains("told to refuse") && text.contains("refuse: true"), "{text}");
}

#[test]
fn a_fixed_port_that_is_taken_stays_a_failure() {
    let (_folder, program) = stand_in();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = GateConfig::new().admin_bind(held.local_addr().unwrap());
    let failure = GateProcess::try_start(&program, config).unwrap_err();
    assert!(failure.stderr.contains("Address already in use"), "{failure}");
}

#[test]
fn a_dropped_gate_leaves_no_process() {
    let (_folder, program) = stand_in();
    let gate = GateProcess::start(&program, GateConfig::new());
    let pid = gate.pid().unwrap();
    drop(gate);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}
