//! Which crate may use which: the architecture as a literal table.
//!
//! Arrows point down. A door reaches the world only through `egress` and state only through the
//! gate's ports, so neither the store nor another door may be in its reach. Never here: file or
//! word rules.

use crate::code::{around, code_only, line_at, whole_words};
use crate::finding::Finding;
use crate::metadata::{Dependency, Kind, Package, Workspace};
use crate::tree::File;

/// What a crate is in the architecture; it decides how a forbidden edge is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Core,
    Gate,
    Egress,
    Store,
    /// What an agent can do, blind to the protocol that asked.
    Ability,
    /// Where an agent comes in.
    Door,
    /// Where a person comes in.
    Admin,
    Binary,
    /// Tests, benches, this tool: not shipped.
    Beside,
}

struct Row {
    name: &'static str,
    role: Role,
    uses: &'static [&'static str],
}

const CORE: &str = "agentguard-core";
const GATE: &str = "agentguard-gate";
const EGRESS: &str = "agentguard-egress";
const STORE: &str = "agentguard-store";
const PROXY: &str = "agentguard-proxy";
const ADMIN: &str = "agentguard-admin";
const WEB: &str = "agentguard-web";
const EXEC: &str = "agentguard-exec";
const BROWSER: &str = "agentguard-browser";
const MCP: &str = "agentguard-mcp";
const PIPE: &str = "agentguard-pipe";
const TESTKIT: &str = "agentguard-testkit";

/// Every crate, those still to come included, and all that it may use.
const TABLE: &[Row] = &[
    Row { name: CORE, role: Role::Core, uses: &[] },
    Row { name: GATE, role: Role::Gate, uses: &[CORE] },
    Row { name: EGRESS, role: Role::Egress, uses: &[GATE, CORE] },
    Row { name: STORE, role: Role::Store, uses: &[GATE, CORE] },
    Row { name: WEB, role: Role::Ability, uses: &[EGRESS, GATE, CORE] },
    Row { name: EXEC, role: Role::Ability, uses: &[EGRESS, GATE, CORE] },
    Row { name: BROWSER, role: Role::Ability, uses: &[EGRESS, GATE, CORE] },
    Row { name: PROXY, role: Role::Door, uses: &[EGRESS, GATE, CORE] },
    Row { name: MCP, role: Role::Door, uses: &[WEB, EXEC, BROWSER, EGRESS, GATE, CORE] },
    Row { name: PIPE, role: Role::Door, uses: &[BROWSER, EGRESS, GATE, CORE] },
    Row { name: ADMIN, role: Role::Admin, uses: &[GATE, CORE] },
    Row {
        name: "agentguard",
        role: Role::Binary,
        uses: &[CORE, GATE, EGRESS, STORE, WEB, EXEC, BROWSER, PROXY, MCP, PIPE, ADMIN],
    },
    Row { name: TESTKIT, role: Role::Beside, uses: &[] },
    Row {
        name: "agentguard-bench",
        role: Role::Beside,
        uses: &[CORE, GATE, STORE, EGRESS, PROXY, TESTKIT],
    },
    Row { name: "xtask", role: Role::Beside, uses: &[] },
];

/// Outside crates that would bring into a crate what the architecture keeps out of it.
/// Tests may use them.
const NEVER: &[(&str, &[&str], &str)] = &[
    (
        CORE,
        &["tokio", "hyper", "axum", "rusqlite", "rustix", "getrandom", "tracing", "parking_lot"],
        "core is pure: no I/O, async, randomness, locks or logging",
    ),
    (GATE, &["rusqlite", "hyper", "axum"], "the gate knows neither SQL nor HTTP"),
    (EGRESS, &["rusqlite", "axum"], "egress only connects"),
    (PROXY, &["rusqlite", "axum", "tokio-rustls"], "the door neither stores nor dials by itself"),
    (ADMIN, &["rusqlite"], "admin reaches state through the gate's ports"),
    (WEB, &["rusqlite", "axum"], "retrieval knows no listener and no store"),
];

/// Compares every manifest with the table.
pub(crate) fn check_manifests(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let place = format!("{}/Cargo.toml", package.folder);
        let Some(row) = row(&package.name) else {
            findings.push(Finding::error(
                place,
                format!(
                    "crate `{}` is not in the table of xtask/src/edges.rs; add a row that says what it may use",
                    package.name
                ),
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let why = if is_ours(workspace, &dependency.name) {
                forbidden_edge(row, dependency)
            } else {
                forbidden_outside(row, dependency)
            };
            if let Some(why) = why {
                let edge = format!("{} -> {}", package.name, dependency.name);
                findings.push(Finding::error(place.clone(), format!("{edge}: {why}")));
            }
        }
    }
    findings
}

/// Looks for crates named in source text where no edge is permitted: a path or a feature trick
/// that the manifest's dependency tables do not show.
pub(crate) fn check_sources(workspace: &Workspace, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some(row) = owner(workspace, file).and_then(|package| row(&package.name)) else {
            continue;
        };
        let code = code_only(&file.text);
        for other in TABLE.iter().filter(|other| {
            other.name != row.name && other.name != TESTKIT && !row.uses.contains(&other.name)
        }) {
            let ident = other.name.replace('-', "_");
            for offset in whole_words(&code, &ident) {
                if is_import(&code, offset, ident.len()) {
                    findings.push(Finding::error(
                        format!("{}:{}", file.path, line_at(&code, offset)),
                        format!("{} -> {}: {}", row.name, other.name, why(row, other)),
                    ));
                }
            }
        }
    }
    findings
}

fn row(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

fn is_ours(workspace: &Workspace, name: &str) -> bool {
    row(name).is_some() || workspace.packages.iter().any(|package| package.name == name)
}

fn owner<'a>(workspace: &'a Workspace, file: &File) -> Option<&'a Package> {
    workspace.packages.iter().find(|package| file.is_in(&package.folder))
}

fn forbidden_edge(from: &Row, dependency: &Dependency) -> Option<String> {
    let is_permitted = from.uses.contains(&dependency.name.as_str())
        || (dependency.kind == Kind::Dev && dependency.name == TESTKIT);
    if is_permitted {
        return None;
    }
    Some(match row(&dependency.name) {
        Some(to) => why(from, to).to_owned(),
        None => "that crate is not in the table of xtask/src/edges.rs".to_owned(),
    })
}

fn forbidden_outside(from: &Row, dependency: &Dependency) -> Option<String> {
    if dependency.kind == Kind::Dev {
        return None;
    }
    NEVER
        .iter()
        .find(|(name, banned, _)| *name == from.name && banned.contains(&dependency.name.as_str()))
        .map(|(_, _, why)| (*why).to_owned())
}

fn why(from: &Row, to: &Row) -> &'static str {
    match (from.role, to.role) {
        (Role::Core, _) => "core uses no other crate: it is the pure decision",
        (_, Role::Binary) => "nothing uses the binary: it only assembles",
        (_, Role::Beside) => "that crate is for tests and tools and is not shipped",
        (Role::Beside, _) => {
            "tests and tools use only what their row in xtask/src/edges.rs says, so that they stay outsiders"
        }
        (_, Role::Store) => {
            "only the binary knows the store; everything else asks the gate's ports (traits)"
        }
        (Role::Door, Role::Door) => "doors never import each other; what they share is below them",
        (_, Role::Door | Role::Admin) => {
            "arrows point down: what agents and people come in by is on top"
        }
        (Role::Ability, Role::Ability) => "abilities do not know each other",
        (_, Role::Core | Role::Gate | Role::Egress | Role::Ability) => {
            "arrows point down, and only as the table in xtask/src/edges.rs says"
        }
    }
}

fn is_import(code: &str, offset: usize, length: usize) -> bool {
    let (before, after) = around(code, offset, length);
    let before = before.trim_end();
    let is_path = after.trim_start().starts_with("::");
    // `foo::agentguard` is an item of another crate with the same name, `::agentguard` is ours.
    let is_inner =
        before.strip_suffix("::").is_some_and(|path| path.ends_with(crate::code::is_word));
    (is_path && !is_inner) || before.ends_with("extern crate") || is_used(before, after)
}

fn is_used(before: &str, after: &str) -> bool {
    let after = after.trim_start();
    let ends_there = after.starts_with([';', ',', '}']) || after.starts_with("as ");
    ends_there && (before.ends_with(" use") || before == "use" || before.ends_with("\nuse"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(packages: &[(&str, &[(&str, Kind)])]) -> Workspace {
        let packages = packages
            .iter()
            .map(|(name, dependencies)| Package {
                name: (*name).into(),
                folder: format!("crates/{}", name.trim_start_matches("agentguard-")),
                dependencies: dependencies
                    .iter()
                    .map(|(name, kind)| Dependency { name: (*name).into(), kind: *kind })
                    .collect(),
            })
            .collect();
        Workspace { root: "/r".into(), target: "/t".into(), packages }
    }

    #[track_caller]
    fn check(from: &str, to: &str, kind: Kind, expected: Option<&str>) {
        let findings = check_manifests(&workspace(&[(from, &[(to, kind)])]));
        match expected {
            None => assert_eq!(findings, [], "{from} -> {to}"),
            Some(reason) => {
                let finding = findings.first().expect("a finding").to_string();
                assert!(finding.contains(&format!("{from} -> {to}")), "{finding}");
                assert!(finding.contains(reason), "{finding}");
            }
        }
    }

    #[test]
    fn a_door_that_imports_the_store_is_refused() {
        for door in [PROXY, MCP, PIPE] {
            check(door, STORE, Kind::Normal, Some("only the binary knows the store"));
            check(door, STORE, Kind::Build, Some("only the binary knows the store"));
            check(door, STORE, Kind::Dev, Some("only the binary knows the store"));
        }
    }

    #[test]
    fn a_door_that_imports_another_door_is_refused() {
        check(PROXY, MCP, Kind::Normal, Some("doors never import each other"));
        check(PIPE, PROXY, Kind::Normal, Some("doors never import each other"));
        check(PROXY, ADMIN, Kind::Normal, Some("arrows point down"));
    }

    #[test]
    fn edges_that_point_up_or_sideways_are_refused() {
        check(CORE, GATE, Kind::Normal, Some("core uses no other crate"));
        check(GATE, STORE, Kind::Normal, Some("only the binary knows the store"));
        check(GATE, EGRESS, Kind::Normal, Some("arrows point down"));
        check(EGRESS, PROXY, Kind::Normal, Some("arrows point down"));
        check(ADMIN, STORE, Kind::Normal, Some("only the binary knows the store"));
        check(ADMIN, EGRESS, Kind::Normal, Some("arrows point down"));
        check(WEB, EXEC, Kind::Normal, Some("abilities do not know each other"));
        check(PROXY, "agentguard", Kind::Normal, Some("nothing uses the binary"));
        check("xtask", CORE, Kind::Normal, Some("tests and tools"));
    }

    #[test]
    fn testkit_is_for_tests_only() {
        check(CORE, TESTKIT, Kind::Dev, None);
        check(PROXY, TESTKIT, Kind::Dev, None);
        check(PROXY, TESTKIT, Kind::Normal, Some("not shipped"));
        check("agentguard", TESTKIT, Kind::Build, Some("not shipped"));
        check("agentguard-bench", TESTKIT, Kind::Normal, None);
    }

    #[test]
    fn the_architecture_as_drawn_passes() {
        let edges: Vec<(&str, Vec<(&str, Kind)>)> = TABLE
            .iter()
            .map(|row| (row.name, row.uses.iter().map(|to| (*to, Kind::Normal)).collect()))
            .collect();
        let borrowed: Vec<_> = edges.iter().map(|(name, uses)| (*name, uses.as_slice())).collect();
        assert_eq!(check_manifests(&workspace(&borrowed)), []);
    }

    #[test]
    fn the_table_has_no_cycle() {
        // A row may use only rows above it, but for the binary and what stands beside it.
        for (index, row) in TABLE.iter().enumerate() {
            for used in row.uses {
                let position = TABLE.iter().position(|other| other.name == *used).unwrap();
                assert!(position < index, "{} uses {used}, which stands below it", row.name);
            }
        }
    }

    #[test]
    fn a_crate_that_is_not_in_the_table_is_refused() {
        let findings = check_manifests(&workspace(&[("agentguard-util", &[])]));
        assert!(findings.first().unwrap().text.contains("not in the table"));
        let known =
            workspace(&[(PROXY, &[("agentguard-util", Kind::Normal)]), ("agentguard-util", &[])]);
        assert_eq!(check_manifests(&known).len(), 2);
    }

    #[test]
    fn outside_crates_that_break_a_promise_are_refused() {
        check(CORE, "tokio", Kind::Normal, Some("core is pure"));
        check(PROXY, "rusqlite", Kind::Normal, Some("neither stores"));
        check(CORE, "tokio", Kind::Dev, None);
        check(STORE, "rusqlite", Kind::Normal, None);
    }

    #[test]
    fn a_forbidden_crate_named_in_source_is_found() {
        let proxy = workspace(&[(PROXY, &[])]);
        let at = |path: &str, text: &str| {
            check_sources(&proxy, &[File { path: path.into(), text: text.into() }]).len()
        };
        let inside = "crates/proxy/src/listen.rs";
        assert_eq!(at(inside, "use agentguard_store::Store;"), 1);
        assert_eq!(at(inside, "fn f() { agentguard_store :: open() }"), 1);
        assert_eq!(at(inside, "use ::agentguard_store::Store;"), 1);
        assert_eq!(at(inside, "extern crate agentguard_store;"), 1);
        assert_eq!(at(inside, "use agentguard_store as s;"), 1);
        assert_eq!(at(inside, "use agentguard_gate::Gate;"), 0);
        assert_eq!(
            at(inside, "// agentguard_store::open is not ours\nlet s = \"agentguard_store::x\";"),
            0
        );
        assert_eq!(at(inside, "let agentguard = start(); crate::agentguard::x()"), 0);
        assert_eq!(at("crates/proxy/tests/e2e.rs", "use agentguard_testkit::Gate;"), 0);
        assert_eq!(at("crates/proxy/tests/e2e.rs", "use agentguard_admin::x;"), 1);
        assert_eq!(at("crates/store/src/lib.rs", "use agentguard_store::Store;"), 0);
    }

    #[test]
    fn the_line_of_the_import_is_named() {
        let proxy = workspace(&[(PROXY, &[])]);
        let file = File {
            path: "crates/proxy/src/a.rs".into(),
            text: "//! x\n\nuse agentguard_store::S;\n".into(),
        };
        assert_eq!(
            check_sources(&proxy, &[file]).first().unwrap().place,
            "crates/proxy/src/a.rs:3"
        );
    }
}
