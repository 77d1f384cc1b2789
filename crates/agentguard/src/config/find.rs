//! Which file is the configuration, and reading it. The only part of the configuration that
//! touches the machine.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::Problem;
use super::limits::FILE_BYTES_MAX;
use super::variables;

const FILE_NAME: &str = "agentguard.yaml";
const NAMING_VARIABLE: &str = "AGENTGUARD_CONFIG";
const FOLDER_VARIABLE: &str = "XDG_CONFIG_HOME";

/// A place to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) named: Named,
}

/// Whether the operator asked for this very file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    ByFlag,
    ByVariable,
    /// It may be absent.
    No,
}

/// A file that was read.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What it says.
    pub(super) text: String,
}

/// Where to look, in order. A file that is named is the only one.
pub(super) fn candidates(
    flag: Option<&Path>,
    env: &[(String, String)],
    home: Option<&Path>,
) -> Vec<Candidate> {
    if let Some(path) = flag {
        return vec![Candidate { path: path.to_owned(), named: Named::ByFlag }];
    }
    if let Some(path) = variable(env, NAMING_VARIABLE) {
        return vec![Candidate { path: path.into(), named: Named::ByVariable }];
    }
    // The base directory specification: a relative path is to be ignored.
    let folder = variable(env, FOLDER_VARIABLE)
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .or_else(|| home.map(|home| home.join(".config")));
    let mut places = vec![PathBuf::from(FILE_NAME)];
    places.extend(folder.map(|folder| folder.join("agentguard").join(FILE_NAME)));
    places.into_iter().map(|path| Candidate { path, named: Named::No }).collect()
}

/// The first candidate that exists.
pub(super) fn read(candidates: Vec<Candidate>) -> Result<Option<ConfigFile>, Problem> {
    for Candidate { path, named } in candidates {
        match read_bounded(&path) {
            Ok(bytes) => {
                let name = path.display().to_string().into();
                if bytes.len() > FILE_BYTES_MAX {
                    return Err(Problem::TooLarge { name });
                }
                let text = String::from_utf8(bytes).map_err(|_| Problem::NotText { name })?;
                return Ok(Some(ConfigFile { path, text }));
            }
            Err(error) if named == Named::No && is_absent(&error) => {}
            Err(source) => {
                let named_by = match named {
                    Named::ByFlag => "named by --config",
                    Named::ByVariable => "named by $AGENTGUARD_CONFIG",
                    Named::No => "found by itself; --config names another",
                };
                return Err(Problem::Unreadable { path, named_by, source });
            }
        }
    }
    Ok(None)
}

/// A file that the configuration names under this key.
pub(super) fn read_named(path: &Path, key: &'static str) -> Result<String, Problem> {
    let bytes = read_bounded(path).map_err(|source| Problem::Unreadable {
        path: path.to_owned(),
        named_by: key,
        source,
    })?;
    let name = || path.display().to_string().into();
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Problem::TooLarge { name: name() });
    }
    String::from_utf8(bytes).map_err(|_| Problem::NotText { name: name() })
}

/// The variables that matter to the configuration.
pub(super) fn environment() -> Result<Vec<(String, String)>, Problem> {
    let mut found = Vec::new();
    for (name, value) in env::vars_os() {
        let Ok(name) = name.into_string() else { continue };
        let ours = name.starts_with(variables::PREFIX)
            || name == NAMING_VARIABLE
            || name == FOLDER_VARIABLE;
        if ours {
            let value = value
                .into_string()
                .map_err(|_| Problem::NotText { name: format!("variable {name}").into() })?;
            found.push((name, value));
        }
    }
    Ok(found)
}

fn variable<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
    env.iter()
        .find(|(found, value)| found == name && !value.is_empty())
        .map(|(_, value)| value.as_str())
}

/// One byte more than allowed shows that the file is too large, without holding all of it.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
