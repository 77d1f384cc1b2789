//! The management token in the data folder: made at the first start, read by the command line.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use agentguard_core::token::{ADMIN_PREFIX, Token};
use agentguard_gate::IdSource;

use crate::client::TOKEN_FILE;
use crate::failure::Failure;

/// Only its owner.
const PRIVATE: u32 = 0o600;

/// The token that is there, or a new one.
pub(super) fn ensure(data_dir: &Path, ids: &IdSource) -> Result<Token, Failure> {
    let path = data_dir.join(TOKEN_FILE);
    let failed = |doing: &str, error: &std::io::Error| {
        Failure::failed(format!("{doing} `{}`: {error}", path.display())).into_usage()
    };
    match fs::read_to_string(&path) {
        Ok(text) => {
            if let Some(token) = Token::parse_admin(text.trim()) {
                keep_private(&path).map_err(|error| failed("protecting", &error))?;
                return Ok(token);
            }
            tracing::warn!("`{}` held no management token; a new one is made", path.display());
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed("reading", &error)),
    }
    let token = ids
        .token(ADMIN_PREFIX)
        .map_err(|error| Failure::because("making the management token", &error))?;
    write(&path, &token).map_err(|error| failed("writing", &error))?;
    Ok(token)
}

/// Beside it, then over it: a reader sees the old one or the new one, whole.
fn write(path: &Path, token: &Token) -> std::io::Result<()> {
    let beside = path.with_extension("token.new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&beside)?;
    writeln!(file, "{}", token.expose())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// Who can read it can stop and start every agent.
fn keep_private(path: &Path) -> std::io::Result<()> {
    if fs::metadata(path)?.mode() & 0o077 != 0 {
        tracing::warn!("others could read `{}`; now they cannot", path.display());
        fs::set_permissions(path, Permissions::from_mode(PRIVATE))?;
    }
    Ok(())
}
