//! Patterns of paths: segments, `*` for any one of them, `**` at the end for all that follow.

use crate::limits::{PATH_PATTERN_BYTES_MAX, PATH_PATTERN_SEGMENTS_MAX};

/// A pattern of paths, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    segments: Vec<Segment>,
    /// `**` at the end.
    open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Any,
    Named(String),
}

impl PathPattern {
    /// Reads `/v1/orders/*/pay` and `/v1/**`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > PATH_PATTERN_BYTES_MAX {
            return Err(format!("is longer than {PATH_PATTERN_BYTES_MAX} bytes"));
        }
        let rest = text.strip_prefix('/').ok_or("must begin with `/`, below the base URL")?;
        // Calls are compared decoded and without parameters: a pattern with these would never fit.
        let strange = |c: char| c.is_whitespace() || c.is_control() || "%?#;\\".contains(c);
        if rest.contains(strange) {
            return Err(
                "must be plain: no blanks, escapes, query, parameters or backslashes".into()
            );
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (rest, open) = match rest.strip_suffix("**") {
            Some(before) => (before.strip_suffix('/').unwrap_or(before), true),
            None => (rest, false),
        };
        if open && !text.trim_end_matches('/').ends_with("/**") {
            return Err("`**` must be a whole segment at the end".into());
        }
        let mut segments = Vec::new();
        for name in rest.split('/').filter(|_| !rest.is_empty()) {
            segments.push(match name {
                "*" => Segment::Any,
                "" | "." | ".." => return Err("has an empty, `.` or `..` segment".into()),
                name if name.contains('*') => {
                    return Err("`*` must be a whole segment, and `**` stand at the end".into());
                }
                name => Segment::Named(name.to_ascii_lowercase()),
            });
        }
        if segments.len() > PATH_PATTERN_SEGMENTS_MAX {
            return Err(format!("has more than {PATH_PATTERN_SEGMENTS_MAX} segments"));
        }
        Ok(Self { segments, open })
    }

    /// Whether it is one of these. The path is decoded, in lower case, with single slashes and none
    /// at the end.
    pub fn fits(&self, path: &str) -> bool {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let all = self.segments.iter().all(|own| match (own, segments.next()) {
            (Segment::Any, Some(_)) => true,
            (Segment::Named(name), Some(segment)) => name == segment,
            (Segment::Any | Segment::Named(_), None) => false,
        });
        all && (self.open || segments.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_segments() {
        for (pattern, fitting, other) in [
            (
                "/v1/pay",
                &["/v1/pay"][..],
                &["/v1", "/v1/pay/x", "/v1/payment", "/x/v1/pay", ""][..],
            ),
            ("/V1/Pay/", &["/v1/pay"], &["/v1"]),
            ("/v1/*/pay", &["/v1/a/pay", "/v1/*/pay"], &["/v1/pay", "/v1/a/b/pay"]),
            ("/v1/**", &["/v1", "/v1/a", "/v1/a/b"], &["/v2/a", "/v10"]),
            ("/**", &["", "/a", "/a/b"], &[]),
            ("/", &[""], &["/a"]),
            ("/*", &["/a"], &["", "/a/b"]),
            ("/x:mutate", &["/x:mutate"], &["/x"]),
        ] {
            let compiled = PathPattern::parse(pattern).unwrap();
            for path in fitting {
                assert!(compiled.fits(path), "{pattern} {path}");
            }
            for path in other {
                assert!(!compiled.fits(path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn patterns_that_could_never_fit_are_refused() {
        let long = format!("/{}", "a".repeat(PATH_PATTERN_BYTES_MAX));
        let deep = "/a".repeat(PATH_PATTERN_SEGMENTS_MAX + 1);
        for pattern in [
            "", "v1", "/a b", "/%61", "/a?x=1", "/a#b", "/a;b", "/a\\b", "/a//b", "/../a", "/./a",
            "/a*", "/**/a", "/a**", "/a/***", "/a\tb", &long, &deep,
        ] {
            assert!(PathPattern::parse(pattern).is_err(), "{pattern:?}");
        }
    }
}
