//! Reports what a start would do to a cluster, and changes nothing.
//!
//! # Guarantees
//! * The way to the API server that is used here lets no write through.

use anyhow::Context as _;
use ferroplane_client::{ApiClient, ObjectPath, Resource};
use ferroplane_controllers::{
    Counted, CredentialsStanding, OtherControlPlanes, Standing, Term, count_objects, credentials_standing,
    definitions_standing, find_other_control_planes, standing,
};
use jiff::Timestamp;

use super::Configuration;
use super::initialise::{names, wanted_webhooks};
use super::site::Site;
use crate::Verdict;
use crate::terminal::Terminal;

/// Reports what would be done. The result is negative if a start would be refused, because other controllers run on the cluster.
pub(super) async fn tell(configuration: &Configuration, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
    // A term that never begins.
    let site = Site::connect(configuration, Term::new())?;
    let (text, verdict) = terminal.wait("asking the API server", report(configuration, &site)).await?;
    terminal.text(&terminal.wrapped(&text))?;
    Ok(verdict)
}

/// The text about what would be done, and whether a start would be refused.
async fn report(configuration: &Configuration, site: &Site) -> anyhow::Result<(String, Verdict)> {
    let cluster = ApiClient::new(site.fenced.clone());
    let reach = || format!("cannot reach the API server at {}; is it running?", site.server);
    let company = find_other_control_planes(&cluster, &configuration.namespace, Timestamp::now())
        .await
        .with_context(reach)?;
    let mut text = format!("On {}, in the namespace `{}`:\n", site.server, configuration.namespace);
    text += &changes(configuration, &cluster).await?;
    text += "\nControllers that run there:\n";
    text += &report_company(&company);
    let found = count_objects(&cluster).await.context("cannot count the objects")?;
    if !found.is_empty() {
        text += "\nObjects that exist:\n";
        text += &report_counts(&found, configuration.packages.is_some());
    }
    let mut objection = company.objection();
    if objection.is_none() && !has_namespace(&cluster, &configuration.namespace).await {
        objection = Some(no_namespace(&configuration.namespace));
    }
    text += &match &objection {
        Some(objection) => format!("\nIt would refuse to start: {objection}\n"),
        None => "\nIt would start. Nothing was changed.\n".to_owned(),
    };
    Ok((text, if objection.is_some() { Verdict::No } else { Verdict::Yes }))
}

/// Whether the namespace exists. A user who may not look is in it, or has been notified that it is there.
async fn has_namespace(cluster: &ApiClient, name: &str) -> bool {
    let resource = Resource {
        api_version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        plural: "namespaces".to_owned(),
        is_namespaced: false,
    };
    let path = ObjectPath { resource: &resource, namespace: "", name };
    !matches!(cluster.get(path).await, Ok(None))
}

/// A start would fail to write its Secrets.
fn no_namespace(name: &str) -> String {
    format!(
        "there is no namespace `{name}`; create it with `kubectl create namespace {name}`, or name another one with --namespace"
    )
}

async fn changes(configuration: &Configuration, cluster: &ApiClient) -> anyhow::Result<String> {
    let mut text = String::new();
    let definitions = definitions_standing(cluster).await.context("cannot check the CRDs")?;
    let is_quiet = |found: &Standing| *found == Standing::Same;
    let quiet = definitions.iter().filter(|(_, found)| is_quiet(found)).count();
    for (name, found) in definitions.iter().filter(|(_, found)| !is_quiet(found)) {
        text += &line(*found, "CustomResourceDefinition", name);
    }
    if quiet > 0 {
        text += &format!("  leave    {quiet} CustomResourceDefinitions as they are\n");
    }
    let secrets = credentials_standing(cluster, &names(configuration), Timestamp::now()).await;
    let CredentialsStanding { secrets, authority } = secrets.context("cannot check the certificates")?;
    for (name, found) in &secrets {
        text += &line(*found, "Secret", name);
    }
    let (authority, secret) = authority.unwrap_or_default();
    for wanted in wanted_webhooks(configuration, &authority, &secret) {
        let found = standing(cluster, &wanted).await.context("cannot check the webhooks")?;
        text += &line(found, "ValidatingWebhookConfiguration", ferroplane_api::meta::name(&wanted));
    }
    Ok(text)
}

fn line(found: Standing, kind: &str, name: &str) -> String {
    let what = match found {
        Standing::Missing => "create  ",
        Standing::Different => "change  ",
        Standing::Same | Standing::Newer | Standing::Foreign => "leave   ",
    };
    let why = match found {
        Standing::Newer => ", which is of a newer version",
        Standing::Foreign => ", which is Kanister's",
        _ => "",
    };
    format!("  {what} {kind} `{name}`{why}\n")
}

fn report_company(company: &OtherControlPlanes) -> String {
    let mut text = String::new();
    for deployed in &company.deployed {
        let (namespace, name, replicas) = (&deployed.namespace, &deployed.name, deployed.replicas);
        text += &format!("  Crossplane: Deployment `{name}` in `{namespace}`, {replicas} replicas\n");
    }
    for led in &company.led {
        let whose = if led.is_ours() { "Ferroplane" } else { "Crossplane" };
        let state = if led.is_fresh { "renewed lately" } else { "not renewed for long" };
        let (holder, lease, namespace) = (&led.holder, &led.lease, &led.namespace);
        text += &format!("  {whose}: `{holder}` holds the lease `{lease}` in `{namespace}`, {state}\n");
    }
    if company.is_embedded {
        text += "  the controllers of `ferroplane up`, in the process of the API server\n";
    }
    if text.is_empty() { "  none found\n".to_owned() } else { text }
}

fn report_counts(found: &[Counted], installs_packages: bool) -> String {
    let about = if installs_packages {
        "installed packages are managed from now on"
    } else {
        "installed packages keep running, but are not updated"
    };
    let mut text = String::new();
    for Counted { what, count, names, is_package } in found {
        text += &format!("  {count:6} {what}\n");
        if *is_package && *count > 0 {
            let names = names.join(", ");
            text += &format!("         {names}: {about}\n");
        }
    }
    text
}
