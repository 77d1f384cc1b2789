//! Every key with its type, default and meaning, in the order of the file. It is read off the raw
//! structs, so that schema, reference, example and suggestions cannot differ from what loads.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::raw::RawConfig;
use super::tree::{Content, Node, Source};

/// One key.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// Its dotted path.
    pub(super) path: String,
    /// What it holds.
    pub(super) shape: Shape,
    /// Its type, for people.
    pub(super) type_name: String,
    /// Its default, as YAML on one line.
    pub(super) default: String,
    /// What it is for.
    pub(super) meaning: String,
}

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Further keys.
    Section,
    /// Entries whose names the operator chooses.
    Table,
    /// One value or a list.
    Value,
}

impl Described {
    /// The last part of its path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }

    /// How many sections it lies in.
    pub(super) fn depth(&self) -> usize {
        self.path.matches('.').count()
    }
}

/// All keys, sections before what they hold.
pub(super) fn keys() -> Vec<Described> {
    let mut found = Vec::new();
    if let Some(defaults) = defaults() {
        collect(&defaults, &schema(), "", &mut found);
    }
    found
}

/// The JSON schema of the file.
pub(super) fn schema() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<RawConfig>().to_value()
}

/// The defaults as a tree: JSON is YAML, and the tree keeps the order of the structs.
fn defaults() -> Option<Node> {
    let text = serde_json::to_string(&RawConfig::default()).ok()?;
    Node::parse(&text, &Source::File("defaults".into())).ok()
}

fn collect(node: &Node, schema: &Value, parent: &str, found: &mut Vec<Described>) {
    let (Content::Section(entries), Some(properties)) = (&node.content, properties(schema)) else {
        return;
    };
    for entry in entries {
        let Some(schema) = properties.get(&entry.name) else { continue };
        let path =
            if parent.is_empty() { entry.name.clone() } else { format!("{parent}.{}", entry.name) };
        found.push(Described {
            shape: shape(schema),
            type_name: type_name(schema),
            default: one_line(&entry.value),
            meaning: text(schema, "description").unwrap_or_default().replace('\n', " "),
            path: path.clone(),
        });
        collect(&entry.value, schema, &path, found);
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    schema.get(name).and_then(Value::as_str)
}

fn shape(schema: &Value) -> Shape {
    // What may also be `null` is one value, though it has keys.
    let is_object = text(schema, "type") == Some("object");
    if is_object && properties(schema).is_some() {
        Shape::Section
    } else if is_object {
        Shape::Table
    } else {
        Shape::Value
    }
}

fn type_name(schema: &Value) -> String {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<_> = words.iter().map(|word| word.as_str().unwrap_or("null")).collect();
        return format!("`{}`", words.join("`, `"));
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let names: Vec<_> = choices.iter().map(type_name).collect();
        return names.join(" or ");
    }
    if let Some(types) = schema.get("type").and_then(Value::as_array) {
        let names: Vec<_> = types.iter().filter_map(Value::as_str).map(word).collect();
        return names.join(" or ");
    }
    match text(schema, "type") {
        Some("integer") => range(schema),
        Some("array") => {
            let of = schema.get("items").map(type_name).unwrap_or_default();
            format!("list of {}", of.replace("number", "numbers").replace("table", "tables"))
        }
        Some("object") if properties(schema).is_some() => "section".into(),
        Some(name) => word(name).into(),
        None => "any".into(),
    }
}

fn word(json_type: &str) -> &str {
    match json_type {
        "string" => "text",
        "boolean" => "`true` or `false`",
        "object" => "table",
        "null" => "`null`",
        other => other,
    }
}

fn range(schema: &Value) -> String {
    let end = |name| schema.get(name).and_then(Value::as_u64);
    match (end("minimum"), end("maximum")) {
        (Some(min), Some(max)) => format!("number, {min} to {max}"),
        (Some(_) | None, Some(_) | None) => "number".into(),
    }
}

/// The value as YAML on one line.
fn one_line(node: &Node) -> String {
    match &node.content {
        Content::Null => "null".into(),
        Content::Flag(flag) => flag.to_string(),
        Content::Whole(_, spelling) | Content::Fraction(spelling) => spelling.clone(),
        Content::Text(text) => Value::from(text.as_str()).to_string(),
        Content::List(items) => {
            let items: Vec<_> = items.iter().map(one_line).collect();
            format!("[{}]", items.join(", "))
        }
        Content::Section(entries) if entries.is_empty() => "{}".into(),
        Content::Section(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|entry| format!("{}: {}", entry.name, one_line(&entry.value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}
