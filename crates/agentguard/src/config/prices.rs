//! The file of prices that the configuration names: read, decoded and checked, each error with its
//! place. Which file it is and reading it is in `find`.

use std::collections::HashSet;

use agentguard_core::PriceTable;
use agentguard_core::limits::{PRICES_MAX, TOKENS_MAX};
use agentguard_core::price::{Origin, PriceError, PriceSpec};

use super::decode;
use super::error::{ConfigError, Problem};
use super::key::Key;
use super::reader::Reader;
use super::tree::{Node, Source};

/// The prices that a file of this name and text holds.
pub(super) fn read(name: &str, text: &str) -> Result<Vec<PriceSpec>, ConfigError> {
    let tree = Node::parse(text, &Source::File(name.into()))?;
    // A file in which everything is commented out has no prices.
    let specs: Vec<PriceSpec> = decode::decode_as::<Option<_>>(&tree)?.unwrap_or_default();
    let reader = Reader { tree: &tree, home: None };
    let mut problems = Vec::new();
    let mut names = HashSet::new();
    // What ships with the program takes places too.
    let mut table = PriceTable::built_in().unwrap_or_default();
    for (place, spec) in specs.iter().enumerate() {
        let key = Key::default().index(place);
        if let Err(error) = table.put_from(spec, Origin::File) {
            problems.push(reader.bad_price(&key, &error));
        } else if !names.insert(spec.model.to_ascii_lowercase()) {
            let expected = "each model once".to_owned();
            problems.push(reader.bad(&key.entry("model"), &spec.model, expected));
        }
    }
    ConfigError::of(problems).map_or(Ok(specs), Err)
}

impl Reader<'_> {
    /// A price that cannot be, at the field that makes it so.
    pub(super) fn bad_price(&self, price: &Key, error: &PriceError) -> Problem {
        match error {
            PriceError::Figure { field, text, why } => {
                let key = field.split('.').fold(price.clone(), |key, name| key.entry(name));
                self.bad(&key, text, format!("dollars for a million tokens; it {why}"))
            }
            PriceError::Name(name) => {
                let expected = "a model's name, or the beginning of names and `*`".to_owned();
                self.bad(&price.entry("model"), name, expected)
            }
            PriceError::Bound(field) => {
                let key = field.split('.').fold(price.clone(), |key, name| key.entry(name));
                let found = self.tree.find(&key).map(Node::shown).unwrap_or_default();
                self.bad(&key, &found, format!("a number from 1 to {TOKENS_MAX}"))
            }
            PriceError::Line { .. } | PriceError::TooMany => {
                let expected = format!("at most {PRICES_MAX} prices, the program's own among them");
                self.bad(price, "one too many", expected)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let said = read("p.yaml", text).map_err(|error| error.to_string());
        let said = said.unwrap_err();
        assert!(said.contains(expected), "{text:?}: {said}");
        assert!(said.starts_with("p.yaml line "), "{said}");
    }

    #[test]
    fn prices_are_read_with_and_without_quotes() {
        let text = "\
            - { model: gpt-4o, input: 2.50, output: '10' }\n\
            - model: llama-*\n  input: 0.1\n  output: 0.2\n  reasons: false\n  max_output_tokens: 4096\n  \
            long: { above_tokens: 1000, input: 0.2, output: 0.4 }\n";
        let specs = read("p.yaml", text).unwrap();
        assert_eq!((specs[0].input.as_str(), specs[0].reasons), ("2.50", true));
        assert_eq!((specs[1].max_output_tokens, specs[1].reasons), (4_096, false));
        assert_eq!(specs[1].long.as_ref().unwrap().output, "0.4");
        for empty in ["", "# nothing\n", "[]", "null"] {
            assert_eq!(read("p.yaml", empty).unwrap(), [], "{empty:?}");
        }
    }

    #[test]
    fn a_wrong_price_names_its_line_and_field() {
        let price = "- { model: m, input: 1, output: 1 }\n";
        check(
            "- { model: m, input: 1, output: 1, inptu: 2 }",
            "line 1, column 36: unknown key `[0].inptu`",
        );
        check(&format!("{price}- {{ model: n, output: 1 }}"), "line 2, ");
        check(&format!("{price}- {{ model: n, output: 1 }}"), "input");
        check(
            &format!("{price}- {{ model: M, input: 1, output: 1 }}"),
            "`[1].model` is `M`; expected each model once",
        );
        check(
            "- { model: m, input: -1, output: 1 }",
            "column 22: `[0].input` is `-1`; expected dollars",
        );
        check("- { model: m, input: 1e3, output: 1 }", "`[0].input` is `1e3`");
        check("- { model: m, input: 1, output: 1.0000001 }", "`[0].output` is `1.0000001`");
        check("- { model: 'a b', input: 1, output: 1 }", "`[0].model` is `a b`");
        check(
            "- { model: m, input: 1, output: 1, max_output_tokens: 0 }",
            "`[0].max_output_tokens` is `0`; expected a number from 1",
        );
        check(
            "- { model: m, input: 1, output: 1, long: { above_tokens: 5, input: x, output: 1 } }",
            "`[0].long.input` is `x`",
        );
        check("model: m", "expected");
        check("- [1]", "expected");
        check("- {", "p.yaml line");
    }
}
