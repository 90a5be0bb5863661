//! Pulling from Debian's registry: plain, with TLS, whole, in part, again.

use std::fs;
use std::sync::{Arc, Mutex};

use ferroplane_image::registry::{Options, Pull, PullPolicy, Push};
use ferroplane_testkit::{DebianRegistry, Pki, RegistrySetup, program};

use super::images::{TestImage, index, noise};
use super::programs::run;
use super::{chain, client, platform, quick, reference, store};

#[tokio::test]
async fn image_that_was_pushed_is_pulled_with_all_its_content() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let (_source_directory, source) = store();
    let image = TestImage::new(&[noise(100_000, 1), noise(9_000_000, 2), noise(100_000, 1), Vec::new()]);
    let digest = image.write(&source);
    let name = reference(&format!("{}/org/name:v1", debian.address));
    let registry = client(Options::default());
    let pushed = registry.push(&name, &digest, &Push::from(&source)).await.unwrap();
    assert_eq!(pushed, image.descriptor());
    assert_eq!(registry.resolve(&name).await.unwrap(), image.descriptor());
    assert_eq!(registry.tags(&name).await.unwrap(), ["v1"]);

    let (_target_directory, target) = store();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let reports = seen.clone();
    let pull = Pull::into(&target)
        .with_platform(platform())
        .with_progress(move |progress| reports.lock().unwrap().push(progress));
    // In a task of its own: what is pulled in the background must be able to change threads.
    let (client, from) = (registry.clone(), name.clone());
    let pulled = tokio::spawn(async move { client.pull(&from, &pull).await }).await.unwrap().unwrap();
    assert_eq!(pulled.image.digest, digest);
    for (descriptor, _) in pulled.image.layers() {
        let content = target.read_to_vec(&descriptor.digest, 10 << 20).unwrap();
        assert!(image.layers.contains(&content));
    }
    let seen = seen.lock().unwrap();
    assert!(seen.iter().any(|progress| progress.size == 9_000_000 && progress.received == 9_000_000));
    assert!(seen.iter().any(|progress| progress.size == 9_000_000 && progress.received < 9_000_000));
}

#[tokio::test]
async fn image_that_is_there_is_used_without_its_registry() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let (_directory, images) = store();
    let digest = TestImage::new(&[noise(1000, 1)]).write(&images);
    let name = reference(&format!("{}/name:v1", debian.address));
    let registry = client(quick());
    registry.push(&name, &digest, &Push::from(&images)).await.unwrap();
    let (_target_directory, target) = store();
    let pull = |policy| Pull::into(&target).with_platform(platform()).with_policy(policy);
    let error = registry.pull(&name, &pull(PullPolicy::Never)).await.unwrap_err();
    assert!(chain(&error).ends_with("the pull policy is Never"), "{}", chain(&error));
    registry.pull(&name, &pull(PullPolicy::IfNotPresent)).await.unwrap();
    drop(debian);
    for policy in [PullPolicy::IfNotPresent, PullPolicy::Never] {
        let pulled = client(quick()).pull(&name, &pull(policy)).await.unwrap();
        assert_eq!(pulled.image.digest, digest);
    }
    let error = client(quick()).pull(&name, &pull(PullPolicy::Always)).await.unwrap_err();
    assert!(chain(&error).contains("cannot connect to"), "{}", chain(&error));
}

#[tokio::test]
async fn image_is_chosen_from_an_index_by_platform() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let (_directory, images) = store();
    let digest = index(&images, &["amd64", "arm64"]);
    let name = reference(&format!("{}/name:v1", debian.address));
    let registry = client(quick());
    registry.push(&name, &digest, &Push::from(&images)).await.unwrap();
    let (_target_directory, target) = store();
    let pull = |platform: &str| Pull::into(&target).with_platform(platform.parse().unwrap());
    for architecture in ["amd64", "arm64", "amd64"] {
        let pulled = registry.pull(&name, &pull(&format!("linux/{architecture}"))).await.unwrap();
        assert_eq!(pulled.image.config.architecture, architecture);
    }
    let error = registry.pull(&name, &pull("linux/s390x")).await.unwrap_err();
    assert!(
        chain(&error).ends_with("the index has images for linux/amd64, linux/arm64"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn damaged_content_is_fetched_again() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let (_directory, images) = store();
    let image = TestImage::new(&[noise(50_000, 1)]);
    let digest = image.write(&images);
    let name = reference(&format!("{}/name:v1", debian.address));
    let registry = client(quick());
    registry.push(&name, &digest, &Push::from(&images)).await.unwrap();
    let (_target_directory, target) = store();
    let pull = Pull::into(&target).with_platform(platform()).with_policy(PullPolicy::Always);
    let layer = registry.pull(&name, &pull).await.unwrap().image.manifest.layers[0].digest.clone();
    let path = target.directory().join("blobs/sha256").join(layer.hex());
    fs::remove_file(&path).unwrap();
    fs::write(&path, noise(50_000, 2)).unwrap();
    registry.pull(&name, &pull).await.unwrap();
    assert_eq!(target.read_to_vec(&layer, 1 << 20).unwrap(), noise(50_000, 1));
}

#[tokio::test]
async fn content_that_the_registry_has_lost_or_changed_is_not_accepted() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let (_directory, images) = store();
    let image = TestImage::new(&[noise(50_000, 1)]);
    let digest = image.write(&images);
    let name = reference(&format!("{}/name:v1", debian.address));
    let registry = client(quick());
    registry.push(&name, &digest, &Push::from(&images)).await.unwrap();
    let layer = ferroplane_image::Hasher::digest(&noise(50_000, 1));
    let file = debian.blob_path(layer.hex());
    for (damage, words) in [
        (Some(noise(50_000, 2)), "sends content with the digest"),
        (Some(noise(50_001, 2)), "bytes instead of 50000"),
        (None, "has no sha256:"),
    ] {
        match damage {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let (_target_directory, target) = store();
        let error = registry.pull(&name, &Pull::into(&target).with_platform(platform())).await.unwrap_err();
        assert!(chain(&error).contains(words), "{}", chain(&error));
        assert!(!target.contains(&layer) && !target.contains(&digest));
    }
}

#[tokio::test]
async fn registry_with_a_private_authority_is_trusted_only_if_that_is_given() {
    let pki = Pki::new();
    let leaf = pki.issue(&["127.0.0.1", "localhost"]);
    let Some(debian) = DebianRegistry::start(&RegistrySetup { tls: Some(&leaf), ..RegistrySetup::default() })
    else {
        return;
    };
    let (_directory, images) = store();
    let digest = TestImage::new(&[noise(1000, 1)]).write(&images);
    let name = reference(&format!("{}/name:v1", debian.address));
    let trusting = client(Options { authorities: pki.ca().into_bytes(), ..quick() });
    trusting.push(&name, &digest, &Push::from(&images)).await.unwrap();
    assert_eq!(trusting.resolve(&name).await.unwrap().digest, digest);
    for authorities in [String::new(), Pki::new().ca()] {
        let other = client(Options { authorities: authorities.into_bytes(), ..quick() });
        let error = chain(&other.resolve(&name).await.unwrap_err());
        assert!(error.contains("cannot establish TLS") && error.contains("certificate"), "{error}");
    }
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let Some(debian) = DebianRegistry::start(&RegistrySetup::default()) else { return };
    let (_directory, target) = store();
    let name = reference(&format!("{}/org/name:v9", debian.address));
    let error = client(quick()).pull(&name, &Pull::into(&target)).await.unwrap_err();
    let expected = format!(
        "cannot pull image `{name}`: {} has no `v9` in `org/name`, or hides it from unauthenticated clients",
        debian.address
    );
    assert_eq!(chain(&error), expected);
}

#[tokio::test]
async fn image_that_skopeo_pushed_is_pulled_and_the_other_way_round() {
    let (Some(debian), Some(skopeo)) = (DebianRegistry::start(&RegistrySetup::default()), program("skopeo"))
    else {
        return;
    };
    let (_directory, images) = store();
    let digest = index(&images, &["amd64", "arm64"]);
    let name = reference(&format!("{}/ours:v1", debian.address));
    let registry = client(quick());
    registry.push(&name, &digest, &Push::from(&images)).await.unwrap();
    let ours = format!("docker://{name}");
    let theirs = format!("docker://{}/theirs:v1", debian.address);
    let copy = [
        "copy",
        "--all",
        "--preserve-digests",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        &ours,
        &theirs,
    ];
    run(&skopeo, &copy);
    let inspected = run(&skopeo, &["inspect", "--raw", "--tls-verify=false", &theirs]);
    assert_eq!(ferroplane_image::Hasher::digest(inspected.as_bytes()), digest);
    let (_target_directory, target) = store();
    let name = reference(&format!("{}/theirs:v1", debian.address));
    let pulled = registry.pull(&name, &Pull::into(&target).with_platform(platform())).await.unwrap();
    assert_eq!(pulled.image.config.architecture, "amd64");
    // Docker's own format.
    let docker = format!("docker://{}/docker:v1", debian.address);
    let convert = [
        "copy",
        "--format=v2s2",
        "--override-arch=amd64",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        &ours,
        &docker,
    ];
    run(&skopeo, &convert);
    let name = reference(&format!("{}/docker:v1", debian.address));
    let pulled = registry.pull(&name, &Pull::into(&target).with_platform(platform())).await.unwrap();
    assert_eq!(
        pulled.image.manifest.media_type.as_deref(),
        Some(ferroplane_image::media_type::DOCKER_MANIFEST)
    );
}
