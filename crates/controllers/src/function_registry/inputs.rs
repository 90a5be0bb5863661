//! Checks the steps of a Composition before anything is composed.

use ferroplane_api::{Cause, CompositionSpec, Step};
use ferroplane_engine::{Callee, EXTERNAL_IS_OFF, Pipeline, chain, external_type, to_pipeline};
use ferroplane_runner::Runner;
use serde_json::Value;

use super::FunctionRegistry;

impl FunctionRegistry {
    /// The mistakes of all steps: functions that do not exist, and inputs that they would refuse.
    pub(crate) fn step_mistakes(&self, spec: &Value) -> Vec<String> {
        let Ok(spec) = serde_json::from_value::<CompositionSpec>(spec.clone()) else { return Vec::new() };
        to_pipeline(&spec).iter().flat_map(|step| self.mistakes_of(step)).collect()
    }

    fn mistakes_of(&self, step: &Step) -> Vec<String> {
        let Ok(pipeline) = Pipeline::new(std::slice::from_ref(step)) else { return Vec::new() };
        match pipeline.resolve(&self.current().catalogue) {
            // Inactive and missing versions are reported elsewhere, with the remedy.
            Err(error) if is_missing(error.source.cause()) => vec![chain(&error)],
            Err(_) => Vec::new(),
            Ok(pipeline) => {
                let callee = pipeline.steps().first().and_then(|step| step.callee.as_ref());
                let mut mistakes = callee.map(|callee| self.input_mistakes(callee, step)).unwrap_or_default();
                mistakes.extend(callee.and_then(|callee| self.off(callee, step)));
                mistakes.into_iter().map(|mistake| format!("step `{}`: {mistake}", step.step)).collect()
            }
        }
    }

    /// The mistake of calling a function that runs images or calls webhooks where that is disabled.
    fn off(&self, callee: &Callee, step: &Step) -> Option<String> {
        external_type(&step.function_ref.name)?;
        let is_off = matches!(self.current().directory.get(&callee.revision)?.as_ref(), Runner::Builtin(_));
        is_off.then(|| format!("{}: {EXTERNAL_IS_OFF}", step.function_ref.name))
    }

    /// The mistakes that a built-in function finds in the input of a step, also if it is called by another name.
    fn input_mistakes(&self, callee: &Callee, step: &Step) -> Vec<String> {
        let families = self.built_ins.catalogue.families();
        let family = families.into_iter().find_map(|family| {
            let record = family.records.iter().find(|record| record.revision.name == callee.code())?;
            Some((family, record.version.as_ref()?))
        });
        family.map_or_else(Vec::new, |(family, version)| {
            (self.built_ins.input_mistakes)(&family.function, version, step.input.as_ref())
        })
    }
}

fn is_missing(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::FunctionNotFound | Cause::FunctionNotRunnable | Cause::FunctionRevisionSelectorsDisabled
    )
}
