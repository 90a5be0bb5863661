//! Manifests in a registry: asking for them, and putting them there.

use bytes::Bytes;
use ferroplane_api::image::{Digest, Reference};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, StatusCode};

use super::exchange::{Ask, Repository, status_failure};
use super::http_client::Answer;
use super::{Error, Failure, Registry};
use crate::manifest::{Descriptor, Document, MAX_DOCUMENT_BYTES};
use crate::{Algorithm, Hasher, media_type};

const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// A manifest or an index, as it was sent.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) descriptor: Descriptor,
    pub(super) document: Document,
    pub(super) content: Vec<u8>,
}

impl Registry {
    /// What a reference leads to now, without fetching it.
    pub async fn resolve(&self, reference: &Reference) -> Result<Descriptor, Error> {
        self.in_time(self.resolve_now(reference)).await.map_err(Error::new("resolve image", reference))
    }

    async fn resolve_now(&self, reference: &Reference) -> Result<Descriptor, Failure> {
        let repository = self.pulling(reference).await?;
        let selector = reference.selector();
        let head = || self.head_manifest(&repository, &selector);
        match self.options().retries.run(head).await? {
            Some(descriptor) if reference.digest().is_none_or(|digest| *digest == descriptor.digest) => {
                Ok(descriptor)
            }
            // The head says too little, or something else than what was asked for: the content tells.
            _ => Ok(self.manifest(&repository, &selector).await?.descriptor),
        }
    }

    async fn head_manifest(
        &self,
        repository: &Repository,
        selector: &str,
    ) -> Result<Option<Descriptor>, Failure> {
        let answer = self.ask_for_manifest(repository, Method::HEAD, selector).await?;
        let digest = answer.header(DIGEST).and_then(|digest| digest.parse().ok());
        let known = digest.zip(content_type(&answer)).zip(answer.length());
        Ok(known.map(|((digest, media_type), size)| Descriptor::new(&media_type, digest, size)))
    }

    /// Fetch and verify a manifest.
    pub(super) async fn manifest(&self, repository: &Repository, selector: &str) -> Result<Fetched, Failure> {
        let fetch = || self.fetch_manifest(repository, selector);
        self.options().retries.run(fetch).await
    }

    async fn fetch_manifest(&self, repository: &Repository, selector: &str) -> Result<Fetched, Failure> {
        let answer = self.ask_for_manifest(repository, Method::GET, selector).await?;
        let host = answer.host.clone();
        let media_type = content_type(&answer)
            .ok_or(Failure::Protocol { host: host.clone(), what: "the media type of the manifest" })?;
        let announced: Option<Digest> = answer.header(DIGEST).and_then(|digest| digest.parse().ok());
        let content = answer.document("a manifest", MAX_DOCUMENT_BYTES).await?;
        // What was asked for counts most; what is announced must be true, too.
        let wanted: Option<Digest> = selector.parse().ok();
        for expected in wanted.iter().chain(&announced) {
            let actual = Hasher::digest_by(expected.algorithm(), &content);
            if actual != *expected {
                return Err(Failure::Mismatch { host, expected: expected.clone(), actual });
            }
        }
        let algorithm = wanted.as_ref().map_or(Algorithm::Sha256, Digest::algorithm);
        let digest = Hasher::digest_by(algorithm, &content);
        let descriptor = Descriptor::new(&media_type, digest, content.len() as u64);
        let document = Document::parse(&media_type, &content)?;
        Ok(Fetched { descriptor, document, content })
    }

    async fn ask_for_manifest(
        &self,
        repository: &Repository,
        method: Method,
        selector: &str,
    ) -> Result<Answer, Failure> {
        let uri = repository.uri(&format!("manifests/{selector}"))?;
        let mut ask = Ask::new(method, uri, "the request for a manifest");
        for media_type in media_type::MANIFESTS {
            ask = ask.with(ACCEPT, HeaderValue::from_static(media_type));
        }
        match self.ask(repository, &ask).await {
            Err(Failure::Status { status: StatusCode::NOT_FOUND, .. }) => {
                let has_credential = self.credential(repository).await?.is_some();
                let registry = repository.endpoint.registry.clone();
                let what = format!("`{}` in `{}`", selector, repository.name);
                Err(Failure::NotFound { registry, what, has_credential })
            }
            other => other,
        }
    }

    /// Put a manifest into a registry, under its digest or a tag.
    pub(super) async fn put_manifest(
        &self,
        repository: &Repository,
        selector: &str,
        descriptor: &Descriptor,
        content: &Bytes,
    ) -> Result<(), Failure> {
        let malformed = |_| Failure::Protocol {
            host: repository.endpoint.registry.clone(),
            what: "the media type of the manifest",
        };
        let media_type = HeaderValue::from_str(&descriptor.media_type).map_err(malformed)?;
        let uri = repository.uri(&format!("manifests/{selector}"))?;
        let mut ask = Ask::new(Method::PUT, uri, "a manifest").with(CONTENT_TYPE, media_type);
        ask.body = content.clone();
        let answer = self.options().retries.run(|| self.ask(repository, &ask)).await?;
        if answer.head.status != StatusCode::CREATED {
            return Err(status_failure("a manifest", answer).await);
        }
        let stored: Option<Digest> = answer.header(DIGEST).and_then(|digest| digest.parse().ok());
        match stored.filter(|stored| {
            stored.algorithm() == descriptor.digest.algorithm() && *stored != descriptor.digest
        }) {
            Some(actual) => {
                let (host, expected) = (answer.host, descriptor.digest.clone());
                Err(Failure::Mismatch { host, expected, actual })
            }
            None => Ok(()),
        }
    }
}

/// The media type, without its parameters.
fn content_type(answer: &Answer) -> Option<String> {
    let value = answer.header(CONTENT_TYPE)?;
    value.split(';').next().map(|media_type| media_type.trim().to_ascii_lowercase())
}
