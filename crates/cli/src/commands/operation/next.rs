//! `ferroplane operation next`: shows the next times of a schedule.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::ArgGroup;
use ferroplane_api::{Object, meta};
use ferroplane_engine::operation::{CronSpec, last_time};
use ferroplane_golang::cron::Schedule;
use ferroplane_offline::manifest::Files;
use ferroplane_offline::times;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use serde_json::json;

use crate::Verdict;
use crate::client::Access;
use crate::explain::ask;
use crate::operations::Operations;
use crate::recordings::parse_time;
use crate::terminal::Terminal;

/// Show the next times of a schedule
///
/// The schedule is that of a CronOperation on a control plane, of one in a file, or one on the command line.
/// `@every` counts from the last operation of a CronOperation on a control plane, or from its creation, and otherwise from --after.
///
/// Exit codes: 0 success; 3 the CronOperation is suspended; 1 error, such as a schedule that matches no time
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("where").required(true).args(["name", "file", "schedule"])))]
#[command(after_help = "Examples:
  ferroplane operation next nightly
  ferroplane operation next -f cron-operation.yaml --count 10
  ferroplane operation next --schedule '0 3 * * *' --time-zone Europe/Berlin")]
pub(crate) struct Next {
    /// The name of a CronOperation
    name: Option<String>,

    /// A file with a CronOperation, or `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// A schedule: five fields, `@daily` and the like, or `@every 90m`
    #[arg(long, value_name = "CRONTAB")]
    schedule: Option<String>,

    /// The zone of --schedule [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "schedule", conflicts_with_all = ["name", "file"])]
    time_zone: Option<String>,

    /// How many times to show
    #[arg(short, long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    count: u16,

    /// Show times after this one: a timestamp (2026-01-31T12:00:00Z) [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    after: Option<Timestamp>,

    #[command(flatten)]
    access: Access,
}

impl Next {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let cron = self.cron(terminal)?;
        let spec = CronSpec::of(&cron);
        let schedule = spec.schedule.map_err(|invalid| anyhow::anyhow!("{invalid}"));
        let schedule = schedule.context("cannot read the schedule")?;
        let now = Timestamp::now();
        let after = self.after.unwrap_or(now).as_second();
        let mut text = String::new();
        for time in times_of(&schedule, &cron, after, now.as_second()).take(self.count.into()) {
            text.push_str(&line(time, schedule.offset(time), now)?);
        }
        if text.is_empty() {
            bail!("no time matches the schedule");
        }
        terminal.text(&text)?;
        if spec.is_suspended {
            terminal
                .warn(&format!("CronOperation `{}` is suspended: it makes no operations", meta::name(&cron)));
            return Ok(Verdict::No);
        }
        Ok(Verdict::Yes)
    }

    fn cron(&self, terminal: &mut Terminal) -> anyhow::Result<Object> {
        if let Some(schedule) = &self.schedule {
            let cron = json!({"spec": {"schedule": schedule, "timeZone": self.time_zone}});
            return Ok(cron.as_object().cloned().unwrap_or_default());
        }
        if let Some(file) = &self.file {
            let found = Files::default().load(file)?;
            let is_cron = |object: &&Object| meta::kind(object) == "CronOperation";
            let found: Vec<_> = found.iter().map(|manifest| manifest.object().clone()).collect();
            let cron = found.iter().find(is_cron).cloned();
            return cron.with_context(|| format!("{}: there is no CronOperation", file.display()));
        }
        let name = self.name.as_deref().unwrap_or_default();
        ask(terminal, async { Operations::connect(&self.access)?.get("CronOperation", name).await })
    }
}

/// The times of a schedule after a second since 1970.
fn times_of(schedule: &Schedule, cron: &Object, after: i64, now: i64) -> impl Iterator<Item = i64> {
    // One that is on no control plane yet has no last time, and none of its creation.
    let is_live = cron.get("metadata").is_some_and(|metadata| metadata.get("creationTimestamp").is_some());
    let last = is_live.then(|| last_time(cron, &[], now));
    let first = last.map_or_else(|| schedule.next(after), |last| schedule.next_from(last, after));
    std::iter::successors(first, |time| schedule.next(*time))
}

/// A time in the zone of the schedule, in UTC, and how far away it is.
fn line(second: i64, offset: i64, now: Timestamp) -> anyhow::Result<String> {
    let time = Timestamp::from_second(second).context("the time is out of range")?;
    let offset = Offset::from_seconds(i32::try_from(offset)?).context("the zone is out of range")?;
    let told = time.to_zoned(TimeZone::fixed(offset)).strftime("%a %Y-%m-%d %H:%M:%S %:z").to_string();
    let distance = if time > now {
        format!("in {}", times::age(now, time))
    } else {
        format!("{} ago", times::age(time, now))
    };
    Ok(format!("{told}   {time}   {distance}\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn delay_is_counted_from_the_last_operation_or_the_creation_as_the_control_plane_counts_it() {
        let every = Schedule::parse("@every 10m").unwrap();
        let times = |metadata: Value, status: Value| -> Vec<_> {
            let cron = json!({"metadata": metadata, "status": status}).as_object().unwrap().clone();
            times_of(&every, &cron, 780, 780).take(2).collect()
        };
        let created = json!({"creationTimestamp": "1970-01-01T00:00:30Z"});
        assert_eq!(times(created.clone(), json!({})), [1230, 1830]);
        assert_eq!(times(created, json!({"lastScheduleTime": "1970-01-01T00:10:00Z"})), [1200, 1800]);
        assert_eq!(times(json!({}), json!({})), [1380, 1980]);
    }

    #[test]
    fn time_is_shown_in_its_zone_in_utc_and_with_its_distance() {
        let told = |now: &str| line(1_711_846_800, 7_200, now.parse().unwrap()).unwrap();
        let times = "Sun 2024-03-31 03:00:00 +02:00   2024-03-31T01:00:00Z";
        assert_eq!(told("2024-03-30T22:00:00Z"), format!("{times}   in 3h\n"));
        assert_eq!(told("2024-04-03T05:00:00Z"), format!("{times}   3d4h ago\n"));
    }
}
