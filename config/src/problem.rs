//! Errors of a configuration with their source: the one form of every message.

use std::fmt;
use std::sync::Arc;

/// The source of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Not set.
    #[default]
    Default,
    /// A line of the file, counted from 1.
    Line {
        /// The file as it was named.
        file: Arc<str>,
        /// The line.
        line: u32,
        /// The character within it, counted from 1.
        column: u32,
    },
    /// A flag or an argument of the command line.
    Flag(Arc<str>),
    /// The preset of this name, which the route has.
    Preset(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::Line { file, line, .. } => write!(f, "{file}:{line}"),
            Source::Flag(flag) => f.write_str(flag),
            Source::Preset(name) => write!(f, "preset {name}"),
        }
    }
}

/// One error, or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its source.
    pub source: Source,
    /// The key, with dots, or empty for the file as a whole.
    pub key: String,
    /// The error and a valid form.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source, self.key.is_empty()) {
            (Source::Flag(flag), _) => write!(f, "{flag}: {}", self.text),
            (source, true) => write!(f, "{source}: {}", self.text),
            (source, false) => write!(f, "{source}: {}: {}", self.key, self.text),
        }
    }
}

/// A rejected configuration: every problem, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected(pub Vec<Problem>);

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejected {}

/// The most similar word of `words`; `None` if none is similar.
pub fn nearest<'a>(wrong: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (wrong.chars().count() / 3).clamp(1, 3);
    words
        .map(|it| (distance(&wrong.to_ascii_lowercase(), it), it))
        .min_by_key(|it| it.0)
        .filter(|it| it.0 <= limit)
        .map(|it| it.1)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replace = rows[i][j] + usize::from(x != y);
            let mut best = replace.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_words() {
        #[track_caller]
        fn check(wrong: &str, expect: Option<&str>) {
            assert_eq!(
                expect,
                nearest(wrong, ["listen", "workers", "limits", "site"].into_iter()),
                "{wrong}"
            );
        }
        check("lisen", Some("listen"));
        check("wrokers", Some("workers"));
        check("Sites", Some("site"));
        check("limit", Some("limits"));
        check("colour", None);
        check("", None);
    }
}
