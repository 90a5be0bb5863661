//! `ferroplane actionset create`: runs actions of a Blueprint, or continues from another ActionSet.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use ferroplane_api::{Object, meta};
use ferroplane_client::{LabelSelector, ObjectPath, Query};
use serde_json::json;

use crate::Verdict;
use crate::actions::spec::{ActionParameters, Naming, child, new};
use crate::actions::{ActionSets, targets};
use crate::client::Access;
use crate::duration;
use crate::explain::block_on;
use crate::terminal::Terminal;

/// The kinds that a selector may be about, as Kanister names them, with what they are called in the API.
const SELECTED: [(&str, &str, &str); 5] = [
    ("deployment", "apps/v1", "Deployment"),
    ("statefulset", "apps/v1", "StatefulSet"),
    ("deploymentconfig", "apps.openshift.io/v1", "DeploymentConfig"),
    ("pvc", "v1", "PersistentVolumeClaim"),
    ("namespace", "v1", "Namespace"),
];

/// Create an ActionSet, which runs an action of a Blueprint
///
/// The action runs for objects that you name, or continues from a complete ActionSet (--from). The command takes the flags of
/// `kanctl create actionset`. With --from, the new ActionSet gets the artifacts, objects, Secrets, ConfigMaps, Profile and options of the
/// old one, and also its preferred version and its labels and annotations of pods. Flags override these. References are written NAMESPACE/NAME;
/// without a namespace they are in that of the ActionSet. Lists are separated by commas.
///
/// Exit codes: 0 created or, with --wait, complete; 3 failed, or still running after the timeout; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane actionset create --action backup --blueprint mysql --deployment shop/db --profile shop/s3 --namespace shop
  ferroplane actionset create --action restore --from backup-x7k2p --namespace shop --wait
  ferroplane actionset create -a backup -b volumes --kind pvc --selector app=shop --selector-namespace shop
  ferroplane actionset create -a backup -b mysql -d shop/db -o database=orders,mode=full --dry-run")]
pub(crate) struct Create {
    /// The action of the Blueprint
    #[arg(short, long)]
    action: String,

    /// The Blueprint, in the namespace of the ActionSet
    #[arg(short, long, required_unless_present = "from")]
    blueprint: Option<String>,

    /// A complete ActionSet to continue from
    #[arg(short, long, value_name = "ACTIONSET")]
    from: Option<String>,

    /// Name of the ActionSet [default: made of the action]
    #[arg(short = 'A', long)]
    name: Option<String>,

    /// Namespace of the ActionSet [default: that of the kubeconfig]
    #[arg(short, long)]
    namespace: Option<String>,

    /// Deployments
    #[arg(short, long, value_name = "NAMESPACE/NAME", value_delimiter = ',')]
    deployment: Vec<String>,

    /// StatefulSets
    #[arg(short = 't', long, value_name = "NAMESPACE/NAME", value_delimiter = ',')]
    statefulset: Vec<String>,

    /// DeploymentConfigs
    #[arg(short = 'D', long, value_name = "NAMESPACE/NAME", value_delimiter = ',')]
    deploymentconfig: Vec<String>,

    /// Volume claims
    #[arg(short = 'v', long, value_name = "NAMESPACE/NAME", value_delimiter = ',')]
    pvc: Vec<String>,

    /// Namespaces
    #[arg(short = 'T', long, value_name = "NAME", value_delimiter = ',')]
    namespacetargets: Vec<String>,

    /// Any objects
    #[arg(short = 'O', long, value_name = "GROUP/VERSION/RESOURCE/NAMESPACE/NAME", value_delimiter = ',')]
    objects: Vec<String>,

    /// All objects of --kind with these labels
    #[arg(short = 'l', long, requires = "kind")]
    selector: Option<String>,

    /// The kind of selected objects
    #[arg(short, long, value_parser = ["deployment", "statefulset", "deploymentconfig", "pvc", "namespace"], requires = "selector")]
    kind: Option<String>,

    /// Namespace of selected objects [default: all]
    #[arg(long, value_name = "NAMESPACE", requires = "selector")]
    selector_namespace: Option<String>,

    /// ConfigMaps by the names that templates use
    #[arg(short, long, value_name = "KEY=NAMESPACE/NAME", value_delimiter = ',')]
    config_maps: Vec<String>,

    /// Secrets by the names that templates use
    #[arg(short, long, value_name = "KEY=NAMESPACE/NAME", value_delimiter = ',')]
    secrets: Vec<String>,

    /// Profile, which says where data is kept
    #[arg(short, long, value_name = "NAMESPACE/NAME")]
    profile: Option<String>,

    /// Options for templates
    #[arg(short, long, value_name = "KEY=VALUE", value_delimiter = ',')]
    options: Vec<String>,

    /// Version of functions for phases that name none [default with --from: that of the old ActionSet]
    #[arg(long, value_name = "VERSION")]
    preferred_version: Option<ferroplane_engine::versions::Version>,

    /// Labels of the ActionSet
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    labels: Vec<String>,

    /// Labels of pods that functions create
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    podlabels: Vec<String>,

    /// Annotations of pods that functions create
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    podannotations: Vec<String>,

    /// Print the ActionSet instead of creating it
    #[arg(long)]
    dry_run: bool,

    /// Do not check that the Blueprint, its action and the referenced objects exist
    #[arg(long)]
    skip_validation: bool,

    /// Wait until the ActionSet has ended
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,

    /// How long to wait
    #[arg(long, default_value = "15m", value_parser = duration::parse, requires = "wait")]
    timeout: Duration,

    #[command(flatten)]
    access: Access,
}

impl Create {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        block_on(async {
            // Printing needs no control plane, unless something has to be looked up there.
            let asks_nobody = self.dry_run && self.from.is_none() && self.selector.is_none();
            let action_sets = match (&self.namespace, asks_nobody) {
                (Some(namespace), true) => return print(&self.made_offline(namespace)?, terminal),
                _ => ActionSets::connect(&self.access, self.namespace.as_deref())?,
            };
            let made = terminal.wait_for_server(self.made(&action_sets)).await?;
            if self.dry_run {
                return print(&made, terminal);
            }
            let name = terminal.wait_for_server(self.create(&action_sets, &made)).await?;
            terminal.line(&format!("ActionSet `{name}` created in namespace `{}`", action_sets.namespace));
            if self.wait {
                return action_sets.follow(&name, self.timeout, terminal).await;
            }
            Ok(Verdict::Yes)
        })
    }

    /// Returns the name.
    async fn create(&self, action_sets: &ActionSets, made: &Object) -> anyhow::Result<String> {
        if !self.skip_validation {
            self.validate(action_sets, made).await?;
        }
        action_sets.create(made).await
    }

    fn made_offline(&self, namespace: &str) -> anyhow::Result<Object> {
        let parameters = self.parameters(namespace)?;
        new(&parameters, &self.naming(namespace)?).map_err(|problem| anyhow!(problem))
    }

    async fn made(&self, action_sets: &ActionSets) -> anyhow::Result<Object> {
        let mut parameters = self.parameters(&action_sets.namespace)?;
        parameters.objects.extend(self.selected(action_sets).await?);
        let naming = self.naming(&action_sets.namespace)?;
        let made = match &self.from {
            None => new(&parameters, &naming),
            Some(parent) => child(&action_sets.get("ActionSet", parent).await?, &parameters, &naming),
        };
        made.map_err(|problem| anyhow!(problem))
    }

    fn naming(&self, namespace: &str) -> anyhow::Result<Naming> {
        let (name, namespace) = (self.name.clone(), namespace.to_owned());
        Ok(Naming { name, namespace, labels: texts("--labels", &self.labels)? })
    }

    fn parameters(&self, namespace: &str) -> anyhow::Result<ActionParameters> {
        let keyed = |flag: &str, kind: &str, texts: &[String]| {
            let read = texts.iter().map(|text| targets::keyed(kind, text, namespace));
            let read = read.collect::<Result<Vec<_>, _>>().map_err(|problem| anyhow!("{flag}: {problem}"))?;
            Ok::<_, anyhow::Error>(
                read.into_iter().map(|(key, value)| (key, value.into())).collect::<Object>(),
            )
        };
        let profile =
            self.profile.as_deref().map(|text| targets::known("Profile", text, namespace)).transpose();
        let mut profile = profile.map_err(|problem| anyhow!("--profile: {problem}"))?;
        if let Some(profile) = &mut profile {
            profile.insert("apiVersion".to_owned(), "v1alpha1".into());
            profile.insert("group".to_owned(), ferroplane_api::keys::KANISTER.into());
        }
        Ok(ActionParameters {
            action: self.action.clone(),
            blueprint: self.blueprint.clone(),
            objects: self.named_objects(namespace)?,
            config_maps: keyed("--config-maps", "ConfigMap", &self.config_maps)?,
            secrets: keyed("--secrets", "Secret", &self.secrets)?,
            profile,
            options: texts("--options", &self.options)?,
            preferred_version: self.preferred_version.as_ref().map(ToString::to_string),
            pod_labels: texts("--podlabels", &self.podlabels)?,
            pod_annotations: texts("--podannotations", &self.podannotations)?,
        })
    }

    fn named_objects(&self, namespace: &str) -> anyhow::Result<Vec<Object>> {
        let known = [
            ("deployment", &self.deployment),
            ("statefulset", &self.statefulset),
            ("deploymentconfig", &self.deploymentconfig),
            ("pvc", &self.pvc),
        ];
        let known = known.into_iter().flat_map(|(kind, texts)| {
            texts.iter().map(move |text| (kind, targets::known(kind, text, namespace)))
        });
        let namespaces =
            self.namespacetargets.iter().map(|name| ("namespacetargets", targets::of_namespace(name)));
        let others = self.objects.iter().map(|text| ("objects", targets::any(text)));
        let all = known.chain(namespaces).chain(others);
        all.map(|(flag, read)| read.map_err(|problem| anyhow!("--{flag}: {problem}"))).collect()
    }

    /// The objects that the selector finds.
    async fn selected(&self, action_sets: &ActionSets) -> anyhow::Result<Vec<Object>> {
        let (Some(selector), Some(kind)) = (&self.selector, &self.kind) else { return Ok(Vec::new()) };
        let (_, api_version, api_kind) =
            SELECTED.into_iter().find(|(name, ..)| name == kind).context("the kind is one of the list")?;
        let resource = action_sets.client.resource(api_version, api_kind).await;
        let resource = resource.with_context(|| format!("cannot find the kind {api_kind}"))?;
        let resource = resource.with_context(|| format!("the API server has no kind {api_kind}"))?;
        let namespace =
            self.selector_namespace.as_deref().filter(|_| resource.is_namespaced).unwrap_or_default();
        let labels = equal_labels(selector)?;
        let query = Query { labels: Some(&labels), ..Query::default() };
        let found = action_sets.client.list_objects(&resource, namespace, &query).await;
        let found =
            found.with_context(|| format!("cannot list every {api_kind} with the labels {selector}"))?;
        if found.is_empty() {
            bail!("no {kind} has the labels {selector}");
        }
        let reference = |object: &Object| match meta::namespace(object) {
            "" => targets::of_namespace(meta::name(object)),
            namespace => targets::known(kind, meta::name(object), namespace),
        };
        found.iter().map(reference).collect::<Result<_, _>>().map_err(|problem| anyhow!(problem))
    }

    /// What an ActionSet names has to be there: the control plane would say so only after it was created.
    async fn validate(&self, action_sets: &ActionSets, made: &Object) -> anyhow::Result<()> {
        let actions =
            made.get("spec").and_then(|spec| spec["actions"].as_array()).cloned().unwrap_or_default();
        for action in &actions {
            let blueprint = action["blueprint"].as_str().unwrap_or_default();
            let found = action_sets.get("Blueprint", blueprint).await?;
            let known =
                found.get("actions").and_then(|actions| actions.as_object()).cloned().unwrap_or_default();
            if !known.contains_key(&self.action) {
                let names: Vec<_> = known.keys().map(String::as_str).collect();
                bail!("Blueprint `{blueprint}` has no action `{}`: it has {}", self.action, names.join(", "));
            }
            let maps =
                [("configMaps", "ConfigMap"), ("secrets", "Secret")].into_iter().flat_map(|(field, kind)| {
                    action[field]
                        .as_object()
                        .cloned()
                        .unwrap_or_default()
                        .into_iter()
                        .map(move |(_, it)| (kind, it))
                });
            for (kind, reference) in maps {
                require(action_sets, "v1", kind, &reference).await?;
            }
            if let Some(profile) = action.get("profile") {
                require(action_sets, crate::actions::API_VERSION, "Profile", profile).await?;
            }
        }
        Ok(())
    }
}

fn print(action_set: &Object, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
    terminal.yaml(action_set)?;
    Ok(Verdict::Yes)
}

async fn require(
    action_sets: &ActionSets,
    api_version: &str,
    kind: &str,
    reference: &serde_json::Value,
) -> anyhow::Result<()> {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (name, namespace) = (text("name"), text("namespace"));
    let namespace = if namespace.is_empty() { action_sets.namespace.as_str() } else { namespace };
    let resource = action_sets.client.resource(api_version, kind).await;
    let resource = resource.with_context(|| format!("cannot find the kind {kind}"))?;
    let resource = resource.with_context(|| format!("the API server has no kind {kind}"))?;
    let path = ObjectPath { resource: &resource, namespace, name };
    let found = action_sets.client.get(path).await;
    match found.with_context(|| format!("cannot read {kind} `{name}`"))? {
        Some(_) => Ok(()),
        None => bail!("there is no {kind} `{name}` in namespace `{namespace}`"),
    }
}

/// A selector such as `app=shop,tier=db`. Others, such as `tier in (a, b)`, would have to be sent as they are.
fn equal_labels(selector: &str) -> anyhow::Result<LabelSelector> {
    let label = |text: &str| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !key.contains(['!', ' ', '(']) => {
            Ok((key.to_owned(), value.trim_start_matches('=').to_owned()))
        }
        _ => bail!("--selector: `{text}` is not KEY=VALUE"),
    };
    selector.split(',').map(|text| label(text.trim())).collect()
}

/// Keys and texts of a flag.
fn texts(flag: &str, list: &[String]) -> anyhow::Result<Object> {
    let read = list.iter().map(|text| targets::key_value(text));
    let read = read.collect::<Result<Vec<_>, _>>().map_err(|problem| anyhow!("{flag}: {problem}"))?;
    Ok(read.into_iter().map(|(key, value)| (key, json!(value))).collect())
}
