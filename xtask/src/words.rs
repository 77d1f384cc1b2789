//! Words that do not belong in a repository: folders of somebody's machine, unfinished work,
//! tests that are switched off without a reason. Never here: style.

use crate::code::{around, attributes, code_only, is_word, line_at, whole_words};
use crate::finding::Finding;
use crate::tree::File;

/// Folders that exist on the machine of whoever wrote the file. Split, so that this file passes.
const FOLDERS: &[&str] = &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];
/// Marks of unfinished work, in any file but prose.
const MARKS: &[&str] = &[concat!("FIX", "ME")];
/// Macros that end the process where code is missing.
const MACROS: &[&str] = &["todo", "unimplemented"];

/// Files that speak of such folders in general, each with the reason.
const MAY_NAME_FOLDERS: &[(&str, &str)] = &[];

/// Looks at every file but lock files.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.path.ends_with(".lock")) {
        findings.extend(folders(file));
        if !file.path.ends_with(".md") {
            findings.extend(marks(file));
        }
        if file.is_rust() {
            let code = code_only(&file.text);
            findings.extend(macros(file, &code));
            findings.extend(ignored_tests(file, &code));
        }
    }
    findings
}

fn folders(file: &File) -> Vec<Finding> {
    if MAY_NAME_FOLDERS.iter().any(|(path, _)| *path == file.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for folder in FOLDERS {
        for (offset, _) in file.text.match_indices(folder) {
            let (before, _) = around(&file.text, offset, folder.len());
            // `example.com/home/` and `$HOME/work/` go on from something: they are no root.
            if before.ends_with(|c: char| is_word(c) || matches!(c, '.' | '*' | '}' | '~' | ')')) {
                continue;
            }
            findings.push(Finding::error(
                place(file, offset),
                format!("names `{folder}`, a folder of one machine; use a relative path or a placeholder"),
            ));
        }
    }
    findings
}

fn marks(file: &File) -> Vec<Finding> {
    MARKS
        .iter()
        .flat_map(|mark| whole_words(&file.text, mark).map(move |offset| (mark, offset)))
        .map(|(mark, offset)| {
            let text = format!("`{mark}`: finish it, or open an issue and say so in prose");
            Finding::error(place(file, offset), text)
        })
        .collect()
}

fn macros(file: &File, code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in MACROS {
        for offset in whole_words(code, name) {
            let (_, after) = around(code, offset, name.len());
            if after.starts_with('!') && !after.starts_with("!=") {
                let text = format!("`{name}!` panics at run time: write the code");
                findings
                    .push(Finding::error(format!("{}:{}", file.path, line_at(code, offset)), text));
            }
        }
    }
    findings
}

fn ignored_tests(file: &File, code: &str) -> Vec<Finding> {
    attributes(code)
        .into_iter()
        .filter(|(_, body)| {
            let is_about_tests = body.starts_with("ignore") || body.starts_with("cfg_attr");
            is_about_tests
                && whole_words(body, "ignore").any(|offset| {
                    let (_, after) = around(body, offset, "ignore".len());
                    !after.trim_start().starts_with('=')
                })
        })
        .map(|(offset, _)| {
            let text = "a test is switched off without a reason: `#[ignore = \"…\"]`";
            Finding::error(format!("{}:{}", file.path, line_at(code, offset)), text)
        })
        .collect()
}

fn place(file: &File, offset: usize) -> String {
    format!("{}:{}", file.path, line_at(&file.text, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(path: &str, text: &str, expected: usize) {
        let findings = check(&[File { path: path.into(), text: text.into() }]);
        assert_eq!(findings.len(), expected, "{text}: {findings:?}");
    }

    #[test]
    fn folders_of_one_machine_are_refused() {
        let (home, work) = (concat!("/ho", "me/ann/x"), concat!("/wo", "rk/x"));
        check_text("a.rs", &format!("let p = \"{home}\";"), 1);
        check_text("a.md", &format!("see `{work}`\nand {home}"), 2);
        check_text("scripts/a", &format!("cd {work}"), 1);
        check_text("Cargo.lock", home, 0);
    }

    #[test]
    fn addresses_and_relative_paths_are_no_folders_of_a_machine() {
        check_text("a.md", "https://example.com/home/page and ~/work/x and ${HOME}/work/x", 0);
        check_text("a.md", "target/root/x", 0);
    }

    #[test]
    fn unfinished_work_is_refused() {
        check_text("a.rs", "fn f() { todo!() }", 1);
        check_text("a.rs", "fn f() { unimplemented!(\"x\") }", 1);
        check_text("a.rs", "// todo!() in a comment, \"todo!\" in text", 0);
        check_text("a.rs", "if todo != 3 {}", 0);
        check_text("a.sh", concat!("# FIX", "ME later"), 1);
        check_text("a.md", concat!("we never write FIX", "ME"), 0);
    }

    #[test]
    fn a_test_is_switched_off_only_with_a_reason() {
        check_text("a.rs", "#[ignore]\nfn t() {}", 1);
        check_text("a.rs", "#[ignore = \"needs a display\"]\nfn t() {}", 0);
        check_text("a.rs", "#[cfg_attr(miri, ignore)]\nfn t() {}", 1);
        check_text("a.rs", "#[cfg_attr(miri, ignore = \"slow\")]\nfn t() {}", 0);
        check_text("a.rs", "#[expect(x, reason = \"ignore\")]\nfn ignore() {}", 0);
    }
}
