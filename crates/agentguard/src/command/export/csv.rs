//! Rows as CSV (RFC 4180), with cells that a spreadsheet would run as a formula defused.

/// What makes a spreadsheet take a cell for a formula, or lets one be reached by a line break.
const FORMULA_STARTS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// One line, without its end.
pub(super) fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<String> = cells.map(cell).collect();
    cells.join(",")
}

/// An agent chooses paths and verbs: `=HYPERLINK(…)` in one must stay a text when the operator opens
/// the export.
fn cell(text: &str) -> String {
    let defused =
        if text.starts_with(FORMULA_STARTS) { format!("'{text}") } else { text.to_owned() };
    if defused.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", defused.replace('"', "\"\""));
    }
    defused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_defused_and_special_characters_quoted() {
        let cases = [
            ("plain", "plain"),
            ("", ""),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"'\r=1\""),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=a,\"b\"", "\"'=a,\"\"b\"\"\""),
            ("two\nlines", "\"two\nlines\""),
        ];
        for (given, expected) in cases {
            assert_eq!(cell(given), expected, "{given:?}");
        }
        assert_eq!(line(["a", "=b", ""].into_iter()), "a,'=b,");
    }
}
