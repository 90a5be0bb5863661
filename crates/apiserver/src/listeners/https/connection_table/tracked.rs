//! What is known of one connection.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::ConnectionTable;

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
    progress: Progress,
    user: OnceLock<String>,
    is_administrator: AtomicBool,
    evicted: Notify,
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
            progress: Progress::default(),
            user: OnceLock::new(),
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
        let has_room =
            // An administrator is never refused: who else could find out who holds all the connections?
            is_administrator || self.table.upgrade().is_none_or(|table| table.has_room_for(self, user));
        if has_room {
            let _ = self.user.set(user.to_owned());
        }
        has_room
    }

    /// Counts a request until what is returned is dropped.
    pub(in crate::listeners::https) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.touch();
        InFlight { connection: Arc::clone(self), period: None }
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

    /// Waits until the client has read nothing of a response for a period, or for up to two.
    pub(in crate::listeners::https) async fn stalled(&self, period: Duration) {
        loop {
            sleep(period).await;
            if !self.progress.begin_period() {
                return;
            }
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

/// Which responses continue: how many last did so in the present period, and in the one before.
///
/// A table of times would need a lock and an entry for every response; this is two additions.
#[derive(Debug, Default)]
struct Progress {
    period: AtomicUsize,
    /// By whether the number of the period is odd.
    responses: [AtomicUsize; 2],
}

impl Progress {
    fn current(&self) -> usize {
        self.period.load(Ordering::Relaxed) % 2
    }

    /// Begins another period, unless there is a response that made no progress in all of this one.
    fn begin_period(&self) -> bool {
        let former = 1 - self.current();
        let is_stalled = self.responses[former].load(Ordering::Relaxed) > 0;
        if !is_stalled {
            self.period.fetch_add(1, Ordering::Relaxed);
        }
        !is_stalled
    }
}

/// A request that is being answered, until the last byte of the answer is sent.
#[derive(Debug)]
pub(in crate::listeners::https) struct InFlight {
    connection: Arc<TrackedConnection>,
    /// The period in which the response made progress, if it has begun and has an end.
    period: Option<usize>,
}

impl InFlight {
    /// Notes that the client has read something of the response. From the first time on, it has to continue.
    pub(in crate::listeners::https) fn continues(&mut self) {
        let progress = &self.connection.progress;
        let current = progress.current();
        if self.period == Some(current) {
            return;
        }
        progress.responses[current].fetch_add(1, Ordering::Relaxed);
        if let Some(former) = self.period.replace(current) {
            progress.responses[former].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(period) = self.period {
            self.connection.progress.responses[period].fetch_sub(1, Ordering::Relaxed);
        }
        self.connection.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.connection.touch();
    }
}
