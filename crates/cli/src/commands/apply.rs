//! `ferroplane apply`: make a saved plan true.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use ferroplane_api::{Object, meta};
use ferroplane_client::{ApiClient, ObjectPath, Resource};
use ferroplane_controllers::apply_file;
use ferroplane_engine::changes::{ChangePlan, ObjectName, agree_on, moved};

use crate::Verdict;
use crate::client::{Access, PlaneAccess};
use crate::explain::block_on;
use crate::plans::saved::SavedPlan;
use crate::plans::{add_namespaces, ask};
use crate::terminal::Terminal;

/// How often an object is applied again that controllers keep writing to.
const ATTEMPTS: u32 = 10;

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
            terminal.wait_for_server(add_namespaces(&mut saved.request.objects, &connection)).await?;
            let now = ask(&planner, &saved.request, terminal).await?;
            if let Some(reason) = difference(&saved.plan, &now) {
                terminal.failure(&reason);
                return Ok(Verdict::No);
            }
            // All of them are read before the first is applied: controllers react to it, and write to the others.
            let read = read_all(&connection.client, &saved.request.objects);
            let objects = terminal.wait_for_server(read).await?;
            if let Some(moved) = objects.iter().find(|object| object.has_moved(&now)) {
                terminal.failure(&out_of_date(&moved.name.to_string()));
                return Ok(Verdict::No);
            }
            for object in objects {
                let line = terminal.wait_for_server(object.apply(&connection.client)).await?;
                terminal.line(&line);
            }
            Ok(Verdict::Yes)
        })
    }
}

async fn read_all<'a>(client: &ApiClient, files: &'a [Object]) -> anyhow::Result<Vec<Planned<'a>>> {
    let mut objects = Vec::new();
    for file in files {
        objects.push(Planned::read(client, file).await?);
    }
    Ok(objects)
}

/// Why a plan is not what it was, if it is not.
fn difference(saved: &ChangePlan, now: &ChangePlan) -> Option<String> {
    if saved.basis == now.basis && saved.composites == now.composites && saved.proposed == now.proposed {
        return None;
    }
    let names: Vec<_> = moved(saved, now).iter().take(10).map(ToString::to_string).collect();
    let what = if names.is_empty() { "an object that it was made from".to_owned() } else { names.join(", ") };
    Some(out_of_date(&what))
}

fn out_of_date(what: &str) -> String {
    format!("the plan is out of date: {what} changed since it was made; make it again with `ferroplane diff`")
}

/// An object of a plan, and what was stored when the plan was compared.
struct Planned<'a> {
    name: ObjectName,
    file: &'a Object,
    resource: Arc<Resource>,
    before: Option<Object>,
}

impl<'a> Planned<'a> {
    async fn read(client: &ApiClient, file: &'a Object) -> anyhow::Result<Self> {
        let (api_version, kind) = (meta::api_version(file), meta::kind(file));
        let resource = client.resource(api_version, kind).await?;
        let resource = resource.with_context(|| format!("there is no kind {kind} in {api_version}"))?;
        let mut planned = Self { name: ObjectName::of(file), file, resource, before: None };
        planned.before = planned.stored(client).await?;
        Ok(planned)
    }

    fn path(&self) -> ObjectPath<'_> {
        let (namespace, name) = (meta::namespace(self.file), meta::name(self.file));
        ObjectPath { resource: &self.resource, namespace, name }
    }

    async fn stored(&self, client: &ApiClient) -> anyhow::Result<Option<Object>> {
        client.get_object(self.path()).await.with_context(|| format!("cannot read {}", self.name))
    }

    /// Whether it is not the version that the plan was made from.
    fn has_moved(&self, plan: &ChangePlan) -> bool {
        let planned = plan.versions.iter().find(|version| version.object == self.name);
        let planned = planned.map(|version| version.resource_version.as_str());
        let stored = self.before.as_ref().map(meta::resource_version);
        planned.is_some_and(|planned| planned != stored.unwrap_or_default())
    }

    /// Apply it, and say what happened. It fails if another client has changed a field of the file meanwhile. Controllers that react
    /// to objects before it may have written other fields.
    async fn apply(self, client: &ApiClient) -> anyhow::Result<String> {
        let mut version = self.before.as_ref().map(|before| meta::resource_version(before).to_owned());
        let mut attempts = 0;
        let after = loop {
            let applied = apply_file(client, self.path(), self.file, version.as_deref()).await;
            match applied {
                Ok((_, after)) => break after,
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {
                    attempts += 1;
                    let now = self.stored(client).await?;
                    if !self.is_free_to_apply(now.as_ref()) {
                        bail!("cannot apply {}: another client changed it at the same time", self.name);
                    }
                    version = now.as_ref().map(|now| meta::resource_version(now).to_owned());
                }
                Err(error) => return Err(error).with_context(|| format!("cannot apply {}", self.name)),
            }
        };
        let what = match &version {
            None => "created",
            Some(version) if version == meta::resource_version(&after) => "unchanged",
            Some(_) => "changed",
        };
        Ok(format!("{} {what}", self.name))
    }

    fn is_free_to_apply(&self, now: Option<&Object>) -> bool {
        match (&self.before, now) {
            (Some(before), Some(now)) => {
                meta::uid(before) == meta::uid(now) && agree_on(self.file, before, now)
            }
            (before, now) => before.is_none() && now.is_none(),
        }
    }
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
