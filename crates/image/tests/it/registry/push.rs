//! Pushing to Debian's registry.

use ferroplane_image::registry::{Pull, Push};
use ferroplane_testkit::{DebianRegistry, RegistrySetup};

use super::images::{TestImage, noise};
use super::{chain, client, platform, quick, reference, store};

#[tokio::test]
async fn content_is_mounted_from_another_repository() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let (_directory, images) = store();
    let digest = TestImage::new(&[noise(200_000, 1)]).write(&images);
    let registry = client(quick());
    let first = reference(&format!("{}/first:v1", debian.address));
    registry.push(&first, &digest, &Push::from(&images)).await.unwrap();
    debian.log();
    let second = reference(&format!("{}/second:v1", debian.address));
    registry.push(&second, &digest, &Push::from(&images).mounting_from("first")).await.unwrap();
    let (_target_directory, target) = store();
    registry.pull(&second, &Pull::into(&target).with_platform(platform())).await.unwrap();
    let uploads = debian.log().iter().filter(|line| line.contains("method=PATCH")).count();
    assert_eq!(uploads, 0);
}

#[tokio::test]
async fn image_that_is_not_whole_is_not_pushed() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let (_directory, images) = store();
    let image = TestImage::new(&[noise(1000, 1)]);
    let digest = images.write(&image.manifest).unwrap();
    let name = reference(&format!("{}/name:v1", debian.address));
    let error = client(quick()).push(&name, &digest, &Push::from(&images)).await.unwrap_err();
    assert!(chain(&error).contains("is not in the content store"), "{}", chain(&error));
    assert!(client(quick()).resolve(&name).await.is_err());
}

#[tokio::test]
async fn image_is_not_pushed_under_the_digest_of_another() {
    let (_directory, images) = store();
    let digest = TestImage::new(&[]).write(&images);
    let other = ferroplane_image::Hasher::digest(b"other");
    let name = reference(&format!("registry.example.org/name@{other}"));
    let error = client(quick()).push(&name, &digest, &Push::from(&images)).await.unwrap_err();
    assert!(chain(&error).contains(&other.to_string()), "{}", chain(&error));
}
