//! The configuration file of a gate under test: every listener on a free loopback port, the data in
//! the test's folder, and what the test adds.
//!
//! Never here: starting it (`gate_process`).

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

/// Sections of the configuration that hold a listener, and the key of its address.
const LISTENERS: [(&str, &str); 4] =
    [("proxy", "bind"), ("admin", "bind"), ("dashboard", "bind"), ("server", "bind_addr")];
pub(crate) const PROXY: usize = 0;
pub(crate) const ADMIN: usize = 1;
pub(crate) const DASHBOARD: usize = 2;
pub(crate) const SERVER: usize = 3;

/// What a test adds to the configuration that the kit writes.
#[derive(Debug, Clone, Default)]
pub struct GateConfig {
    sections: Vec<(String, String)>,
    top: String,
    binds: [Option<SocketAddr>; 4],
    env: Vec<(String, String)>,
    gate_env: Vec<(String, String)>,
}

impl GateConfig {
    pub fn new() -> Self {
        Self::default()
    }

    /// Top-level YAML, appended as it is. For keys inside `proxy`, `admin`, `dashboard` and
    /// `server` use [`Self::in_section`]: a key may stand only once.
    pub fn extra(mut self, yaml: &str) -> Self {
        self.top.push_str(yaml);
        self.top.push('\n');
        self
    }

    /// One line inside a section that the kit writes: `in_section("proxy", "upstream_timeout_sec: 2")`.
    pub fn in_section(mut self, section: &str, line: &str) -> Self {
        assert!(
            LISTENERS.iter().any(|(name, _)| *name == section),
            "the kit writes no section `{section}`: use `extra`"
        );
        self.sections.push((section.to_owned(), line.to_owned()));
        self
    }

    /// A fixed address instead of a free port: for tests of taken ports.
    pub fn proxy_bind(mut self, addr: SocketAddr) -> Self {
        self.binds[PROXY] = Some(addr);
        self
    }

    /// As [`Self::proxy_bind`], for the management address.
    pub fn admin_bind(mut self, addr: SocketAddr) -> Self {
        self.binds[ADMIN] = Some(addr);
        self
    }

    /// A variable for the gate and for its command line.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A variable for the gate only; its command line does not have it.
    pub fn gate_env(mut self, name: &str, value: &str) -> Self {
        self.gate_env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The file's text.
    pub fn yaml(&self, data_dir: &Path, addrs: [SocketAddr; 4]) -> String {
        let mut text = format!("data_dir: {:?}\n", data_dir.display().to_string());
        for ((section, key), addr) in LISTENERS.iter().zip(addrs) {
            writeln!(text, "{section}:\n  {key}: \"{addr}\"").expect("writing to a String");
            for (_, line) in self.sections.iter().filter(|(name, _)| name == section) {
                writeln!(text, "  {line}").expect("writing to a String");
            }
        }
        text.push_str(&self.top);
        text
    }

    /// The fixed addresses where there are any, the free ones elsewhere.
    pub(crate) fn addrs(&self, free: [SocketAddr; 4]) -> [SocketAddr; 4] {
        let mut fixed = self.binds.into_iter();
        free.map(|addr| fixed.next().flatten().unwrap_or(addr))
    }

    pub(crate) fn binds(&self) -> [Option<SocketAddr>; 4] {
        self.binds
    }

    pub(crate) fn gate_variables(&self) -> &[(String, String)] {
        &self.gate_env
    }

    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.env
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_lands_in_its_section_and_extra_at_the_top_level() {
        let config = GateConfig::new()
            .in_section("proxy", "upstream_timeout_sec: 2")
            .extra("timezone: UTC")
            .admin_bind("127.0.0.1:9".parse().unwrap());
        let free = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"];
        let addrs = config.addrs(free.map(|addr| addr.parse().unwrap()));
        let text = config.yaml(Path::new("/tmp/x"), addrs);
        let expected = "data_dir: \"/tmp/x\"\nproxy:\n  bind: \"127.0.0.1:1\"\n  upstream_timeout_sec: 2\nadmin:\n  bind: \"127.0.0.1:9\"\ndashboard:\n  bind: \"127.0.0.1:3\"\nserver:\n  bind_addr: \"127.0.0.1:4\"\ntimezone: UTC\n";
        assert_eq!(text, expected);
    }

    #[test]
    #[should_panic(expected = "use `extra`")]
    fn a_section_that_the_kit_does_not_write_is_refused() {
        let _ = GateConfig::new().in_section("audit", "checkpoint_file: null");
    }
}
