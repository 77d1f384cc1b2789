//! The five doors, and sets of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where an agent's action leaves the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Door {
    /// Paid APIs.
    Api,
    /// Reading the web.
    Web,
    /// Commands over SSH.
    Exec,
    /// The guarded browser.
    Browser,
    /// The browser that started the agent.
    Pipe,
}

impl Door {
    /// How many there are.
    pub const COUNT: usize = 5;
    /// All of them, in the order of [`Door::index`].
    pub const ALL: [Self; Self::COUNT] =
        [Self::Api, Self::Web, Self::Exec, Self::Browser, Self::Pipe];

    /// Its place in arrays that are kept per door.
    pub const fn index(self) -> usize {
        match self {
            Self::Api => 0,
            Self::Web => 1,
            Self::Exec => 2,
            Self::Browser => 3,
            Self::Pipe => 4,
        }
    }

    /// Its name on the wire and on the record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Web => "web",
            Self::Exec => "exec",
            Self::Browser => "browser",
            Self::Pipe => "pipe",
        }
    }

    /// The door of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|door| door.name() == name)
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of doors.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DoorSet(u8);

impl DoorSet {
    /// Every door.
    pub const ALL: Self = Self(0b1_1111);

    /// The set of these doors.
    pub fn of(doors: &[Door]) -> Self {
        Self(doors.iter().fold(0, |bits, door| bits | Self::bit(*door)))
    }

    /// Whether the door is in the set.
    pub const fn contains(self, door: Door) -> bool {
        self.0 & Self::bit(door) != 0
    }

    /// The doors in it.
    pub fn iter(self) -> impl Iterator<Item = Door> {
        Door::ALL.into_iter().filter(move |door| self.contains(*door))
    }

    /// What both sets hold.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether no door is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn bit(door: Door) -> u8 {
        match door {
            Door::Api => 1,
            Door::Web => 2,
            Door::Exec => 4,
            Door::Browser => 8,
            Door::Pipe => 16,
        }
    }
}

impl fmt::Debug for DoorSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_door_has_its_own_index_bit_and_name() {
        for (place, door) in Door::ALL.into_iter().enumerate() {
            assert_eq!(door.index(), place);
            assert_eq!(Door::from_name(door.name()), Some(door));
            let only = DoorSet::of(&[door]);
            assert_eq!(only.iter().collect::<Vec<_>>(), vec![door]);
        }
        assert_eq!(DoorSet::ALL.iter().count(), Door::COUNT);
    }
}
