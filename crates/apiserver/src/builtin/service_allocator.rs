//! Cluster IPs and node ports of services. Follows the store: what is stored is taken, and nothing else is, but for the
//! moment that it takes to store it.
//!
//! Does the work of kube-apiserver's allocators (pkg/registry/core/service/{ipallocator,portallocator}, 1.36), whose ranges and
//! messages it has. Those keep a bitmap beside the services and repair it; here the services are the bitmap.
//!
//! # Guarantees
//! * No two services get the same address or port, however many are made at once.
//! * Nothing is kept besides the services themselves: after a restart, what they have is what is taken.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferroplane_schema::services::{self, Pool, PoolError};
use ferroplane_schema::status::Status;
use ferroplane_schema::writes::Part;
use serde_json::{Map, Value};

use super::SERVICES;
use crate::store::{Entry, Event, EventKind, Store};
use crate::verbs::ObjectLocation;

const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const PREFIX: u32 = 12;
const SIZE: u32 = 1 << (32 - PREFIX);
/// The first addresses are for those who ask for them; they are given to others when all else is taken. Kubernetes keeps a
/// band of min(max(16, size / 16), 256) addresses free in the same way, so that a well-known address is rarely gone.
const RESERVED: u32 = 256;
const FIRST_PORT: u16 = 30000;
const PORTS: u16 = 2768;
/// The same of ports: min(max(16, size / 32), 128).
const RESERVED_PORTS: u16 = 86;

/// What is taken.
#[derive(Debug, Default)]
pub(crate) struct ServiceAllocator {
    taken: Mutex<Taken>,
}

/// How often each is taken: by services, and by those that are about to be stored.
#[derive(Debug, Default)]
struct Taken {
    addresses: HashMap<Ipv4Addr, usize>,
    ports: HashMap<u16, usize>,
}

/// What is taken for a service that is about to be stored. It is given back when this ends: what was stored is taken by then.
#[derive(Debug)]
pub(crate) struct Reservation {
    of: Arc<ServiceAllocator>,
    addresses: Vec<Ipv4Addr>,
    ports: Vec<u16>,
}

/// Gives a service the addresses and ports that it needs; other kinds need none. They stay taken until the reservation is
/// dropped, which must be after the service is stored.
pub(crate) fn allocate(
    allocator: &Arc<ServiceAllocator>,
    location: &ObjectLocation,
    service: &mut Map<String, Value>,
    live: Option<&Value>,
) -> Result<Option<Reservation>, Status> {
    if *location.view.resource.collection != *SERVICES || location.part != Part::Whole {
        return Ok(None);
    }
    let mut reservation = allocator.reserve();
    services::allocate(service, live.and_then(Value::as_object), &mut reservation)?;
    Ok(Some(reservation))
}

impl ServiceAllocator {
    /// Learns what is stored.
    pub(crate) fn load(&self, store: &Store) {
        for entry in &store.snapshot(&store.collection(SERVICES)) {
            self.lock().add(entry);
        }
    }

    /// Follows what happens.
    pub(crate) fn observe(&self, event: &Event) {
        let entry = event.entry();
        if entry.key().collection().name() != SERVICES {
            return;
        }
        let mut taken = self.lock();
        if let Some(previous) = event.previous() {
            taken.remove(previous);
        }
        if event.kind() != EventKind::Deleted {
            taken.add(entry);
        }
    }

    /// A request that is about to store a service.
    fn reserve(self: &Arc<Self>) -> Reservation {
        Reservation { of: Arc::clone(self), addresses: Vec::new(), ports: Vec::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn add(&mut self, entry: &Entry) {
        let (addresses, ports) = had(entry);
        for address in addresses {
            take(&mut self.addresses, address);
        }
        for port in ports {
            take(&mut self.ports, port);
        }
    }

    fn remove(&mut self, entry: &Entry) {
        let (addresses, ports) = had(entry);
        for address in &addresses {
            give_back(&mut self.addresses, address);
        }
        for port in &ports {
            give_back(&mut self.ports, port);
        }
    }
}

fn take<T: Eq + Hash>(taken: &mut HashMap<T, usize>, what: T) {
    *taken.entry(what).or_default() += 1;
}

fn give_back<T: Eq + Hash>(taken: &mut HashMap<T, usize>, what: &T) {
    if let Some(count) = taken.get_mut(what) {
        *count -= 1;
        if *count == 0 {
            taken.remove(what);
        }
    }
}

/// The addresses and ports that a stored service has.
fn had(entry: &Entry) -> (Vec<Ipv4Addr>, Vec<u16>) {
    let service: Value = serde_json::from_slice(entry.bytes()).unwrap_or_default();
    let spec = &service["spec"];
    let addresses = spec["clusterIPs"].as_array().into_iter().flatten();
    let addresses = addresses.filter_map(|address| address.as_str()?.parse().ok());
    let ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
    let ports = ports.chain([&spec["healthCheckNodePort"]]);
    let ports = ports.filter_map(|port| u16::try_from(port.as_u64()?).ok()).filter(|port| *port > 0);
    (addresses.collect(), ports.collect())
}

impl Pool for Reservation {
    fn take_address(&mut self, address: &str) -> Result<(), PoolError> {
        let offset = address.parse::<Ipv4Addr>().ok().and_then(offset_of).ok_or(PoolError::OtherNetwork)?;
        if self.try_address(offset) { Ok(()) } else { Err(PoolError::AddressTaken) }
    }

    fn any_address(&mut self) -> Result<String, PoolError> {
        // The first is that of the network, the last one speaks to all.
        let (first, last) = (1, SIZE - 2);
        let upper = last - RESERVED;
        let start = random() % upper;
        let offsets = (0..upper).map(|step| RESERVED + 1 + (start + step) % upper);
        let mut offsets = offsets.chain(first..=RESERVED);
        let found = offsets.find(|offset| self.try_address(*offset));
        found.map(|offset| address_at(offset).to_string()).ok_or(PoolError::Full)
    }

    fn take_port(&mut self, port: i64) -> Result<(), PoolError> {
        let port = u16::try_from(port).ok().filter(|port| (FIRST_PORT..FIRST_PORT + PORTS).contains(port));
        let range = PoolError::PortOutOfRange { first: FIRST_PORT, last: FIRST_PORT + PORTS - 1 };
        if self.try_port(port.ok_or(range)?) { Ok(()) } else { Err(PoolError::PortTaken) }
    }

    fn any_port(&mut self) -> Result<i64, PoolError> {
        let (lower, upper) = (u32::from(RESERVED_PORTS), u32::from(PORTS - RESERVED_PORTS));
        let start = random() % upper;
        let offsets = (0..upper).map(|step| lower + (start + step) % upper).chain(0..lower);
        let mut ports = offsets.filter_map(|offset| u16::try_from(u32::from(FIRST_PORT) + offset).ok());
        let found = ports.find(|port| self.try_port(*port));
        found.map(i64::from).ok_or(PoolError::Full)
    }
}

impl Reservation {
    fn try_address(&mut self, offset: u32) -> bool {
        let address = address_at(offset);
        let mut taken = self.of.lock();
        let is_free = !taken.addresses.contains_key(&address);
        if is_free {
            take(&mut taken.addresses, address);
            self.addresses.push(address);
        }
        is_free
    }

    fn try_port(&mut self, port: u16) -> bool {
        let mut taken = self.of.lock();
        let is_free = !taken.ports.contains_key(&port);
        if is_free {
            take(&mut taken.ports, port);
            self.ports.push(port);
        }
        is_free
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        for address in &self.addresses {
            give_back(&mut taken.addresses, address);
        }
        for port in &self.ports {
            give_back(&mut taken.ports, port);
        }
    }
}

fn address_at(offset: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(NETWORK) + offset)
}

/// The place of an address among those that can be obtained.
fn offset_of(address: Ipv4Addr) -> Option<u32> {
    let offset = u32::from(address).checked_sub(u32::from(NETWORK))?;
    (1..SIZE - 1).contains(&offset).then_some(offset)
}

fn random() -> u32 {
    let [first, second, third, fourth, ..] = *crate::random::uuid().as_bytes();
    u32::from_le_bytes([first, second, third, fourth])
}
