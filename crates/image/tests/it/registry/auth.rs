//! Who we are: passwords, tokens, Docker's configuration, its helpers, pull secrets.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use ferroplane_image::auth::Credentials;
use ferroplane_image::registry::{Options, Push, Registry};
use ferroplane_testkit::{DebianRegistry, RegistrySetup};
use tempfile::TempDir;

use super::hostile::{Asked, Hostile, Reply};
use super::images::{TestImage, noise};
use super::token_server::TokenServer;
use super::{chain, client, quick, reference, store};

/// `alice` and `open sesame`.
const BASIC: &str = "YWxpY2U6b3BlbiBzZXNhbWU=";

fn with(credentials: Credentials) -> Registry {
    client(Options { credentials, ..quick() })
}

fn secret(address: &str, entry: &str) -> Credentials {
    let secret = format!(r#"{{"auths":{{"{address}":{entry}}}}}"#);
    Credentials::anonymous().with_pull_secret(secret.as_bytes()).unwrap()
}

/// Push an image, and look whether it is there.
async fn round_trip(registry: &Registry, name: &str) -> Result<(), String> {
    let (_directory, images) = store();
    let digest = TestImage::new(&[noise(1000, 1)]).write(&images);
    let name = reference(name);
    registry.push(&name, &digest, &Push::from(&images)).await.map_err(|error| chain(&error))?;
    let found = registry.resolve(&name).await.map_err(|error| chain(&error))?;
    assert_eq!(found.digest, digest);
    Ok(())
}

#[tokio::test]
async fn password_opens_the_registry_and_a_wrong_one_does_not() {
    let setup = RegistrySetup { has_passwords: true, ..RegistrySetup::default() };
    let Some(debian) = DebianRegistry::start(&setup) else { return };
    let name = format!("{}/name:v1", debian.address);
    let auth = format!(r#"{{"auth":"{BASIC}"}}"#);
    round_trip(&with(secret(&debian.address, &auth)), &name).await.unwrap();
    let wrong = r#"{"username":"alice","password":"hunter2"}"#;
    let error = round_trip(&with(secret(&debian.address, wrong)), &name).await.unwrap_err();
    assert!(error.contains("it does not accept the credential") && !error.contains("hunter2"), "{error}");
    let error = round_trip(&with(Credentials::anonymous()), &name).await.unwrap_err();
    assert!(error.contains("there is no credential for it; log in"), "{error}");
    let elsewhere = with(secret("registry.example.org", &auth));
    assert!(round_trip(&elsewhere, &name).await.unwrap_err().contains("there is no credential"));
}

#[tokio::test]
async fn token_is_fetched_with_the_password_and_used_until_it_expires() {
    let tokens =
        TokenServer::start(|asked| asked.header("authorization") == Some(format!("Basic {BASIC}").as_str()));
    let realm = tokens.realm();
    let setup = RegistrySetup { tokens: Some((&realm, &tokens.pki)), ..RegistrySetup::default() };
    let Some(debian) = DebianRegistry::start(&setup) else { return };
    let name = format!("{}/org/name:v1", debian.address);
    let registry = with(secret(&debian.address, &format!(r#"{{"auth":"{BASIC}"}}"#)));
    round_trip(&registry, &name).await.unwrap();
    // One to push, one to pull.
    assert_eq!(tokens.server.asked().len(), 2);
    registry.resolve(&reference(&name)).await.unwrap();
    assert_eq!(tokens.server.asked().len(), 2);
    let asked = &tokens.server.asked()[0];
    assert!(asked.path.contains("scope=repository%3Aorg%2Fname%3Apull%2Cpush"), "{}", asked.path);
    assert!(!asked.path.contains("sesame"));
    let error = round_trip(&with(Credentials::anonymous()), &name).await.unwrap_err();
    assert!(error.contains("there is no credential"), "{error}");
}

#[tokio::test]
async fn token_that_expired_is_replaced() {
    let tokens = TokenServer::start(|_| true);
    *tokens.validity.lock().unwrap() = 1;
    let realm = tokens.realm();
    let setup = RegistrySetup { tokens: Some((&realm, &tokens.pki)), ..RegistrySetup::default() };
    let Some(debian) = DebianRegistry::start(&setup) else { return };
    let name = format!("{}/name:v1", debian.address);
    let registry = with(Credentials::anonymous());
    round_trip(&registry, &name).await.unwrap();
    let before = tokens.server.asked().len();
    // Until its time is over; nothing else can be waited for.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    registry.resolve(&reference(&name)).await.unwrap();
    assert_eq!(tokens.server.asked().len(), before + 1);
}

#[tokio::test]
async fn identity_token_is_exchanged_in_a_form() {
    let tokens = TokenServer::start(|asked| {
        asked.method == "POST"
            && asked.body.contains("grant_type=refresh_token")
            && asked.body.contains("refresh_token=its-me")
            && asked.header("authorization").is_none()
    });
    let realm = tokens.realm();
    let setup = RegistrySetup { tokens: Some((&realm, &tokens.pki)), ..RegistrySetup::default() };
    let Some(debian) = DebianRegistry::start(&setup) else { return };
    let name = format!("{}/name:v1", debian.address);
    let registry = with(secret(&debian.address, r#"{"identitytoken":"its-me"}"#));
    round_trip(&registry, &name).await.unwrap();
}

#[tokio::test]
async fn token_server_that_is_not_safe_or_sound_is_refused() {
    for (realm, words) in [
        ("http://registry.example.org/token", "it is not reached over HTTPS"),
        ("http://169.254.169.254/latest", "it is not reached over HTTPS"),
        ("file:///etc/passwd", "cannot use the token server"),
        ("nonsense", "cannot use the token server"),
        ("http://u:p@127.0.0.1/", "names no address"),
    ] {
        let challenge = format!("Bearer realm=\"{realm}\",service=\"x\"");
        let server = Hostile::start(move |_| {
            Reply::Answer(401, vec![("WWW-Authenticate", challenge.clone())], Vec::new())
        });
        let error = against(&server).await;
        assert!(error.contains(words), "{realm}: {error}");
    }
    for (answer, words) in [
        ("{}", "it sends no token"),
        ("<html>", "it sends no token"),
        (r#"{"token":"a\nb"}"#, "cannot parse the credential"),
    ] {
        let server = Hostile::start(move |asked| {
            if asked.path.starts_with("/token") {
                return Reply::Answer(200, Vec::new(), answer.as_bytes().to_vec());
            }
            asks_for_token(asked)
        });
        let error = against(&server).await;
        assert!(error.contains(words), "{answer}: {error}");
    }
    let endless = Hostile::start(|asked| {
        if asked.path.starts_with("/token") {
            return Reply::Endless(b"HTTP/1.1 200 X\r\n\r\n".to_vec());
        }
        asks_for_token(asked)
    });
    let error = against(&endless).await;
    assert!(error.contains("the answer of the token server of"), "{error}");
}

/// A registry that is its own token server.
fn asks_for_token(asked: &Asked) -> Reply {
    let challenge = format!("Bearer realm=\"http://{}/token\"", asked.header("host").unwrap());
    Reply::Answer(401, vec![("WWW-Authenticate", challenge)], Vec::new())
}

/// What is complained about when a credential is there for a registry that wants one.
async fn against(server: &Hostile) -> String {
    let credentials = secret(&server.address, r#"{"auth":"dTpw"}"#);
    let options = Options { credentials, plain_http: vec![server.address.clone()], ..quick() };
    let name = reference(&format!("{}/name:v1", server.address));
    chain(&client(options).resolve(&name).await.unwrap_err())
}

#[tokio::test]
async fn registry_that_is_never_satisfied_is_asked_twice() {
    let server = Hostile::start(|_| {
        Reply::Answer(401, vec![("WWW-Authenticate", "Basic realm=x".to_owned())], Vec::new())
    });
    let error = against(&server).await;
    assert!(error.contains("it does not accept the credential"), "{error}");
    assert_eq!(server.asked().len(), 2);
}

/// A directory with Docker's configuration and a helper `docker-credential-test` that runs this script.
fn helper(address: &str, script: &str) -> (TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("docker-credential-test");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let config = directory.path().join("config.json");
    fs::write(&config, format!(r#"{{"credHelpers":{{"{address}":"test"}}}}"#)).unwrap();
    (directory, config)
}

/// Helpers are looked for on the path, which belongs to all tests: it is read and changed in a process of its own.
fn ask_helper(directory: &Path, config: &Path, address: &str) -> String {
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "registry::auth::child_asks_helper", "--nocapture"])
        .env("PATH", path)
        .env("FERROPLANE_TEST_CONFIG", config)
        .env("FERROPLANE_TEST_REGISTRY", address)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Does nothing unless another test starts it.
#[tokio::test]
async fn child_asks_helper() {
    let Ok(registry) = std::env::var("FERROPLANE_TEST_REGISTRY") else { return };
    let config = std::env::var("FERROPLANE_TEST_CONFIG").unwrap();
    let credentials = Credentials::anonymous().with_file(config).with_helper_timeout(Duration::from_secs(2));
    let begin = Instant::now();
    let found = credentials.find(&registry, "name").await;
    eprintln!("after {}: {found:?}", begin.elapsed().as_secs() > 20);
    match found {
        Ok(Some(ferroplane_image::auth::Credential::Basic { username, password })) => {
            eprintln!("found {username}/{password}");
        }
        Ok(other) => eprintln!("found {other:?}"),
        Err(error) => eprintln!("failed: {}", chain(&error)),
    }
}

#[test]
fn helper_is_asked_for_the_registry_on_its_standard_input() {
    let script =
        r#"read server; printf '{"ServerURL":"%s","Username":"%s","Secret":"%s"}' "$server" "$1" "$server""#;
    let (directory, config) = helper("registry.example.org", script);
    let said = ask_helper(directory.path(), &config, "registry.example.org");
    assert!(said.contains("found get/registry.example.org"), "{said}");
    let said = ask_helper(directory.path(), &config, "other.example.org");
    assert!(said.contains("found None"), "{said}");
}

#[test]
fn helper_that_misbehaves_is_ended_and_its_words_are_not_repeated() {
    for (script, words) in [
        ("sleep 600 & sleep 600", "did not answer within 2 seconds and was ended"),
        ("yes hunter2", "printed more than 64 KiB and was ended"),
        ("echo hunter2; exit 3", "failed: exit status: 3"),
        ("echo hunter2", "printed no credential"),
        ("echo credentials not found in native keychain; exit 1", "found None"),
        (r#"echo '{"Username":"<token>","Secret":"hunter2"}'"#, "found Some(Identity)"),
    ] {
        let (directory, config) = helper("registry.example.org", script);
        let said = ask_helper(directory.path(), &config, "registry.example.org");
        assert!(said.contains(words) && !said.contains("hunter2"), "{script}: {said}");
    }
}

#[test]
fn helper_that_is_missing_or_no_name_is_named() {
    let (directory, config) = helper("registry.example.org", "");
    for (name, words) in [
        ("missing", "cannot run docker-credential-missing; install it"),
        ("../../bin/sh", "is not the name of a credential helper"),
    ] {
        fs::write(&config, format!(r#"{{"credsStore":"{name}"}}"#)).unwrap();
        let said = ask_helper(directory.path(), &config, "registry.example.org");
        assert!(said.contains(words), "{said}");
    }
}
