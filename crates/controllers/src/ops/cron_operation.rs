//! `CronOperation`s: operations on a schedule.

mod future_times;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferroplane_api::{Cause, Condition, FailurePoint, Object, Status, meta};
use ferroplane_client::{Error, Informer, ObjectPath};
use ferroplane_engine::chain;
use ferroplane_engine::operation::{
    CRON_LABEL, CronCheck, CronDecision, CronSpec, CronTime, InvalidSchedule, check_cron, cron_may_forget,
    decide_cron, has_future_time, last_time_to_record, operation_of_cron, too_many,
};
use jiff::Timestamp;
use tracing::warn;

use super::children::{Children, report_operations};
use super::follow;
use super::status::{status_with, write_status};
use crate::context::Context;
use crate::runtime::cause::cause_of_writes;
use crate::runtime::events::Recorder;
use crate::runtime::queue::{Next, Queue};
use future_times::FutureTimes;

const COMPONENT: &str = "cronoperation/cronoperation.ops.crossplane.io";
/// Schedules are often due together, and each waits for a read and two durable writes, which the API server commits together if they come
/// together.
const CONCURRENCY: usize = 32;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The longest wait: the clock may be set, and a queue does not notice.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);

/// Create the operations of all `CronOperation`s, until dropped.
pub(crate) async fn run(context: Arc<Context>, operations: Arc<Informer>) {
    let crons = follow(&context, "CronOperation", "cronoperations");
    let recorder = context.recorder.of(COMPONENT);
    let children = Children::new(context.clone(), recorder.clone(), operations, CRON_LABEL);
    let (missed, future_times) = (Mutex::default(), FutureTimes::default());
    let controller = Arc::new(Controller { context, recorder, crons, children, missed, future_times });
    controller.children.synced().await;
    let queue = controller.context.queue(LONGEST_PAUSE, COMPONENT);
    controller.listen(&queue);
    queue.work(CONCURRENCY, |name| controller.clone().reconcile(name)).await;
}

struct Controller {
    context: Arc<Context>,
    recorder: Recorder,
    crons: Arc<Informer>,
    children: Arc<Children>,
    /// The last missed time that has an event, by the names of `CronOperation`s. In memory only: after a restart there is another event.
    missed: Mutex<HashMap<String, i64>>,
    future_times: FutureTimes,
}

/// Why an operation that is due was not created.
enum NotMade {
    /// It is decided again, without a report.
    Undecided(Next),
    /// The API server does not create it, and says why.
    Refused(String),
}

impl From<Next> for NotMade {
    fn from(next: Next) -> Self {
        Self::Undecided(next)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.crons.stop();
    }
}

impl Controller {
    fn listen(self: &Arc<Self>, queue: &Queue<String>) {
        let crons = queue.clone();
        self.crons.listen(move |_, change| crons.add(change.header().metadata.name.to_string()));
        self.children.listen(queue);
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Next {
        let Some(cron) = self.crons.object("", &name) else {
            self.children.forget_doubts(&name);
            self.missed.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            self.future_times.forget(&name);
            return Next::Rest;
        };
        if meta::is_being_deleted(&cron) {
            return Next::Rest;
        }
        let cause = cause_of_writes(&cron);
        cause.scope(self.schedule(cron)).await
    }

    async fn schedule(&self, cron: Object) -> Next {
        let spec = CronSpec::of(&cron);
        if let Err(next) = self.children.settle(&cron).await {
            return next;
        }
        let operations = self.children.of(&cron);
        let time = self.time(&cron, &operations);
        let mut old = too_many(&operations, spec.limits);
        // Only operations whose time is in the status: otherwise the time would be due again.
        old.retain(|operation| cron_may_forget(&cron, operation, time));
        if let Err(next) = self.children.forget(&cron, old).await {
            return next;
        }
        if spec.is_suspended {
            let paused = Condition::new("Scheduling", Status::False, "SchedulePaused");
            let synced = Condition::new("Synced", Status::False, "ReconcilePaused");
            return self.conclude(cron, &operations, [paused, synced], None).await;
        }
        let now = self.context.clock.timestamp();
        let time = CronTime { now: now.as_second(), ..time };
        let decision = match decide_cron(&cron, &spec, &operations, time) {
            Ok(decision) => decision,
            Err(invalid) => return self.refuse(cron, &operations, &invalid).await,
        };
        self.report_missed(&cron, decision.missed);
        self.report_ignored(&cron, decision.ignored);
        let active = Condition::new("Scheduling", Status::True, "ScheduleActive");
        match self.carry_out(&cron, &spec, &operations, &decision).await {
            Ok(made) => {
                let synced = Condition::new("Synced", Status::True, "ReconcileSuccess");
                let operations: Vec<_> = operations.into_iter().chain(made).collect();
                let pause = decision.requeue_at.map(|at| until(at, now));
                self.conclude(cron, &operations, [active, synced], pause).await
            }
            Err(NotMade::Undecided(next)) => next,
            Err(NotMade::Refused(message)) => {
                let synced = Condition::new("Synced", Status::False, "ReconcileError");
                let synced = synced.with_message(message).with_failure(Cause::OperationNotCreated.into());
                match self.conclude(cron, &operations, [active, synced], None).await {
                    Next::Rest => Next::Retry,
                    next => next,
                }
            }
        }
    }

    /// The time, and whether recorded times in the future are ignored.
    fn time(&self, cron: &Object, operations: &[Object]) -> CronTime {
        let now = self.context.clock.timestamp().as_second();
        let may_ignore = self.future_times.may_ignore(cron, has_future_time(cron, operations, now));
        CronTime { now, may_ignore }
    }

    /// Record an event for a time that gets no operation, once.
    fn report_missed(&self, cron: &Object, missed: Option<i64>) {
        let Some(missed) = missed else { return };
        let name = meta::name(cron).to_owned();
        let last = self.missed.lock().unwrap_or_else(PoisonError::into_inner).insert(name, missed);
        let Some(time) = Timestamp::from_second(missed).ok().filter(|_| last != Some(missed)) else { return };
        let message = format!("No Operation is created for {time}: it would start later than it may");
        self.recorder.failure(cron, "MissedDeadline", message, Cause::StartDeadlineMissed);
    }

    /// Record an event for a last time that is ignored. The status has another one afterwards.
    fn report_ignored(&self, cron: &Object, ignored: Option<i64>) {
        let Some(time) = ignored.and_then(|time| Timestamp::from_second(time).ok()) else { return };
        let message = format!(
            "Ignored the last schedule time {time}, which is too far in the future: a clock that was wrong has recorded it"
        );
        self.recorder.normal(cron, "IgnoreScheduleTime", message);
    }

    async fn refuse(&self, cron: Object, operations: &[Object], invalid: &InvalidSchedule) -> Next {
        let message = format!("cannot schedule operations: {invalid}");
        let failure = FailurePoint::from(Cause::ScheduleInvalid);
        self.recorder.failure(&cron, "InvalidSchedule", &message, failure.clone());
        let inactive = Condition::new("Scheduling", Status::False, "ScheduleInvalid");
        let inactive = inactive.with_message(&message).with_failure(failure.clone());
        let synced = Condition::new("Synced", Status::False, "ReconcileError");
        let synced = synced.with_message(message).with_failure(failure);
        self.conclude(cron, operations, [inactive, synced], None).await
    }

    /// Create the operation that is due, if there is one, and return it.
    async fn carry_out(
        &self,
        cron: &Object,
        spec: &CronSpec,
        operations: &[Object],
        decision: &CronDecision,
    ) -> Result<Option<Object>, NotMade> {
        let Some(due) = decision.due else { return Ok(None) };
        self.check(cron, spec, operations, due).await?;
        for name in &decision.replaced {
            self.children.delete(cron, name, None, "ReplaceRunningOperation").await?;
        }
        let operation = operation_of_cron(cron, due);
        match self.children.create(cron, &operation).await {
            Ok(_) => Ok(Some(operation)),
            // It exists for this time: creating it twice is the same as once.
            Err(error) if error.is_already_exists() => Ok(Some(operation)),
            Err(error) => {
                let message = self.children.not_created(cron, meta::name(&operation), &error);
                Err(NotMade::Refused(message))
            }
        }
    }

    /// Check a decision with the API server: our caches may be behind, most of all just after a change of the leader.
    async fn check(
        &self,
        cron: &Object,
        spec: &CronSpec,
        operations: &[Object],
        due: i64,
    ) -> Result<(), Next> {
        let path = ObjectPath { resource: self.crons.resource(), namespace: "", name: meta::name(cron) };
        let live = self.context.cluster.get_object(path).await.map_err(|error| unreadable(cron, &error))?;
        let Some(live) = live.filter(|live| meta::uid(live) == meta::uid(cron)) else {
            return Err(Next::Rest);
        };
        let time = self.time(cron, operations);
        let names = match check_cron(&live, spec.policy, operations, due, time) {
            CronCheck::Current => return Ok(()),
            CronCheck::AlreadyMade => return Err(Next::Conflict),
            CronCheck::UnlessThereIs(names) => names,
        };
        for name in names {
            let found = self.children.get(&name).await.map_err(|error| unreadable(cron, &error))?;
            if found.is_some() {
                return Err(Next::Conflict);
            }
        }
        Ok(())
    }

    /// Write the status.
    async fn conclude(
        &self,
        mut cron: Object,
        operations: &[Object],
        conditions: [Condition; 2],
        pause: Option<Duration>,
    ) -> Next {
        let status = self.status(&cron, operations, conditions);
        match write_status(&self.context.cluster, &self.crons, &mut cron, status).await {
            Err(next) => next,
            Ok(()) => pause.map_or(Next::Rest, Next::After),
        }
    }

    fn status(&self, cron: &Object, operations: &[Object], conditions: [Condition; 2]) -> Object {
        let mut status = status_with(cron, conditions, &self.context.clock.now());
        report_operations(&mut status, operations);
        let last = last_time_to_record(cron, operations, self.time(cron, operations));
        if let Some(time) = last.and_then(|last| Timestamp::from_second(last).ok()) {
            status.insert("lastScheduleTime".to_owned(), time.to_string().into());
        }
        status
    }
}

fn unreadable(cron: &Object, error: &Error) -> Next {
    warn!(name = meta::name(cron), error = chain(error), "cannot list the Operations of a CronOperation");
    Next::Retry
}

/// The time until a second since 1970.
fn until(second: i64, now: Timestamp) -> Duration {
    let then = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
    Duration::try_from(then.duration_since(now)).unwrap_or_default().min(LONGEST_SLEEP)
}
