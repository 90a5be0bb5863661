//! Registries that fail for a while: what is tried again, how, and for how long.

use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_image::registry::{Options, Pull, Pulled, Registry};
use ferroplane_image::store::Store;
use ferroplane_image::{Descriptor, Hasher};

use super::hostile::{Asked, Hostile, Reply, proper, status};
use super::images::{TestImage, noise};
use super::{chain, client, platform, quick, reference, store};

fn plain(server: &Hostile) -> Registry {
    client(Options { plain_http: vec![server.address.clone()], ..quick() })
}

async fn pull(server: &Hostile, store: &Store) -> Result<Pulled, String> {
    let name = reference(&format!("{}/name:v1", server.address));
    let pulled = plain(server).pull(&name, &Pull::into(store).with_platform(platform())).await;
    pulled.map_err(|error| chain(&error))
}

/// Where a part starts that is asked for.
fn start(asked: &Asked) -> usize {
    let range = asked.header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
    range.map_or(0, |start| start.parse().unwrap())
}

#[tokio::test]
async fn request_that_fails_for_a_while_is_repeated() {
    for code in [429, 500, 502, 503, 504] {
        let (image, turns) = (TestImage::new(&[noise(100, 1)]), AtomicUsize::new(0));
        let server = Hostile::start(move |asked| match turns.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => status(code),
            _ => proper(&image, asked),
        });
        let (_directory, store) = store();
        pull(&server, &store).await.unwrap();
        assert_eq!(server.count("/manifests/"), 3, "{code}");
    }
}

#[tokio::test]
async fn request_that_always_fails_is_given_up_on() {
    let server = Hostile::start(|_| status(503));
    let (_directory, store) = store();
    let error = pull(&server, &store).await.unwrap_err();
    assert!(error.contains("answers the request for a manifest with status 503"), "{error}");
    assert_eq!(server.asked().len(), 3);
    let refused = Hostile::start(|_| status(418));
    pull(&refused, &store).await.unwrap_err();
    assert_eq!(refused.asked().len(), 1);
}

#[tokio::test]
async fn registry_is_given_the_time_that_it_asks_for_if_that_is_not_too_long() {
    let (image, turns) = (TestImage::new(&[noise(100, 1)]), AtomicUsize::new(0));
    let server = Hostile::start(move |asked| match turns.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Answer(429, vec![("Retry-After", "1".to_owned())], Vec::new()),
        _ => proper(&image, asked),
    });
    let (_directory, images) = store();
    let begin = std::time::Instant::now();
    pull(&server, &images).await.unwrap();
    assert!(begin.elapsed() >= std::time::Duration::from_secs(1));
    let greedy =
        Hostile::start(|_| Reply::Answer(429, vec![("Retry-After", "86400".to_owned())], Vec::new()));
    let error = pull(&greedy, &images).await.unwrap_err();
    assert!(error.contains("asks to wait for 86400 seconds"), "{error}");
    assert_eq!(greedy.asked().len(), 1);
}

#[tokio::test]
async fn interrupted_blob_goes_on_where_it_stopped() {
    let image = TestImage::new(&[noise(3_000_000, 1)]);
    let layer = Hasher::digest(&image.layers[0]);
    let hex = layer.hex().to_owned();
    let server = Hostile::start(move |asked| {
        if !asked.path.contains(&hex) {
            return proper(&image, asked);
        }
        let (start, content) = (start(asked), &image.layers[0]);
        let end = content.len().min(start + 1_100_000);
        let (code, range) = if start == 0 {
            (200, String::new())
        } else {
            (206, format!("Content-Range: bytes {start}-{}/{}\r\n", content.len() - 1, content.len()))
        };
        let head = format!("HTTP/1.1 {code} X\r\nContent-Length: {}\r\n{range}\r\n", content.len() - start);
        // The rest is announced and does not come.
        Reply::Raw([head.as_bytes(), &content[start..end]].concat())
    });
    let (_directory, store) = store();
    pull(&server, &store).await.unwrap();
    assert_eq!(store.read_to_vec(&layer, 1 << 30).unwrap(), noise(3_000_000, 1));
    let starts: Vec<usize> =
        server.asked().iter().filter(|asked| asked.path.contains(layer.hex())).map(start).collect();
    assert!(starts.len() >= 3 && starts.is_sorted() && starts[1] > 0, "{starts:?}");
}

#[tokio::test]
async fn blob_is_fetched_from_the_start_where_parts_are_not_known_or_wrong() {
    for wrong in [None, Some("bytes 5-99999/100000"), Some("nonsense")] {
        let (image, turns) = (TestImage::new(&[noise(100_000, 1)]), AtomicUsize::new(0));
        let layer = Hasher::digest(&image.layers[0]);
        let hex = layer.hex().to_owned();
        let server = Hostile::start(move |asked| {
            if !asked.path.contains(&hex) {
                return proper(&image, asked);
            }
            let content = &image.layers[0];
            match (turns.fetch_add(1, Ordering::SeqCst), wrong) {
                (0, _) => Reply::Raw(
                    [&b"HTTP/1.1 200 X\r\nContent-Length: 100000\r\n\r\n"[..], &content[..50_000]].concat(),
                ),
                (1, Some(range)) => {
                    Reply::Answer(206, vec![("Content-Range", range.to_owned())], content[50_000..].to_vec())
                }
                _ => Reply::Answer(200, Vec::new(), content.clone()),
            }
        });
        let (_directory, store) = store();
        let pulled = pull(&server, &store).await;
        match wrong {
            None => {
                pulled.unwrap();
                assert_eq!(store.read_to_vec(&layer, 1 << 30).unwrap(), noise(100_000, 1));
            }
            Some(range) => {
                let error = pulled.unwrap_err();
                assert!(error.contains("cannot parse the range"), "{range}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn rest_of_an_earlier_pull_is_used_if_it_is_right_and_dropped_if_not() {
    let image = TestImage::new(&[noise(100_000, 1)]);
    let layer = Descriptor::of(ferroplane_image::media_type::OCI_LAYER, &image.layers[0]);
    for (rest, expected) in [(noise(40_000, 1), 1), (noise(40_000, 2), 2)] {
        let (_directory, store) = store();
        let mut writer = store.resume(&layer).unwrap();
        writer.append(&rest).unwrap();
        drop(writer);
        let image = TestImage::new(&[noise(100_000, 1)]);
        let hex = layer.digest.hex().to_owned();
        let server = Hostile::start(move |asked| match (asked.path.contains(&hex), start(asked)) {
            (true, start) if start > 0 => Reply::Answer(
                206,
                vec![("Content-Range", format!("bytes {start}-99999/100000"))],
                image.layers[0][start..].to_vec(),
            ),
            _ => proper(&image, asked),
        });
        pull(&server, &store).await.unwrap();
        assert_eq!(store.read_to_vec(&layer.digest, 1 << 30).unwrap(), noise(100_000, 1));
        assert_eq!(server.count(layer.digest.hex()), expected);
    }
}

#[tokio::test]
async fn connection_that_was_closed_meanwhile_is_replaced() {
    let image = TestImage::new(&[noise(100, 1)]);
    let server = Hostile::start(move |asked| match proper(&image, asked) {
        // It says nothing of closing the connection, and closes it.
        Reply::Answer(code, headers, body) => {
            let headers: Vec<String> =
                headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head =
                format!("HTTP/1.1 {code} X\r\nContent-Length: {}\r\n{}\r\n", body.len(), headers.concat());
            Reply::Raw([head.as_bytes(), &body].concat())
        }
        other => other,
    });
    let (_directory, store) = store();
    pull(&server, &store).await.unwrap();
}
