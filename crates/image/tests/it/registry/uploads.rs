//! Uploads that break off: they continue from where the registry says that they are, or begin anew.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ferroplane_image::Hasher;
use ferroplane_image::registry::{Options, Pull, Push, Timeouts};
use ferroplane_testkit::{DebianRegistry, RegistrySetup, TcpServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::TcpStream;

use super::hostile::{Asked, Hostile, Reply, status};
use super::images::{TestImage, noise};
use super::{chain, client, platform, quick, reference, store};

/// Letters, since the server reads bodies as text.
fn letters(length: usize) -> Vec<u8> {
    noise(length, 1).iter().map(|byte| b'a' + byte % 26).collect()
}

/// Time enough for a piece on a busy machine: what is counted here are attempts.
fn patient(address: &str) -> Options {
    Options { plain_http: vec![address.to_owned()], timeouts: Timeouts::default(), ..quick() }
}

/// What goes wrong, once.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// The second piece of the layer is taken by half; then the connection ends.
    HalfAPiece,
    /// The same, and the registry does not know the upload any more.
    Forgotten,
    /// The same, and the registry says that it has more than there is.
    Nonsense,
    /// The upload ends well, and nobody hears of it.
    LostAnswer,
}

/// A registry with one upload at a time.
struct Uploads {
    fault: Fault,
    has_failed: bool,
    /// Whether there is an upload that can continue.
    is_open: bool,
    upload: Vec<u8>,
    pieces: usize,
    blobs: Vec<Vec<u8>>,
}

impl Uploads {
    fn start(fault: Fault) -> (Hostile, Arc<Mutex<Self>>) {
        let (upload, blobs) = (Vec::new(), Vec::new());
        let uploads =
            Arc::new(Mutex::new(Self { fault, has_failed: false, is_open: false, upload, pieces: 0, blobs }));
        let registry = uploads.clone();
        (Hostile::start(move |asked| registry.lock().unwrap().answer(asked)), uploads)
    }

    fn answer(&mut self, asked: &Asked) -> Reply {
        let is_upload = asked.path.contains("/uploads/");
        match asked.method.as_str() {
            "HEAD" => status(if self.has(&asked.path) { 200 } else { 404 }),
            "POST" => {
                (self.is_open, self.upload, self.pieces) = (true, Vec::new(), 0);
                self.at(202)
            }
            "PATCH" => self.take(asked),
            "PUT" if is_upload => self.finish(),
            "PUT" => status(201),
            "GET" if is_upload && (self.fault == Fault::Forgotten || !self.is_open) => status(404),
            "GET" if is_upload => self.at(204),
            _ => status(200),
        }
    }

    fn has(&self, path: &str) -> bool {
        self.blobs.iter().any(|blob| path.contains(Hasher::digest(blob).hex()))
    }

    /// How far the upload is.
    fn at(&self, code: u16) -> Reply {
        let last = match self.fault {
            Fault::Nonsense if code == 204 => 1 << 40,
            _ => self.upload.len().saturating_sub(1),
        };
        let location = ("Location", "/v2/name/blobs/uploads/1".to_owned());
        Reply::Answer(code, vec![location, ("Range", format!("0-{last}"))], Vec::new())
    }

    fn take(&mut self, asked: &Asked) -> Reply {
        let start: usize = asked.header("content-range").unwrap().split('-').next().unwrap().parse().unwrap();
        if start != self.upload.len() {
            return status(416);
        }
        self.pieces += 1;
        let breaks_off = self.fault != Fault::LostAnswer && self.pieces == 2 && !self.has_failed;
        let taken = if breaks_off { asked.body.len() / 2 } else { asked.body.len() };
        self.upload.extend_from_slice(&asked.body.as_bytes()[..taken]);
        self.has_failed |= breaks_off;
        if breaks_off { Reply::Raw(Vec::new()) } else { self.at(202) }
    }

    fn finish(&mut self) -> Reply {
        let loses_answer = self.fault == Fault::LostAnswer && self.pieces > 1 && !self.has_failed;
        self.has_failed |= loses_answer;
        self.is_open = false;
        self.blobs.push(std::mem::take(&mut self.upload));
        if loses_answer { Reply::Raw(Vec::new()) } else { status(201) }
    }
}

/// Push a layer of three pieces to a registry with a fault. Returns how many bytes of it were sent, and how often an upload began.
async fn push(fault: Fault) -> (usize, usize) {
    let (server, uploads) = Uploads::start(fault);
    let (_directory, images) = store();
    let image = TestImage::new(&[letters(9 << 20)]);
    let digest = image.write(&images);
    let name = reference(&format!("{}/name:v1", server.address));
    let registry = client(patient(&server.address));
    let pushed = registry.push(&name, &digest, &Push::from(&images)).await;
    pushed.unwrap_or_else(|error| panic!("{}", chain(&error)));
    let uploads = uploads.lock().unwrap();
    assert!(uploads.has_failed);
    assert_eq!(uploads.blobs.iter().filter(|blob| **blob == image.layers[0]).count(), 1);
    let sent = |asked: &Asked| if asked.method == "PATCH" { asked.body.len() } else { 0 };
    let begun = server.asked().iter().filter(|asked| asked.method == "POST").count();
    // One upload is that of the configuration.
    (server.asked().iter().map(sent).sum::<usize>() - image.config.len(), begun - 1)
}

#[tokio::test]
async fn interrupted_upload_goes_on_where_the_registry_says_that_it_is() {
    assert_eq!(push(Fault::HalfAPiece).await, ((9 << 20) + (2 << 20), 1));
}

#[tokio::test]
async fn upload_begins_anew_where_the_registry_does_not_know_it_any_more() {
    for fault in [Fault::Forgotten, Fault::Nonsense] {
        assert_eq!(push(fault).await, ((9 << 20) + (8 << 20), 2));
    }
}

#[tokio::test]
async fn blob_is_not_sent_again_when_the_answer_to_its_last_piece_is_lost() {
    assert_eq!(push(Fault::LostAnswer).await, (9 << 20, 1));
}

#[tokio::test]
async fn push_to_debians_registry_survives_connections_that_break_off() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let cuts = Arc::new(AtomicUsize::new(0));
    let (target, count) = (debian.address.clone(), cuts.clone());
    let proxy = TcpServer::start(move |stream, _| cut(stream, target.clone(), count.clone()));
    let (_directory, images) = store();
    let digest = TestImage::new(&[noise(9 << 20, 1)]).write(&images);
    let registry = client(patient(&proxy.address()));
    let name = reference(&format!("{}/name:v1", proxy.address()));
    let pushed = registry.push(&name, &digest, &Push::from(&images)).await;
    pushed.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(cuts.load(Ordering::SeqCst), 1);
    let (_target_directory, target) = store();
    let direct = reference(&format!("{}/name:v1", debian.address));
    client(quick()).pull(&direct, &Pull::into(&target).with_platform(platform())).await.unwrap();
}

/// Forward a connection, and cut it once when five mebibytes have gone to the server.
async fn cut(mut stream: TcpStream, target: String, cuts: Arc<AtomicUsize>) {
    let mut server = TcpStream::connect(target).await.unwrap();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (stream.split(), server.split());
    let limit = if cuts.load(Ordering::SeqCst) == 0 { 5 << 20 } else { u64::MAX };
    let forward = async {
        let sent = copy(&mut (&mut from_client).take(limit), &mut to_server).await.unwrap_or(0);
        if sent == limit {
            cuts.fetch_add(1, Ordering::SeqCst);
        } else {
            let _ = to_server.shutdown().await;
        }
        sent < limit
    };
    let back = copy(&mut from_server, &mut to_client);
    tokio::pin!(back, forward);
    tokio::select! {
        _ = &mut back => {}
        is_whole = &mut forward => if is_whole { let _ = back.await; },
    }
}
