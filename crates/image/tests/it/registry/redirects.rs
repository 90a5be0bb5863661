//! Where redirects lead, and what goes with them.

use ferroplane_image::auth::Credentials;
use ferroplane_image::registry::{Options, Pull};

use super::hostile::{Asked, Hostile, Reply, proper};
use super::images::{TestImage, noise};
use super::{chain, client, platform, quick, reference, store};

fn credentials(address: &str) -> Credentials {
    // u:p
    let secret = format!(r#"{{"auths":{{"{address}":{{"auth":"dTpw"}}}}}}"#);
    Credentials::anonymous().with_pull_secret(secret.as_bytes()).unwrap()
}

fn redirect(to: &str) -> Reply {
    Reply::Answer(307, vec![("Location", to.to_owned())], Vec::new())
}

async fn pull(server: &Hostile, plain_http: &[&str]) -> Result<(), String> {
    let plain_http = plain_http.iter().map(|address| (*address).to_owned()).collect();
    let options = Options { plain_http, credentials: credentials(&server.address), ..quick() };
    let (_directory, store) = store();
    let name = reference(&format!("{}/name:v1", server.address));
    let pulled = client(options).pull(&name, &Pull::into(&store).with_platform(platform())).await;
    pulled.map(|_| ()).map_err(|error| chain(&error))
}

/// Whether the request came with a credential.
fn is_authorized(asked: &Asked) -> bool {
    asked.header("authorization") == Some("Basic dTpw")
}

#[tokio::test]
async fn credential_does_not_follow_to_another_host() {
    let image = TestImage::new(&[noise(1000, 1)]);
    let elsewhere = Hostile::start(move |asked| proper(&image, asked));
    let image = TestImage::new(&[noise(1000, 1)]);
    let to = elsewhere.address.clone();
    let server = Hostile::start(move |asked| match (is_authorized(asked), asked.path.contains("/blobs/")) {
        (false, _) => Reply::Answer(401, vec![("WWW-Authenticate", "Basic realm=x".to_owned())], Vec::new()),
        (true, true) => redirect(&format!("http://{to}{}", asked.path)),
        (true, false) => proper(&image, asked),
    });
    pull(&server, &[&server.address, &elsewhere.address]).await.unwrap();
    assert!(!elsewhere.asked().is_empty());
    assert!(elsewhere.asked().iter().all(|asked| asked.header("authorization").is_none()));
}

#[tokio::test]
async fn other_host_that_asks_for_a_credential_gets_none() {
    let elsewhere = Hostile::start(|_| {
        Reply::Answer(401, vec![("WWW-Authenticate", "Basic realm=x".to_owned())], Vec::new())
    });
    let to = elsewhere.address.clone();
    let server = Hostile::start(move |asked| redirect(&format!("http://{to}{}", asked.path)));
    let error = pull(&server, &[&server.address, &elsewhere.address]).await.unwrap_err();
    assert!(error.contains("status 401"), "{error}");
    assert!(elsewhere.asked().iter().all(|asked| asked.header("authorization").is_none()));
}

#[tokio::test]
async fn redirect_that_goes_in_circles_ends() {
    let server = Hostile::start(|asked| redirect(&asked.path));
    let error = pull(&server, &[&server.address]).await.unwrap_err();
    assert!(error.contains("redirects more than 5 times"), "{error}");
    assert_eq!(server.asked().len(), 6);
}

#[tokio::test]
async fn redirect_to_what_is_not_allowed_is_refused() {
    for to in ["http://registry.example.org/x", "file:///etc/passwd", "http://u:p@127.0.0.1/"] {
        let server = Hostile::start(move |_| redirect(to));
        let error = pull(&server, &[&server.address]).await.unwrap_err();
        assert!(error.contains("redirects to"), "{to}: {error}");
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn registry_is_shown_the_name_of_the_client() {
    let usual = concat!("ferroplane/", env!("CARGO_PKG_VERSION"));
    for (given, shown) in [(None, usual), (Some("acme/1.0"), "acme/1.0")] {
        let image = TestImage::new(&[noise(1000, 1)]);
        let server = Hostile::start(move |asked| proper(&image, asked));
        let mut options = Options { plain_http: vec![server.address.clone()], ..quick() };
        if let Some(given) = given {
            options.user_agent = given.parse().unwrap();
        }
        let (_directory, store) = store();
        let name = reference(&format!("{}/name:v1", server.address));
        client(options).pull(&name, &Pull::into(&store).with_platform(platform())).await.unwrap();
        let asked = server.asked();
        let about = asked.iter().filter(|asked| asked.path.starts_with("/v2/name/"));
        let agents: Vec<_> = about.map(|asked| asked.header("user-agent")).collect();
        assert!(agents.len() >= 3 && agents.iter().all(|agent| *agent == Some(shown)), "{agents:?}");
    }
}
