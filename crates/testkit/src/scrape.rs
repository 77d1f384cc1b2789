//! A strict reader of Prometheus' text format, version 0.0.4: what it accepts, every scraper accepts.
//!
//! Never here: what our metrics mean.

use std::collections::{BTreeMap, HashMap, HashSet};

type Labels = BTreeMap<String, String>;

/// A page of metrics that holds to the format. Values are in millionths: all of ours are decimals.
#[derive(Debug)]
pub struct Scrape {
    samples: Vec<(String, Labels, i128)>,
    kinds: HashMap<String, String>,
}

impl Scrape {
    /// Reads a page; panics with the line that breaks the format.
    pub fn parse(text: &str) -> Self {
        Self::try_parse(text).unwrap_or_else(|why| panic!("{why}\n--- page\n{text}"))
    }

    /// The same, with what is wrong.
    pub fn try_parse(text: &str) -> Result<Self, String> {
        if !text.ends_with('\n') {
            return Err("the last line does not end".to_owned());
        }
        let mut page = Self { samples: Vec::new(), kinds: HashMap::new() };
        let (mut helped, mut seen) = (HashSet::new(), HashSet::new());
        let mut family = String::new();
        for line in text.lines() {
            let wrong = |why: &str| format!("{why}: {line}");
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').ok_or_else(|| wrong("no help"))?;
                unescaped(help, false).ok_or_else(|| wrong("a bad escape"))?;
                if !helped.insert(name.to_owned()) {
                    return Err(wrong("a second HELP"));
                }
                family = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').ok_or_else(|| wrong("no type"))?;
                if name != family || !["counter", "gauge", "histogram"].contains(&kind) {
                    return Err(wrong("a TYPE that is unknown or not below its HELP"));
                }
                if page.kinds.insert(name.to_owned(), kind.to_owned()).is_some() {
                    return Err(wrong("a second TYPE"));
                }
            } else {
                let (name, labels, value) = sample(line).ok_or_else(|| wrong("no sample"))?;
                let kind = page.kinds.get(&family).map_or("", String::as_str);
                if !belongs(&name, &family, kind) {
                    return Err(wrong("a sample outside of its family"));
                }
                if !seen.insert((name.clone(), labels.clone())) {
                    return Err(wrong("a series twice"));
                }
                page.samples.push((name, labels, value));
            }
        }
        page.check_histograms()?;
        Ok(page)
    }

    /// The sum of all series of this name that have these labels, in millionths.
    pub fn micros(&self, name: &str, labels: &[(&str, &str)]) -> i128 {
        self.matching(name, labels).map(|(_, _, value)| value).sum()
    }

    /// The same in whole units.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> i128 {
        self.micros(name, labels) / 1_000_000
    }

    /// Whether there is such a series.
    pub fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.matching(name, labels).next().is_some()
    }

    /// Every value that this label has in this family.
    pub fn labels(&self, name: &str, label: &str) -> Vec<String> {
        let mut all: Vec<_> =
            self.matching(name, &[]).filter_map(|(_, labels, _)| labels.get(label)).collect();
        all.sort();
        all.dedup();
        all.into_iter().cloned().collect()
    }

    fn matching<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&str, &str)],
    ) -> impl Iterator<Item = &'a (String, Labels, i128)> {
        self.samples.iter().filter(move |(known, have, _)| {
            let has = |(label, value): &(&str, &str)| have.get(*label).is_some_and(|v| v == *value);
            known == name && labels.iter().all(has)
        })
    }

    /// Buckets grow, end with `+Inf`, and that is the count; the sum lies where the buckets allow it.
    fn check_histograms(&self) -> Result<(), String> {
        for name in self.kinds.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name)
        {
            let counts = format!("{name}_count");
            for (_, labels, count) in self.samples.iter().filter(|(known, _, _)| *known == counts) {
                let own: Vec<_> = labels.iter().map(|(l, v)| (l.as_str(), v.as_str())).collect();
                let buckets = format!("{name}_bucket");
                let (mut below, mut end_below, mut least, mut last) = (0, 0, 0, "");
                for (_, labels, value) in self.matching(&buckets, &own) {
                    let end = labels.get("le").ok_or_else(|| format!("{buckets} without `le`"))?;
                    let bound = if end == "+Inf" { Some(i128::MAX) } else { micros(end) };
                    let bound = bound.ok_or_else(|| format!("{buckets}: `le` {end}"))?;
                    if *value < below || bound <= end_below {
                        return Err(format!("{buckets}{labels:?} does not grow"));
                    }
                    least += (*value - below) / 1_000_000 * end_below;
                    (below, end_below, last) = (*value, bound, end);
                }
                if last != "+Inf" || below != *count {
                    return Err(format!("{counts}{labels:?} is not its last bucket"));
                }
                let sum = self.micros(&format!("{name}_sum"), &own);
                if sum < least || (*count == 0 && sum != 0) {
                    return Err(format!("{name}_sum{labels:?} is less than its buckets hold"));
                }
            }
        }
        Ok(())
    }
}

fn belongs(name: &str, family: &str, kind: &str) -> bool {
    match (name.strip_prefix(family), kind) {
        (Some(rest), "histogram") => ["_bucket", "_sum", "_count"].contains(&rest),
        (Some(rest), "counter") => rest.is_empty() && name.ends_with("_total"),
        (Some(rest), "gauge") => rest.is_empty() && !name.ends_with("_total"),
        _ => false,
    }
}

fn sample(line: &str) -> Option<(String, Labels, i128)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let legal = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
            && !text.as_bytes()[0].is_ascii_digit()
    };
    let mut labels = Labels::new();
    let mut rest = rest;
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let end = closing_quote(after)?;
            let (value, after) = after.split_at(end);
            let value = unescaped(value, true)?;
            if !legal(label) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            rest = after.strip_prefix('"')?;
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    let value = micros(rest.strip_prefix(' ')?)?;
    legal(name).then(|| (name.to_owned(), labels, value))
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends.then_some(at)
    })
}

fn unescaped(text: &str, quotes: bool) -> Option<String> {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next()? {
                '\\' => '\\',
                'n' => '\n',
                '"' if quotes => '"',
                _ => return None,
            },
            '"' if quotes => return None,
            other => other,
        });
    }
    Some(plain)
}

/// A plain decimal of at most six places.
fn micros(text: &str) -> Option<i128> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(rest) || rest.len() > 6 {
        return None;
    }
    let whole: i128 = whole.parse().ok()?;
    Some(whole * 1_000_000 + format!("{rest:0<6}").parse::<i128>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_breaks_the_format_is_not_read() {
        let check = |page: &str, expected: &str| {
            let said = Scrape::try_parse(page).err().unwrap_or_default();
            assert!(said.starts_with(expected), "{page}\n{said}");
        };
        let head = "# HELP a_total x\n# TYPE a_total counter\n";
        check(&format!("{head}a_total{{x=\"1\",y=\"a\\\\b\\\"c\\n\"}} 1.5\na_total 2\n"), "");
        check(&format!("{head}a_total 1"), "the last line");
        check(&format!("{head}a_total 1\na_total 2\n"), "a series twice");
        check(&format!("{head}{head}"), "a second HELP");
        check(&format!("{head}b_total 1\n"), "a sample outside");
        check("a_total 1\n", "a sample outside");
        check("# HELP a x\n# TYPE a counter\na 1\n", "a sample outside");
        for bad in [
            "{x=\"a\"b\"} 1",
            "{x=\"\\q\"} 1",
            "{x=\"1\",} 1",
            "{x=1} 1",
            " 1e3",
            " -1",
            "{X=\"1\"} 1",
        ] {
            check(&format!("{head}a_total{bad}\n"), "no sample");
        }
        let histogram = |one: u8, all: u8, count: u8, sum: &str| {
            format!(
                "# HELP h x\n# TYPE h histogram\nh_bucket{{le=\"0.5\"}} {one}\nh_bucket{{le=\"+Inf\"}} {all}\nh_sum {sum}\nh_count {count}\n"
            )
        };
        check(&histogram(1, 2, 2, "0.7"), "");
        check(&histogram(3, 2, 2, "0.7"), "h_bucket");
        check(&histogram(1, 2, 3, "0.7"), "h_count");
        check(&histogram(1, 2, 2, "0.4"), "h_sum");
    }
}
