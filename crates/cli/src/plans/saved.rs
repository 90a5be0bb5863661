//! A plan in a file, with the request that it was made for.
//!
//! The file has the objects as their files have them, Secrets included: only its owner may read it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use ferroplane_controllers::PlanRequest;
use ferroplane_engine::changes::ChangePlan;
use serde::{Deserialize, Serialize};

const API_VERSION: &str = "ferroplane.io/v1alpha1";
const KIND: &str = "SavedPlan";

/// A plan that was saved.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SavedPlan {
    api_version: String,
    kind: String,
    pub(crate) request: PlanRequest,
    pub(crate) plan: ChangePlan,
}

/// What says how the rest of a file is to be read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SavedPlanVersion {
    api_version: String,
    kind: String,
}

impl SavedPlan {
    pub(crate) fn new(request: PlanRequest, plan: ChangePlan) -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), request, plan }
    }

    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let read = || format!("cannot read the plan `{}`", path.display());
        let bytes = std::fs::read(path).with_context(read)?;
        // First and alone: a plan of another release may have fields that this one does not know.
        let version: SavedPlanVersion = serde_json::from_slice(&bytes).with_context(read)?;
        if version.api_version != API_VERSION || version.kind != KIND {
            bail!("`{}` is not a plan of this release: make it again with `ferroplane diff`", path.display());
        }
        serde_json::from_slice(&bytes).with_context(read)
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let written = || format!("cannot write the plan `{}`", path.display());
        // Another file that is there may be readable for everybody, and would stay so.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(written);
            }
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.with_context(written)?;
        file.write_all(serde_json::to_string_pretty(self)?.as_bytes()).with_context(written)?;
        file.sync_all().with_context(written)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refusal(file: &Value) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plan.json");
        std::fs::write(&path, file.to_string()).unwrap();
        format!("{:#}", SavedPlan::read(&path).unwrap_err())
    }

    #[test]
    fn saved_plan_can_be_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plan.json");
        let plan = ChangePlan { considered: 3, ..ChangePlan::default() };
        SavedPlan::new(PlanRequest::default(), plan.clone()).write(&path).unwrap();
        assert_eq!(SavedPlan::read(&path).unwrap().plan, plan);
    }

    #[test]
    fn plan_of_another_release_is_refused_by_its_version() {
        let later = json!({
            "apiVersion": "ferroplane.io/v1beta1", "kind": "SavedPlan", "signature": "x",
            "request": {"objects": [], "owner": "me"}, "plan": "compressed",
        });
        for file in [later, json!({"kind": "SavedPlan"}), json!({})] {
            let refusal = refusal(&file);
            assert!(
                refusal.ends_with("is not a plan of this release: make it again with `ferroplane diff`"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn unknown_field_of_a_plan_of_this_release_is_refused() {
        let refusal = refusal(&json!({"apiVersion": API_VERSION, "kind": KIND, "signature": "x"}));
        assert!(refusal.contains("unknown field `signature`"), "{refusal}");
    }
}
