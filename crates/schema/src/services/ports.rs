//! Ports on nodes.
//!
//! Follows Kubernetes 1.36.4, `pkg/registry/core/service/storage/alloc.go`,
//! `pkg/registry/core/service/portallocator`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::spec::{Spec, node_port};
use super::{Pool, invalid};
use crate::field::{Error, Path};
use crate::status::Status;

/// Takes ports for a new service.
pub(super) fn take(new: &mut Spec, name: &str, pool: &mut dyn Pool) -> Result<(), Status> {
    if new.is_on_nodes() {
        take_all(new, name, pool)?;
    }
    if new.needs_health_port() {
        take_health_port(new, pool)?;
    }
    Ok(())
}

/// The same port has the same port on nodes, with whichever protocol.
fn take_all(new: &mut Spec, name: &str, pool: &mut dyn Pool) -> Result<(), Status> {
    let numbers: Vec<_> = new.ports().iter().map(|port| (number(port), node_port(port))).collect();
    let mut asked: HashMap<i64, i64> = HashMap::new();
    for (number, wanted) in numbers.iter().filter(|(_, wanted)| *wanted != 0) {
        // All wishes are checked first, so that a port that comes before its twin of another protocol gets
        // the twin's.
        asked.entry(*number).or_insert(*wanted);
    }
    let mut given: HashMap<i64, i64> = HashMap::new();
    for (index, (number, wanted)) in numbers.into_iter().enumerate() {
        if wanted == 0 && !new.gets_node_ports() {
            continue;
        }
        match given.get(&number) {
            Some(known) if wanted == 0 => new.set_node_port(index, *known),
            Some(known) if wanted == *known => {}
            Some(_) => take_one(wanted, index, name, pool)?,
            None => {
                let port = match asked.get(&number) {
                    Some(port) => take_one(*port, index, name, pool).map(|()| *port)?,
                    None => any(pool)?,
                };
                new.set_node_port(index, port);
                given.insert(number, port);
            }
        }
    }
    Ok(())
}

fn number(port: &serde_json::Map<String, Value>) -> i64 {
    port.get("port").and_then(Value::as_i64).unwrap_or_default()
}

fn take_one(port: i64, index: usize, name: &str, pool: &mut dyn Pool) -> Result<(), Status> {
    pool.take_port(port).map_err(|why| {
        let root = Path::new("spec");
        let path = root.child("ports");
        invalid(name, &[Error::invalid(&path.index(index).child("nodePort"), port, why.to_string())])
    })
}

fn any(pool: &mut dyn Pool) -> Result<i64, Status> {
    pool.any_port().map_err(|why| Status::internal(&format!("failed to allocate a nodePort: {why}")))
}

fn take_health_port(new: &mut Spec, pool: &mut dyn Pool) -> Result<(), Status> {
    let port = new.health_port();
    if port == 0 {
        let port = pool.any_port().map_err(|why| {
            Status::internal(&format!("failed to allocate a HealthCheck NodePort 0: {why}"))
        })?;
        new.set_health_port(port);
        return Ok(());
    }
    pool.take_port(port).map_err(|why| {
        Status::internal(&format!("failed to allocate requested HealthCheck NodePort {port}: {why}"))
    })
}

/// Takes what a service has not had before.
pub(super) fn update(new: &mut Spec, before: &Spec, name: &str, pool: &mut dyn Pool) -> Result<(), Status> {
    if new.is_on_nodes() {
        let mut had: HashSet<_> = before.node_ports().into_iter().collect();
        for (index, port) in new.ports().iter().enumerate() {
            match node_port(port) {
                0 if !new.gets_node_ports() => {}
                0 => {
                    let port = any(pool)?;
                    new.set_node_port(index, port);
                }
                port if had.contains(&port) => {}
                port => {
                    take_one(port, index, name, pool)?;
                    had.insert(port);
                }
            }
        }
    }
    if new.needs_health_port() && !before.needs_health_port() {
        take_health_port(new, pool)?;
    }
    Ok(())
}
