//! The configuration from the outside: texts and variables in, a configuration or a message out.

mod generated;
mod loading;
mod refusals;
mod reloading;

use std::path::Path;

use super::{Config, resolve};

/// What a file of this text gives, or the message.
fn load_text(text: &str, env: &[(&str, &str)]) -> Result<Config, String> {
    resolve(Some(("a.yaml", text)), &pairs(env), Some(Path::new("/people/op")))
        .map_err(|error| error.to_string())
}

/// What variables alone give.
#[track_caller]
fn from_env(env: &[(&str, &str)]) -> Config {
    resolve(None, &pairs(env), Some(Path::new("/people/op"))).unwrap()
}

fn pairs(env: &[(&str, &str)]) -> Vec<(String, String)> {
    env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
