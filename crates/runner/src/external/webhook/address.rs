//! Which addresses a webhook may have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where clouds serve credentials of the machine under addresses that are not link-local.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Who decides whether an address is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The Composition.
    Open,
    /// An administrator: the address is on this machine, or is for many machines at once.
    Granted,
    /// No grant opens it: it is link-local, or serves the credentials of the machine. A grant names a host, and the administrator does
    /// not decide which address that name has tomorrow.
    Never,
}

/// Who decides whether this address is called.
pub(super) fn access(address: IpAddr) -> Access {
    match address {
        IpAddr::V4(address) => access_v4(address),
        IpAddr::V6(address) => embedded(address).map_or_else(|| access_v6(address), access_v4),
    }
}

fn access_v4(address: Ipv4Addr) -> Access {
    if address.is_link_local() || METADATA_V4.contains(&address) {
        return Access::Never;
    }
    // 0.0.0.0/8 means this machine.
    let is_granted =
        address.octets()[0] == 0 || address.is_loopback() || address.is_multicast() || address.is_broadcast();
    if is_granted { Access::Granted } else { Access::Open }
}

fn access_v6(address: Ipv6Addr) -> Access {
    if address.is_unicast_link_local() || METADATA_V6.contains(&address) {
        return Access::Never;
    }
    let is_granted = address.is_loopback() || address.is_unspecified() || address.is_multicast();
    if is_granted { Access::Granted } else { Access::Open }
}

/// The IPv4 address that a translator would call: mapped, translated, compatible, NAT64 and 6to4 addresses stand for one.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match parts {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(of(high, low)),
        // Loopback and unspecified addresses of IPv6 look like these, and stand for themselves.
        [0, 0, 0, 0, 0, 0, high, low] => (high != 0).then(|| of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: Access, addresses: &[&str]) {
        for text in addresses {
            assert_eq!(access(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn addresses_of_the_machine_take_a_grant() {
        let ours = ["127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "::1", "::"];
        check(Access::Granted, &ours);
        let standing_for_ours =
            ["::ffff:127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "::127.0.0.1", "2002:7f00:1::"];
        check(Access::Granted, &standing_for_ours);
        check(Access::Granted, &["224.0.0.1", "255.255.255.255", "ff02::1"]);
    }

    #[test]
    fn link_local_addresses_and_metadata_services_are_never_called() {
        check(Access::Never, &["169.254.0.1", "169.254.169.254", "169.254.255.255"]);
        check(Access::Never, &["fe80::1", "fe80:ffff::1", "febf::1"]);
        let standing_for_link_local = [
            "::ffff:169.254.169.254",
            "::ffff:0:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::",
        ];
        check(Access::Never, &standing_for_link_local);
        let metadata =
            ["100.100.100.200", "192.0.0.192", "::ffff:100.100.100.200", "fd00:ec2::254", "fd20:ce::254"];
        check(Access::Never, &metadata);
    }

    #[test]
    fn other_addresses_are_open() {
        check(Access::Open, &["10.0.0.1", "192.168.1.1", "1.1.1.1", "169.253.255.255", "169.255.0.1"]);
        check(Access::Open, &["fd00::1", "2606:4700::1", "fec0::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"]);
    }
}
