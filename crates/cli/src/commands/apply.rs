//! `ferroplane apply`: make a saved plan true.

use std::path::PathBuf;

use anyhow::Context as _;
use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, ObjectPath};
use ferroplane_controllers::apply_file;
use ferroplane_engine::changes::{ChangePlan, ObjectName, moved};

use crate::Verdict;
use crate::client::{Access, PlaneAccess};
use crate::explain::block_on;
use crate::plans::saved::SavedPlan;
use crate::plans::{add_namespaces, ask};
use crate::terminal::Terminal;

/// Apply a saved plan, if nothing has changed since
///
/// `ferroplane diff --save` saves plans. The control plane plans the same change again. If the plan, or any object that it was made from,
/// has changed, nothing is applied. A plan in which a composite resource cannot be planned is not applied either, unless --allow-refused is
/// given.
///
/// Exit codes: 0 applied; 3 refused; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane diff composition.yaml --save change.plan
  ferroplane apply change.plan")]
pub(crate) struct Apply {
    /// The plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// Apply a plan in which some composite resources cannot be planned
    #[arg(long)]
    allow_refused: bool,

    #[command(flatten)]
    access: Access,

    #[command(flatten)]
    plane: PlaneAccess,
}

impl Apply {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let mut saved = SavedPlan::read(&self.plan)?;
        if saved.plan.is_refused() && !self.allow_refused {
            terminal.failure("some composite resources cannot be planned; see --allow-refused");
            return Ok(Verdict::No);
        }
        block_on(async {
            let connection = self.access.connect()?;
            let planner = self.plane.planner(&self.access, &connection)?;
            // Before it is planned again: what is applied is what was compared.
            add_namespaces(&mut saved.request.objects, &connection).await?;
            let now = ask(&planner, &saved.request, terminal).await?;
            if let Some(reason) = difference(&saved.plan, &now) {
                terminal.failure(&reason);
                return Ok(Verdict::No);
            }
            for object in &saved.request.objects {
                apply(&connection.client, object, &now, terminal).await?;
            }
            Ok(Verdict::Yes)
        })
    }
}

/// Why a plan is not what it was, if it is not.
fn difference(saved: &ChangePlan, now: &ChangePlan) -> Option<String> {
    if saved.basis == now.basis && saved.composites == now.composites && saved.proposed == now.proposed {
        return None;
    }
    let names: Vec<_> = moved(saved, now).iter().take(10).map(ToString::to_string).collect();
    let what = if names.is_empty() { "an object that it was made from".to_owned() } else { names.join(", ") };
    Some(format!(
        "the plan is out of date: {what} changed since it was made; make it again with `ferroplane diff`"
    ))
}

async fn apply(
    client: &ApiClient,
    object: &Object,
    plan: &ChangePlan,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let (api_version, kind) = (meta::api_version(object), meta::kind(object));
    let resource = client.resource(api_version, kind).await?;
    let resource = resource.with_context(|| format!("there is no kind {kind} in {api_version}"))?;
    let name = ObjectName::of(object);
    let path =
        ObjectPath { resource: &resource, namespace: meta::namespace(object), name: meta::name(object) };
    let version = plan.versions.iter().find(|version| version.object == name);
    let version =
        version.map(|version| version.resource_version.as_str()).filter(|version| !version.is_empty());
    let applied = apply_file(client, path, object, version).await;
    let (before, after) = applied.with_context(|| format!("cannot apply {name}"))?;
    let what = match &before {
        None => "created",
        Some(before) if meta::resource_version(before) == meta::resource_version(&after) => "unchanged",
        Some(_) => "changed",
    };
    terminal.line(&format!("{name} {what}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_that_was_made_from_something_else_is_out_of_date() {
        let plan = |basis: &str| ChangePlan { basis: basis.to_owned(), ..ChangePlan::default() };
        assert_eq!(difference(&plan("a"), &plan("a")), None);
        assert!(difference(&plan("a"), &plan("b")).is_some());
    }
}
