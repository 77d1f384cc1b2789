//! Who may excuse itself from the bans in `clippy.toml`, as a literal list.
//!
//! An `#![expect(clippy::disallowed_methods)]` is easy to write and easy to overlook in a review:
//! with it a door could open a socket that no permit covers. So each such file is named here, and
//! no crate may step out of the workspace's lints as a whole. Never here: what is banned.

use crate::code::{attributes, code_only, line_at, whole_words};
use crate::finding::Finding;
use crate::metadata::Workspace;
use crate::tree::File;

/// Files of shipped crates that may call what is banned, each with the reason.
///
/// `lib.rs`, `main.rs` and `mod.rs` never stand here: an excuse there covers all modules below.
const EXCUSED: &[(&str, &str)] = &[
    ("crates/agentguard/src/client.rs", "the CLI speaks to the local management endpoint"),
    ("crates/egress/src/dial.rs", "the one place that connects"),
    ("crates/egress/src/resolver.rs", "the one place that looks names up"),
    ("crates/egress/src/upstream.rs", "speaks HTTP over what `dial` connected"),
    ("crates/gate/src/clock.rs", "the one place that reads the wall clock"),
];

/// Folders that are not shipped: they start gates, speak to them and read the clock.
const EXCUSED_FOLDERS: &[&str] = &["bench", "crates/testkit", "xtask"];

/// Lints that hold the bans, and groups that contain them.
const GUARDED: &[&str] = &["disallowed_methods", "disallowed_types"];
const GROUPS: &[&str] = &["clippy::all", "clippy::style", "clippy::restriction", "warnings"];

/// Looks at every attribute, every manifest and every clippy configuration.
pub(crate) fn check(workspace: &Workspace, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if file.is_rust() {
            findings.extend(attributes_of(file));
        }
        findings.extend(second_configuration(file));
    }
    findings.extend(manifests(workspace, files));
    findings.extend(stale(files));
    findings
}

fn attributes_of(file: &File) -> Vec<Finding> {
    let code = code_only(&file.text);
    let mut findings = Vec::new();
    for (offset, body) in attributes(&code) {
        let place = || format!("{}:{}", file.path, line_at(&code, offset));
        if ["deny", "forbid"].iter().any(|stricter| body.starts_with(stricter)) {
            continue;
        }
        if let Some(group) = GROUPS.iter().find(|group| whole_words(body, group).next().is_some()) {
            let text =
                format!("`{group}` switches off the bans too: name the one lint that is meant");
            findings.push(Finding::error(place(), text));
        }
        if mentions_guarded(body) && !is_excused(&file.path) {
            findings.push(Finding::error(
                place(),
                "excuses itself from the bans in clippy.toml; go through `egress`, the gate's clock or \
                 a permit, or add the file with a reason to xtask/src/excuses.rs",
            ));
        }
    }
    findings
}

fn mentions_guarded(body: &str) -> bool {
    GUARDED.iter().any(|lint| whole_words(body, lint).next().is_some())
}

fn is_excused(path: &str) -> bool {
    EXCUSED.iter().any(|(file, _)| *file == path)
        || EXCUSED_FOLDERS
            .iter()
            .any(|folder| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
        || is_integration_test(path)
}

/// `crates/<name>/tests/…`: built only for tests, and never part of the binary.
fn is_integration_test(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("crates") && parts.nth(1) == Some("tests")
}

/// Clippy reads the nearest configuration only: a second one replaces the bans.
fn second_configuration(file: &File) -> Option<Finding> {
    let name = file.path.rsplit('/').next().unwrap_or(&file.path);
    let is_second = matches!(name, "clippy.toml" | ".clippy.toml") && file.path != "clippy.toml";
    is_second.then(|| {
        Finding::error(
            &file.path,
            "a second clippy configuration replaces the bans of the first one",
        )
    })
}

/// A manifest without `[lints] workspace = true` takes its crate out of every lint.
fn manifests(workspace: &Workspace, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let path = format!("{}/Cargo.toml", package.folder);
        let manifest = files.iter().find(|file| file.path == path);
        if !manifest.is_some_and(|file| inherits_lints(&file.text)) {
            let text =
                "must say `[lints]` and `workspace = true`, else no lint of the workspace holds";
            findings.push(Finding::error(path, text));
        }
    }
    findings
}

fn inherits_lints(manifest: &str) -> bool {
    manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[lints]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .any(|line| line.replace(' ', "") == "workspace=true")
}

/// An entry that nobody needs is a door left open.
fn stale(files: &[File]) -> Vec<Finding> {
    EXCUSED
        .iter()
        .filter(|(path, _)| {
            !files.iter().any(|file| {
                file.path == *path
                    && attributes(&code_only(&file.text))
                        .iter()
                        .any(|(_, body)| mentions_guarded(body))
            })
        })
        .map(|(path, _)| {
            Finding::warning(*path, "is excused in xtask/src/excuses.rs but does not need it")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;
    use crate::metadata::Package;

    fn errors(path: &str, text: &str) -> usize {
        let workspace = Workspace { root: "/r".into(), target: "/t".into(), packages: Vec::new() };
        let file = File { path: path.into(), text: text.into() };
        check(&workspace, &[file]).iter().filter(|f| f.level == Level::Error).count()
    }

    const EXCUSE: &str = "//! x\n#![expect(clippy::disallowed_methods, reason = \"r\")]\n";

    #[test]
    fn only_listed_files_may_excuse_themselves() {
        for (path, expected) in [
            ("crates/proxy/src/listen.rs", 1),
            ("crates/egress/src/lib.rs", 1),
            ("crates/egress/src/dial.rs", 0),
            ("crates/gate/src/clock.rs", 0),
            ("crates/proxy/tests/e2e.rs", 0),
            ("crates/proxy/src/tests/e2e.rs", 1),
            ("crates/testkit/src/lib.rs", 0),
            ("crates/testkit2/src/lib.rs", 1),
            ("xtask/src/run.rs", 0),
            ("bench/src/main.rs", 0),
        ] {
            assert_eq!(errors(path, EXCUSE), expected, "{path}");
        }
    }

    #[test]
    fn every_form_of_excuse_is_seen() {
        let at = |text: &str| errors("crates/proxy/src/listen.rs", text);
        assert_eq!(at("#[allow(clippy::disallowed_methods)] fn f() {}"), 1);
        assert_eq!(at("#[cfg_attr(all(), expect(clippy::disallowed_methods))] fn f() {}"), 1);
        assert_eq!(at("#![warn(clippy::disallowed_types)]"), 1);
        assert_eq!(
            at("#![expect(\n    clippy::unwrap_used,\n    clippy::disallowed_methods\n)]"),
            1
        );
        assert_eq!(at("#![expect(clippy::all, reason = \"r\")]"), 1);
        assert_eq!(at("#![expect(warnings)]"), 1);
    }

    #[test]
    fn words_and_stricter_settings_are_no_excuse() {
        let at = |text: &str| errors("crates/proxy/src/listen.rs", text);
        assert_eq!(at("// #![expect(clippy::disallowed_methods)]"), 0);
        assert_eq!(at("#![expect(clippy::unwrap_used, reason = \"disallowed_methods\")]"), 0);
        assert_eq!(at("#![deny(clippy::disallowed_methods, warnings)]"), 0);
    }

    #[test]
    fn a_second_clippy_configuration_is_refused() {
        assert_eq!(errors("clippy.toml", ""), 0);
        assert_eq!(errors("crates/proxy/clippy.toml", ""), 1);
        assert_eq!(errors("crates/.clippy.toml", ""), 1);
    }

    #[test]
    fn a_crate_that_leaves_the_lints_is_refused() {
        assert!(inherits_lints("[package]\n\n[lints]\nworkspace = true\n"));
        assert!(!inherits_lints("[package]\n[lints]\n[dependencies]\nworkspace = true\n"));
        let package =
            Package { name: "a".into(), folder: "crates/a".into(), dependencies: Vec::new() };
        let workspace =
            Workspace { root: "/r".into(), target: "/t".into(), packages: vec![package] };
        let bare = File { path: "crates/a/Cargo.toml".into(), text: "[package]\n".into() };
        assert!(check(&workspace, &[bare]).iter().any(|f| f.text.contains("workspace = true")));
    }

    #[test]
    fn an_entry_that_is_not_needed_is_warned_about() {
        let dial = File { path: "crates/egress/src/dial.rs".into(), text: EXCUSE.into() };
        let warned = stale(&[dial]);
        assert_eq!(warned.len(), EXCUSED.len() - 1);
        assert!(warned.iter().all(|f| f.level == Level::Warning));
    }
}
