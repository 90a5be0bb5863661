//! Which addresses only an administrator may let a function call.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where clouds serve credentials of the machine under addresses that are not link-local.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Whether an address is on this machine or on its links, serves the credentials of the machine, or is for many at once.
pub(super) fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_local_v4(address),
        IpAddr::V6(address) => embedded(address).map_or_else(|| is_local_v6(address), is_local_v4),
    }
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    // 0.0.0.0/8 means this machine.
    address.octets()[0] == 0
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || METADATA_V4.contains(&address)
}

fn is_local_v6(address: Ipv6Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_unicast_link_local()
        || address.is_multicast()
        || METADATA_V6.contains(&address)
}

/// The IPv4 address that a translator would call: mapped, compatible, NAT64 and 6to4 addresses stand for one.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match parts {
        [0, 0, 0, 0, 0, 0xffff, high, low]
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

    #[test]
    fn addresses_of_the_machine_its_links_and_metadata_services_are_local() {
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "192.0.0.192",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "::127.0.0.1",
            "2002:7f00:1::",
        ] {
            assert!(is_local(text.parse().unwrap()), "{text}");
        }
        for text in [
            "10.0.0.1",
            "192.168.1.1",
            "1.1.1.1",
            "fd00::1",
            "2606:4700::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
        ] {
            assert!(!is_local(text.parse().unwrap()), "{text}");
        }
    }
}
