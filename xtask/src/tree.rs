//! The files of the repository, with their text. Never here: what a text may say.

use crate::run;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Files past this size hold data, not source (the lock file is under 100 KiB).
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Listing needs no network and no lock.
const LIST_LIMIT: Duration = Duration::from_secs(60);

/// One text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the file lies in `folder` (relative, without a closing slash).
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Reads what git tracks or would track; where there is no git, all but hidden and built folders.
/// Files that are not text are left out.
pub(crate) fn read(root: &Path) -> Result<Vec<File>, String> {
    let mut paths = match tracked(root) {
        Some(paths) => paths,
        None => {
            let mut paths = Vec::new();
            walk(root, "", &mut paths)?;
            paths
        }
    };
    paths.sort();
    paths.dedup();
    let mut files = Vec::new();
    for path in paths {
        let full = root.join(&path);
        // A file that was deleted but not yet staged is still listed: it has nothing to check.
        let Ok(about) = fs::metadata(&full) else { continue };
        if !about.is_file() || about.len() > FILE_BYTES_MAX {
            continue;
        }
        let bytes = fs::read(&full).map_err(|cause| format!("reading `{path}`: {cause}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path, text });
        }
    }
    if files.is_empty() {
        return Err(format!("`{}` holds no files to check", root.display()));
    }
    Ok(files)
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let ended = run::run(&OsString::from("git"), &arguments, root, LIST_LIMIT).ok()?;
    if !ended.success {
        return None;
    }
    Some(ended.stdout.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path, under: &str, paths: &mut Vec<String>) -> Result<(), String> {
    let failed =
        |cause: std::io::Error| format!("listing `{}`: {cause}", root.join(under).display());
    for entry in fs::read_dir(root.join(under)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if under.is_empty() { name.clone() } else { format!("{under}/{name}") };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir()
            && !matches!(name.as_str(), ".git" | "target" | "node_modules" | "__pycache__")
        {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_git_built_folders_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["src/deep", "target/debug"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for file in ["src/deep/a.rs", "target/debug/b.rs", "c.md"] {
            fs::write(root.path().join(file), "x").unwrap();
        }
        fs::write(root.path().join("picture.png"), [0xff, 0xfe, 0x00]).unwrap();
        let mut paths = Vec::new();
        walk(root.path(), "", &mut paths).unwrap();
        paths.sort();
        assert_eq!(paths, ["c.md", "picture.png", "src/deep/a.rs"]);
        let read: Vec<_> = read(root.path()).unwrap().into_iter().map(|f| f.path).collect();
        assert_eq!(read, ["c.md", "src/deep/a.rs"], "what is not text is left out");
    }

    #[test]
    fn a_folder_with_a_longer_name_is_another_folder() {
        let file = File { path: "crates/core-x/a.rs".into(), text: String::new() };
        assert!(file.is_in("crates/core-x") && file.is_in("crates") && !file.is_in("crates/core"));
    }
}
