//! Whether one path pattern matches every path of another: the basis of warnings about unreachable routes.

use super::{Decode, PathPattern, PatternSegment, Shape};

impl PathPattern {
    /// Whether it matches every path of `other`. Only sure answers are `true`: of regular expressions, a literal text
    /// and `.*` are analysed.
    #[must_use]
    pub fn covers(&self, other: &PathPattern) -> bool {
        if self == other || self.is_all() {
            return true;
        }
        match (&*self.shape, &*other.shape) {
            (_, Shape::Exact(path)) => self.matches(&path.normal),
            (Shape::Between(before, after), theirs) => {
                let (begin, end) = ends(theirs);
                begin.starts_with(&before.normal) && end.ends_with(&after.normal)
            }
            (Shape::Segments(_, ours), Shape::Segments(_, theirs)) => segments_cover(ours, theirs),
            (Shape::Regex(_), theirs) => {
                self.open_beginning().is_some_and(|it| ends(theirs).0.starts_with(it))
            }
            (Shape::Exact(_) | Shape::Segments(..), _) => false,
        }
    }

    /// The text of a regular expression that matches every path with this beginning: `/a/.*`, `^/a/(.*)$`.
    fn open_beginning(&self) -> Option<&[u8]> {
        let text = self.text.strip_prefix("regex:")?;
        let text = text.strip_prefix('^').unwrap_or(text);
        let text = text.strip_suffix('$').unwrap_or(text);
        let text = text.strip_suffix("(.*)").or_else(|| text.strip_suffix(".*"))?;
        (!text.contains(['\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$']))
            .then_some(text.as_bytes())
    }

    /// Whether some path may match both, in the directory form without its last slash, too. Only `false` is sure.
    #[must_use]
    pub fn may_meet(&self, other: &PathPattern) -> bool {
        let takes = |it: &PathPattern, path: &[u8]| it.matches(path) || it.is_directory(path, Decode::All);
        match (&*self.shape, &*other.shape) {
            (_, Shape::Exact(path)) => takes(self, &path.normal),
            (Shape::Exact(path), _) => takes(other, &path.normal),
            (ours, theirs) => {
                let [(begin, end), (other_begin, other_end)] = [ends(ours), ends(theirs)];
                let [begin, other_begin] = [begin, other_begin].map(|it| it.strip_suffix(b"/").unwrap_or(it));
                (begin.starts_with(other_begin) || other_begin.starts_with(begin))
                    && (end.ends_with(&other_end) || other_end.ends_with(&end))
            }
        }
    }
}

/// The bytes that every path of a shape begins with, and those that it ends with behind them.
fn ends(shape: &Shape) -> (&[u8], Vec<u8>) {
    match shape {
        Shape::Exact(before) | Shape::Regex(before) => (&before.normal, Vec::new()),
        Shape::Between(before, after) => (&before.normal, after.normal.to_vec()),
        Shape::Segments(before, segments) => {
            let mut end = Vec::new();
            for segment in segments.iter().rev() {
                match segment {
                    PatternSegment::Literal(it) => {
                        end.splice(0..0, [b"/", &*it.normal].concat());
                    }
                    PatternSegment::Capture(_, after) => {
                        end.splice(0..0, after.normal.iter().copied());
                        break;
                    }
                    PatternSegment::Rest => break,
                }
            }
            (&before.normal, end)
        }
    }
}

fn segments_cover(ours: &[PatternSegment], theirs: &[PatternSegment]) -> bool {
    for (at, our) in ours.iter().enumerate() {
        let covers = match (our, theirs.get(at)) {
            (PatternSegment::Rest, Some(_)) => return true,
            (_, None) => false,
            (PatternSegment::Literal(a), Some(PatternSegment::Literal(b))) => a == b,
            (PatternSegment::Capture(before, after), Some(PatternSegment::Literal(b))) => {
                super::between(&b.normal, &before.normal, &after.normal).is_some_and(|it| it.0 < it.1)
            }
            (PatternSegment::Capture(before, after), Some(PatternSegment::Capture(b, a))) => {
                b.normal.starts_with(&before.normal) && a.normal.ends_with(&after.normal)
            }
            (PatternSegment::Literal(_) | PatternSegment::Capture(..), Some(_)) => false,
        };
        if !covers {
            return false;
        }
    }
    ours.len() == theirs.len()
}
