//! The render seam: a protobuf request in, a protobuf response out, as upstream's tools speak it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use ferroplane_api::{CompositeResourceDefinition, Composition, Object, keys, meta};
use ferroplane_engine::{Failure, Pipeline, Reference, Want};
use ferroplane_runner::{Directory, Runner, grpc};
use ferroplane_wire::render::render_request::Input;
use ferroplane_wire::render::{
    CompositeInput, CompositeOutput, Event, RenderRequest, RenderResponse, ResponseMeta,
    render_response::Output,
};
use ferroplane_wire::{Described, Struct, to_json};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::composite::{Composite, layout_of};
use super::world::{Shared, World};
use super::{Rendered, Task, render};

/// Answer a request. A fatal result is an answer too: what is known is returned with it.
pub(crate) async fn answer(
    request: RenderRequest,
    options: &grpc::Options,
    now: String,
) -> anyhow::Result<(RenderResponse, Option<Failure>)> {
    let input = match request.input {
        Some(Input::Composite(input)) => input,
        Some(_) => bail!("cannot render operations: only composite resources"),
        None => bail!("the render request is empty: it must say what to render"),
    };
    let mut functions = connect(&input, options)?;
    functions.set_deadline(Instant::now() + options.timeout);
    let (task, world) = prepare(input, now)?;
    let mut rendered = render(task, &functions, &world).await?;
    let failure = rendered.failure.take();
    if let Some(failure) = &failure
        && !failure.is_fatal_result()
    {
        bail!("{}", ferroplane_engine::chain(failure));
    }
    let output = Output::Composite(to_output(rendered)?);
    Ok((RenderResponse { meta: Some(ResponseMeta {}), output: Some(output) }, failure))
}

fn connect(input: &CompositeInput, options: &grpc::Options) -> anyhow::Result<Directory> {
    let runners = input.functions.iter().map(|function| {
        let target = function.address.parse().with_context(|| format!("function `{}`", function.name))?;
        let client = grpc::Client::new(target, options.clone())?;
        Ok((function.name.clone(), Runner::Grpc(client)))
    });
    runners.collect()
}

fn prepare(input: CompositeInput, now: String) -> anyhow::Result<(Task, World)> {
    let xr = object(input.composite_resource.unwrap_or_default(), "composite resource")?;
    let composition: Composition = parse(input.composition.unwrap_or_default(), "composition")?;
    let definition = input.composite_resource_definition.map(|definition| parse(definition, "definition"));
    let definition: Option<CompositeResourceDefinition> = definition.transpose()?;
    if let Some(definition) = &definition {
        check_definition(definition, &xr)?;
    }
    check_type(&composition, &xr)?;

    let mut composite = Composite::new(xr, layout_of(definition.as_ref()), &composition);
    let mut shared = Shared::default();
    let observed = objects(input.observed_resources, "observed resource")?;
    for object in objects(input.required_resources, "required resource")? {
        shared.add(object)?;
    }
    for mut secret in objects(input.credentials, "credential")? {
        if meta::kind(&secret).is_empty() {
            secret.insert("apiVersion".to_owned(), "v1".into());
            secret.insert("kind".to_owned(), "Secret".into());
        }
        shared.add(secret)?;
    }
    for document in input.required_schemas {
        shared.add_schemas(Value::Object(object(document, "schema")?));
    }
    let mut world = World::new(Arc::new(shared));
    let observed = observe(&mut composite, observed, &mut world)?;
    world.add(composite.object().clone())?;
    let task = Task {
        pipeline: Arc::new(Pipeline::new(&composition.spec.pipeline)?),
        composition: Arc::new(composition),
        composite,
        observed,
        context: None,
        now,
    };
    Ok((task, world))
}

/// What is observed: what was given, or else what the composite resource refers to and exists.
pub(crate) fn observe(
    composite: &mut Composite,
    given: Vec<Object>,
    world: &mut World,
) -> anyhow::Result<BTreeMap<String, Object>> {
    if !given.is_empty() {
        check_observed(composite.object(), &given)?;
        let is_cluster = meta::namespace(composite.object()).is_empty();
        let references: Vec<_> = given.iter().map(|object| reference(object, is_cluster)).collect();
        composite.refer_to(&references);
        for object in given {
            world.add(object)?;
        }
    }
    let mut observed = BTreeMap::new();
    for mut reference in composite.references() {
        let namespace = meta::namespace(composite.object());
        if !namespace.is_empty() {
            reference.namespace = Some(namespace.to_owned());
        }
        let Some(object) = world.get(&reference) else { continue };
        let controller = meta::controller_uid(object);
        if controller.is_some_and(|uid| uid != meta::uid(composite.object())) {
            continue;
        }
        let name = meta::annotation(object, keys::RESOURCE_NAME);
        if name.is_empty() {
            bail!(
                "observed resource `{}` ({}) has no annotation `{}`, so nobody knows which composed resource it is",
                meta::name(object),
                meta::kind(object),
                keys::RESOURCE_NAME
            );
        }
        observed.insert(name.to_owned(), object.clone());
    }
    Ok(observed)
}

fn reference(object: &Object, with_namespace: bool) -> Reference {
    Reference {
        api_version: meta::api_version(object).to_owned(),
        kind: meta::kind(object).to_owned(),
        name: meta::name(object).to_owned(),
        namespace: Some(meta::namespace(object).to_owned())
            .filter(|namespace| with_namespace && !namespace.is_empty()),
    }
}

fn check_observed(xr: &Object, observed: &[Object]) -> anyhow::Result<()> {
    for object in observed {
        let name = meta::name(object);
        let controller = meta::controller_uid(object);
        if controller.is_some_and(|uid| uid != meta::uid(xr)) {
            bail!("observed resource `{name}` is controlled by something else than the composite resource");
        }
        if !meta::namespace(xr).is_empty() && meta::namespace(object) != meta::namespace(xr) {
            bail!("observed resource `{name}` is not in the namespace of the composite resource");
        }
    }
    Ok(())
}

/// Refuse a composition for another kind.
pub(crate) fn check_type(composition: &Composition, xr: &Object) -> anyhow::Result<()> {
    let wanted = &composition.spec.composite_type_ref;
    let (api_version, kind) = (meta::api_version(xr), meta::kind(xr));
    if wanted.api_version == api_version && wanted.kind == kind {
        return Ok(());
    }
    bail!(
        "the composition is for {} ({}), but the composite resource is of kind {kind} ({api_version})",
        wanted.kind,
        wanted.api_version
    )
}

pub(crate) fn check_definition(definition: &CompositeResourceDefinition, xr: &Object) -> anyhow::Result<()> {
    let (group, kind) = (meta::group(meta::api_version(xr)), meta::kind(xr));
    let version = definition.api_version.strip_prefix(keys::APIEXTENSIONS);
    if !version.is_some_and(|version| ["/v1", "/v2"].contains(&version)) {
        bail!("expected a CompositeResourceDefinition, got {} ({})", definition.kind, definition.api_version);
    }
    if definition.spec.group == group && definition.spec.names.kind == kind {
        return Ok(());
    }
    bail!(
        "the definition is of {} ({}), but the composite resource is of kind {kind} ({group})",
        definition.spec.names.kind,
        definition.spec.group
    )
}

fn object(object: Struct, what: &str) -> anyhow::Result<Object> {
    object.into_json().with_context(|| format!("cannot read the {what}"))
}

fn objects(objects: Vec<Struct>, what: &str) -> anyhow::Result<Vec<Object>> {
    objects.into_iter().map(|struct_| object(struct_, what)).collect()
}

fn parse<T: DeserializeOwned>(struct_: Struct, what: &str) -> anyhow::Result<T> {
    let object = object(struct_, what)?;
    serde_json::from_value(Value::Object(object)).with_context(|| format!("cannot read the {what}"))
}

fn to_output(rendered: Rendered) -> anyhow::Result<CompositeOutput> {
    let events = rendered.events.iter().map(|event| Event {
        r#type: event.kind.as_str().to_owned(),
        reason: event.reason.clone(),
        message: event.detailed(),
    });
    let (mut required_resources, mut required_schemas) = (Vec::new(), Vec::new());
    for want in &rendered.asked {
        match want {
            Want::Resources(wanted) => required_resources.push(selector(wanted)?),
            Want::Schema(wanted) => required_schemas.push(selector(wanted)?),
            Want::Secret { .. } | Want::Scope { .. } => {}
        }
    }
    Ok(CompositeOutput {
        composite_resource: Some(Struct::try_from(rendered.xr)?),
        composed_resources: rendered.composed.into_iter().map(Struct::try_from).collect::<Result<_, _>>()?,
        deleted_resources: rendered
            .deleted
            .into_iter()
            .map(|(_, object)| Struct::try_from(object))
            .collect::<Result<_, _>>()?,
        events: events.collect(),
        required_resources,
        required_schemas,
    })
}

fn selector<M: Described>(message: &M) -> anyhow::Result<Struct> {
    match to_json(message)? {
        Value::Object(object) => Ok(Struct::try_from(object)?),
        _ => Err(anyhow!("a message is always an object")),
    }
}
