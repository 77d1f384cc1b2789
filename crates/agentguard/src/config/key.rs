//! The path of a key, as messages name it: `proxy.allow_client_ips[1]`.

use std::fmt;

/// One step of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a section or table.
    Name(String),
    /// Into a list.
    Index(usize),
}

/// A path from the top of the file to a value. Empty, it is the file itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Key(Vec<Step>);

impl Key {
    /// The key with this dotted name.
    pub(super) fn of(dotted: &str) -> Self {
        Self(dotted.split('.').map(|name| Step::Name(name.to_owned())).collect())
    }

    /// From its steps.
    pub(super) fn from_steps(steps: Vec<Step>) -> Self {
        Self(steps)
    }

    /// An entry of the list that this key names.
    pub(super) fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    /// A key of the section or table that this key names.
    pub(super) fn entry(&self, name: &str) -> Self {
        self.with(Step::Name(name.to_owned()))
    }

    /// Whether it is the file itself.
    pub(super) fn is_top(&self) -> bool {
        self.0.is_empty()
    }

    /// From the top down.
    pub(super) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Whether messages must not show its value: it is a secret, or may hold one (the password
    /// in a database address).
    pub(super) fn is_secret(&self) -> bool {
        let mut names = self.0.iter().filter_map(|step| match step {
            Step::Name(name) => Some(name.as_str()),
            Step::Index(_) => None,
        });
        match names.next() {
            Some("ssh_hosts" | "store" | "counters") => true,
            Some("server") => names.next() == Some("auth_token"),
            Some(_) | None => false,
        }
    }

    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                // Host names have dots of their own.
                Step::Name(name) if name.contains('.') => write!(f, "[{name:?}]")?,
                Step::Name(name) if place == 0 => f.write_str(name)?,
                Step::Name(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}
