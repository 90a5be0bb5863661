//! Renders composite resources: files that were read and checked, and the functions they call.

use std::sync::Arc;

use ferroplane_api::{CompositeResourceDefinition, Composition, Object, Scope, keys, meta};
use ferroplane_engine::{Defaults, Pipeline, external_type};
use ferroplane_functions::Library;
use ferroplane_runner::{Directory, External, Images, grpc};
use ferroplane_wire::Struct;

use super::cluster_state::{ClusterState, CompositeScope, SharedState};
use super::composite::{Composite, layout_of};
use super::observed::refer_to;
use super::operation::{OperationInput, render_operation};
use super::runtimes::Runtimes;
use super::scripts::STARLARK;
use super::templates::TemplateSteps;
use super::{InputFiles, RenderInput, Rendered, output, render};
use crate::manifest::{Files, Manifest};

/// What calls functions that are not in this process. By default, nothing does but this process itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Callers<'a> {
    /// A command that runs programs, and ends them when this process is gone. Without one, this process alone runs them.
    pub supervisor: &'a [String],
    /// Runs images for every call, and calls webhooks.
    pub external: Option<&'a External>,
    /// Serves functions whose packages are images.
    pub images: Option<&'a Images>,
}

/// Composite resources and everything they are rendered with, read and checked.
#[derive(Debug)]
pub struct Renderer {
    pub(super) xrs: Vec<Manifest>,
    /// There is only one XR.
    pub(super) is_alone: bool,
    pub(super) composition: Arc<Composition>,
    /// They are operations, and the Composition only has the steps of one.
    pub(super) is_operation: bool,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) definition: Option<CompositeResourceDefinition>,
    /// What the definition says about compositions.
    pub(super) defaults: Defaults,
    pub(super) runtimes: Runtimes,
    pub(super) notes: Vec<String>,
    pub(super) observed: Vec<Manifest>,
    pub(super) shared: Arc<SharedState>,
    pub(super) context: Option<Struct>,
    pub(super) templates: Arc<TemplateSteps>,
}

impl Renderer {
    /// Read all files and check what is in them. Functions in the library need not be listed. Nothing is started yet.
    pub fn load(input: &InputFiles, files: &mut Files, library: &Library) -> anyhow::Result<Self> {
        input.load(files, library)
    }

    /// The composite resources to render.
    pub fn composites(&self) -> &[Manifest] {
        &self.xrs
    }

    /// What the user should know before anything is rendered.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Versions of functions that the pipeline calls and that will not be there for ever.
    pub fn advisories(&self) -> impl Iterator<Item = String> {
        self.pipeline.advisories().map(|advisory| advisory.to_string())
    }

    /// Make every function that the pipeline calls ready to be called.
    pub async fn start_functions(
        &self,
        options: &grpc::Options,
        callers: &Callers<'_>,
    ) -> anyhow::Result<Directory> {
        self.runtimes.start(&self.pipeline, &self.templates, options, callers).await
    }

    /// Whether a function is an image that is served.
    pub fn serves_images(&self) -> bool {
        self.runtimes.have_images(&self.pipeline)
    }

    /// Whether a step runs an image or calls a webhook, as far as that can be told before it runs.
    pub fn calls_external(&self) -> bool {
        self.pipeline.steps().iter().any(|step| external_type(&step.function).is_some())
    }

    /// Whether a step runs a script.
    pub fn runs_scripts(&self) -> bool {
        self.pipeline.steps().iter().any(|step| step.function == STARLARK)
    }

    /// Render one of the composite resources.
    pub async fn render(&self, xr: &Manifest, functions: &Directory) -> anyhow::Result<Rendered> {
        if self.is_operation {
            let mut cluster = ClusterState::new(self.shared.clone());
            cluster.set_composite_scope(CompositeScope::Cluster);
            let (pipeline, context) = (self.pipeline.clone(), self.context.clone());
            let input = OperationInput { operation: xr.object(), pipeline, context, now: output::NOW };
            return Ok(render_operation(input, functions, &cluster).await?.with_identity_only());
        }
        let layout = layout_of(self.definition.as_ref());
        let mut composite = Composite::new(xr.object().clone(), layout, &self.composition, &self.defaults);
        let mut cluster = ClusterState::new(self.shared.clone());
        cluster.set_composite_scope(self.scope_of(&composite.object));
        let given = self.observed_of(&composite.object);
        refer_to(&mut composite, given, &mut cluster)?;
        // Functions may ask for the composite resource itself, and find it as the steps see it.
        cluster.add(composite.object.clone())?;
        let input = RenderInput {
            composite,
            pipeline: self.pipeline.clone(),
            context: self.context.clone(),
            now: output::NOW.to_owned(),
        };
        render(input, functions, &cluster).await
    }

    /// Where one of the XRs lives.
    fn scope_of(&self, xr: &Object) -> CompositeScope {
        let scope = self.definition.as_ref().map(CompositeResourceDefinition::scope);
        match scope {
            _ if !meta::namespace(xr).is_empty() => CompositeScope::Namespaced,
            Some(Scope::Cluster | Scope::LegacyCluster) => CompositeScope::Cluster,
            Some(Scope::Namespaced) | None => CompositeScope::Unknown,
        }
    }

    /// What is observed of one XR. If there are several, each has what it controls or what bears its name.
    fn observed_of(&self, xr: &Object) -> Vec<Object> {
        let is_its_own = |object: &&Object| {
            let controller = meta::controller_uid(object);
            // One XR has all that is given, even without labels or owners: that is how people write such files by hand.
            let is_near = [meta::namespace(object), ""].contains(&meta::namespace(xr));
            let bears_name = meta::label(object, keys::COMPOSITE) == meta::name(xr);
            self.is_alone || controller.map_or(is_near && bears_name, |uid| uid == meta::uid(xr))
        };
        self.observed.iter().map(Manifest::object).filter(is_its_own).cloned().collect()
    }
}
