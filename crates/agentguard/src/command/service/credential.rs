//! Where `service set` takes a credential from: a variable, a file or stdin. Never an argument: those
//! are seen by every user of the machine, and kept in the shell's history.

use std::fs::File;
use std::io::{self, Read};

use agentguard_core::limits::CREDENTIAL_BYTES_MAX;
use agentguard_core::{Credential, Secret};
use clap::Args;
use serde_json::{Value, json};

use crate::failure::Failure;

/// A file may end with a line break or two; one that is longer than this holds no credential.
const FILE_BYTES_MAX: u64 = CREDENTIAL_BYTES_MAX as u64 + 16;

#[derive(Debug, Args)]
pub(crate) struct CredentialArgs {
    /// Store the value of this variable as the service's credential; if it is set only for the gate,
    /// the gate takes it from there at each start; empty takes the name away
    #[arg(long, value_name = "NAME")]
    credential_env: Option<String>,
    /// Store what this file holds as the service's credential; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "credential_env")]
    credential_file: Option<String>,
    /// Forget the service's credential
    #[arg(long, conflicts_with_all = ["credential_env", "credential_file"])]
    remove_credential: bool,
}

impl CredentialArgs {
    /// The fields that say it to the gate.
    pub(crate) fn fields(&self) -> Result<Vec<(&'static str, Value)>, Failure> {
        if self.remove_credential {
            return Ok(vec![("credential", json!(""))]);
        }
        if let Some(file) = &self.credential_file {
            let wrong = |why: String| {
                Failure::usage(format!("parameter `credential_file`: `{file}` {why}"))
            };
            let text = read(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
            return stored(text, |why| wrong(why.to_string()));
        }
        match &self.credential_env {
            None => Ok(Vec::new()),
            Some(name) => match variable(name) {
                Some(text) => stored(text, |why| {
                    Failure::usage(format!("parameter `credential_env`: `{name}` {why}"))
                }),
                None => Ok(vec![("credential_env", json!(name))]),
            },
        }
    }

    /// What else to say when the gate turned it down.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        match &self.credential_env {
            Some(name) if !name.is_empty() && variable(name).is_none() => failure.hint(
                "the variable is not set for this command: export it here and run this again, or \
                 start the gate with it",
            ),
            Some(_) | None => failure,
        }
    }
}

fn variable(name: &str) -> Option<Secret<String>> {
    // What is not UTF-8 is passed on as it is not, and turned down.
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(Secret::new(value.to_string_lossy().into_owned()))
}

fn stored(
    text: Secret<String>,
    wrong: impl FnOnce(agentguard_core::credential::CredentialError) -> Failure,
) -> Result<Vec<(&'static str, Value)>, Failure> {
    let credential = Credential::parse(text).map_err(wrong)?;
    Ok(vec![("credential", json!(credential.expose()))])
}

fn read(file: &str) -> io::Result<Secret<String>> {
    let source: Box<dyn Read> = match file {
        "-" => Box::new(io::stdin().lock()),
        path => Box::new(File::open(path)?),
    };
    let mut text = String::new();
    source.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let text = Secret::new(text);
    Ok(Secret::new(text.expose().trim_ascii().to_owned()))
}
