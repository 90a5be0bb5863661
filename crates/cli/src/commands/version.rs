//! `ferroplane version`: which build is this?

use clap::ValueEnum;
use ferroplane_offline::manifest::yaml;
use serde_json::json;

use crate::Verdict;
use crate::terminal::Terminal;

/// Print the version
#[derive(Debug, clap::Args)]
pub(crate) struct Version {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Output {
    #[default]
    Text,
    Yaml,
    Json,
}

impl Version {
    pub(crate) fn run(self, terminal: &mut Terminal) -> anyhow::Result<Verdict> {
        let version = env!("CARGO_PKG_VERSION");
        let facts = json!({
            "version": version,
            "functionProtocols": ["v1", "v1beta1"],
            "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        });
        let text = match self.output {
            Output::Text => format!("ferroplane {version}\n"),
            Output::Yaml => yaml::print(&facts)?,
            Output::Json => format!("{facts:#}\n"),
        };
        terminal.text(&text)?;
        Ok(Verdict::Yes)
    }
}
