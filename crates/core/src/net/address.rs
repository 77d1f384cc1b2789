//! What an IP address is for: one class for every address there is.
//!
//! Only `Global` is open without an exception. Never here: which class an exception may open.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address reaches, seen through any IPv6 form that only carries an IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// Ordinary public unicast.
    Global,
    /// 0.0.0.0/8 and `::`. Linux connects 0.0.0.0 to the machine itself.
    Unspecified,
    Loopback,
    /// RFC 1918, fc00::/7 and the old site-local fec0::/10.
    Private,
    /// 100.64.0.0/10, between a carrier's NAT and its customers.
    SharedCgnat,
    LinkLocal,
    /// Where clouds hand credentials to whoever asks from inside the machine.
    Metadata,
    Multicast,
    Documentation,
    Benchmark,
    /// Every other special-purpose block, and IPv6 outside 2000::/3.
    Reserved,
    /// A tunnel or translation address. What it carries is public, but the way there is not ours to
    /// judge: it leads through a relay that anyone may run.
    Embedded(Embedding),
}

/// How an IPv6 address carries an IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Embedding {
    /// `::ffff:a.b.c.d`; the kernel speaks IPv4.
    Mapped,
    /// `::a.b.c.d`, deprecated.
    Compatible,
    /// `::ffff:0:a.b.c.d`, of stateless translators.
    Translated,
    /// 64:ff9b::/96, how an IPv6-only network reaches all of IPv4.
    Nat64,
    /// 64:ff9b:1::/48, a translator of the local network.
    Nat64Local,
    /// 2002::/16.
    SixToFour,
    /// 2001::/32: a server's address, and the client's with its bits turned.
    Teredo,
    /// An interface id of `5efe` and an IPv4 address under any prefix.
    Isatap,
}

/// The class of `ip`. Total: there is no address without a class.
pub fn classify(ip: IpAddr) -> AddressClass {
    match ip {
        IpAddr::V4(v4) => classify_v4(v4),
        IpAddr::V6(v6) => classify_v6(v6),
    }
}

/// True only for public unicast.
pub fn is_global(ip: IpAddr) -> bool {
    classify(ip) == AddressClass::Global
}

impl AddressClass {
    /// A stable word for records and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::SharedCgnat => "shared (carrier NAT)",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Multicast => "multicast",
            Self::Documentation => "documentation",
            Self::Benchmark => "benchmark",
            Self::Reserved => "reserved",
            Self::Embedded(embedding) => embedding.as_str(),
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Embedding {
    /// A stable word for records and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mapped => "IPv4-mapped",
            Self::Compatible => "IPv4-compatible",
            Self::Translated => "IPv4-translated",
            Self::Nat64 => "NAT64",
            Self::Nat64Local => "local NAT64",
            Self::SixToFour => "6to4",
            Self::Teredo => "Teredo",
            Self::Isatap => "ISATAP",
        }
    }
}

/// Metadata services at single IPv4 addresses outside the two blocks of `is_metadata_v4`.
const METADATA_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(100, 96, 0, 96),     // Volcengine
    Ipv4Addr::new(168, 63, 129, 16),   // Azure's wire server: globally numbered
    Ipv4Addr::new(169, 254, 0, 23),    // Tencent
    Ipv4Addr::new(169, 254, 42, 42),   // Scaleway
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle
];

/// Metadata services at IPv6 addresses outside AWS's fd00:ec2::/32.
const METADATA_V6: [Ipv6Addr; 5] = [
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), // Google
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),  // Scaleway
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), // Oracle
    Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1), // Linode
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe), // OpenStack
];

/// The IANA IPv4 special-purpose registry, whole: the few blocks it calls reachable (AS112, AMT, the
/// anycast addresses in 192.0.0.0/24) are infrastructure no agent has business with.
fn classify_v4(ip: Ipv4Addr) -> AddressClass {
    if is_metadata_v4(ip) {
        return AddressClass::Metadata;
    }
    let [a, b, c, _] = ip.octets();
    match (a, b, c) {
        (0, _, _) => AddressClass::Unspecified,
        (127, _, _) => AddressClass::Loopback,
        (10, _, _) | (172, 16..=31, _) | (192, 168, _) => AddressClass::Private,
        (100, 64..=127, _) => AddressClass::SharedCgnat,
        (169, 254, _) => AddressClass::LinkLocal,
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => AddressClass::Documentation,
        (198, 18 | 19, _) => AddressClass::Benchmark,
        (224..=239, _, _) => AddressClass::Multicast,
        // Protocol assignments, AS112, AMT, the 6to4 relay anycast, AS112 again, class E and broadcast.
        (192, 0, 0) | (192, 31, 196) | (192, 52, 193) | (192, 88, 99) | (192, 175, 48) => {
            AddressClass::Reserved
        }
        (240..=255, _, _) => AddressClass::Reserved,
        _ => AddressClass::Global,
    }
}

fn is_metadata_v4(ip: Ipv4Addr) -> bool {
    // Two blocks whole: every address a cloud answers on in them (metadata, task credentials, pod
    // identity, DNS, time) is the cloud's own.
    matches!(ip.octets(), [169, 254, 169 | 170, _]) || METADATA_V4.contains(&ip)
}

fn classify_v6(ip: Ipv6Addr) -> AddressClass {
    // The exact addresses first: `::` and `::1` would read as IPv4-compatible.
    if ip.is_unspecified() {
        return AddressClass::Unspecified;
    }
    if ip.is_loopback() {
        return AddressClass::Loopback;
    }
    if METADATA_V6.contains(&ip) || matches!(ip.segments(), [0xfd00, 0xec2, ..]) {
        return AddressClass::Metadata;
    }
    let Some((embedding, carried)) = embedded(ip) else {
        return classify_v6_prefix(ip);
    };
    let carried = worst_of(carried);
    match embedding {
        Embedding::Mapped | Embedding::Nat64 => carried,
        Embedding::Isatap => match (carried, classify_v6_prefix(ip)) {
            (AddressClass::Metadata, _) => AddressClass::Metadata,
            (carried, AddressClass::Global) => carried,
            (_, prefix) => prefix,
        },
        Embedding::Compatible
        | Embedding::Translated
        | Embedding::Nat64Local
        | Embedding::SixToFour
        | Embedding::Teredo => {
            if carried == AddressClass::Global {
                AddressClass::Embedded(embedding)
            } else {
                carried
            }
        }
    }
}

/// IPv6 by prefix alone: 2000::/3 less its special blocks is global, all else is not.
fn classify_v6_prefix(ip: Ipv6Addr) -> AddressClass {
    match ip.segments() {
        [0x2001, 0x2, 0, ..] => AddressClass::Benchmark,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressClass::Documentation,
        // 2001::/23 protocol assignments (Teredo, ORCHID, DRIP, anycasts), 6to4, AS112.
        [0x2001, 0..=0x1ff, ..] | [0x2002, ..] | [0x2620, 0x4f, 0x8000, ..] => {
            AddressClass::Reserved
        }
        [0x2000..=0x3fff, ..] => AddressClass::Global,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => AddressClass::Private,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        _ => AddressClass::Reserved,
    }
}

/// The IPv4 addresses that `ip` carries. Several where the layout does not say which bits count:
/// all of them are looked at, and the worst decides.
fn embedded(ip: Ipv6Addr) -> Option<(Embedding, [Ipv4Addr; 4])> {
    let [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15] = ip.octets();
    let low = Ipv4Addr::new(b12, b13, b14, b15);
    let once = |embedding| Some((embedding, [low; 4]));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0xffff, _, _] => once(Embedding::Mapped),
        [0, 0, 0, 0, 0, 0, _, _] => once(Embedding::Compatible),
        [0, 0, 0, 0, 0xffff, 0, _, _] => once(Embedding::Translated),
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => once(Embedding::Nat64),
        // RFC 6052 puts the address at another place for each prefix length (48, 56, 64, 96), and the
        // length that a local translator uses cannot be seen from outside.
        [0x64, 0xff9b, 1, ..] => Some((
            Embedding::Nat64Local,
            [
                Ipv4Addr::new(b6, b7, b9, b10),
                Ipv4Addr::new(b7, b9, b10, b11),
                Ipv4Addr::new(b9, b10, b11, b12),
                low,
            ],
        )),
        [0x2002, ..] => Some((Embedding::SixToFour, [Ipv4Addr::new(b2, b3, b4, b5); 4])),
        [0x2001, 0, ..] => {
            let server = Ipv4Addr::new(b4, b5, b6, b7);
            let client = Ipv4Addr::new(!b12, !b13, !b14, !b15);
            Some((Embedding::Teredo, [client, server, client, server]))
        }
        // The two lowest bits of the first byte say "unique" and "group", and mean nothing here.
        _ if (b8 & 0xfc, b9, b10, b11) == (0, 0, 0x5e, 0xfe) && (b0, b1) != (0, 0) => {
            once(Embedding::Isatap)
        }
        _ => None,
    }
}

/// Metadata before any other refusal, any refusal before global: an exception for private addresses
/// must not open a metadata service that stands beside one.
fn worst_of(carried: [Ipv4Addr; 4]) -> AddressClass {
    let mut worst = AddressClass::Global;
    for class in carried.map(classify_v4) {
        if class == AddressClass::Metadata {
            return class;
        }
        if worst == AddressClass::Global {
            worst = class;
        }
    }
    worst
}

#[cfg(test)]
mod tests;
