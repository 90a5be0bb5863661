//! Applying one patch: get, transform, put.

use ferroplane_golang::fmt::{Any, Numbers, sprintf_any};
use ferroplane_golang::strconv::format_float;
use serde_json::{Map, Value};

use super::document::{Budget, Document};
use super::prepare::{Patch, Source};
use crate::cost_budget::CostBudget;
use crate::fieldpath::{Error, Path};

/// Where a patch reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct From<'a> {
    pub(super) object: &'a Map<String, Value>,
    pub(super) numbers: Numbers,
}

impl<'a> From<'a> {
    fn get(self, path: &Result<Path, Error>) -> Result<Any<'a>, Error> {
        let path = path.as_ref().map_err(Clone::clone)?;
        Ok(Any::of(path.get(self.object)?, self.numbers))
    }
}

impl Patch {
    /// Take a value from one object, and put what becomes of it into another.
    pub(super) fn apply(
        &self,
        from: From<'_>,
        to: &mut Document<'_>,
        budget: &mut Budget<'_>,
    ) -> Result<(), Error> {
        let value = self.transformed(self.value(from)?, budget.costs)?;
        let merge = self.merge.as_ref().map_err(|problem| Error::new(problem.clone()))?;
        to.put(&self.to, value, *merge, budget)
    }

    fn value<'a>(&self, from: From<'a>) -> Result<Any<'a>, Error> {
        match &self.from {
            Source::Field(path) => from.get(path),
            Source::Combined { variables, format } => {
                // Before the format is read: a missing variable is reported even if nothing could be
                // made of it.
                let values: Vec<_> = variables.iter().map(|path| from.get(path)).collect::<Result<_, _>>()?;
                let format = format.as_ref().map_err(|problem| Error::new(problem.clone()))?;
                sprintf_any(format, &values).map_err(|problem| Error::new(problem.to_string()))
            }
            Source::Broken(problem) => Err(Error::new(problem.clone())),
        }
    }

    fn transformed<'v>(&'v self, mut value: Any<'v>, costs: &CostBudget) -> Result<Value, Error> {
        for (at, transform) in self.transforms.iter().enumerate() {
            value = transform.resolve(value, costs).map_err(|problem| {
                Error::new(format!("transform at index {at} returned error: {problem}"))
            })?;
        }
        if let Any::Float(float) = value
            && !float.is_finite()
        {
            // Putting it into many fields, the original says nothing else.
            let is_plain = self.reads_before_writing || self.to.has_wildcards;
            let context = if is_plain { "" } else { "cannot patch to object: " };
            let float = format_float(float, 'g', None);
            let problem = format!("cannot marshal value to JSON: json: unsupported value: {float}");
            return Err(Error::new(format!("{context}{problem}")));
        }
        // Only numbers that are not finite cannot be JSON, and these were refused above.
        Ok(value.into_json().unwrap_or_default())
    }
}
