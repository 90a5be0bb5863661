//! Finds out which argument of a command line the cursor is at, and what completes it. Pure.
//!
//! Which words are flags, values and commands is read from the definition of the command line. So flags that are added to a command
//! are known here, too.

use std::collections::BTreeMap;

use clap::{Arg, Command};

/// Arguments that name an object together with its kind.
const KIND_AND_NAME: [&str; 3] = ["KIND/NAME", "ID|KIND/NAME", "function/NAME"];

/// The words of a command line before the cursor.
#[derive(Debug)]
pub(super) struct CommandLine<'a> {
    /// The innermost command, and the names that lead to it.
    command: &'a Command,
    path: Vec<&'a str>,
    positionals: Vec<&'a str>,
    /// Values of flags, by the long names of the flags.
    values: BTreeMap<&'a str, &'a str>,
    /// The flag whose value is the next word.
    pending: Option<&'a Arg>,
    /// Whether `--` has been read: no flags follow.
    has_only_positionals: bool,
}

/// Where names come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// The contexts of the kubeconfig.
    Contexts,
    Namespaces,
    /// The objects of a kind, as users call it.
    Objects {
        kind: String,
    },
}

/// What completes the word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Completion {
    pub(super) source: Source,
    /// What stands before each name: `KIND/`, or nothing.
    pub(super) prefix: String,
    /// The beginning of the name.
    pub(super) typed: String,
}

impl<'a> CommandLine<'a> {
    pub(super) fn read(command: &'a Command, words: &'a [String]) -> Self {
        let mut line = Self {
            command,
            path: Vec::new(),
            positionals: Vec::new(),
            values: BTreeMap::new(),
            pending: None,
            has_only_positionals: false,
        };
        for word in words {
            line.add(word);
        }
        line
    }

    /// The value of a flag, by its long name.
    pub(super) fn value(&self, flag: &str) -> Option<&'a str> {
        self.values.get(flag).copied()
    }

    /// What completes the word at the cursor. Nothing for commands and flags, which completion scripts know, and for other values.
    pub(super) fn completion(&self, word: &str) -> Option<Completion> {
        if let Some(flag) = self.pending {
            // Bash takes `=` for a word of its own.
            return self.value_of(flag, if word == "=" { "" } else { word });
        }
        if !self.has_only_positionals && word.starts_with('-') {
            let (name, typed) = word.strip_prefix("--")?.split_once('=')?;
            return self.value_of(self.long(name)?, typed);
        }
        let positional = self.command.get_positionals().nth(self.positionals.len())?;
        self.value_of(positional, word)
    }

    fn add(&mut self, word: &'a str) {
        if let Some(flag) = self.pending {
            if word != "=" {
                self.set(flag, word);
            }
        } else if self.has_only_positionals {
            self.positionals.push(word);
        } else if word == "--" {
            self.has_only_positionals = true;
        } else if let Some(flag) = word.strip_prefix("--") {
            self.add_long(flag);
        } else if let Some(flags) = word.strip_prefix('-').filter(|flags| !flags.is_empty()) {
            self.add_short(flags);
        } else {
            self.add_word(word);
        }
    }

    fn set(&mut self, flag: &'a Arg, value: &'a str) {
        self.pending = None;
        if let Some(name) = flag.get_long() {
            self.values.insert(name, value);
        }
    }

    fn add_long(&mut self, flag: &'a str) {
        match flag.split_once('=') {
            Some((name, value)) => {
                if let Some(flag) = self.long(name) {
                    self.set(flag, value);
                }
            }
            None => self.pending = self.long(flag).filter(|flag| takes_next_word(flag)),
        }
    }

    /// Flags such as `-A`, together such as `-fA`, and with a value such as `-nshop`.
    fn add_short(&mut self, flags: &'a str) {
        for (place, letter) in flags.char_indices() {
            let flag = self.command.get_arguments().find(|flag| flag.get_short() == Some(letter));
            let Some(flag) = flag.filter(|flag| takes_next_word(flag)) else { continue };
            match &flags[place + letter.len_utf8()..] {
                "" => self.pending = Some(flag),
                value => self.set(flag, value.trim_start_matches('=')),
            }
            return;
        }
    }

    fn add_word(&mut self, word: &'a str) {
        let below = self.command.find_subcommand(word).filter(|_| self.positionals.is_empty());
        match below {
            Some(below) => {
                self.path.push(below.get_name());
                self.command = below;
            }
            None => self.positionals.push(word),
        }
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|flag| flag.get_long() == Some(name))
    }

    fn value_of(&self, argument: &Arg, typed: &str) -> Option<Completion> {
        let of = |source, prefix: String, typed: &str| Completion { source, prefix, typed: typed.to_owned() };
        match argument.get_long() {
            Some("context") => return Some(of(Source::Contexts, String::new(), typed)),
            Some("namespace") => return Some(of(Source::Namespaces, String::new(), typed)),
            _ => {}
        }
        let value_names = argument.get_value_names().unwrap_or_default();
        if value_names.iter().any(|name| KIND_AND_NAME.contains(&name.as_str())) {
            let (kind, typed) = typed.split_once('/')?;
            return Some(of(Source::Objects { kind: kind.to_owned() }, format!("{kind}/"), typed));
        }
        let kind = self.kind_of_names(argument.get_id().as_str())?.to_owned();
        Some(of(Source::Objects { kind }, String::new(), typed))
    }

    /// The kind of the objects that an argument names, if it names objects of one kind.
    fn kind_of_names(&self, argument: &str) -> Option<&'a str> {
        match (&*self.path, argument) {
            (["operation", "next"], "name") => Some("cronoperations.ops.crossplane.io"),
            (["operation", _], "name") => Some("operations.ops.crossplane.io"),
            (["actionset", "create"], "blueprint") => Some("blueprints.cr.kanister.io"),
            (["actionset", "create"], "from") | (["actionset", "logs" | "cancel"], "name") => {
                Some("actionsets.cr.kanister.io")
            }
            (["rollout", _], "name") => Some("functionrollouts.rollout.ferroplane.io"),
            (["why" | "trace"], "name") => self.positionals.first().copied(),
            _ => None,
        }
    }
}

/// Whether the word after a flag is its value.
fn takes_next_word(flag: &Arg) -> bool {
    flag.get_action().takes_values() && !flag.is_require_equals_set()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    /// The last word is the one at the cursor.
    fn complete(text: &str) -> Option<Completion> {
        let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
        let (word, before) = words.split_last().unwrap();
        CommandLine::read(&Arguments::command(), before).completion(word)
    }

    #[track_caller]
    fn check(text: &str, kind: &str, prefix: &str, typed: &str) {
        let source = Source::Objects { kind: kind.to_owned() };
        let expected = Completion { source, prefix: prefix.to_owned(), typed: typed.to_owned() };
        assert_eq!(complete(text), Some(expected), "{text}");
    }

    #[test]
    fn names_of_objects_are_of_the_kind_of_the_command() {
        check("operation logs ni", "operations.ops.crossplane.io", "", "ni");
        check("op next ", "cronoperations.ops.crossplane.io", "", "");
        check("actionset cancel -n shop ", "actionsets.cr.kanister.io", "", "");
        check("actionset create -a backup -b my", "blueprints.cr.kanister.io", "", "my");
        check("rollout status --context=b own", "functionrollouts.rollout.ferroplane.io", "", "own");
    }

    #[test]
    fn objects_are_named_with_their_kinds() {
        check("why app/he", "app", "app/", "he");
        check("why app he", "app", "", "he");
        check("trace -n shop app/", "app", "app/", "");
        check("replay show app/he", "app", "app/", "he");
        check("intercept function/own --xr site/bl", "site", "site/", "bl");
        check("intercept function/", "function", "function/", "");
    }

    #[test]
    fn contexts_and_namespaces_are_values_of_flags() {
        for (text, source, typed) in [
            ("why app/hello --context ki", Source::Contexts, "ki"),
            ("why app/hello --context=ki", Source::Contexts, "ki"),
            // As bash splits it.
            ("why app/hello --context = ki", Source::Contexts, "ki"),
            ("why app/hello --context =", Source::Contexts, ""),
            ("trace app/hello -n sh", Source::Namespaces, "sh"),
            ("actionset logs --namespace ", Source::Namespaces, ""),
        ] {
            let expected = Completion { source, prefix: String::new(), typed: typed.to_owned() };
            assert_eq!(complete(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn commands_flags_and_other_values_are_left_to_the_script() {
        for text in
            ["", "wh", "operation ", "why --cont", "why app", "why -- ", "render xr.ya", "up --listen 12"]
        {
            assert_eq!(complete(text), None, "{text}");
        }
    }

    #[test]
    fn flags_before_the_cursor_are_read() {
        let words = ["trace", "-nshop", "--kubeconfig", "k", "--context=b", "-o", "wide", "app/a"];
        let words = words.map(str::to_owned);
        let command = Arguments::command();
        let line = CommandLine::read(&command, &words);
        assert_eq!(
            ["namespace", "kubeconfig", "context"].map(|flag| line.value(flag).unwrap()),
            ["shop", "k", "b"]
        );
        assert_eq!((line.path.as_slice(), line.positionals.as_slice()), (&["trace"][..], &["app/a"][..]));
    }
}
