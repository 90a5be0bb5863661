//! What to run: an unpacked image and what its configuration says.

use std::path::PathBuf;

use serde::Deserialize;

use crate::error::SpecError;

/// A program in an unpacked image.
#[derive(Debug, Clone)]
pub struct Container {
    /// Directory with the files of the image. It is never written to.
    pub rootfs: PathBuf,
    /// What the image says about its program.
    pub image: ImageConfig,
    /// What stands in the place of the image's `Cmd`.
    pub arguments: Option<Vec<String>>,
    /// Variables beside those of the image. They win.
    pub environment: Vec<(String, String)>,
    /// Directories of this machine that it sees.
    pub directories: Vec<SharedDirectory>,
}

/// A directory of this machine that a program can read. What changes in it changes for the program, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedDirectory {
    pub source: PathBuf,
    /// Where the program sees it. Hides what the image has there.
    pub destination: String,
    /// Whether the program can write to it. Only the owner of the shared directory limits its size.
    pub is_writable: bool,
}

/// Where a program sees a directory of this machine, and what that is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedMount<'a> {
    pub(crate) destination: &'a str,
    pub(crate) source: &'a str,
    pub(crate) is_writable: bool,
}

/// The part of an image's configuration that says how to run it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageConfig {
    #[serde(deserialize_with = "null_is_default")]
    pub user: String,
    #[serde(deserialize_with = "null_is_default")]
    pub env: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub working_dir: String,
    #[serde(deserialize_with = "null_is_default")]
    pub entrypoint: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub cmd: Vec<String>,
}

impl Container {
    pub fn new(rootfs: impl Into<PathBuf>, image: ImageConfig) -> Self {
        Self {
            rootfs: rootfs.into(),
            image,
            arguments: None,
            environment: Vec::new(),
            directories: Vec::new(),
        }
    }

    /// The program and its arguments.
    pub(crate) fn command(&self) -> Result<Vec<String>, SpecError> {
        let arguments = self.arguments.as_ref().unwrap_or(&self.image.cmd);
        let command: Vec<String> = self.image.entrypoint.iter().chain(arguments).cloned().collect();
        if command.first().is_none_or(String::is_empty) {
            return Err(SpecError::NoCommand);
        }
        if command.iter().any(|argument| argument.contains('\0')) {
            return Err(SpecError::Nul { what: "an argument" });
        }
        Ok(command)
    }

    /// The variables of the program, each name once.
    pub(crate) fn variables(&self) -> Result<Vec<String>, SpecError> {
        let given = self.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let mut variables: Vec<String> = Vec::new();
        for variable in self.image.env.iter().cloned().chain(given) {
            if variable.contains('\0') {
                return Err(SpecError::Nul { what: "a variable" });
            }
            let name = variable.split_once('=').map(|(name, _)| name).filter(|name| !name.is_empty());
            let Some(name) = name.map(str::to_owned) else { return Err(SpecError::Variable { variable }) };
            variables.retain(|earlier| earlier.split_once('=').is_none_or(|(earlier, _)| earlier != name));
            variables.push(variable);
        }
        if !variables.iter().any(|variable| variable.starts_with("PATH=")) {
            variables.push(DEFAULT_PATH.to_owned());
        }
        Ok(variables)
    }

    /// Where the program starts.
    pub(crate) fn working_directory(&self) -> Result<String, SpecError> {
        let directory = &self.image.working_dir;
        if directory.is_empty() {
            return Ok("/".to_owned());
        }
        if is_plain(directory) {
            return Ok(directory.clone());
        }
        Err(SpecError::WorkingDirectory { directory: directory.clone() })
    }

    /// Where the program sees directories of this machine, and what they are here.
    pub(crate) fn shared_directories(&self) -> Result<Vec<SharedMount<'_>>, SpecError> {
        self.directories
            .iter()
            .map(|directory| {
                let source = directory.source.to_str().filter(|source| is_plain(source));
                let destination = Some(&*directory.destination).filter(|it| is_plain(it) && it.len() > 1);
                let (Some(source), Some(destination)) = (source, destination) else {
                    return Err(SpecError::Shared { path: directory.source.clone() });
                };
                Ok(SharedMount { destination, source, is_writable: directory.is_writable })
            })
            .collect()
    }
}

/// Whether a path is absolute and goes nowhere else.
fn is_plain(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\0') && path.split('/').all(|part| part != "..")
}

/// What a program finds its like with if the image does not say.
const DEFAULT_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl ImageConfig {
    /// Reads the configuration of an image, as its manifest refers to it.
    pub fn from_json(bytes: &[u8]) -> Result<Self, SpecError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Blob {
            #[serde(deserialize_with = "null_is_default")]
            config: ImageConfig,
        }
        let blob: Blob = serde_json::from_slice(bytes).map_err(SpecError::ImageConfig)?;
        Ok(blob.config)
    }
}

/// Tools of Go write `null` for what is empty.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(config: &str) -> Container {
        Container::new("/image", ImageConfig::from_json(config.as_bytes()).expect("JSON"))
    }

    #[test]
    fn the_command_is_entrypoint_and_cmd_unless_arguments_are_given() {
        let mut container = container(r#"{"config":{"Entrypoint":["/f"],"Cmd":["a"],"Env":null}}"#);
        assert_eq!(container.command().expect("command"), ["/f", "a"]);
        container.arguments = Some(vec!["--insecure".to_owned()]);
        assert_eq!(container.command().expect("command"), ["/f", "--insecure"]);
    }

    #[test]
    fn an_image_without_a_command_is_refused() {
        assert!(matches!(container("{}").command(), Err(SpecError::NoCommand)));
        let empty = container(r#"{"config":{"Entrypoint":[""]}}"#);
        assert!(matches!(empty.command(), Err(SpecError::NoCommand)));
    }

    #[test]
    fn variables_are_those_of_the_image_and_the_given_ones_win() {
        let mut container = container(r#"{"config":{"Env":["A=1","PATH=/x","B=2"]}}"#);
        container.environment = vec![("A".to_owned(), "3".to_owned())];
        assert_eq!(container.variables().expect("variables"), ["PATH=/x", "B=2", "A=3"]);
    }

    #[test]
    fn a_variable_without_a_name_is_refused() {
        for config in [r#"{"config":{"Env":["A"]}}"#, r#"{"config":{"Env":["=A"]}}"#] {
            assert!(matches!(container(config).variables(), Err(SpecError::Variable { .. })));
        }
    }

    #[test]
    fn a_working_directory_is_absolute_and_goes_nowhere_else() {
        for bad in ["tmp", "/a/../b", "/a\\u0000"] {
            let config = format!(r#"{{"config":{{"WorkingDir":"{bad}"}}}}"#);
            assert!(container(&config).working_directory().is_err(), "{bad}");
        }
        assert_eq!(container("{}").working_directory().expect("default"), "/");
    }

    #[test]
    fn a_shared_directory_is_absolute_at_both_ends_and_hides_no_root() {
        let shared = |source: &str, destination: &str| {
            let mut container = container("{}");
            let (source, destination) = (source.into(), destination.to_owned());
            container.directories.push(SharedDirectory { source, destination, is_writable: false });
            container.shared_directories().is_ok()
        };
        assert!(shared("/data/tokens", "/var/run/secrets"));
        for (source, destination) in
            [("tokens", "/a"), ("/data", "a"), ("/data", "/a/../b"), ("/d/../e", "/a"), ("/data", "/")]
        {
            assert!(!shared(source, destination), "{source} {destination}");
        }
    }
}
