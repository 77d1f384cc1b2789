//! `docs/decisions`: every page is numbered once and linked from the index. Never here: prose rules.

use crate::finding::Finding;
use crate::tree::File;

const FOLDER: &str = "docs/decisions";
const INDEX: &str = "docs/decisions/README.md";

/// Compares the pages with the index.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let index = files.iter().find(|file| file.path == INDEX);
    let mut pages: Vec<&str> = files
        .iter()
        .filter(|file| file.is_in(FOLDER) && file.path != INDEX)
        .filter_map(|file| file.path.strip_prefix(FOLDER)?.strip_prefix('/'))
        .collect();
    pages.sort_unstable();
    let Some(index) = index else {
        return vec![Finding::error(INDEX, "the index of decisions is missing")];
    };
    let linked = links(&index.text);
    let mut findings = Vec::new();
    let mut last = None;
    for page in &pages {
        let place = format!("{FOLDER}/{page}");
        let Some(number) = number(page) else {
            findings.push(Finding::error(place, "name it `NNNN-what-was-decided.md`"));
            continue;
        };
        if last == Some(number) {
            findings.push(Finding::error(&place, format!("the number {number} is taken twice")));
        }
        last = Some(number);
        if !linked.contains(page) {
            findings.push(Finding::error(place, format!("not linked in {INDEX}")));
        }
    }
    for link in linked.iter().filter(|link| number(link).is_some() && !pages.contains(link)) {
        findings.push(Finding::error(INDEX, format!("links to `{link}`, which is not there")));
    }
    findings
}

/// `0007` of `0007-own-known-hosts.md`.
fn number(page: &str) -> Option<&str> {
    let (number, rest) = page.split_at_checked(4)?;
    let is_page = number.bytes().all(|byte| byte.is_ascii_digit())
        && rest.len() > "-.md".len()
        && rest.starts_with('-')
        && rest.ends_with(".md");
    is_page.then_some(number)
}

/// The targets of Markdown links.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_pages(index: &str, pages: &[&str], expected: &[&str]) {
        let mut files = vec![File { path: INDEX.into(), text: index.into() }];
        files.extend(
            pages.iter().map(|page| File { path: format!("{FOLDER}/{page}"), text: String::new() }),
        );
        let findings: Vec<_> = check(&files).iter().map(ToString::to_string).collect();
        assert_eq!(findings.len(), expected.len(), "{findings:?}");
        for (finding, part) in findings.iter().zip(expected) {
            assert!(finding.contains(part), "{finding}");
        }
    }

    #[test]
    fn linked_pages_pass() {
        check_pages(
            "- [one](0001-one.md)\n- [two](0002-two.md)",
            &["0001-one.md", "0002-two.md"],
            &[],
        );
        check_pages("nothing decided yet", &[], &[]);
    }

    #[test]
    fn a_page_that_is_not_linked_is_refused() {
        check_pages("0001-one.md, but no link", &["0001-one.md"], &["not linked"]);
    }

    #[test]
    fn a_link_to_nowhere_is_refused() {
        check_pages("[one](0001-one.md)", &[], &["which is not there"]);
    }

    #[test]
    fn numbers_are_given_once_and_names_have_a_form() {
        check_pages("[a](0001-a.md) [b](0001-b.md)", &["0001-a.md", "0001-b.md"], &["taken twice"]);
        check_pages("[a](sqlite.md)", &["sqlite.md"], &["NNNN"]);
    }

    #[test]
    fn a_missing_index_is_refused() {
        assert_eq!(check(&[]).len(), 1);
    }
}
