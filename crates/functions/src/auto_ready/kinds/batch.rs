//! Jobs, and those that start jobs.

use super::JsonObject;
use super::typed::{Malformed, Typed};

/// A job is healthy when it is complete, unless a condition before that one says that it failed or is suspended.
pub(super) fn is_job_healthy(object: &JsonObject) -> Result<bool, Malformed> {
    let conditions = Typed::new(object)?.status()?.conditions()?;
    let decisive = conditions
        .iter()
        .find(|(kind, status)| *status == "True" && matches!(*kind, "Failed" | "Suspended" | "Complete"));
    Ok(decisive.is_some_and(|(kind, _)| *kind == "Complete"))
}

/// A cron job is healthy while it is suspended, while a job of it runs, and when its last job succeeded.
pub(super) fn is_cron_job_healthy(object: &JsonObject) -> Result<bool, Malformed> {
    let job = Typed::new(object)?;
    let status = job.status()?;
    let (scheduled, succeeded) = (status.time("lastScheduleTime")?, status.time("lastSuccessfulTime")?);
    let active = status.list("active")?;
    if !active.iter().all(|active| active.is_object() || active.is_null()) {
        return Err(Malformed);
    }
    if job.spec()?.boolean("suspend")? == Some(true) {
        return Ok(true);
    }
    // Before `active` is checked: a cron job that never ran is not healthy, as in the original.
    let Some(scheduled) = scheduled else { return Ok(false) };
    Ok(!active.is_empty() || succeeded.is_some_and(|succeeded| succeeded >= scheduled))
}
