//! `agentguard init`

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::config;
use crate::failure::Failure;
use crate::session::{Session, text};

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to write it
    #[arg(value_name = "PATH", default_value = "agentguard.yaml")]
    path: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(session: &Session, args: &InitArgs) -> Result<(), Failure> {
    let shown = args.path.display();
    let mut options = OpenOptions::new();
    // Only its owner: later it may hold a token.
    options.write(true).mode(0o600);
    if args.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let mut file = options.open(&args.path).map_err(|error| {
        if error.kind() == ErrorKind::AlreadyExists {
            return Failure::failed(format!("`{shown}` is there already"))
                .hint("--force replaces it; or name another PATH");
        }
        Failure::failed(format!("writing `{shown}`: {error}"))
    })?;
    file.write_all(config::commented_example().as_bytes())
        .map_err(|error| Failure::failed(format!("writing `{shown}`: {error}")))?;
    session.show(&json!({"path": args.path}), |written| {
        format!("wrote {}\nstart the gate with `agentguard up`", text(written, "path"))
    })
}
