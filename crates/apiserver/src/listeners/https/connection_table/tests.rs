//! Who makes room for whom.

use std::convert::Infallible;
use std::pin::{Pin, pin};

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};

use super::*;
use crate::listeners::https::in_flight_body::InFlightBody;
use crate::response::Body;

fn table(connections: usize, of_peer: usize, of_user: usize) -> Arc<ConnectionTable> {
    let settings = Settings {
        connections,
        connections_of_peer: of_peer,
        connections_of_user: of_user,
        ..Settings::default()
    };
    ConnectionTable::new(&settings)
}

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

/// Whether a connection has to go.
async fn is_evicted(entry: &TableEntry) -> bool {
    tokio::time::timeout(Duration::from_millis(1), entry.connection.evicted()).await.is_ok()
}

async fn admit(table: &Arc<ConnectionTable>, peer: u8) -> TableEntry {
    let entry = table.admit(address(peer)).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    entry
}

#[tokio::test(start_paused = true)]
async fn stranger_who_is_idle_longest_makes_room() {
    let table = table(3, 3, 3);
    let (first, second, third) = (admit(&table, 1).await, admit(&table, 2).await, admit(&table, 3).await);
    // A client that asks something is not idle.
    let _asking = first.connection.begin();
    assert!(third.connection.identify("bob", false));
    let _fourth = admit(&table, 4).await;
    assert!(is_evicted(&second).await);
    assert!(!is_evicted(&first).await && !is_evicted(&third).await);
}

#[tokio::test(start_paused = true)]
async fn strangers_go_before_users_and_administrators_never_go() {
    let table = table(3, 3, 3);
    let (admin, user, stranger) = (admit(&table, 1).await, admit(&table, 1).await, admit(&table, 1).await);
    assert!(admin.connection.identify("ada", true) && user.connection.identify("bob", false));
    let next = admit(&table, 1).await;
    assert!(is_evicted(&stranger).await && !is_evicted(&user).await);
    assert!(next.connection.identify("eve", false));
    let watching = next.connection.begin();
    let last = admit(&table, 1).await;
    assert!(is_evicted(&user).await && !is_evicted(&next).await);
    assert!(last.connection.identify("ada", true));
    // One that is in use goes only if its user has a great many.
    let newest = admit(&table, 1).await;
    assert!(is_evicted(&next).await, "of three connections, one is a great many");
    drop((watching, newest));
    assert!(!is_evicted(&admin).await && !is_evicted(&last).await);
}

#[tokio::test(start_paused = true)]
async fn user_with_few_connections_keeps_those_in_use() {
    let table = table(16, 16, 16);
    let mut entries = Vec::new();
    for peer in 0..16 {
        entries.push(admit(&table, peer).await);
    }
    let mut watching = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let is_admitted = entry.connection.identify(&format!("user-{}", number / 2), false);
        assert_eq!(is_admitted, number < 14);
        watching.push(entry.connection.begin());
    }
    // Two are refused to users and left to others, who may turn out to be administrators.
    let administrator = table.admit(address(99)).expect("a new client can show who it is");
    assert!(administrator.connection.identify("ada", true));
    let newcomer = table.admit(address(98)).expect("so can the next one");
    assert!(is_evicted(&entries[14]).await && is_evicted(&entries[15]).await);
    assert!(!newcomer.connection.identify("eve", false));
    for entry in &entries[..14] {
        assert!(!is_evicted(entry).await);
    }
    drop(watching.remove(7));
    assert!(!newcomer.connection.identify("joe", false), "nobody would have been admitted a moment ago");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(newcomer.connection.identify("eve", false), "an idle connection of a user makes room");
    assert!(is_evicted(&entries[7]).await && !is_evicted(&administrator).await);
}

#[tokio::test(start_paused = true)]
async fn users_of_one_address_leave_room_for_an_administrator_at_the_same_address() {
    let table = table(64, 8, 64);
    let mut busy = Vec::new();
    for number in 0..8 {
        let entry = admit(&table, 1).await;
        let is_admitted = entry.connection.identify(&format!("user-{number}"), false);
        assert_eq!(is_admitted, number < 7);
        let in_flight = entry.connection.begin();
        busy.push((entry, in_flight));
    }
    let administrator = table.admit(address(1)).unwrap();
    assert!(administrator.connection.identify("ada", true));
    assert!(is_evicted(&busy[7].0).await && !is_evicted(&busy[0].0).await);
    assert!(admit(&table, 2).await.connection.identify("user-7", false), "another address has its own share");
}

#[tokio::test(start_paused = true)]
async fn refused_user_loses_no_connection() {
    let table = table(64, 8, 1);
    let idle = admit(&table, 2).await;
    assert!(idle.connection.identify("bob", false));
    let mut busy = Vec::new();
    for number in 0..7 {
        let entry = admit(&table, 1).await;
        assert!(entry.connection.identify(&format!("user-{number}"), false));
        let in_flight = entry.connection.begin();
        busy.push((entry, in_flight));
    }
    let refused = admit(&table, 1).await;
    assert!(!refused.connection.identify("bob", false), "what is left of the address is not for users");
    assert!(!is_evicted(&idle).await);
    let admitted = admit(&table, 3).await;
    assert!(admitted.connection.identify("bob", false));
    assert!(is_evicted(&idle).await);
}

#[tokio::test(start_paused = true)]
async fn refused_user_is_not_looked_at_again_for_a_second() {
    let table = table(8, 8, 1);
    let (first, second) = (admit(&table, 1).await, admit(&table, 2).await);
    assert!(first.connection.identify("bob", false));
    let watching = first.connection.begin();
    assert!(!second.connection.identify("bob", false));
    drop(watching);
    assert!(!second.connection.identify("bob", false));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(second.connection.identify("bob", false));
    assert!(is_evicted(&first).await);
}

/// A response with an end, in pieces.
fn respond(entry: &TableEntry) -> InFlightBody<Body> {
    let pieces = vec![Bytes::from_static(b"piece"); 20];
    InFlightBody::new(Body::Chunks(pieces.into()), entry.connection.begin())
}

async fn is_pending(stalled: Pin<&mut impl Future<Output = ()>>, time: Duration) -> bool {
    tokio::time::timeout(time, stalled).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn connection_whose_client_reads_nothing_is_noticed() {
    let table = table(4, 4, 4);
    let entry = table.admit(address(1)).unwrap();
    let period = Duration::from_mins(1);
    let mut stalled = pin!(entry.connection.stalled(period));
    // From here on, nothing happens at the moment in which a period ends.
    assert!(is_pending(stalled.as_mut(), period / 2).await);
    // A watch may have nothing to say for as long as it likes.
    let endless = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let _watching = InFlightBody::new(endless, entry.connection.begin());
    assert!(is_pending(stalled.as_mut(), 10 * period).await);
    let mut response = respond(&entry);
    response.frame().await.unwrap().unwrap();
    for _ in 0..10 {
        response.frame().await.unwrap().unwrap();
        assert!(is_pending(stalled.as_mut(), period).await, "it continues in every period");
    }
    // The first piece of another response is taken by the connection, and need not get any further.
    let mut other = respond(&entry);
    other.frame().await.unwrap().unwrap();
    assert!(!is_pending(stalled.as_mut(), 2 * period).await);
    drop((response, other));
    let stalled = pin!(entry.connection.stalled(period));
    assert!(is_pending(stalled, 10 * period).await);
}

#[tokio::test(start_paused = true)]
async fn unread_response_does_not_end_the_connection_while_others_are_read() {
    let table = table(4, 4, 4);
    let entry = table.admit(address(1)).unwrap();
    let period = Duration::from_mins(1);
    let mut stalled = pin!(entry.connection.stalled(period));
    assert!(is_pending(stalled.as_mut(), period / 2).await);
    let _unread = respond(&entry);
    let events = stream::repeat_with(|| Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"event"))));
    let mut watch = InFlightBody::new(StreamBody::new(events), entry.connection.begin());
    watch.frame().await.unwrap().unwrap();
    for _ in 0..10 {
        watch.frame().await.unwrap().unwrap();
        assert!(is_pending(stalled.as_mut(), period).await, "a watch has sent something");
    }
    for _ in 0..10 {
        drop(respond(&entry));
        assert!(is_pending(stalled.as_mut(), period).await, "a response has ended");
    }
    assert!(!is_pending(stalled.as_mut(), 2 * period).await, "nothing is read any more");
}

#[tokio::test(start_paused = true)]
async fn one_address_makes_room_for_itself_only() {
    let table = table(4, 2, 4);
    let other = admit(&table, 1).await;
    let (first, second) = (admit(&table, 2).await, admit(&table, 2).await);
    let third = admit(&table, 2).await;
    assert!(is_evicted(&first).await && !is_evicted(&other).await && !is_evicted(&second).await);
    for entry in [&second, &third] {
        assert!(entry.connection.identify("ada", true));
    }
    assert!(table.admit(address(2)).is_none());
    assert!(table.admit(address(3)).is_some());
}

#[tokio::test(start_paused = true)]
async fn one_user_makes_room_for_itself_only() {
    let table = table(8, 8, 2);
    let (first, second, third) = (admit(&table, 1).await, admit(&table, 2).await, admit(&table, 3).await);
    let _watching = first.connection.begin();
    assert!(first.connection.identify("bob", false) && second.connection.identify("bob", false));
    assert!(third.connection.identify("bob", false));
    assert!(is_evicted(&second).await && !is_evicted(&first).await);
    let _watching = third.connection.begin();
    let fourth = admit(&table, 4).await;
    assert!(!fourth.connection.identify("bob", false), "both others are in use");
    assert!(fourth.connection.identify("eve", false));
}

#[tokio::test(start_paused = true)]
async fn table_forgets_what_has_ended() {
    let table = table(4, 4, 4);
    drop((admit(&table, 1).await, admit(&table, 2).await));
    let state = table.lock();
    assert!(state.connections.is_empty() && state.peers.is_empty());
}

#[test]
fn subnet_counts_as_one_peer() {
    let network = |text: &str| network_of(text.parse().unwrap());
    assert_eq!(network("2001:db8:1:2:3::4"), network("2001:db8:1:2:ffff::"));
    assert_ne!(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
    assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
}

#[tokio::test(start_paused = true)]
async fn connection_lives_while_it_is_of_use() {
    let (limit, idle) = (Some(Duration::from_secs(30)), Duration::from_secs(90));
    let table = table(4, 4, 4);
    let (stranger, user) = (table.admit(address(1)).unwrap(), table.admit(address(2)).unwrap());
    assert!(user.connection.identify("bob", false));
    let began = Instant::now();
    // Requests of strangers do not buy time.
    let asking = stranger.connection.begin();
    stranger.connection.expired(limit, idle).await;
    assert_eq!(began.elapsed().as_secs(), 30);
    drop(asking);
    let watching = user.connection.begin();
    assert!(tokio::time::timeout(10 * idle, user.connection.expired(limit, idle)).await.is_err());
    drop(watching);
    let began = Instant::now();
    user.connection.expired(limit, idle).await;
    assert_eq!(began.elapsed().as_secs(), 90);
}
