//! What a step costs when its function costs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ferroplane_engine::{CompositeSubject, Inputs, Layout, Observed, Outcome, Pipeline, Turn, start};
use ferroplane_wire::v1::{Resource, RunFunctionResponse};
use ferroplane_wire::{State, Struct};
use prost::Message as _;
use serde_json::json;

use crate::measure::{Times, pretty};
use crate::objects::{composed, to_struct, xr};

const MANY: u32 = 11;

pub(crate) fn run() {
    println!(
        "functions that answer at once with what they were given; observed and desired resources of 1 kB each\n"
    );
    println!(
        "| resources | 1 step, p50 | 1 step, best | each further step, best | the same with encoding, best |"
    );
    println!("|---|---|---|---|---|");
    for resources in [1, 20, 200] {
        let budget = Duration::from_secs(1);
        let bench = Bench::new(resources);
        let of = |steps: u32, encode: bool| Times::of(budget, || bench.converse(steps, encode));
        let (one, many) = (of(1, false), of(MANY, false));
        let (one_encoded, many_encoded) = (of(1, true), of(MANY, true));
        // A difference of medians is mostly noise; the best times are what the work takes.
        let per_step = |one: &Times, many: &Times| many.best().saturating_sub(one.best()) / (MANY - 1);
        println!(
            "| {resources} | {} | {} | {} | {} |",
            pretty(one.p50()),
            pretty(one.best()),
            pretty(per_step(&one, &many)),
            pretty(per_step(&one_encoded, &many_encoded))
        );
    }
}

struct Bench {
    composite: Struct,
    observed: BTreeMap<String, Struct>,
    desired: State,
    pipelines: BTreeMap<u32, Arc<Pipeline>>,
}

impl Bench {
    fn new(resources: usize) -> Self {
        let named: BTreeMap<_, _> = (0..resources)
            .map(|number| (format!("resource-{number}"), to_struct(composed(number))))
            .collect();
        let desired = named.iter().map(|(name, object)| {
            (name.clone(), Resource { resource: Some(object.clone()), ..Resource::default() })
        });
        Self {
            composite: to_struct(xr()),
            desired: State::new(None, desired.collect()),
            observed: named,
            pipelines: [1, MANY].into_iter().map(|steps| (steps, Arc::new(pipeline(steps)))).collect(),
        }
    }

    fn converse(&self, steps: u32, encode: bool) -> Outcome {
        // Fresh objects each time, or everything would be encoded already.
        let fresh = |object: &Struct| Struct::from(object.wire().clone());
        let observed = self.observed.iter().map(|(name, object)| {
            (name.clone(), Observed { object: fresh(object), connection_details: BTreeMap::new() })
        });
        let mut turn = start(Inputs {
            subject: CompositeSubject {
                observed: observed.collect(),
                ..CompositeSubject::new(self.composite.clone(), Layout::Modern)
            }
            .into(),
            pipeline: self.pipelines[&steps].clone(),
            remembered: Vec::new(),
            context: None,
            grants: std::sync::Arc::default(),
        });
        loop {
            turn = match turn {
                Turn::Call(call) => {
                    if encode {
                        std::hint::black_box(call.request().encode_to_vec());
                    }
                    let desired = Some(self.desired.clone());
                    call.answer(RunFunctionResponse { desired, ..RunFunctionResponse::default() })
                }
                Turn::Fetch(fetch) => fetch.provide(Vec::new()),
                Turn::Done(outcome) => return *outcome,
            }
        }
    }
}

fn pipeline(steps: u32) -> Pipeline {
    let steps: Vec<_> =
        (0..steps).map(|step| json!({"step": format!("s{step}"), "functionRef": {"name": "f"}})).collect();
    let steps: Vec<ferroplane_api::Step> = serde_json::from_value(steps.into()).expect("they are steps");
    Pipeline::new(&steps).expect("it is a pipeline")
}
