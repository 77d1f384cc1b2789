//! What is generated from the keys: the JSON schema, the reference page and the example file.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::describe::{self, Described, Shape};
use super::reload::RELOADABLE;

/// Width of the comments in the example file, without their indentation.
const COMMENT_COLUMNS: usize = 92;

/// The JSON schema of `agentguard.yaml`, keys sorted.
pub(crate) fn json_schema() -> String {
    let schema = sorted(describe::schema());
    format!("{schema:#}\n")
}

/// The reference of all keys, as Markdown.
pub(crate) fn reference_markdown() -> String {
    let mut page = String::from(REFERENCE_HEAD);
    let keys = describe::keys();
    // Here and below: writing to a string cannot fail.
    let _ = write!(page, "\nA running gate takes over changes to `{}`", RELOADABLE.join("`, `"));
    page.push_str(" by itself. Other changes wait for a restart, and it says so.\n");
    page.push_str("\n## Top level\n\n");
    table(&mut page, keys.iter().filter(|key| key.depth() == 0));
    for section in keys.iter().filter(|key| key.depth() == 0 && key.shape == Shape::Section) {
        let prefix = format!("{}.", section.path);
        let _ = write!(page, "\n## `{}`\n\n{}\n\n", section.path, section.meaning);
        table(&mut page, keys.iter().filter(|key| key.path.starts_with(&prefix)));
    }
    page
}

/// A commented `agentguard.yaml` with every key at its default.
pub(crate) fn commented_example() -> String {
    let mut file = String::from(EXAMPLE_HEAD);
    for key in describe::keys() {
        let indent = "  ".repeat(key.depth());
        if key.depth() == 0 {
            file.push('\n');
        }
        for line in wrap(&key.meaning, COMMENT_COLUMNS) {
            let _ = writeln!(file, "{indent}# {line}");
        }
        let value = match key.shape {
            Shape::Section => String::new(),
            Shape::Table | Shape::Value => format!(" {}", key.default),
        };
        let _ = writeln!(file, "{indent}{}:{value}", key.name());
    }
    file
}

const EXAMPLE_HEAD: &str = "\
# AgentGuard. Every key is shown with its default; delete what you do not change.
# Check it with `agentguard config check`. A variable overrides a key: AGENTGUARD__PROXY__BIND
# stands for `proxy.bind`.
";

const REFERENCE_HEAD: &str = "\
<!-- Generated from the code. Change the comments there, then run
     `UPDATE_DOCS=1 cargo nextest run -p agentguard config`. -->
# Configuration

AgentGuard needs no configuration file. It takes the first of:

1. the file that `--config` names,
2. the file that `$AGENTGUARD_CONFIG` names,
3. `./agentguard.yaml`,
4. `$XDG_CONFIG_HOME/agentguard/agentguard.yaml` (`~/.config` if that is not set).

A file that is named must exist. `agentguard init` writes one with every key and a comment;
`agentguard config check` checks it without starting. `config.schema.json` beside this page lets
an editor complete and check it.

An unknown key, a key that is written twice and a wrong value are errors that name the place, the
key and what would be right; then AgentGuard does not start. A running gate keeps its configuration
when the file breaks.

A variable overrides one key: `AGENTGUARD__PROXY__BIND=127.0.0.1:9000` stands for `proxy.bind`.
Its value is read as YAML, so a list is `[a, b]` and text with special characters takes quotes.
One entry of a table works too: `AGENTGUARD__CURRENCY_RATES__GBP=1.27`.

Keys that start with `danger_` or `insecure_`, and listeners that other machines can reach, are
announced as warnings at each start.
";

fn table<'a>(page: &mut String, keys: impl Iterator<Item = &'a Described>) {
    page.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
    for key in keys {
        let (type_name, default) = match key.shape {
            Shape::Section => ("section".to_owned(), String::new()),
            Shape::Table | Shape::Value => (key.type_name.clone(), format!("`{}`", key.default)),
        };
        let cell = |text: &str| text.replace('|', "\\|");
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            key.path,
            cell(&type_name),
            cell(&default),
            cell(&key.meaning)
        );
    }
}

/// Whole words on lines of at most so many characters; a longer word has its own line.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Sorted keys, whichever map the JSON library was built with: the file must not change with the
/// features of another crate.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            let entries = entries.into_iter().map(|(name, value)| (name, sorted(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}
