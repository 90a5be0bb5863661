//! The render seam: a protobuf request in, a protobuf response out, as upstream's tools speak it.

mod operation;

use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use ferroplane_api::{CompositeResourceDefinition, Composition, Object, meta};
use ferroplane_engine::{Defaults, Failure, Pipeline, Want};
use ferroplane_runner::{Directory, Runner, grpc};
use ferroplane_wire::render::render_request::Input;
use ferroplane_wire::render::{
    CompositeInput, CompositeOutput, Event, FunctionInput, RenderRequest, RenderResponse, ResponseMeta,
    render_response::Output,
};
use ferroplane_wire::{Described, Struct, to_json};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::cluster_state::{ClusterState, CompositeScope, SharedState};
use super::composite::{Composite, check_definition, check_type, layout_of};
use super::observed::refer_to;
use super::{RenderInput, Rendered, render};

/// Answer a request. A fatal result is an answer too: what is known is returned with it.
pub async fn answer(
    request: RenderRequest,
    options: &grpc::Options,
    now: String,
) -> anyhow::Result<(RenderResponse, Option<Failure>)> {
    let (output, failure) = match request.input {
        Some(Input::Composite(input)) => composite(input, options, now).await?,
        Some(Input::Operation(input)) => operation::render(input, options, &now).await?,
        Some(Input::CronOperation(input)) => (operation::of_cron(input, &now)?, None),
        Some(Input::WatchOperation(input)) => (operation::of_watch(input)?, None),
        None => bail!("the render request is empty: it must say what to render"),
    };
    Ok((RenderResponse { meta: Some(ResponseMeta {}), output: Some(output) }, failure))
}

async fn composite(
    input: CompositeInput,
    options: &grpc::Options,
    now: String,
) -> anyhow::Result<(Output, Option<Failure>)> {
    let functions = connect(&input.functions, options)?;
    let (render_input, cluster) = prepare(input, now)?;
    let mut rendered = render(render_input, &functions, &cluster).await?;
    let failure = rendered.take_fatal_result()?;
    Ok((Output::Composite(to_output(rendered)?), failure))
}

fn connect(functions: &[FunctionInput], options: &grpc::Options) -> anyhow::Result<Directory> {
    let runners = functions.iter().map(|function| {
        let target = function.address.parse().with_context(|| format!("function `{}`", function.name))?;
        let client = grpc::Client::new(target, options.clone())?;
        Ok((function.name.clone(), Runner::Grpc(client)))
    });
    let mut directory = runners.collect::<anyhow::Result<Directory>>()?;
    // For all calls together: upstream's tools wait for the whole answer that long.
    directory.set_deadline(Instant::now() + options.timeout);
    Ok(directory)
}

/// What functions may ask for.
fn shared_state(
    required: Vec<Struct>,
    credentials: Vec<Struct>,
    schemas: Vec<Struct>,
) -> anyhow::Result<SharedState> {
    let mut shared = SharedState::default();
    for object in objects(required, "required resource")? {
        shared.add(object)?;
    }
    for mut secret in objects(credentials, "credential")? {
        // What is written by Go from a typed Secret may lack its kind, and can be nothing else in this list.
        if meta::kind(&secret).is_empty() {
            secret.insert("apiVersion".to_owned(), "v1".into());
            secret.insert("kind".to_owned(), "Secret".into());
        }
        shared.add(secret)?;
    }
    for document in schemas {
        shared.add_schemas(Value::Object(object(document, "schema")?));
    }
    Ok(shared)
}

fn prepare(input: CompositeInput, now: String) -> anyhow::Result<(RenderInput, ClusterState)> {
    let xr = object(input.composite_resource.unwrap_or_default(), "composite resource")?;
    let composition: Composition = parse(input.composition.unwrap_or_default(), "composition")?;
    let definition = input.composite_resource_definition.map(|definition| parse(definition, "definition"));
    let definition: Option<CompositeResourceDefinition> = definition.transpose()?;
    if let Some(definition) = &definition {
        check_definition(definition, &xr)?;
    }
    check_type(&composition, &xr)?;

    let layout = layout_of(definition.as_ref());
    // Crossplane's engine selects the given composition whatever the definition says, and upstream's tools compare events.
    let mut composite = Composite::new(xr, layout, &composition, &Defaults::default());
    let observed = objects(input.observed_resources, "observed resource")?;
    let shared = shared_state(input.required_resources, input.credentials, input.required_schemas)?;
    let mut cluster = ClusterState::new(Arc::new(shared));
    // Without a namespace, the request does not tell whether the composite resource is of the cluster or merely lacks one.
    if !meta::namespace(&composite.object).is_empty() {
        cluster.set_composite_scope(CompositeScope::Namespaced);
    }
    refer_to(&mut composite, observed, &mut cluster)?;
    cluster.add(composite.object.clone())?;
    let render_input =
        RenderInput { pipeline: Arc::new(Pipeline::of(&composition.spec)?), composite, context: None, now };
    Ok((render_input, cluster))
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
    let events = events_of(&rendered);
    let (required_resources, required_schemas) = asked(&rendered.asked)?;
    Ok(CompositeOutput {
        composite_resource: Some(Struct::try_from(rendered.xr)?),
        composed_resources: rendered.composed.into_iter().map(Struct::try_from).collect::<Result<_, _>>()?,
        deleted_resources: rendered
            .deleted
            .into_iter()
            .map(|(_, object)| Struct::try_from(object))
            .collect::<Result<_, _>>()?,
        events,
        required_resources,
        required_schemas,
    })
}

fn events_of(rendered: &Rendered) -> Vec<Event> {
    let events = rendered.events.iter().map(|event| Event {
        r#type: event.kind.as_str().to_owned(),
        reason: event.reason.clone(),
        message: event.detailed(),
    });
    events.collect()
}

/// The resources and schemas that functions asked for.
fn asked(wants: &[Want]) -> anyhow::Result<(Vec<Struct>, Vec<Struct>)> {
    let (mut resources, mut schemas) = (Vec::new(), Vec::new());
    for want in wants {
        match want {
            Want::Resources(wanted) | Want::ClusterResources(wanted) => resources.push(selector(wanted)?),
            Want::Schema(wanted) => schemas.push(selector(wanted)?),
            // The protocol has no field for them, and the answer to a question about scope is no object.
            Want::Secret { .. } | Want::Scope { .. } => {}
        }
    }
    Ok((resources, schemas))
}

fn selector<M: Described>(message: &M) -> anyhow::Result<Struct> {
    match to_json(message)? {
        Value::Object(object) => Ok(Struct::try_from(object)?),
        _ => Err(anyhow!("a message is always an object")),
    }
}
