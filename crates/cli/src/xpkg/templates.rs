//! Templates of new packages. The files are in `crates/cli/templates/`.

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
