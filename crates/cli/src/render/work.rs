//! Everything there is to render, read and checked.

use std::sync::Arc;

use ferroplane_api::{CompositeResourceDefinition, Composition, Object, keys, meta};
use ferroplane_engine::Pipeline;
use ferroplane_runner::Directory;
use ferroplane_wire::Struct;

use super::called::Called;
use super::composite::{Composite, layout_of};
use super::observed::observe;
use super::world::{Shared, World};
use super::{Rendered, Task, output, render};
use crate::manifest::Manifest;

/// Everything there is to render, read and checked.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) xrs: Vec<Manifest>,
    /// There is only one XR.
    pub(crate) is_alone: bool,
    pub(crate) composition: Arc<Composition>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) definition: Option<CompositeResourceDefinition>,
    pub(crate) called: Called,
    /// What the user should know before anything is rendered.
    pub(crate) notes: Vec<String>,
    pub(crate) observed: Vec<Manifest>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) context: Option<Struct>,
}

impl Work {
    /// Render one of the XRs.
    pub(crate) async fn render(&self, xr: &Manifest, functions: &Directory) -> anyhow::Result<Rendered> {
        let layout = layout_of(self.definition.as_ref());
        let mut composite = Composite::new(xr.object().clone(), layout, &self.composition);
        let mut world = World::new(self.shared.clone());
        let given = self.observed_of(composite.object());
        let observed = observe(&mut composite, given, &mut world)?;
        world.add(composite.object().clone())?;
        let task = Task {
            composite,
            composition: self.composition.clone(),
            pipeline: self.pipeline.clone(),
            observed,
            context: self.context.clone(),
            now: output::NOW.to_owned(),
        };
        render(task, functions, &world).await
    }

    /// What is observed of one XR. If there are several, each has what it controls or what bears its name.
    fn observed_of(&self, xr: &Object) -> Vec<Object> {
        let is_its_own = |object: &&Object| {
            let controller = meta::controller_uid(object);
            let is_near = [meta::namespace(object), ""].contains(&meta::namespace(xr));
            let bears_name = meta::label(object, keys::COMPOSITE) == meta::name(xr);
            self.is_alone || controller.map_or(is_near && bears_name, |uid| uid == meta::uid(xr))
        };
        self.observed.iter().map(Manifest::object).filter(is_its_own).cloned().collect()
    }
}
