//! Environment variables that override keys: `AGENTGUARD__PROXY__BIND` is `proxy.bind`.

use super::describe::{self, Described, Shape};
use super::error::{Origin, Problem};
use super::key::{Key, Step};
use super::limits::VARIABLE_STEPS_MAX;
use super::suggest;
use super::tree::{Content, Entry, Node, Source};

/// What the names of overriding variables start with. `AGENTGUARD_CONFIG` does not.
pub(super) const PREFIX: &str = "AGENTGUARD__";

/// Puts the values of all such variables into the tree.
pub(super) fn apply(tree: &mut Node, env: &[(String, String)]) -> Result<(), Problem> {
    let mut overrides: Vec<_> = env.iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    if overrides.is_empty() {
        return Ok(());
    }
    // By name: a table comes before its entries, and the result does not depend on the order in
    // which the environment was built.
    overrides.sort();
    let known = describe::keys();
    for (name, value) in overrides {
        let path = resolve(name, &known)?;
        let node = read(name, value)?;
        insert(tree, &path, node, name)?;
    }
    Ok(())
}

/// The names of the key that the variable stands for.
fn resolve(name: &str, known: &[Described]) -> Result<Vec<String>, Problem> {
    let bad = |why: String| Problem::BadVariable { name: name.to_owned(), why };
    let suffix = name.strip_prefix(PREFIX).unwrap_or_default();
    let mut steps: Vec<String> = suffix.split("__").map(str::to_lowercase).collect();
    if steps.len() > VARIABLE_STEPS_MAX || steps.iter().any(String::is_empty) {
        return Err(bad(format!("no key; write it like {PREFIX}PROXY__BIND")));
    }
    let path = steps.join(".");
    match known.iter().find(|key| key.path == path).map(|key| key.shape) {
        Some(Shape::Value | Shape::Table) => return Ok(steps),
        Some(Shape::Section) => {
            return Err(bad(format!("`{path}` is a section; set one of its keys, like {name}__…")));
        }
        None => {}
    }
    // One entry of a table.
    if let Some((entry, table)) = steps.split_last_mut() {
        let table = table.join(".");
        if known.iter().any(|key| key.shape == Shape::Table && key.path == table) {
            if table == "currency_rates" {
                entry.make_ascii_uppercase();
            }
            return Ok(steps);
        }
    }
    let settable = known.iter().filter(|key| key.shape != Shape::Section);
    let hint = match suggest::nearest(&path, settable.map(|key| key.path.as_str())) {
        Some(near) => format!("did you mean {}?", variable(near)),
        None => "see the reference of all keys".into(),
    };
    let key = Key::from_steps(steps.into_iter().map(Step::Name).collect());
    Err(Problem::unknown_key(Origin::Variable(name.into()), &key, hint))
}

/// The variable of a key.
fn variable(path: &str) -> String {
    format!("{PREFIX}{}", path.to_uppercase().replace('.', "__"))
}

fn read(name: &str, value: &str) -> Result<Node, Problem> {
    let source = Source::Variable(name.into());
    let node = Node::parse(value, &source)?;
    match node.content {
        Content::Section(_) => Err(Problem::BadVariable {
            name: name.to_owned(),
            why: "holds a section; a variable sets one value or one list".into(),
        }),
        // `NAME=` empties a text; YAML would make it null.
        Content::Null if value.trim().is_empty() => {
            Ok(Node { origin: node.origin, content: Content::Text(String::new()) })
        }
        Content::Null
        | Content::Flag(_)
        | Content::Whole(..)
        | Content::Fraction(_)
        | Content::Text(_)
        | Content::List(_) => Ok(node),
    }
}

/// Sets the value at the path and makes the sections on the way.
fn insert(tree: &mut Node, path: &[String], value: Node, variable: &str) -> Result<(), Problem> {
    let mut node = tree;
    for (depth, name) in path.iter().enumerate() {
        if matches!(node.content, Content::Null) {
            node.content = Content::Section(Vec::new());
        }
        let shown = node.shown();
        let Content::Section(entries) = &mut node.content else {
            // The file has a value where a section belongs: that is its error, and it stays one.
            let steps = path.iter().take(depth).cloned().map(Step::Name).collect();
            let expected = format!("a section, as {variable} sets a key in it");
            let key = Key::from_steps(steps);
            return Err(Problem::bad_value(node.origin.clone(), &key, &shown, expected));
        };
        if !entries.iter().any(|entry| entry.name == *name) {
            let origin = value.origin.clone();
            let empty = Node { origin: origin.clone(), content: Content::Null };
            entries.push(Entry { name: name.clone(), origin, value: empty });
        }
        let Some(entry) = entries.iter_mut().find(|entry| entry.name == *name) else {
            return Ok(());
        };
        node = &mut entry.value;
    }
    *node = value;
    Ok(())
}
