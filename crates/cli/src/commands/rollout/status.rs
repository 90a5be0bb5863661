//! `ferroplane rollout status`: shows the state of rollouts.

use std::time::Duration;

use ferroplane_api::{
    FunctionRolloutStatus, Object, RevisionCalls, RolloutCalls, RolloutCounts, RolloutState, meta,
};
use ferroplane_offline::times;
use jiff::Timestamp;

use crate::Verdict;
use crate::client::Access;
use crate::explain::block_on;
use crate::functions::table::table;
use crate::operations::created;
use crate::rollouts::{Rollouts, refusal, status, target};
use crate::terminal::{Terminal, until_unread};

/// How often a rollout is read while it is watched.
const INTERVAL: Duration = Duration::from_millis(500);

/// Show the state of rollouts
///
/// With a name it shows the waves, the numbers of composite resources, and how the new revision differs. With --watch it prints each change until the
/// rollout has ended.
///
/// Exit codes: 0 all composite resources call the revision that they should; 3 a rollout is under way, failed or refused; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane rollout status
  ferroplane rollout status own
  ferroplane rollout status own --watch")]
pub(crate) struct Status {
    /// The name of a FunctionRollout [default: all]
    name: Option<String>,

    /// Print each change until the rollout has ended
    #[arg(short, long, requires = "name")]
    watch: bool,

    #[command(flatten)]
    access: Access,
}

impl Status {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        block_on(async {
            let rollouts = Rollouts::connect(&self.access)?;
            match &self.name {
                None => {
                    let all = terminal.wait_for_server(rollouts.list()).await?;
                    list(&all, terminal)
                }
                Some(name) if self.watch => watch(&rollouts, name, terminal).await,
                Some(name) => {
                    let rollout = terminal.wait_for_server(rollouts.get(name)).await?;
                    let text = terminal.wrapped(&describe(&rollout, Timestamp::now()));
                    terminal.text(&text)?;
                    Ok(verdict(&rollout))
                }
            }
        })
    }
}

fn list(rollouts: &[Object], terminal: &mut Terminal) -> anyhow::Result<Verdict> {
    if rollouts.is_empty() {
        terminal.note("there are no FunctionRollouts");
        return Ok(Verdict::Yes);
    }
    let head = ["NAME", "TARGET", "STATE", "CANDIDATE", "MOVED", "AGE", "MESSAGE"];
    let now = Timestamp::now();
    let rows: Vec<_> = rollouts.iter().map(|rollout| row(rollout, now)).collect();
    terminal.text(&table(&head, &rows, terminal.width()))?;
    let is_no = rollouts.iter().any(|rollout| verdict(rollout) == Verdict::No);
    Ok(if is_no { Verdict::No } else { Verdict::Yes })
}

fn row(rollout: &Object, now: Timestamp) -> Vec<String> {
    let status = status(rollout);
    let (state, message) = match refusal(rollout) {
        Some(message) => ("Refused", message),
        None => (status.state.as_str(), status.message.as_str()),
    };
    vec![
        meta::name(rollout).to_owned(),
        target(rollout),
        state.to_owned(),
        status.candidate.clone().unwrap_or_default(),
        format!("{}/{}", status.composites.moved, status.composites.total),
        times::age_of(created(rollout), now),
        message.to_owned(),
    ]
}

async fn watch(rollouts: &Rollouts, name: &str, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
    let mut last = String::new();
    loop {
        let rollout = terminal.wait_for_server(rollouts.get(name)).await?;
        let line = line(&rollout);
        if last != line {
            terminal.text(&format!("{line}\n"))?;
            last = line;
        }
        let status = status(&rollout);
        let is_under_way = status.candidate.is_some() || status.state == RolloutState::RollingBack;
        if !is_under_way {
            return Ok(verdict(&rollout));
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = until_unread() => return Ok(verdict(&rollout)),
        }
    }
}

/// What a rollout that is watched shows: its wave, the numbers of composite resources, and what the gates compare.
fn line(rollout: &Object) -> String {
    let FunctionRolloutStatus { state, wave, composites, calls, message, .. } = status(rollout);
    let RolloutCounts { moved, total, ready, failed, .. } = composites;
    let mut line = format!("{:12} ", state.as_str());
    if wave > 0 {
        line += &format!("wave {wave} of {}, ", waves(rollout).len());
    }
    line += &format!("{moved}/{total} moved, {ready} ready, {failed} failed");
    if let Some(compared) = compared(&calls) {
        line += &format!("; calls: {compared}");
    }
    if message.is_empty() { line } else { format!("{line}: {message}") }
}

fn waves(rollout: &Object) -> Vec<&str> {
    let waves = rollout.get("spec").and_then(|spec| spec.get("waves")?.as_array());
    waves.into_iter().flatten().filter_map(|wave| wave.as_str()).collect()
}

/// Calls of both revisions, once there are some of the new one.
fn compared(calls: &RolloutCalls) -> Option<String> {
    let RolloutCalls { stable, candidate } = calls;
    (candidate.total > 0).then(|| format!("{}; {} of the stable revision", of(candidate), of(stable)))
}

/// Everything about a rollout, a line for each.
fn describe(rollout: &Object, now: Timestamp) -> String {
    let status = status(rollout);
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let differences: Vec<_> =
        status.differences.iter().map(|(class, count)| format!("{class} {count}")).collect();
    let mut rows = vec![
        ("Target", target(rollout)),
        (
            "State",
            refusal(rollout).map_or_else(|| status.state.as_str().to_owned(), |it| format!("Refused: {it}")),
        ),
        ("Message", status.message.clone()),
        ("Stable", or_none(&status.stable)),
        ("Candidate", or_none(&status.candidate)),
    ];
    rows.extend(status.started_at.iter().map(|time| ("Started", times::with_age_of(time, now))));
    rows.push(("Wave", format!("{} of {}", status.wave, waves(rollout).join(", "))));
    let RolloutCounts { moved, total, ready, failed, manual } = &status.composites;
    rows.push((
        "Composites",
        format!("{moved} of {total} moved, {ready} ready, {failed} failed; {manual} on Manual are not moved"),
    ));
    if !differences.is_empty() {
        rows.push(("Differences", differences.join(", ")));
    }
    rows.extend(compared(&status.calls).map(|compared| ("Calls", compared)));
    for (index, example) in status.examples.iter().enumerate() {
        rows.push(("Example", example.clone()));
        let recording = status.recordings.get(index).filter(|recording| !recording.is_empty());
        rows.extend(recording.map(|recording| ("", format!("ferroplane replay show {recording}"))));
    }
    rows.extend(status.rejected.iter().map(|rejected| ("Rejected", rejected.clone())));
    let line = |(name, value): &(&str, String)| {
        let name = if name.is_empty() { String::new() } else { format!("{name}:") };
        format!("{name:13}{value}\n")
    };
    rows.iter().map(line).collect()
}

/// Calls of a revision, in numbers.
fn of(calls: &RevisionCalls) -> String {
    let RevisionCalls { total, errors, p99_milliseconds } = calls;
    format!("{total}, {errors} failed, 99 of 100 within {p99_milliseconds} ms")
}

fn verdict(rollout: &Object) -> Verdict {
    let is_settled = matches!(status(rollout).state, RolloutState::Idle | RolloutState::Promoted);
    if is_settled && refusal(rollout).is_none() { Verdict::Yes } else { Verdict::No }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rollout_is_described_in_lines() {
        let rollout = json!({
            "metadata": {"name": "own"}, "spec": {"functionRef": {"name": "own"}, "waves": ["1", "100%"]},
            "status": {
                "state": "Progressing", "message": "Wave 1: 1 of 4 composite resources have been moved", "stable": "own-1",
                "candidate": "own-2", "startedAt": "2026-01-01T00:00:00Z", "wave": 1, "composites": {"total": 4, "moved": 1, "ready": 1, "manual": 2},
                "differences": {"Changed": 1}, "examples": ["Site blog: changes `a`"], "recordings": ["Site/blog --at 2026-01-01T00:00:00Z"],
                "calls": {"stable": {"total": 30, "p99Milliseconds": 3}, "candidate": {"total": 2, "errors": 1, "p99Milliseconds": 9}},
            },
        });
        let expected = "\
Target:      Function/own
State:       Progressing
Message:     Wave 1: 1 of 4 composite resources have been moved
Stable:      own-1
Candidate:   own-2
Started:     STARTED (5m ago)
Wave:        1 of 1, 100%
Composites:  1 of 4 moved, 1 ready, 0 failed; 2 on Manual are not moved
Differences: Changed 1
Calls:       2, 1 failed, 99 of 100 within 9 ms; 30, 0 failed, 99 of 100 within 3 ms of the stable revision
Example:     Site blog: changes `a`
             ferroplane replay show Site/blog --at 2026-01-01T00:00:00Z
";
        let rollout = rollout.as_object().unwrap();
        let started: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        assert_eq!(describe(rollout, now), expected.replace("STARTED", &times::local(started)));
        assert_eq!(verdict(rollout), Verdict::No);
        let watched = "Progressing  wave 1 of 2, 1/4 moved, 1 ready, 0 failed; calls: 2, 1 failed, 99 of 100 within 9 ms; \
                       30, 0 failed, 99 of 100 within 3 ms of the stable revision: Wave 1: 1 of 4 composite resources have been moved";
        assert_eq!(line(rollout), watched);
        let idle = json!({"metadata": {"name": "own"}, "status": {"state": "Idle"}});
        assert_eq!(line(idle.as_object().unwrap()), "Idle         0/0 moved, 0 ready, 0 failed");
    }
}
