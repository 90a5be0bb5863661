//! All connections of a listener: how many there are, whose they are, and which one goes when there are too many.
//!
//! # Guarantees
//! * A new connection gets in at once, unless administrators have all that users leave: one that did
//!   nothing useful is evicted. First unauthenticated ones, the longest idle one first; then idle ones of
//!   the user with the most; last, of a user with a great many, one that is in use.
//! * One network address, and one user, never have all connections. All users together leave some to others, so that an administrator
//!   or a health check gets in even where every user keeps all connections in use.

mod tracked;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Settings;
pub(crate) use tracked::TrackedConnection;
pub(super) use tracked::{InFlight, Usage};

/// How often to complain of too many connections.
const COMPLAINT: Duration = Duration::from_mins(1);

/// A user with more than this part of all connections may lose one that is in use.
const GREAT_MANY: usize = 8;

/// This part of all connections, and of those of a peer, is never given to users: a new connection has to be open before it can show
/// that it is an administrator's.
const RESERVED: usize = 8;

#[derive(Debug)]
pub(super) struct ConnectionTable {
    limit: usize,
    limit_of_peer: usize,
    limit_of_user: usize,
    /// What times are counted from.
    epoch: Instant,
    state: Mutex<State>,
    complained: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    connections: HashMap<u64, Arc<TrackedConnection>>,
    peers: HashMap<IpAddr, usize>,
}

/// Why a user may not have one more connection.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    /// The user has too many that are in use.
    OfUser,
    /// All users together have, and what is left is not for users.
    OfEveryUser,
}

/// A connection in the table. Dropping it takes it out.
#[derive(Debug)]
pub(super) struct TableEntry {
    table: Arc<ConnectionTable>,
    pub(super) connection: Arc<TrackedConnection>,
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        // Evicted ones are not there any more, which is fine: they are removed before their task ends.
        self.table.lock().remove(self.connection.id);
    }
}

impl ConnectionTable {
    pub(super) fn new(settings: &Settings) -> Arc<Self> {
        Arc::new(Self {
            limit: settings.connections,
            limit_of_peer: settings.connections_of_peer,
            limit_of_user: settings.connections_of_user,
            epoch: Instant::now(),
            state: Mutex::default(),
            complained: AtomicU64::new(0),
        })
    }

    /// Accepts a connection. None if the table is full and nothing can be evicted.
    pub(super) fn admit(self: &Arc<Self>, remote: IpAddr) -> Option<TableEntry> {
        let peer = network_of(remote);
        let mut state = self.lock();
        // The limit of the peer first, so that one machine makes room at its own expense, never at that of others.
        if state.peers.get(&peer).is_some_and(|count| *count >= self.limit_of_peer) {
            self.make_room(&mut state, Some(peer))?;
        }
        if state.connections.len() >= self.limit {
            self.make_room(&mut state, None)?;
        }
        let id = state.next;
        state.next += 1;
        let connection = Arc::new(TrackedConnection::new(id, peer, self));
        state.connections.insert(id, Arc::clone(&connection));
        *state.peers.entry(peer).or_default() += 1;
        Some(TableEntry { table: Arc::clone(self), connection })
    }

    /// Closes the connection that is missed least, of one peer or of all.
    fn make_room(&self, state: &mut State, peer: Option<IpAddr>) -> Option<()> {
        self.complain();
        let candidates = || {
            let all = state.connections.values();
            all.filter(|connection| peer.is_none_or(|peer| connection.peer == peer))
        };
        let strangers = candidates().filter(|connection| connection.usage() == Usage::Unknown);
        // Those that wait for an answer last: it may be one that says whether the server lives.
        let stranger = strangers.min_by_key(|connection| (connection.is_busy(), connection.last_active()));
        // Those who have not shown who they are go first: anybody can open connections, but not as anybody.
        let found = stranger.or_else(|| self.of_greediest_user(candidates()));
        let id = found?.id;
        state.evict(id);
        Some(())
    }

    /// A connection of the user who has most of them.
    fn of_greediest_user<'c>(
        &self,
        candidates: impl Iterator<Item = &'c Arc<TrackedConnection>>,
    ) -> Option<&'c Arc<TrackedConnection>> {
        let mut users = HashMap::<&str, Vec<&Arc<TrackedConnection>>>::new();
        for connection in candidates.filter(|connection| connection.usage() == Usage::User) {
            users.entry(connection.user()).or_default().push(connection);
        }
        let idle = |connections: &Vec<&Arc<TrackedConnection>>| {
            connections.iter().filter(|connection| !connection.is_busy()).count()
        };
        // By idle ones and not by all: a user with many watches that work is no reason to break one.
        let with_most_idle = users.values().max_by_key(|connections| idle(connections));
        let idlest = with_most_idle.and_then(|connections| {
            let idle = connections.iter().filter(|connection| !connection.is_busy());
            idle.min_by_key(|connection| connection.last_active()).copied()
        });
        idlest.or_else(|| {
            let greediest = users.values().max_by_key(|connections| connections.len())?;
            // Where every user has few connections and all are busy, the one that asks for more is refused instead.
            let has_a_great_many = greediest.len() > self.limit / GREAT_MANY;
            let oldest = greediest.iter().min_by_key(|connection| connection.last_active());
            oldest.filter(|_| has_a_great_many).copied()
        })
    }

    /// Lets a user have one more connection. An idle one makes room for it: of the same user, or of the one with most.
    fn make_room_for(&self, connection: &TrackedConnection, user: &str) -> Result<(), Refusal> {
        let mut state = self.lock();
        // Nothing is closed before all is decided: no user loses a connection for one that is refused in the end.
        let mut leaving = Vec::new();
        leaving.extend(self.room_in_share(&state, connection, user)?);
        self.leave_reserve(&state, connection, Some(connection.peer), &mut leaving)?;
        self.leave_reserve(&state, connection, None, &mut leaving)?;
        for id in leaving {
            state.evict(id);
        }
        Ok(())
    }

    /// Which connection of the user has to go, if one has to.
    fn room_in_share(
        &self,
        state: &State,
        connection: &TrackedConnection,
        user: &str,
    ) -> Result<Option<u64>, Refusal> {
        let others = state.connections.values();
        let own: Vec<_> = others.filter(|other| other.id != connection.id && other.user() == user).collect();
        if own.len() < self.limit_of_user {
            return Ok(None);
        }
        let idle = own.iter().filter(|other| !other.is_busy());
        let idlest = idle.min_by_key(|other| other.last_active()).ok_or(Refusal::OfUser)?;
        Ok(Some(idlest.id))
    }

    /// Lets users have one more connection, of one peer or of all. Adds the one that has to go, if one has to.
    fn leave_reserve(
        &self,
        state: &State,
        connection: &TrackedConnection,
        peer: Option<IpAddr>,
        leaving: &mut Vec<u64>,
    ) -> Result<(), Refusal> {
        let limit = if peer.is_some() { self.limit_of_peer } else { self.limit };
        let users_limit = limit - limit / RESERVED;
        let present = match peer {
            Some(peer) => state.peers.get(&peer).copied().unwrap_or_default(),
            None => state.connections.len(),
        };
        // Most often, and without a search: however many of them are users', there is room.
        if present <= users_limit {
            return Ok(());
        }
        let staying: Vec<_> = state
            .connections
            .values()
            .filter(|other| other.id != connection.id && !leaving.contains(&other.id))
            .filter(|other| peer.is_none_or(|peer| other.peer == peer))
            .collect();
        if staying.iter().filter(|other| other.usage() == Usage::User).count() < users_limit {
            return Ok(());
        }
        self.complain();
        let found = self.of_greediest_user(staying.into_iter()).ok_or(Refusal::OfEveryUser)?;
        leaving.push(found.id);
        Ok(())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn complain(&self) {
        let (now, pause) = (self.now(), u64::try_from(COMPLAINT.as_millis()).unwrap_or(u64::MAX));
        let last = self.complained.load(Ordering::Relaxed);
        if last == 0 || now.saturating_sub(last) > pause {
            // Zero stands for never.
            self.complained.store(now.max(1), Ordering::Relaxed);
            tracing::warn!(limit = self.limit, "too many connections; closing idle ones");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn evict(&mut self, id: u64) {
        if let Some(connection) = self.remove(id) {
            connection.evict();
        }
    }

    fn remove(&mut self, id: u64) -> Option<Arc<TrackedConnection>> {
        let connection = self.connections.remove(&id)?;
        if let Some(count) = self.peers.get_mut(&connection.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&connection.peer);
            }
        }
        Some(connection)
    }
}

/// The network of one client: an address or, of version 6, the 2^64 of a subnet.
fn network_of(address: IpAddr) -> IpAddr {
    // An IPv4 address in the form of IPv6 would otherwise share a subnet with all others of that form.
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            [a, b, c, d, 0, 0, 0, 0].into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests;
