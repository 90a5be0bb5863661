//! What the comparison found: printed in full, and as a chapter for the documentation.

use std::collections::BTreeMap;
use std::fmt;

use super::accepted::ACCEPTED;
use super::difference::{count_values, differences};
use super::snapshot::Snapshot;

/// How one moment compares.
struct Compared {
    title: String,
    objects: usize,
    values: usize,
    accepted: usize,
    unexplained: usize,
}

/// How both sides compare.
pub(super) struct Report {
    moments: Vec<Compared>,
    /// How many values each accepted difference explains, by name.
    explained: BTreeMap<&'static str, usize>,
    /// What nothing explains, described.
    unexplained: Vec<String>,
}

impl Report {
    /// Compare the snapshots of both sides, moment by moment.
    pub(super) fn of(theirs: &[(String, Snapshot)], ours: &[(String, Snapshot)]) -> Self {
        assert_eq!(theirs.len(), ours.len(), "both sides have the same moments");
        let explained = ACCEPTED.iter().map(|accepted| (accepted.name, 0)).collect();
        let mut report = Self { moments: Vec::new(), explained, unexplained: Vec::new() };
        for ((title, theirs), (other, ours)) in theirs.iter().zip(ours) {
            assert_eq!(title, other, "both sides have the same moments");
            report.add(title, theirs, ours);
        }
        report
    }

    fn add(&mut self, title: &str, theirs: &Snapshot, ours: &Snapshot) {
        let found = differences(title, theirs, ours);
        let before = self.unexplained.len();
        for difference in &found {
            match ACCEPTED.iter().find(|accepted| (accepted.explains)(difference)) {
                Some(accepted) => *self.explained.entry(accepted.name).or_default() += 1,
                None => self.unexplained.push(difference.describe()),
            }
        }
        let unexplained = self.unexplained.len() - before;
        self.moments.push(Compared {
            title: title.to_owned(),
            objects: theirs.len(),
            values: theirs.values().map(count_values).sum(),
            accepted: found.len() - unexplained,
            unexplained,
        });
    }

    /// The figures, as Markdown.
    pub(super) fn chapter(&self) -> String {
        let mut chapter = String::from(
            "| State | Objects of Crossplane | Values in them | Different on purpose | Different without a reason |\n\
             |---|---|---|---|---|\n",
        );
        for Compared { title, objects, values, accepted, unexplained } in &self.moments {
            chapter += &format!("| {title} | {objects} | {values} | {accepted} | {unexplained} |\n");
        }
        chapter += "\n| Difference | Values | Reason |\n|---|---|---|\n";
        for accepted in ACCEPTED {
            let values = self.explained.get(accepted.name).copied().unwrap_or_default();
            chapter += &format!("| `{}` | {values} | {} |\n", accepted.name, accepted.reason);
        }
        chapter
    }

    /// Fails if both sides differ in a way that is not accepted, or if something is accepted that does not happen.
    pub(super) fn check(&self) {
        assert!(self.unexplained.is_empty(), "{} values differ without a reason", self.unexplained.len());
        let idle: Vec<_> = self.explained.iter().filter(|(_, values)| **values == 0).collect();
        assert!(idle.is_empty(), "these accepted differences explain nothing: {idle:?}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.chapter())?;
        writeln!(
            formatter,
            "{} values differ without a reason (- Crossplane, + Ferroplane)",
            self.unexplained.len()
        )?;
        self.unexplained.iter().try_for_each(|difference| writeln!(formatter, "{difference}"))
    }
}

#[test]
fn value_that_differs_without_a_reason_is_reported() {
    let side = |replicas: u32| {
        let deployment = serde_json::json!({"spec": {"replicas": replicas, "paused": false}});
        vec![("installed".to_owned(), Snapshot::from_iter([("Deployment own-1".to_owned(), deployment)]))]
    };
    let report = Report::of(&side(1), &side(2));
    assert!(report.chapter().contains("| installed | 1 | 2 | 0 | 1 |"), "{}", report.chapter());
    assert!(report.to_string().contains("Deployment own-1 /spec/replicas\n  - 1\n  + 2"), "{report}");
    assert!(Report::of(&side(1), &side(1)).unexplained.is_empty());
}
