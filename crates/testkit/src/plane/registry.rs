//! A registry that has what it is told, and is down when it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard};

use ferroplane_api::PackageKind;
use ferroplane_controllers::{
    DeploymentRuntime, ESTABLISHERS, ImageProgram, ImageRequest, LoadedPackage, PackageManager,
    PackageSource, PackagedFunctions, PackagedProviders, SourceAnswer, SourceError,
};
use ferroplane_engine::packages::ResolveOptions;
use ferroplane_package::read_package;
use ferroplane_package::signature::ImageSignature;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// The namespace in which pull secrets are.
pub const NAMESPACE: &str = "crossplane-system";

/// A registry. Clones share what is in it.
#[derive(Debug, Clone, Default)]
pub struct FakeRegistry(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "tests turn each on by itself")]
struct Contents {
    /// The digests of images, by repository and tag.
    tags: BTreeMap<String, BTreeMap<String, String>>,
    /// `package.yaml`, by digest.
    packages: BTreeMap<String, String>,
    /// The digests of images whose program is WebAssembly.
    webassembly: BTreeSet<String>,
    /// The signatures of images, by digest.
    signatures: BTreeMap<String, Vec<ImageSignature>>,
    /// Whether signatures are kept by those who ask, as in a content store: they are not asked for again, unless somebody wants them anew.
    keeps_signatures: bool,
    /// Why nobody answers, if so.
    down: Option<String>,
    /// What is not answered for now.
    held: watch::Sender<Option<&'static str>>,
    dependencies: ResolveOptions,
    /// Whether the definitions of providers are installed as they are.
    keeps_definitions: bool,
    /// Whether providers are protected while resources of their kinds exist.
    protects_providers: bool,
    /// What was asked.
    asked: Vec<String>,
    /// What was fetched once is there, as in a content store.
    fetched: BTreeSet<String>,
    /// The pull secrets of the last request.
    secrets: Vec<Vec<u8>>,
    /// The pull secret without which nobody is answered, if there is one.
    required_secret: Option<Vec<u8>>,
    /// Where functions are listed that somebody runs.
    functions: Option<Arc<PackagedFunctions>>,
    /// Where providers are listed that somebody runs.
    providers: Option<Arc<PackagedProviders>>,
    /// How programs run in pods, if they do.
    deployments: Option<DeploymentRuntime>,
    /// Whether `DeploymentRuntimeConfig`s have no effect.
    ignores_configs: bool,
    /// The image with the adapter of programs that are not servers, if they are run.
    adapter_image: Option<String>,
}

impl Contents {
    /// Those of the signatures of an image that are of a kind.
    fn signatures_of(&self, image: &str, is_wanted: impl Fn(&ImageSignature) -> bool) -> Vec<ImageSignature> {
        let found = self.signatures.get(&digest_of(image)).into_iter().flatten();
        found.filter(|signature| is_wanted(signature)).cloned().collect()
    }
}

/// Whether something stands where attestations do.
fn is_envelope(found: &ImageSignature) -> bool {
    matches!(found, ImageSignature::Envelope(_))
}

impl FakeRegistry {
    /// Have an image in it, such as `registry.example.org/org/name:v1.0.0`, with this `package.yaml`. Returns its digest.
    pub fn push(&self, image: &str, package: &str) -> String {
        let (repository, tag) = image.rsplit_once(':').unwrap();
        let digest = format!("sha256:{}", digest(package));
        let mut contents = self.lock();
        contents.packages.insert(digest.clone(), package.to_owned());
        contents.tags.entry(repository.to_owned()).or_default().insert(tag.to_owned(), digest.clone());
        digest
    }

    /// Have an image in it whose program is WebAssembly. Returns its digest.
    pub fn push_webassembly(&self, image: &str, package: &str) -> String {
        let digest = self.push(image, package);
        self.lock().webassembly.insert(digest.clone());
        digest
    }

    /// Have a signature of the image with this digest in it.
    pub fn sign(&self, digest: &str, signature: ImageSignature) {
        self.lock().signatures.entry(digest.to_owned()).or_default().push(signature);
    }

    /// Answer nobody, or everybody again.
    pub fn set_down(&self, why: Option<&str>) {
        self.lock().down = why.map(str::to_owned);
    }

    /// Have signatures kept by those who ask for them.
    pub fn keep_signatures(&self) {
        self.lock().keeps_signatures = true;
    }

    /// Answer only requests with this pull secret.
    pub fn require_secret(&self, secret: &[u8]) {
        self.lock().required_secret = Some(secret.to_vec());
    }

    /// Answer questions of this kind, such as `resolve` or `tags`, or a single one (`tags REPOSITORY`) late: with what was so when they were
    /// asked, once nothing is held any more.
    pub fn hold(&self, what: Option<&'static str>) {
        self.lock().held.send_replace(what);
    }

    /// What may be done about packages that others depend on. Counts from the next start of controllers on.
    pub fn allow(&self, dependencies: ResolveOptions) {
        self.lock().dependencies = dependencies;
    }

    /// Have definitions of providers installed as they are. Counts from the next start of controllers on.
    pub fn keep_definitions(&self, keeps: bool) {
        self.lock().keeps_definitions = keeps;
    }

    /// Have providers protected while resources of their kinds exist. Counts from the next start of controllers on.
    pub fn protect_providers(&self) {
        self.lock().protects_providers = true;
    }

    /// Have functions run by a caller that follows this list. Counts from the next start of controllers on.
    pub fn run_functions(&self) -> Arc<PackagedFunctions> {
        self.lock().functions.get_or_insert_default().clone()
    }

    /// Have providers run by a caller that follows this list. Counts from the next start of controllers on.
    pub fn run_providers(&self) -> Arc<PackagedProviders> {
        self.lock().providers.get_or_insert_default().clone()
    }

    /// Have programs run in pods, as on a cluster: those of packages of these kinds. Counts from the next start of controllers on.
    pub fn run_in_pods(&self, kinds: &[PackageKind]) {
        self.lock().deployments = Some(DeploymentRuntime {
            kinds: kinds.to_vec(),
            service_account: "crossplane".to_owned(),
            authority_secret: "crossplane-root-ca".to_owned(),
            uses_configs: true,
            adapter_image: None,
        });
    }

    /// Have programs that are not servers run in pods with an adapter from this image, or not any more. Counts from the next start of
    /// controllers on.
    pub fn adapt_programs(&self, image: Option<&str>) {
        self.lock().adapter_image = image.map(str::to_owned);
    }

    /// Have `DeploymentRuntimeConfig`s ignored. Counts from the next start of controllers on.
    pub fn ignore_runtime_configs(&self) {
        self.lock().ignores_configs = true;
    }

    /// What was asked since this was asked last.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().asked)
    }

    /// The pull secrets of the last request.
    pub fn secrets(&self) -> Vec<Vec<u8>> {
        self.lock().secrets.clone()
    }

    /// How controllers install packages from here.
    pub fn manager(&self) -> PackageManager {
        let contents = self.lock();
        PackageManager {
            source: Arc::new(self.clone()),
            namespace: NAMESPACE.to_owned(),
            dependencies: contents.dependencies,
            establishers: ESTABLISHERS,
            activations: Vec::new(),
            converts_definitions: !contents.keeps_definitions,
            protects_providers: contents.protects_providers,
            functions: contents.functions.clone(),
            providers: contents.providers.clone(),
            deployments: contents.deployments.clone().map(|runtime| DeploymentRuntime {
                uses_configs: !contents.ignores_configs,
                adapter_image: contents.adapter_image.clone(),
                ..runtime
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap()
    }

    fn answer<T>(
        &self,
        what: &'static str,
        request: &ImageRequest,
        answer: impl FnOnce(&mut Contents) -> Result<T, SourceError>,
    ) -> SourceAnswer<T>
    where
        T: Send + 'static,
    {
        let question = format!("{what} {}", request.image);
        let mut contents = self.lock();
        contents.asked.push(question.clone());
        contents.secrets.clone_from(&request.pull_secrets);
        let is_denied =
            contents.required_secret.as_ref().is_some_and(|secret| !request.pull_secrets.contains(secret));
        let answer = match contents.down.clone() {
            Some(message) => Err(SourceError { message, is_unreachable: true, is_invalid: false }),
            None if is_denied => Err(denied(&request.image)),
            None => answer(&mut contents),
        };
        let mut held = contents.held.subscribe();
        drop(contents);
        Box::pin(async move {
            let _ = held.wait_for(|held| *held != Some(what) && *held != Some(&*question)).await;
            answer
        })
    }
}

impl PackageSource for FakeRegistry {
    fn resolve(&self, request: ImageRequest) -> SourceAnswer<String> {
        self.answer("resolve", &request, |contents| {
            let found = request
                .image
                .rsplit_once(':')
                .and_then(|(repository, tag)| contents.tags.get(repository)?.get(tag));
            found.cloned().ok_or_else(|| not_found(&request.image))
        })
    }

    fn fetch(&self, request: ImageRequest) -> SourceAnswer<()> {
        let digest = digest_of(&request.image);
        if self.lock().fetched.contains(&digest) {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.answer("fetch", &request, |contents| {
            if !contents.packages.contains_key(&digest) {
                return Err(not_found(&request.image));
            }
            contents.fetched.insert(digest);
            Ok(())
        })
    }

    fn turn(&self, _request: ImageRequest) -> SourceAnswer<Option<OwnedSemaphorePermit>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn read(&self, request: ImageRequest, turn: Option<OwnedSemaphorePermit>) -> SourceAnswer<LoadedPackage> {
        let contents = self.lock();
        let text = contents.packages.get(&digest_of(&request.image)).cloned().unwrap_or_default();
        let read = read_package(&text).map(|contents| LoadedPackage::new(contents, turn));
        let read = read.map_err(|error| SourceError::invalid(error.to_string()));
        Box::pin(std::future::ready(read))
    }

    fn program(&self, request: ImageRequest) -> SourceAnswer<ImageProgram> {
        let is_webassembly = self.lock().webassembly.contains(&digest_of(&request.image));
        let entrypoint = vec!["/function".to_owned()];
        let program = ImageProgram { is_webassembly, entrypoint, cmd: Vec::new() };
        Box::pin(std::future::ready(Ok(program)))
    }

    fn tags(&self, request: ImageRequest) -> SourceAnswer<Vec<String>> {
        self.answer("tags", &request, |contents| {
            let tags = contents.tags.get(&request.image).map(|tags| tags.keys().cloned().collect());
            tags.ok_or_else(|| not_found(&request.image))
        })
    }

    fn signatures(&self, request: ImageRequest, anew: bool) -> SourceAnswer<Vec<ImageSignature>> {
        let signatures =
            |contents: &Contents| contents.signatures_of(&request.image, |found| !is_envelope(found));
        let contents = self.lock();
        if contents.keeps_signatures && !anew {
            return Box::pin(std::future::ready(Ok(signatures(&contents))));
        }
        drop(contents);
        self.answer("signatures", &request, |contents| Ok(signatures(contents)))
    }

    fn attestations(&self, request: ImageRequest, _anew: bool) -> SourceAnswer<Vec<ImageSignature>> {
        self.answer("attestations", &request, |contents| {
            Ok(contents.signatures_of(&request.image, is_envelope))
        })
    }
}

fn not_found(image: &str) -> SourceError {
    SourceError { message: format!("cannot find `{image}`"), is_unreachable: false, is_invalid: false }
}

fn denied(image: &str) -> SourceError {
    SourceError {
        message: format!("there is no credential for `{image}`"),
        is_unreachable: false,
        is_invalid: false,
    }
}

fn digest_of(image: &str) -> String {
    image.rsplit_once('@').map(|(_, digest)| digest.to_owned()).unwrap_or_default()
}

/// Sixty-four digits that differ for different texts.
fn digest(text: &str) -> String {
    let word = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    };
    (0..4).map(word).collect()
}
