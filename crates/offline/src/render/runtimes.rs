//! The functions that a pipeline calls: which versions there are to choose from, and how each is called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context as _;
use ferroplane_api::Function;
use ferroplane_engine::versions::{Catalogue, Family, Lifecycle, Record, Revision, VersionSource};
use ferroplane_engine::{ImageReference, Pipeline};
use ferroplane_functions::{InvalidLibrary, Library};
use ferroplane_runner::{Directory, Images, Program, Runner, grpc};
use tokio::task::JoinSet;

use super::functions::{Declared, Functions, Runtime};
use super::renderer::Callers;
use super::templates::{GO_TEMPLATING, TemplateSteps};

/// The functions that a pipeline calls, and how. Nothing is started yet.
#[derive(Debug)]
pub(super) struct Runtimes {
    /// What the steps can choose from.
    pub(super) catalogue: Catalogue,
    /// By the name of the revision.
    by_revision: BTreeMap<String, Runtime>,
    /// The versions of function-go-templating, by the name of the revision.
    templating: BTreeMap<String, String>,
    /// The packages that need not be run, by the name of their function.
    replaced: BTreeMap<String, String>,
}

impl Runtimes {
    /// Find out how each function that the pipeline calls is run. Those that are not listed are built in.
    pub(super) fn of(pipeline: &Pipeline, functions: &Functions, library: &Library) -> anyhow::Result<Self> {
        let mut runtimes = Self {
            catalogue: Catalogue::new(library.catalogue().release().clone()),
            by_revision: BTreeMap::new(),
            templating: BTreeMap::new(),
            replaced: BTreeMap::new(),
        };
        let names: BTreeSet<_> = pipeline.steps().iter().map(|step| step.function.as_str()).collect();
        for (_, function, manifest) in functions.iter().filter(|(name, ..)| names.contains(name)) {
            runtimes.add_listed(function, functions.declared(function, manifest, library)?, library)?;
        }
        // Those that nothing calls are there too: a name that is misspelt is nearly that of one of them.
        let built_in = library.catalogue().families();
        for family in built_in.filter(|family| !functions.contains(&family.function)) {
            runtimes.catalogue.alias(&family.function, family, None);
            runtimes.add_code(family, library);
        }
        let further = library.catalogue().further_names();
        for family in further.filter(|family| !functions.contains(&family.function)) {
            runtimes.catalogue.name_further(&family.function, family);
            runtimes.add_code(family, library);
        }
        Ok(runtimes)
    }

    fn add_listed(
        &mut self,
        function: &Function,
        declared: Declared,
        library: &Library,
    ) -> anyhow::Result<()> {
        let (name, package) = (&function.metadata.name, &function.spec.package);
        match declared {
            Declared::Runtime(runtime) => {
                self.by_revision.insert(name.clone(), runtime);
                self.catalogue.add(package_family(name, package)).map_err(InvalidLibrary)?;
            }
            Declared::BuiltIn { function, version } => {
                let family = library.catalogue().family(&function);
                let family = family.with_context(|| format!("`{function}` is not built in"))?;
                if !package.is_empty() {
                    self.replaced.insert(name.clone(), package.clone());
                }
                self.catalogue.alias(name, family, version.as_ref());
                self.add_code(family, library);
            }
        }
        // Its current revision would have them.
        self.catalogue.add_labels(name, &function.metadata.labels);
        Ok(())
    }

    fn add_code(&mut self, family: &Family, library: &Library) {
        for record in &family.records {
            let listed = library.listed_name(&family.function);
            let version = listed.zip(record.version.as_ref());
            let code = version.and_then(|(function, version)| library.implementation(function, version));
            if let Some((GO_TEMPLATING, version)) = version {
                self.templating.insert(record.revision.name.clone(), version.to_string());
            }
            if let Some(code) = code {
                self.by_revision.insert(record.revision.name.clone(), Runtime::BuiltIn(code.clone()));
            }
        }
    }

    /// Which packages are not run, since the functions in them are built in.
    pub(super) fn notes(&self, pipeline: &Pipeline) -> BTreeSet<String> {
        let note = |step: &ferroplane_engine::Step| {
            let package = self.replaced.get(&step.function)?;
            let version = step.callee.as_ref()?.version.as_ref()?;
            Some(format!("function `{}`: built-in {version} runs in place of {package}", step.function))
        };
        pipeline.steps().iter().filter_map(note).collect()
    }

    /// Whether the pipeline calls a function that is an image.
    pub(super) fn have_images(&self, pipeline: &Pipeline) -> bool {
        let callees = pipeline.steps().iter().filter_map(|step| step.callee.as_ref());
        let mut called = callees.filter_map(|callee| self.by_revision.get(&callee.revision));
        called.any(|runtime| matches!(runtime, Runtime::Image(_)))
    }

    /// Make everything that the pipeline calls ready to be called. Programs are started all at once.
    pub(super) async fn start(
        &self,
        pipeline: &Pipeline,
        templates: &Arc<TemplateSteps>,
        options: &grpc::Options,
        with: &Callers<'_>,
    ) -> anyhow::Result<Directory> {
        let callees = pipeline.steps().iter().filter_map(|step| step.callee.as_ref());
        let called = callees.filter_map(|callee| self.by_revision.get_key_value(&callee.revision));
        let called = called.map(|(name, runtime)| {
            let runtime = match (runtime, self.templating.get(name)) {
                (Runtime::BuiltIn(code), Some(version)) => Runtime::BuiltIn(templates.traced(version, code)),
                (runtime, _) => runtime.clone().supervised_by(with.supervisor),
            };
            (name.clone(), runtime)
        });
        let mut directory = start_all(called.collect(), options, with.images).await?;
        if let Some(external) = with.external {
            directory.enable_external(external);
        }
        Ok(directory)
    }
}

/// A package that is called has one revision, which is the one that runs.
fn package_family(name: &str, package: &str) -> Family {
    let tag = ImageReference::parse(package).tag;
    let record = Record {
        revision: Revision { name: name.to_owned(), number: 1 },
        version: tag.and_then(|tag| tag.parse().ok()),
        labels: BTreeMap::new(),
        lifecycle: Lifecycle::default(),
        is_active: true,
        is_serving: true,
        built_in: None,
        source: VersionSource::Package,
        is_implemented: true,
    };
    Family { function: name.to_owned(), stable: None, records: vec![record] }
}

async fn start_all(
    runtimes: BTreeMap<String, Runtime>,
    options: &grpc::Options,
    images: Option<&Images>,
) -> anyhow::Result<Directory> {
    // All at once: some programs compile themselves when they start.
    let mut starting = JoinSet::new();
    for (name, runtime) in runtimes {
        let (options, images) = (options.clone(), images.cloned());
        starting.spawn(async move {
            // It says itself what it is about.
            if let Runtime::Image(image) = runtime {
                return Ok((name, image.start(images.as_ref(), options).await?));
            }
            let runner =
                start(runtime, options).await.with_context(|| format!("cannot start function `{name}`"))?;
            anyhow::Ok((name, runner))
        });
    }
    let mut directory = Directory::default();
    let mut failure = None;
    // All are waited for even after a failure, or one that starts later would never be stopped.
    while let Some(started) = starting.join_next().await {
        match started? {
            Ok((name, runner)) => directory.insert(name, runner),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        None => Ok(directory),
        Some(failure) => {
            // The others have started meanwhile, and would outlive a command that failed.
            directory.stop().await;
            Err(failure)
        }
    }
}

async fn start(runtime: Runtime, options: grpc::Options) -> anyhow::Result<Runner> {
    Ok(match runtime {
        Runtime::BuiltIn(function) => Runner::Builtin(function),
        Runtime::Served { target, tls } => {
            Runner::Grpc(grpc::Client::new(target, grpc::Options { tls, ..options })?)
        }
        Runtime::Recorded(answers) => Runner::AsyncFunction(answers),
        Runtime::Image(image) => image.start(None, options).await?,
        Runtime::Started(command) => Runner::Program(Program::start(&command, options).await?),
    })
}
