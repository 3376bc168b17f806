//! Errors of a configuration with their source: the one form of every message.

pub use larder_stdx::nearest::nearest;
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

impl Source {
    /// Whether it is in the line of another one, or is the same flag.
    pub(crate) fn is_line_of(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Line { file, line, .. }, Source::Line { file: also, line: of, .. }) => {
                (file, line) == (also, of)
            }
            _ => self == other,
        }
    }
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
