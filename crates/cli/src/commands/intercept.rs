//! `ferroplane intercept`: has a developer's process answer for a function.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use ferroplane_api::{
    FunctionInterceptSpec, InterceptMode, InterceptTls, InterceptedComposites, Object, RolloutFunction, meta,
};
use ferroplane_client::Resource;
use ferroplane_engine::intercept::calls_are_sent;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::Verdict;
use crate::client::{Access, Connection};
use crate::explain::block_on;
use crate::intercepts::certificates::{write_client_ca, write_server};
use crate::intercepts::drawing::draw;
use crate::intercepts::{Intercept as Made, Seen};
use crate::interrupt::Interrupts;
use crate::plans::drawing::Paint;
use crate::terminal::{Terminal, until_unread};

/// For how long an intercept holds after it was renewed, and how often that is done.
const LEASE: i64 = 15;
const RENEWAL: Duration = Duration::from_secs(4);
/// How often the status is read.
const INTERVAL: Duration = Duration::from_millis(300);
/// For how long a control plane that does not answer is asked again. Its lease is over by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// Send calls of a function to a process on your machine
///
/// Only calls for the composite resources that you name are sent. The process is a function server, such as one that you started in a
/// debugger. For as long as this command runs, the control plane sends it the requests that its own revision of the function gets. In
/// shadow mode, which is the default, the responses are compared and the differences are shown; the response of the control plane's own
/// revision is used. With --for-real, the response of the process is used.
///
/// Press Enter to repeat the calls, for example after you have restarted the process. The calls go back to the control plane's revision
/// when this command ends, and 15 seconds after it was killed.
///
/// `ferroplane up` calls the process in plain text, unless --tls-dir is given. `ferroplane start` calls it over mTLS only, and an
/// administrator has to grant it (see docs/intercept.md). The process sees everything that the function sees, credentials included.
///
/// Exit codes: 0 the responses are the same, or are used; 3 they differ; 1 error
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ferroplane intercept function/function-own --xr site/blog --to 127.0.0.1:9443
  ferroplane intercept function/function-own --xr site --selector tier=canary --to 127.0.0.1:9443 --once
  ferroplane intercept function/function-own --xr site/blog --to 127.0.0.1:9443 --for-real
  ferroplane intercept function/function-own --xr site/blog --to laptop.example.org:9443 --tls-dir ./certs")]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(crate) struct Intercept {
    /// The function: `function/NAME`
    #[arg(value_name = "function/NAME", value_parser = parse_function)]
    function: String,

    /// The composite resource, as `KIND/NAME`; or its kind alone, with --selector
    #[arg(long, value_name = "KIND/NAME")]
    xr: String,

    /// Labels of the composite resources: `key=value,key=value`
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = parse_labels)]
    selector: Option<Labels>,

    /// The namespace of the composite resources [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,

    /// Composite resources in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Where the process listens, as the control plane reaches it
    #[arg(long, value_name = "HOST:PORT")]
    to: String,

    /// Compare the responses of the process with those of the control plane's own revision, which are used; this is the default
    #[arg(long, conflicts_with = "for_real")]
    shadow: bool,

    /// Use the responses of the process
    #[arg(long)]
    for_real: bool,

    /// End when each composite resource has been compared once
    #[arg(long, conflicts_with = "for_real")]
    once: bool,

    /// Write certificates for the process to this directory, and call it over mTLS
    ///
    /// Start the process with `TLS_SERVER_CERTS_DIR`, or its own option, set to the directory: it has tls.crt, tls.key and ca.crt.
    #[arg(long, value_name = "DIR")]
    tls_dir: Option<PathBuf>,

    #[command(flatten)]
    access: Access,
}

type Labels = BTreeMap<String, String>;

impl Intercept {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        block_on(async {
            let connection = self.access.connect()?;
            // Before anything is made: a caller that is interrupted has to remove it.
            let mut interrupts = Interrupts::listen().context("cannot listen for signals")?;
            let (composites, expected) = terminal.wait_for_server(self.composites(&connection)).await?;
            let spec = self.spec(composites)?;
            let make = Made::make(connection.client.clone(), &spec);
            let mut intercept = terminal.wait_for_server(make).await?;
            let mut session = Session {
                command: &self,
                intercept: &mut intercept,
                terminal,
                shown: 0,
                has_difference: false,
            };
            let result = tokio::select! {
                verdict = session.follow(expected) => verdict,
                verdict = interrupts.next() => Ok(verdict),
                () = until_unread() => Ok(Verdict::Yes),
            };
            let has_difference = session.has_difference;
            let removed = intercept.remove().await;
            let verdict = match result? {
                // To press Ctrl-C is how it ends.
                Verdict::Interrupted(2) | Verdict::Yes if has_difference => Verdict::No,
                Verdict::Interrupted(2) => Verdict::Yes,
                verdict => verdict,
            };
            removed.map(|()| verdict)
        })
    }

    fn spec(&self, composites: InterceptedComposites) -> anyhow::Result<FunctionInterceptSpec> {
        let host =
            self.to.rsplit_once(':').map(|(host, _)| host.trim_start_matches('[').trim_end_matches(']'));
        let host = host.filter(|host| !host.is_empty());
        let host =
            host.with_context(|| format!("--to {} is not an address such as 127.0.0.1:9443", self.to))?;
        let tls = match &self.tls_dir {
            Some(directory) => Some(InterceptTls { ca_bundle: write_server(directory, host)? }),
            None => None,
        };
        Ok(FunctionInterceptSpec {
            function_ref: RolloutFunction { name: self.function.clone() },
            composites,
            to: self.to.clone(),
            mode: if self.for_real && !self.shadow { InterceptMode::ForReal } else { InterceptMode::Shadow },
            tls,
            lease_seconds: LEASE,
            renewals: 0,
            round: 0,
        })
    }

    /// Whose calls are meant, and how many composite resources that are now.
    async fn composites(&self, connection: &Connection) -> anyhow::Result<(InterceptedComposites, usize)> {
        let (kind, name) = match self.xr.split_once('/') {
            Some((kind, name)) => (kind, Some(name.to_owned()).filter(|name| !name.is_empty())),
            None => (self.xr.as_str(), None),
        };
        let match_labels = self.selector.clone().unwrap_or_default();
        if name.is_none() && match_labels.is_empty() {
            bail!("name the composite resources: --xr KIND/NAME, or --selector with labels");
        }
        let server = &connection.server;
        let catalogue = connection.client.catalogue().await;
        let catalogue = catalogue.with_context(|| format!("cannot discover the kinds of {server}"))?;
        let resource = catalogue.find(kind).with_context(|| format!("there is no kind `{kind}`"))?;
        let own = self.namespace.clone().unwrap_or_else(|| connection.namespace.clone());
        let namespace = Some(own).filter(|_| resource.is_namespaced && !self.all_namespaces);
        let composites = InterceptedComposites {
            api_group: Some(meta::group(&resource.api_version).to_owned()),
            kind: resource.kind.clone(),
            namespace,
            name,
            match_labels,
        };
        let expected = self.count(connection, resource, &composites).await?;
        Ok((composites, expected))
    }

    async fn count(
        &self,
        connection: &Connection,
        resource: &Resource,
        composites: &InterceptedComposites,
    ) -> anyhow::Result<usize> {
        let namespace = composites.namespace.as_deref().unwrap_or_default();
        let all =
            connection.client.list_objects(resource, namespace, &ferroplane_client::Query::default()).await;
        let all = all.with_context(|| format!("cannot list {}", resource.plural))?;
        let is_meant = |object: &&Object| {
            let labels = composites.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            composites.name.as_deref().is_none_or(|name| name == meta::name(object))
                && meta::matches_labels(object, labels)
        };
        match (all.iter().filter(is_meant).count(), &composites.name) {
            (0, Some(name)) => bail!("there is no {} `{name}`", resource.kind),
            (0, None) if self.once => bail!("no {} has these labels", resource.kind),
            (count, _) => Ok(count),
        }
    }
}

/// An intercept that is being renewed, and whose status is read.
struct Session<'a> {
    command: &'a Intercept,
    intercept: &'a mut Made,
    terminal: &'a mut Terminal,
    /// The number of the last comparison that was shown.
    shown: i64,
    has_difference: bool,
}

impl Session<'_> {
    /// Until there is nothing more to be seen.
    async fn follow(&mut self, expected: usize) -> anyhow::Result<Verdict> {
        let mut lines = lines();
        let (mut renewed_at, mut told) = (Instant::now(), String::new());
        let mut has_certificates = self.command.tls_dir.is_none();
        loop {
            let looked = patiently(renewed_at, self.intercept.look().await)?;
            if let Some(looked) = looked {
                let Some(seen) = looked else { bail!("the FunctionIntercept was deleted") };
                if !has_certificates && let Some(directory) = &self.command.tls_dir {
                    let authority = seen.status.client_ca.as_ref();
                    has_certificates = authority.is_some();
                    authority.map(|authority| write_client_ca(directory, authority)).transpose()?;
                }
                self.tell(&seen, &mut told)?;
                self.show(&seen)?;
                let compared: i64 = seen.status.differences.values().sum();
                let least = compared.min(seen.status.composites);
                if self.command.once && usize::try_from(least).unwrap_or_default() >= expected {
                    return Ok(Verdict::Yes);
                }
            }
            if renewed_at.elapsed() >= RENEWAL
                && patiently(renewed_at, self.intercept.renew().await)?.is_some()
            {
                renewed_at = Instant::now();
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                Some(()) = lines.recv() => {
                    patiently(renewed_at, self.intercept.ask_again().await)?;
                }
            }
        }
    }

    /// Say whether calls are sent, when that changes.
    fn tell(&mut self, seen: &Seen, told: &mut String) -> anyhow::Result<()> {
        if seen.is_active.is_none() || *told == seen.reason {
            return Ok(());
        }
        told.clone_from(&seen.reason);
        let Intercept { function, to, for_real, .. } = self.command;
        match (seen.is_active, seen.reason.as_str()) {
            (Some(true), "Intercepting") => self.terminal.note(&calls_are_sent(function, to, *for_real)),
            (Some(true), _) => self.terminal.note(&seen.message),
            // A control plane that was restarted, or was unreachable for a while, continues when it sees a renewal.
            (_, "LeaseExpired") => self.terminal.warn(&seen.message),
            _ => bail!("the control plane refuses: {}", seen.message),
        }
        Ok(())
    }

    fn show(&mut self, seen: &Seen) -> anyhow::Result<()> {
        let paint = Paint(self.terminal.shows_data_in_colour());
        self.has_difference |= seen.status.differences.keys().any(|difference| difference != "Equal");
        let shown = self.shown;
        for comparison in seen.status.comparisons.iter().filter(|it| it.number > shown) {
            self.shown = comparison.number;
            self.terminal.text(&draw(comparison, paint))?;
        }
        Ok(())
    }
}

/// What an API server answered. One that does not answer is asked again for a while: it may be restarted.
fn patiently<T>(since: Instant, answer: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(_) if since.elapsed() < PATIENCE => Ok(None),
        Err(error) => Err(error),
    }
}

/// A message for each time that the user presses Enter. The thread ends with the process, which would otherwise wait for a last line.
fn lines() -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            if line.is_err() || sender.blocking_send(()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn parse_function(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some(("function" | "functions" | "function.pkg.crossplane.io", name)) if !name.is_empty() => {
            Ok(name.to_owned())
        }
        _ => Err(format!("expected function/NAME, got `{text}`")),
    }
}

fn parse_labels(text: &str) -> Result<Labels, String> {
    let label = |label: &str| {
        let (key, value) = label.split_once('=').filter(|(key, _)| !key.is_empty())?;
        Some((key.trim().to_owned(), value.trim_start_matches('=').trim().to_owned()))
    };
    let labels: Option<Labels> = text.split(',').map(label).collect();
    labels.filter(|labels| !labels.is_empty()).ok_or_else(|| format!("expected key=value,…, got `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_labels_are_read() {
        assert_eq!(parse_function("function/own"), Ok("own".to_owned()));
        for nonsense in ["own", "function/", "site/blog", ""] {
            assert!(parse_function(nonsense).is_err(), "{nonsense}");
        }
        let labels = parse_labels("tier=gold,team==shop").unwrap();
        assert_eq!((labels["tier"].as_str(), labels["team"].as_str()), ("gold", "shop"));
        for nonsense in ["", "tier", "=gold"] {
            assert!(parse_labels(nonsense).is_err(), "{nonsense}");
        }
    }
}
