//! Registries that lie, hang and never end: a clear error in bounded time and memory, and a store that stays sound.

use std::sync::atomic::{AtomicUsize, Ordering};

use ferroplane_image::media_type::{OCI_CONFIG, OCI_INDEX, OCI_LAYER};
use ferroplane_image::registry::{Options, Pull};
use ferroplane_image::{Descriptor, Digest, Hasher, Index, Manifest};

use super::hostile::{Asked, Hostile, Reply, manifest, proper};
use super::images::{TestImage, noise};
use super::{chain, client, platform, quick, reference, store};

/// Pull from a server that answers like this, and see what is complained about. Nothing may be left in the store that is not whole.
async fn complaint(reply: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> String {
    let server = Hostile::start(reply);
    let (_directory, store) = store();
    let options = Options { plain_http: vec![server.address.clone()], ..quick() };
    let name = reference(&format!("{}/name:v1", server.address));
    let pulled = client(options).pull(&name, &Pull::into(&store).with_platform(platform())).await;
    for algorithm in ["sha256", "sha512"] {
        for entry in std::fs::read_dir(store.directory().join("blobs").join(algorithm)).unwrap() {
            let hex = entry.unwrap().file_name().into_string().unwrap();
            store.read(&format!("{algorithm}:{hex}").parse().unwrap()).unwrap();
        }
    }
    chain(&pulled.unwrap_err())
}

/// A registry with a manifest of these layers and a configuration that says `{}`.
fn with_layers(layers: Vec<Descriptor>) -> impl Fn(&Asked) -> Reply {
    let content = Manifest::new(Descriptor::of("application/x-config", b"{}"), layers).to_bytes();
    move |asked| {
        if asked.path.contains("/manifests/") {
            return manifest(&content);
        }
        if asked.path.contains(Hasher::digest(b"{}").hex()) {
            return Reply::Answer(200, Vec::new(), b"{}".to_vec());
        }
        Reply::Endless(b"HTTP/1.1 200 X\r\n\r\n".to_vec())
    }
}

#[tokio::test]
async fn manifest_that_is_too_large_or_never_ends_is_refused() {
    let announced = complaint(|_| {
        let head = "HTTP/1.1 200 X\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\n";
        Reply::Hang(format!("{head}Content-Length: 99999999999\r\n\r\n").into_bytes())
    });
    assert!(
        announced
            .await
            .ends_with("cannot accept a manifest of 99999999999 bytes: at most 4194304 are allowed")
    );
    let endless = complaint(|_| {
        let head = "HTTP/1.1 200 X\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\n\r\n";
        Reply::Endless(head.as_bytes().to_vec())
    });
    let endless = endless.await;
    assert!(endless.contains("cannot accept a manifest of") && endless.contains("4194304"), "{endless}");
}

#[tokio::test]
async fn blob_that_never_ends_is_cut_at_its_size() {
    let layer = Descriptor::new(OCI_LAYER, Hasher::digest(b"x"), 100_000);
    let complaint = complaint(with_layers(vec![layer])).await;
    assert!(complaint.contains("a blob of more than 100000 bytes"), "{complaint}");
}

#[tokio::test]
async fn image_that_is_too_large_is_refused_before_it_is_fetched() {
    let layer = |size| Descriptor::new(OCI_LAYER, Hasher::digest(b"x"), size);
    for size in [9 << 30, u64::MAX] {
        let complaint = complaint(with_layers(vec![layer(size)])).await;
        assert!(complaint.contains("cannot accept an image of"), "{complaint}");
    }
    let single = complaint(with_layers(vec![layer(5 << 30)])).await;
    assert!(single.contains("at most 4294967296 are allowed"), "{single}");
    let config = Descriptor::new(OCI_CONFIG, Hasher::digest(b"x"), 5 << 20);
    let content = Manifest::new(config, Vec::new()).to_bytes();
    let config = complaint(move |_| manifest(&content)).await;
    assert!(config.contains("cannot accept a configuration of 5242880 bytes"), "{config}");
}

#[tokio::test]
async fn manifest_with_another_digest_is_refused() {
    let image = TestImage::new(&[]);
    let lie = Hasher::digest(b"something else").to_string();
    let announced = complaint(move |_| {
        let media_type = ferroplane_image::media_type::OCI_MANIFEST.to_owned();
        let headers = vec![("Content-Type", media_type), ("Docker-Content-Digest", lie.clone())];
        Reply::Answer(200, headers, image.manifest.clone())
    });
    let announced = announced.await;
    assert!(announced.contains("sends content with the digest"), "{announced}");
    let image = TestImage::new(&[]);
    let other = TestImage::new(&[noise(10, 1)]);
    let platform = Some("linux/amd64".parse().unwrap());
    let index = Index::new(vec![Descriptor { platform, ..image.descriptor() }]).to_bytes();
    let indexed = complaint(move |asked| {
        if asked.path.ends_with("/v1") {
            return Reply::Answer(200, vec![("Content-Type", OCI_INDEX.to_owned())], index.clone());
        }
        manifest(&other.manifest)
    });
    let indexed = indexed.await;
    assert!(indexed.contains("sends content with the digest"), "{indexed}");
}

#[tokio::test]
async fn blob_with_another_digest_is_refused() {
    let image = TestImage::new(&[noise(1000, 1)]);
    let layer = Hasher::digest(&noise(1000, 1));
    let complaint = complaint(move |asked| {
        if asked.path.contains(layer.hex()) {
            return Reply::Answer(200, Vec::new(), noise(1000, 2));
        }
        proper(&image, asked)
    });
    let complaint = complaint.await;
    assert!(complaint.contains("sends content with the digest"), "{complaint}");
}

#[tokio::test]
async fn answers_of_other_kinds_are_refused() {
    for (media_type, body, words) in [
        ("text/html", "<html>log in</html>", "cannot read the JSON of the manifest"),
        ("text/html", "{}", "cannot use media type `text/html`"),
        ("application/vnd.oci.image.manifest.v1+json", "{}", "cannot read the JSON of the manifest"),
        ("application/vnd.oci.image.manifest.v1+json", "", "cannot read the JSON of the manifest"),
        ("application/vnd.docker.distribution.manifest.v1+json", "{}", "cannot use media type"),
    ] {
        let complaint = complaint(move |_| {
            Reply::Answer(200, vec![("Content-Type", media_type.to_owned())], body.as_bytes().to_vec())
        });
        let complaint = complaint.await;
        assert!(complaint.contains(words), "{complaint}");
    }
    let none = complaint(|_| Reply::Answer(200, Vec::new(), b"{}".to_vec())).await;
    assert!(none.contains("the media type of the manifest"), "{none}");
    let foreign = Descriptor::of("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", b"x");
    let content = Manifest::new(Descriptor::of(OCI_CONFIG, b"{}"), vec![foreign]).to_bytes();
    let foreign = complaint(move |_| manifest(&content)).await;
    assert!(
        foreign.contains("cannot use media type `application/vnd.docker.image.rootfs.foreign"),
        "{foreign}"
    );
}

#[tokio::test]
async fn index_within_an_index_is_refused() {
    let inner = Index::new(Vec::new()).to_bytes();
    let platform = Some("linux/amd64".parse().unwrap());
    let entry = Descriptor { platform, ..Descriptor::of(ferroplane_image::media_type::OCI_MANIFEST, &inner) };
    let outer = Index::new(vec![entry]).to_bytes();
    let complaint = complaint(move |asked| {
        let content = if asked.path.ends_with("/v1") { &outer } else { &inner };
        Reply::Answer(200, vec![("Content-Type", OCI_INDEX.to_owned())], content.clone())
    });
    let complaint = complaint.await;
    assert!(complaint.contains("it is an index"), "{complaint}");
}

#[tokio::test]
async fn registry_that_hangs_is_given_up_on() {
    let silent = complaint(|_| Reply::Hang(Vec::new())).await;
    assert!(silent.contains("seconds to answer"), "{silent}");
    let head = b"HTTP/1.1 200 X\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\nContent-Length: 9\r\n\r\n";
    let stuck = complaint(move |_| Reply::Hang(head.to_vec())).await;
    assert!(stuck.contains("seconds to send more"), "{stuck}");
    let endless_head = complaint(|_| Reply::Endless(b"HTTP/1.1 200 X\r\nA: ".to_vec())).await;
    assert!(endless_head.contains("cannot finish the exchange"), "{endless_head}");
    let garbage = complaint(|_| Reply::Raw(b"SSH-2.0-OpenSSH\r\n".to_vec())).await;
    assert!(garbage.contains("cannot finish the exchange"), "{garbage}");
}

#[tokio::test]
async fn pull_that_takes_too_long_ends() {
    let server = Hostile::start(|_| Reply::Hang(Vec::new()));
    let mut options = Options { plain_http: vec![server.address.clone()], ..quick() };
    options.timeouts.total = std::time::Duration::from_millis(100);
    let (_directory, store) = store();
    let name = reference(&format!("{}/name:v1", server.address));
    let error = client(options).pull(&name, &Pull::into(&store)).await.unwrap_err();
    assert!(chain(&error).contains("altogether"), "{}", chain(&error));
}

#[tokio::test]
async fn question_whose_answer_drips_is_given_up_on() {
    let server = Hostile::start(|_| {
        let head = "HTTP/1.1 200 X\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\n\r\n";
        Reply::Drip(head.as_bytes().to_vec())
    });
    let mut options = Options { plain_http: vec![server.address.clone()], ..quick() };
    options.timeouts.question = std::time::Duration::from_millis(100);
    let (_directory, store) = store();
    let (registry, digest) = (client(options), Hasher::digest(b"x"));
    let tagged = reference(&format!("{}/name:v1", server.address));
    let image = reference(&format!("{}/name@{digest}", server.address));
    let errors = [
        registry.tags(&tagged).await.unwrap_err(),
        registry.resolve(&tagged).await.unwrap_err(),
        registry.signatures(&image, &store, true).await.unwrap_err(),
        registry.attestations(&image, &store, true).await.unwrap_err(),
    ];
    for error in errors {
        assert!(chain(&error).contains("altogether"), "{}", chain(&error));
        assert!(error.failure().is_transient(), "it may be better the next time: {}", chain(&error));
    }
}

#[tokio::test]
async fn words_of_a_registry_are_shown_without_what_could_harm() {
    let body =
        r#"{"errors":[{"code":"DENIED","message":"no\u001b[31m"#.to_owned() + &"x".repeat(2000) + r#""}]}"#;
    let complaint = complaint(move |_| Reply::Answer(400, Vec::new(), body.clone().into_bytes())).await;
    assert!(complaint.contains("status 400: no[31mxxx") && complaint.len() < 500, "{complaint}");
}

#[tokio::test]
async fn tag_that_moves_during_a_pull_gives_one_of_the_images() {
    let (first, second) = (TestImage::new(&[noise(100, 1)]), TestImage::new(&[noise(100, 2)]));
    let digests: [Digest; 2] = [first.digest(), second.digest()];
    let asked_for_manifest = AtomicUsize::new(0);
    let server = Hostile::start(move |asked| {
        if asked.path.ends_with("/v1") {
            let turn = asked_for_manifest.fetch_add(1, Ordering::SeqCst);
            return manifest(if turn == 0 { &first.manifest } else { &second.manifest });
        }
        match proper(&first, asked) {
            Reply::Answer(404, ..) => proper(&second, asked),
            found => found,
        }
    });
    let options = Options { plain_http: vec![server.address.clone()], ..quick() };
    let (_directory, store) = store();
    let name = reference(&format!("{}/name:v1", server.address));
    let pulled = client(options).pull(&name, &Pull::into(&store).with_platform(platform())).await.unwrap();
    assert!(digests.contains(&pulled.image.digest));
    assert_eq!(server.count("/manifests/"), 1);
}

#[tokio::test]
async fn list_of_tags_that_never_ends_is_refused() {
    let pages = Hostile::start(|_| {
        let tags: Vec<String> = (0..2000).map(|number| format!("\"t{number}\"")).collect();
        let body = format!(r#"{{"tags":[{}]}}"#, tags.join(","));
        Reply::Answer(
            200,
            vec![("Link", r#"</v2/name/tags/list?n=1>; rel="next""#.to_owned())],
            body.into_bytes(),
        )
    });
    let options = Options { plain_http: vec![pages.address.clone()], ..quick() };
    let name = reference(&format!("{}/name", pages.address));
    let error = client(options).tags(&name).await.unwrap_err();
    assert!(chain(&error).contains("a list of tags"), "{}", chain(&error));
    assert!(pages.count("tags") <= 100);
}
