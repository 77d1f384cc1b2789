//! The configuration: found, read, overridden by variables, checked, explained.
//!
//! Text becomes a tree that knows where each value is written (`tree`), variables are put into it
//! (`variables`), serde reads the raw structs from it (`decode`, `raw`), and `compile` makes valid
//! types of them (`model`). All of that is pure; only `find` touches the machine. What lives in
//! the store (agents, rules, services) is not configured here.

mod compile;
mod decode;
mod defaults;
mod describe;
mod docs;
mod error;
mod find;
mod key;
mod limits;
pub(crate) mod model;
mod opaque;
mod prices;
mod raw;
mod reader;
mod reload;
mod suggest;
#[cfg(test)]
mod tests;
mod tree;
mod values;
mod variables;
mod warn;

use std::path::{Path, PathBuf};

pub(crate) use docs::{commented_example, json_schema, reference_markdown};
pub(crate) use error::ConfigError;
pub(crate) use model::Config;
pub(crate) use reload::{ReloadPlan, diff, note_written, sides};

use tree::{Node, Source};

/// A configuration and the file that it came from.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// The configuration.
    pub(crate) config: Config,
    /// `None` if there is no file, and all is default or set by variables.
    pub(crate) file: Option<PathBuf>,
}

/// Finds and reads the configuration of this process, and the files that it names. Called again, it
/// sees what has changed.
pub(crate) fn load(flag: Option<&Path>) -> Result<Loaded, ConfigError> {
    let Loaded { mut config, file } = load_keys(flag)?;
    if let Some(named) = config.proxy.prices_file.take() {
        let beside = file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let path = beside.join(named);
        let text = find::read_named(&path, "named by `proxy.prices_file`")?;
        config.proxy.file_prices = prices::read(&path.display().to_string(), &text)?;
        config.proxy.prices_file = Some(path);
    }
    Ok(Loaded { config, file })
}

/// The same without the files that it names: a command for a running gate must not fail by them.
pub(crate) fn load_keys(flag: Option<&Path>) -> Result<Loaded, ConfigError> {
    let env = find::environment()?;
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let file = find::read(find::candidates(flag, &env, home.as_deref()))?;
    let name = file.as_ref().map(|file| file.path.display().to_string());
    let text = name.as_deref().zip(file.as_ref().map(|file| file.text.as_str()));
    let config = resolve(text, &env, home.as_deref())?;
    Ok(Loaded { config, file: file.map(|file| file.path) })
}

/// The configuration that a file (its name and text), the environment and the home folder make.
pub(crate) fn resolve(
    file: Option<(&str, &str)>,
    env: &[(String, String)],
    home: Option<&Path>,
) -> Result<Config, ConfigError> {
    let mut tree = match file {
        Some((name, text)) => Node::parse(text, &Source::File(name.into()))?,
        None => Node::empty(),
    };
    variables::apply(&mut tree, env)?;
    let raw = decode::decode(&tree)?;
    compile::compile(&raw, &tree, home)
}
