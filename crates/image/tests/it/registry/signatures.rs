//! Signatures beside images, in Debian's registry.

use std::collections::BTreeMap;

use ferroplane_image::media_type::{OCI_CONFIG, OCI_EMPTY, OCI_MANIFEST};
use ferroplane_image::registry::{ImageSignature, Push, SignedStatement};
use ferroplane_image::store::Store;
use ferroplane_image::{Descriptor, Digest, ImageConfig, Index, Manifest, Reference};
use ferroplane_testkit::{DebianRegistry, RegistrySetup};

use super::images::TestImage;
use super::{chain, client, quick, reference, store};

const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// An artifact with these statements, as cosign writes it.
fn signed(store: &Store, statements: &[(&[u8], &str)]) -> Digest {
    let config = ImageConfig::default().to_bytes();
    let layer = |(payload, signature): &(&[u8], &str)| {
        store.write(payload).unwrap();
        let annotations =
            BTreeMap::from([("dev.cosignproject.cosign/signature".to_owned(), (*signature).to_owned())]);
        Descriptor { annotations, ..Descriptor::of(PAYLOAD, payload) }
    };
    let layers = statements.iter().map(layer).collect();
    store.write(&config).unwrap();
    store.write(&Manifest::new(Descriptor::of(OCI_CONFIG, &config), layers).to_bytes()).unwrap()
}

/// An image in a registry. Returns its name by digest.
async fn push(debian: &DebianRegistry, images: &Store, statements: &[(&[u8], &str)]) -> Reference {
    let registry = client(quick());
    let image = TestImage::new(&[b"layer".to_vec()]).write(images);
    let address = &debian.address;
    let name = reference(&format!("{address}/acme/signed:v1"));
    registry.push(&name, &image, &Push::from(images)).await.unwrap();
    if !statements.is_empty() {
        let tag = image.to_string().replace(':', "-");
        let beside = reference(&format!("{address}/acme/signed:{tag}.sig"));
        registry.push(&beside, &signed(images, statements), &Push::from(images)).await.unwrap();
    }
    reference(&format!("{address}/acme/signed@{image}"))
}

#[tokio::test]
async fn signatures_are_found_beside_the_image_and_kept_for_when_the_registry_is_away() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let ((_images_directory, images), (_directory, store)) = (store(), store());
    let image = push(&debian, &images, &[(b"one", "MQ=="), (b"two", "Mg==")]).await;
    let expected = [(b"one", "MQ=="), (b"two", "Mg==")].map(|(payload, signature)| {
        let (payload, signature) = (payload.to_vec(), signature.to_owned());
        ImageSignature::Statement(SignedStatement { payload, signature, ..SignedStatement::default() })
    });
    let registry = client(quick());
    assert_eq!(registry.signatures(&image, &store, false).await.unwrap(), expected);
    drop(debian);
    assert_eq!(registry.signatures(&image, &store, false).await.unwrap(), expected);
    let error = registry.signatures(&image, &store, true).await.unwrap_err();
    assert!(chain(&error).contains("cannot read the signatures of"), "{}", chain(&error));
}

#[tokio::test]
async fn image_without_signatures_has_none() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let ((_images_directory, images), (_directory, store)) = (store(), store());
    let image = push(&debian, &images, &[]).await;
    assert_eq!(client(quick()).signatures(&image, &store, false).await.unwrap(), []);
}

#[tokio::test]
async fn statement_that_is_too_large_is_refused() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let ((_images_directory, images), (_directory, store)) = (store(), store());
    let large = vec![b' '; 200 << 10];
    let image = push(&debian, &images, &[(&large, "MQ==")]).await;
    let error = client(quick()).signatures(&image, &store, false).await.unwrap_err();
    assert!(chain(&error).contains("a signed statement of 204800 bytes"), "{}", chain(&error));
}

#[tokio::test]
async fn what_a_signature_without_a_key_needs_stands_beside_the_statement() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let ((_images_directory, images), (_directory, store)) = (store(), store());
    let image = push(&debian, &images, &[]).await;
    let config = ImageConfig::default().to_bytes();
    let annotations = [
        ("dev.cosignproject.cosign/signature", "MQ=="),
        ("dev.sigstore.cosign/certificate", "certificate"),
        ("dev.sigstore.cosign/chain", "chain"),
        ("dev.sigstore.cosign/bundle", "entry"),
    ];
    let annotations = annotations.map(|(name, value)| (name.to_owned(), value.to_owned()));
    images.write(b"one").unwrap();
    images.write(&config).unwrap();
    let layer = Descriptor { annotations: BTreeMap::from(annotations), ..Descriptor::of(PAYLOAD, b"one") };
    let artifact = Manifest::new(Descriptor::of(OCI_CONFIG, &config), vec![layer]).to_bytes();
    let artifact = images.write(&artifact).unwrap();
    let tag = image.digest().unwrap().to_string().replace(':', "-");
    let beside = reference(&format!("{}/acme/signed:{tag}.sig", debian.address));
    client(quick()).push(&beside, &artifact, &Push::from(&images)).await.unwrap();
    let expected = SignedStatement {
        payload: b"one".to_vec(),
        signature: "MQ==".to_owned(),
        certificate: Some("certificate".to_owned()),
        chain: Some("chain".to_owned()),
        log_entry: Some("entry".to_owned()),
    };
    let found = client(quick()).signatures(&image, &store, false).await.unwrap();
    assert_eq!(found, [ImageSignature::Statement(expected)]);
}

/// A manifest with one layer of this kind, in a list of referrers.
fn referrer(images: &Store, media_type: &str, content: &[u8]) -> Descriptor {
    images.write(b"{}").unwrap();
    images.write(content).unwrap();
    let layers = vec![Descriptor::of(media_type, content)];
    let artifact_type = Some(media_type.to_owned());
    let manifest = Manifest::new(Descriptor::of(OCI_EMPTY, b"{}"), layers);
    let manifest = Manifest { artifact_type: artifact_type.clone(), ..manifest }.to_bytes();
    images.write(&manifest).unwrap();
    Descriptor { artifact_type, ..Descriptor::of(OCI_MANIFEST, &manifest) }
}

#[tokio::test]
async fn bundles_that_refer_to_the_image_are_found_and_kept_for_when_the_registry_is_away() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let ((_images_directory, images), (_directory, store)) = (store(), store());
    let image = push(&debian, &images, &[(b"one", "MQ==")]).await;
    // Debian's registry keeps no list of referrers, so that clients keep one under a tag.
    let referrers = vec![
        referrer(&images, "application/vnd.dev.sigstore.bundle.v0.3+json", b"bundle"),
        referrer(&images, "application/spdx+json", b"bill of materials"),
    ];
    let list = images.write(&Index::new(referrers).to_bytes()).unwrap();
    let tag = image.digest().unwrap().to_string().replace(':', "-");
    let place = reference(&format!("{}/acme/signed:{tag}", debian.address));
    client(quick()).push(&place, &list, &Push::from(&images)).await.unwrap();
    let (payload, signature) = (b"one".to_vec(), "MQ==".to_owned());
    let statement = SignedStatement { payload, signature, ..SignedStatement::default() };
    let expected = [ImageSignature::Statement(statement), ImageSignature::Bundle(b"bundle".to_vec())];
    let registry = client(quick());
    assert_eq!(registry.signatures(&image, &store, false).await.unwrap(), expected);
    drop(debian);
    assert_eq!(registry.signatures(&image, &store, false).await.unwrap(), expected);
}

#[tokio::test]
async fn attestations_are_found_beside_the_image_and_kept_for_when_the_registry_is_away() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let ((_images_directory, images), (_directory, store)) = (store(), store());
    let image = push(&debian, &images, &[(b"one", "MQ==")]).await;
    let registry = client(quick());
    assert_eq!(registry.attestations(&image, &store, false).await.unwrap(), []);
    let envelope = "application/vnd.dsse.envelope.v1+json";
    let large = vec![b' '; (1 << 20) + 1];
    let layers = [
        (envelope, &b"first"[..]),
        ("text/plain", &b"text"[..]),
        (envelope, &large[..]),
        (envelope, &b"second"[..]),
    ];
    let layers = layers.map(|(media_type, content)| {
        images.write(content).unwrap();
        Descriptor::of(media_type, content)
    });
    let config = ImageConfig::default().to_bytes();
    images.write(&config).unwrap();
    let artifact = Manifest::new(Descriptor::of(OCI_CONFIG, &config), layers.to_vec()).to_bytes();
    let artifact = images.write(&artifact).unwrap();
    let tag = image.digest().unwrap().to_string().replace(':', "-");
    let beside = reference(&format!("{}/acme/signed:{tag}.att", debian.address));
    registry.push(&beside, &artifact, &Push::from(&images)).await.unwrap();
    let expected = [b"first".to_vec(), b"second".to_vec()].map(ImageSignature::Envelope);
    assert_eq!(registry.attestations(&image, &store, false).await.unwrap(), expected);
    drop(debian);
    assert_eq!(registry.attestations(&image, &store, false).await.unwrap(), expected);
    let error = registry.attestations(&image, &store, true).await.unwrap_err();
    assert!(chain(&error).contains("cannot read the attestations of"), "{}", chain(&error));
}
