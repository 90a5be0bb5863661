//! The command that starts a function.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The command that starts a function. It has to serve without TLS, on the address it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    program: String,
    arguments: Vec<String>,
    /// Where it is run, and where a relative path to the program starts.
    directory: PathBuf,
    /// Another program, with its arguments, which is given this command and runs it.
    run_by: Vec<String>,
}

/// Text that is not a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("the command is empty")]
    Empty,
    #[error("the command has an unclosed quote")]
    Unclosed,
}

impl Command {
    /// A command as a shell would split it, to be run in this directory. `{address}`, `{host}` and `{port}`
    /// stand for where to listen; without any of them, `--insecure --address host:port` is added, which is
    /// what functions built from the SDKs' templates understand.
    pub fn parse(text: &str, directory: impl Into<PathBuf>) -> Result<Self, CommandError> {
        let mut words = shlex::split(text).ok_or(CommandError::Unclosed)?.into_iter();
        let program = words.next().ok_or(CommandError::Empty)?;
        let mut arguments: Vec<String> = words.collect();
        if !arguments.iter().any(|argument| PLACES.iter().any(|place| argument.contains(place))) {
            arguments.extend(["--insecure".to_owned(), "--address={address}".to_owned()]);
        }
        Ok(Self { program, arguments, directory: directory.into(), run_by: Vec::new() })
    }

    /// The same, run by another program that ends it when its own standard input ends: a pipe from us, which the
    /// operating system closes when our process is gone, whatever it died of.
    #[must_use]
    pub fn run_by(self, supervisor: Vec<String>) -> Self {
        Self { run_by: supervisor, ..self }
    }

    /// The program and its arguments.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.program).chain(&self.arguments).map(String::as_str)
    }

    /// Where it is run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether its standard input has to stay open for as long as it is to run.
    pub(super) fn is_run_by_another(&self) -> bool {
        !self.run_by.is_empty()
    }

    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    pub(crate) fn at(&self, address: SocketAddr) -> tokio::process::Command {
        let values = [address.to_string(), address.ip().to_string(), address.port().to_string()];
        let arguments = self.arguments.iter().map(|argument| {
            PLACES
                .iter()
                .zip(&values)
                .fold(argument.clone(), |text, (place, value)| text.replace(place, value))
        });
        let mut command = match self.run_by.split_first() {
            None => tokio::process::Command::new(self.path()),
            Some((supervisor, its_arguments)) => {
                let mut command = tokio::process::Command::new(supervisor);
                command.args(its_arguments).arg(self.path());
                command
            }
        };
        command.args(arguments).current_dir(&self.directory);
        command
    }

    /// Whether there is such a program. Asked before another program is to run it, which could say so only in its own words.
    pub(super) fn find(&self) -> io::Result<()> {
        let path = self.path();
        if self.program.contains('/') {
            return path.metadata().map(drop);
        }
        let directories = std::env::var_os("PATH").unwrap_or_default();
        let is_there = std::env::split_paths(&directories).any(|directory| directory.join(&path).exists());
        if is_there { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// A path is relative to the directory; a bare name is looked up as usual.
    fn path(&self) -> PathBuf {
        if self.program.contains('/') {
            // `current_dir` takes effect before a relative program is looked up on some systems and after it
            // on others.
            let directory = std::path::absolute(&self.directory).unwrap_or_else(|_| self.directory.clone());
            directory.join(&self.program)
        } else {
            PathBuf::from(&self.program)
        }
    }
}

const PLACES: [&str; 3] = ["{address}", "{host}", "{port}"];

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<String> {
        let command = Command::parse(text, "/").unwrap().at("127.0.0.1:99".parse().unwrap());
        command.as_std().get_args().map(|argument| argument.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn address_is_put_where_the_command_wants_it() {
        assert_eq!(arguments("fn --listen '{address}'"), ["--listen", "127.0.0.1:99"]);
        assert_eq!(arguments("fn -h {host} -p {port}"), ["-h", "127.0.0.1", "-p", "99"]);
        assert_eq!(arguments("fn 'a b'"), ["a b", "--insecure", "--address=127.0.0.1:99"]);
    }

    #[test]
    fn command_that_another_program_runs_is_given_to_it() {
        let command = Command::parse("./fn {port}", "/here").unwrap().run_by(vec!["sup".into(), "--".into()]);
        let command = command.at("127.0.0.1:99".parse().unwrap());
        let words: Vec<_> = command.as_std().get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(command.as_std().get_program(), "sup");
        assert_eq!(words, ["--", "/here/./fn", "99"]);
    }

    #[test]
    fn program_that_is_not_there_is_missed_before_another_one_looks_for_it() {
        let find =
            |text: &str| Command::parse(text, "/usr/bin").unwrap().find().map_err(|error| error.kind());
        assert_eq!(find("./env --help"), Ok(()));
        assert_eq!(find("env --help"), Ok(()));
        assert_eq!(find("./no-such-program"), Err(io::ErrorKind::NotFound));
        assert_eq!(find("no-such-program"), Err(io::ErrorKind::NotFound));
    }

    #[test]
    fn text_that_is_no_command_is_refused() {
        assert_eq!(Command::parse("  ", "/").unwrap_err(), CommandError::Empty);
        assert_eq!(Command::parse("a 'b", "/").unwrap_err(), CommandError::Unclosed);
    }
}
