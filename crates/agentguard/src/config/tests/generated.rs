//! The schema, the reference and the example say what the code does.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::describe::{self, Shape};
use super::super::{commented_example, json_schema, reference_markdown};
use super::{from_env, load_text};

#[test]
fn the_example_has_every_key_and_loads_to_the_defaults() {
    let example = commented_example();
    let config = load_text(&example, &[]).unwrap();
    assert_eq!(format!("{config:?}"), format!("{:?}", from_env(&[])));
    for key in describe::keys() {
        let line = format!("{}{}:", "  ".repeat(key.depth()), key.name());
        assert!(example.lines().any(|found| found.starts_with(&line)), "{line}");
    }
    assert!(example.lines().all(|line| line.chars().count() <= 100), "{example}");
}

#[test]
fn every_key_says_what_it_is_for() {
    let keys = describe::keys();
    assert!(keys.len() > 50, "{}", keys.len());
    for key in keys {
        assert!(key.meaning.ends_with('.'), "{} {:?}", key.path, key.meaning);
        assert!(key.shape == Shape::Section || !key.default.is_empty(), "{}", key.path);
    }
}

#[test]
fn checked_in_files_are_up_to_date() {
    for (name, content) in
        [("config.schema.json", json_schema()), ("configuration.md", reference_markdown())]
    {
        let path = docs().join(name);
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::create_dir_all(docs()).unwrap();
            fs::write(&path, &content).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == content,
            "docs/{name} differs from the code; run \
             `UPDATE_DOCS=1 cargo nextest run -p agentguard config`"
        );
    }
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}
