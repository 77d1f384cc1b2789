//! The workspace as `cargo metadata` describes it, cut down to what the rules look at.
//! Never here: a rule.

use crate::run;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reading manifests takes well under a second; a minute means that cargo waits for something.
const METADATA_LIMIT: Duration = Duration::from_secs(60);

/// All crates of the repository.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where cargo builds; it may lie outside the checkout.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One crate.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its folder, relative to the root, with `/` between the parts.
    pub(crate) folder: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a manifest's dependency tables. `name` is the real name, also where the manifest
/// renames the crate: a rename must not hide an edge.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// Which table a dependency stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

impl Workspace {
    /// Asks cargo about the workspace that holds the current folder.
    pub(crate) fn load() -> Result<Self, String> {
        let arguments = ["metadata", "--format-version", "1", "--no-deps"];
        let ended = run::run(&run::cargo(), &arguments, Path::new("."), METADATA_LIMIT)?;
        if !ended.success {
            return Err(format!("`cargo metadata` failed:\n{}", ended.stderr));
        }
        Self::parse(&ended.stdout)
    }

    /// Reads the output of `cargo metadata --format-version 1 --no-deps`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text)
            .map_err(|cause| format!("reading the output of `cargo metadata`: {cause}"))?;
        let root = PathBuf::from(string(&document, "workspace_root")?);
        let target = PathBuf::from(string(&document, "target_directory")?);
        let packages = list(&document, "packages")?
            .iter()
            .map(|package| Package::parse(package, &root))
            .collect::<Result<_, _>>()?;
        Ok(Self { root, target, packages })
    }
}

impl Package {
    fn parse(package: &Value, root: &Path) -> Result<Self, String> {
        let manifest = PathBuf::from(string(package, "manifest_path")?);
        let folder = manifest
            .parent()
            .and_then(|folder| folder.strip_prefix(root).ok())
            .ok_or_else(|| format!("`{}` lies outside the workspace", manifest.display()))?;
        let dependencies = list(package, "dependencies")?
            .iter()
            .map(Dependency::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: string(package, "name")?.to_owned(),
            folder: folder.to_string_lossy().into_owned(),
            dependencies,
        })
    }
}

impl Dependency {
    fn parse(dependency: &Value) -> Result<Self, String> {
        let name = string(dependency, "name")?.to_owned();
        let kind = match dependency.get("kind").and_then(Value::as_str) {
            None => Kind::Normal,
            Some("build") => Kind::Build,
            Some("dev") => Kind::Dev,
            Some(other) => return Err(format!("dependency `{name}` has unknown kind `{other}`")),
        };
        Ok(Self { name, kind })
    }
}

fn string<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("`cargo metadata` gave no text in `{key}`"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value
        .get(key)
        .and_then(Value::as_array)
        .ok_or_else(|| format!("`cargo metadata` gave no list in `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_kinds_and_folders_are_read() {
        let text = r#"{"workspace_root":"/r","target_directory":"/t","packages":[{"name":"a","manifest_path":"/r/crates/a/Cargo.toml",
            "dependencies":[{"name":"b","kind":null,"rename":"c"},{"name":"d","kind":"dev"},{"name":"e","kind":"build"}]}]}"#;
        let workspace = Workspace::parse(text).unwrap();
        let package = workspace.packages.first().unwrap();
        assert_eq!((package.name.as_str(), package.folder.as_str()), ("a", "crates/a"));
        let kinds: Vec<_> =
            package.dependencies.iter().map(|d| (d.name.as_str(), d.kind)).collect();
        assert_eq!(kinds, [("b", Kind::Normal), ("d", Kind::Dev), ("e", Kind::Build)]);
    }

    #[test]
    fn metadata_that_is_not_understood_is_an_error() {
        for text in [
            "",
            "{}",
            r#"{"workspace_root":"/r","target_directory":"/t","packages":[{"name":"a"}]}"#,
        ] {
            assert!(Workspace::parse(text).is_err(), "{text}");
        }
    }
}
