//! Templates of new packages. The files are in `crates/cli/templates/`.
//!
//! Crossplane's command line clones its templates, and any other repository. Ours are part of the program: a name or a URL that only a
//! download could serve is refused, with the command that downloads it.

use std::ffi::OsStr;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command};

/// What kind of package to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Template {
    /// A definition and a Composition, with an example
    #[value(alias = "configuration-template")]
    Configuration,
    /// A function in Go, on function-sdk-go
    #[value(alias = "function-template-go")]
    Function,
    /// The package of a provider, with a kind for its configuration; its program is yours
    #[value(alias = "provider-template")]
    Provider,
}

type File = (&'static str, &'static str);

/// A file of a template, by its path there and in the package. Go ignores directories with other modules, so `go.mod` has another name.
macro_rules! file {
    ($template:literal, $path:literal) => {
        ($path, include_str!(concat!("../../templates/", $template, "/", $path)))
    };
}

const CONFIGURATION: &[File] = &[
    file!("configuration", "crossplane.yaml"),
    file!("configuration", "apis/definition.yaml"),
    file!("configuration", "apis/composition.yaml"),
    file!("configuration", "examples/application.yaml"),
    file!("configuration", "README.md"),
];

const FUNCTION: &[File] = &[
    file!("function", "package/crossplane.yaml"),
    file!("function", "package/input.yaml"),
    file!("function", "main.go"),
    file!("function", "function.go"),
    ("go.mod", include_str!("../../templates/function/go.mod.txt")),
    file!("function", "README.md"),
];

const PROVIDER: &[File] = &[
    file!("provider", "package/crossplane.yaml"),
    file!("provider", "package/providerconfig.yaml"),
    file!("provider", "README.md"),
];

impl Template {
    pub(crate) fn files(self) -> &'static [File] {
        match self {
            Self::Configuration => CONFIGURATION,
            Self::Function => FUNCTION,
            Self::Provider => PROVIDER,
        }
    }

    pub(crate) fn next_steps(self) -> &'static str {
        match self {
            Self::Configuration => {
                "next: ferroplane xpkg build, then ferroplane xpkg push registry.example.org/team/NAME:v0.1.0"
            }
            Self::Function | Self::Provider => "next: README.md says how to build and push the package",
        }
    }
}

/// Templates that Crossplane's command line knows and this program does not have, and where they are. Follows crossplane/cli 2.5.0,
/// `WellKnownTemplates`.
const ELSEWHERE: [(&str, &str); 2] = [
    ("function-template-python", "https://github.com/crossplane/function-template-python"),
    ("provider-template-upjet", "https://github.com/crossplane/upjet-provider-template"),
];

/// Reads the argument that names a template.
#[derive(Debug, Clone)]
pub(crate) struct TemplateParser(EnumValueParser<Template>);

impl TemplateParser {
    pub(crate) fn new() -> Self {
        Self(EnumValueParser::new())
    }
}

impl TypedValueParser for TemplateParser {
    type Value = Template;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.0.parse_ref(command, argument, value).map_err(|error| {
            let Some(repository) = value.to_str().and_then(repository_of) else { return error };
            let why = format!(
                "cannot use the template `{repository}`: templates are part of this program, and nothing is downloaded; choose \
                 configuration, function or provider, or run `git clone {repository}`\n"
            );
            clap::Error::raw(ErrorKind::ValueValidation, why).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

/// The Git repository that a template is in, if it is in one.
fn repository_of(template: &str) -> Option<&str> {
    let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == template).map(|(_, repository)| *repository);
    let is_url = template.contains("://") || template.starts_with("git@");
    elsewhere.or(is_url.then_some(template))
}

/// The text of a template with the name of the package in it.
pub(crate) fn fill(text: &str, name: &str) -> String {
    text.replace("NAME", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_template_is_left_but_its_words() {
        for template in [Template::Configuration, Template::Function, Template::Provider] {
            for (path, text) in template.files() {
                let filled = fill(text, "my-package");
                assert!(!filled.contains("NAME"), "{path}");
                assert!(filled.ends_with('\n') && !filled.ends_with("\n\n"), "{path}");
            }
        }
    }
}
