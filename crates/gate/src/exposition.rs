//! The text format that Prometheus reads, version 0.0.4. Never here: what is counted.

use std::fmt::{self, Display, Write as _};

/// A page of metrics under way.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

/// What a family of metrics is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// A count of millionths, written as a decimal: money and seconds, without a float.
#[derive(Clone, Copy, Debug)]
pub struct Millionths(pub u64);

impl Exposition {
    /// The type of the page, for its `Content-Type`.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Starts a family. Its samples follow at once: the format wants them together.
    pub fn family(
        &mut self,
        name: &'static str,
        kind: MetricKind,
        help: &'static str,
    ) -> Family<'_> {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = Escaped { text: help, quotes: false };
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family { page: self, name }
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.text
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(text);
    }
}

/// A family whose samples are being written.
#[derive(Debug)]
pub struct Family<'a> {
    page: &'a mut Exposition,
    name: &'static str,
}

impl Family<'_> {
    /// One sample.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// One sample of a histogram: `_bucket`, `_sum` or `_count`.
    pub(crate) fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let (name, page) = (self.name, &mut *self.page);
        page.write(format_args!("{name}{suffix}"));
        let mut before = "{";
        for (label, text) in labels {
            let text = Escaped { text, quotes: true };
            page.write(format_args!("{before}{label}=\"{text}\""));
            before = ",";
        }
        let after = if labels.is_empty() { "" } else { "}" };
        page.write(format_args!("{after} {value}\n"));
    }
}

impl Display for Millionths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000));
        write!(f, "{whole}.{rest:06}")
    }
}

/// A line must stay one line, and a label's value must not end before its end.
struct Escaped<'a> {
    text: &'a str,
    quotes: bool,
}

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.text.chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '"' if self.quotes => f.write_str("\\\"")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_help_are_escaped_by_the_rules_of_the_format() {
        let mut page = Exposition::default();
        let mut family = page.family("a_total", MetricKind::Counter, "one \\ \"two\"\nthree");
        family.sample(&[("x", "back\\slash"), ("y", "say \"no\"\nnow")], 7);
        family.sample(&[], Millionths(1_000_001));
        let expected = "# HELP a_total one \\\\ \"two\"\\nthree\n# TYPE a_total counter\n\
             a_total{x=\"back\\\\slash\",y=\"say \\\"no\\\"\\nnow\"} 7\na_total 1.000001\n";
        assert_eq!(page.into_text(), expected);
    }

    #[test]
    fn millionths_are_exact_at_both_ends() {
        for (micros, text) in
            [(0, "0.000000"), (1, "0.000001"), (u64::MAX, "18446744073709.551615")]
        {
            assert_eq!(Millionths(micros).to_string(), text);
        }
    }
}
