//! Reads what a page tells its reader to do.

/// What a reader does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Save a file.
    Save { name: String, content: String },
    /// Type a command, and see this.
    Run { line: usize, command: String, expected: Vec<String> },
    /// Copy a block of commands into the terminal.
    Script { line: usize, commands: String },
}

impl Action {
    pub(super) fn is_command(&self) -> bool {
        !matches!(self, Self::Save { .. })
    }
}

/// Begins a comment with commands that bring about what the page takes for granted, such as a control plane with an example.
const RUN_FIRST: &str = "<!-- run first:";

/// A page, as things to do.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) name: String,
    pub(super) actions: Vec<Action>,
    /// Why blocks are left out, for each such block.
    pub(super) not_run: Vec<String>,
}

/// A fenced block.
struct Block<'a> {
    /// The line of its first content.
    line: usize,
    language: &'a str,
    /// The last line before it that is not empty.
    before: &'a str,
    content: Vec<&'a str>,
}

impl Page {
    pub(super) fn parse(name: &str, text: &str) -> Self {
        let blocks = blocks(text);
        let not_run = blocks.iter().filter_map(Block::reason).map(str::to_owned).collect();
        Self { name: name.to_owned(), actions: blocks.iter().flat_map(actions).collect(), not_run }
    }
}

impl Block<'_> {
    /// Why it is not run, if the page says so.
    fn reason(&self) -> Option<&str> {
        self.before.trim().strip_prefix("<!-- not run:")?.strip_suffix("-->").map(str::trim)
    }
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut before = "";
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim() == RUN_FIRST {
            let inside = lines.by_ref().take_while(|(_, line)| line.trim() != "-->");
            blocks.extend(inside.map(|(number, line)| Block {
                line: number + 1,
                language: "sh",
                before: "",
                content: vec![line],
            }));
            before = "";
            continue;
        }
        let Some(language) = line.trim_start().strip_prefix("```") else {
            before = if line.trim().is_empty() { before } else { line };
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let inside =
            lines.by_ref().map(|(_, line)| line).take_while(|line| !line.trim_start().starts_with("```"));
        let content = inside.map(|line| line.get(indent..).unwrap_or_default()).collect();
        blocks.push(Block { line: number + 2, language, before, content });
        before = "";
    }
    blocks
}

fn actions(block: &Block<'_>) -> Vec<Action> {
    if block.reason().is_some() {
        return Vec::new();
    }
    if let Some(name) = file_name(block.before) {
        return vec![Action::Save { name, content: format!("{}\n", block.content.join("\n")) }];
    }
    match block.language {
        "console" => commands(block),
        "sh" => vec![Action::Script { line: block.line, commands: block.content.join("\n") }],
        _ => Vec::new(),
    }
}

/// `Save this as `a.yaml`:` names a file, as does `Change `a.yaml`:`.
fn file_name(before: &str) -> Option<String> {
    let (_, rest) = before.split_once("ave this as `").or_else(|| before.split_once("Change `"))?;
    rest.split('`').next().map(str::to_owned)
}

fn commands(block: &Block<'_>) -> Vec<Action> {
    let mut actions: Vec<Action> = Vec::new();
    for (offset, line) in block.content.iter().enumerate() {
        match (actions.last_mut(), line.strip_prefix("$ ")) {
            (_, Some(command)) => {
                let (line, command) = (block.line + offset, command.to_owned());
                actions.push(Action::Run { line, command, expected: Vec::new() });
            }
            (Some(Action::Run { command, expected, .. }), None)
                if expected.is_empty() && command.ends_with('\\') =>
            {
                command.push('\n');
                command.push_str(line);
            }
            (Some(Action::Run { expected, .. }), None) => expected.push((*line).to_owned()),
            (_, None) => {}
        }
    }
    actions
}

#[test]
fn page_is_read_as_things_to_do() {
    let text = "# Title\n\nSave this as `a.yaml`:\n\n```yaml\nkind: A\n```\n\nRun:\n\n```console\n$ one \\\n  two\nout\n\n$ three\n```\n\n```sh\nfour\n```\n\n<!-- not run: slow -->\n```sh\nfive\n```\n\n```text\nsix\n```\n";
    let run = |line, command: &str, expected: &[&str]| Action::Run {
        line,
        command: command.to_owned(),
        expected: expected.iter().map(|line| (*line).to_owned()).collect(),
    };
    let expected = [
        Action::Save { name: "a.yaml".to_owned(), content: "kind: A\n".to_owned() },
        run(12, "one \\\n  two", &["out", ""]),
        run(16, "three", &[]),
        Action::Script { line: 20, commands: "four".to_owned() },
    ];
    assert_eq!(Page::parse("page", text).actions, expected);
}

#[test]
fn commands_that_come_first_are_run_one_by_one() {
    let text = "# Title\n\n<!-- run first:\none\ntwo\n-->\n\n```sh\nthree\n```\n";
    let script = |line, commands: &str| Action::Script { line, commands: commands.to_owned() };
    assert_eq!(Page::parse("page", text).actions, [script(4, "one"), script(5, "two"), script(9, "three")]);
}

#[test]
fn block_that_is_not_run_has_a_reason() {
    let text = "- In a list:\n\n  <!-- not run: slow -->\n  ```sh\n  one\n  ```\n\n```sh\ntwo\n```\n";
    let page = Page::parse("page", text);
    assert_eq!(page.not_run, ["slow"]);
    assert_eq!(page.actions, [Action::Script { line: 9, commands: "two".to_owned() }]);
}
