//! Signatures beside images, in Debian's registry.

use std::collections::BTreeMap;

use ferroplane_image::media_type::OCI_CONFIG;
use ferroplane_image::registry::{ImageSignature, Push};
use ferroplane_image::store::Store;
use ferroplane_image::{Descriptor, Digest, ImageConfig, Manifest, Reference};
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
    let expected = [(b"one", "MQ=="), (b"two", "Mg==")].map(|(payload, signature)| ImageSignature {
        payload: payload.to_vec(),
        signature: signature.to_owned(),
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
