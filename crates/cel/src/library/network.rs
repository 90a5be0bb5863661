//! Addresses and networks.
//!
//! Follows k8s.io/apiserver 0.37.2, `pkg/cel/library/ip.go`, `pkg/cel/library/cidr.go`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ferroplane_golang::netip;
use ferroplane_golang::strconv::quote;

use super::{Answer, Context};
use crate::fault::Fault;
use crate::object::LibraryObject;
use crate::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip(IpAddr);

impl Ip {
    pub(crate) fn size(self) -> usize {
        if self.0.is_ipv4() { 4 } else { 16 }
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    length: u8,
}

impl Cidr {
    pub(crate) fn size(self) -> usize {
        usize::from(self.length).div_ceil(8)
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && mask(self.address, self.length) == mask(address, self.length)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            // A length of zero would shift by the width of the type, which is not a shift in Rust.
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn parse_ip(text: &str) -> Result<Ip, Fault> {
    let parsed = netip::parse(text);
    let (address, zone) = parsed.map_err(|reason| {
        Fault::new(format!("IP Address {} parse error during conversion from string: {reason}", quote(text)))
    })?;
    if zone.is_some() {
        return Err(Fault::new(format!("IP address {} with zone value is not allowed", quote(text))));
    }
    // Kubernetes takes no IPv4 address in the form of IPv6, such as `::ffff:1.2.3.4` (`parseIPAddr` in
    // ip.go).
    if is_mapped(address) {
        return Err(Fault::new(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text))));
    }
    Ok(Ip(address))
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let refused = |reason: &str| {
        format!(
            "network address parse error during conversion from string: netip.ParsePrefix({}): {reason}",
            quote(text)
        )
    };
    // The last slash, as in Go, so that what is before it is judged as an address.
    let (address, length) = text.rsplit_once('/').ok_or_else(|| refused("no '/'"))?;
    let (address, zone) = netip::parse(address).map_err(|reason| refused(&reason))?;
    if zone.is_some() {
        return Err(refused("IPv6 zones cannot be present in a prefix"));
    }
    let most = if address.is_ipv4() { 32 } else { 128 };
    let is_written = !length.is_empty()
        && length.bytes().all(|byte| byte.is_ascii_digit())
        && (length.len() == 1 || !length.starts_with('0'));
    if !is_written {
        return Err(refused(&format!("bad bits after slash: {}", quote(length))));
    }
    match length.parse::<u8>() {
        Ok(bits) if bits <= most && !is_mapped(address) => Ok(Cidr { address, length: bits }),
        Ok(bits) if bits <= most => Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text))),
        _ => Err(refused("prefix length out of range")),
    }
}

fn object<'v>(object: LibraryObject) -> Value<'v> {
    Value::Object(Arc::new(object))
}

pub(super) fn ip<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    match values {
        [Value::String(text)] => match context.function {
            "isIP" => Ok(Value::Bool(parse_ip(text.as_str()).is_ok())),
            "ip" => Ok(object(LibraryObject::Ip(parse_ip(text.as_str())?))),
            _ => Ok(Value::Bool(parse_ip(text.as_str())?.to_string() == text.as_str())),
        },
        [Value::Object(value)] => match &**value {
            LibraryObject::Ip(ip) => Ok(about(context.function, ip.0)),
            LibraryObject::Cidr(cidr) if context.function == "ip" => {
                Ok(object(LibraryObject::Ip(Ip(cidr.address))))
            }
            _ => Err(Fault::no_such_overload()),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

fn about<'v>(function: &str, address: IpAddr) -> Value<'v> {
    let is_link_local_multicast = match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    let is_link_local_unicast = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    };
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    Value::Bool(match function {
        "family" => return Value::Int(if address.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalMulticast" => is_link_local_multicast,
        "isLinkLocalUnicast" => is_link_local_unicast,
        _ => {
            !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !is_link_local_unicast
                && !is_broadcast
        }
    })
}

pub(super) fn cidr<'v>(context: &Context<'_>, values: &mut [Value<'v>]) -> Answer<'v> {
    // Kubernetes wraps the error twice with the same words; users see both.
    let twice = |reason: String| {
        Fault::new(format!("network address parse error during conversion from string: {reason}"))
    };
    if let [Value::String(text)] = values {
        let parsed = parse_cidr(text.as_str());
        return match context.function {
            "isCIDR" => Ok(Value::Bool(parsed.is_ok())),
            _ => Ok(object(LibraryObject::Cidr(parsed.map_err(twice)?))),
        };
    }
    let Some(Value::Object(first)) = values.first() else { return Err(Fault::no_such_overload()) };
    let LibraryObject::Cidr(cidr) = **first else { return Err(Fault::no_such_overload()) };
    match (context.function, &values[1..]) {
        ("masked", _) => {
            Ok(object(LibraryObject::Cidr(Cidr { address: mask(cidr.address, cidr.length), ..cidr })))
        }
        ("prefixLength", _) => Ok(Value::Int(i64::from(cidr.length))),
        ("containsIP", [Value::String(text)]) => {
            // Kubernetes loses the reason here: a text that is not an address is reported as a missing overload.
            let ip = parse_ip(text.as_str()).map_err(|_| Fault::no_such_overload())?;
            Ok(Value::Bool(cidr.contains(ip.0)))
        }
        ("containsIP", [Value::Object(other)]) => match **other {
            LibraryObject::Ip(ip) => Ok(Value::Bool(cidr.contains(ip.0))),
            _ => Err(Fault::no_such_overload()),
        },
        ("containsCIDR", [Value::String(text)]) => {
            Ok(Value::Bool(is_within(parse_cidr(text.as_str()).map_err(twice)?, cidr)))
        }
        ("containsCIDR", [Value::Object(other)]) => match **other {
            LibraryObject::Cidr(other) => Ok(Value::Bool(is_within(other, cidr))),
            _ => Err(Fault::no_such_overload()),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

fn is_within(inner: Cidr, outer: Cidr) -> bool {
    outer.length <= inner.length && outer.contains(inner.address)
}
