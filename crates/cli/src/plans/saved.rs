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

impl SavedPlan {
    pub(crate) fn new(request: PlanRequest, plan: ChangePlan) -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), request, plan }
    }

    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let read = || format!("cannot read the plan `{}`", path.display());
        let saved: Self =
            serde_json::from_slice(&std::fs::read(path).with_context(read)?).with_context(read)?;
        if saved.api_version != API_VERSION || saved.kind != KIND {
            bail!("`{}` is not a plan of this release: make it again with `ferroplane diff`", path.display());
        }
        Ok(saved)
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
