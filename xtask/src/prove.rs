//! Proof that clippy, with this repository's settings, refuses every call that `clippy.toml` bans.
//!
//! A ban that is misspelt, or a lint that somebody lowered, fails silently: all code goes on to
//! pass. So each banned call is really written down, in a throw-away crate outside the repository,
//! and clippy is asked. The same crate without the calls has to pass, else a refusal proves
//! nothing. Never here: the probes themselves.

use crate::finding::Finding;
use crate::metadata::Workspace;
use crate::probes::{CRATES, Needs, PROBES, Probe};
use crate::run::{self, Ended};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Checking hyper and tokio from nothing takes about 20 s on two idle cores.
const CLIPPY_LIMIT: Duration = Duration::from_secs(150);

/// Proves every ban, and that every ban has a probe.
pub(crate) fn prove_all() -> Result<Vec<Finding>, String> {
    let workspace = Workspace::load()?;
    let mut findings = unproved(&read(&workspace.root, "clippy.toml")?);
    for needs in [Needs::Std, Needs::Crates] {
        findings.extend(prove(&workspace, needs)?);
    }
    Ok(findings)
}

/// Bans without a probe, and probes without a ban.
fn unproved(clippy_toml: &str) -> Vec<Finding> {
    let bans: Vec<&str> = clippy_toml
        .split("path = \"")
        .skip(1)
        .filter_map(|rest| rest.split_once('"').map(|(path, _)| path))
        .collect();
    let is_probed = |ban: &str| PROBES.iter().any(|probe| probe.path == ban);
    let without_probe = bans.iter().filter(|ban| !is_probed(ban)).map(|ban| {
        Finding::error("clippy.toml", format!("`{ban}` has no probe in xtask/src/probes.rs"))
    });
    let without_ban = PROBES.iter().filter(|probe| !bans.contains(&probe.path)).map(|probe| {
        Finding::error("clippy.toml", format!("`{}` is no longer banned", probe.path))
    });
    without_probe.chain(without_ban).collect()
}

/// Runs clippy over the probes of one kind, and over the control.
fn prove(workspace: &Workspace, needs: Needs) -> Result<Vec<Finding>, String> {
    let probes: Vec<&Probe> = PROBES.iter().filter(|probe| probe.needs == needs).collect();
    let folder =
        tempfile::tempdir().map_err(|cause| format!("making a temporary folder: {cause}"))?;
    let mut findings = Vec::new();
    let control = clippy(workspace, folder.path(), needs, &[])?;
    if !control.success {
        let text = format!("clippy refuses the control, which does nothing:\n{}", control.stderr);
        findings.push(Finding::error("clippy.toml", text));
    }
    let ended = clippy(workspace, folder.path(), needs, &probes)?;
    if ended.success {
        findings.push(Finding::error("clippy.toml", "clippy passed code with banned calls"));
    }
    for probe in probes {
        let refusal = format!("error: use of a disallowed method `{}`", probe.path);
        if !ended.stderr.contains(&refusal) {
            let text = format!("clippy does not refuse `{}`:\n{}", probe.path, ended.stderr);
            findings.push(Finding::error("clippy.toml", text));
        }
    }
    Ok(findings)
}

fn clippy(
    workspace: &Workspace,
    folder: &Path,
    needs: Needs,
    probes: &[&Probe],
) -> Result<Ended, String> {
    let root = &workspace.root;
    let (crates, target) = match needs {
        Needs::Std => (&[] as &[&str], folder.join("target")),
        // Kept from run to run, so that hyper and tokio are checked once.
        Needs::Crates => (CRATES, workspace.target.join("prove-lints")),
    };
    write(folder, "Cargo.toml", &manifest(&read(root, "Cargo.toml")?, crates)?)?;
    write(folder, "Cargo.lock", &read(root, "Cargo.lock")?)?;
    write(folder, "clippy.toml", &read(root, "clippy.toml")?)?;
    write(folder, "lib.rs", &source(probes))?;
    // Offline: what the lock file names was fetched when this workspace was built.
    let arguments =
        ["clippy", "--quiet", "--offline", "--lib", "--target-dir", &target.to_string_lossy()];
    run::run(&run::cargo(), &arguments, folder, CLIPPY_LIMIT)
}

/// The repository's own manifest from `[workspace.package]` on (dependency versions and lints),
/// under the head of a crate that stands alone.
fn manifest(repository: &str, crates: &[&str]) -> Result<String, String> {
    let shared = repository
        .find("[workspace.package]")
        .and_then(|start| repository.get(start..))
        .ok_or("Cargo.toml has no `[workspace.package]`")?;
    let mut text = String::from(
        "[package]\nname = \"probe\"\nversion = \"0.0.0\"\nedition.workspace = true\n\n\
         [lib]\npath = \"lib.rs\"\n\n[lints]\nworkspace = true\n\n[workspace]\n\n[dependencies]\n",
    );
    for name in crates {
        let _ = writeln!(text, "{name}.workspace = true");
    }
    let _ = write!(text, "\n{shared}");
    Ok(text)
}

fn source(probes: &[&Probe]) -> String {
    let mut text = String::from("//! A probe.\n\n/// Listening is permitted.\n");
    text.push_str("pub fn control() { let _ = std::net::TcpListener::bind(\"127.0.0.1:0\"); }\n");
    for (index, probe) in probes.iter().enumerate() {
        let start = match probe.needs {
            Needs::Std => "pub fn",
            Needs::Crates => "pub async fn",
        };
        let _ = writeln!(text, "/// Banned.\n{start} probe_{index}() {{\n{}\n}}", probe.code);
    }
    text
}

fn read(root: &Path, name: &str) -> Result<String, String> {
    fs::read_to_string(root.join(name)).map_err(|cause| format!("reading `{name}`: {cause}"))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    fs::write(folder.join(name), text)
        .map_err(|cause| format!("writing the probe's `{name}`: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        Workspace::load().unwrap()
    }

    #[test]
    fn every_ban_has_a_probe() {
        assert_eq!(unproved(&read(&workspace().root, "clippy.toml").unwrap()), []);
    }

    #[test]
    fn a_ban_without_a_probe_is_found() {
        let findings = unproved("{ path = \"a::b\", reason = \"r\" }");
        assert_eq!(findings.len(), PROBES.len() + 1);
        assert!(findings.iter().any(|f| f.text.contains("`a::b` has no probe")));
    }

    #[test]
    fn a_lowered_lint_and_a_misspelt_ban_are_noticed() {
        let real = workspace();
        let lowered = tempfile::tempdir().unwrap();
        let changed = |name: &str, from: &str, to: &str| {
            let text = read(&real.root, name).unwrap();
            assert!(text.contains(from), "{name} no longer says `{from}`");
            write(lowered.path(), name, &text.replace(from, to)).unwrap();
        };
        write(lowered.path(), "Cargo.lock", &read(&real.root, "Cargo.lock").unwrap()).unwrap();
        changed("Cargo.toml", "disallowed_methods = \"deny\"", "disallowed_methods = \"warn\"");
        changed("clippy.toml", "std::process::Command::new", "std::process::Command::create");
        let workspace = Workspace { root: lowered.path().into(), ..real };
        let findings = prove(&workspace, Needs::Std).unwrap();
        assert!(findings.iter().any(|f| f.text.contains("clippy passed code with banned calls")));
        assert!(findings.iter().any(|f| f.text.contains("`std::process::Command::new`")));
    }

    #[test]
    fn clippy_refuses_banned_calls_into_the_standard_library() {
        assert_eq!(prove(&workspace(), Needs::Std).unwrap(), []);
    }

    #[test]
    fn clippy_refuses_banned_calls_into_tokio_hyper_and_socket2() {
        assert_eq!(prove(&workspace(), Needs::Crates).unwrap(), []);
    }
}
