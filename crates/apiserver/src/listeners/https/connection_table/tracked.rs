//! What is known of one connection.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::{ConnectionTable, Refusal};

/// How long a refused user is refused again without a look at the other connections: as long as the response tells them to wait.
const REFUSAL: Duration = Duration::from_secs(1);

/// A connection, as requests and the table see it.
#[derive(Debug)]
pub(crate) struct TrackedConnection {
    pub(super) id: u64,
    pub(super) peer: IpAddr,
    table: Weak<ConnectionTable>,
    opened: Instant,
    /// When a request last began or ended, in milliseconds since the table was made.
    active: AtomicU64,
    in_flight: AtomicUsize,
    /// How many responses have begun whose clients have to come to their ends.
    unfinished: AtomicUsize,
    /// Whether the client has taken something of any response in the present period.
    has_progressed: AtomicBool,
    user: OnceLock<String>,
    last_refused: Mutex<Option<RefusedUser>>,
    is_administrator: AtomicBool,
    evicted: Notify,
}

/// Who was last refused, and when.
#[derive(Debug)]
struct RefusedUser {
    at: Instant,
    /// None if every user would have been refused.
    user: Option<String>,
}

/// What a connection has been used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// It is unauthenticated.
    Unknown,
    User,
    Administrator,
}

impl TrackedConnection {
    pub(super) fn new(id: u64, peer: IpAddr, table: &Arc<ConnectionTable>) -> Self {
        Self {
            id,
            peer,
            table: Arc::downgrade(table),
            opened: Instant::now(),
            active: AtomicU64::new(table.now()),
            in_flight: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
            has_progressed: AtomicBool::new(false),
            user: OnceLock::new(),
            last_refused: Mutex::default(),
            is_administrator: AtomicBool::new(false),
            evicted: Notify::new(),
        }
    }

    /// Notes who uses the connection. False if they have too many already.
    ///
    /// The first user counts: a proxy that carries requests of many has connections of its own.
    pub(crate) fn identify(&self, user: &str, is_administrator: bool) -> bool {
        // Even if the first user was another one: an administrator behind a proxy must not be evicted for the others.
        if is_administrator {
            self.is_administrator.store(true, Ordering::Relaxed);
        }
        if self.user.get().is_some() {
            return true;
        }
        // An administrator is never refused: who else could find out who holds all the connections?
        if is_administrator {
            let _ = self.user.set(user.to_owned());
            return true;
        }
        self.admit(user)
    }

    /// Gives the connection to a user who may have one more.
    fn admit(&self, user: &str) -> bool {
        // Held until all is decided: of requests that come together, one makes the decision.
        let mut last = self.last_refused.lock().unwrap_or_else(PoisonError::into_inner);
        if self.user.get().is_some() {
            return true;
        }
        // A decision reads the whole table, under the lock that every connection needs: requests that are refused must not repeat it.
        let is_known = last.as_ref().is_some_and(|last| {
            last.at.elapsed() < REFUSAL && last.user.as_deref().is_none_or(|refused| refused == user)
        });
        if is_known {
            return false;
        }
        let admitted = self.table.upgrade().map_or(Ok(()), |table| table.make_room_for(self, user));
        let refused_user = match admitted {
            Ok(()) => {
                let _ = self.user.set(user.to_owned());
                return true;
            }
            Err(Refusal::OfUser) => Some(user.to_owned()),
            Err(Refusal::OfEveryUser) => None,
        };
        *last = Some(RefusedUser { at: Instant::now(), user: refused_user });
        false
    }

    /// Counts a request until what is returned is dropped.
    pub(in crate::listeners::https) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.touch();
        InFlight { connection: Arc::clone(self), has_end: false }
    }

    /// The network that it comes from.
    pub(in crate::listeners::https) fn peer(&self) -> IpAddr {
        self.peer
    }

    pub(in crate::listeners::https) fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    pub(super) fn usage(&self) -> Usage {
        match self.user.get() {
            _ if self.is_administrator.load(Ordering::Relaxed) => Usage::Administrator,
            Some(_) => Usage::User,
            None => Usage::Unknown,
        }
    }

    /// Empty if it is not known.
    pub(super) fn user(&self) -> &str {
        self.user.get().map_or("", String::as_str)
    }

    pub(super) fn last_active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    pub(super) fn evict(&self) {
        // `notify_one` is remembered if no task waits yet; a connection that is evicted between accept and serve would
        // be missed otherwise.
        self.evicted.notify_one();
    }

    /// Waits until the connection is evicted.
    pub(in crate::listeners::https) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Waits until nothing useful has come from it for too long.
    pub(in crate::listeners::https) async fn expired(
        &self,
        unauthenticated: Option<Duration>,
        idle: Duration,
    ) {
        while let Some(until) = self.lives_until(unauthenticated, idle) {
            sleep_until(until).await;
        }
    }

    /// Waits until there have been responses to read, and the client has read nothing of any, for a period, or for up to two.
    ///
    /// Of any: one connection of HTTP/2 may carry the requests of everybody behind a proxy, and their watches must not end because one
    /// of them has stopped reading a list. That list counts against the memory of its user.
    pub(in crate::listeners::https) async fn stalled(&self, period: Duration) {
        let mut was_unfinished = false;
        loop {
            sleep(period).await;
            let has_progressed = self.has_progressed.swap(false, Ordering::Relaxed);
            let is_unfinished = self.unfinished.load(Ordering::Relaxed) > 0;
            if was_unfinished && is_unfinished && !has_progressed {
                return;
            }
            was_unfinished = is_unfinished;
        }
    }

    /// Until when it need not be checked again. Nothing if its time is over.
    fn lives_until(&self, unauthenticated: Option<Duration>, idle: Duration) -> Option<Instant> {
        let now = Instant::now();
        let limit = unauthenticated.filter(|_| self.usage() == Usage::Unknown);
        let end = limit.map(|limit| self.opened + limit);
        // A watch is busy for as long as it is open, however little it says.
        let rest = if self.is_busy() { now + idle } else { self.idle_since(now) + idle };
        let until = end.map_or(rest, |end| end.min(rest));
        (until > now).then_some(until)
    }

    fn idle_since(&self, now: Instant) -> Instant {
        let idle = self.table.upgrade().map_or(0, |table| table.now().saturating_sub(self.last_active()));
        // A monotonic clock may be younger than the idle time, right after the machine has started.
        now.checked_sub(Duration::from_millis(idle)).unwrap_or(now)
    }

    fn touch(&self) {
        if let Some(table) = self.table.upgrade() {
            self.active.store(table.now(), Ordering::Relaxed);
        }
    }
}

/// A request that is being answered, until the last byte of the answer is sent.
#[derive(Debug)]
pub(in crate::listeners::https) struct InFlight {
    connection: Arc<TrackedConnection>,
    /// Whether its response has begun, and has an end.
    has_end: bool,
}

impl InFlight {
    /// Notes that the response has begun, and has an end to which its client has to come.
    pub(in crate::listeners::https) fn expects_end(&mut self) {
        if !std::mem::replace(&mut self.has_end, true) {
            self.connection.unfinished.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that the client has taken something of the response.
    pub(in crate::listeners::https) fn progresses(&self) {
        let has_progressed = &self.connection.has_progressed;
        // Watches come here with every event, on several threads: most often there is nothing to write.
        if !has_progressed.load(Ordering::Relaxed) {
            has_progressed.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.has_end {
            // Small responses are one piece, after which nothing more is asked for.
            self.progresses();
            self.connection.unfinished.fetch_sub(1, Ordering::Relaxed);
        }
        self.connection.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.connection.touch();
    }
}
