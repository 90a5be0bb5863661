//! Flags of `crossplane core start` that mean nothing here, or nothing good: each is taken, and answered.
//!
//! A user who brings the arguments of a Crossplane along is shown what becomes of them, instead of being refused because of flags
//! that make no difference.

use anyhow::bail;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// What a flag is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It makes no difference, and why.
    Ignored(&'static str),
    /// A switch that cannot be turned on.
    NeverOn(&'static str),
    /// A switch that is always on.
    AlwaysOn,
}

use Answer::{AlwaysOn, Ignored, NeverOn};

#[derive(Clone, Copy)]
struct Flag {
    name: &'static str,
    short: Option<char>,
    variable: Option<&'static str>,
    answer: Answer,
}

const fn flag(name: &'static str, answer: Answer) -> Flag {
    Flag { name, short: None, variable: None, answer }
}

const fn with_variable(flag: Flag, variable: &'static str) -> Flag {
    Flag { variable: Some(variable), ..flag }
}

const NO_POLLING: Answer =
    Ignored("resources are watched; only connection Secrets are polled (--poll-interval)");
const FROM_SECRETS: Answer = Ignored("certificates are read from their Secrets");

const FLAGS: [Flag; 14] = [
    Flag { short: Some('s'), ..flag("sync-interval", NO_POLLING) },
    flag("min-poll-interval", NO_POLLING),
    with_variable(flag("tls-server-certs-dir", FROM_SECRETS), "TLS_SERVER_CERTS_DIR"),
    with_variable(flag("tls-client-certs-dir", FROM_SECRETS), "TLS_CLIENT_CERTS_DIR"),
    with_variable(
        flag("pipeline-inspector-socket", Ignored("pipelines are not inspected")),
        "PIPELINE_INSPECTOR_SOCKET",
    ),
    flag("profile", Ignored("there is no profiler")),
    flag("restrict-namespaced-events", Ignored("events are written to the namespaces of their objects")),
    flag("watch-cache-namespaced", Ignored("the watches depend on the composed resources")),
    flag("enable-signature-verification", AlwaysOn),
    flag("enable-function-response-cache", AlwaysOn),
    flag("enable-usages", AlwaysOn),
    flag("enable-ssa-claims", AlwaysOn),
    flag("enable-realtime-compositions", AlwaysOn),
    flag("enable-pipeline-inspector", NeverOn("pipelines cannot be inspected by a sidecar")),
];

/// Those that were given, and their values.
#[derive(Debug, Default)]
pub(crate) struct Upstream(Vec<(&'static str, String, Answer)>);

impl Upstream {
    /// What to tell a user who gave them. An error for what they would miss.
    pub(crate) fn advice(&self) -> anyhow::Result<Vec<String>> {
        let mut advice = Vec::new();
        for (name, value, answer) in &self.0 {
            let is_off = matches!(value.to_ascii_lowercase().as_str(), "false" | "0" | "no" | "off");
            match answer {
                Ignored(why) => advice.push(format!("--{name} has no effect: {why}")),
                AlwaysOn if is_off => {
                    advice.push(format!("--{name}={value} has no effect: it is always on"));
                }
                NeverOn(why) if !is_off => bail!("cannot do what --{name} asks for: {why}; leave it out"),
                AlwaysOn | NeverOn(_) => {}
            }
        }
        Ok(advice)
    }
}

impl Args for Upstream {
    fn augment_args(mut command: Command) -> Command {
        for flag in &FLAGS {
            let mut argument = Arg::new(flag.name)
                .long(flag.name)
                .value_name("VALUE")
                .action(ArgAction::Set)
                // A switch of kong, which upstream uses: `--enable-x`, `--enable-x=false`.
                .num_args(0..=1)
                .default_missing_value("true")
                .hide(true);
            if let Some(short) = flag.short {
                argument = argument.short(short);
            }
            if let Some(variable) = flag.variable {
                argument = argument.env(variable);
            }
            command = command.arg(argument);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Upstream {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = FLAGS.iter().filter_map(|flag| {
            // Variables of the environment count as given: charts set them.
            matches.value_source(flag.name).filter(|source| *source != ValueSource::DefaultValue)?;
            let value = matches.get_one::<String>(flag.name).cloned().unwrap_or_default();
            Some((flag.name, value, flag.answer))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        upstream: Upstream,
    }

    fn advice(flags: &[&str]) -> anyhow::Result<Vec<String>> {
        Line::parse_from(std::iter::once(&"start").chain(flags)).upstream.advice()
    }

    #[test]
    fn flags_of_crossplane_are_taken_and_answered() {
        let told = advice(&["--min-poll-interval", "1m", "--profile=:6060", "-s", "1h"]).unwrap();
        assert_eq!(told.len(), 3, "{told:#?}");
        let words = "--min-poll-interval has no effect: resources are watched";
        assert!(told.iter().any(|told| told.starts_with(words)), "{told:#?}");
        assert_eq!(
            advice(&["--enable-usages", "--enable-pipeline-inspector=false"]).unwrap(),
            Vec::<String>::new()
        );
        assert_eq!(advice(&["--enable-usages=false"]).unwrap().len(), 1);
    }

    #[test]
    fn what_would_be_missed_is_refused() {
        let error = advice(&["--enable-pipeline-inspector"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot do what --enable-pipeline-inspector asks for: pipelines cannot be inspected by a sidecar; leave it out"
        );
    }
}
