//! Asking the person at the terminal. Questions go to stderr, so that stdout stays the result's.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use crate::failure::Failure;

/// Longer answers than this are no answers.
const ANSWER_BYTES_MAX: u64 = 1_024;

/// Whether there is somebody to ask.
pub(crate) fn somebody_is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Resuming asks twice: once for the wish, once for a word that nobody types by accident.
pub(crate) fn to_resume(what: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    person_or("resuming", what)?;
    yes_or_no(&format!("Resume {what}? [y/N] "))?;
    if answer("Type RESUME to confirm: ")? != "RESUME" {
        return Err(Failure::failed("not confirmed; nothing was resumed"));
    }
    Ok(())
}

/// One question before something that cannot be taken back.
pub(crate) fn once(doing: &str, what: &str, question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    person_or(doing, what)?;
    yes_or_no(&format!("{question} [y/N] "))
}

fn person_or(doing: &str, what: &str) -> Result<(), Failure> {
    if somebody_is_there() {
        return Ok(());
    }
    Err(Failure::usage(format!("{doing} {what} needs a confirmation, and there is no terminal"))
        .hint("add --yes if you mean it"))
}

fn yes_or_no(question: &str) -> Result<(), Failure> {
    match answer(question)?.to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::failed("not confirmed; nothing was done")),
    }
}

fn answer(question: &str) -> Result<String, Failure> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin()
        .lock()
        .take(ANSWER_BYTES_MAX)
        .read_line(&mut line)
        .map_err(|error| Failure::because("reading the answer", &error))?;
    Ok(line.trim().to_owned())
}
