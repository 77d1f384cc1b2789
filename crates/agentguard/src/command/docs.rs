//! `agentguard completions` and `agentguard man`

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use serde_json::json;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;
use crate::session::{Session, text};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "agentguard", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end())
}

pub(crate) fn man(session: &Session, args: &ManArgs) -> Result<(), Failure> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        return output::line(String::from_utf8_lossy(&page).trim_end());
    };
    let failed =
        |error: std::io::Error| Failure::failed(format!("writing to `{}`: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(failed)?;
    session.show(&json!({"dir": dir}), |written| format!("wrote to {}", text(written, "dir")))
}
