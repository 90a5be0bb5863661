//! Measures how long registries take. Everything else is up to the source of packages.

use std::sync::Arc;

use ferroplane_package::signature::ImageSignature;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::{ImageProgram, ImageRequest, LoadedPackage, PackageSource, SourceAnswer};
use crate::metrics::Metrics;

/// A source whose registries are measured.
#[derive(Debug)]
pub(super) struct MeasuredSource {
    source: Arc<dyn PackageSource>,
    metrics: Arc<Metrics>,
}

impl MeasuredSource {
    pub(super) fn new(source: Arc<dyn PackageSource>, metrics: Arc<Metrics>) -> Self {
        Self { source, metrics }
    }

    fn measure<T: Send + 'static>(
        &self,
        operation: &'static str,
        answer: SourceAnswer<T>,
    ) -> SourceAnswer<T> {
        let metrics = self.metrics.clone();
        Box::pin(async move {
            let began = Instant::now();
            let answer = answer.await;
            metrics.registry_asked(operation, answer.is_ok(), began.elapsed());
            answer
        })
    }
}

impl PackageSource for MeasuredSource {
    fn resolve(&self, request: ImageRequest) -> SourceAnswer<String> {
        self.measure("resolve", self.source.resolve(request))
    }

    fn fetch(&self, request: ImageRequest) -> SourceAnswer<()> {
        self.measure("fetch", self.source.fetch(request))
    }

    fn turn(&self, request: ImageRequest) -> SourceAnswer<Option<OwnedSemaphorePermit>> {
        self.source.turn(request)
    }

    fn read(&self, request: ImageRequest, turn: Option<OwnedSemaphorePermit>) -> SourceAnswer<LoadedPackage> {
        self.source.read(request, turn)
    }

    fn program(&self, request: ImageRequest) -> SourceAnswer<ImageProgram> {
        self.source.program(request)
    }

    fn tags(&self, request: ImageRequest) -> SourceAnswer<Vec<String>> {
        self.measure("tags", self.source.tags(request))
    }

    fn signatures(&self, request: ImageRequest, anew: bool) -> SourceAnswer<Vec<ImageSignature>> {
        self.measure("signatures", self.source.signatures(request, anew))
    }

    fn attestations(&self, request: ImageRequest, anew: bool) -> SourceAnswer<Vec<ImageSignature>> {
        self.measure("attestations", self.source.attestations(request, anew))
    }
}
