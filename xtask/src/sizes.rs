//! Files and functions that have grown too long to read. Warnings: a reason to talk, no gate.

use crate::code::{code_only, is_word};
use crate::finding::Finding;
use crate::tree::File;

/// Past this a reader loses the thread.
const FILE_LINES_NOTE: usize = 400;
/// Past this the file should be split.
const FILE_LINES_MAX: usize = 700;
/// One screen.
const FUNCTION_LINES_MAX: usize = 70;

/// Looks at every Rust file.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let text = format!("{lines} lines; split it (limit {FILE_LINES_MAX})");
            findings.push(Finding::warning(&file.path, text));
        } else if lines > FILE_LINES_NOTE {
            let text = format!("{lines} lines; aim for {FILE_LINES_NOTE}");
            findings.push(Finding::note(&file.path, text));
        }
        for function in functions(&file.text) {
            if function.lines > FUNCTION_LINES_MAX {
                findings.push(Finding::warning(
                    format!("{}:{}", file.path, function.line),
                    format!(
                        "fn {} has {} lines (limit {FUNCTION_LINES_MAX})",
                        function.name, function.lines
                    ),
                ));
            }
        }
    }
    findings
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// The functions with a body, in the order in which they end.
fn functions(source: &str) -> Vec<Function> {
    let code = code_only(source);
    let mut scan = Scan::default();
    for (index, text) in code.lines().enumerate() {
        let line = index.saturating_add(1);
        let mut word = String::new();
        for c in text.chars().chain(['\n']) {
            if is_word(c) {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                scan.word(&std::mem::take(&mut word), line);
            }
            scan.mark(c, line);
        }
    }
    scan.found
}

/// Where the scan stands: inside which braces, and between which `fn` and its body.
#[derive(Default)]
struct Scan {
    found: Vec<Function>,
    /// Functions whose body is open: name, first line, brace depth outside the body.
    open: Vec<(String, usize, usize)>,
    /// A `fn name` whose body has not begun: name, line, depth of brackets in its signature.
    signature: Option<(String, usize, usize)>,
    after_fn: bool,
    depth: usize,
}

impl Scan {
    fn word(&mut self, word: &str, line: usize) {
        if self.after_fn {
            self.signature = Some((word.to_owned(), line, 0));
        }
        self.after_fn = word == "fn";
    }

    fn mark(&mut self, c: char, line: usize) {
        if !c.is_whitespace() {
            // `fn(u8) -> u8` is a type.
            self.after_fn = false;
        }
        match c {
            '(' | '[' => {
                if let Some((_, _, nested)) = &mut self.signature {
                    *nested = nested.saturating_add(1);
                }
            }
            ')' | ']' => {
                if let Some((_, _, nested)) = &mut self.signature {
                    *nested = nested.saturating_sub(1);
                }
            }
            // A declaration without a body; inside brackets it is an array length.
            ';' if self.signature.as_ref().is_some_and(|(_, _, nested)| *nested == 0) => {
                self.signature = None;
            }
            '{' => {
                if let Some((name, start, _)) = self.signature.take() {
                    self.open.push((name, start, self.depth));
                }
                self.depth = self.depth.saturating_add(1);
            }
            '}' => {
                self.depth = self.depth.saturating_sub(1);
                if let Some((name, start, _)) =
                    self.open.pop_if(|(_, _, outside)| *outside == self.depth)
                {
                    let lines = line.saturating_sub(start).saturating_add(1);
                    self.found.push(Function { name, line: start, lines });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: usize) -> File {
        File { path: "a.rs".into(), text: "x\n".repeat(lines) }
    }

    #[test]
    fn long_files_are_noted_and_then_warned_about() {
        assert_eq!(check(&[file(400)]), []);
        assert_eq!(check(&[file(401)]), [Finding::note("a.rs", "401 lines; aim for 400")]);
        let warned = check(&[file(701)]);
        assert_eq!(warned, [Finding::warning("a.rs", "701 lines; split it (limit 700)")]);
    }

    #[test]
    fn functions_are_measured_with_their_signature() {
        let source = "\
trait T { fn declared(&self, x: [u8; 3]) -> u8; }
fn outer<'a>(
    x: &'a [u8; 2],
) -> fn(u8) -> u8
where
    u8: Copy,
{
    fn inner() { let s = \"}\"; /* } */ }
    if x.is_empty() { '}'; }
    y
}
";
        let name = |n: &str, line, lines| Function { name: n.into(), line, lines };
        assert_eq!(functions(source), [name("inner", 8, 1), name("outer", 2, 10)]);
    }

    #[test]
    fn a_function_over_the_limit_is_warned_about() {
        let body = |lines: usize| File {
            path: "a.rs".into(),
            text: format!("fn f() {{\n{}}}\n", "    x();\n".repeat(lines)),
        };
        assert_eq!(check(&[body(68)]), []);
        let warned = check(&[body(69)]);
        assert_eq!(warned, [Finding::warning("a.rs:1", "fn f has 71 lines (limit 70)")]);
    }
}
