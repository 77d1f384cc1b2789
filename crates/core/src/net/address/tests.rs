//! Every block to its edges, and every embedding for what it carries.

use proptest::prelude::*;

use super::*;

fn check(class: AddressClass, addresses: &[&str]) {
    for text in addresses {
        let ip: IpAddr = text.parse().expect("a test address");
        assert_eq!(classify(ip), class, "{text}");
    }
}

#[test]
fn ordinary_public_addresses_are_global() {
    check(
        AddressClass::Global,
        &[
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "2001:200::1",
            "2003::1",
            "2a00:1450:4001:80b::200e",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2600::5efe:808:808",
        ],
    );
}

#[test]
fn ipv4_special_blocks_are_refused_to_their_edges() {
    use AddressClass::{
        Benchmark, Documentation, LinkLocal, Loopback, Multicast, Private, Reserved, SharedCgnat,
        Unspecified,
    };
    check(Unspecified, &["0.0.0.0", "0.0.0.1", "0.255.255.255"]);
    check(Private, &["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255"]);
    check(Private, &["192.168.0.0", "192.168.255.255"]);
    check(SharedCgnat, &["100.64.0.0", "100.127.255.255"]);
    check(Loopback, &["127.0.0.0", "127.0.0.1", "127.255.255.255"]);
    check(LinkLocal, &["169.254.0.0", "169.254.255.255"]);
    check(Reserved, &["192.0.0.0", "192.0.0.9", "192.0.0.10", "192.0.0.170", "192.0.0.255"]);
    check(Reserved, &["192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1"]);
    check(Reserved, &["240.0.0.0", "255.255.255.254", "255.255.255.255"]);
    check(Documentation, &["192.0.2.1", "198.51.100.1", "203.0.113.1"]);
    check(Benchmark, &["198.18.0.0", "198.19.255.255"]);
    check(Multicast, &["224.0.0.0", "239.255.255.255"]);
}

#[test]
fn ipv6_outside_global_unicast_is_refused() {
    use AddressClass::{
        Benchmark, Documentation, LinkLocal, Loopback, Multicast, Private, Reserved, Unspecified,
    };
    check(Unspecified, &["::"]);
    check(Loopback, &["::1"]);
    check(Private, &["fc00::1", "fdff:ffff::1", "fec0::1", "feff::1"]);
    check(LinkLocal, &["fe80::1", "febf::1"]);
    check(Multicast, &["ff02::1", "ffff::1"]);
    check(Documentation, &["2001:db8::1", "3fff::1", "3fff:fff::1"]);
    check(Benchmark, &["2001:2::1"]);
    check(Reserved, &["100::1", "100:0:0:1::1", "5f00::1", "4000::1", "1fff::1", "64:ff9a::1"]);
    check(Reserved, &["2001:1::1", "2001:4:112::1", "2001:20::1", "2001:1ff::1"]);
    check(Reserved, &["2620:4f:8000::1"]);
}

#[test]
fn metadata_services_are_known_in_every_form() {
    check(
        AddressClass::Metadata,
        &[
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "169.254.42.42",
            "169.254.0.23",
            "100.100.100.200",
            "100.96.0.96",
            "192.0.0.192",
            "168.63.129.16",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:42::42",
            "fd00:c1::a9fe:a9fe",
            "fe80::a9fe:a9fe",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::169.254.169.254",
            "64:ff9b:1:a9fe:a9:fe00::",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::1",
            "2001:0:808:808::5601:5601",
            "2600::5efe:a9fe:a9fe",
            "fe80::200:5efe:a9fe:a9fe",
        ],
    );
}

#[test]
fn carried_addresses_are_seen() {
    use AddressClass::{Embedded, LinkLocal, Loopback, Private, Unspecified};
    check(Loopback, &["::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"]);
    check(Loopback, &["2600::5efe:7f00:1", "2600::200:5efe:7f00:1", "2001:0:808:808::80ff:fffe"]);
    check(Private, &["2002:c0a8:101::1", "2001:0:a00:1::f7f7:f7f7", "::ffff:0:10.0.0.1"]);
    check(Unspecified, &["::ffff:0.0.0.0", "64:ff9b::"]);
    check(LinkLocal, &["fe80::5efe:808:808", "fe80::5efe:a00:1"]);
    check(Embedded(Embedding::Compatible), &["::8.8.8.8"]);
    check(Embedded(Embedding::Translated), &["::ffff:0:8.8.8.8"]);
    check(Embedded(Embedding::SixToFour), &["2002:808:808::1"]);
    check(Embedded(Embedding::Teredo), &["2001:0:808:808::f7f7:f7f7"]);
}

fn embed(kind: usize, ip: Ipv4Addr, noise: u64) -> Ipv6Addr {
    let v4 = u32::from(ip);
    let (low, wide) = (u128::from(v4), u128::from(noise));
    let bits = match kind {
        0 => (0xffff << 32) | low,
        1 => low,
        2 => (0xffff << 48) | low,
        3 => (0x64_ff9b << 96) | low,
        4 => (0x64_ff9b_0001 << 80) | (wide & 0xffff_ffff) << 32 | low,
        5 => (0x2002 << 112) | low << 80 | wide,
        6 => (0x2001_0000 << 96) | low << 64 | wide,
        7 => (0x2001_0000 << 96) | (wide & 0xffff_ffff) << 64 | u128::from(!v4),
        8 => (0x2a00 << 112) | 0x5efe << 32 | low,
        _ => (0x2a00 << 112) | 0x0200_5efe << 32 | low,
    };
    Ipv6Addr::from(bits)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn no_embedding_of_a_refused_ipv4_is_global(
        block in prop::sample::select(vec![
            0x0000_0000_u32, 0x0a00_0000, 0x6440_0000, 0x7f00_0000, 0xa9fe_0000, 0xac10_0000,
            0xc000_0000, 0xc000_0200, 0xc0a8_0000, 0xc612_0000, 0xe000_0000, 0xf000_0000,
        ]),
        rest: u32, noise: u64, kind in 0_usize..10,
    ) {
        let ip = Ipv4Addr::from(block | (rest & 0xff));
        prop_assume!(!is_global(ip.into()));
        let carried = embed(kind, ip, noise);
        prop_assert!(!is_global(carried.into()), "{ip} in {carried}");
    }

    #[test]
    fn an_embedded_metadata_address_stays_metadata(noise: u64, kind in 0_usize..10) {
        let carried = embed(kind, Ipv4Addr::new(169, 254, 169, 254), noise);
        prop_assert_eq!(classify(carried.into()), AddressClass::Metadata);
    }

    #[test]
    fn global_ipv6_is_always_inside_2000_3(bits: u128) {
        let ip = Ipv6Addr::from(bits);
        let [first, ..] = ip.octets();
        let through = ip.to_ipv4_mapped().is_some() || matches!(ip.segments(), [0x64, 0xff9b, ..]);
        prop_assert!(!is_global(ip.into()) || first & 0xe0 == 0x20 || through);
    }
}
