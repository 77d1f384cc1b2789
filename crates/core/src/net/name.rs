//! What a host name is for, before anyone is asked where it leads.
//!
//! Never here: addresses. A harmless name still has every address of it classified.

use std::fmt;
use std::sync::Arc;

use super::host::{Host, HostError, HostName};

/// What a name says about where it leads. An address literal is `Ordinary`: its address is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameClass {
    Ordinary,
    /// `localhost` and everything below it.
    Localhost,
    /// A suffix that only private networks answer.
    LocalSuffix,
    /// A cloud's metadata service.
    MetadataName,
    /// No dot: completed by the machine's own search list, so it means another host on each machine.
    SingleLabel,
    /// On the operator's list.
    OperatorBlocked,
}

/// Names that the operator closed, each with everything below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockedNames(Arc<[HostName]>);

/// The class of a host's name.
pub fn classify_name(host: &Host, blocked: &BlockedNames) -> NameClass {
    let name = match host {
        Host::Ip(_) => return NameClass::Ordinary,
        Host::Name(name) => name,
    };
    let within = |list: &[&str]| list.iter().any(|parent| name.is_within(parent));
    // The operator's word first: no exception opens what is on that list.
    if blocked.0.iter().any(|parent| name.is_within(parent.as_str())) {
        NameClass::OperatorBlocked
    } else if within(&METADATA_NAMES) {
        NameClass::MetadataName
    } else if within(&LOCALHOST_NAMES) {
        NameClass::Localhost
    } else if within(&LOCAL_SUFFIXES) {
        NameClass::LocalSuffix
    } else if !name.as_str().contains('.') {
        NameClass::SingleLabel
    } else {
        NameClass::Ordinary
    }
}

impl BlockedNames {
    /// Reads the operator's list. `example.com`, `.example.com` and `*.example.com` mean the same: the
    /// name and everything below it.
    ///
    /// # Errors
    /// The first entry that is no name, and why.
    pub fn parse<S: AsRef<str>>(entries: &[S]) -> Result<Self, (String, HostError)> {
        entries
            .iter()
            .map(|entry| {
                let text = entry.as_ref();
                let bare = text.strip_prefix('*').unwrap_or(text);
                HostName::parse(bare.strip_prefix('.').unwrap_or(bare))
                    .map_err(|error| (text.to_owned(), error))
            })
            .collect::<Result<Vec<_>, _>>()
            .map(|names| Self(names.into()))
    }
}

impl NameClass {
    /// A stable phrase for records and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Localhost => "this machine",
            Self::LocalSuffix => "private network name",
            Self::MetadataName => "cloud metadata name",
            Self::SingleLabel => "name without a dot",
            Self::OperatorBlocked => "blocked by the operator",
        }
    }
}

impl fmt::Display for NameClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const LOCALHOST_NAMES: [&str; 4] =
    ["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"];

/// The named ones, and others that the public DNS root never answers.
const LOCAL_SUFFIXES: [&str; 11] = [
    "local",
    "internal",
    "corp",
    "lan",
    "home.arpa",
    "home",
    "intranet",
    "localdomain",
    "private",
    "svc",
    "workgroup",
];

const METADATA_NAMES: [&str; 15] = [
    "metadata",
    "metadata.internal",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.com",
    "metadata.azure.internal",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "metadata.tencentyun.com",
    "metadata.softlayer.local",
    "api.service.softlayer.com",
    "api.metadata.cloud.ibm.com",
    "instance-data",
    "instance-data.ec2.internal",
    "rancher-metadata",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(class: NameClass, hosts: &[&str]) {
        let blocked = BlockedNames::parse(&["evil.example", "*.bad.example"]).expect("a list");
        for text in hosts {
            let host = Host::parse(text).expect("a test host");
            assert_eq!(classify_name(&host, &blocked), class, "{text}");
        }
    }

    #[test]
    fn every_class_has_its_names() {
        check(
            NameClass::Ordinary,
            &[
                "example.com",
                "localhost.example.com",
                "mycorp.com",
                "local.example",
                "1.1.1.1",
                "[::1]",
            ],
        );
        check(NameClass::Localhost, &["localhost", "LOCALHOST.", "a.b.localhost", "ip6-localhost"]);
        check(
            NameClass::LocalSuffix,
            &["printer.local", "db.internal", "x.corp", "nas.lan.", "router.home.arpa"],
        );
        check(
            NameClass::MetadataName,
            &[
                "metadata.google.internal",
                "METADATA.GOOG.",
                "metadata",
                "instance-data.ec2.internal",
            ],
        );
        check(NameClass::SingleLabel, &["intra", "com", "redis"]);
        check(NameClass::OperatorBlocked, &["evil.example", "a.evil.example", "x.bad.example"]);
    }

    #[test]
    fn a_bad_entry_of_the_operators_list_is_named() {
        let error = BlockedNames::parse(&["ok.example", "a..b"]).expect_err("no name");
        assert_eq!(error, ("a..b".to_owned(), HostError::EmptyLabel));
    }
}
