//! What the machine does to the gate: a full disk, a clock set back, a database that was harmed.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests start programs and stop loudly"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ::http::Method;
use agentguard_testkit::{GateConfig, GateProcess, Upstream, http};
use serde_json::Value;

const GATE: &str = env!("CARGO_BIN_EXE_agentguard");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_lets_nothing_out_and_heals() {
    let folder = tempfile::tempdir().unwrap();
    // The gate alone sees this disk; everything else it does is as always.
    let wrapper = script(
        folder.path(),
        r#"case "$1" in
up) exec unshare -m sh -c 'mkdir -p "$0" && mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"' "$DATA" "$GATE" "$@" ;;
*) exec "$GATE" "$@" ;;
esac"#,
    );
    let data = folder.path().join("disk");
    let config = GateConfig::new().env("DATA", data.to_str().unwrap()).env("GATE", GATE);
    let config = config.env("AGENTGUARD__DATA_DIR", data.to_str().unwrap());
    let gate = GateProcess::start(wrapper, config);
    let upstream = Upstream::start().await;
    let inside = PathBuf::from(format!("/proc/{}/root", gate.pid().unwrap()))
        .join(data.strip_prefix("/").unwrap());
    let admin = Admin::of(&gate, &inside);
    admin.serve_stripe(&upstream).await;

    assert_eq!(charge(&gate).await, (200, String::new()));
    let ballast = inside.join("ballast");
    fill(&ballast);
    let mut codes = Vec::new();
    for _ in 0..400 {
        codes.push(charge(&gate).await);
    }
    let passed = codes.iter().filter(|(status, _)| *status == 200).count();
    assert!(
        codes.contains(&(503, "AUDIT_UNAVAILABLE".into())),
        "a full disk must refuse: {:?}",
        codes.last()
    );
    assert_eq!(upstream.takings().len(), passed + 1, "what was refused did not leave");

    fs::remove_file(&ballast).unwrap();
    let healed = loop_until_paid(&gate).await;
    assert!(healed, "the gate goes on once there is room: {}", gate.stderr());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_set_back_gives_no_second_budget() {
    let folder = tempfile::tempdir().unwrap();
    let ahead = folder.path().join("ahead");
    let wrapper = script(
        folder.path(),
        r#"if [ "$1" = up ] && [ -e "$AHEAD" ]; then
  lib=$(ls /usr/lib/*/faketime/libfaketime.so.1 | head -n 1)
  export LD_PRELOAD="$lib" FAKETIME='+2d' FAKETIME_DONT_FAKE_MONOTONIC=1
fi
exec "$GATE" "$@""#,
    );
    fs::write(&ahead, "").unwrap();
    let config = GateConfig::new().env("AHEAD", ahead.to_str().unwrap()).env("GATE", GATE);
    let mut gate = GateProcess::start(wrapper, config);
    let upstream = Upstream::start().await;
    gate.serve("stripe", "stripe", &upstream);
    gate.cli_json(&["rule", "add", "--type", "daily_budget", "--param", "limit=1.00", "--json"]);
    assert_eq!(charge(&gate).await.0, 200);
    assert!(gate.terminate().success());

    fs::remove_file(&ahead).unwrap();
    gate.launch().unwrap();
    assert_eq!(
        charge(&gate).await,
        (403, "DAILY_BUDGET_EXCEEDED".into()),
        "the day of the record goes on"
    );
    assert!(gate.output().contains("clock"), "the operator is told: {}", gate.output());
}

#[test]
fn a_harmed_or_newer_database_is_named_and_left_as_it_is() {
    let mut gate = GateProcess::start(GATE, GateConfig::new());
    let database = gate.data_dir().join("agentguard.db");
    assert!(gate.terminate().success());
    let good = fs::read(&database).unwrap();

    sqlite(&database, "PRAGMA user_version = 99999");
    let newer = fs::read(&database).unwrap();
    let refused = gate.launch().unwrap_err().to_string();
    assert!(refused.contains("agentguard.db") && refused.contains("99999"), "{refused}");
    assert_eq!(fs::read(&database).unwrap(), newer, "it was not touched");

    let mut harmed = good;
    harmed[..4096].fill(0x5a);
    fs::write(&database, &harmed).unwrap();
    let refused = gate.launch().unwrap_err().to_string();
    assert!(refused.contains("agentguard.db"), "{refused}");
    assert_eq!(fs::read(&database).unwrap(), harmed, "it was not touched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_tampering_is_found_and_the_first_bad_row_is_named() {
    let mut gate = GateProcess::start(GATE, GateConfig::new());
    let upstream = Upstream::start().await;
    gate.serve("stripe", "stripe", &upstream);
    for _ in 0..20 {
        assert_eq!(charge(&gate).await.0, 200);
    }
    assert!(gate.terminate().success());
    let database = gate.data_dir().join("agentguard.db");
    let older = fs::read(&database).unwrap();
    gate.launch().unwrap();
    for _ in 0..5 {
        assert_eq!(charge(&gate).await.0, 200);
    }
    assert!(gate.terminate().success());
    assert_eq!(verified(&gate), (true, None));
    let whole = fs::read(&database).unwrap();

    for (name, sql, bad_row) in [
        ("a changed field", "UPDATE transactions SET cost_micros = 1 WHERE seq = 7".to_owned(), 7),
        ("a deleted row", "DELETE FROM transactions WHERE seq = 9".to_owned(), 9),
        ("a swapped pair", "UPDATE transactions SET seq = -1 WHERE seq = 4; UPDATE transactions SET seq = 4 WHERE seq = 5; UPDATE transactions SET seq = 5 WHERE seq = -1".to_owned(), 4),
        ("a cut tail", "DELETE FROM transactions WHERE seq > 22".to_owned(), 23),
        ("a changed decision", "UPDATE transactions SET decision = 'block' WHERE seq = 25".to_owned(), 25),
    ] {
        sqlite(&database, &sql);
        let (ok, row) = verified(&gate);
        assert!(!ok, "{name} was not found");
        assert_eq!(row, Some(bad_row), "{name}");
        fs::write(&database, &whole).unwrap();
    }
    let row =
        sqlite(&database, "SELECT name FROM pragma_table_info('transactions') WHERE name <> 'seq'");
    let columns = row
        .lines()
        .map(|name| if name == "id" { "lower(hex(randomblob(16)))" } else { name })
        .collect::<Vec<_>>()
        .join(",");
    let names = row.lines().collect::<Vec<_>>().join(",");
    sqlite(
        &database,
        &format!(
            "INSERT INTO transactions (seq,{names}) SELECT 26,{columns} FROM transactions WHERE seq = 25"
        ),
    );
    assert_eq!(verified(&gate), (false, Some(26)), "an inserted row");
    fs::write(&database, &older).unwrap();
    assert!(!verified(&gate).0, "an older database put back");
    fs::write(&database, &whole).unwrap();
    assert_eq!(verified(&gate), (true, None), "the whole one is still good");
}

fn verified(gate: &GateProcess) -> (bool, Option<u64>) {
    let output = gate.cli(&["verify-logs", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ok = said["ok"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!ok)), "{said}");
    (ok, said["first_bad"]["row"].as_u64())
}

/// The management endpoint, for a gate whose token file only it can see.
struct Admin {
    base: String,
    authorization: String,
}

impl Admin {
    fn of(gate: &GateProcess, data: &Path) -> Self {
        let token = fs::read_to_string(data.join("admin.token")).unwrap();
        Self {
            base: format!("http://{}/api/v1", gate.admin_addr()),
            authorization: format!("Bearer {}", token.trim()),
        }
    }

    async fn call(&self, method: Method, path: &str, body: &str) {
        let headers =
            [("authorization", self.authorization.as_str()), ("content-type", "application/json")];
        let answer =
            http::request(method, &format!("{}{path}", self.base), &headers, body.to_owned()).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.text());
    }

    async fn serve_stripe(&self, upstream: &Upstream) {
        let service = format!(
            r#"{{"base_url":"{}","kind":"stripe","allow_private":true}}"#,
            upstream.base_url()
        );
        self.call(Method::PUT, "/services/stripe", &service).await;
        self.call(Method::DELETE, "/rule-sets/default/rules", "").await;
    }
}

/// Pays one dollar; the status, and the code if it was refused.
async fn charge(gate: &GateProcess) -> (u16, String) {
    let url = format!("{}/v1/charges", gate.proxy_url("stripe"));
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let answer = http::request(Method::POST, &url, &headers, "amount=100&currency=usd").await;
    let code = answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
    (answer.status.as_u16(), code)
}

async fn loop_until_paid(gate: &GateProcess) -> bool {
    for _ in 0..100 {
        if charge(gate).await.0 == 200 {
            return true;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    false
}

fn fill(path: &Path) {
    use std::io::Write as _;
    let mut file = fs::File::create(path).unwrap();
    for size in [65_536, 4_096, 512] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

fn sqlite(database: &Path, sql: &str) -> String {
    let mut command = std::process::Command::new("sqlite3");
    command.arg(database).arg(sql);
    let output = agentguard_testkit::process::run(command, std::time::Duration::from_secs(30));
    assert!(output.status.success(), "{}", agentguard_testkit::process::show(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn script(folder: &Path, body: &str) -> PathBuf {
    let path = folder.join("gate");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}
